package tyrex

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

func sita(t fatal, set map[string]string) *SITA {
	o, err := ReadSITA(sched.NewKit(sched.Options{Set: set}))
	if err != nil {
		t.Fatal(err)
	}
	return o.(*SITA)
}

type fatal interface{ Fatal(...any) }

// Jobs go to the partition of their size: below and at a cut-off point, and above the last.
func TestSITACutoffs(t *testing.T) {
	s := sita(t, map[string]string{"capacities": "0.2,0.3,0.5", "cutoffs": "10s,1m"})
	tr := tracker.New(tracker.Config{}, compose(s))
	tr.Step(0, &tracker.Join{Node: cluster.Spec{Name: "n", MapSlots: 10, ReduceSlots: 4}})
	for i, c := range []struct {
		size time.Duration
		part int
	}{{time.Second, 1}, {10 * time.Second, 1}, {11 * time.Second, 2}, {time.Minute, 2}, {time.Hour, 3}, {0, 1}} {
		tr.Step(time.Duration(i)*time.Second, &tracker.Submit{Spec: job.Spec{Splits: make([]job.Split, 3)}})
		j := tr.Jobs().Get(job.ID(i + 1))
		if s.Partition(j) != 1 {
			t.Errorf("job %d begins in partition %d", i, s.Partition(j))
		}
		s.Know(j, [job.Kinds]time.Duration{c.size / 2, c.size - c.size/2})
		if got := s.Partition(j); got != c.part {
			t.Errorf("a job of %v is in partition %d, want %d", c.size, got, c.part)
		}
	}
	for _, set := range []map[string]string{{"cutoffs": "10s,20s"}, {"capacities": "0.2,0.3,0.5", "cutoffs": "20s,10s"}} {
		if _, err := ReadSITA(sched.NewKit(sched.Options{Set: set})); err == nil {
			t.Errorf("%v is accepted", set)
		}
	}
}

// Without cut-off points, the jobs of each partition have about the part of the work that the
// partition has of the slots, once many jobs have been seen.
func TestSITAFollowsTheLoad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := sita(t, map[string]string{"capacities": "0.3,0.7"})
		work := [2]float64{}
		for range 600 {
			size := time.Duration(rapid.IntRange(1, 1000).Draw(t, "size")) * time.Second
			work[s.partitionOf(size)] += size.Seconds()
		}
		if got := work[0] / (work[0] + work[1]); got < 0.15 || got > 0.5 {
			t.Errorf("%.2f of the work is in the first of two partitions", got)
		}
	})
	// Short jobs have a sixth of the work, and all long jobs have one size.
	two := sita(t, nil)
	two.partitionOf(10 * time.Second)
	for range 10 {
		if short, long := two.partitionOf(10*time.Second), two.partitionOf(50*time.Second); short != 0 || long != 1 {
			t.Errorf("short jobs are in partition %d, long ones in %d", short, long)
		}
	}
	same := sita(t, nil)
	for range 10 {
		if got := same.partitionOf(time.Minute); got != 0 {
			t.Errorf("equal jobs are in partition %d", got)
		}
	}
}
