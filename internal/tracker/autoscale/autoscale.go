// Package autoscale decides how many workers a cluster should have, and which ones it
// gives back. It has no clock and no I/O: package machines carries its decisions out, and
// the simulator uses the same code.
//
// Growing is immediate: as many workers as the slots of all running and launchable tasks
// need, up to Config.Max. Shrinking waits: the number never falls below the highest need
// of the last CoolDown, so that a pause between two jobs costs no restart of machines.
//
// A worker is given back in three steps, of which each may be repeated:
//
//	keep ── Leave ──► draining ── no attempts, no needed map outputs ──► GiveBack
//	  ▲                  │
//	  └────── Stay ──────┘ demand has returned
//
// Leave marks the worker at its provider and drains it in the tracker, in this order. The
// mark tells a drain of the autoscaler from one of an operator, and outlasts a restart of
// the master. Workers that an operator drains are not chosen and not counted as capacity.
package autoscale

import (
	"cmp"
	"slices"
	"time"

	"github.com/slotwise/slotwise/sched/job"
)

// Slots counts slots by kind.
type Slots [job.Kinds]int

// DemandOf returns the slots that the running and launchable tasks of all live jobs fill.
func DemandOf(jobs *job.List) (d Slots) {
	for _, j := range jobs.Live() {
		for k := range job.Kind(job.Kinds) {
			// Running tasks count although they need no further worker: the number that is wanted is the
			// whole cluster's, not an addition to it.
			d[k] += j.Occupied(k)
			if j.Open(k) {
				// Delayed tasks return within a minute. A worker that goes meanwhile would cost
				// a start of machines.
				d[k] += j.Wanted(k) + j.Width()*j.Delayed(k)
			}
		}
	}
	return d
}

// Input is the state of a cluster at one moment.
type Input struct {
	// Demand counts the slots that running and launchable tasks fill; see DemandOf.
	Demand Slots
	// Busy says that there is work that needs a worker although it fills no slot: the
	// driver of a chain, or a job whose tasks are not launchable yet.
	Busy bool
	// Replicas is the number of workers that the provider has been asked for. Workers may
	// have more or fewer entries, while machines come and go.
	Replicas int
	Workers  []Worker
}

// Worker is a machine that the provider has, or is making.
type Worker struct {
	Name string
	// Registered says that the tracker knows the worker as alive, or as absent since a
	// restart of the master. A machine that is not registered is starting or broken, and
	// holds nothing.
	Registered bool
	// Marked says that the provider has recorded that this worker leaves first.
	Marked bool
	// Unready says that the provider removes this worker before all workers that are not
	// Unready, whichever workers Output.GiveBack names.
	Unready bool
	// Drained says that the tracker gives the worker no new work because somebody has
	// drained it: the autoscaler, if it is Marked, else an operator.
	Drained bool
	Slots   Slots
	Running int // attempts, and drivers of chains
	Outputs int // map outputs that unfinished jobs may still read
}

// Output lists the caller's duties, in the order of the fields.
type Output struct {
	// Stay lists marked workers whose mark and drain must be removed.
	Stay []string
	// Leave lists workers that must be marked and drained. It repeats a worker that is
	// marked and not drained.
	Leave []string
	// GiveBack lists marked workers that the provider must remove. They hold nothing, or
	// have been held for Config.Hold.
	GiveBack []string
	// Exposed lists the registered workers that the provider would remove in place of
	// workers that could be given back otherwise, because the exposed ones are Unready.
	// Until these are ready or are given back themselves, the others stay.
	Exposed []string
	// Replicas is the number of workers to ask for once the workers of GiveBack are gone.
	Replicas int
	// Want is the number of workers that demand justifies, for logs and metrics.
	Want int
}

// Scaler makes decisions, and remembers earlier needs between two decisions.
type Scaler struct {
	cfg Config
	// slots are the slots of a worker, the largest seen; zero before the first has
	// registered.
	slots Slots
	// needs holds the needs of the last window, as a queue in which times rise and needs
	// fall: the first is the highest. Each lasted until the next one began.
	needs []need
	// leftAt holds the time at which each draining worker was first seen without attempts.
	leftAt map[string]time.Duration
}

// need is a number of workers that was needed from a time on.
type need struct {
	at time.Duration
	n  int
}

// New returns a scaler. It returns an error if a setting is out of range.
func New(cfg Config) (*Scaler, error) {
	return &Scaler{cfg: cfg, leftAt: map[string]time.Duration{}}, cfg.check()
}

// Step decides. now must not run backwards.
func (s *Scaler) Step(now time.Duration, in Input) Output {
	for _, w := range in.Workers {
		for k, n := range w.Slots {
			// The largest seen, and never less again: while the last worker restarts there is none to ask.
			s.slots[k] = max(s.slots[k], n)
		}
	}
	out := Output{Want: s.want(now, in), Replicas: in.Replicas}
	var staying, leaving []Worker
	closed := 0 // by operators
	for _, w := range in.Workers {
		switch {
		case w.Marked:
			leaving = append(leaving, w)
		case w.Drained:
			closed++
		default:
			// Registered or not: a machine that starts will have slots soon, and another one in its place
			// would start no earlier.
			staying = append(staying, w)
		}
	}
	// The provider is still removing machines that were given back, and has not said which.
	// Until then no leaving worker may be counted on, and none is given back again: that
	// would take a worker away which stays.
	if len(in.Workers) > in.Replicas {
		if short := out.Want - in.Replicas; short > 0 {
			out.Replicas = min(in.Replicas+short, s.cfg.Max)
		}
		return out
	}
	// Machines that the provider has not made yet stay, too.
	missing := max(0, in.Replicas-len(in.Workers))
	surplus := len(staying) + missing - out.Want
	switch {
	// Workers that leave already are the fastest: they have no start before them and may still hold the
	// outputs that a job needs.
	case surplus < 0:
		s.grow(&out, leaving, -surplus, closed)
	case surplus > 0:
		cancelled := min(surplus, missing)
		// Machines that do not exist yet cost least to give up: nothing runs there.
		out.Replicas -= cancelled
		out.Leave = victims(staying, surplus-cancelled)
	}
	// In the same step, so that a worker which became free before is not kept for another interval.
	s.giveBack(now, &out, in.Workers, leaving)
	return out
}

