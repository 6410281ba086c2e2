package storagetest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/testkit/faultfs"
)

// powerSeeds is the number of choices of surviving changes that RunPowerCuts tries for
// each moment.
const powerSeeds = 12

// RunPowerCuts runs a job on a Tree of a flavour that syncs and checks what a power cut
// takes away. The process is stopped after each single operation. Then either the power
// is cut at once, or another process finishes the job first and the power is cut after
// that. Each call that has returned nil is a promise:
//
//   - Stage with a token: Reopen finds the staging;
//   - the Commit of a shared staging's file: the file is part of the output;
//   - the Commit of a staging: the output is the new one, whole;
//   - its Abort: the output is the old one, whole.
//
// At every other moment the next sweep leaves the old output or the new one, whole.
func RunPowerCuts(t *testing.T, flavour faultfs.Flavour) {
	for _, c := range scenarios() {
		for _, finish := range []bool{false, true} {
			if finish && !c.shared {
				continue // no other process can reopen an own staging
			}
			t.Run(fmt.Sprintf("%s,finish=%v", c.name, finish), func(t *testing.T) {
				t.Parallel()
				for after := 0; ; after++ {
					stopped := false
					// The choice of the changes that survive is random, and a missing sync shows in some
					// choices only.
					for seed := range uint64(powerSeeds) {
						rng := rand.New(rand.NewPCG(seed, uint64(after)))
						r := powerRun{T: t, scenario: c, rng: rng, tree: faultfs.NewTree(flavour)}
						r.what = fmt.Sprintf("stopped after %d operations, seed %d", after, seed)
						stopped = r.cut(after, finish)
					}
					if !stopped {
						break
					}
				}
			})
		}
	}
}

// powerRun is one job and one power cut.
type powerRun struct {
	*testing.T
	scenario crashScenario
	rng      *rand.Rand
	tree     *faultfs.Tree
	what     string // has happened, for messages

	staged    bool              // the staging was acknowledged
	committed map[string]string // the files whose Commit was acknowledged
	ended     bool              // the Commit or Abort of the staging was acknowledged
}

const powerOut = "a/b/out"

// cut runs the job, stops its process after some operations, lets another process finish
// the job if finish is set, and cuts the power. It reports whether the process was
// stopped before it had finished.
func (r *powerRun) cut(after int, finish bool) (stopped bool) {
	r.Helper()
	// The files of the old output are there for long; the directories above are new.
	for name, text := range r.scenario.older() {
		r.tree.Put(powerOut+"/"+name, []byte(text))
	}
	r.tree.StopAfter(after)
	err := r.job()
	stopped = r.tree.Stopped()
	if err != nil && !stopped {
		r.Fatalf("%s: %v", r.what, err)
	}
	if finish {
		r.tree = r.tree.Restart()
		if !r.scenario.abort && r.rng.IntN(2) > 0 {
			// The staging cannot be removed, so no step of its removal makes the output
			// durable. The commit succeeds all the same.
			r.tree.Inject(faultfs.Rule{Op: faultfs.Remove, Path: "owner"})
		}
		if err := r.job(); err != nil {
			r.Fatalf("%s: the next process: %v", r.what, err)
		}
	}
	r.tree = r.tree.PowerCut(r.rng)
	r.check()
	return stopped
}

// job stages the new files and commits or aborts, and records each acknowledged step. A
// job with a shared staging area skips files that an earlier process has committed.
func (r *powerRun) job() error {
	// A repeated call after an acknowledged end does nothing, as a master that knows the outcome gives no
	// instruction.
	if r.ended {
		return nil
	}
	ctx := context.Background()
	s, err := r.stage(ctx)
	if err != nil {
		return err
	}
	r.staged = true
	if r.committed == nil {
		r.committed = map[string]string{}
	}
	for _, name := range []string{"part", "sub/x"} {
		if _, done := r.committed[name]; done {
			continue
		}
		err := fill(s, map[string]string{name: newFiles[name]})
		if errors.Is(err, fs.ErrClosed) {
			break // the process before has committed the staging and was stopped then
		}
		if err != nil {
			return err
		}
		r.committed[name] = newFiles[name]
	}
	if r.scenario.abort {
		err = s.Abort(ctx)
	} else {
		err = s.Commit(ctx)
	}
	// The answer to a dead process has reached no client, so it promises nothing.
	r.ended = err == nil && !r.tree.Stopped()
	return err
}

func (r *powerRun) stage(ctx context.Context) (storage.Staging, error) {
	if !r.scenario.shared {
		return r.tree.Stage(ctx, powerOut, storage.ReplaceAll)
	}
	return r.tree.StageShared(ctx, powerOut, crashToken, storage.ReplaceAll)
}

// check continues after the power cut, as the next process of the job does or as the
// next job with the same output.
func (r *powerRun) check() {
	r.Helper()
	ctx := context.Background()
	m := Machine{FS: r.tree, Dir: "a/b"}
	// Acknowledged files must be there. The others may be there or not, but whole.
	if r.ended {
		want := r.scenario.newer()
		if r.scenario.abort {
			want = r.scenario.older()
		}
		r.want(m, want, "after the acknowledged end of the job")
		// An own staging dies with its process, and an abort that was not acknowledged may have happened: both
		// promise nothing.
	} else if r.staged && r.scenario.shared && !r.scenario.abort {
		s, err := r.tree.Reopen(ctx, powerOut, crashToken)
		if err != nil {
			r.Fatalf("%s: the acknowledged staging is lost: %v", r.what, err)
		}
		if len(r.committed) == len(newFiles) {
			if err := s.Commit(ctx); err != nil {
				r.Fatalf("%s: the commit after the power cut: %v", r.what, err)
			}
			r.want(m, r.scenario.newer(), "committed after the power cut")
		} else {
			r.commitRest(m, s)
		}
	}
	tree := r.tree.Restart()
	now := tree.Now
	// By the clock of the next job the staging has long expired; a sweep leaves younger ones to their owners.
	tree.Now = func() time.Time { return now().Add(storage.SharedTTL + storage.OwnTTL) }
	m.FS = tree
	if err := sweepNext(m); err != nil {
		r.Fatalf("%s: the next job: %v", r.what, err)
	}
	got, err := read(m)
	if err != nil {
		r.Fatalf("%s: reading the output: %v", r.what, err)
	}
	if !cmp.Equal(got, r.scenario.older()) && !cmp.Equal(got, r.scenario.newer()) {
		r.Fatalf("%s: after a sweep the output is neither the old one nor the new one: %v", r.what, got)
	}
}

// commitRest writes the files that were not acknowledged and commits. The acknowledged
// ones must be there.
func (r *powerRun) commitRest(m Machine, s storage.Staging) {
	r.Helper()
	rest := maps.Clone(newFiles)
	maps.DeleteFunc(rest, func(name, _ string) bool { return r.committed[name] != "" })
	err := fill(s, rest)
	if err == nil {
		err = s.Commit(context.Background())
	}
	if err != nil {
		r.Fatalf("%s: the rest of the job after the power cut: %v", r.what, err)
	}
	r.want(m, r.scenario.newer(), "committed with the rest after the power cut")
}

func (r *powerRun) want(m Machine, want map[string]string, when string) {
	r.Helper()
	got, err := read(m)
	if err != nil || !cmp.Equal(got, want) {
		r.Fatalf("%s: %s the output is %v, %v; want %v", r.what, when, got, err, want)
	}
}
