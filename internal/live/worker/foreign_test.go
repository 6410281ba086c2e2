package worker

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/data/engine/runfile"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// The tests of this file have the worker read files that a process of a job has written. The
// worker's memory for such a file must have a bound that the process cannot raise.

// allocated returns the bytes that f allocates, in all goroutines.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// writeBomb writes a sparse run file of empty partitions, with checksums that fit.
func writeBomb(path string, partitions int) error {
	const header, entry = 8, 3
	n := entry * partitions
	foot := make([]byte, 48)
	binary.LittleEndian.PutUint64(foot, header)
	binary.LittleEndian.PutUint32(foot[8:], uint32(n))
	binary.LittleEndian.PutUint32(foot[12:], uint32(partitions))
	h, zeros := xxhash.New(), make([]byte, 1<<16)
	for left := n; left > 0; left -= len(zeros) {
		h.Write(zeros[:min(left, len(zeros))])
	}
	binary.LittleEndian.PutUint64(foot[24:], h.Sum64())
	binary.LittleEndian.PutUint64(foot[32:], xxhash.Sum64(foot[:32]))
	copy(foot[40:], "slotrun.")
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, first := f.WriteString("slotrun\x01")
	_, last := f.WriteAt(foot, int64(header+n))
	return errors.Join(first, last, f.Close())
}

// writeRun writes a run file with a record in each partition.
func writeRun(path string, partitions int) error {
	var b bytes.Buffer
	w := runfile.NewWriter(&b, runfile.Options{Partitions: partitions})
	var errs []error
	for p := range partitions {
		errs = append(errs, w.Append(p, []byte("key"), []byte("value")))
	}
	return errors.Join(append(errs, w.Finish(), os.WriteFile(path, b.Bytes(), 0o600))...)
}

// TestForeignOutputs leaves every kind of wrong file as the output of a map. The attempt
// fails, the worker keeps no file, and its memory is bounded. A worker that finds such a
// file when it starts removes it, or lists it within the same bound.
func TestForeignOutputs(t *testing.T) {
	h, err := openHome(filepath.Join(t.TempDir(), "w"), "", false)
	if err != nil {
		t.Fatal(err)
	}
	defer h.close()
	const partitions, most = 3, 256 << 10
	elsewhere := filepath.Join(t.TempDir(), "run")
	if err := writeRun(elsewhere, partitions); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		name string
		make func(path string) error
		good bool
	}{
		{"a run file", func(path string) error { return writeRun(path, partitions) }, true},
		{"another number of partitions", func(path string) error { return writeRun(path, partitions+1) }, false},
		{"a bomb", func(path string) error { return writeBomb(path, 1_000_000) }, false},
		{"a larger bomb", func(path string) error { return writeBomb(path, 40_000_000) }, false},
		{"nothing", func(string) error { return nil }, false},
		{"an empty file", func(path string) error { return os.WriteFile(path, nil, 0o600) }, false},
		{"a sparse file", func(path string) error {
			return errors.Join(os.WriteFile(path, []byte("slotrun\x01"), 0o600), os.Truncate(path, 1<<40))
		}, false},
		{"a link to a run file", func(path string) error { return os.Symlink(elsewhere, path) }, false},
		{"a pipe", func(path string) error { return syscall.Mkfifo(path, 0o600) }, false},
		{"a directory", func(path string) error { return os.Mkdir(path, 0o700) }, false},
	} {
		id, err := job.ParseAttempt(fmt.Sprintf("j1_m_%d_0", i))
		if err != nil {
			t.Fatal(err)
		}
		from := filepath.Join(t.TempDir(), "output.run")
		if err := c.make(from); err != nil {
			t.Fatal(err)
		}
		if got := allocated(func() { err = h.keepOutput(id, from, nil, partitions) }); got > most || (err == nil) != c.good {
			t.Errorf("%s: %v, %d bytes", c.name, err, got)
		}
		if _, err := os.Lstat(h.output(id)); (err == nil) != c.good {
			t.Errorf("%s is kept: %v", c.name, err)
		}
		// An earlier version may have kept it.
		if err := os.Rename(from, h.output(id)); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		held := 0
		got := allocated(func() {
			list, e := h.heldOutputs()
			held, err = len(list), e
		})
		if valid := c.good || c.name == "a bomb" || c.name == "another number of partitions"; got > most || err != nil || held != map[bool]int{true: 1}[valid] {
			t.Errorf("%s: at the start %d outputs are held, %v, %d bytes", c.name, held, err, got)
		}
		if err := os.RemoveAll(h.output(id)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestForeignMessages sends messages over the pipe of an attempt that are larger than they
// may be, announce more than they have, or take much memory when they are decoded.
func TestForeignMessages(t *testing.T) {
	// announced begins a message of n bytes.
	announced := func(n int) []byte { return protowire.AppendVarint(nil, uint64(n)) }
	// delimited is a whole message.
	delimited := func(m *slotwisev1.FromAttempt) []byte {
		var b bytes.Buffer
		if _, err := protodelim.MarshalTo(&b, m); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	many := map[string]int64{}
	for i := range 40_000 { // 8 to 10 bytes each
		many[fmt.Sprint(i)] = 1
	}
	const most = 40 * bounds.Report
	for name, c := range map[string]struct {
		bytes []byte
		taken bool
	}{
		"a text of 1 MiB":       {delimited(&slotwisev1.FromAttempt{What: &slotwisev1.FromAttempt_Done{Done: &slotwisev1.Done{Error: strings.Repeat("x", 1<<20)}}}), false},
		"64 MiB announced":      {announced(64 << 20), false},
		"1 TiB announced":       {announced(1 << 40), false},
		"the most announced":    {announced(bounds.Report), false},
		"many counters":         {delimited(&slotwisev1.FromAttempt{What: &slotwisev1.FromAttempt_Done{Done: &slotwisev1.Done{Ok: true, Counters: &slotwisev1.Counters{User: many}}}}), true},
		"empty parts in a list": {append(announced(500_000), bytes.Repeat([]byte{0x22, 0}, 250_000)...), true}, // Done, again and again
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			w.Write(c.bytes) // fails once the reader has given up
			w.Close()
		}()
		var done *slotwisev1.Done
		got := allocated(func() {
			done = (&child{out: r, reader: bufio.NewReader(r)}).receive(func(*slotwisev1.FromAttempt) {})
		})
		r.Close()
		if got > most || (done != nil) != c.taken {
			t.Errorf("%s: %d bytes of memory, taken: %v", name, got, done != nil)
		}
	}
}

// TestForeignDir lets an attempt leave many files in its working directory. The worker looks at
// a few names to see that the directory is not empty.
func TestForeignDir(t *testing.T) {
	dir := t.TempDir()
	work := filepath.Join(dir, "work")
	if err := errors.Join(os.Chmod(dir, 0o700), os.Mkdir(work, 0o700)); err != nil {
		t.Fatal(err)
	}
	if !isFresh(dir, "work") || !isFresh(work) {
		t.Error("an empty working directory is not fresh")
	}
	for i := range 5000 {
		if err := os.WriteFile(filepath.Join(work, strings.Repeat("x", 200)+fmt.Sprint(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var fresh bool
	if got := allocated(func() { fresh = isFresh(work) }); fresh || got > 64<<10 {
		t.Errorf("a directory of 5000 files: fresh: %v, %d bytes of memory", fresh, got)
	}
}
