package hadoop

import (
	"cmp"
	"slices"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// Greedy never waits. It takes a task to be tried again first, then the map
// closest to its data.
type Greedy struct{ search search }

var _ sched.Place = (*Greedy)(nil)

// NewGreedy returns a greedy place. byRack searches other racks in alphabetical
// order; see the parameter "off-rack".
func NewGreedy(byRack bool) *Greedy { return &Greedy{search{byRack: byRack}} }

// GreedyParams documents the parameters of Greedy.
func GreedyParams() []sched.Param { return []sched.Param{BindOffRack(new(bool)).Param} }

// ReadGreedy returns Greedy with the parameters that the user has set.
func ReadGreedy(k *sched.Kit) (sched.Place, error) {
	var byRack bool
	if err := k.Read(sched.Bindings{BindOffRack(&byRack)}); err != nil {
		return nil, err
	}
	return NewGreedy(byRack), nil
}

// Quiet implements sched.Quiet: nothing is kept.
func (g *Greedy) Quiet() bool { return true }

// Pick implements sched.Place.
func (g *Greedy) Pick(r *sched.Round, o sched.Offer, c sched.Candidate) (*job.Task, cluster.Level, sched.Reason) {
	if t, level, why, isFresh := pickAnywhere(r, o, c); !isFresh {
		return t, level, why
	}
	within := cmp.Or(o.Within, cluster.ANY)
	if t, level := g.search.best(r, c.Job, within); t != nil {
		return t, level, sched.Reason{}
	}
	if within < cluster.ANY {
		return nil, 0, sched.Reason{Code: sched.OutOfReach, Level: within}
	}
	return nil, 0, sched.Reason{Code: sched.FailedHere}
}

// maxRetriesTried bounds the search for a retry that is close enough, under an
// offer with a limit.
const maxRetriesTried = 32

// Retry returns the first task to be tried again that the offer admits on the
// round's node, and its level, or nil. Such tasks come first because they delay
// the job most. Unless the offer has a limit, their distance to the data does
// not matter. Retry skips tasks that failed on this node. They are few: with
// many the job is barred from the node.
func Retry(r *sched.Round, o sched.Offer, c sched.Candidate) (*job.Task, cluster.Level) {
	near := c.Kind == job.Map && o.Within != 0
	for i, t := range c.Job.Retries(c.Kind) {
		// Retries have no index by location, and a job of thousands of failed maps would be searched for
		// every slot.
		if near && i == maxRetriesTried {
			break
		}
		if r.Avoid(t, r.Node(), r.Now()) {
			continue
		}
		if level := r.Nodes().LevelOf(t, r.Node()); !near || level <= o.Within {
			return t, level
		}
	}
	return nil, 0
}

// pickAnywhere picks the tasks whose distance to the data does not matter: one to be tried again, or a
// reduce. isFresh says that a map must be chosen among those never launched, which each place does in its own way.
func pickAnywhere(r *sched.Round, o sched.Offer, c sched.Candidate) (t *job.Task, level cluster.Level, why sched.Reason, isFresh bool) {
	if t, level = Retry(r, o, c); t != nil || c.Kind == job.Map {
		return t, level, why, t == nil
	}
	// Pick is called only if a task is pending, so the pending reduces are retries that avoid this node.
	if t = c.Job.Fresh(job.Reduce); t == nil {
		why.Code = sched.FailedHere
	}
	return t, 0, why, false
}

// BindOffRack declares the parameter "off-rack", which all places share.
func BindOffRack(byRack *bool) sched.Binding {
	return sched.Bind(byRack, sched.Switch("first", "by-rack"), sched.Param{Name: "off-rack", Default: "first",
		Help: "Which map a node gets if no map has data in its rack: first (the first in order) or by-rack (the first with data in " +
			"the alphabetically first rack, and maps without locations last, as in Hadoop 1.2.1)."})
}

// search finds the map closest to a node among those never launched.
type search struct {
	byRack bool
	racks  []int32 // all racks in alphabetical order
}

// best is Job.BestFresh with a choice of the order among far maps.
func (s *search) best(r *sched.Round, j *job.Job, within cluster.Level) (*job.Task, cluster.Level) {
	host, rack := r.Node().Host(), r.Node().Rack()
	// The index of package job finds a map at NODE and RACK by itself; racks matter for far maps only.
	if !s.byRack || within < cluster.ANY {
		return j.BestFresh(host, rack, within)
	}
	if t, level := j.BestFresh(host, rack, cluster.RACK); t != nil {
		return t, level
	}
	s.sortRacks(r.Nodes())
	for _, other := range s.racks {
		if t := j.FreshIn(other); t != nil {
			return t, cluster.ANY
		}
	}
	// The other maps have no locations, or hosts in no known rack.
	return j.BestFresh(host, rack, within)
}

// sortRacks adds new racks to the list. Racks are never removed.
func (s *search) sortRacks(nodes *cluster.List) {
	if len(s.racks) == nodes.Racks() {
		return
	}
	for i := len(s.racks); i < nodes.Racks(); i++ {
		s.racks = append(s.racks, int32(i))
	}
	slices.SortFunc(s.racks, func(a, b int32) int { return cmp.Compare(nodes.RackName(a), nodes.RackName(b)) })
}
