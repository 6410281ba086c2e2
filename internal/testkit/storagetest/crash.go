package storagetest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/testkit/faultfs"
)

// CrashTarget is a file system whose process can be killed after any single
// operation.
type CrashTarget struct {
	// New returns an empty file system.
	New func() Machine
	// ErrPublishing is the error of readers that must wait for a commit. It is nil if
	// readers never wait.
	ErrPublishing error
	// Shallow leaves recoveries alone, where killing those as well takes too long.
	Shallow bool
	// Gap says that the output may be missing between the two renames of a
	// replacement.
	Gap bool
}

// Machine is a file system of a CrashTarget as one process sees it.
type Machine struct {
	storage.FS
	Faults *faultfs.Faults
	// Dir is the directory that has the output out.
	Dir string
	// Restart ends this process and returns the file system as the next process finds
	// it. The next process's clock is ahead by age.
	Restart func(age time.Duration) Machine
	// Left returns the paths of all files and uploads outside of the output.
	Left func() []string
}

func (m Machine) out() string { return path.Join(m.Dir, "out") }

// crashScenario is one job whose commit or abort is killed.
type crashScenario struct {
	name   string
	shared bool
	old    map[string]string // the output before the job; nil if there is none
	abort  bool              // the job is aborted instead of committed
}

var newFiles = map[string]string{"part": "new", "sub/x": "new"}

// Each of the eight takes another way through the protocol: an output that is new or replaces one, by one
// process or several, committed or given up.
func scenarios() (list []crashScenario) {
	for _, shared := range []bool{true, false} {
		for _, old := range []map[string]string{nil, {"part": "old", "sub/gone": "old"}} {
			for _, abort := range []bool{false, true} {
				name := fmt.Sprintf("shared=%v,old=%v,abort=%v", shared, old != nil, abort)
				list = append(list, crashScenario{name, shared, old, abort})
			}
		}
	}
	return list
}

const crashToken = "job-1"

// older and newer are the only two outputs that a reader may ever see.
func (c crashScenario) older() map[string]string {
	if c.old == nil {
		return nil
	}
	return with(c.old, "")
}

func (c crashScenario) newer() map[string]string {
	if c.shared {
		return with(newFiles, crashToken+"\n")
	}
	return with(newFiles, "")
}

func with(files map[string]string, success string) map[string]string {
	files = maps.Clone(files)
	files[storage.SuccessFile] = success
	return files
}

// RunCrashes commits and aborts a job and kills the process after each single
// operation. Then it recovers in every possible way: another process repeats the
// commit, or aborts, or a later job sweeps, or another job publishes meanwhile. The
// recovery is killed after each of its operations too, and a later job's sweep
// follows.
//
// At every moment a reader sees the old output whole or the new output whole (or, as
// the target permits, none, or ErrPublishing). In the end no other file is left.
func RunCrashes(t *testing.T, target CrashTarget) {
	for _, c := range scenarios() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for name, recovery := range recoveries {
				if !c.shared && name != "sweep" {
					continue // no other process can reopen an own staging
				}
				r := crashRun{T: t, target: target, scenario: c, recovery: name, recover: recovery}
				kills := 0
				for r.killedAt(kills) {
					kills++
				}
				// Operations that are not counted would let the test pass without a kill.
				if kills < 2 {
					t.Errorf("only %d operations were seen", kills)
				}
			}
		})
	}
}

// crashRun is one scenario with one kind of recovery.
type crashRun struct {
	*testing.T
	target   CrashTarget
	scenario crashScenario
	recovery string
	recover  func(m Machine) (committed bool, err error)
	what     string // has happened so far, for messages
}

