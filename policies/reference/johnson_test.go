package reference

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/policies/reference/optimum"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// yielded returns the names of the jobs that an order serves maps of.
func yielded(o sched.Order) string {
	var names []string
	o.Each(&sched.Round{}, sched.Offer{}, func(c sched.Candidate) bool {
		names = append(names, c.Job.Name())
		return true
	})
	return strings.Join(names, " ")
}

func add(b *job.Book, o *Johnson, name string, maps, reduces int, p job.Priority) *job.Job {
	j := b.Add(job.Spec{Name: name, Splits: make([]job.Split, maps), Reduces: reduces, Request: job.Request{Priority: p, SlowStart: -1}}, 0)
	o.JobAdded(j)
	return j
}

// The textbook order: short maps first, short reduces last; and its inverse.
// Priority stands above both, and equals are first come, first served.
func TestJohnsonAndReverse(t *testing.T) {
	for _, c := range []struct {
		o    *Johnson
		want string
	}{{NewJohnson(), "vip b a d d2 c e"}, {NewReverse(), "vip e c d d2 a b"}} {
		b := job.NewBook(cluster.NewBook(), 0)
		add(b, c.o, "a", 3, 5, 0)
		add(b, c.o, "b", 2, 9, 0)
		add(b, c.o, "c", 7, 4, 0)
		add(b, c.o, "d", 6, 6, 0)
		add(b, c.o, "d2", 6, 6, 0)
		add(b, c.o, "e", 8, 1, 0)
		add(b, c.o, "vip", 9, 9, job.High)
		if got := yielded(c.o); got != c.want {
			t.Errorf("reverse %v: %s, want %s", c.o.reverse, got, c.want)
		}
	}
}

// A waiting job moves when times of jobs of its name are learned and a job ends;
// a running one stays where it is.
func TestJohnsonLearns(t *testing.T) {
	b, o := job.NewBook(cluster.NewBook(), 0), NewJohnson()
	old := add(b, o, "sort", 1, 1, 0)
	add(b, o, "grep", 3, 6, 0)
	add(b, o, "sort", 2, 3, 0)
	running := add(b, o, "sort", 4, 5, 0)
	b.Start(running.Fresh(job.Map), job.Launch{}, 0)
	for k, seconds := range []time.Duration{30, 1} {
		a := b.Start(old.Fresh(job.Kind(k)), job.Launch{}, 0)
		b.Succeed(a, 0, seconds*time.Second)
		o.TaskEnded(a, seconds*time.Second)
	}
	if got := yielded(o); !strings.HasPrefix(got, "sort grep") {
		t.Errorf("before: %s", got)
	}
	b.Decide(old, job.Succeeded, nil, "", 0)
	o.JobRemoved(old)
	// The running sort keeps rank (4,5); the waiting one has (60,3) now, and
	// grep, by the times of all jobs, (90,6).
	if got := yielded(o); got != "sort grep sort" || o.Jobs()[0] != running {
		t.Errorf("after: %s", got)
	}
}

// On one slot of each kind no order of a few jobs beats Johnson's, and none is
// worse than the inverse by the model that the rule is for.
func TestJohnsonAgainstAllOrders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, o := job.NewBook(cluster.NewBook(), 0), NewJohnson()
		var works []optimum.Work
		for range rapid.IntRange(1, 5).Draw(t, "jobs") {
			m, r := rapid.IntRange(1, 9).Draw(t, "maps"), rapid.IntRange(0, 9).Draw(t, "reduces")
			add(b, o, fmt.Sprint(len(works)), m, r, 0)
			works = append(works, optimum.Work{Maps: float64(m), Reduces: float64(r)})
		}
		var ours []optimum.Work
		for _, j := range o.Jobs() {
			ours = append(ours, works[j.ID()-1])
		}
		best := optimum.Makespan(ours, 1, 1)
		permute(works, 0, func(w []optimum.Work) {
			if m := optimum.Makespan(w, 1, 1); m < best {
				t.Fatalf("%v takes %v, Johnson's %v takes %v", w, m, ours, best)
			}
		})
	})
}

func permute(w []optimum.Work, from int, visit func([]optimum.Work)) {
	if from == len(w) {
		visit(w)
		return
	}
	for i := from; i < len(w); i++ {
		w[from], w[i] = w[i], w[from]
		permute(w, from+1, visit)
		w[from], w[i] = w[i], w[from]
	}
}
