package learning

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// Order serves the candidate with the greatest expected utility:
//
//	EU(J) = U(J) · P(good|F)    Eq. 1
//
// U is the product of the utilities that OrderConfig names. P is the learner's
// probability that one more task of the job does not overload the node.
// Candidates that the learner calls bad and candidates of no value get nothing.
// If the slots part has no learner, P is 1 for all.
//
// A heartbeat costs one prediction for each distinct set of resource hints, and a look at
// each group of candidates of equal value; see groups.go. Utilities that vary with time cost
// a multiplication for each candidate. Candidates lie side by side in memory: a thousand
// take a few microseconds.
type Order struct {
	cfg     OrderConfig
	worth   worth
	learner *Learner
	rnd     *rand.Rand
	hints   *Hints

	entries  []entry    // by job seat
	ready    candidates // jobs and kinds that can launch a task
	all      candidates // all live jobs and kinds
	hintSets []hintSet  // the distinct kinds and resource hints
	byValue  map[taskHints]int32
	groups   []group // candidates of equal value and hints
	byGroup  map[groupKey]int32
	// fresh holds the seats of jobs whose wait reasons may be due before group.nextNote.
	fresh []int32

	// The state of one call of Each. round is the tracker's present round;
	// calls with another round are queries, which must not change anything.
	round           *sched.Round
	call            uint64      // number of the call
	from            *candidates // the set that the call visits
	extra           []int32     // indexes in all of the candidates that the call visits as well
	picks           []pick      // good candidates of some value
	top             float64     // the greatest EU in picks
	bad             []pick      // bad candidates of some value
	equal           []pick      // picks of equal expected utility, while they are visited
	best            pick        // the best bad candidate, if its age is not 0
	whole           bool        // the call's offer is for all ready candidates
	lazy            bool        // all candidates are bad, and bad is not filled yet
	proposed        proposal    // the last candidate visited in the tracker's round
	decidedWithheld bool        // the round has withheld a decision since its last launch
}

// taskHints is the part of a candidate's features that its job decides.
type taskHints struct {
	job.Ratings
	kind job.Kind
}

// hintSet is a distinct kind of task with resource hints, and the learner's
// prediction.
type hintSet struct {
	taskHints
	call       uint64 // the call that computed prediction
	prediction Prediction
	weighed    uint64  // the call that computed weight
	weight     float64 // what a utility is multiplied by; see Order.weightOf
	judged     uint64  // the call that computed risk
	risk       float64 // the probability of being bad
}

// pick is a candidate with its expected utility.
type pick struct {
	eu  float64
	age int64
	at  int32 // index in Order.from, or ^index in Order.all
}

// proposal is a candidate that Each has passed to the tracker.
type proposal struct {
	open bool // the tracker may still launch it
	job  *job.Job
	kind job.Kind
	d    Decision
}

var (
	_ sched.Order          = (*Order)(nil)
	_ sched.JobWatcher     = (*Order)(nil)
	_ sched.ChangeWatcher  = (*Order)(nil)
	_ sched.TaskWatcher    = (*Order)(nil)
	_ sched.Consulter      = (*Order)(nil)
	_ sched.Reconfigurable = (*Order)(nil)
	_ Decider              = (*Order)(nil)
)

// NewOrder returns an order without jobs. cfg must have passed Check.
func NewOrder(cfg OrderConfig, seed uint64) *Order {
	u := &Order{cfg: cfg, rnd: rand.New(rand.NewPCG(seed, 0x7574696c697479)), hints: &Hints{},
		byValue: map[taskHints]int32{}, byGroup: map[groupKey]int32{}}
	u.ready.which, u.all.which = 0, 1
	u.worth.set(&u.cfg)
	return u
}

// Consult implements sched.Consulter. It finds the learner of the slots part,
// which also remembers the hints of past jobs.
func (u *Order) Consult(parts []any) {
	for _, p := range parts {
		if x, ok := p.(interface{ Learner() *Learner }); ok {
			u.learner = x.Learner()
			u.hints = &u.learner.Hints
		}
	}
}

// Decides implements Decider.
func (u *Order) Decides() {}

// Begin starts a round of the tracker.
func (u *Order) Begin(r *sched.Round) {
	u.round, u.decidedWithheld, u.proposed = r, false, proposal{}
}

