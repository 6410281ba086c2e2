// Package storagetest checks that a file system fulfils the contract of storage.FS.
// The same tests run on local directories, HDFS, S3 and their doubles in memory.
//
// Run checks a working storage. RunCrashes kills a commit or an abort after each operation, RunErrors makes
// each operation fail once, RunPowerCuts takes unsynced data away, and RunRandom mixes several jobs. The last
// four need operations that can be counted and stopped, which faultfs gives to trees in memory and to the
// operations of real servers. A new storage calls Run first; once its stagings use the protocol of package
// storage, the others are a CrashTarget away.
package storagetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slotwise/slotwise/internal/data/storage"
)

// Target is a file system under test.
type Target struct {
	// New returns the file system as another process would open it.
	New func() storage.FS
	// Dir is a directory that no other test uses. It need not exist.
	Dir string
	// Leftovers returns names of objects below Dir that List does not show. It may
	// be nil.
	Leftovers func(t *testing.T) []string
	// Forbidden lists the names in oddNames that the file system does not permit.
	Forbidden []string
}

// run is one test of a target. It has a directory that no other test uses.
type run struct {
	*testing.T
	target Target
	ctx    context.Context
	fs     storage.FS
	dir    string
	out    string
}

// Run runs all tests of the contract.
func Run(t *testing.T, target Target) {
	for name, test := range map[string]func(*run){
		"Staging": (*run).staging, "Attempts": (*run).attempts, "Replace": (*run).replace, "Abort": (*run).abort,
		"Refuse": (*run).refuse, "Race": (*run).race, "Shared": (*run).shared, "SharedAbort": (*run).sharedAbort,
		"Fence": (*run).fence, "Overwrite": (*run).overwrite,
		"Names": (*run).names, "List": (*run).list, "Ranges": (*run).ranges, "Remove": (*run).remove,
		"Cancel": (*run).cancel, "Edit": (*run).edit,
	} {
		t.Run(name, func(t *testing.T) {
			dir := path.Join(target.Dir, strings.ToLower(name))
			r := &run{T: t, target: target, ctx: t.Context(), fs: target.New(), dir: dir, out: path.Join(dir, "out")}
			test(r)
		})
	}
}

func (r *run) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// abortUnlessPublished aborts a staging that may be published already.
func abortUnlessPublished(s storage.Staging) error {
	if err := s.Abort(context.Background()); !errors.Is(err, storage.ErrPublished) {
		return err
	}
	return nil
}

func (r *run) wants(err, want error, what string) {
	r.Helper()
	if !errors.Is(err, want) {
		r.Errorf("%s: got %v, want %v", what, err, want)
	}
}

func (r *run) stage(replace storage.Replace) storage.Staging {
	r.Helper()
	s, err := r.fs.Stage(r.ctx, r.out, replace)
	r.must(err)
	// A staging that a failed test leaves would be found by the sweep of the next one, which shares the
	// directory's parent.
	r.Cleanup(func() { r.must(abortUnlessPublished(s)) })
	return s
}

func (r *run) stageShared(token string, replace storage.Replace) storage.Staging {
	r.Helper()
	// From a new file system each time, as from another process: nothing may be remembered in memory.
	s, err := r.target.New().StageShared(r.ctx, r.out, token, replace)
	r.must(err)
	return s
}

func (r *run) reopen(token string) storage.Staging {
	r.Helper()
	s, err := r.target.New().Reopen(r.ctx, r.out, token)
	r.must(err)
	return s
}

// open begins a file and writes its content.
func (r *run) open(s storage.Staging, name, content string) storage.Writer {
	r.Helper()
	w, err := s.Create(r.ctx, name)
	r.must(err)
	_, err = io.WriteString(w, content)
	r.must(err)
	return w
}

func (r *run) put(s storage.Staging, name, content string) {
	r.Helper()
	w := r.open(s, name, content)
	r.must(w.Commit())
	r.must(w.Discard())
}

