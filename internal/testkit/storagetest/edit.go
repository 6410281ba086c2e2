package storagetest

import (
	"io"
	"io/fs"
	"path"
	"slices"
	"syscall"
	"time"

	"github.com/slotwise/slotwise/internal/data/storage"
)

// edit tests the operations by which commands such as hadoop fs change single files.
func (r *run) edit() {
	e, ok := r.fs.(storage.Editor)
	if !ok {
		r.Skip("this file system is not an Editor")
	}
	r.makeDirs(e)
	a, b := path.Join(r.dir, "a"), path.Join(r.dir, "b c")
	r.write(e, a, "one")
	if got := r.read(a); got != "one" {
		r.Errorf("a new file has %q", got)
	}
	before := r.version(e, a)
	time.Sleep(20 * time.Millisecond) // file systems' clocks tick slowly, and files of one tick have one time
	w := r.begin(e, a, "two")
	if got := r.read(a); got != "one" {
		r.Errorf("before Commit the file has %q", got)
	}
	r.must(w.Commit())
	r.must(w.Discard())
	// Attempts that were planned with the old version must notice that their input was replaced.
	if after := r.version(e, a); !after.Replaced(before, false) || !after.Replaced(before, true) {
		r.Errorf("the version %+v after %+v is no replacement", after, before)
	}
	if got := r.read(a); got != "two" {
		r.Errorf("the replaced file has %q", got)
	}
	w = r.begin(e, b, "never")
	r.must(w.Discard())
	_, err := e.Stat(r.ctx, b)
	r.wants(err, fs.ErrNotExist, "a discarded file")
	abandoned := r.begin(r.target.New().(storage.Editor), b, "left by a command that was killed")
	r.write(e, b, "whole")
	if got := r.read(b); got != "whole" {
		r.Errorf("after an abandoned write the file has %q", got)
	}
	_ = abandoned.Discard() // its temporary file is gone on some file systems
	r.shows("a", "b c")
	r.twoWriters(e)
	r.newOnly(e)
	r.removeOne(e)
	r.move(e)
}

// version returns the version of a file. Stat, List and Open give the same one.
func (r *run) version(e storage.Editor, p string) storage.Version {
	info, err := e.Stat(r.ctx, p)
	r.must(err)
	infos, err := e.List(r.ctx, path.Dir(p))
	r.must(err)
	i := slices.IndexFunc(infos, func(i storage.Info) bool { return i.Path == p })
	f, err := e.Open(r.ctx, p)
	r.must(err)
	defer f.Close()
	v, ok := f.(storage.Versioned)
	if i < 0 || !ok || info.Version == (storage.Version{}) || infos[i].Version != info.Version || v.Version() != info.Version {
		r.Fatalf("%s: Stat has version %+v, List %+v, Open knows one: %v", p, info.Version, infos, ok)
	}
	return info.Version
}

// twoWriters writes one file by two writers at once. A commit publishes the bytes of its
// writer alone, and the other writer changes nothing until its own commit.
func (r *run) twoWriters(e storage.Editor) {
	p := path.Join(r.dir, "twice")
	first, second := r.begin(e, p, "first"), r.begin(e, p, "second")
	r.must(first.Commit())
	if got := r.read(p); got != "first" {
		r.Errorf("after the first writer's commit the file has %q", got)
	}
	_, err := io.WriteString(second, ", and more")
	r.must(err)
	if got := r.read(p); got != "first" {
		r.Errorf("after a write by the second writer the file has %q", got)
	}
	r.must(second.Commit())
	if got := r.read(p); got != "second, and more" {
		r.Errorf("after the second writer's commit the file has %q", got)
	}
	// Discard must remove the temporary file of this writer only.
	third, fourth := r.begin(e, p, "third"), r.begin(e, p, "fourth")
	r.must(third.Discard())
	r.must(fourth.Commit())
	if got := r.read(p); got != "fourth" {
		r.Errorf("after a discarded writer the file has %q", got)
	}
	r.must(e.RemoveOne(r.ctx, p, false))
	r.shows("a", "b c")
}

// newOnly writes one file by two writers that must not replace it. The second commit fails,
// although the file did not exist when its writer began.
func (r *run) newOnly(e storage.Editor) {
	p := path.Join(r.dir, "new")
	var writers []storage.Writer
	for _, content := range []string{"first", "second"} {
		w, err := e.CreateFile(r.ctx, p, false)
		r.must(err)
		_, err = io.WriteString(w, content)
		r.must(err)
		writers = append(writers, w)
	}
	r.must(writers[0].Commit())
	// The check at CreateFile is not enough: both writers found no file then.
	r.wants(writers[1].Commit(), fs.ErrExist, "a second new file of the same name")
	_ = writers[1].Discard() // Commit has ended the writer
	if got := r.read(p); got != "first" {
		r.Errorf("after a refused commit the file has %q", got)
	}
	r.must(e.RemoveOne(r.ctx, p, false))
	r.shows("a", "b c")
}