// Quiet implements sched.Quiet: without a candidate nothing is decided.
func (u *Order) Quiet() bool { return true }

// Each implements sched.Order. In the tracker's round it also notes wait
// reasons, and reports to the learner the decision to withhold all candidates.
func (u *Order) Each(r *sched.Round, o sched.Offer, visit func(sched.Candidate) bool) {
	live := r == u.round && r.Node() != nil
	gated := u.gated(r)
	// A query must not draw: it would change what the next round draws.
	random := live && !o.HeadOnly
	switch u.weighGroups(r, o, live, gated) {
	case someGood:
		u.visitGroups(r, live, random, visit)
		return
	case unknown:
		u.weigh(r, o, live, gated)
	}
	if len(u.picks) == 0 && u.best.age > 0 && !gated {
		u.withholdBest(r, live)
		random = false // of equal exceptions, the oldest starts
	}
	u.visit(r, o, live, random, visit)
}

// gated reports whether the node gets nothing because it is overloaded now.
func (u *Order) gated(r *sched.Round) bool {
	return u.learner != nil && r.Node() != nil && u.learner.Config().HardGate && u.learner.Over(r.Node().Index())
}

// running counts the tasks that the round's node runs.
func running(r *sched.Round) int { return r.Node().Running(job.Map) + r.Node().Running(job.Reduce) }

// withholdBest handles an offer for which all candidates of some value are bad.
// The learner may let one start as an exception: the best that the place part has
// a task for. Otherwise the order records, once per round, the decision to withhold
// the best one.
func (u *Order) withholdBest(r *sched.Round, live bool) {
	idle := Idle(r.Node())
	switch {
	case u.learner.Escape(r.Node().Index(), idle):
		u.fillBad()
		u.picks, u.top = append(u.picks, u.bad...), u.best.eu
	// Queries decide nothing, and a round that offers twice still makes one decision about one
	// state of the node.
	case live && !u.decidedWithheld:
		u.decidedWithheld = true
		d := u.proposal(r, u.best).d
		d.Busy = !idle
		u.learner.Withheld(r.Node().Index(), d)
	}
}

// visit visits the good candidates, best first. It finds the first without
// sorting, because the tracker nearly always takes it. If the offer is for the
// head only, it visits the oldest of the best, so that the head stays the same.
func (u *Order) visit(r *sched.Round, o sched.Offer, live, random bool, visit func(sched.Candidate) bool) {
	if len(u.picks) == 0 {
		return
	}
	first := u.first(random)
	u.picks[0], u.picks[first] = u.picks[first], u.picks[0]
	if u.yield(r, live, u.picks[0], visit) && !o.HeadOnly {
		u.visitRest(r, live, random, visit)
	}
}

// visitRest visits all picks but the first one, best first, equal ones at random or by age. It
// keeps them in a heap, because the tracker nearly always takes one of the first.
func (u *Order) visitRest(r *sched.Round, live, random bool, visit func(sched.Candidate) bool) {
	rest := u.picks[1:]
	// From the last item with children to the root: linear, where insertions would not be.
	for i := len(rest)/2 - 1; i >= 0; i-- {
		sink(rest, i)
	}
	for len(rest) > 0 {
		u.equal = u.equal[:0]
		// Utilities that differ by rounding alone are equal, so a random choice covers them.
		for least := rest[0].eu - float64(rest[0].eu*even); len(rest) > 0 && rest[0].eu >= least; {
			u.equal = append(u.equal, rest[0])
			last := len(rest) - 1
			rest[0], rest = rest[last], rest[:last]
			sink(rest, 0)
		}
		if random && u.cfg.Tie == TieRandom {
			u.rnd.Shuffle(len(u.equal), func(a, b int) { u.equal[a], u.equal[b] = u.equal[b], u.equal[a] })
		} else {
			slices.SortFunc(u.equal, func(a, b pick) int { return cmp.Compare(a.age, b.age) })
		}
		for _, x := range u.equal {
			if !u.yield(r, live, x, visit) {
				return
			}
		}
	}
}

// sink restores the order of a heap of picks, whose best one is at 0, after a change of the one at i.
func sink(picks []pick, i int) {
	better := func(a, b *pick) bool { return a.eu > b.eu || a.eu == b.eu && a.age < b.age }
	for {
		best := i
		for _, child := range [...]int{2*i + 1, 2*i + 2} {
			if child < len(picks) && better(&picks[child], &picks[best]) {
				best = child
			}
		}
		if best == i {
			return
		}
		picks[i], picks[best] = picks[best], picks[i]
		i = best
	}
}

