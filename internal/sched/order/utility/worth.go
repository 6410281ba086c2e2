package utility

import (
	"slices"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/sched/learning"
	"github.com/slotwise/slotwise/sched"
)

// worth computes utilities. Some factors change with the job only, and are
// computed when it does; the others move by themselves.
type worth struct {
	cfg    *Config
	moving bool // any of the factors
	pools  []poolShare
	byName map[string]int32
}

// movers are the factors that change though nothing is told of the job.
var movers = []string{learning.FIFO, learning.Gate, learning.Dedicated, learning.DedicatedLiteral}

// poolShare is what was promised to a pool, and what it has.
type poolShare struct {
	name     string
	promised float64
	running  int
}

// set takes a configuration; entries must then be entered again.
func (w *worth) set(cfg *Config) {
	w.cfg = cfg
	w.moving = slices.ContainsFunc(cfg.Factors, moves)
	if w.byName == nil {
		w.byName = map[string]int32{}
	}
	for i := range w.pools {
		w.pools[i].promised = cfg.share(w.pools[i].name)
	}
}

func moves(factor string) bool { return slices.Contains(movers, factor) }

// enter fills in what the worth of a job depends on and does not change.
func (w *worth) enter(e *entry) {
	name := e.job.Pool()
	i, ok := w.byName[name]
	if !ok {
		i = int32(len(w.pools))
		w.byName[name] = i
		w.pools = append(w.pools, poolShare{name: name, promised: w.cfg.share(name)})
	}
	e.pool = i
	e.balance, e.offer = w.cfg.Balances.of(e.job.User(), 1), w.cfg.Offers.of(e.job.User(), 1)
}

// fixed is the product of the factors that change with the job only.
func (w *worth) fixed(e *entry) float64 {
	value := 1.0
	for _, f := range w.cfg.Factors {
		if !moves(f) {
			value *= w.factor(f, e, job.Map, nil)
		}
	}
	return value
}

// moves is the product of the other factors.
func (w *worth) moves(e *entry, k job.Kind, r *sched.Round) float64 {
	value := 1.0
	for _, f := range w.cfg.Factors {
		if moves(f) {
			value *= w.factor(f, e, k, r)
		}
	}
	return value
}

// why names the first factor that is 0.
func (w *worth) why(e *entry, k job.Kind, r *sched.Round) string {
	for _, f := range w.cfg.Factors {
		if !(w.factor(f, e, k, r) > 0) {
			return f
		}
	}
	return ""
}

// factor is one utility. The round matters only to those that move.
func (w *worth) factor(name string, e *entry, k job.Kind, r *sched.Round) float64 {
	switch name {
	case learning.FIFO:
		return learning.FIFOUtility(r.Now() - e.job.Submitted())
	case learning.Gate:
		if k == job.Map {
			return 1
		}
		return learning.GateUtility(e.job.Done(job.Map), e.job.Total(job.Map), w.cfg.MapGate)
	case learning.Dedicated:
		return learning.DedicatedUtility(w.pools[e.pool].promised, w.allocated(e, r))
	case learning.DedicatedLiteral:
		return learning.LiteralUtility(w.pools[e.pool].promised, w.allocated(e, r))
	case learning.Budget:
		return learning.BudgetUtility(e.balance)
	case learning.Revenue:
		return e.offer
	case learning.Priority:
		return learning.PriorityUtility(int(e.job.Priority()))
	}
	return 1
}

// allocated is the share of the cluster that the job's pool has: its running
// tasks of all slots that nodes say they have, or of all running tasks if those
// are more.
func (w *worth) allocated(e *entry, r *sched.Round) float64 {
	slots, tasks := 0, 0
	for k := range job.Kind(job.Kinds) {
		slots += r.Nodes().Slots(k)
		tasks += r.Jobs().Running(k)
	}
	if all := max(slots, tasks); all > 0 {
		return float64(w.pools[e.pool].running) / float64(all)
	}
	return 0
}
