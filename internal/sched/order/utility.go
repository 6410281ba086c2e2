package order

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/sched"
	"github.com/slotwise/slotwise/internal/sched/learning"
)

// Utility serves the candidate with the greatest expected utility:
//
//	EU(J) = U(J) · P(good|F)    Eq. 1
//
// where U is a product of what UtilityConfig names, and P is what a learner says
// of one more task of the job on this node. Candidates that the learner calls
// bad, and those worth nothing, get nothing. With slots that have no learner, P
// is 1 for all.
//
// A heartbeat costs a prediction for each distinct profile of a job and a
// multiplication for each candidate.
type Utility struct {
	cfg     UtilityConfig
	worth   worth
	learner *learning.Learner
	view    *sched.View
	rnd     *rand.Rand
	hints   *learning.Hints

	entries []entry       // by seat
	ready   candidates    // can launch a task
	all     candidates    // of all live jobs
	profile []job.Profile // distinct ones
	byValue map[job.Profile]int32

	round    *sched.Round // the tracker's, as opposed to one that only asks
	verdicts []learning.Verdict
	said     []bool // verdicts are of this call
	picks    []pick
	best     pick // among the bad ones
	proposed pick
	open     bool // proposed has been offered to the tracker
	withheld bool // since the last launch of this round
}

// entry is what is known of a live job.
type entry struct {
	job     *job.Job
	pool    int32 // of worth.pools
	profile [job.Kinds]int32
	noted   [job.Kinds]time.Duration // when a reason was last written down, plus 1
	at      [2][job.Kinds]int32      // places in ready and all, plus 1
	balance float64
	offer   float64
}

// pick is a candidate with what it is worth now.
type pick struct {
	c       sched.Candidate
	eu      float64
	utility float64
	p       float64
	profile int32
}

var (
	_ sched.Order          = (*Utility)(nil)
	_ sched.Starter        = (*Utility)(nil)
	_ sched.JobWatcher     = (*Utility)(nil)
	_ sched.ChangeWatcher  = (*Utility)(nil)
	_ sched.TaskWatcher    = (*Utility)(nil)
	_ sched.Consulter      = (*Utility)(nil)
	_ sched.Reconfigurable = (*Utility)(nil)
	_ learning.Decider     = (*Utility)(nil)
)

// NewUtility returns an order without jobs. The configuration must be a checked
// one.
func NewUtility(cfg UtilityConfig, seed uint64) *Utility {
	u := &Utility{cfg: cfg, rnd: rand.New(rand.NewPCG(seed, 0x7574696c697479)), hints: &learning.Hints{},
		byValue: map[job.Profile]int32{}}
	u.ready.which, u.all.which = 0, 1
	u.worth.set(&u.cfg)
	return u
}

// Consult implements sched.Consulter: it finds the learner, which also knows
// what jobs declared in the past.
func (u *Utility) Consult(parts []any) {
	for _, p := range parts {
		if x, ok := p.(interface{ Learner() *learning.Learner }); ok {
			u.learner = x.Learner()
			u.hints = &u.learner.Hints
		}
	}
}

// Decides implements learning.Decider.
func (u *Utility) Decides() {}

// Start implements sched.Starter.
func (u *Utility) Start(v *sched.View, _ time.Duration) { u.view = v }

// Begin is called at the start of each of the tracker's rounds.
func (u *Utility) Begin(r *sched.Round) { u.round, u.open, u.withheld = r, false, false }

// Each implements sched.Order. Called in a round of the tracker it also writes
// down reasons, and tells the learner of a decision against all candidates.
func (u *Utility) Each(r *sched.Round, o sched.Offer, visit func(sched.Candidate) bool) {
	live := r == u.round && r.Node() != nil
	u.weigh(r, o, live)
	if len(u.picks) == 0 && u.best.c.Job != nil && !u.gated(r) {
		u.refuse(r, live)
	}
	u.visit(live, visit)
}

// refuse is what happens when all that is worth something is bad: the best of it
// is withheld, or goes ahead as an exception.
func (u *Utility) refuse(r *sched.Round, live bool) {
	node, tasks := r.Node().Index(), running(r)
	switch {
	case u.learner.Escape(node, tasks):
		u.picks = append(u.picks, u.best)
	case live && !u.withheld:
		u.withheld = true
		u.learner.Withheld(node, u.decision(u.best, tasks))
	}
}

// visit yields the good candidates, best first. The first is found without
// sorting: it is nearly always taken.
func (u *Utility) visit(live bool, visit func(sched.Candidate) bool) {
	if len(u.picks) == 0 {
		return
	}
	first := u.first(live)
	u.picks[0], u.picks[first] = u.picks[first], u.picks[0]
	if !u.yield(live, &u.picks[0], visit) {
		return
	}
	rest := u.picks[1:]
	u.sort(rest, live)
	for i := range rest {
		if !u.yield(live, &rest[i], visit) {
			return
		}
	}
}

// yield offers a candidate and reports whether to go on.
func (u *Utility) yield(live bool, x *pick, visit func(sched.Candidate) bool) bool {
	if live {
		u.proposed, u.open = *x, true
	}
	more := visit(x.c)
	u.open = u.open && !more
	return more
}

// running is how many tasks the round's node runs.
func running(r *sched.Round) int { return r.Node().Running(job.Map) + r.Node().Running(job.Reduce) }

