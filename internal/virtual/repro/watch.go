package repro

import (
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/metrics"
	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/job"
)

// watch is the probe of most runs. It integrates what the papers measure: how many
// tasks of each kind run in slots of each kind, and how evenly they are spread over
// nodes and pools.
type watch struct {
	jobs []workload.Job
	pool []int         // index of the pool of each job
	last time.Duration // the integrals below are complete up to this time

	// What runs at the moment. running counts attempts by the kind of task and the
	// kind of slot; nodes counts them by node, split by node and kind of task; held
	// by pool; heldBy by kind of task and pool. live counts the submitted jobs of
	// each pool that have not ended.
	running    [job.Kinds][job.Kinds]int
	nodes      []int
	split      [][job.Kinds]int
	held, live []int
	heldBy     [job.Kinds][]int
	demanding  []int // buffer of demand

	// Totals of the run. busy has slot-seconds and starts has attempts, both by the
	// kind of task and of slot. copies counts speculative attempts.
	busy   [job.Kinds][job.Kinds]float64
	starts [job.Kinds][job.Kinds]int
	copies int
	// Degrees of imbalance over time: of nodes, of pools with jobs, of pools with
	// jobs by kind of task, and of all pools.
	unbalanced, unfair, unfairAll metrics.Balance
	unfairBy                      [job.Kinds]metrics.Balance
	times                         map[string]*[job.Kinds]times // of tasks, by app and kind
	levels                        []level
	// low and high are the fewest and the most maps that each node ran while all its
	// slots were occupied; slots is the number of its slots.
	low, high, slots []int
}

// times summarizes the durations in seconds of successful attempts.
type times struct {
	min, max, sum float64
	n             int
}

func (t *times) mean() float64 {
	if t.n == 0 {
		return 0
	}
	return t.sum / float64(t.n)
}

// level is the number of running tasks from a time on.
type level struct {
	at            time.Duration
	maps, reduces int
}

// attach implements probe.
func (w *watch) attach(c *sim.Config) {
	w.jobs, w.slots, w.times = c.Jobs, slotsOf(c.Cluster), map[string]*[job.Kinds]times{}
	n := len(w.slots)
	w.nodes, w.split, w.low, w.high = make([]int, n), make([][job.Kinds]int, n), slices.Clone(w.slots), make([]int, n)
	var names []string
	for i := range w.jobs {
		// Numbers in the order of first appearance; there are at most 30 pools.
		at := slices.Index(names, w.jobs[i].Pool)
		if at < 0 {
			at = len(names)
			names = append(names, w.jobs[i].Pool)
		}
		w.pool = append(w.pool, at)
	}
	w.held, w.live = make([]int, len(names)), make([]int, len(names))
	for k := range w.heldBy {
		w.heldBy[k] = make([]int, len(names))
	}
}

// Observe implements sim.Observer.
func (w *watch) Observe(e *sim.Event) {
	// Before the counts change: the time up to this moment belongs to the old numbers.
	w.pass(e.At)
	switch e.Kind {
	case sim.JobSubmitted:
		w.live[w.pool[e.Job]]++
	case sim.JobEnded:
		w.live[w.pool[e.Job]]--
	case sim.AttemptStarted:
		w.starts[e.Attempt.Kind][e.Slot]++
		if e.Speculative {
			w.copies++
		}
		w.count(e, 1)
	case sim.AttemptEnded:
		w.count(e, -1)
		if e.Outcome == job.AttemptSucceeded {
			w.timed(e)
		}
	}
}

// pass adds the time since the last event to the integrals.
func (w *watch) pass(now time.Duration) {
	span := now - w.last
	// Events of one moment have no length; their order would otherwise show in levels.
	if span <= 0 {
		return
	}
	for t := range w.running {
		for s, n := range w.running[t] {
			w.busy[t][s] += float64(n) * span.Seconds()
		}
	}
	w.unbalanced.Hold(w.nodes, span)
	// Pools with jobs, as the paper defines fairness. All pools beside them, because it does not say whether
	// a pool whose jobs have ended counts (dynamicmr.yaml).
	w.unfair.Hold(w.demand(w.held), span)
	w.unfairAll.Hold(w.held, span)
	for k := range w.heldBy {
		w.unfairBy[k].Hold(w.demand(w.heldBy[k]), span)
	}
	for n, slots := range w.slots {
		// A node with a free slot may run any mix; what a scheduler has chosen shows when nothing is free.
		if w.nodes[n] < slots {
			continue
		}
		w.low[n], w.high[n] = min(w.low[n], w.split[n][job.Map]), max(w.high[n], w.split[n][job.Map])
	}
	w.levels = append(w.levels, level{w.last, w.sum(job.Map), w.sum(job.Reduce)})
	w.last = now
}

// demand returns the values of the pools that have jobs. The result is valid until
// the next call.
func (w *watch) demand(held []int) []int {
	w.demanding = w.demanding[:0]
	for p, n := range w.live {
		if n > 0 {
			w.demanding = append(w.demanding, held[p])
		}
	}
	return w.demanding
}

// sum returns the number of running tasks of a kind.
func (w *watch) sum(k job.Kind) int { return w.running[k][job.Map] + w.running[k][job.Reduce] }

// count adds an attempt to the counts of running attempts, or removes it.
func (w *watch) count(e *sim.Event, by int) {
	w.running[e.Attempt.Kind][e.Slot] += by
	w.nodes[e.Node] += by
	w.split[e.Node][e.Attempt.Kind] += by
	w.held[w.pool[e.Job]] += by
	w.heldBy[e.Attempt.Kind][w.pool[e.Job]] += by
}

// timed records the duration of a successful attempt. The time that a reduce waited
// for maps is not included.
func (w *watch) timed(e *sim.Event) {
	app := w.jobs[e.Job].App
	if w.times[app] == nil {
		w.times[app] = new([job.Kinds]times)
	}
	t, s := &w.times[app][e.Attempt.Kind], (e.Finished - e.Started).Seconds()
	if t.n == 0 || s < t.min {
		t.min = s
	}
	t.max = max(t.max, s)
	t.sum += s
	t.n++
}

// meanLevel returns the mean number of running tasks of a kind between two times.
func (w *watch) meanLevel(from, to time.Duration, k job.Kind) float64 {
	area := 0.0
	for i, l := range w.levels {
		// The last level lasts until the last event.
		end := w.last
		if i+1 < len(w.levels) {
			end = w.levels[i+1].at
		}
		n := l.maps
		if k == job.Reduce {
			n = l.reduces
		}
		if span := min(end, to) - max(l.at, from); span > 0 {
			area += float64(n) * span.Seconds()
		}
	}
	return area / (to - from).Seconds()
}

// slotSeconds returns the time for which slots were occupied, summed over slots.
func (w *watch) slotSeconds() float64 {
	return w.busy[0][0] + w.busy[0][1] + w.busy[1][0] + w.busy[1][1]
}

// varying returns the number of nodes that ran different numbers of maps while all
// their slots were in use.
func (w *watch) varying() (n int) {
	for i := range w.low {
		n += count(w.high[i] > w.low[i])
	}
	return n
}
