// Package utility is the order of the learning scheduler (Dhok and Varma): a slot
// goes to the candidate whose value times the predicted chance that the node
// bears it is the greatest.
package utility

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/sched/learning"
	"github.com/slotwise/slotwise/sched"
)

// Utility serves the candidate with the greatest expected utility:
//
//	EU(J) = U(J) · P(good|F)    Eq. 1
//
// where U is a product of what Config names, and P is what a learner says
// of one more task of the job on this node. Candidates that the learner calls
// bad, and those worth nothing, get nothing. With slots that have no learner, P
// is 1 for all.
//
// A heartbeat costs a prediction for each distinct profile of a job, and for
// each candidate a multiplication: they lie side by side in memory, so that a
// thousand of them are a few microseconds.
type Order struct {
	cfg     Config
	worth   worth
	learner *learning.Learner
	view    *sched.View
	rnd     *rand.Rand
	hints   *learning.Hints

	entries  []entry    // by seat
	ready    candidates // can launch a task
	all      candidates // of all live jobs
	profiles []profile  // distinct ones
	byValue  map[job.Profile]int32

	// The state of a call of Each. round is the tracker's, as opposed to one
	// that only asks.
	round    *sched.Round
	call     uint64
	from     *candidates
	picks    []pick
	top      float64 // the greatest of picks
	best     pick    // among the bad ones, if it has an age
	proposed proposal
	withheld bool // since the last launch of the round
}

// profile is a distinct profile of jobs and what the learner says of it.
type profile struct {
	job.Profile
	call    uint64 // of which the rest is
	verdict learning.Verdict
	weight  float64
}

// pick is a candidate with its expected utility.
type pick struct {
	eu  float64
	age int64
	at  int32 // in Utility.from
}

// proposal is a candidate that was offered to the tracker.
type proposal struct {
	open bool // it may yet be taken
	job  *job.Job
	kind job.Kind
	d    learning.Decision
}

var (
	_ sched.Order          = (*Order)(nil)
	_ sched.Starter        = (*Order)(nil)
	_ sched.JobWatcher     = (*Order)(nil)
	_ sched.ChangeWatcher  = (*Order)(nil)
	_ sched.TaskWatcher    = (*Order)(nil)
	_ sched.Consulter      = (*Order)(nil)
	_ sched.Reconfigurable = (*Order)(nil)
	_ learning.Decider     = (*Order)(nil)
)

// New returns an order without jobs. The configuration must be a checked
// one.
func New(cfg Config, seed uint64) *Order {
	u := &Order{cfg: cfg, rnd: rand.New(rand.NewPCG(seed, 0x7574696c697479)), hints: &learning.Hints{},
		byValue: map[job.Profile]int32{}}
	u.ready.which, u.all.which = 0, 1
	u.worth.set(&u.cfg)
	return u
}

// Consult implements sched.Consulter: it finds the learner, which also knows
// what jobs declared in the past.
func (u *Order) Consult(parts []any) {
	for _, p := range parts {
		if x, ok := p.(interface{ Learner() *learning.Learner }); ok {
			u.learner = x.Learner()
			u.hints = &u.learner.Hints
		}
	}
}

// Decides implements learning.Decider.
func (u *Order) Decides() {}

// Start implements sched.Starter.
func (u *Order) Start(v *sched.View, _ time.Duration) { u.view = v }

// Begin is called at the start of each of the tracker's rounds.
func (u *Order) Begin(r *sched.Round) {
	u.round, u.withheld, u.proposed = r, false, proposal{}
}

// Each implements sched.Order. Called in a round of the tracker it also writes
// down reasons, and tells the learner of a decision against all candidates.
func (u *Order) Each(r *sched.Round, o sched.Offer, visit func(sched.Candidate) bool) {
	live := r == u.round && r.Node() != nil
	gated := u.gated(r)
	u.weigh(r, o, live, gated)
	if len(u.picks) == 0 && u.best.age > 0 && !gated {
		u.refuse(r, live)
	}
	u.visit(r, o, live, visit)
}

// gated reports whether the node gets nothing because it is overloaded now.
func (u *Order) gated(r *sched.Round) bool {
	return u.learner != nil && r.Node() != nil && u.learner.Config().HardGate && u.learner.Over(r.Node().Index())
}

// running is how many tasks the round's node runs.
func running(r *sched.Round) int { return r.Node().Running(job.Map) + r.Node().Running(job.Reduce) }

// refuse is what happens when all that is worth something is bad: the best of it
// is withheld, or goes ahead as an exception.
func (u *Order) refuse(r *sched.Round, live bool) {
	switch {
	case u.learner.Escape(r.Node().Index(), running(r)):
		u.picks, u.top = append(u.picks, u.best), u.best.eu
	case live && !u.withheld:
		u.withheld = true
		u.learner.Withheld(r.Node().Index(), u.proposal(r, u.best).d)
	}
}

// visit yields the good candidates, best first. The first is found without
// sorting: it is nearly always taken. If only the head may have the slot, that is
// the oldest of the best, and stays so.
func (u *Order) visit(r *sched.Round, o sched.Offer, live bool, visit func(sched.Candidate) bool) {
	if len(u.picks) == 0 {
		return
	}
	first := u.first(live && !o.HeadOnly)
	u.picks[0], u.picks[first] = u.picks[first], u.picks[0]
	if !u.yield(r, live, u.picks[0], visit) || o.HeadOnly {
		return
	}
	rest := u.picks[1:]
	u.sort(rest, live)
	for _, x := range rest {
		if !u.yield(r, live, x, visit) {
			return
		}
	}
}

