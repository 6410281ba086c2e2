package report

import (
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/metrics/collect"
	"github.com/slotwise/slotwise/internal/sim"
	"github.com/slotwise/slotwise/internal/workload"
)

// Bounds on what a Gantt chart shows, so that it can be read and held in memory.
const (
	maxLanes = 72
	maxBars  = 60_000
)

// Lanes gathers what is in the slots over time, for a Gantt chart: a lane for
// each slot of some nodes, evenly chosen if there are too many for a page. Map
// slots fill a node's lanes from below, reduce slots from above, since policies
// may turn one into the other.
type Lanes struct {
	jobs    []workload.Job
	every   int // of how many nodes one is shown
	total   int // slots of the cluster
	nodes   []*laneNode
	bars    []bar
	until   time.Duration // when bars were too many; 0 is never
	longest time.Duration
}

// laneNode is a node that is shown.
type laneNode struct {
	name  string
	taken []job.AttemptID // by lane; the zero value is free
	from  []time.Duration
}

// bar is an attempt in a lane.
type bar struct {
	node     *laneNode
	lane     int
	from, to time.Duration
	job      int32
	kind     job.Kind
	wasted   bool
}

// NewLanes makes the observer of a run of jobs on a cluster.
func NewLanes(c *workload.Cluster, jobs []workload.Job) *Lanes {
	l := &Lanes{jobs: jobs}
	var slots []int
	for i := range c.Groups {
		g := &c.Groups[i]
		for range g.Count {
			slots = append(slots, g.MapSlots+g.ReduceSlots)
			l.total += g.MapSlots + g.ReduceSlots
		}
	}
	l.every = max(1, (l.total+maxLanes-1)/maxLanes)
	l.nodes = make([]*laneNode, len(slots))
	for i := 0; i < len(slots); i += l.every {
		l.nodes[i] = &laneNode{taken: make([]job.AttemptID, slots[i]), from: make([]time.Duration, slots[i])}
	}
	return l
}

// Observe implements sim.Observer.
func (l *Lanes) Observe(e *sim.Event) {
	switch e.Kind {
	case sim.AttemptStarted:
		if n := l.nodes[e.Node]; n != nil {
			n.name = e.NodeName
			n.take(e)
		}
	case sim.AttemptEnded:
		l.longest = e.At
		if n := l.nodes[e.Node]; n != nil {
			l.leave(n, e)
		}
	case sim.JobEnded:
		l.longest = e.At
	}
}

// take puts an attempt into a free lane; where there is none, a node has more
// attempts than slots and gets one more lane.
func (n *laneNode) take(e *sim.Event) {
	free := job.AttemptID{}
	at := slices.Index(n.taken, free)
	if e.Slot == job.Reduce && at >= 0 {
		for at = len(n.taken) - 1; n.taken[at] != free; at-- {
		}
	}
	if at < 0 {
		at = len(n.taken)
		n.taken, n.from = append(n.taken, free), append(n.from, 0)
	}
	n.taken[at], n.from[at] = e.Attempt, e.At
}

func (l *Lanes) leave(n *laneNode, e *sim.Event) {
	at := slices.Index(n.taken, e.Attempt)
	if at < 0 {
		return
	}
	n.taken[at] = job.AttemptID{}
	switch {
	case l.until > 0:
	case len(l.bars) == maxBars:
		l.until = e.At
	default:
		l.bars = append(l.bars, bar{n, at, n.from[at], e.At, int32(e.Job), e.Attempt.Kind, e.Outcome != job.AttemptSucceeded})
	}
}

// tones says which colour each job has, and the names of those that a legend
// should list: by job if they are few, else by class, else by pool, else in turn.
func (l *Lanes) tones() (of []int, names []string) {
	for _, name := range []func(*workload.Job) string{
		func(j *workload.Job) string { return j.Name }, collect.ClassOf, collect.PoolOf,
	} {
		index := make(map[string]int)
		names, of = nil, make([]int, len(l.jobs))
		for i := range l.jobs {
			n := name(&l.jobs[i])
			at, known := index[n]
			if !known {
				at = len(names)
				index[n] = at
				names = append(names, n)
			}
			of[i] = at
		}
		if len(names) > 1 && len(names) <= len(palette) {
			return of, names
		}
	}
	for i := range of {
		of[i] = i
	}
	return of, nil
}
