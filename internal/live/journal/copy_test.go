package journal_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/slotwise/slotwise/internal/live/journal"
	"github.com/slotwise/slotwise/internal/testkit/faultfs"
)

// copied returns a disk with a copy of the journal "j".
func copied(files *faultfs.Disk) (*faultfs.Disk, error) {
	to := faultfs.NewDisk()
	err := journal.Copy(files, "j", func(name string, size int64, content io.Reader) error {
		b, err := io.ReadAll(content)
		if err == nil && int64(len(b)) != size {
			err = fmt.Errorf("%s has %d bytes instead of %d", name, len(b), size)
		}
		to.Put(filepath.Join("j", name), b)
		return err
	})
	return to, err
}

// TestCopyWhileWriting copies a journal all the time while another goroutine appends,
// begins segments and writes snapshots. Each copy opens and holds every record that was
// durable when the copy began, and none that was not appended when it ended.
func TestCopyWhileWriting(t *testing.T) {
	files := faultfs.NewDisk()
	l := open(t, files, 300)
	var durable, appended atomic.Int64
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		rng := rand.New(rand.NewPCG(1, 1))
		c := counter{}
		for {
			select {
			case <-stop:
				done <- l.Close()
				return
			default:
			}
			appended.Add(1)
			l.Append(c.next(rng.IntN(50)))
			err := l.Sync()
			if err == nil && rng.IntN(4) == 0 {
				err = snapshot(l, one(fmt.Sprint("upto ", c.n)))
			}
			if err != nil {
				done <- err
				return
			}
			durable.Store(int64(c.n))
		}
	}()
	for range 300 {
		from := durable.Load()
		image, err := copied(files)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the writer was faster each time; the caller may try again
		}
		if err != nil {
			t.Fatal(err)
		}
		upto := appended.Load()
		if n, err := load(open(t, image, 0)); err != nil || int64(n) < from || int64(n) > upto {
			t.Fatalf("the copy has %d records, want %d to %d: %v", n, from, upto, err)
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestCopyDamaged: Copy reports each damaged file of a journal, a missing segment, and a
// directory without a journal. It leaves out a batch that is being written.
func TestCopyDamaged(t *testing.T) {
	files, ends, name := written(t)
	files.Cut(name, ends[3]+5)
	image, err := copied(files)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := load(open(t, image, 0)); n != 6 || err != nil {
		t.Errorf("%d records: %v", n, err)
	}
	if _, err := copied(faultfs.NewDisk()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the copy of nothing: %v", err)
	}
	// Only a segment after another one may lack its header, because it is being created.
	files = faultfs.NewDisk()
	files.Put(name, []byte("slot"))
	if image, err := copied(files); err == nil {
		t.Errorf("a journal without a whole header was copied as %q", image.Names())
	}
	files = faultfs.NewDisk()
	l := open(t, files, 100)
	c := counter{}
	l.Append(c.next(3))
	if err := snapshot(l, one("upto 1")); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		l.Append(c.next(30))
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	names := files.Names()
	for _, name := range names {
		last := name == names[len(names)-2] // an empty segment follows the last record; the snapshot sorts last
		if !journal.IsFile(filepath.Base(name)) || last {
			continue
		}
		files.Bytes(name)[40] ^= 1
		if _, err := copied(files); !errors.As(err, new(*journal.DamageError)) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is damaged: %v", name, err)
		}
		files.Bytes(name)[40] ^= 1
		without := files.Kill()
		if err := without.Remove(name); err != nil {
			t.Fatal(err)
		}
		if _, err := copied(without); err == nil {
			t.Errorf("%s is missing, and the copy succeeds", name)
		}
	}
}
