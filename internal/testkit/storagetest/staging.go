package storagetest

import (
	"errors"
	"io/fs"
	"maps"
	"path"
	"strings"

	"github.com/slotwise/slotwise/internal/data/storage"
)

// staging: no file is visible before the commit, and all files are visible after it.
func (r *run) staging() {
	s := r.stage(storage.ReplaceNothing)
	r.put(s, "part-0", "a")
	r.put(s, "sub/part-1", "b")
	r.put(s, "empty", "")
	// A writer that is not committed in time, as of an attempt that another one has overtaken.
	late := r.open(s, "part-2", "late")
	if _, err := r.fs.Stat(r.ctx, r.out); !errors.Is(err, fs.ErrNotExist) {
		r.Errorf("the output is visible before its commit: %v", err)
	}
	r.must(s.Commit(r.ctx))
	r.want(map[string]string{storage.SuccessFile: "", "part-0": "a", "sub/part-1": "b", "empty": ""})
	r.wants(late.Commit(), fs.ErrClosed, "a file committed after the staging")
	r.must(late.Discard())
	_, err := s.Create(r.ctx, "x")
	r.wants(err, fs.ErrClosed, "Create after Commit")
	r.wants(s.Commit(r.ctx), fs.ErrClosed, "second Commit")
	r.wants(s.Abort(r.ctx), storage.ErrPublished, "Abort after Commit")
	r.clean()
}

// attempts: two attempts of a task write at once. The last commit wins, whole.
func (r *run) attempts() {
	s := r.stage(storage.ReplaceNothing)
	a, b := r.open(s, "part", "aaa"), r.open(s, "part", "bb")
	dropped := r.open(s, "part", "dropped")
	for _, w := range []storage.Writer{a, b} {
		_, err := w.Write([]byte("+"))
		r.must(err)
		r.must(w.Commit())
	}
	r.wants(b.Commit(), fs.ErrClosed, "second Commit of a file")
	r.must(dropped.Discard())
	// Twice: a deferred Discard follows each Commit and each Discard.
	r.must(dropped.Discard())
	r.must(s.Commit(r.ctx))
	r.want(map[string]string{storage.SuccessFile: "", "part": "bb+"})
	r.clean()
}

// replace: the old output is visible until the commit, and no file of the old output
// remains after it.
func (r *run) replace() {
	old := map[string]string{"part-0": "old", "part-1": "old", "sub/x": "old"}
	r.output(old)
	s := r.stage(storage.ReplaceAll)
	r.put(s, "part-0", "new")
	old[storage.SuccessFile] = ""
	r.want(old)
	r.must(s.Commit(r.ctx))
	r.want(map[string]string{storage.SuccessFile: "", "part-0": "new"})
	r.clean()
}

// abort: the old output stays, and no writer can commit a file any more.
func (r *run) abort() {
	r.output(map[string]string{"part": "old"})
	s := r.stage(storage.ReplaceAll)
	r.put(s, "part", "new")
	left := r.open(s, "other", "new")
	r.must(s.Abort(r.ctx))
	r.want(map[string]string{storage.SuccessFile: "", "part": "old"})
	if left.Commit() == nil {
		r.Error("a file was committed after the abort")
	}
	r.must(left.Discard())
	r.wants(s.Commit(r.ctx), fs.ErrClosed, "Commit after Abort")
	r.clean()
}

// refuse: an output or a file that must not be replaced is refused at once.
func (r *run) refuse() {
	r.output(map[string]string{"part": "old"})
	_, err := r.fs.Stage(r.ctx, r.out, storage.ReplaceNothing)
	r.wants(err, fs.ErrExist, "staging over an output")
	_, err = r.fs.StageShared(r.ctx, r.out, storage.NewToken(), storage.ReplaceNothing)
	r.wants(err, fs.ErrExist, "shared staging over an output")
	if _, err = r.fs.Stage(r.ctx, path.Join(r.out, "part"), storage.ReplaceAll); err == nil {
		r.Error("a file was staged over")
	}
	r.want(map[string]string{storage.SuccessFile: "", "part": "old"})
	r.clean()
}

