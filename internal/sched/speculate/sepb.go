package speculate

import (
	"errors"
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/sched/dynamicmr"
	"github.com/slotwise/slotwise/sched"
)

// SEPB is DynamicMR's speculative execution performance balancing over another
// speculator (Alg 3). A copy helps one job and costs the others a slot, so a
// straggler is copied only if no task is pending in the jobs that are checked:
//
//	K = 0 if the fraction is 0, else max(1, ⌈fraction · jobs⌉)
//
// of the first jobs in order, of the cluster or of the straggler's pool. With K = 0
// copies come before all pending tasks, which is what the speculator below would
// do on its own. Alg 3 looks for stragglers first; here that comes last, because
// it costs most, and all three conditions have to hold anyway.
type SEPB struct {
	base  sched.Speculate
	cfg   SEPBConfig
	view  *sched.View
	lends lender
	order sched.Order
	// pools counts live jobs and launchable reduces by pool, seats what each job
	// adds to them.
	pools   map[string]*sepbPool
	seats   []sepbJob
	reduces int
	probe   probe
}

// lender is a slots part that may have tasks of one kind run in slots of the
// other.
type lender interface{ Lends(slot job.Kind) bool }

type sepbPool struct {
	name    string
	jobs    int
	pending [job.Kinds]int
}

type sepbJob struct {
	pool    *sepbPool
	pending [job.Kinds]int
}

var (
	_ sched.Speculate     = (*SEPB)(nil)
	_ sched.Preceder      = (*SEPB)(nil)
	_ sched.Sparse        = (*SEPB)(nil)
	_ sched.Parted        = (*SEPB)(nil)
	_ sched.Consulter     = (*SEPB)(nil)
	_ sched.Fitter        = (*SEPB)(nil)
	_ sched.Starter       = (*SEPB)(nil)
	_ sched.JobWatcher    = (*SEPB)(nil)
	_ sched.ChangeWatcher = (*SEPB)(nil)
	_ sched.TaskWatcher   = (*SEPB)(nil)
)

// SEPBConfig configures SEPB.
type SEPBConfig struct {
	// PoolLevel checks the jobs of the straggler's pool instead of all jobs.
	PoolLevel bool
	// Fraction is the part of all jobs that is checked, PoolFraction the part of
	// the pool's jobs; the level says which counts. 0 is the speculator below
	// unrestrained; 1 never copies while anything waits.
	Fraction, PoolFraction dynamicmr.Fraction
	// Cap is the part of all slots of a kind that copies may hold at once, at
	// least one slot. It bounds what the speculator below allows; at 1 that
	// alone decides.
	Cap dynamicmr.Fraction
}

func (c *SEPBConfig) bind() sched.Bindings {
	return sched.Bindings{
		sched.Bind(&c.PoolLevel, sched.Switch("GlobalLevel", "PoolLevel"), sched.Param{Name: "sepb-level", Default: "GlobalLevel",
			Aliases: []string{"FairSchedulerSpeculativeJobsPendingTasksCheckedMode"},
			Help:    "Whose pending tasks go before a copy: GlobalLevel (all jobs') or PoolLevel (those of the jobs in the straggler's pool)."}),
		sched.Bind(&c.Fraction, dynamicmr.Fractions, sched.Param{Name: "sepb-fraction", Default: "1",
			Aliases: []string{"mapred.submitted.jobs.checkedforPendingTasks"},
			Help: "With GlobalLevel: the fraction of all jobs, in scheduling order, that is checked for pending tasks, 0 to 1. 0 starts " +
				"copies before any pending task; small values start more copies."}),
		sched.Bind(&c.PoolFraction, dynamicmr.Fractions, sched.Param{Name: "sepb-pool-fraction", Default: "1",
			Aliases: []string{"poolPercentageOfSubmittedJobsCheckedForPendingTasks"},
			Help:    "With PoolLevel: the same fraction of the jobs in the straggler's pool."}),
		sched.Bind(&c.Cap, dynamicmr.Fractions, sched.Param{Name: "sepb-cap", Default: "0.1",
			Help: "The fraction of all slots of a kind that copies may hold at once, 0 to 1, but at least one slot. The speculator below " +
				"may have a lower limit of its own."}),
	}
}

