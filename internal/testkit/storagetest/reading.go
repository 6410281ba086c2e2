package storagetest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/slotwise/slotwise/internal/data/storage"
)

// list checks List and Stat on an output with hidden, empty and nested files.
func (r *run) list() {
	r.output(map[string]string{"b": "bb", ".hidden": "", "a/x": "x", "a-": "1", "_tmp": "22"})
	infos, err := r.fs.List(r.ctx, r.out)
	r.must(err)
	type entry struct {
		name string
		size int64
		dir  bool
	}
	var got []entry
	for _, i := range infos {
		if path.Dir(i.Path) != r.out {
			r.Errorf("%s is not in %s", i.Path, r.out)
		}
		if !i.Dir && i.ModTime.IsZero() {
			r.Errorf("%s has no time", i.Path)
		}
		got = append(got, entry{path.Base(i.Path), i.Size, i.Dir})
	}
	// Names in the order of bytes: "a" before "a-", although S3 lists "a/x" after it.
	want := []entry{{".hidden", 0, false}, {"_SUCCESS", 0, false}, {"_tmp", 2, false}, {"a", 0, true}, {"a-", 1, false}, {"b", 2, false}}
	if !slices.Equal(got, want) {
		r.Errorf("got %v, want %v", got, want)
	}
	for name, dir := range map[string]bool{"a": true, "b": false, "": true} {
		info, err := r.fs.Stat(r.ctx, path.Join(r.out, name))
		r.must(err)
		if info.Dir != dir || info.Path != path.Join(r.out, name) {
			r.Errorf("Stat of %q: %+v", name, info)
		}
	}
	r.missing(path.Join(r.out, "nothing"))
	r.missing(path.Join(r.dir, "nothing", "at", "all"))
	r.missing(path.Join(r.out, "b", "below a file"))
	if _, err := r.fs.Open(r.ctx, path.Join(r.out, "a")); err == nil {
		r.Error("a directory was opened")
	}
	if _, err := r.fs.List(r.ctx, path.Join(r.out, "b")); err == nil {
		r.Error("a file was listed")
	}
}

// missing checks the errors for a path that does not exist.
func (r *run) missing(p string) {
	r.Helper()
	_, open := r.fs.Open(r.ctx, p)
	_, stat := r.fs.Stat(r.ctx, p)
	_, list := r.fs.List(r.ctx, p)
	for op, err := range map[string]error{"Open": open, "Stat": stat, "List": list} {
		// A path below a file may fail with ENOTDIR instead.
		if err == nil || !strings.Contains(err.Error(), path.Base(p)) ||
			!errors.Is(err, fs.ErrNotExist) && path.Base(p) != "below a file" {
			r.Errorf("%s of %s: %v", op, p, err)
		}
	}
}

// bigSize is the size of a file with several HDFS blocks and several S3 parts.
const bigSize = 20<<20 + 12345

// ranges reads a big file from several goroutines, and at random offsets.
func (r *run) ranges() {
	data := make([]byte, bigSize)
	src := rand.NewChaCha8([32]byte{1})
	_, _ = src.Read(data) // never fails
	s := r.stage(storage.ReplaceNothing)
	w, err := s.Create(r.ctx, "big")
	r.must(err)
	for off := 0; off < len(data); {
		// Pieces of any length, so that the borders of S3's parts and of HDFS's packets fall inside them.
		n := min(len(data)-off, 1+rand.New(src).IntN(300_000))
		_, err := w.Write(data[off : off+n])
		r.must(err)
		off += n
	}
	r.must(w.Commit())
	r.must(s.Commit(r.ctx))
	f, err := r.fs.Open(r.ctx, path.Join(r.out, "big"))
	r.must(err)
	defer f.Close()
	if f.Size() != bigSize {
		r.Fatalf("%d bytes, want %d", f.Size(), bigSize)
	}
	var wg sync.WaitGroup
	const readers = 3
	// At the same time over one File: ReadAt must be safe for concurrent use, as io.ReaderAt demands.
	for i := range readers {
		wg.Go(func() {
			part := bigSize / readers
			end := (i + 1) * part
			if i == readers-1 {
				end = bigSize
			}
			sec := io.NewSectionReader(f, int64(i*part), int64(end-i*part))
			got, err := io.ReadAll(sec)
			if err != nil || !bytes.Equal(got, data[i*part:end]) {
				r.Errorf("part %d: %d bytes, %v", i, len(got), err)
			}
		})
	}
	wg.Wait()
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		// Also beyond the end, where io.EOF and no other error is the answer.
		r.readAt(f, data, rnd.IntN(bigSize+10), rnd.IntN(100_000))
	}
}

// readAt reads n bytes at off and compares them with data.
func (r *run) readAt(f storage.File, data []byte, off, n int) {
	r.Helper()
	b := make([]byte, n)
	got, err := f.ReadAt(b, int64(off))
	want := data[min(off, len(data)):min(off+n, len(data))]
	if !bytes.Equal(b[:got], want) || got < n && err != io.EOF || err != nil && err != io.EOF {
		r.Errorf("%d bytes at %d: got %d, %v", n, off, got, err)
	}
}

// remove removes files, directories and paths that do not exist.
func (r *run) remove() {
	r.output(map[string]string{"a": "1", "d/x": "1", "d/e/y": "1", "d-": "2"})
	// Missing paths are no error: a cleanup that was interrupted is repeated.
	for _, p := range []string{"a", "d", "nothing", "no/thing"} {
		r.must(r.fs.Remove(r.ctx, path.Join(r.out, p)))
	}
	r.want(map[string]string{storage.SuccessFile: "", "d-": "2"})
	r.must(r.fs.Remove(r.ctx, r.out))
	_, err := r.fs.Stat(r.ctx, r.out)
	r.wants(err, fs.ErrNotExist, "Stat after Remove")
	s := r.stage(storage.ReplaceNothing)
	r.must(s.Commit(r.ctx))
	r.want(map[string]string{storage.SuccessFile: ""})
	r.clean()
}

// cancel: calls fail with the context's error once the context has ended.
func (r *run) cancel() {
	r.output(map[string]string{"x": strings.Repeat("x", 1<<20)})
	ctx, cancel := context.WithCancel(r.ctx)
	f, err := r.fs.Open(ctx, path.Join(r.out, "x"))
	r.must(err)
	defer f.Close()
	cancel()
	if _, local := r.fs.(storage.Local); local {
		return // local operations do not wait, and ignore the context
	}
	_, err = f.ReadAt(make([]byte, 1<<20), 0)
	r.wants(err, context.Canceled, "ReadAt")
	_, err = r.fs.Open(ctx, path.Join(r.out, "x"))
	r.wants(err, context.Canceled, "Open")
	_, err = r.fs.List(ctx, r.out)
	r.wants(err, context.Canceled, "List")
	_, err = r.fs.Stage(ctx, path.Join(r.dir, "new"), storage.ReplaceNothing)
	r.wants(err, context.Canceled, "Stage")
}
