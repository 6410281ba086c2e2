package master_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/base/durable"
	"github.com/slotwise/slotwise/internal/live/history"
	"github.com/slotwise/slotwise/internal/live/journal"
	"github.com/slotwise/slotwise/internal/live/master"
	"github.com/slotwise/slotwise/internal/testkit/faultfs"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// machine returns a disk with the directory m of a master, which has files of all kinds
// and others that are no part of a backup.
func machine(t *testing.T) *faultfs.Disk {
	t.Helper()
	real := t.TempDir()
	l, err := journal.Open(filepath.Join(real, "journal"), journal.Options{SegmentBytes: 100})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		l.Append(bytes.Repeat([]byte{byte(n)}, 60))
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	disk := faultfs.NewDisk()
	err = filepath.WalkDir(real, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(real, path)
		disk.Put(filepath.Join("m", rel), b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	program := []byte("a program of some length")
	sum := sha256.Sum256(program)
	disk.Put("m/files/"+hex.EncodeToString(sum[:]), program)
	disk.Put("m/files/upload-x", program)
	return disk
}

// TestHistory copies the directory of a master that has written a history, and restores it.
func TestHistory(t *testing.T) {
	dir, to := t.TempDir(), t.TempDir()
	h, err := history.Open(dir, history.Limits{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if err := h.Put(&slotwisev1.HistoryJob{Job: &slotwisev1.JobStatus{Id: "j7", User: "ann"}}); err != nil {
		t.Fatal(err)
	}
	l, err := journal.Open(filepath.Join(dir, "journal"), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Mkdir(filepath.Join(dir, "files"), 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(to, "b.tar")
	// The user's own files beside the backup stay.
	for _, name := range []string{"b.tar.new", "b.tar.history.new"} {
		if err := os.WriteFile(filepath.Join(to, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if _, err := os.Stat(filepath.Join(to, name)); err != nil {
				t.Error(err)
			}
		}()
	}
	if _, err := master.Backup(durable.OS(), dir, file); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(to); err != nil || len(left) != 3 {
		t.Errorf("the backup left %v, %v", left, err)
	}
	if _, err := master.Restore(durable.OS(), file, filepath.Join(to, "m")); err != nil {
		t.Fatal(err)
	}
	again, err := history.Open(filepath.Join(to, "m"), history.Limits{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if j, err := again.Get("j7"); err != nil || j.Job.User != "ann" {
		t.Errorf("restored %v, %v", j, err)
	}
}

// meddler writes a file when another one is opened, as another process can.
type meddler struct {
	*faultfs.Disk
	opened, writes string
}

// OpenFile implements durable.FS.
func (m meddler) OpenFile(path string, flag int, perm fs.FileMode) (durable.File, error) {
	if strings.HasPrefix(path, m.opened) {
		m.Put(m.writes, []byte("another's"))
	}
	return m.Disk.OpenFile(path, flag, perm)
}

// TestBackupMeetsFile: a file that gets the backup's name while the backup is written stays.
func TestBackupMeetsFile(t *testing.T) {
	disk := machine(t)
	if _, err := master.Backup(meddler{disk, "m/files/", "b.tar"}, "m", "b.tar"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("error %v", err)
	}
	if got := disk.Bytes("b.tar"); string(got) != "another's" {
		t.Errorf("the file has %d other bytes", len(got))
	}
}

// contents returns the files below a directory that a backup has.
func contents(disk *faultfs.Disk, dir string) map[string]string {
	files := map[string]string{}
	for _, name := range disk.Names() {
		rel, ok := strings.CutPrefix(name, dir+"/")
		if info, err := disk.Stat(name); ok && err == nil && !info.IsDir() &&
			!strings.Contains(rel, "upload") && !strings.HasSuffix(rel, ".new") && !strings.HasSuffix(rel, "lock") {
			files[rel] = string(disk.Bytes(name))
		}
	}
	return files
}

func same(a, b map[string]string) bool {
	return len(a) == len(b) && !slices.ContainsFunc(keys(a), func(k string) bool { return a[k] != b[k] })
}

func keys(m map[string]string) (list []string) {
	for k := range m {
		list = append(list, k)
	}
	return list
}

// TestRoundTrip: the restored directory has the files of the master's.
func TestRoundTrip(t *testing.T) {
	disk := machine(t)
	want := contents(disk, "m")
	sum, err := master.Backup(disk, "m", "b.tar")
	if err != nil || sum.Files != len(want) {
		t.Fatalf("%+v, %v; want %d files", sum, err, len(want))
	}
	if again, err := master.Restore(disk, "b.tar", "new/n"); err != nil || again != sum {
		t.Fatalf("restored %+v, %v; want %+v", again, err, sum)
	}
	if got := contents(disk, "new/n"); !same(got, want) {
		t.Errorf("restored %v, want %v", keys(got), keys(want))
	}
	if _, err := master.Backup(disk, "m", "b.tar"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over an older backup: %v", err)
	}
	for _, dir := range []string{"m", "m/files"} {
		if _, err := master.Restore(disk, "b.tar", dir); !errors.Is(err, master.ErrNotEmpty) {
			t.Errorf("restored into %s: %v", dir, err)
		}
	}
	if err := disk.Mkdir("empty", 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := master.Restore(disk, "b.tar", "empty"); err != nil || !same(contents(disk, "empty"), want) {
		t.Errorf("restored into an empty directory: %v", err)
	}
}

// TestDamagedSource: a damaged file of the master's directory fails the backup with its
// name, and leaves no backup.
func TestDamagedSource(t *testing.T) {
	for name := range contents(machine(t), "m") {
		disk := machine(t)
		b := disk.Bytes("m/" + name)
		if len(b) <= 32 {
			continue // a segment without records
		}
		b[len(b)/2] ^= 1
		_, err := master.Backup(disk, "m", "b.tar")
		lastSegment := strings.HasPrefix(name, "journal/") && err == nil
		if lastSegment {
			continue // it looks like a write that was interrupted
		}
		if err == nil || !strings.Contains(err.Error(), filepath.Base(name)) && !strings.Contains(err.Error(), "j") {
			t.Errorf("%s is damaged: %v", name, err)
		}
		if disk.Bytes("b.tar") != nil {
			t.Errorf("%s is damaged, and there is a backup", name)
		}
	}
}

// TestDamagedBackup flips a bit of each byte of a backup that matters, and cuts the
// backup at many lengths. Restore refuses it, or restores the same files.
func TestDamagedBackup(t *testing.T) {
	disk := machine(t)
	want := contents(disk, "m")
	if _, err := master.Backup(disk, "m", "b.tar"); err != nil {
		t.Fatal(err)
	}
	whole := bytes.Clone(disk.Bytes("b.tar"))
	restore := func(b []byte, what string) {
		disk := faultfs.NewDisk()
		disk.Put("b.tar", b)
		if _, err := master.Restore(disk, "b.tar", "n"); err == nil && !same(contents(disk, "n"), want) {
			t.Errorf("%s: restored other files", what)
		} else if err != nil && len(disk.Names()) != 1 {
			t.Errorf("%s: %v, left %v", what, err, disk.Names())
		}
	}
	for at := 0; at < len(whole); at += 3 {
		b := bytes.Clone(whole)
		b[at] ^= 1 << (at % 8)
		restore(b, fmt.Sprintf("byte %d", at))
	}
	end := bytes.Index(whole, []byte("MANIFEST")) + 512 // of the last header; padding follows the last file
	for size := 0; size < end; size += 200 {
		disk := faultfs.NewDisk()
		disk.Put("b.tar", whole[:size])
		if _, err := master.Restore(disk, "b.tar", "n"); err == nil {
			t.Errorf("restored the first %d bytes of %d", size, len(whole))
		}
	}
}

// TestCrashes cuts the power after each operation of Backup and of Restore. The backup is
// complete or absent, the directory too; both are there once the call has returned.
func TestCrashes(t *testing.T) {
	original := machine(t)
	want := contents(original, "m")
	for step, run := range map[string]func(*faultfs.Disk) error{
		"write":   func(d *faultfs.Disk) error { _, err := master.Backup(d, "m", "b.tar"); return err },
		"restore": func(d *faultfs.Disk) error { _, err := master.Restore(d, "b.tar", "p/n"); return err },
	} {
		before := original.Kill()
		if step == "restore" {
			if _, err := master.Backup(before, "m", "b.tar"); err != nil {
				t.Fatal(err)
			}
		}
		stopped := true
		for after := 0; stopped; after++ {
			for seed := range uint64(3) {
				disk := before.Kill()
				disk.StopAfter(after)
				err := run(disk)
				if stopped = disk.Stopped(); stopped == (err == nil) {
					t.Fatalf("%s: stopped: %v, %v", step, stopped, err)
				}
				disk = disk.Crash(rand.New(rand.NewPCG(seed, uint64(after))))
				if step == "write" {
					if disk.Bytes("b.tar") == nil && stopped {
						continue
					}
					if _, err := master.Restore(disk, "b.tar", "p/n"); err != nil {
						t.Fatalf("%s: stopped after %d, seed %d: the backup: %v", step, after, seed, err)
					}
				}
				if got := contents(disk, "p/n"); !same(got, want) && (len(got) > 0 || !stopped) {
					t.Fatalf("%s: stopped after %d, seed %d: %v", step, after, seed, keys(got))
				}
			}
		}
	}
}

// FuzzRestore restores arbitrary bytes. It fails, or makes a directory of which a backup
// can be made again.
func FuzzRestore(f *testing.F) {
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0}, 1024))
	f.Fuzz(func(t *testing.T, b []byte) {
		disk := faultfs.NewDisk()
		disk.Put("b.tar", b)
		if _, err := master.Restore(disk, "b.tar", "n"); err != nil {
			if len(disk.Names()) != 1 {
				t.Errorf("%v, left %v", err, disk.Names())
			}
			return
		}
		for _, name := range disk.Names() {
			if name != "b.tar" && name != "n" && !strings.HasPrefix(name, "n/") {
				t.Errorf("it wrote %s", name)
			}
		}
		if _, err := master.Backup(disk, "n", "again.tar"); err != nil {
			t.Error(err)
		}
	})
}