// yield visits a candidate. It returns false when the tracker has taken it.
func (u *Order) yield(r *sched.Round, live bool, x pick, visit func(sched.Candidate) bool) bool {
	p := u.proposal(r, x)
	if live {
		u.proposed = p
	}
	more := visit(sched.Candidate{Job: p.job, Kind: p.kind})
	// A candidate that the place has declined was not decided on.
	u.proposed.open = live && !more
	return more
}

// proposal returns the job, kind and decision of a pick.
func (u *Order) proposal(r *sched.Round, x pick) proposal {
	c := u.candidate(x.at)
	p := proposal{job: u.entries[c.seat].job, kind: c.kind()}
	if u.learner != nil && r.Node() != nil {
		what := &u.hintSets[u.groups[c.group].hintSet]
		// Computed again for one candidate: picks hold the product with P only.
		value, _ := u.value(r, c)
		p.d = Decision{Job: p.job.ID(), Kind: p.kind, Profile: what.Ratings, Tasks: running(r),
			P: what.prediction.P(), Utility: value}
	}
	return p
}

// candidate returns the candidate of a pick by its index.
func (u *Order) candidate(at int32) *candidate {
	if at < 0 {
		return &u.all.list[^at]
	}
	return &u.from.list[at]
}

// weigh computes picks, the good candidates of some value, and best, the best
// of the bad ones.
//
// It is for offers that weighGroups cannot serve.
func (u *Order) weigh(r *sched.Round, o sched.Offer, live, gated bool) {
	u.picks, u.bad, u.top, u.best = u.picks[:0], u.bad[:0], 0, pick{}
	plain := o.Either && o.Pool == "" && !o.MapsDone && !o.MapsStarted && u.from == &u.ready
	for _, i := range u.extra {
		if u.wanted(o, &u.all.list[i]) {
			u.weighOne(r, ^i, live, gated)
		}
	}
	for i := range u.from.list {
		if plain || u.wanted(o, &u.from.list[i]) {
			u.weighOne(r, int32(i), live, gated)
		}
	}
	u.noted(live, gated)
}

// weighOne adds a candidate to picks or bad. One that has nothing to launch does not wait, so it
// gets no wait reason.
func (u *Order) weighOne(r *sched.Round, at int32, live, gated bool) {
	c := u.candidate(at)
	live = live && at >= 0
	value, zero := u.value(r, c)
	if value <= 0 {
		u.note(r, c, live, sched.Reason{Code: sched.NoValue, Pool: zero})
		return
	}
	p := &u.hintSets[u.groups[c.group].hintSet]
	u.predict(r, p)
	x := pick{value * u.weightOf(p), c.age, at}
	switch {
	case p.prediction.Good && !gated:
		u.picks, u.top = append(u.picks, x), max(u.top, x.eu)
		return
	case gated:
		u.note(r, c, live, sched.Reason{Code: sched.Overload, P: 1})
	// The probability costs an exponential, and hardly any note is due.
	case live && r.Now() >= c.due:
		u.note(r, c, live, sched.Reason{Code: sched.Overload, P: u.risk(p)})
	}
	u.addBad(x)
}

// addBad adds a bad candidate of some value, and keeps the best in best.
func (u *Order) addBad(x pick) {
	u.bad = append(u.bad, x)
	if u.best.age == 0 || x.eu > u.best.eu || x.eu == u.best.eu && x.age < u.best.age {
		u.best = x
	}
}

// gather chooses the candidates of a call. Candidates that can launch a task are in from. While
// copies are possible, extra has the candidates without such a task that may get a copy. The call visits all
// live candidates for the head of the order, and if the speculate part cannot list those jobs.
func (u *Order) gather(r *sched.Round, o sched.Offer) {
	u.from, u.extra = &u.ready, u.extra[:0]
	if o.HeadOnly {
		u.from = &u.all
		return
	}
	for k := range job.Kind(job.Kinds) {
		if o.NoCopies || !r.CopiesOf(k) {
			continue
		}
		jobs, listed := r.CopyJobs(k)
		switch {
		case !listed:
			u.from, u.extra = &u.all, u.extra[:0]
			return
		case u.all.of[k] == u.ready.of[k]:
			continue // each job with tasks of the kind has one to launch
		}
		for _, j := range jobs {
			// It is among the ready candidates already.
			if j.Launchable(k) {
				continue
			}
			if at := u.all.at[j.Seat()][k]; at > 0 {
				u.extra = append(u.extra, at-1)
			}
		}
	}
}