// SEPBParams documents the parameters of SEPB, without those of the speculator
// below.
var SEPBParams = new(SEPBConfig).bind().Params()

// NewSEPB returns balancing over a speculator.
func NewSEPB(base sched.Speculate, cfg SEPBConfig) *SEPB {
	s := &SEPB{base: base, cfg: cfg, pools: make(map[string]*sepbPool)}
	s.probe.bind(s)
	return s
}

// ReadSEPB returns a constructor of SEPB over the speculator that base
// constructs.
func ReadSEPB(base func(*sched.Kit) (sched.Speculate, error)) func(*sched.Kit) (sched.Speculate, error) {
	return func(k *sched.Kit) (sched.Speculate, error) {
		var c SEPBConfig
		err := k.Read(c.bind())
		below, err2 := base(k)
		if err := errors.Join(err, err2); err != nil {
			return nil, err
		}
		return NewSEPB(below, c), nil
	}
}

// Parts implements sched.Parted: the speculator below has hooks of its own.
func (s *SEPB) Parts() []any { return []any{s.base} }

// Consult implements sched.Consulter.
func (s *SEPB) Consult(parts []any) {
	s.lends, _ = parts[0].(lender)
	s.order, _ = parts[1].(sched.Order)
}

// Fit implements sched.Fitter.
func (s *SEPB) Fit([]any) error {
	if _, never := s.base.(sched.NoCopies); never {
		return errors.New("speculate=sepb balances the copies of another speculator, and this one makes none")
	}
	return nil
}

// Start implements sched.Starter.
func (s *SEPB) Start(v *sched.View, _ time.Duration) { s.view = v }

// MayCopy implements sched.Sparse: with copies at their limit, or pending tasks
// that go before all of them, orders need not visit jobs without any.
func (s *SEPB) MayCopy(r *sched.Round) bool {
	if b, ok := s.base.(sched.Sparse); ok && !b.MayCopy(r) {
		return false
	}
	for k := range job.Kind(job.Kinds) {
		if s.room(r.View, k) && !s.waiting(r, sched.Offer{Kind: k, Slot: k}) {
			return true
		}
	}
	return false
}

// room reports whether a task of the kind may be copied within the limit.
func (s *SEPB) room(v *sched.View, k job.Kind) bool {
	copies := v.Jobs().Tally().Copies[k]
	return v.Jobs().Running(k) > copies && copies < max(1, s.cfg.Cap.Floor(v.Nodes().Slots(k)))
}

// waiting reports, where all jobs are checked, whether a pending task goes before
// every copy. The counts tell most of the time that there is none; if there is
// one, the order knows whether its job may run at all.
func (s *SEPB) waiting(r *sched.Round, o sched.Offer) bool {
	if s.cfg.PoolLevel || s.cfg.Fraction != dynamicmr.One || s.sum(o, r.Jobs().Pending(job.Map), s.reduces) == 0 {
		return false
	}
	return s.probe.any(r, o.Kind) || s.counts(o) && s.probe.any(r, o.Kind.Other())
}

// sum counts the pending tasks that the offer's slot could serve: those of the
// offer's kind, and the others if the slot may be lent to them (Q15).
func (s *SEPB) sum(o sched.Offer, maps, reduces int) int {
	n := [job.Kinds]int{maps, reduces}
	if s.counts(o) {
		return maps + reduces
	}
	return n[o.Kind]
}

// counts reports whether the offer's slot could also serve the kind of task that
// it is not offered to.
func (s *SEPB) counts(o sched.Offer) bool {
	return o.Either || o.Kind != o.Slot || s.lends != nil && s.lends.Lends(o.Slot)
}

// Before implements sched.Preceder: Alg 3.
func (s *SEPB) Before(r *sched.Round, o sched.Offer, order sched.Order) *job.Task {
	if !r.Copies() || !s.room(r.View, o.Kind) || s.waiting(r, o) {
		return nil
	}
	return s.probe.find(r, o, order)
}

// Copy implements sched.Speculate. A slot that goes to no straggler before the
// pending tasks goes to none after them.
func (s *SEPB) Copy(*sched.Round, sched.Offer, sched.Candidate) *job.Task { return nil }
