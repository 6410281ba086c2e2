package hadoop

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// served returns the jobs that an order yields for a kind.
func served(f *sched.SortedOrder, k job.Kind) (got []job.ID) {
	f.Each(&sched.Round{}, sched.Offer{Kind: k, Slot: k}, func(c sched.Candidate) bool {
		got = append(got, c.Job.ID())
		return true
	})
	return got
}

// FIFO kept up to date job by job equals sorting all launchable jobs afresh.
func TestFIFOAgainstSort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, f := job.NewBook(cluster.NewBook(), 0), NewFIFO()
		for range 80 {
			live := b.List().Live()
			what := rapid.IntRange(0, 4).Draw(t, "what")
			if what == 0 || len(live) == 0 {
				f.JobAdded(b.Add(job.Spec{Splits: make([]job.Split, rapid.IntRange(0, 2).Draw(t, "maps")), Reduces: 1, Request: job.Request{SlowStart: 1, Priority: job.Priority(rapid.IntRange(-2, 2).Draw(t, "priority"))}}, time.Duration(rapid.IntRange(0, 2).Draw(t, "at"))))
				continue
			}
			j := rapid.SampledFrom(live).Draw(t, "job")
			switch fresh := j.Fresh(job.Map); {
			case what == 1 && j.Oldest(job.Map) == nil:
				b.Decide(j, job.Killed, nil, "", 0)
				f.JobRemoved(j)
			case what == 2:
				b.SetPriority(j, job.Priority(rapid.IntRange(-2, 2).Draw(t, "priority")))
				f.JobChanged(j, sched.PriorityChanged)
			case fresh != nil:
				b.Succeed(b.Start(fresh, job.Launch{}, 0), 0, 0)
				f.JobChanged(j, sched.MapDemandChanged)
				f.JobChanged(j, sched.ReduceDemandChanged)
			}
			check(t, b, f)
		}
	})
}

func check(t *rapid.T, b *job.Book, f *sched.SortedOrder) {
	for k := range job.Kind(job.Kinds) {
		var want []job.ID
		sorted := slices.Clone(b.List().Live())
		slices.SortFunc(sorted, Urgency)
		for _, j := range sorted {
			if j.Launchable(k) {
				want = append(want, j.ID())
			}
		}
		if got := served(f, k); !slices.Equal(got, want) {
			t.Fatalf("%v: got %v, want %v", k, got, want)
		}
	}
}

func TestFIFOStopsPoolsAndEither(t *testing.T) {
	b, f := job.NewBook(cluster.NewBook(), 0), NewFIFO()
	f.JobAdded(b.Add(job.Spec{Request: job.Request{Pool: "x", SlowStart: -1}, Splits: make([]job.Split, 1), Reduces: 1}, 0))
	f.JobAdded(b.Add(job.Spec{Request: job.Request{Pool: "y", SlowStart: -1}, Splits: make([]job.Split, 1), Reduces: 1}, 0))
	visits := func(o sched.Offer, stop int) (n int) {
		f.Each(&sched.Round{}, o, func(sched.Candidate) bool { n++; return n != stop })
		return n
	}
	for _, c := range []struct {
		o          sched.Offer
		stop, want int
	}{{sched.Offer{}, 0, 2}, {sched.Offer{}, 1, 1}, {sched.Offer{Pool: "y"}, 0, 1}, {sched.Offer{Either: true}, 0, 4},
		{sched.Offer{Either: true}, 2, 2}, {sched.Offer{Either: true}, 3, 3}} {
		if got := visits(c.o, c.stop); got != c.want {
			t.Errorf("%+v stopping at %d: %d visits, want %d", c.o, c.stop, got, c.want)
		}
	}
}