// removeOne removes single files and empty directories. A directory with entries stays, also
// if the caller takes it for a file.
func (r *run) removeOne(e storage.Editor) {
	dir, file := path.Join(r.dir, "dir"), path.Join(r.dir, "dir", "file")
	r.wants(e.RemoveOne(r.ctx, dir, false), fs.ErrNotExist, "removing a missing file")
	r.wants(e.RemoveOne(r.ctx, dir, true), fs.ErrNotExist, "removing a missing directory")
	r.must(e.MakeDir(r.ctx, dir))
	r.write(e, file, "precious")
	// hadoop fs -rmdir relies on this error. On S3 a directory is a prefix, and only a look for objects below
	// finds out.
	r.wants(e.RemoveOne(r.ctx, dir, true), syscall.ENOTEMPTY, "removing a directory that is not empty")
	if err := e.RemoveOne(r.ctx, dir, false); err == nil {
		r.Error("a directory that is not empty was removed as a file")
	}
	if got := r.read(file); got != "precious" {
		r.Errorf("the file of a directory that was not removed has %q", got)
	}
	r.must(e.RemoveOne(r.ctx, file, false))
	// On S3 the directory was there only through its file.
	if e.HasDirs() {
		r.must(e.RemoveOne(r.ctx, dir, true))
	}
	r.shows("a", "b c")
}

// makeDirs makes the run's directory.
func (r *run) makeDirs(e storage.Editor) {
	if _, err := e.Stat(r.ctx, r.target.Dir); err != nil {
		r.must(e.MakeDir(r.ctx, r.target.Dir))
	}
	r.must(e.MakeDir(r.ctx, r.dir))
	if !e.HasDirs() {
		return
	}
	r.wants(e.MakeDir(r.ctx, r.dir), fs.ErrExist, "a directory that exists")
	r.wants(e.MakeDir(r.ctx, path.Join(r.dir, "x", "y")), fs.ErrNotExist, "a directory without a parent")
	w, err := e.CreateFile(r.ctx, path.Join(r.dir, "x", "file"), false)
	if err == nil {
		err = w.Commit()
	}
	r.wants(err, fs.ErrNotExist, "a file without a directory")
}

// move tests moves of files and directories.
func (r *run) move(e storage.Editor) {
	a, b, sub, other := path.Join(r.dir, "a"), path.Join(r.dir, "b c"), path.Join(r.dir, "sub"), path.Join(r.dir, "other")
	// hadoop fs -mv refuses it, and scripts rely on that; rename(2) would replace b.
	r.wants(e.Move(r.ctx, a, b), fs.ErrExist, "a move onto a file")
	if got := r.read(b); got != "whole" {
		r.Errorf("after a refused move the file has %q", got)
	}
	r.wants(e.Move(r.ctx, path.Join(r.dir, "missing"), other), fs.ErrNotExist, "a move of a missing file")
	r.must(e.MakeDir(r.ctx, sub))
	r.must(e.Move(r.ctx, a, path.Join(sub, "a")))
	_, err := e.Stat(r.ctx, a)
	r.wants(err, fs.ErrNotExist, "the old name of a moved file")
	r.must(e.Move(r.ctx, sub, other))
	if got := r.read(path.Join(other, "a")); got != "two" {
		r.Errorf("a file of a moved directory has %q", got)
	}
	r.shows("b c", "other")
	r.must(e.Remove(r.ctx, other))
	r.shows("b c")
}

// begin begins a file with a content.
func (r *run) begin(e storage.Editor, p, content string) storage.Writer {
	r.Helper()
	w, err := e.CreateFile(r.ctx, p, true)
	r.must(err)
	_, err = io.WriteString(w, content)
	r.must(err)
	return w
}

// write makes or replaces a file.
func (r *run) write(e storage.Editor, p, content string) {
	r.Helper()
	r.must(r.begin(e, p, content).Commit())
}

// shows checks the names in the run's directory.
func (r *run) shows(want ...string) {
	r.Helper()
	infos, err := r.fs.List(r.ctx, r.dir)
	r.must(err)
	var got []string
	for _, info := range infos {
		got = append(got, path.Base(info.Path))
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		r.Errorf("the directory has %q, want %q", got, want)
	}
}
