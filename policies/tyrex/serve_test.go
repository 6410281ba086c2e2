package tyrex

import (
	"slices"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// held plays the scene of two partitions of two map slots each: job 1 has moved
// on and uses the second one, and jobs 2 and 3 share the first, which is full.
func held(t *testing.T, lend Lend) *play {
	c := shares(.5, .5)
	c.Lend = lend
	p := newPlay(t, staticTags(t, c, 10), 4, 1)
	p.jobs = []plan{{maps: times(9, 20), reduces: []int{1}}, {maps: times(3, 1000)}, {maps: times(1, 1000)}}
	p.done, p.in = make([]int, 3), make([]int, 3)
	p.submit(0)
	p.beat()
	p.submit(1)
	p.submit(2)
	p.now = 20
	p.beat()
	return p
}

func TestReasons(t *testing.T) {
	p := held(t, LendNone)
	for _, c := range []struct {
		job   job.ID
		kind  job.Kind
		want  sched.Reason
		words string
	}{
		{1, job.Map, sched.Reason{Code: sched.PartitionFull, Pool: "2 of 2", Have: 2, Need: 2}, "need more time than the others"},
		{1, job.Reduce, sched.Reason{Code: sched.SlowStart, Have: 2, Need: 9}, "too few reduce slots to split"},
		{2, job.Map, sched.Reason{Code: sched.PartitionFull, Pool: "1 of 2", Have: 2, Need: 2}, "have taken at most 10s in all; those of this job have taken 0s"},
		{3, job.Map, sched.Reason{Code: sched.PartitionFull, Pool: "1 of 2", Have: 2, Need: 2}, "whose finished tasks"},
	} {
		why, words := p.tr.Explain(p.tr.Jobs().Get(c.job), c.kind)
		if why != c.want || !strings.Contains(words, c.words) {
			t.Errorf("job %d %v: %+v: %s", c.job, c.kind, why, words)
		}
	}
	// An ended job has no partition, though another may sit in its place.
	j := p.tr.Jobs().Get(2)
	p.tr.Step(seconds(p.now), &tracker.KillJob{Job: 2})
	if _, words := p.tr.Explain(j, job.Map); words != "the job has ended" {
		t.Errorf("an ended job: %s", words)
	}
}

func TestReasonsWithLending(t *testing.T) {
	p := held(t, LendAll)
	if why, _ := p.tr.Explain(p.tr.Jobs().Get(3), job.Map); why.Code != sched.Behind && why.Code != sched.NoSlot {
		t.Errorf("%+v", why)
	}
}

// With one partition nothing is added: there is nothing to understand.
func TestOnePartitionNeedsNoWords(t *testing.T) {
	p := newPlay(t, staticTags(t, shares(1)), 1, 1)
	p.jobs = []plan{{maps: times(2, 5)}}
	p.submit(0)
	if _, words := p.tr.Explain(p.tr.Jobs().Get(1), job.Map); strings.Contains(words, "partition") {
		t.Error(words)
	}
}

// What an order yields for an offer, as job numbers, or negative for reduces.
func yields(p *play, o sched.Offer) (got []int) {
	r := sched.NewRoundWriter(p.tr.View()).Open(seconds(p.now), p.tr.Nodes().Get("n1"), [job.Kinds]int{9, 9})
	p.tags.Each(r, o, func(c sched.Candidate) bool {
		id := int(c.Job.ID())
		if c.Kind == job.Reduce {
			id = -id
		}
		got = append(got, id)
		return true
	})
	return got
}

func TestOffers(t *testing.T) {
	for _, c := range []struct {
		lend Lend
		end  job.ID // a job to kill, which frees slots of its partition
		o    sched.Offer
		want []int
	}{
		{LendNone, 0, sched.Offer{}, nil},
		{LendAll, 0, sched.Offer{}, []int{2, 3, 1}},
		{LendNone, 2, sched.Offer{}, []int{3}},
		// A full partition gets what a later one has left, not what an earlier one has.
		{LendEarlier, 0, sched.Offer{}, nil},
		{LendEarlier, 1, sched.Offer{}, []int{2, 3}},
		{LendEarlier, 2, sched.Offer{}, []int{3}},
		{LendAll, 2, sched.Offer{}, []int{3, 1}},
		{LendAll, 1, sched.Offer{}, []int{2, 3}},
		{LendAll, 0, sched.Offer{HeadOnly: true}, []int{2, 1}},
		{LendAll, 0, sched.Offer{HeadOnly: true, Kind: job.Reduce, Slot: job.Reduce}, []int{-1}},
		{LendNone, 2, sched.Offer{Either: true}, []int{3}},
		{LendNone, 2, sched.Offer{Either: true, Kind: job.Reduce}, []int{3}},
		{LendNone, 2, sched.Offer{Pool: "default"}, []int{3}},
		{LendNone, 2, sched.Offer{Pool: "other"}, nil},
		// A lent slot counts to the kind of slot that it is.
		{LendNone, 0, sched.Offer{Kind: job.Map, Slot: job.Reduce}, []int{2, 3, 1}},
	} {
		p := held(t, c.lend)
		if c.end > 0 {
			p.tr.Step(seconds(p.now), &tracker.KillJob{Job: c.end})
		}
		if got := yields(p, c.o); !slices.Equal(got, c.want) {
			t.Errorf("lend %v, %+v: %v, want %v", c.lend, c.o, got, c.want)
		}
	}
}

// The first job in the partition gets the slot, and no other is visited.
func TestEachStops(t *testing.T) {
	p := held(t, LendAll)
	visits := 0
	r := sched.NewRoundWriter(p.tr.View()).Open(seconds(p.now), p.tr.Nodes().Get("n1"), [job.Kinds]int{9, 9})
	p.tags.Each(r, sched.Offer{Either: true}, func(sched.Candidate) bool { visits++; return false })
	if visits != 1 {
		t.Errorf("%d visits", visits)
	}
}
