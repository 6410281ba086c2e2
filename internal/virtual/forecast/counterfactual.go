package forecast

import (
	"slices"
	"time"

	"github.com/slotwise/slotwise/sched/job"
)

// Counterfactual is one change that is enough for a job to start at once, or to keep its deadline.
// One of Slots, Nodes and Priority is set.
type Counterfactual struct {
	Slots    int      // more slots of Kind
	Kind     job.Kind // of Slots
	Nodes    int      // more nodes, as in Variant
	Priority job.Priority
}

// mostSlots bounds the search of WouldStart. It also ends at as many slots more as the cluster
// has, and fewSlots: more than twice the cluster is no advice.
const (
	mostSlots = 1024
	fewSlots  = 8
)

// WouldStart returns the changes with which the job's next task would be launched within
// some heartbeats: the fewest more slots of its kind, and the lowest higher priority. It is
// empty if a task of the job runs or neither helps. Each question costs a fork.
func WouldStart(cfg Config, s *State, id job.ID) ([]Counterfactual, error) {
	j := s.job(id)
	if j == nil || slices.ContainsFunc(s.Running, func(a Attempt) bool { return a.ID.Job == id }) {
		return nil, nil
	}
	// A job waits for its maps first. Its reduces cannot start before.
	kind := job.Map
	if j.left(job.Map) == 0 {
		kind = job.Reduce
	}
	starts := func(v Variant) (bool, error) {
		c, err := s.With(v)
		if err != nil {
			return false, err
		}
		return startsSoon(cfg, c, id)
	}
	// It starts anyway, within some heartbeats: there is nothing to change.
	if now, err := starts(Variant{}); err != nil || now {
		return nil, err
	}
	found, err := higher(j, starts)
	if err != nil {
		return nil, err
	}
	most := min(mostSlots, max(fewSlots, s.slots(kind)))
	n, err := fewest(most, func(n int) (bool, error) {
		var v Variant
		v.Slots[kind] = n
		return starts(v)
	})
	if n > 0 {
		found = append(found, Counterfactual{Slots: n, Kind: kind})
	}
	return found, err
}

// keepFutures is the number of futures by which one change is judged: with fewer, one slow task in
// one future decides.
const keepFutures = 10

// fewNodes is the least result of MostMore.
const fewNodes = 8

// MostMore returns the number of more nodes up to which WouldKeep searches: as many as the cluster has, or
// some in a small one.
func (s *State) MostMore() int { return min(MaxNewNodes, max(fewNodes, len(s.Nodes))) }

// WouldKeep returns the changes with which a job would keep its deadline: the lowest higher
// priority, and the fewest more nodes. s is the state in which the job misses it; kept judges the
// forecast that a change leads to. The result is empty if neither helps. An error, such as cfg.Stop's, ends the search and is returned with
// the changes found so far.
func WouldKeep(cfg Config, s *State, id job.ID, kept func(*Forecast) bool) ([]Counterfactual, error) {
	j := s.job(id)
	if j == nil {
		return nil, nil
	}
	cfg.Futures = keepFutures
	keeps := func(v Variant) (bool, error) {
		c, err := s.With(v)
		if err != nil {
			return false, err
		}
		f, err := NewRun(cfg, c).Forecast()
		return err == nil && kept(f), err
	}
	found, err := higher(j, keeps)
	// Without a live node there is none that a further one could equal (changeNodes).
	if err != nil || len(s.Nodes) == 0 {
		return found, err
	}
	n, err := fewest(s.MostMore(), func(n int) (bool, error) { return keeps(Variant{Nodes: n}) })
	if n > 0 {
		found = append(found, Counterfactual{Nodes: n})
	}
	return found, err
}

// higher returns the lowest priority above the job's own with which enough holds, if there is one.
func higher(j *LiveJob, enough func(Variant) (bool, error)) ([]Counterfactual, error) {
	// From the lowest on, because a user should not take more from others than is needed.
	for p := j.Priority + 1; p <= job.VeryHigh; p++ {
		if ok, err := enough(Variant{Priorities: []NewPriority{{j.ID, p}}}); err != nil {
			return nil, err
		} else if ok {
			return []Counterfactual{{Priority: p}}, nil
		}
	}
	return nil, nil
}

// fewest returns the least number from 1 to most for which enough holds, provided that it then holds for
// every larger one; 0 if it does not hold for most. Each question costs a simulation, so the number is
// doubled until it is enough, and then bisected.
func fewest(most int, enough func(int) (bool, error)) (int, error) {
	last, n := 0, 1
	for ; ; last, n = n, min(n*2, most) {
		ok, err := enough(n)
		if err != nil {
			return 0, err
		}
		if ok {
			break
		}
		if n >= most {
			return 0, nil
		}
	}
	for n-last > 1 {
		mid := (n + last) / 2
		ok, err := enough(mid)
		if err != nil {
			return n, err // n is enough, if not the fewest
		}
		if ok {
			n = mid
		} else {
			last = mid
		}
	}
	return n, nil
}

// slots counts the slots of a kind on nodes that take work.
func (s *State) slots(k job.Kind) (n int) {
	for i := range s.Nodes {
		if spec := &s.Nodes[i].Spec; !s.Nodes[i].Closed {
			n += [job.Kinds]int{spec.MapSlots, spec.ReduceSlots}[k]
		}
	}
	return n
}

// startsSoon reports whether a task of a job is launched before any running attempt ends.
func startsSoon(cfg Config, s *State, id job.ID) (bool, error) {
	r := NewRun(cfg, s)
	w, err := r.newFuture(0)
	if err != nil {
		return false, err
	}
	result, err := w.simulate(noEnds{}, s.At+soonBeats*r.cfg.Heartbeat)
	return err == nil && result.Jobs[s.index(id)].Started >= 0, err
}

// noEnds lets no attempt end: a slot for a job must come from a change of the state.
type noEnds struct{}

// Span implements sim.Times.
func (noEnds) Span(int, *job.Attempt) time.Duration { return 0 }

// soonBeats is the number of heartbeats within which a task must start. Policies that wait
// for local slots take a few.
const soonBeats = 20