// yield offers a candidate and reports whether to go on.
func (u *Order) yield(r *sched.Round, live bool, x pick, visit func(sched.Candidate) bool) bool {
	p := u.proposal(r, x)
	if live {
		u.proposed = p
	}
	more := visit(sched.Candidate{Job: p.job, Kind: p.kind})
	u.proposed.open = live && !more
	return more
}

// proposal says what a pick stands for.
func (u *Order) proposal(r *sched.Round, x pick) proposal {
	c := &u.from.list[x.at]
	p := proposal{job: u.entries[c.seat].job, kind: c.kind()}
	if u.learner != nil && r.Node() != nil {
		what := &u.profiles[c.profile]
		value, _ := u.value(r, c)
		p.d = learning.Decision{Job: p.job.ID(), Kind: p.kind, Task: -1, Profile: what.Profile, Tasks: running(r),
			P: what.verdict.P, Utility: value}
	}
	return p
}

// weigh fills picks with the good candidates that are worth something, and best
// with the best of the bad ones.
func (u *Order) weigh(r *sched.Round, o sched.Offer, live, gated bool) {
	u.call++
	u.picks, u.top, u.best, u.from = u.picks[:0], 0, pick{}, &u.ready
	if r.Copies() && !o.NoCopies || o.HeadOnly {
		u.from = &u.all
	}
	plain := o.Either && o.Pool == "" && u.from == &u.ready
	for i := range u.from.list {
		c := &u.from.list[i]
		if !plain && !u.wanted(o, c) {
			continue
		}
		value, zero := u.value(r, c)
		if value <= 0 {
			u.note(r, c, live, sched.Reason{Code: sched.NoValue, Pool: zero})
			continue
		}
		p := &u.profiles[c.profile]
		if p.call != u.call {
			u.ask(r, p)
		}
		x := pick{value * p.weight, c.age, int32(i)}
		switch {
		case p.verdict.Good && !gated:
			u.picks, u.top = append(u.picks, x), max(u.top, x.eu)
			continue
		case gated:
			u.note(r, c, live, sched.Reason{Code: sched.Overload, P: 1})
		default:
			u.note(r, c, live, sched.Reason{Code: sched.Overload, P: 1 - p.verdict.P})
		}
		if u.best.age == 0 || x.eu > u.best.eu || x.eu == u.best.eu && x.age < u.best.age {
			u.best = x
		}
	}
}

// wanted reports whether a candidate may fill an offer.
func (u *Order) wanted(o sched.Offer, c *candidate) bool {
	j, k := u.entries[c.seat].job, c.kind()
	return (o.Either || o.Kind == k) && (o.Pool == "" || o.Pool == j.Pool()) &&
		(u.from == &u.ready || o.HeadOnly || j.Launchable(k) || j.Active(k) > 0)
}

// value is the utility of a candidate, and if that is 0 what made it so.
func (u *Order) value(r *sched.Round, c *candidate) (value float64, zero string) {
	value = c.fixed
	if value > 0 && !u.worth.moving {
		return value, ""
	}
	if value *= u.worth.moves(&u.entries[c.seat], c.kind(), r); !(value > 0) {
		return 0, u.worth.why(&u.entries[c.seat], c.kind(), r)
	}
	return value, ""
}

// certain is the word of slots without a learner.
var certain = learning.Verdict{Good: true, P: 1, Joint: 1}

// ask has the learner judge a profile.
func (u *Order) ask(r *sched.Round, p *profile) {
	p.call, p.verdict, p.weight = u.call, certain, 1
	if u.learner != nil && r.Node() != nil {
		p.verdict = u.learner.Predict(r.Node().Index(), p.Profile, running(r))
		p.weight = u.learner.Weight(p.verdict)
	}
}

// noteEvery is how long a reason that was written down stands: a heartbeat need
// not write one for each of a thousand jobs.
const noteEvery = 5 * time.Second

func (u *Order) note(r *sched.Round, c *candidate, live bool, why sched.Reason) {
	if live && r.Now() >= c.due {
		c.due = r.Now() + noteEvery
		r.Note(u.entries[c.seat].job, c.kind(), why)
	}
}

// even is the relative difference up to which expected utilities are equal.
const even = 1e-12

// first returns the place of the best pick; of several equal ones a random one,
// or the oldest.
func (u *Order) first(random bool) int {
	least, best, ties := u.top-float64(u.top*even), -1, 0
	for i := range u.picks {
		if x := &u.picks[i]; x.eu >= least {
			ties++
			if best < 0 || x.age < u.picks[best].age {
				best = i
			}
		}
	}
	if ties == 1 || !random || u.cfg.Tie == TieOrdered {
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

// sort puts picks in order, equal ones at random or by age.
func (u *Order) sort(picks []pick, live bool) {
	age := func(a, b pick) int { return cmp.Compare(a.age, b.age) }
	slices.SortFunc(picks, func(a, b pick) int { return cmp.Or(cmp.Compare(b.eu, a.eu), age(a, b)) })
	for i := 0; i < len(picks); {
		end, least := i+1, picks[i].eu-float64(picks[i].eu*even)
		for end < len(picks) && picks[end].eu >= least {
			end++
		}
		run := picks[i:end]
		if live && u.cfg.Tie == TieRandom {
			u.rnd.Shuffle(len(run), func(a, b int) { run[a], run[b] = run[b], run[a] })
		} else {
			slices.SortFunc(run, age)
		}
		i = end
	}
}
