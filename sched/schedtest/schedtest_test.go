package schedtest_test

import (
	"cmp"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
	"github.com/slotwise/slotwise/sched/schedtest"
)

// broken are policies with one mistake each, and the subtest that must find it.
var broken = []struct {
	name, subtest string
	table         sched.Table
}{
	{"greedy", "Safety", whole(func(*sched.Kit) (sched.Policy, error) { return &overcommit{}, nil })},
	{"stale", "Safety", orders(func(*sched.Kit) (sched.Order, error) {
		return sched.NewSortedOrder(func(a, b *job.Job) int { return cmp.Compare(a.Pending(job.Map), b.Pending(job.Map)) }), nil
	})},
	{"starving", "Liveness", orders(func(*sched.Kit) (sched.Order, error) { return &unfair{}, nil })},
	{"narrow", "Wide", orders(func(*sched.Kit) (sched.Order, error) { return &narrow{}, nil })},
	{"moody", "Determinism", orders(func(*sched.Kit) (sched.Order, error) { return &moody{}, nil })},
	{"nosy", "Determinism", orders(func(*sched.Kit) (sched.Order, error) { return &nosy{}, nil })},
	{"forgetful", "State", orders(func(*sched.Kit) (sched.Order, error) { return &forgetful{}, nil })},
	{"sorting", "Cost", orders(func(*sched.Kit) (sched.Order, error) { return &sorting{}, nil })},
	{"wordless", "Parameters", func() sched.Table {
		t := orders(func(*sched.Kit) (sched.Order, error) { return &unfair{}, nil })
		t.Order[0].Params = []sched.Param{{Name: "x", Default: "1"}}
		return t
	}()},
}

func orders(build func(*sched.Kit) (sched.Order, error)) sched.Table {
	return sched.Table{
		Order:    []sched.Part[sched.Order]{{Name: "broken", Summary: "an order with a mistake", New: build}},
		Policies: []sched.Row{{Name: "broken", Slots: "static", Order: "broken", Place: "greedy", Speculate: "none"}},
	}
}

func whole(build func(*sched.Kit) (sched.Policy, error)) sched.Table {
	return sched.Table{Policies: []sched.Row{{Name: "broken", Summary: "a policy with a mistake", New: build}}}
}

// childEnv names the broken policy that a child process must test.
const childEnv = "SCHEDTEST_BROKEN"

// The suite finds each mistake with the subtest that is meant to. The suite runs in
// child processes, because its failures must not fail this test.
func TestSuiteFindsMistakes(t *testing.T) {
	if name := os.Getenv(childEnv); name != "" {
		for _, b := range broken {
			if b.name == name {
				schedtest.Conformance(t, schedtest.Config{Policy: "broken", Tables: []sched.Table{b.table}, Clock: time.Now})
			}
		}
		return
	}
	for _, b := range broken {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			self := exec.Command(os.Args[0], "-test.run=^TestSuiteFindsMistakes$/^"+b.subtest+"$", "-test.v", "-rapid.nofailfile", "-rapid.shrinktime=0s")
			self.Env = append(os.Environ(), childEnv+"="+b.name)
			out, err := self.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: TestSuiteFindsMistakes/"+b.subtest) {
				t.Errorf("%s did not fail: %v\n%s", b.subtest, err, out)
			}
		})
	}
}

// overcommit assigns the first pending map, whether a slot is free or not.
type overcommit struct{}

func (*overcommit) Begin(*sched.Round) {}

func (*overcommit) Next(r *sched.Round) (sched.Assignment, bool) {
	for _, j := range r.Jobs().Live() {
		if t := j.Fresh(job.Map); t != nil {
			return sched.Assignment{Task: t, Slot: job.Map, Level: r.Nodes().LevelOf(t, r.Node())}, true
		}
	}
	return sched.Assignment{}, false
}

// each visits jobs in order of submission.
func each(r *sched.Round, o sched.Offer, jobs []*job.Job, visit func(sched.Candidate) bool) {
	for _, j := range jobs {
		if !visit(sched.Candidate{Job: j, Kind: o.Kind}) {
			return
		}
	}
}

// unfair never serves every third job.
type unfair struct{}

func (*unfair) Each(r *sched.Round, o sched.Offer, visit func(sched.Candidate) bool) {
	jobs := slices.DeleteFunc(slices.Clone(r.Jobs().Live()), func(j *job.Job) bool { return j.ID()%3 == 2 })
	each(r, o, jobs, visit)
}

// narrow serves jobs whose tasks occupy several slots only if nothing else waits.
type narrow struct{}

func (*narrow) Each(r *sched.Round, o sched.Offer, visit func(sched.Candidate) bool) {
	jobs := slices.Clone(r.Jobs().Live())
	slices.SortStableFunc(jobs, func(a, b *job.Job) int { return a.Width() - b.Width() })
	each(r, o, jobs, visit)
}

// rounds counts over all policies of the process, which is the mistake of moody.
var rounds int

// moody serves jobs in reverse now and then.
type moody struct{}

func (*moody) Each(r *sched.Round, o sched.Offer, visit func(sched.Candidate) bool) {
	jobs := slices.Clone(r.Jobs().Live())
	if rounds++; rounds%7 > 3 {
		slices.Reverse(jobs)
	}
	each(r, o, jobs, visit)
}

// nosy changes its order on every call, also if a user only wants to
// know why a job waits.
type nosy struct{ asked int }

func (n *nosy) Each(r *sched.Round, o sched.Offer, visit func(sched.Candidate) bool) {
	jobs := slices.Clone(r.Jobs().Live())
	if n.asked++; n.asked%2 == 0 {
		slices.Reverse(jobs)
	}
	each(r, o, jobs, visit)
}

// forgetful saves something else than it loads.
type forgetful struct{ ended byte }

func (f *forgetful) Each(r *sched.Round, o sched.Offer, visit func(sched.Candidate) bool) {
	each(r, o, r.Jobs().Live(), visit)
}
func (f *forgetful) TaskStarted(*job.Attempt, time.Duration) {}
func (f *forgetful) TaskEnded(*job.Attempt, time.Duration)   { f.ended = 1 }
func (f *forgetful) Save() ([]byte, error)                   { return []byte{f.ended}, nil }
func (f *forgetful) Load([]byte) error                       { return nil }

// sorting sorts all jobs for every offer, by two numbers one after the other.
type sorting struct{}

func (*sorting) Each(r *sched.Round, o sched.Offer, visit func(sched.Candidate) bool) {
	jobs := slices.Clone(r.Jobs().Live())
	for _, k := range []job.Kind{o.Kind.Other(), o.Kind} {
		slices.SortStableFunc(jobs, func(a, b *job.Job) int { return b.Pending(k) - a.Pending(k) })
	}
	each(r, o, jobs, visit)
}