// killedAt kills the job after the given number of operations and recovers, once
// undisturbed and once for each operation of the recovery, killed after it. It returns
// false if the job had ended before that number of operations.
func (r crashRun) killedAt(after int) bool {
	r.Helper()
	// -1 is the undisturbed recovery.
	for kills := -1; ; kills++ {
		// A new machine each time: a recovery changes the state that the kill has left.
		m, killed := r.killJob(after)
		r.what = fmt.Sprintf("killed after %d operations, then %s", after, r.recovery)
		r.checkReaders(m)
		later := storage.SharedTTL + storage.OwnTTL
		if r.recovery == "another job" {
			later = 0 // it comes before the killed one counts as dead
		}
		m = m.Restart(later)
		if kills >= 0 {
			r.what += fmt.Sprintf(", killed after %d", kills)
			m.Faults.StopAfter(kills)
		}
		committed, err := r.recover(m)
		stopped := m.Faults.Stopped()
		m = m.Restart(later)
		// A commit after an abort that was killed may find that it is too late.
		failed := err != nil && r.scenario.abort && r.recovery == "commit"
		if !stopped && !failed {
			r.must(err)
			r.checkOutcome(m, r.recovery == "sweep")
			if isNew := r.reads(m, r.scenario.newer()); committed && !isNew && r.recovery == "commit" {
				r.Fatalf("%s: the commit succeeded and the output is the old one", r.what)
			}
		}
		// The recovery did not end. A reader must be safe meanwhile, and the sweep of a later job repairs the
		// rest.
		if stopped || failed {
			r.checkReaders(m)
			if r.recovery == "abort" {
				// A commit may fail now, but must not succeed without effect.
				committed, err := commitKilled(m)
				if committed && err == nil && !r.reads(m, r.scenario.newer()) {
					r.Fatalf("%s, then commit: it succeeded and the output is the old one", r.what)
				}
			}
			m = m.Restart(storage.SharedTTL + storage.OwnTTL)
			r.must(sweepNext(m))
			r.checkOutcome(m, true)
		}
		// Not stopped: the recovery has fewer operations than kills, so all its points were seen.
		if r.target.Shallow || kills >= 0 && !stopped {
			return killed
		}
	}
}

func (r crashRun) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatalf("%s: %v", r.what, err)
	}
}

// publish replaces the output by files.
func (r crashRun) publish(m Machine, files map[string]string) {
	r.Helper()
	s, err := m.Stage(context.Background(), m.out(), storage.ReplaceAll)
	r.must(err)
	r.must(fill(s, files))
	r.must(s.Commit(context.Background()))
}

func fill(s storage.Staging, files map[string]string) error {
	for name, content := range files {
		w, err := s.Create(context.Background(), name)
		if err != nil {
			return err
		}
		if _, err := w.Write([]byte(content)); err != nil {
			return err
		}
		if err := w.Commit(); err != nil {
			return err
		}
	}
	return nil
}

// killJob stages new files over the old output and commits or aborts, killed after
// the given number of operations. It reports whether the job was killed before its
// end.
func (r crashRun) killJob(after int) (m Machine, killed bool) {
	r.Helper()
	ctx := context.Background()
	m = r.target.New()
	if r.scenario.old != nil {
		r.publish(m, r.scenario.old)
	}
	var s storage.Staging
	var err error
	if r.scenario.shared {
		s, err = m.StageShared(ctx, m.out(), crashToken, storage.ReplaceAll)
	} else {
		s, err = m.Stage(ctx, m.out(), storage.ReplaceAll)
	}
	r.must(err)
	r.must(fill(s, newFiles))
	// Only now, so that the operations of Stage and of the files are not counted: RunErrors covers them.
	m.Faults.StopAfter(after)
	if r.scenario.abort {
		err = s.Abort(ctx)
	} else {
		err = s.Commit(ctx)
	}
	killed = m.Faults.Stopped()
	if !killed {
		r.must(err)
	}
	return m.Restart(0), killed // the next process
}

// recoveries are the possible sequels of a crash. Each reports whether it has
// committed the killed job, and fails only if it is killed itself.
var recoveries = map[string]func(m Machine) (committed bool, err error){
	"commit": commitKilled,
	"abort": func(m Machine) (bool, error) {
		_, err := reopened(m, abortUnlessPublished)
		return false, err
	},
	"sweep": func(m Machine) (bool, error) { return false, sweepNext(m) },
	// Another job publishes the same output before the killed one continues.
	"another job": func(m Machine) (bool, error) {
		if err := publishOther(m); err != nil {
			return false, err
		}
		return commitKilled(m)
	},
}

