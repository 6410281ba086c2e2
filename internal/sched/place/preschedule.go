package place

import (
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/sched/dynamicmr"
	"github.com/slotwise/slotwise/sched"
)

// Preschedule is DynamicMR's slot prescheduling over another place (App. A,
// Alg 4): where a node already runs its part of the load, a job with data on it
// may still start maps there, in slots above the balance line (P1) or in idle
// reduce slots (P2), and reduces take as many map slots in return (P3). The slots
// part makes the offers; this part keeps the counts that limit them, and gives
// each job one task per heartbeat above the line. Everything else it leaves to
// the place that it is over.
type Preschedule struct {
	base sched.Place
	cfg  PrescheduleConfig
	// pre counts the maps that run in reduce slots by P2, back the reduces that
	// run in map slots by P3.
	pre, back int
}

var (
	_ sched.Place       = (*Preschedule)(nil)
	_ sched.Parted      = (*Preschedule)(nil)
	_ sched.Fitter      = (*Preschedule)(nil)
	_ sched.JobWatcher  = (*Preschedule)(nil)
	_ sched.TaskWatcher = (*Preschedule)(nil)
	_ sched.Explainer   = (*Preschedule)(nil)
)

// PrescheduleConfig configures Preschedule.
type PrescheduleConfig struct {
	// Enabled switches prescheduling on; off, only the base is left.
	Enabled bool
	// Max is preMax, how many reduce slots of the cluster P2 may hold at once.
	// More than the cluster has is no limit; 0 leaves P1 alone.
	Max int
}

func (c *PrescheduleConfig) bind() sched.Bindings {
	return sched.Bindings{
		sched.Bind(&c.Enabled, sched.Bool(), sched.Param{Name: "preschedule", Default: "true",
			Aliases: []string{"mapred.map.tasks.preScheduler.enabled"},
			Help: "Whether a job with data on a node may start maps there although the node already runs its share of the load. false " +
				"leaves only the waiting for local data."}),
		sched.Bind(&c.Max, sched.Int(0, math.MaxInt), sched.Param{Name: "preschedule-max", Default: "100000",
			Aliases: []string{"mapred.preScheduler.maximumNumBorrowedReduceSlots"},
			Help: "How many reduce slots of the cluster such maps may hold at once. The default is more than most clusters have; 0 lets " +
				"them use map slots only."}),
	}
}

// PrescheduleParams documents the parameters of Preschedule, without those of
// the place below.
var PrescheduleParams = new(PrescheduleConfig).bind().Params()

// NewPreschedule returns prescheduling over a place.
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

// Parts implements sched.Parted: the place below has hooks of its own.
func (p *Preschedule) Parts() []any { return []any{p.base} }

// Fit implements sched.Fitter.
func (p *Preschedule) Fit(parts []any) error {
	if b, ok := parts[0].(interface{ Balances() bool }); ok && b.Balances() {
		return nil
	}
	return errors.New("place=preschedule puts maps in slots above the line up to which slots=dhsa-pi or slots=dhsa-pd " +
		"fill a node, and the slots chosen draw no such line: choose one of these, or place=delay")
}

// Enabled reports whether there is any prescheduling.
func (p *Preschedule) Enabled() bool { return p.cfg.Enabled }

// MayTake reports whether one more map may take a reduce slot (P2). The paper
// says "does not exceed", which would allow one more than the maximum.
func (p *Preschedule) MayTake() bool { return p.pre < p.cfg.Max }

// MayReturn reports whether a reduce may take a map slot in return (P3). The
// paper asks only that P2 holds a slot, by which a single one would lift every
// limit on lent map slots.
func (p *Preschedule) MayReturn() bool { return p.back < p.pre }

// Pick implements sched.Place.
func (p *Preschedule) Pick(r *sched.Round, o sched.Offer, c sched.Candidate) (*job.Task, cluster.Level, sched.Reason) {
	switch l := dynamicmr.Label(o.Label); {
	case l != dynamicmr.AboveLine && l != dynamicmr.AboveLent && l != dynamicmr.WithinLent:
		return p.base.Pick(r, o, c)
	case l != dynamicmr.WithinLent && served(r, c.Job):
		return nil, 0, sched.Reason{Code: sched.NotYet}
	}
	// The base is not asked: an extra chance is no turn that a job lets pass.
	if t, level := Retry(r, o, c); t != nil {
		return t, level, sched.Reason{}
	}
	if t := c.Job.FreshOn(r.Node().Host()); t != nil {
		return t, cluster.NODE, sched.Reason{}
	}
	return nil, 0, sched.Reason{Code: sched.OutOfReach, Level: cluster.NODE}
}

// served reports whether a job got a slot above the line in this round: one pass
// gives each job one task.
func served(r *sched.Round, j *job.Job) bool {
	for _, a := range r.Launched() {
		if a.Task.Job() == j && above(a.Label) {
			return true
		}
	}
	return false
}

// above reports whether a slot is above the balance line.
func above(label int32) bool {
	l := dynamicmr.Label(label)
	return l == dynamicmr.AboveLine || l == dynamicmr.AboveLent
}

// JobAdded implements sched.JobWatcher: after a change of policy it may run what
// counts already.
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

func (p *Preschedule) count(a *job.Attempt, by int) {
	switch {
	case dynamicmr.Presched(a):
		p.pre += by
	case dynamicmr.PaidBack(a):
		p.back += by
	}
}

// Explain implements sched.Explainer.
func (p *Preschedule) Explain(j *job.Job, k job.Kind, _ time.Duration) string {
	switch {
	case !p.cfg.Enabled || p.pre == 0 || !j.Launchable(k):
		return ""
	case k == job.Reduce:
		return strconv.Itoa(p.pre) + " reduce slots run maps that found their data there"
	case p.pre >= p.cfg.Max:
		return "no more than " + strconv.Itoa(p.cfg.Max) + " reduce slots may run maps for the sake of their data"
	}
	return ""
}
