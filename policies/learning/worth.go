package learning

import (
	"math"
	"slices"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// worth computes utilities. Fixed factors change only with the job and are
// computed when it changes. Varying factors change with time and with other
// jobs and are computed for each offer.
type worth struct {
	cfg       *OrderConfig
	anyVaries bool                  // some factor varies
	byName    map[string]*poolShare // pools with live jobs
}

// varying lists the factors that vary.
var varying = []string{FIFO, Gate, Dedicated, DedicatedLiteral}

// poolShare compares the share promised to a pool with its running tasks.
type poolShare struct {
	name     string
	promised float64 // fraction of the cluster
	running  int     // slots in use
	jobs     int     // live jobs of the pool
}

// set replaces the configuration. The caller then enters all jobs again, which also updates the shares
// of their pools.
func (w *worth) set(cfg *OrderConfig) {
	w.cfg = cfg
	w.anyVaries = slices.ContainsFunc(cfg.Factors, w.varies)
	if w.byName == nil {
		w.byName = map[string]*poolShare{}
	}
}

// varies reports whether a factor varies. For a program's factor this is not known.
func (w *worth) varies(factor string) bool {
	_, own := w.cfg.own[factor]
	return own || slices.Contains(varying, factor)
}

// enter fills in the values of a job that its utilities depend on.
func (w *worth) enter(e *entry) {
	name := e.job.Pool()
	p := w.byName[name]
	if p == nil {
		p = &poolShare{name: name}
		w.byName[name] = p
	}
	p.promised = w.cfg.share(name)
	if p != e.pool {
		w.leave(e)
		e.pool = p
		p.jobs++
	}
	e.balance, e.offer = w.cfg.Balances.of(e.job.User(), 1), w.cfg.Offers.of(e.job.User(), 1)
}

// leave takes a job out of its pool. Users choose the names of pools, so a pool is forgotten with its
// last job.
func (w *worth) leave(e *entry) {
	if p := e.pool; p != nil {
		if p.jobs--; p.jobs == 0 {
			delete(w.byName, p.name)
		}
	}
}

// fixed returns the product of the fixed factors. It is finite, because infinite utilities
// could not be compared.
func (w *worth) fixed(e *entry) float64 {
	value := 1.0
	for _, f := range w.cfg.Factors {
		if !w.varies(f) {
			// Fixed factors do not look at the kind of task.
			value *= w.factor(f, e, job.Map, nil)
		}
	}
	return min(value, math.MaxFloat64)
}

// current returns the product of the varying factors.
func (w *worth) current(e *entry, k job.Kind, r *sched.Round) float64 {
	value := 1.0
	for _, f := range w.cfg.Factors {
		if w.varies(f) {
			value *= w.factor(f, e, k, r)
		}
	}
	return value
}

// why returns the name of the first factor that is 0.
func (w *worth) why(e *entry, k job.Kind, r *sched.Round) string {
	for _, f := range w.cfg.Factors {
		if !(w.factor(f, e, k, r) > 0) {
			return f
		}
	}
	return ""
}

// factor returns the value of one utility. Only varying ones use the round.
func (w *worth) factor(name string, e *entry, k job.Kind, r *sched.Round) float64 {
	switch name {
	case FIFO:
		return FIFOUtility(r.Now() - e.job.Submitted())
	case Gate:
		if k == job.Map {
			return 1
		}
		return GateUtility(e.job.Done(job.Map), e.job.Total(job.Map), w.cfg.MapGate)
	case Dedicated:
		return DedicatedUtility(e.pool.promised, w.allocated(e, r))
	case DedicatedLiteral:
		return LiteralUtility(e.pool.promised, w.allocated(e, r))
	case Budget:
		return BudgetUtility(e.balance)
	case Revenue:
		return e.offer
	case Priority:
		return PriorityUtility(int(e.job.Priority()))
	}
	if own, ok := w.cfg.own[name]; ok {
		return own.Value(e.job, k, r.Now())
	}
	return 1
}

// allocated returns the share of the cluster that the job's pool uses: the slots
// of its running tasks divided by all slots, or by all slots in use if there are
// more of those.
func (w *worth) allocated(e *entry, r *sched.Round) float64 {
	slots, used := 0, 0
	for k := range job.Kind(job.Kinds) {
		slots += r.Nodes().Slots(k)
		used += r.Jobs().Occupied(k)
	}
	// More tasks than slots run here by design (the classifier decides), and shares of more than the whole
	// would make every deficit 0.
	if all := max(slots, used); all > 0 {
		return float64(e.pool.running) / float64(all)
	}
	return 0
}