// want returns the highest need of the window that ends now, within the limits.
func (s *Scaler) want(now time.Duration, in Input) int {
	if s.needs == nil {
		// The need before the first step is unknown. The workers that exist bound it.
		s.needs = []need{{now, min(max(in.Replicas, s.cfg.Min), s.cfg.Max)}}
	}
	// Limited before it enters the window: the window's first entry is the answer.
	n := min(max(s.needed(in), s.cfg.Min), s.cfg.Max)
	window := max(s.cfg.CoolDown, s.cfg.StartUp)
	next := need{now, n}
	for len(s.needs) > 0 && s.needs[len(s.needs)-1].n <= n {
		// A lower need before a higher one can never be the highest of a window that also contains
		// the higher one.
		next.at = s.needs[len(s.needs)-1].at // the need before it ended then
		s.needs = s.needs[:len(s.needs)-1]
	}
	s.needs = append(s.needs, next)
	// The second entry's time, because the first one lasted until then.
	for len(s.needs) > 1 && now-s.needs[1].at >= window {
		s.needs = s.needs[1:]
	}
	return s.needs[0].n
}

// needed returns how many workers have the slots that the demand fills. It does not count
// a kind without slots on any worker. Before any worker is known, work needs one.
func (s *Scaler) needed(in Input) int {
	n, work := 0, in.Busy
	for k, demand := range in.Demand {
		work = work || demand > 0
		if s.slots[k] > 0 {
			// The maximum over the kinds and not the sum, since each worker brings slots of both.
			n = max(n, (demand+s.slots[k]-1)/s.slots[k])
		}
	}
	if work {
		n = max(n, 1)
	}
	return n
}

// grow keeps leaving workers first, beginning with the most map outputs, and asks for new
// ones beyond that. Workers that an operator has closed are replaced, up to Max.
func (s *Scaler) grow(out *Output, leaving []Worker, n, closed int) {
	back := slices.Clone(leaving)
	slices.SortFunc(back, func(a, b Worker) int { return -compareCost(a, b) })
	for _, w := range back[:min(n, len(back))] {
		out.Stay = append(out.Stay, w.Name)
	}
	n -= len(out.Stay)
	// Never fewer than now: an operator may have asked the provider for more than Max.
	out.Replicas = max(out.Replicas, min(out.Replicas+n, s.cfg.Max))
}

// victims returns the n workers whose loss costs least.
func victims(staying []Worker, n int) (names []string) {
	// The name decides last, so a repeated step chooses the same workers and no second set is drained.
	slices.SortFunc(staying, compareCost)
	for _, w := range staying[:min(n, len(staying))] {
		names = append(names, w.Name)
	}
	return names
}

// compareCost orders workers by the cost of giving them back: unregistered workers first,
// then Unready ones, which keep others from being given back, then by running attempts,
// which delay it, then by map outputs.
func compareCost(a, b Worker) int {
	return cmp.Or(compareBool(a.Registered, b.Registered), compareBool(b.Unready, a.Unready), cmp.Compare(a.Running, b.Running), cmp.Compare(a.Outputs, b.Outputs), cmp.Compare(a.Name, b.Name))
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// giveBack lists the leaving workers that can go now.
func (s *Scaler) giveBack(now time.Duration, out *Output, all, leaving []Worker) {
	idle := map[string]time.Duration{}
	var free []Worker
	for _, w := range leaving {
		// grow has just called it back.
		if slices.Contains(out.Stay, w.Name) {
			continue
		}
		switch {
		// The mark is set and the drain is not: the process ended between the two, or the drain was
		// lost. Leave repeats both.
		case w.Registered && !w.Drained:
			out.Leave = append(out.Leave, w.Name)
			continue
		case w.Running > 0:
			continue
		}
		// The times are not stored. After a restart of the master each Hold begins again.
		since, ok := s.leftAt[w.Name]
		if !ok {
			since = now
		}
		// A new map, so that workers which stay, run again or have gone lose their times.
		idle[w.Name] = since
		// Maps whose output is lost run again, so a wait is cheaper if it is bounded: a job
		// may keep its outputs for hours.
		if w.Registered && w.Outputs > 0 && now-since < s.cfg.Hold {
			continue
		}
		free = append(free, w)
	}
	s.leftAt = idle
	exposed := exposedWorkers(all, free)
	for _, w := range free {
		switch {
		// The limit: the rest stays marked and goes when others have come.
		case out.Replicas <= s.cfg.Min:
		// The provider would remove an exposed worker in this one's place, with all attempts on it.
		case len(exposed) > 0 && !w.Unready:
			out.Exposed = exposed
		default:
			out.GiveBack = append(out.GiveBack, w.Name)
			out.Replicas--
		}
	}
}

// exposedWorkers returns the names of the registered workers that the provider would
// remove before the free ones.
func exposedWorkers(all, free []Worker) (names []string) {
	for _, w := range all {
		if w.Unready && w.Registered && !slices.ContainsFunc(free, func(f Worker) bool { return f.Name == w.Name }) {
			names = append(names, w.Name)
		}
	}
	return names
}
