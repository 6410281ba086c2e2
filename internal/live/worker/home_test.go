package worker

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slotwise/slotwise/internal/testkit/faultfs"
)

// TestLineCrashes stops a worker after each operation on a one-line file. Then the power
// is cut at once, or the next worker reads the file first. A line that a worker has used
// stays; otherwise the file holds a whole line or is absent.
func TestLineCrashes(t *testing.T) {
	const old, fresh = "w-old", "w-fresh-and-longer-than-a-page"
	for _, replaces := range []bool{false, true} {
		for _, next := range []bool{false, true} {
			stopped := true
			for after := 0; stopped; after++ {
				for seed := range uint64(20) {
					disk := faultfs.NewDisk()
					if disk.Put("w/other", nil); replaces {
						disk.Put("w/name", []byte(old+"\n"))
					}
					disk.StopAfter(after)
					used, err := fresh, error(nil)
					if replaces {
						err = replaceFile(disk, "w/name", fresh)
					} else {
						used, err = readOrCreate(disk, "w/name", fresh)
					}
					if stopped = disk.Stopped(); stopped == (err == nil) {
						t.Fatalf("stopped: %v, %v", stopped, err)
					}
					promised := err == nil
					if next {
						disk = disk.Kill()
						if used, err = readOrCreate(disk, "w/name", "w-next"); err != nil {
							t.Fatal(err)
						}
						promised = true
					}
					disk = disk.Crash(rand.New(rand.NewPCG(seed, uint64(after))))
					got := string(disk.Bytes("w/name"))
					whole := got == fresh+"\n" || replaces && got == old+"\n" || !replaces && got == "" || got == "w-next\n"
					if !whole || promised && got != used+"\n" {
						t.Fatalf("replaces %v, next %v, stopped after %d, seed %d: %q, used %q", replaces, next, after, seed, got, used)
					}
				}
			}
		}
	}
}

// TestHomeGone: a worker's directory that is moved, removed or replaced is gone.
func TestHomeGone(t *testing.T) {
	for name, change := range map[string]func(dir string) error{
		"removed": os.RemoveAll,
		"moved":   func(dir string) error { return os.Rename(dir, dir+"-moved") },
		"replaced": func(dir string) error {
			return errors.Join(os.Rename(dir, dir+"-moved"), os.CopyFS(dir, os.DirFS(dir+"-moved")))
		},
	} {
		dir := filepath.Join(t.TempDir(), "w")
		h, err := openHome(dir, "", false)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.gone(); err != nil {
			t.Errorf("%s: before: %v", name, err)
		}
		if err := change(dir); err != nil {
			t.Fatal(err)
		}
		if err := h.gone(); !errors.Is(err, errDiskGone) {
			t.Errorf("%s: %v", name, err)
		}
		if err := h.close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestProbe: a disk that cannot create, write or sync a file is reported, and the probe
// leaves nothing behind.
func TestProbe(t *testing.T) {
	for _, op := range []faultfs.Op{faultfs.Create, faultfs.Write, faultfs.Sync} {
		disk := faultfs.NewDisk()
		if err := probe(disk, "probe"); err != nil {
			t.Fatal(err)
		}
		disk.Inject(faultfs.Rule{Op: op})
		if err := probe(disk, "probe"); !errors.Is(err, syscall.EIO) || len(disk.Names()) != 0 {
			t.Errorf("%s: %v, left %v", op, err, disk.Names())
		}
	}
}

// TestStarterKnowsItsProcesses: a starter knows the processes that it has started until it
// has waited for them. The worker kills processes with its mark that it does not know.
func TestStarterKnowsItsProcesses(t *testing.T) {
	s, err := newStarter(false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	owns := func(pid int) (own bool) {
		s.withOwn(func(isOwn func(int) bool) { own = isOwn(pid) })
		return own
	}
	if err := s.start(exec.Command("/no/such/program")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing program: %v", err)
	}
	c := exec.Command("sleep", "1000")
	if err := s.start(c); err != nil {
		t.Fatal(err)
	}
	if !owns(c.Process.Pid) {
		t.Error("the process is not known")
	}
	if err := c.Process.Kill(); err != nil {
		t.Error(err)
	}
	if err := s.wait(c); err == nil || owns(c.Process.Pid) {
		t.Errorf("the process is known after it was killed, %v", err)
	}
}

// A directory that a user could replace is refused before the worker removes anything in it.
func TestOwnedHome(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give directories away")
	}
	for name, spoil := range map[string]func(dir, elsewhere string) error{
		"is not root's":                     func(dir, _ string) error { return os.Chown(dir, 65534, 65534) },
		"can be written by other users":     func(dir, _ string) error { return os.Chmod(filepath.Dir(dir), 0o777) },
		"attempts is not a directory":       func(dir, elsewhere string) error { return os.Symlink(elsewhere, filepath.Join(dir, "attempts")) },
		"parent is not root's; choose a ne": func(dir, _ string) error { return os.Chown(filepath.Dir(dir), 65534, 65534) },
	} {
		dir, elsewhere := filepath.Join(t.TempDir(), "parent", "w"), t.TempDir()
		kept := filepath.Join(elsewhere, "kept")
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(kept, nil, 0o600), spoil(dir, elsewhere)); err != nil {
			t.Fatal(err)
		}
		if _, err := openHome(dir, "", true); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: the error is %v", name, err)
		}
		if _, err := os.Stat(kept); err != nil {
			t.Error(err)
		}
	}
	h, err := openHome(filepath.Join(t.TempDir(), "w"), "", true)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.close(); err != nil {
		t.Error(err)
	}
}
