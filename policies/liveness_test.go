package policies_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// Property: whatever nodes are lost, with whatever map output, every job ends under
// every policy, as long as nodes with slots of both kinds remain. Reduces never end
// before all maps of their job are done, so under a policy that lends slots they may
// hold all slots that the missing maps need; the tracker must see to it.
func TestJobsEndWhenOutputIsLost(t *testing.T) {
	for _, name := range policies.Names() {
		t.Run(name, func(t *testing.T) {
			preempted := int64(0)
			for range 10 { // scripts that lead into the trap are rare
				rapid.Check(t, func(r *rapid.T) {
					p, err := policies.Build(name, sched.Options{Seed: 1})
					if err != nil {
						r.Fatal(err)
					}
					c := &lossyCluster{t: r, tr: tracker.New(tracker.Config{NodeTimeout: -1}, p), runs: map[string][]job.AttemptID{}}
					c.play()
					preempted += c.tr.Stats().Preempted
				})
			}
			t.Logf("%d attempts preempted", preempted)
		})
	}
}

// lossyCluster is a tracker whose nodes finish all tasks that they can, and of which some are
// lost.
type lossyCluster struct {
	t     *rapid.T
	tr    *tracker.Tracker
	now   time.Duration
	nodes []string
	runs  map[string][]job.AttemptID // by node
}

func (c *lossyCluster) play() {
	slots := rapid.IntRange(0, 3)
	c.join("stays", 1+slots.Draw(c.t, "maps"), 1+slots.Draw(c.t, "reduces"))
	for i := range rapid.IntRange(1, 3).Draw(c.t, "nodes") {
		c.join(fmt.Sprint("n", i), slots.Draw(c.t, "maps"), slots.Draw(c.t, "reduces"))
	}
	for range rapid.IntRange(1, 4).Draw(c.t, "jobs") {
		c.step(&tracker.Submit{Spec: job.Spec{Request: job.Request{Pool: rapid.SampledFrom([]string{"", "p"}).Draw(c.t, "pool"), SlowStart: rapid.SampledFrom([]float64{-1, 0.05, 1}).Draw(c.t, "slow start")},
			Splits: make([]job.Split, rapid.IntRange(1, 8).Draw(c.t, "splits")), Reduces: rapid.IntRange(0, 12).Draw(c.t, "tasks")}})
	}
	// Each number is for how many beats reduces must have waited for nothing but
	// themselves before a node is lost.
	losses := rapid.SliceOfN(rapid.IntRange(0, 6), 0, len(c.nodes)-1).Draw(c.t, "losses")
	for i, reducing := 0, 0; len(c.tr.Jobs().Live()) > 0; i++ {
		if i > 2000 {
			c.t.Fatalf("jobs do not end: %s", c.describe())
		}
		if c.anyReduces() {
			reducing++
		}
		if len(losses) > 0 && reducing > losses[0] {
			reducing, losses = 0, losses[1:]
			c.lose(c.nodes[len(c.nodes)-1])
		}
		c.beat(i%3 == 0)
	}
}

// anyReduces reports whether a job runs reduces and all its maps are done.
func (c *lossyCluster) anyReduces() bool {
	return slices.ContainsFunc(c.tr.Jobs().Live(), func(j *job.Job) bool { return j.MapsDone() && j.Running(job.Reduce) > 0 })
}

func (c *lossyCluster) join(name string, maps, reduces int) {
	c.step(&tracker.Join{Node: cluster.Spec{Name: name, MapSlots: maps, ReduceSlots: reduces}})
	c.nodes = append(c.nodes, name)
}

func (c *lossyCluster) lose(name string) {
	c.nodes = slices.DeleteFunc(c.nodes, func(n string) bool { return n == name })
	delete(c.runs, name)
	c.step(&tracker.Lose{Node: name})
}

func (c *lossyCluster) step(ev tracker.Event) {
	for _, e := range c.tr.Step(c.now, ev) {
		if e.Kind == tracker.Launch {
			c.runs[e.Node] = append(c.runs[e.Node], e.Attempt)
		}
	}
	if s := c.tr.Stats(); s.Refused > 0 {
		c.t.Fatal(s.LastRefusal)
	}
}

// beat lets every node send a heartbeat. With finish, maps end, and so do reduces of
// jobs whose maps are all done.
func (c *lossyCluster) beat(finish bool) {
	c.now += time.Second
	c.step(&tracker.Tick{})
	for _, n := range c.nodes {
		hb := &tracker.Heartbeat{Node: n, Load: cluster.Load{CPU: 0.1, MemoryFree: 0.9, LoadAverage: 0.1}}
		var left []job.AttemptID
		for _, id := range c.runs[n] {
			a := c.tr.Jobs().Attempt(id)
			if a == nil || a.State() != job.AttemptRunning {
				continue
			}
			if finish && (id.Kind == job.Map || a.Job().MapsDone()) {
				hb.Reports = append(hb.Reports, tracker.Report{Attempt: id, State: job.AttemptSucceeded, Progress: 1})
			} else {
				hb.Reports = append(hb.Reports, tracker.Report{Attempt: id, Progress: 0.3, Ticks: uint64(c.now)})
				left = append(left, id)
			}
		}
		c.runs[n] = left
		c.step(hb)
	}
}

// describe says of each live job why it gets nothing.
func (c *lossyCluster) describe() string {
	var lines []string
	for _, j := range c.tr.Jobs().Live() {
		for k := range job.Kind(job.Kinds) {
			_, words := c.tr.Explain(j, k)
			lines = append(lines, fmt.Sprintf("%v %vs: %d pending, %d running: %s", j.ID(), k, j.Pending(k), j.Running(k), words))
		}
	}
	return strings.Join(lines, "; ")
}