// race: of two jobs with the same new output the first one to commit wins.
func (r *run) race() {
	a, b := r.stage(storage.ReplaceNothing), r.stageShared("b", storage.ReplaceNothing)
	r.put(a, "x", "a")
	r.put(b, "x", "b")
	r.must(a.Commit(r.ctx))
	// Twice: the first refusal must not have used up the staging, which the master still has to abort.
	for range 2 {
		r.wants(r.reopen("b").Commit(r.ctx), fs.ErrExist, "commit over the first one's output")
	}
	r.must(r.reopen("b").Abort(r.ctx))
	r.want(map[string]string{storage.SuccessFile: "", "x": "a"})
	r.clean()
}

// shared: several processes write one output.
func (r *run) shared() {
	token := storage.NewToken()
	r.stageShared(token, storage.ReplaceNothing)
	a, b := r.reopen(token), r.reopen(token)
	r.put(a, "part-0", "a")
	r.put(b, "part-0", "b")
	r.put(b, "sub/part-1", "b")
	late := r.open(a, "sub/part-2", "late")
	r.stage(storage.ReplaceAll) // another job's staging does not sweep a living one
	// The master's request may be repeated after its restart: the same token joins the staging.
	again := r.stageShared(token, storage.ReplaceNothing)
	r.must(again.Commit(r.ctx))
	r.must(again.Commit(r.ctx))
	want := map[string]string{storage.SuccessFile: token + "\n", "part-0": "b", "sub/part-1": "b"}
	r.want(want)
	if late.Commit() == nil {
		r.Error("a file was committed after the staging")
	}
	// S3 cannot know here that the staging has been committed, and so may fail only at the file's commit.
	if w, err := b.Create(r.ctx, "x"); err == nil {
		if w.Commit() == nil {
			r.Error("a file was made after the commit elsewhere")
		}
		_ = w.Discard() // its commit has failed
	}
	done := r.reopen(token)
	_, err := done.Create(r.ctx, "x")
	r.wants(err, fs.ErrClosed, "Create in a reopened staging that is committed")
	r.must(done.Commit(r.ctx))
	// ErrPublished and not nil: the master that aborts must report the job as succeeded.
	r.wants(done.Abort(r.ctx), storage.ErrPublished, "Abort after a Commit elsewhere")
	r.must(b.Commit(r.ctx))
	r.wants(r.reopen(token).Abort(r.ctx), storage.ErrPublished, "Abort after Commit in a reopened staging")
	r.want(want)
}

// fence: an attempt that is delayed while its successor commits cannot replace the
// successor's file later. Writers of other files are not affected.
func (r *run) fence() {
	token := storage.NewToken()
	r.stageShared(token, storage.ReplaceNothing)
	a, b := r.reopen(token), r.reopen(token)
	// Two kinds of late writers: of another process, and of the process that commits.
	frozen, early := r.open(a, "sub/part", "frozen"), r.open(b, "sub/part", "early")
	other, longer := r.open(a, "part", "other"), r.open(a, "sub/part-1", "longer")
	// It commits while the frozen attempt's file is complete and only its Commit is missing.
	r.put(b, "sub/part", "new")
	for _, w := range []storage.Writer{frozen, early} {
		if w.Commit() == nil {
			r.Error("a writer committed after another one had committed the same file")
		}
		r.must(w.Discard())
	}
	r.must(other.Commit())
	r.must(longer.Commit())
	r.put(a, "part", "again") // begun after the commit before
	r.must(r.reopen(token).Commit(r.ctx))
	r.want(map[string]string{storage.SuccessFile: token + "\n", "sub/part": "new", "part": "again", "sub/part-1": "longer"})
	r.clean()
}

