package master

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/testkit/faultfs"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// shaOf returns the name of a content in the store.
func shaOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

// filesOn opens the store on a disk.
func filesOn(t *testing.T, disk *faultfs.Disk) *fileStore {
	t.Helper()
	s, err := openFiles(disk, "m", Limits{File: 1 << 20, Files: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestUploadCrashes stops the master after each operation of its start and of an upload.
// Then the power is cut at once, or the next master accepts a job that needs the file
// first. A file that was acknowledged, or that an accepted job needs, is there whole. No
// other file has its name, and no temporary file stays.
func TestUploadCrashes(t *testing.T) {
	t.Parallel()
	const content = "a program that is longer than one page of the disk"
	program := &slotwisev1.Program{Executable: shaOf(content)}
	for _, accept := range []bool{false, true} {
		stopped := true
		for after := 0; stopped; after++ {
			for seed := range uint64(20) {
				disk := faultfs.NewDisk()
				disk.StopAfter(after)
				s, err := openFiles(disk, "m", Limits{File: 1 << 20, Files: 1 << 20})
				if err == nil {
					err = s.write(strings.NewReader(content), shaOf(content))
				}
				stopped = disk.Stopped()
				promised := err == nil
				if promised == stopped {
					t.Fatalf("stopped: %v, and the upload returned %v", stopped, err)
				}
				if accept {
					disk = disk.Kill()
					promised = filesOn(t, disk).require(program) == nil
				}
				disk = disk.Crash(rand.New(rand.NewPCG(seed, uint64(after))))
				s = filesOn(t, disk)
				got := disk.Bytes(s.path(shaOf(content)))
				if string(got) != content && (promised || got != nil) {
					t.Fatalf("stopped after %d operations, seed %d, accepted %v: promised %v, and the file is %q", after, seed, accept, promised, got)
				}
				for _, name := range disk.Names() {
					if strings.Contains(name, "upload") {
						t.Fatalf("stopped after %d operations: %s is left", after, name)
					}
				}
			}
		}
	}
}

// TestUploadFails makes each operation of an upload fail. The upload returns the error
// and leaves no file.
func TestUploadFails(t *testing.T) {
	t.Parallel()
	for _, op := range []faultfs.Op{faultfs.Create, faultfs.Write, faultfs.Sync, faultfs.Rename} {
		disk := faultfs.NewDisk()
		s := filesOn(t, disk)
		disk.Inject(faultfs.Rule{Op: op, Nth: 1, Err: syscall.ENOSPC})
		err := s.write(strings.NewReader("content"), shaOf("content"))
		if !errors.Is(err, syscall.ENOSPC) || s.touch(shaOf("content")) {
			t.Errorf("%s: %v", op, err)
		}
		if names := disk.Names(); len(names) != 2 { // m and m/files
			t.Errorf("%s: left %v", op, names)
		}
	}
	disk := faultfs.NewDisk()
	s := filesOn(t, disk)
	if err := s.write(bytes.NewReader(nil), shaOf("content")); !errors.Is(err, errMismatch) || len(disk.Names()) != 2 {
		t.Errorf("another content: %v, left %v", err, disk.Names())
	}
	disk.Inject(faultfs.Rule{Op: faultfs.SyncDir})
	if err := s.write(strings.NewReader("content"), shaOf("content")); !errors.Is(err, syscall.EIO) {
		t.Errorf("the name cannot be synced: %v", err)
	}
	if err := s.require(&slotwisev1.Program{Executable: shaOf("content")}); !errors.Is(err, syscall.EIO) {
		t.Errorf("a job needs the file whose name cannot be synced: %v", err)
	}
}

// TestDirectoryReplaced moves the directory of a running master away. The master ends by
// itself and says why.
func TestDirectoryReplaced(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "m")
	m, err := Open(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, dir+"-moved"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-m.Done():
	case <-time.After(4 * time.Minute):
		t.Error("the master runs on without its directory")
	}
	if err := m.Close(); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "journal")) ||
		!strings.Contains(err.Error(), "removed or replaced") {
		t.Errorf("it ended with %v", err)
	}
}

// trickle yields a byte after each pause.
type trickle struct{ pause time.Duration }

// Read implements io.Reader.
func (r trickle) Read(p []byte) (int, error) {
	time.Sleep(r.pause)
	return copy(p, "x"), nil
}

// An upload that brings a byte now and then ends, and gives its place and its room back.
func TestUploadSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := filesOn(t, faultfs.NewDisk())
		for _, length := range []int64{-1, 1 << 19} {
			began := time.Now()
			u, err := s.begin(t.Context(), trickle{20 * time.Second}, "ann", length)
			if err != nil {
				t.Fatal(err)
			}
			err = s.write(u, shaOf("content"))
			u.end(shaOf("content"))
			if took := time.Since(began); !errors.Is(err, errTooSlow) || took > time.Minute {
				t.Errorf("an upload of %d bytes ends after %v: %v", length, took, err)
			}
			if s.places.Used() != 0 || s.mu.room.Used() != 0 {
				t.Errorf("%d places and %d bytes are held", s.places.Used(), s.mu.room.Used())
			}
		}
	})
}