// wanted reports whether a candidate may fill an offer.
func (u *Order) wanted(o sched.Offer, c *candidate) bool {
	j, k := u.entries[c.seat].job, c.kind()
	if o.KeptFrom(j, k) {
		return false // it must not be the best of the bad candidates, which may start as an exception
	}
	return (o.Either || o.Kind == k) && (o.Pool == "" || o.Pool == j.Pool()) &&
		(u.from == &u.ready || o.HeadOnly || j.Launchable(k) || j.Active(k) > 0)
}

// value returns the utility of a candidate, and if it is 0 the name of the
// factor that makes it 0.
func (u *Order) value(r *sched.Round, c *candidate) (value float64, zero string) {
	value = u.groups[c.group].fixed
	// The usual case with the default utility: one comparison for each candidate.
	if value > 0 && !u.worth.anyVaries {
		return value, ""
	}
	// Written so that NaN, which a utility of a program may return, counts as 0.
	if value *= u.worth.current(&u.entries[c.seat], c.kind(), r); !(value > 0) {
		return 0, u.worth.why(&u.entries[c.seat], c.kind(), r)
	}
	// Two infinite products could not be compared, and infinity times a P of 0 is not a number.
	return min(value, math.MaxFloat64), ""
}

// predict stores the learner's prediction for a set of hints. Without a learner everything is
// good for certain.
func (u *Order) predict(r *sched.Round, p *hintSet) {
	// One prediction in a call serves all candidates with these hints.
	if p.call == u.call {
		return
	}
	p.call, p.prediction = u.call, Certain
	// An explanation outside a round has no node, whose features the prediction needs.
	if u.learner != nil && r.Node() != nil {
		p.prediction = u.learner.Predict(r.Node().Index(), p.kind, p.Ratings, running(r))
	}
}

// weightOf returns what the utility of candidates with a set of hints is multiplied by. The call
// has made the prediction.
func (u *Order) weightOf(p *hintSet) float64 {
	if p.weighed != u.call {
		p.weighed, p.weight = u.call, 1
		if u.learner != nil {
			p.weight = u.learner.Weight(p.prediction)
		}
	}
	return p.weight
}

// risk returns the probability of being bad of candidates with a set of hints. The call has made the
// prediction. A call that notes a wait reason for each candidate computes one exponential.
func (u *Order) risk(p *hintSet) float64 {
	if p.judged != u.call {
		p.judged, p.risk = u.call, 1-p.prediction.P()
	}
	return p.risk
}

// mostWeight returns an upper bound of weightOf, which is faster to compute. The log odds of top are
// not lower, and the call has computed its weight.
func (u *Order) mostWeight(p, top *hintSet) float64 {
	if u.learner == nil {
		return 1
	}
	return u.learner.MostWeight(p.prediction, top.prediction, top.weight)
}

// noteEvery is the time between two notes of a candidate's wait reason. It
// saves a heartbeat from writing a thousand reasons.
const noteEvery = 5 * time.Second

// note records a wait reason, unless a recent one stands.
func (u *Order) note(r *sched.Round, c *candidate, live bool, why sched.Reason) {
	if live && r.Now() >= c.due {
		c.due = r.Now() + noteEvery
		r.Note(u.entries[c.seat].job, c.kind(), why)
	}
}

// even is the relative difference below which expected utilities count as
// equal.
const even = 1e-12

// first returns the index of the best pick. Of several equal ones it chooses at
// random, or the oldest.
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
	// With one candidate nothing is drawn, so a run with fewer ties draws fewer numbers; firstOfGroups does
	// the same.
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

// Advances implements sched.Advancer. Priority makes a task worth four times as much with each step, if the
// configuration values tasks by it.
func (u *Order) Advances(_, before *job.Job, _ job.Kind) (byPriority, byPool bool) {
	return slices.Contains(u.cfg.Factors, Priority) && before.Priority() < job.VeryHigh, false
}

var _ sched.Advancer = (*Order)(nil)
