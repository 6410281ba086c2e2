package storagetest

import (
	"io"
	"io/fs"
	"path"
	"slices"

	"github.com/slotwise/slotwise/internal/storage"
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
	w := r.begin(e, a, "two")
	if got := r.read(a); got != "one" {
		r.Errorf("before Commit the file has %q", got)
	}
	r.must(w.Commit())
	r.must(w.Discard())
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
	r.move(e)
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
	w, err := e.CreateFile(r.ctx, path.Join(r.dir, "x", "file"))
	if err == nil {
		err = w.Commit()
	}
	r.wants(err, fs.ErrNotExist, "a file without a directory")
}

// move tests moves of files and directories.
func (r *run) move(e storage.Editor) {
	a, b, sub, other := path.Join(r.dir, "a"), path.Join(r.dir, "b c"), path.Join(r.dir, "sub"), path.Join(r.dir, "other")
	r.wants(e.Move(r.ctx, a, b), fs.ErrExist, "a move onto a file")
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
	w, err := e.CreateFile(r.ctx, p)
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