func commitKilled(m Machine) (bool, error) {
	return reopened(m, func(s storage.Staging) error { return s.Commit(context.Background()) })
}

// reopened ends the job's staging, if there still is one.
func reopened(m Machine, end func(storage.Staging) error) (found bool, err error) {
	s, err := m.Reopen(context.Background(), m.out(), crashToken)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, end(s)
}

var otherFiles = map[string]string{"part": "other"}

// publishOther is another job. It gives up if the killed one keeps it from
// committing.
func publishOther(m Machine) error {
	ctx := context.Background()
	s, err := m.Stage(ctx, m.out(), storage.ReplaceAll)
	if err != nil {
		return err
	}
	if err := fill(s, otherFiles); err != nil {
		return err
	}
	// The killed job's commit has precedence if it had begun. Losing is no error of this job's storage.
	if s.Commit(ctx) != nil {
		return s.Abort(ctx)
	}
	return nil
}

// sweepNext begins and gives up another job with the same output.
func sweepNext(m Machine) error {
	s, err := m.Stage(context.Background(), m.out(), storage.ReplaceAll)
	if err != nil {
		return err
	}
	return s.Abort(context.Background())
}

// checkReaders checks the output that a reader sees after a kill.
func (r crashRun) checkReaders(m Machine) {
	r.Helper()
	got, err := read(m)
	switch {
	case r.target.ErrPublishing != nil && errors.Is(err, r.target.ErrPublishing):
	case err != nil:
		r.Fatalf("%s: reading the output: %v", r.what, err)
	case got == nil && r.target.Gap:
	default:
		r.checkWhole(got)
	}
}

// checkWhole checks that the output is, as a whole, one that a job has committed.
func (r crashRun) checkWhole(got map[string]string) {
	r.Helper()
	if cmp.Equal(got, r.scenario.older()) || cmp.Equal(got, r.scenario.newer()) ||
		r.recovery == "another job" && cmp.Equal(got, with(otherFiles, "")) {
		return
	}
	r.Fatalf("%s: the output is neither the old one nor the new one: %v", r.what, got)
}

// reads reports whether the output is the wanted one.
func (r crashRun) reads(m Machine, want map[string]string) bool {
	r.Helper()
	got, err := read(m)
	r.must(err)
	return cmp.Equal(got, want)
}

// checkOutcome checks the output after the recovery. swept says that a sweep came
// last, which leaves nothing beside the output.
func (r crashRun) checkOutcome(m Machine, swept bool) {
	r.Helper()
	got, err := read(m)
	r.must(err)
	r.checkWhole(got)
	isNew := cmp.Equal(got, r.scenario.newer())
	// Only a sweep: the recovery "commit" may be right to publish a job whose abort had not begun to take
	// effect.
	if r.scenario.abort && isNew && r.recovery == "sweep" {
		r.Fatalf("%s: an aborted job was published", r.what)
	}
	if r.recovery == "commit" && !swept && !r.scenario.abort && !isNew {
		r.Fatalf("%s: the commit was repeated and the output is the old one", r.what)
	}
	if left := m.Left(); swept && len(left) > 0 {
		r.Fatalf("%s: left %q", r.what, left)
	}
}

// walk reads the files below a directory.
func walk(m storage.FS, dir, rel string, files map[string]string) error {
	infos, err := m.List(context.Background(), dir)
	if err != nil {
		return err
	}
	for _, i := range infos {
		rel := path.Join(rel, path.Base(i.Path))
		if i.Dir {
			if err := walk(m, i.Path, rel, files); err != nil {
				return err
			}
			continue
		}
		f, err := m.Open(context.Background(), i.Path)
		if err != nil {
			return err
		}
		b := make([]byte, f.Size())
		if n, err := f.ReadAt(b, 0); n < len(b) {
			return err
		}
		files[rel] = string(b)
	}
	return nil
}