// gated reports whether the node gets nothing because it is overloaded now.
func (u *Utility) gated(r *sched.Round) bool {
	return u.learner != nil && u.learner.Config().HardGate && u.learner.Over(r.Node().Index())
}

func (u *Utility) decision(x pick, tasks int) learning.Decision {
	return learning.Decision{Job: x.c.Job.ID(), Kind: x.c.Kind, Task: -1, Profile: u.profile[x.profile],
		Tasks: tasks, P: x.p, Utility: x.utility}
}

// weigh fills picks with the good candidates that are worth something, and best
// with the best of the bad ones.
func (u *Utility) weigh(r *sched.Round, o sched.Offer, live bool) {
	u.picks, u.best = u.picks[:0], pick{}
	u.said = append(u.said[:0], make([]bool, len(u.profile))...)
	for len(u.verdicts) < len(u.profile) {
		u.verdicts = append(u.verdicts, learning.Verdict{})
	}
	list, gated := &u.ready, r.Node() != nil && u.gated(r)
	if r.Copies() && !o.NoCopies {
		list = &u.all
	}
	for _, id := range list.ids {
		e, k := &u.entries[id/job.Kinds], job.Kind(id%job.Kinds)
		if !o.Either && o.Kind != k || o.Pool != "" && o.Pool != e.job.Pool() ||
			list == &u.all && !e.job.Launchable(k) && e.job.Active(k) == 0 {
			continue
		}
		u.weighOne(r, e, k, live, gated)
	}
}

func (u *Utility) weighOne(r *sched.Round, e *entry, k job.Kind, live, gated bool) {
	value, zero := u.worth.of(e, k, r)
	if value <= 0 {
		if live {
			u.note(r, e, k, sched.Reason{Code: sched.NoValue, Pool: zero})
		}
		return
	}
	v := u.verdict(r, e.profile[k])
	x := pick{c: sched.Candidate{Job: e.job, Kind: k}, utility: value, p: v.P, profile: e.profile[k], eu: value}
	if u.learner != nil {
		x.eu = value * u.learner.Weight(v)
	}
	switch {
	case gated:
		v.P = 0
		fallthrough
	case !v.Good:
		if live {
			u.note(r, e, k, sched.Reason{Code: sched.Overload, P: 1 - v.P})
		}
		if u.best.c.Job == nil || x.eu > u.best.eu || x.eu == u.best.eu && byAge(&x, &u.best) < 0 {
			u.best = x
		}
	case x.eu > 0:
		u.picks = append(u.picks, x)
	}
}

// verdict asks the learner once per call and profile.
func (u *Utility) verdict(r *sched.Round, profile int32) learning.Verdict {
	if u.learner == nil || r.Node() == nil {
		return learning.Verdict{Good: true, P: 1, Joint: 1}
	}
	if !u.said[profile] {
		u.said[profile] = true
		u.verdicts[profile] = u.learner.Predict(r.Node().Index(), u.profile[profile], running(r))
	}
	return u.verdicts[profile]
}

// noteEvery is how long a reason that was written down stands: a heartbeat need
// not write one for each of a thousand jobs.
const noteEvery = 5 * time.Second

func (u *Utility) note(r *sched.Round, e *entry, k job.Kind, why sched.Reason) {
	if at := e.noted[k]; at == 0 || r.Now() >= at-1+noteEvery {
		e.noted[k] = r.Now() + 1
		r.Note(e.job, k, why)
	}
}

// even is the relative difference up to which expected utilities are equal.
const even = 1e-12

// first returns the place of the best pick; of several equal ones a random one,
// or by age.
func (u *Utility) first(live bool) int {
	top := 0.0
	for i := range u.picks {
		top = max(top, u.picks[i].eu)
	}
	least, best, ties := top-float64(top*even), -1, 0
	random := live && u.cfg.Tie == TieRandom
	for i := range u.picks {
		if u.picks[i].eu < least {
			continue
		}
		ties++
		if best < 0 || !random && byAge(&u.picks[i], &u.picks[best]) < 0 {
			best = i
		}
	}
	if !random || ties == 1 {
		return best
	}
	nth := u.rnd.IntN(ties)
	for i := range u.picks {
		if u.picks[i].eu >= least {
			if nth == 0 {
				return i
			}
			nth--
		}
	}
	return best
}

// sort puts the picks in order, equal ones at random or by age.
func (u *Utility) sort(picks []pick, live bool) {
	slices.SortFunc(picks, func(a, b pick) int { return cmp.Or(cmp.Compare(b.eu, a.eu), byAge(&a, &b)) })
	for i := 0; i < len(picks); {
		end, least := i+1, picks[i].eu-float64(picks[i].eu*even)
		for end < len(picks) && picks[end].eu >= least {
			end++
		}
		run := picks[i:end]
		if live && u.cfg.Tie == TieRandom {
			u.rnd.Shuffle(len(run), func(a, b int) { run[a], run[b] = run[b], run[a] })
		} else {
			slices.SortFunc(run, func(a, b pick) int { return byAge(&a, &b) })
		}
		i = end
	}
}

// byAge orders equal picks: earlier submission, lower number, map before
// reduce.
func byAge(a, b *pick) int {
	return cmp.Or(cmp.Compare(a.c.Job.Submitted(), b.c.Job.Submitted()), cmp.Compare(a.c.Job.ID(), b.c.Job.ID()),
		cmp.Compare(a.c.Kind, b.c.Kind))
}
