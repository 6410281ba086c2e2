package modfair

import (
	"fmt"
	"testing"
	"time"

	"github.com/slotwise/slotwise/policies/hadoop"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// crowd is a cluster of 100 nodes with jobs of many pools, all of which run
// something and have maps left.
func crowd(b testing.TB, jobs, pools, maps int) *fixture {
	cfg := paper()
	cfg.TieByName, cfg.Default.Max = false, 0
	w := newWorld(b, cfg).join(same(100, 4)...)
	for i := range jobs {
		j := w.add(fmt.Sprint("p", i%pools), maps+i%7, 1)
		w.start(j, 1)
	}
	return w
}

// BenchmarkHeartbeat measures a round of one node: idle, when it has no free
// slot; busy, when it reports a finished map and gets another one.
func BenchmarkHeartbeat(b *testing.B) {
	for _, size := range [][2]int{{100, 10}, {1000, 10}, {1000, 1000}} {
		name := fmt.Sprintf("%djobs-%dpools", size[0], size[1])
		b.Run("idle/"+name, func(b *testing.B) {
			w := crowd(b, size[0], size[1], 10)
			c := sched.Compose(oneMap{}, w.o, &hadoop.Greedy{}, &hadoop.None{})
			n := w.Nodes.List().Node(0)
			b.ReportAllocs()
			for b.Loop() {
				r := w.Rounds.Open(w.Now, n, [job.Kinds]int{})
				c.Begin(r)
				c.Next(r)
			}
		})
		b.Run("busy/"+name, func(b *testing.B) {
			w := crowd(b, size[0], size[1], b.N/size[0]+20)
			c := sched.Compose(oneMap{}, w.o, &hadoop.Greedy{}, &hadoop.None{})
			n := w.Nodes.List().Node(0)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				w.turn(b, c, n)
			}
		})
		b.Run("update/"+name, func(b *testing.B) {
			w := crowd(b, size[0], size[1], 10)
			b.ReportAllocs()
			for b.Loop() {
				w.o.Update(0)
			}
		})
	}
}

// BenchmarkWaiting measures the round that costs most: the node has a free slot,
// and every job would rather wait for a node with its data.
func BenchmarkWaiting(b *testing.B) {
	cfg := paper()
	cfg.Default.Max = 0
	w := newWorld(b, cfg).join(same(100, 4)...)
	p := NewDynamic(DynamicConfig{Delay: 1 << 60, Memory: true})
	for i := range 1000 {
		p.JobAdded(w.Submit(job.Spec{Request: job.Request{Pool: fmt.Sprint("p", i%10)}, Splits: []job.Split{{Hosts: []string{"n1"}}, {Hosts: []string{"n2"}}}}))
	}
	c := sched.Compose(oneMap{}, w.o, p, &hadoop.None{})
	n := w.Nodes.List().Node(0)
	b.ReportAllocs()
	for b.Loop() {
		w.Now += time.Millisecond
		r := w.Rounds.Open(w.Now, n, [job.Kinds]int{4, 1})
		c.Begin(r)
		if _, ok := c.Next(r); ok {
			b.Fatal("a job did not wait")
		}
	}
}

// turn gives the node a map and ends the oldest map of its job.
func (w *fixture) turn(b testing.TB, c *sched.Composition, n *cluster.Node) {
	w.Now += time.Millisecond
	r := w.Rounds.Open(w.Now, n, [job.Kinds]int{4, 1})
	c.Begin(r)
	as, ok := c.Next(r)
	if !ok {
		b.Fatal("no map left")
	}
	done := as.Task.Job().Oldest(job.Map)
	w.Jobs.Succeed(done, 0, w.Now)
	w.o.TaskEnded(done, w.Now)
	a := w.Jobs.Start(as.Task, job.Launch{Node: n.Index(), Level: as.Level}, w.Now)
	w.o.TaskStarted(a, w.Now)
}

// A round that gives nothing, and an update, allocate nothing.
func TestNothingIsAllocated(t *testing.T) {
	w := crowd(t, 50, 5, 4)
	n := w.Nodes.List().Node(0)
	visit := func(sched.Candidate) bool { return true }
	got := testing.AllocsPerRun(100, func() {
		r := w.Rounds.Open(w.Now, n, [job.Kinds]int{4, 1})
		w.o.Begin(r)
		w.o.Each(r, sched.Offer{}, visit)
		w.o.Update(0)
	})
	if got != 0 {
		t.Errorf("%v allocations", got)
	}
}
