package sched

import (
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// Each reason has a sentence that differs from all others and shows the numbers.
func TestWords(t *testing.T) {
	seen := map[string]Code{}
	for c := NoReason; c <= NotYet; c++ {
		r := Reason{Code: c, Level: cluster.NODE, Job: 17, Have: 31, Need: 47, Waited: time.Second,
			Limit: 5 * time.Second, P: 0.83, Pool: "ads"}
		w := r.Words(job.Map)
		if other, dup := seen[w]; dup || strings.Contains(w, "%!") {
			t.Errorf("reason %d says %q, as %d does", c, w, other)
		}
		seen[w] = c
	}
	for r, want := range map[Reason]string{
		{Code: WaitLocality, Level: cluster.RACK, Waited: 2 * time.Second, Limit: 5 * time.Second}: "waits for a free slot in the same rack as its data: waited 2s, takes what there is after 5s",
		{Code: SlowStart, Have: 3, Need: 5}:             "reduces start once 5 maps are done; 3 are",
		{Code: PoolFull, Pool: "ads", Have: 9, Need: 9}: `pool "ads" runs 9 maps already and may run at most 9`,
		{Code: Overload, P: 0.83}:                       "one more map would probably overload the machine (83 % likely)",
		{Code: Behind, Have: 2, Need: 6, Job: 4}:        "2 of 6 jobs with waiting tasks come first; j4 is just ahead",
	} {
		if got := r.Words(job.Map); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
}

// A note belongs to the job that it was made for, not to the next one in its
// seat, and goes when the job gets a task.
func TestLedger(t *testing.T) {
	b := job.NewBook(cluster.NewBook(), 0)
	a := b.Add(job.Spec{Splits: make([]job.Split, 1)}, 0)
	v := NewView(b.List(), cluster.NewBook().List(), 4)
	d := NewRoundWriter(v)
	r := d.Open(7, nil, [job.Kinds]int{})
	if why, _ := d.Ledger().Last(a, job.Map); why.Code != NoReason {
		t.Errorf("before any note: %v", why)
	}
	r.Note(a, job.Map, Reason{Code: PoolFull})
	r.Note(a, job.Map, Reason{Code: Overload})
	if why, at := d.Ledger().Last(a, job.Map); why.Code != Overload || at != 7 {
		t.Errorf("last note: %v at %v", why, at)
	}
	if why, _ := d.Ledger().Last(a, job.Reduce); why.Code != NoReason {
		t.Errorf("other kind: %v", why)
	}
	b.Decide(a, job.Killed, nil, "", 0)
	c := b.Add(job.Spec{Splits: make([]job.Split, 1)}, 0)
	if why, _ := d.Ledger().Last(c, job.Map); c.Seat() != a.Seat() || why.Code != NoReason {
		t.Errorf("next job in seat %d: %v", c.Seat(), why)
	}
	r.Note(c, job.Map, Reason{Code: Overload})
	d.Launched(Assignment{Task: c.Task(job.Map, 0)})
	if why, _ := d.Ledger().Last(c, job.Map); why.Code != NoReason {
		t.Errorf("after a launch: %v", why)
	}
}
