// Package fullload builds trackers whose nodes are full, for measurements of the cost of a
// heartbeat.
package fullload

import (
	"fmt"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// poolCount is the number of pools, users and racks.
const poolCount = 20

// Settings returns the parameters with which a policy keeps the slots full.
func Settings(policy string) map[string]string {
	switch policy {
	case "modfair":
		return map[string]string{"max-allocated": "0"} // no limit on a pool's maps
	case "statictags", "dynamictags":
		return map[string]string{"lend": "true"} // all jobs are small: slots would stay idle
	case "capacity", "yarn":
		queues := make([]string, poolCount)
		for i := range queues {
			queues[i] = fmt.Sprintf("p%d,capacity=5", i)
		}
		return map[string]string{"queues": strings.Join(queues, ";")}
	}
	return nil
}

// Cluster is a tracker whose nodes are full. Nodes have 4 map and 2 reduce slots and are in 20
// racks. Jobs are in 20 pools and have more maps than fit. Each split names three hosts.
type Cluster struct {
	Tracker *tracker.Tracker
	// Tasks is the number of tasks of all jobs.
	Tasks int
	nodes []string
	beats int // heartbeats so far, 3 ms apart, so that updates by the clock are paid for
	hb    tracker.Heartbeat
	one   [1]tracker.Report
}

// New returns a cluster of the given size with full slots.
func New(p sched.Policy, jobs, nodes int) *Cluster {
	const reduces = 4
	// No node is ever lost: a measurement takes less virtual time than a time-out, and its heartbeats are
	// its own.
	c := &Cluster{Tracker: tracker.New(tracker.Config{NodeTimeout: -1}, p), nodes: make([]string, nodes)}
	for i := range c.nodes {
		c.nodes[i] = fmt.Sprint("n", i)
		c.Tracker.Step(0, &tracker.Join{Node: cluster.Spec{Name: c.nodes[i], Rack: fmt.Sprint("/r", i%poolCount),
			MapSlots: 4, ReduceSlots: 2, Cores: 4}})
	}
	// More maps than slots, of which there are six per node, plus enough for all heartbeats of a
	// measurement. The number does not depend on the number of jobs, so their cost can be compared.
	maps := (6*nodes + 60_000) / jobs
	c.Tasks = jobs * (maps + reduces)
	for n := range jobs {
		// Different ratings: with equal ones the classes of a policy that learns would all be the same.
		load := job.Ratings{CPU: uint8(1 + n%5), Memory: uint8(1 + n%4), Disk: 5, Network: 5}
		s := job.Spec{Request: job.Request{Pool: fmt.Sprint("p", n%poolCount), User: fmt.Sprint("u", n%poolCount), SlowStart: 1, TaskTimeout: -1, Hints: [job.Kinds]job.Ratings{load, load}}, Splits: make([]job.Split, maps),
			Reduces: reduces}
		for i := range s.Splits {
			// Steps of 1, 7 and 13, so that the three hosts usually differ and each node has local maps of
			// each job.
			s.Splits[i].Hosts = []string{c.nodes[(i+n)%nodes], c.nodes[(i*7+n)%nodes], c.nodes[(i*13+n)%nodes]}
		}
		c.Tracker.Step(0, &tracker.Submit{Spec: s})
	}
	c.hb.Load = cluster.Load{LoadAverage: 1, CPU: 0.3, MemoryFree: 0.5}
	// Twice, since some policies give one task of a kind per heartbeat at first.
	for range 2 * nodes {
		c.step(nil)
	}
	return c
}

// step sends the next heartbeat. Nodes take turns.
func (c *Cluster) step(reports []tracker.Report) {
	c.hb.Node, c.hb.Reports = c.next(), reports
	// As a shell does that knows its nodes: a look-up by name would be a part of each measured heartbeat.
	c.hb.Index = int32(c.beats % len(c.nodes))
	c.Tracker.Step(time.Duration(c.beats)*3*time.Millisecond, &c.hb)
}

// next returns the name of the node whose heartbeat is next.
func (c *Cluster) next() string {
	c.beats++
	return c.nodes[c.beats%len(c.nodes)]
}

// Idle sends heartbeats without reports, from nodes that are full, or so loaded that a
// policy which judges by load gives them nothing.
func (c *Cluster) Idle(beats int) {
	c.hb.Load = cluster.Load{LoadAverage: 30, CPU: 1, MemoryFree: 0.5}
	for range beats {
		c.step(nil)
	}
}

// Work sends heartbeats that report a finished map each, so that the node gets another.
func (c *Cluster) Work(beats int) {
	c.hb.Load = cluster.Load{LoadAverage: 1, CPU: 0.3, MemoryFree: 0.5}
	for range beats {
		// The node that step will name next.
		node := c.Tracker.Nodes().All()[(c.beats+1)%len(c.nodes)]
		if running := node.Attempts(); len(running) > 0 {
			// A field and not a new slice, because allocations are a part of the measurement.
			c.one[0] = tracker.Report{Attempt: running[0].ID(), State: job.AttemptSucceeded}
			c.step(c.one[:])
		} else {
			c.step(nil)
		}
	}
}
