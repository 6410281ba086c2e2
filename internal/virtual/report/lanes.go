package report

import (
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/base/svg"
	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/job"
)

// Bounds on the size of a Gantt chart, so that it is readable and fits into memory.
const (
	maxLanes = 72
	maxBars  = 60_000
)

// Lanes collects the contents of slots over time for a Gantt chart, as a sim.Observer.
// Each slot of the chosen nodes has a lane; if there are too many nodes it chooses every
// n-th. Maps fill a node's lanes from below and reduces from above, because policies may
// turn slots of one kind into the other.
type Lanes struct {
	jobs    []workload.Job
	every   int // one of this many nodes is shown
	total   int // slots of the cluster
	nodes   []*laneNode
	bars    []bar
	until   time.Duration // when the limit on bars was reached; 0 if it was not
	longest time.Duration
}

// laneNode is a node in the chart.
type laneNode struct {
	name  string
	taken []job.AttemptID // by lane; the zero value is free
	from  []time.Duration
}

// bar is an attempt's interval in a lane.
type bar struct {
	node     *laneNode
	lane     int
	from, to time.Duration
	job      int32
	kind     job.Kind
	wasted   bool
}

// NewLanes returns an observer for a run of jobs on a cluster.
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
	// Every n-th and not the first n: groups of a cluster are listed one after the other, and each should be
	// seen.
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
		// Events come in the order of time, so the last one is the latest.
		l.longest = e.At
		if n := l.nodes[e.Node]; n != nil {
			l.leave(n, e)
		}
	case sim.JobEnded:
		l.longest = e.At
	}
}

// take puts an attempt into a free lane. If a node has more attempts than slots it gets
// another lane.
func (n *laneNode) take(e *sim.Event) {
	free := job.AttemptID{}
	at := slices.Index(n.taken, free)
	// By the kind of slot and not of task: a lent slot stays where it is.
	if e.Slot == job.Reduce && at >= 0 {
		for at = len(n.taken) - 1; n.taken[at] != free; at-- {
		}
	}
	// Slots may be turned into the other kind while attempts still run in them, so a node can have more for a
	// moment.
	if at < 0 {
		at = len(n.taken)
		n.taken, n.from = append(n.taken, free), append(n.from, 0)
	}
	n.taken[at], n.from[at] = e.Attempt, e.At
}

func (l *Lanes) leave(n *laneNode, e *sim.Event) {
	at := slices.Index(n.taken, e.Attempt)
	// It started before the chart, in a run that continues from a state.
	if at < 0 {
		return
	}
	n.taken[at] = job.AttemptID{}
	switch {
	case l.until > 0:
	// The chart ends here and says so, and its axis still has the whole run.
	case len(l.bars) == maxBars:
		l.until = e.At
	default:
		l.bars = append(l.bars, bar{n, at, n.from[at], e.At, int32(e.Job), e.Attempt.Kind, e.Outcome != job.AttemptSucceeded})
	}
}

// tones returns the colour index of each job, what a colour means, and the names for the
// legend. Colours distinguish jobs if they are few, else classes, else pools; otherwise
// they repeat. The finest name with few enough values wins: a repeated colour would mean two things.
func (l *Lanes) tones() (of []int, what string, names []string) {
	for _, by := range []struct {
		what string
		name func(*workload.Job) string
	}{{"job", func(j *workload.Job) string { return j.Name }}, {"class of jobs", collect.ClassOf}, {"pool", collect.PoolOf}} {
		index := make(map[string]int)
		names, of = nil, make([]int, len(l.jobs))
		for i := range l.jobs {
			n := by.name(&l.jobs[i])
			at, known := index[n]
			if !known {
				at = len(names)
				index[n] = at
				names = append(names, n)
			}
			of[i] = at
		}
		// One name would colour everything alike.
		if len(names) > 1 && len(names) <= svg.Colours {
			return of, by.what, names
		}
	}
	for i := range of {
		of[i] = i
	}
	return of, "job (colours repeat)", nil
}