// output publishes files as the output and replaces an old output.
func (r *run) output(files map[string]string) {
	r.Helper()
	s := r.stage(storage.ReplaceAll)
	for name, content := range files {
		r.put(s, name, content)
	}
	r.must(s.Commit(r.ctx))
}

func (r *run) read(p string) string {
	r.Helper()
	f, err := r.fs.Open(r.ctx, p)
	r.must(err)
	// ReadAt must fill the whole of Size; io.EOF may come with the last bytes.
	b := make([]byte, f.Size())
	if n, err := f.ReadAt(b, 0); n != len(b) || err != nil && err != io.EOF {
		r.Fatalf("%s: read %d of %d bytes: %v", p, n, len(b), err)
	}
	r.must(f.Close())
	return string(b)
}

// tree returns the files below dir with their contents.
func (r *run) tree(dir string) map[string]string {
	r.Helper()
	files := map[string]string{}
	var walk func(dir, rel string)
	walk = func(dir, rel string) {
		infos, err := r.fs.List(r.ctx, dir)
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		r.must(err)
		for _, info := range infos {
			rel := path.Join(rel, path.Base(info.Path))
			if info.Dir {
				walk(info.Path, rel)
			} else {
				files[rel] = r.read(info.Path)
			}
		}
	}
	walk(dir, "")
	return files
}

// want checks that the output consists of the given files.
// Nothing but these files may be there: a leftover part file would be read as data by the next job.
func (r *run) want(files map[string]string) {
	r.Helper()
	if diff := cmp.Diff(files, r.tree(r.out)); diff != "" {
		r.Fatalf("the output (-want +got):\n%s", diff)
	}
}

// clean checks that no leftovers are beside the output.
// It looks beside the output, where stagings are. Objects that List does not show, such as unfinished uploads
// to S3, cost money as long as they stay.
func (r *run) clean() {
	r.Helper()
	infos, err := r.fs.List(r.ctx, r.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.Fatal(err)
	}
	for _, info := range infos {
		if info.Path != r.out {
			r.Errorf("left: %s", info.Path)
		}
	}
	if r.target.Leftovers != nil {
		for _, left := range r.target.Leftovers(r.T) {
			// Uploads of the tests that run in parallel are in the same bucket.
			if strings.Contains(left, r.dir+"/") {
				r.Errorf("left: %s", left)
			}
		}
	}
}

// oddNames are unusual names that a file system should permit.
var oddNames = []string{
	// A percent sign and a plus find a client that decodes twice, ? and # one that joins URLs as text, [ and
	// * one that takes names for globs, the backslash one that thinks of Windows, and a colon one that looks
	// for a scheme.
	"part-r-00000.gz", "with space", "plus+percent%41%2f", "quote\"'`", "question?hash#amp&semi;eq=", "star*[x]{y}",
	"ünïcödé-日本-🙂", "back\\slash", "colon:at@tilde~", "-dash", "a/b/c", ".hidden", "trailing.", "dollar$(x)!,^",
}

func (r *run) names() {
	want := map[string]string{storage.SuccessFile: ""}
	s := r.stage(storage.ReplaceNothing)
next:
	for i, name := range oddNames {
		for _, bad := range r.target.Forbidden {
			if name == bad {
				continue next
			}
		}
		want[name] = fmt.Sprint(i)
		r.put(s, name, want[name])
	}
	// A job's output name may come from its records, and must not reach a file beside the staging.
	for _, name := range []string{"", ".", "..", "../x", "a/../../x", "/x"} {
		_, err := s.Create(r.ctx, name)
		r.wants(err, fs.ErrInvalid, fmt.Sprintf("Create(%q)", name))
	}
	r.must(s.Commit(r.ctx))
	r.want(want)
	if l, ok := r.fs.(storage.Located); ok {
		for name := range want {
			// Another request than a read's asks for locations, with an escaping that can be wrong by
			// itself.
			_, err := l.Hosts(r.ctx, path.Join(r.out, name), 0, 1)
			r.must(err)
		}
	}
	r.clean()
}
