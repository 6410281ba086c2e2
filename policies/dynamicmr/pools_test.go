package dynamicmr

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// shares gives pools minimum shares and weights by their names, and keeps jobs
// of low priority back.
type shares struct{}

func (shares) PoolShare(pool string) ([job.Kinds]int, float64) {
	n := int(pool[0] - 'a')
	return [job.Kinds]int{n, n / 2}, float64(1 + n%3)
}

func (shares) LimitReached(j *job.Job, _ job.Kind) sched.Reason {
	if j.Priority() < job.Normal {
		return sched.Reason{Code: sched.JobsFull}
	}
	return sched.Reason{}
}

// Demands and ranks kept up to date job by job equal counting and sorting all
// jobs afresh.
func TestDemandAgainstRecount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := job.NewBook(cluster.NewBook(), 0)
		view := sched.NewView(b.List(), cluster.NewBook().List(), 0)
		d := demand{shares: shares{}, holder: shares{}}
		d.init()
		for range 60 {
			live := b.List().Live()
			what := rapid.IntRange(0, 5).Draw(t, "what")
			if what == 0 || len(live) == 0 {
				j := b.Add(job.Spec{Request: job.Request{Pool: rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "pool"), SlowStart: 0.5, Priority: job.Priority(rapid.IntRange(-1, 1).Draw(t, "priority"))},
					Splits: make([]job.Split, rapid.IntRange(0, 3).Draw(t, "maps")), Reduces: rapid.IntRange(0, 3).Draw(t, "reduces")}, 0)
				d.dirty = true
				d.add(j)
				d.refreshAll(view)
				continue
			}
			j := rapid.SampledFrom(live).Draw(t, "job")
			change(t, b, &d, j, what)
			compare(t, b, &d, view)
		}
	})
}

// change advances or ends a job and updates the demand as the hooks do.
func change(t *rapid.T, b *job.Book, d *demand, j *job.Job, what int) {
	k := job.Kind(rapid.IntRange(0, 1).Draw(t, "kind"))
	run, fresh := j.Oldest(k), j.Fresh(k)
	switch {
	case what == 1 && j.Oldest(job.Map) == nil && j.Oldest(job.Reduce) == nil:
		b.Decide(j, job.Killed, nil, "", 0)
		d.remove(j)
		return
	case what == 2 && run != nil:
		b.Succeed(run, 0, 0)
	case what == 3 && run != nil:
		b.Drop(run, job.AttemptKilled, "", 0)
	case fresh != nil && j.Launchable(k):
		b.Start(fresh, job.Launch{Slot: job.Kind(rapid.IntRange(0, 1).Draw(t, "slot"))}, 0)
	}
	d.refresh(j)
}

func compare(t *rapid.T, b *job.Book, d *demand, v *sched.View) {
	var pending [job.Kinds]int
	byName := map[string]*pool{}
	for _, j := range b.List().Live() {
		p := byName[j.Pool()]
		if p == nil {
			least, weight := shares{}.PoolShare(j.Pool())
			p = &pool{name: j.Pool(), least: least[job.Map] + least[job.Reduce], weight: weight}
			byName[j.Pool()] = p
		}
		p.running += j.Running(job.Map) + j.Running(job.Reduce)
		for k := range job.Kind(job.Kinds) {
			if j.Launchable(k) && j.Priority() >= job.Normal {
				p.pending[k] += j.Pending(k)
				pending[k] += j.Pending(k)
			}
		}
	}
	for k := range job.Kind(job.Kinds) {
		if got := d.pending(v, k); got != pending[k] {
			t.Fatalf("%d pending %vs, want %d", got, k, pending[k])
		}
	}
	var want, got []string
	var list []*pool
	for _, p := range byName {
		if p.pending[job.Map]+p.pending[job.Reduce] > 0 {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, dumb)
	for _, p := range list {
		want = append(want, fmt.Sprint(p.name, p.pending, p.running))
	}
	for _, p := range d.ranking {
		got = append(got, fmt.Sprint(p.name, p.pending, p.running))
	}
	if !slices.Equal(got, want) {
		t.Fatalf("ranking %v, want %v", got, want)
	}
}

// A pool whose demand is below its minimum share is compared by its demand, as in FairShareComparator of
// Hadoop 1.2.1. Pool a runs 1 of the 2 tasks that it has, and pool b runs 2 of the 5 of its share.
func TestRankOfDemandBelowTheMinimum(t *testing.T) {
	a := pool{name: "a", least: 8, running: 1, pending: [job.Kinds]int{1, 0}, weight: 1}
	b := pool{name: "b", least: 5, running: 2, pending: [job.Kinds]int{9, 0}, weight: 1}
	if compareRank(a.now(), b.now()) <= 0 {
		t.Errorf("a is served first: %v, %v", a.now(), b.now())
	}
}

// dumb is FairShareComparator written out.
func dumb(a, b *pool) int {
	least := func(p *pool) int { return min(p.least, p.running+p.pending[job.Map]+p.pending[job.Reduce]) }
	needy := func(p *pool) bool { return p.running < least(p) }
	switch {
	case needy(a) && !needy(b):
		return -1
	case !needy(a) && needy(b):
		return 1
	case needy(a):
		return cmp.Or(cmp.Compare(float64(a.running)/float64(max(least(a), 1)), float64(b.running)/float64(max(least(b), 1))),
			cmp.Compare(a.name, b.name))
	}
	return cmp.Or(cmp.Compare(float64(a.running)/a.weight, float64(b.running)/b.weight), cmp.Compare(a.name, b.name))
}
