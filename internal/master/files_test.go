package master

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/storage/faultfs"
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
	case <-time.After(time.Minute):
		t.Error("the master runs on without its directory")
	}
	if err := m.Close(); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "journal")) ||
		!strings.Contains(err.Error(), "removed or replaced") {
		t.Errorf("it ended with %v", err)
	}
}
