package dynamicmr

import (
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/slotwise/slotwise/policies/hadoop"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// Preschedule is DynamicMR's slot prescheduling over another place part (App.
// A, Alg 4). A job with data on a node that already runs its share of the load
// may still start maps there: in map slots above the balance line (P1) or in
// idle reduce slots (P2). Reduces take as many map slots in return (P3).
//
// The slots part makes the offers. This part keeps the counts that limit them
// and gives each job at most one task per heartbeat above the line. Everything
// else it passes to the base place.
type Preschedule struct {
	base sched.Place
	cfg  PrescheduleConfig
	// preLent counts maps that run in reduce slots by P2, and returned counts
	// reduces that run in map slots by P3.
	preLent, returned int
}

var (
	_ sched.Place       = (*Preschedule)(nil)
	_ sched.Parted      = (*Preschedule)(nil)
	_ sched.Fitter      = (*Preschedule)(nil)
	_ sched.JobWatcher  = (*Preschedule)(nil)
	_ sched.TaskWatcher = (*Preschedule)(nil)
	_ sched.Explainer   = (*Preschedule)(nil)
)

// PrescheduleConfig holds the parameters of Preschedule.
type PrescheduleConfig struct {
	// Enabled turns prescheduling on. Otherwise only the base place acts.
	Enabled bool
	// Max is preMax, the most reduce slots of the cluster that P2 may hold at
	// once. 0 leaves only P1. Values above the number of slots mean no limit.
	Max int
}

func (c *PrescheduleConfig) bind() sched.Bindings {
	return sched.Bindings{
		sched.Bind(&c.Enabled, sched.Bool(), sched.Param{Name: "preschedule", Default: "true", Tune: []string{"false", "true"},
			Aliases: []string{"mapred.map.tasks.preScheduler.enabled"},
			Help: "Whether a job with data on a node may start maps there although the node already runs its share of the load. false " +
				"leaves only the waiting for local data."}),
		sched.Bind(&c.Max, sched.Int(0, math.MaxInt), sched.Param{Name: "preschedule-max", Default: "100000",
			Aliases: []string{"mapred.preScheduler.maximumNumBorrowedReduceSlots"},
			Help: "How many reduce slots of the cluster such maps may hold at once. The default is more than most clusters have; 0 lets " +
				"them use map slots only."}),
	}
}

// PrescheduleParams documents the parameters of Preschedule, but not the parameters of the
// base part.
func PrescheduleParams() []sched.Param { return new(PrescheduleConfig).bind().Params() }

// NewPreschedule returns prescheduling over a place part.
func NewPreschedule(base sched.Place, cfg PrescheduleConfig) *Preschedule {
	return &Preschedule{base: base, cfg: cfg}
}

// ReadPreschedule returns a constructor of Preschedule over the place that base
// constructs.
func ReadPreschedule(base func(*sched.Kit) (sched.Place, error)) func(*sched.Kit) (sched.Place, error) {
	return func(k *sched.Kit) (sched.Place, error) {
		var c PrescheduleConfig
		err := k.Read(c.bind())
		below, err2 := base(k)
		if err := errors.Join(err, err2); err != nil {
			return nil, err
		}
		return NewPreschedule(below, c), nil
	}
}

// Parts implements sched.Parted, so that the hooks of the base place are
// called.
func (p *Preschedule) Parts() []any { return []any{p.base} }

// Fit implements sched.Fitter.
func (p *Preschedule) Fit(parts []any) error {
	if b, ok := parts[0].(interface{ Balances() bool }); ok && b.Balances() {
		return nil
	}
	return errors.New("place=preschedule puts maps in slots above the line up to which slots=dhsa-pi or slots=dhsa-pd " +
		"fill a node, and the slots chosen draw no such line: choose one of these, or place=delay")
}

// Enabled reports whether prescheduling is on.
func (p *Preschedule) Enabled() bool { return p.cfg.Enabled }

// MayTake reports whether one more map may take a reduce slot (P2). The paper's
// "does not exceed" would permit one more than the maximum.
func (p *Preschedule) MayTake() bool { return p.preLent < p.cfg.Max }

// MayReturn reports whether a reduce may take a map slot in return (P3). The
// paper only requires that P2 holds some slot, so that a single one would
// remove every limit on lent map slots.
func (p *Preschedule) MayReturn() bool { return p.returned < p.preLent }

// Pick implements sched.Place.
func (p *Preschedule) Pick(r *sched.Round, o sched.Offer, c sched.Candidate) (*job.Task, cluster.Level, sched.Reason) {
	switch l := Label(o.Label); {
	case l != AboveLine && l != AboveLent && l != WithinLent:
		return p.base.Pick(r, o, c)
	// Reading 19 in README.md: above the line a job gets one task for each heartbeat. Below it P2
	// is a case of Alg 2 like the others.
	case l != WithinLent && served(r, c.Job):
		return nil, 0, sched.Reason{Code: sched.NotYet}
	}
	// The base place must not see this offer: it is an extra chance, which the
	// job may decline without waiting any longer.
	if t, level := hadoop.Retry(r, o, c); t != nil {
		return t, level, sched.Reason{}
	}
	if t := c.Job.FreshOn(r.Node().Host()); t != nil {
		return t, cluster.NODE, sched.Reason{}
	}
	return nil, 0, sched.Reason{Code: sched.OutOfReach, Level: cluster.NODE}
}

// Quiet implements sched.Quiet: the counts follow attempts. The base place answers for itself.
func (p *Preschedule) Quiet() bool { return true }

// served reports whether the job got a slot above the line in this round. One
// pass gives each job at most one task.
func served(r *sched.Round, j *job.Job) bool {
	for _, a := range r.Launched() {
		// By P1 and P2 together (reading 18 in README.md).
		if a.Task.Job() == j && above(a.Label) {
			return true
		}
	}
	return false
}

// above reports whether a label marks a slot above the balance line.
func above(label int32) bool {
	l := Label(label)
	return l == AboveLine || l == AboveLent
}

// JobAdded implements sched.JobWatcher. After a change of policy the job may
// already run attempts that count.
func (p *Preschedule) JobAdded(j *job.Job) {
	for k := range job.Kind(job.Kinds) {
		for a := j.Oldest(k); a != nil; a = a.Next() {
			p.count(a, 1)
		}
	}
}

// JobRemoved implements sched.JobWatcher; its attempts have ended before.
func (p *Preschedule) JobRemoved(*job.Job) {}

// TaskStarted implements sched.TaskWatcher.
func (p *Preschedule) TaskStarted(a *job.Attempt, _ time.Duration) { p.count(a, 1) }

// TaskEnded implements sched.TaskWatcher.
func (p *Preschedule) TaskEnded(a *job.Attempt, _ time.Duration) { p.count(a, -1) }

// count adds an attempt to the slots that P2 and P3 hold, or removes it.
func (p *Preschedule) count(a *job.Attempt, by int) {
	switch {
	case Presched(a):
		p.preLent += by
	case PaidBack(a):
		p.returned += by
	}
}

// Explain implements sched.Explainer.
func (p *Preschedule) Explain(j *job.Job, k job.Kind, _ time.Duration) string {
	switch {
	case !p.cfg.Enabled || p.preLent == 0 || !j.Launchable(k):
		return ""
	case k == job.Reduce:
		return strconv.Itoa(p.preLent) + " reduce slots run maps near their data"
	case p.preLent >= p.cfg.Max:
		return "no more than " + strconv.Itoa(p.cfg.Max) + " reduce slots may run maps near their data"
	}
	return ""
}
