package storagetest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/testkit/detector"
)

// randomJob is a job of RunRandom.
type randomJob struct {
	token string
	// committing says that a Commit has begun and is not known to have ended: the
	// output may be this job's at any time.
	committing bool
	// aborting says that an Abort has begun: a Commit may fail from now on.
	aborting bool
}

func (j *randomJob) output() map[string]string {
	return map[string]string{"part": j.token, "sub/x": j.token, storage.SuccessFile: j.token + "\n"}
}

// RunRandom lets several jobs replace the same output in random order, in processes
// that are killed at random operations. After each step a reader sees, as a whole,
// the output of the last job that has committed, or of a job whose commit was
// interrupted. Under the race detector a tenth of the seeds runs: it finds a data race in any
// seed, and .ci/run runs all seeds without it.
func RunRandom(t *testing.T, target CrashTarget, seeds int) {
	if detector.On {
		seeds /= 10
	}
	for seed := range uint64(seeds) {
		r := &randomRun{T: t, target: target, rng: rand.New(rand.NewPCG(seed, 7)), m: target.New()}
		for step := range 25 {
			r.step(step)
			r.check()
			if t.Failed() {
				t.Fatalf("seed %d: %s", seed, r.log)
			}
		}
	}
}

// randomRun is the run of one seed.
type randomRun struct {
	*testing.T
	target CrashTarget
	rng    *rand.Rand
	m      Machine
	jobs   []*randomJob      // that have not ended
	last   map[string]string // the output of the last job that has committed
	// hidden are outputs that another job's interrupted commit has moved aside before
	// they could be read. An abort of that commit brings them back.
	hidden []map[string]string
	log    string
}

func (r *randomRun) step(n int) {
	ctx := context.Background()
	switch kind := r.rng.IntN(4); {
	case kind == 0 || len(r.jobs) == 0:
		j := &randomJob{token: fmt.Sprintf("job-%d", n)}
		r.log += "\nbegin " + j.token
		s, err := r.m.StageShared(ctx, r.m.out(), j.token, storage.ReplaceAll)
		if err == nil {
			err = fill(s, map[string]string{"part": j.token, "sub/x": j.token})
		}
		if err != nil {
			r.Errorf("beginning a job: %v", err)
		}
		r.jobs = append(r.jobs, j)
	case kind == 1:
		r.log += "\nsweep"
		// By a clock that far ahead all stagings have expired, and the sweep removes them under their jobs.
		if r.rng.IntN(4) == 0 {
			r.log += " everything"
			r.m = r.m.Restart(storage.SharedTTL + time.Hour)
		}
		if err := sweepNext(r.m); err != nil {
			r.Errorf("sweeping: %v", err)
		}
	default:
		// Any of the jobs and not the oldest: commits of several jobs interleave.
		i := r.rng.IntN(len(r.jobs))
		if ended := r.end(r.jobs[i], kind == 2); ended {
			r.jobs = append(r.jobs[:i], r.jobs[i+1:]...)
		}
	}
}

// end commits or aborts a job, in a process that may be killed. It reports whether
// the job has ended.
func (r *randomRun) end(j *randomJob, abort bool) (ended bool) {
	ctx := context.Background()
	// A commit takes fewer operations, so a part of the ends is not killed.
	after := r.rng.IntN(50)
	r.log += fmt.Sprintf("\nend %s, abort: %v, killed after %d", j.token, abort, after)
	s, err := r.m.Reopen(ctx, r.m.out(), j.token)
	if errors.Is(err, fs.ErrNotExist) {
		r.recordOutput(j)
		return true // swept, or aborted by a process that was killed at its end
	}
	if err != nil {
		r.Errorf("reopening: %v", err)
		return true
	}
	r.m.Faults.StopAfter(after)
	if abort {
		j.aborting = true
		err = abortUnlessPublished(s)
	} else {
		j.committing = true
		err = s.Commit(ctx)
	}
	killed := r.m.Faults.Stopped()
	r.m = r.m.Restart(0)
	switch {
	// The job stays in the list: its commit may or may not have happened, and both outputs are allowed
	// from here on.
	case killed:
		r.log += ": killed"
		return false
	case err == nil:
		r.recordOutput(j)
		return true
	case abort || !j.aborting && r.target.ErrPublishing == nil:
		r.Errorf("ending: %v", err)
	}
	r.log += fmt.Sprintf(": %v", err)
	return false // another job is publishing, or the abort had begun
}

// recordOutput records the present output after j has ended: its own output, if it has
// committed, or the output of a commit that came later.
func (r *randomRun) recordOutput(j *randomJob) {
	got, err := read(r.m)
	switch {
	case err != nil || got == nil: // another job's commit is under way
		if j.committing {
			r.hidden = append(r.hidden, j.output())
		}
	case j.committing && cmp.Equal(got, j.output()) || r.allowed(got):
		r.last = got
	}
}

// allowed reports whether a reader may see an output.
func (r *randomRun) allowed(got map[string]string) bool {
	if cmp.Equal(got, r.last) {
		return true
	}
	for _, h := range r.hidden {
		if cmp.Equal(got, h) {
			return true
		}
	}
	interrupted := false
	for _, j := range r.jobs {
		interrupted = interrupted || j.committing
		if j.committing && cmp.Equal(got, j.output()) {
			return true
		}
	}
	return got == nil && interrupted && r.target.Gap
}

func (r *randomRun) check() {
	got, err := read(r.m)
	// Between two renames a reader must wait and sees no wrong output.
	if r.target.ErrPublishing != nil && errors.Is(err, r.target.ErrPublishing) {
		return
	}
	if err != nil || !r.allowed(got) {
		r.Errorf("a reader sees %v, %v; the last job's output is %v", got, err, r.last)
	}
}

// read returns the files of the output; nil if there is none.
func read(m Machine) (map[string]string, error) {
	files := map[string]string{}
	err := walk(m, m.out(), "", files)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return files, err
}