// sharedAbort: after an abort by one process the others cannot use the staging.
func (r *run) sharedAbort() {
	token := storage.NewToken()
	s := r.stageShared(token, storage.ReplaceAll)
	other := r.reopen(token)
	r.put(other, "x", "x")
	w := r.open(other, "y", "y")
	r.must(r.reopen(token).Abort(r.ctx))
	if w.Commit() == nil {
		r.Error("a file was committed after the abort")
	}
	r.must(s.Abort(r.ctx))
	r.wants(s.Commit(r.ctx), fs.ErrClosed, "Commit after Abort")
	_, err := r.target.New().Reopen(r.ctx, r.out, token)
	r.wants(err, fs.ErrNotExist, "Reopen after Abort")
	// Tokens are parts of names. These would name other directories, or markers of the protocol.
	for _, bad := range []string{"", "-", "a/b", "..", "a.b"} {
		_, err := r.fs.Reopen(r.ctx, r.out, bad)
		r.wants(err, fs.ErrInvalid, "token "+bad)
	}
	r.clean()
}

// overwrite: with ReplaceOutput a staging replaces an earlier output, and no directory that
// contains anything else, whether it came before the staging or after it. The error names the
// file. This holds for the staging of one process and for a shared one.
func (r *run) overwrite() {
	begin := map[string]func(replace storage.Replace) (storage.Staging, error){
		"own": func(replace storage.Replace) (storage.Staging, error) { return r.fs.Stage(r.ctx, r.out, replace) },
		"shared": func(replace storage.Replace) (storage.Staging, error) {
			return r.target.New().StageShared(r.ctx, r.out, storage.NewToken(), replace)
		},
	}
	output := map[string]string{"part-r-00000": "old", "part-00001.csv.gz": "old"}
	for kind, stage := range begin {
		r.output(output)
		s, err := stage(storage.ReplaceOutput)
		r.must(err)
		r.put(s, "part-m-00000", "new")
		r.must(s.Commit(r.ctx))
		for _, foreign := range []string{"thesis.tex", "sub/deep/thesis.tex", "part-r-00000.bak"} {
			// Before the staging begins.
			files := maps.Clone(output)
			files[foreign] = "mine"
			r.output(files)
			if _, err := stage(storage.ReplaceOutput); !namesFile(err, foreign) {
				r.Errorf("%s: staging over %s: %v", kind, foreign, err)
			}
			r.must(storage.CheckOutput(r.ctx, r.fs, r.out, storage.ReplaceAll))
			if err := storage.CheckOutput(r.ctx, r.fs, r.out, storage.ReplaceOutput); !namesFile(err, foreign) {
				r.Errorf("%s: CheckOutput with %s: %v", kind, foreign, err)
			}
			// After the staging has begun.
			r.output(output)
			s, err := stage(storage.ReplaceOutput)
			r.must(err)
			r.put(s, "part-m-00000", "new")
			r.output(files)
			if err := s.Commit(r.ctx); !namesFile(err, foreign) {
				r.Errorf("%s: the commit over %s: %v", kind, foreign, err)
			}
			r.must(s.Abort(r.ctx))
			files[storage.SuccessFile] = ""
			r.want(files)
			// With the right to replace all.
			s, err = stage(storage.ReplaceAll)
			r.must(err)
			r.put(s, "part-m-00000", "new")
			r.must(s.Commit(r.ctx))
			r.must(storage.CheckOutput(r.ctx, r.fs, r.out, storage.ReplaceOutput))
		}
		// Files with the names of an output, without the mark of one.
		r.must(r.fs.Remove(r.ctx, path.Join(r.out, storage.SuccessFile)))
		if _, err := stage(storage.ReplaceOutput); !namesFile(err, "") {
			r.Errorf("%s: staging over files without %s: %v", kind, storage.SuccessFile, err)
		}
	}
}

// namesFile reports whether err is a NotOutputError that names the file.
func namesFile(err error, file string) bool {
	var e *storage.NotOutputError
	return errors.As(err, &e) && errors.Is(err, fs.ErrExist) && (e.File == file || strings.HasSuffix(e.File, "/") && strings.HasPrefix(file, e.File))
}