// A body that makes the handler panic leaves the place and the room of its upload free: the
// server recovers, and the user would have lost them until the master restarts.
func TestUploadPanics(t *testing.T) {
	t.Parallel()
	s := filesOn(t, faultfs.NewDisk())
	r := httptest.NewRequest(http.MethodPut, "/", brokenBody{})
	r.SetPathValue("sha", shaOf("content"))
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the upload did not panic")
			}
		}()
		s.ServeHTTP(httptest.NewRecorder(), r)
	}()
	if s.places.Used() != 0 || s.mu.room.Used() != 0 {
		t.Errorf("%d places and %d bytes are held", s.places.Used(), s.mu.room.Used())
	}
}

// brokenBody panics when it is read.
type brokenBody struct{}

// Read implements io.Reader.
func (brokenBody) Read([]byte) (int, error) { panic("broken") }

// Empty files count, too: else their number would be bounded by nothing. The store of the
// next master counts them as this one does, and forgets files that somebody has removed.
func TestManySmallFiles(t *testing.T) {
	t.Parallel()
	disk := faultfs.NewDisk()
	limits := Limits{File: 1 << 20, Files: 8 * bounds.FileCost}
	s, err := openFiles(disk, "m", limits)
	if err != nil {
		t.Fatal(err)
	}
	upload := func(user string) (stored int) {
		for i := range 100 {
			content := user + strconv.Itoa(i)
			u, err := s.begin(t.Context(), strings.NewReader(content), user, int64(len(content)))
			if err != nil {
				if uploadStatus(err) != http.StatusInsufficientStorage || !strings.Contains(err.Error(), "each file counted as at least 65536") {
					t.Errorf("file %d of %s: %v", i, user, err)
				}
				break
			}
			if err := s.receive(u, shaOf(content)); err != nil {
				t.Fatal(err)
			}
			stored++
		}
		return stored
	}
	if ann, bob := upload("ann"), upload("bob"); ann != 4 || bob != 2 {
		t.Errorf("of room for 8 files ann has %d and bob %d", ann, bob)
	}
	if s, err = openFiles(disk, "m", limits); err != nil || s.mu.room.Used() != 6*bounds.FileCost {
		t.Errorf("the next master counts %d bytes, error %v", s.mu.room.Used(), err)
	}
	if err := disk.Remove(s.path(shaOf("ann0"))); err != nil {
		t.Fatal(err)
	}
	if s.touch(shaOf("ann0")) || s.mu.room.Used() != 5*bounds.FileCost {
		t.Errorf("after a removal %d bytes count", s.mu.room.Used())
	}
}

// Whatever users upload, how it ends, and in which order: the bytes that count are the
// bytes on the disk, and no user has more than his share.
func TestFileRoom(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		disk := faultfs.NewDisk()
		const unit = bounds.FileCost / 8 // some contents are smaller than what a file counts for
		s, err := openFiles(disk, "m", Limits{File: 40 * unit, Files: 100 * unit})
		if err != nil {
			t.Fatal(err)
		}
		open := map[string]*upload{}
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			content := strings.Repeat(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "letter"), unit*rapid.IntRange(0, 50).Draw(t, "length"))
			user := rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "user")
			key := user + shaOf(content)
			if u := open[key]; u != nil { // it ends
				name := content
				if rapid.Bool().Draw(t, "damaged") {
					name += "?"
				}
				err := s.write(u, shaOf(name))
				u.end(shaOf(name))
				delete(open, key)
				if err != nil && uploadStatus(err) == http.StatusInternalServerError {
					t.Fatalf("an upload of %d bytes: %v", len(content), err)
				}
				continue
			}
			length := int64(len(content))
			if rapid.Bool().Draw(t, "unknown length") {
				length = -1
			}
			if u, err := s.begin(context.Background(), strings.NewReader(content), user, length); err == nil {
				open[key] = u
			}
		}
		sum := int64(0)
		for _, name := range disk.Names() {
			if isSHA(path.Base(name)) { // and no directory
				sum += max(bounds.FileCost, int64(len(disk.Bytes(name))))
			}
		}
		for _, u := range open {
			sum += u.reserved
		}
		if s.mu.room.Used() != sum || sum > 100*unit || s.mu.room.Held("ann") > 50*unit {
			t.Fatalf("%d bytes are there, counted as %d; ann has %d", sum, s.mu.room.Used(), s.mu.room.Held("ann"))
		}
	})
}
