package repro

import (
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/metrics"
	"github.com/slotwise/slotwise/internal/sim"
	"github.com/slotwise/slotwise/internal/workload"
)

// watch is an observer that integrates what the papers measure: who occupies
// slots, of which kind, and how evenly they are spread.
type watch struct {
	jobs []workload.Job
	pool []int // of each job
	last time.Duration
	// running counts attempts by the kind of task and the kind of slot; nodes
	// and split count them by node, and by node and kind of task.
	running [job.Kinds][job.Kinds]int
	nodes   []int
	split   [][job.Kinds]int
	// held counts slots by pool, live the submitted jobs of each that have not
	// ended.
	held, live []int
	// heldBy counts them by the kind of task, unfairBy is the degree of each.
	heldBy   [job.Kinds][]int
	unfairBy [job.Kinds]metrics.Balance

	// busy is slot-seconds, and starts attempts, by task and slot.
	busy   [job.Kinds][job.Kinds]float64
	starts [job.Kinds][job.Kinds]int
	// copies counts speculative attempts, useful those that won.
	copies, useful int
	unbalanced     metrics.Balance
	unfair         metrics.Balance
	// unfairAll counts all pools, also those whose jobs have all ended.
	unfairAll metrics.Balance
	times     map[string]*[job.Kinds]times
	levels    []level
	demanding []int
	// low and high are the fewest and the most maps that each node ran while all
	// its slots were occupied; full is for how long all nodes' were.
	low, high, slots []int
	full             time.Duration
}

// times are those of the successful attempts of an app and kind, in seconds.
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

// level is how many maps and reduces run from a moment on.
type level struct {
	at            time.Duration
	maps, reduces int
}

// newWatch watches a run of jobs on nodes of so many slots each.
func newWatch(jobs []workload.Job, slots []int) *watch {
	nodes := len(slots)
	w := &watch{jobs: jobs, nodes: make([]int, nodes), split: make([][job.Kinds]int, nodes), slots: slots,
		low: make([]int, nodes), high: make([]int, nodes), times: map[string]*[job.Kinds]times{}}
	copy(w.low, slots)
	var names []string
	for i := range jobs {
		at := slices.Index(names, jobs[i].Pool)
		if at < 0 {
			at = len(names)
			names = append(names, jobs[i].Pool)
		}
		w.pool = append(w.pool, at)
	}
	w.held, w.live = make([]int, len(names)), make([]int, len(names))
	for k := range w.heldBy {
		w.heldBy[k] = make([]int, len(names))
	}
	return w
}

// Observe implements sim.Observer.
func (w *watch) Observe(e *sim.Event) {
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

// pass lets the time go by until now.
func (w *watch) pass(now time.Duration) {
	span := now - w.last
	if span <= 0 {
		return
	}
	for t := range w.running {
		for s, n := range w.running[t] {
			w.busy[t][s] += float64(n) * span.Seconds()
		}
	}
	w.unbalanced.Hold(w.nodes, span)
	w.unfair.Hold(w.demand(w.held), span)
	w.unfairAll.Hold(w.held, span)
	for k := range w.heldBy {
		w.unfairBy[k].Hold(w.demand(w.heldBy[k]), span)
	}
	busy := true
	for n, slots := range w.slots {
		if w.nodes[n] < slots {
			busy = false
			continue
		}
		w.low[n], w.high[n] = min(w.low[n], w.split[n][job.Map]), max(w.high[n], w.split[n][job.Map])
	}
	if busy {
		w.full += span
	}
	w.levels = append(w.levels, level{w.last, w.sum(job.Map), w.sum(job.Reduce)})
	w.last = now
}

// demand picks the values of the pools that have jobs, into a buffer that is used
// again.
func (w *watch) demand(held []int) []int {
	w.demanding = w.demanding[:0]
	for p, n := range w.live {
		if n > 0 {
			w.demanding = append(w.demanding, held[p])
		}
	}
	return w.demanding
}

// sum is how many tasks of a kind run.
func (w *watch) sum(k job.Kind) int { return w.running[k][job.Map] + w.running[k][job.Reduce] }

func (w *watch) count(e *sim.Event, by int) {
	w.running[e.Attempt.Kind][e.Slot] += by
	w.nodes[e.Node] += by
	w.split[e.Node][e.Attempt.Kind] += by
	w.held[w.pool[e.Job]] += by
	w.heldBy[e.Attempt.Kind][w.pool[e.Job]] += by
}

// timed notes how long a task took. A reduce of given duration that waited for
// its maps has waited as long as it says.
func (w *watch) timed(e *sim.Event) {
	if e.Speculative {
		w.useful++
	}
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

// meanLevel is the mean number of running tasks of a kind from a time to
// another.
func (w *watch) meanLevel(from, to time.Duration, k job.Kind) float64 {
	area := 0.0
	for i, l := range w.levels {
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

// slotSeconds is all time that slots were occupied.
func (w *watch) slotSeconds() float64 {
	return w.busy[0][0] + w.busy[0][1] + w.busy[1][0] + w.busy[1][1]
}
