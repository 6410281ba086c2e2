package learning

import (
	"math"
	"slices"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// group is a set of candidates with the same fixed utility, kind and resource hints. Without
// varying utilities all candidates have the same expected utility on a node.
type group struct {
	groupKey
	count [2]int // candidates, by candidates.which
	// oldest is the least age of the ready candidates, and seat that candidate's. oldest is 0 if they
	// must be searched.
	oldest int64
	seat   int32
	// nextNote is a time before which no ready candidate's wait reason is due, except of the
	// jobs in Order.fresh.
	nextNote time.Duration

	// The state of the present call.
	eu     float64 // NaN if nothing has needed it; see greatest
	good   bool
	chosen bool // good, and eu is the greatest
}

// groupKey identifies a group.
type groupKey struct {
	fixed   float64 // product of the utilities that change only with the job
	hintSet int32   // index in Order.hintSets
}

// groupOf returns the index of a group in groups.
func (u *Order) groupOf(fixed float64, hintSet int32) int32 {
	k := groupKey{fixed, hintSet}
	i, ok := u.byGroup[k]
	if !ok {
		i = int32(len(u.groups))
		u.byGroup[k] = i
		u.groups = append(u.groups, group{groupKey: k})
	}
	return i
}

// verdict is the result of weighGroups.
type verdict uint8

const (
	unknown  verdict = iota // weigh must look at each candidate
	someGood                // visitGroups visits the good candidates; picks has the candidates that may only get a copy
	allBad                  // best is set, and fillBad fills bad
)

// weighGroups finds the greatest expected utility of the groups of ready candidates. It leaves
// an offer to weigh if the offer is for some of the candidates only, if utilities vary with
// time, if a candidate has no value, or if wait reasons are due.
//
// It returns the same results as weigh.
func (u *Order) weighGroups(r *sched.Round, o sched.Offer, live, gated bool) verdict {
	// A new number makes all stored predictions, weights and risks stale without a walk over them.
	u.call++
	u.picks, u.bad, u.top, u.best, u.lazy = u.picks[:0], u.bad[:0], 0, pick{}, false
	u.gather(r, o)
	u.whole = o.Either && o.Pool == "" && !o.MapsDone && !o.MapsStarted && u.from == &u.ready
	// Candidates of a group have one expected utility only if the offer is for all candidates and
	// nothing in their value depends on the time or on the job's progress. With more groups than
	// candidates there is nothing to save.
	if !u.whole || gated || u.worth.anyVaries || len(u.groups) > len(u.ready.list) {
		return unknown
	}
	anyGood, anyBad, due := false, false, false
	for i := range u.groups {
		g := &u.groups[i]
		if g.good, g.chosen = false, false; g.count[u.ready.which] == 0 {
			continue
		}
		// Candidates of no value get a wait reason of their own, which weigh notes.
		if !(g.fixed > 0) {
			return unknown
		}
		p := &u.hintSets[g.hintSet]
		u.predict(r, p)
		if g.good = p.prediction.Good; g.good {
			anyGood = true
		} else {
			anyBad, due = true, due || r.Now() >= g.nextNote
		}
	}
	// Jobs that may only get a copy belong to no group of ready candidates. They are few, so each
	// is weighed alone.
	for _, i := range u.extra {
		c := &u.all.list[i]
		g := &u.groups[c.group]
		if !(g.fixed > 0) {
			return unknown
		}
		p := &u.hintSets[g.hintSet]
		u.predict(r, p)
		if x := (pick{g.fixed * u.weightOf(p), c.age, ^i}); p.prediction.Good {
			u.picks, u.top = append(u.picks, x), max(u.top, x.eu)
		} else {
			u.addBad(x)
		}
	}
	switch {
	// Only weigh notes wait reasons, one candidate at a time.
	case live && due:
		return unknown
	case live && anyBad:
		u.noteFresh(r)
	}
	if anyGood || len(u.picks) > 0 {
		u.top = max(u.top, u.greatest(true))
		return someGood
	}
	// Most nodes that refuse everything grant no exception, so the list of bad candidates is filled
	// only if one is due.
	u.lazy = true
	u.findBest(u.greatest(false))
	return allBad
}

// greatest returns the greatest expected utility of the groups of ready candidates that are
// good, or bad. It sets eu of these groups, to NaN where an upper bound shows that eu is less by
// more than even.
func (u *Order) greatest(good bool) float64 {
	// The bounds are close to the highest log odds, so most other sets need no exponential.
	var first *hintSet
	top := 0.
	for i := range u.groups {
		g := &u.groups[i]
		// The set of the highest log odds has the highest P, so its weight bounds all others.
		if p := &u.hintSets[g.hintSet]; g.good == good && g.count[u.ready.which] > 0 && (first == nil || p.prediction.LogOdds > first.prediction.LogOdds) {
			first, top = p, g.fixed
		}
	}
	if first == nil {
		return 0
	}
	top *= u.weightOf(first)
	for i := range u.groups {
		g := &u.groups[i]
		if g.good != good || g.count[u.ready.which] == 0 {
			continue
		}
		p := &u.hintSets[g.hintSet]
		// Far enough below the top that even a tie by rounding is excluded.
		if float64(g.fixed*u.mostWeight(p, first)) < top-float64(top*even) {
			g.eu = math.NaN()
			continue
		}
		g.eu = g.fixed * u.weightOf(p)
		top = max(top, g.eu)
	}
	return top
}

// findBest sets best to the oldest candidate of the greatest expected utility, when all are bad.
// The greatest utility of the ready candidates is eu. best holds the best of extra already.
func (u *Order) findBest(eu float64) {
	// Job ids start at 1, so no candidate has the age 0.
	if u.best.age > 0 && u.best.eu > eu {
		return
	}
	at := u.oldest(func(g *group) bool { return g.eu == eu })
	if at < 0 {
		return
	}
	if c := &u.ready.list[at]; u.best.age == 0 || eu > u.best.eu || c.age < u.best.age {
		u.best = pick{eu, c.age, int32(at)}
	}
}

// oldest returns the index in ready of the oldest candidate of some groups, or -1.
func (u *Order) oldest(in func(*group) bool) int {
	var first *group
	for i := range u.groups {
		g := &u.groups[i]
		if g.count[u.ready.which] == 0 || !in(g) {
			continue
		}
		// One walk finds the oldest of all groups.
		if g.oldest == 0 {
			u.findOldest()
		}
		if first == nil || g.oldest < first.oldest {
			first = g
		}
	}
	if first == nil {
		return -1
	}
	// An age is the job's id times the number of kinds, plus the kind.
	return int(u.ready.at[first.seat][first.oldest%job.Kinds]) - 1
}

// findOldest sets group.oldest of all groups.
func (u *Order) findOldest() {
	for i := range u.groups {
		u.groups[i].oldest = 0
	}
	for i := range u.ready.list {
		c := &u.ready.list[i]
		if g := &u.groups[c.group]; g.oldest == 0 || c.age < g.oldest {
			g.oldest, g.seat = c.age, c.seat
		}
	}
}

// enter counts a candidate of a set in its group.
func (u *Order) enter(set *candidates, c *candidate) {
	g := &u.groups[c.group]
	// While oldest is 0 it stays so: the candidates that are in the group may be older than this one.
	if set == &u.ready && (g.count[set.which] == 0 || c.age < g.oldest) {
		g.oldest, g.seat = c.age, c.seat
	}
	g.count[set.which]++
}

// leave removes a candidate of a set from its group.
func (u *Order) leave(set *candidates, c *candidate) {
	g := &u.groups[c.group]
	// The next oldest is searched when something asks. Most groups lose several candidates before that.
	if set == &u.ready && c.age == g.oldest {
		g.oldest = 0
	}
	g.count[set.which]--
}

// fillBad fills bad with all ready candidates after a verdict of allBad.
func (u *Order) fillBad() {
	if u.lazy {
		u.bad = u.picksOf(false, u.bad)
	}
}

// picksOf appends a pick for each ready candidate that is good, or bad.
func (u *Order) picksOf(good bool, to []pick) []pick {
	for i := range u.ready.list {
		c := &u.ready.list[i]
		if g := &u.groups[c.group]; g.good == good {
			if math.IsNaN(g.eu) {
				g.eu = g.fixed * u.weightOf(&u.hintSets[g.hintSet])
			}
			to = append(to, pick{g.eu, c.age, int32(i)})
		}
	}
	return to
}

// visitGroups visits the good candidates as visit does, after a verdict of someGood.
func (u *Order) visitGroups(r *sched.Round, live, random bool, visit func(sched.Candidate) bool) {
	first := u.firstOfGroups(random)
	if !u.yield(r, live, first, visit) {
		return
	}
	// Only now, because nearly every call ends with the first candidate. Candidates for copies stay in
	// front, as in weigh, so that both ways draw for the same positions.
	u.picks = u.picksOf(true, u.picks)
	// It has had its turn, and visitRest leaves out the pick at 0.
	at := slices.IndexFunc(u.picks, func(x pick) bool { return x.at == first.at })
	u.picks[0], u.picks[at] = u.picks[at], u.picks[0]
	u.visitRest(r, live, random, visit)
}

// firstOfGroups returns the best of picks and of the good candidates in ready, as first does when
// picks has them all.
func (u *Order) firstOfGroups(random bool) pick {
	least, ties := u.top-float64(u.top*even), 0
	for i := range u.groups {
		if g := &u.groups[i]; g.good && g.eu >= least {
			g.chosen = true
			ties += g.count[u.ready.which]
		}
	}
	for i := range u.picks {
		if u.picks[i].eu >= least {
			ties++
		}
	}
	// One draw for all ties, like in first: both ways must take the same numbers from the
	// generator, or the results would depend on which one served an offer.
	if ties > 1 && random && u.cfg.Tie == TieRandom {
		return u.nthOfGroups(u.rnd.IntN(ties), least)
	}
	best := pick{age: math.MaxInt64}
	if at := u.oldest(func(g *group) bool { return g.chosen }); at >= 0 {
		best = u.pickOf(at)
	}
	for _, x := range u.picks {
		if x.eu >= least && x.age < best.age {
			best = x
		}
	}
	return best
}

// nthOfGroups returns the pick at index nth among the picks of at least a utility and the
// candidates of chosen groups, in the order in which first finds them.
func (u *Order) nthOfGroups(nth int, least float64) pick {
	for _, x := range u.picks {
		if x.eu < least {
			continue
		}
		if nth == 0 {
			return x
		}
		nth--
	}
	for i := range u.ready.list {
		if !u.groups[u.ready.list[i].group].chosen {
			continue
		}
		if nth == 0 {
			return u.pickOf(i)
		}
		nth--
	}
	return pick{} // nth is less than the number of ties
}

// pickOf returns the pick of a ready candidate.
func (u *Order) pickOf(at int) pick {
	c := &u.ready.list[at]
	return pick{u.groups[c.group].eu, c.age, int32(at)}
}

// mostFresh bounds Order.fresh.
const mostFresh = 64

// noteSoon makes the next wait reasons of a job due.
func (u *Order) noteSoon(e *entry) {
	u.each(e, func(c *candidate) { c.due = 0 })
	u.remember(e)
}

// remember adds a job to fresh. Beyond mostFresh the wait reasons of all groups are due.
func (u *Order) remember(e *entry) {
	// Due for a whole group costs one walk in weigh, which notes them all.
	if len(u.fresh) >= mostFresh {
		u.fresh = u.fresh[:0]
		for i := range u.groups {
			u.groups[i].nextNote = 0
		}
	}
	u.fresh = append(u.fresh, int32(e.job.Seat()))
}

// noteFresh notes wait reasons for the jobs in fresh whose candidates are bad. The others
// stay in fresh.
func (u *Order) noteFresh(r *sched.Round) {
	kept := u.fresh[:0]
	for _, seat := range u.fresh {
		e, waits := &u.entries[seat], false
		// The job has ended since, and its seat is empty.
		if e.job == nil {
			continue
		}
		for k := range job.Kind(job.Kinds) {
			c := u.ready.get(int(seat), k)
			switch {
			case c == nil:
			case u.groups[c.group].good:
				waits = true
			default:
				g := &u.groups[c.group]
				u.note(r, c, true, sched.Reason{Code: sched.Overload, P: u.risk(&u.hintSets[g.hintSet])})
				// The reason is written again when it has become old, even if nothing changes for the job.
				g.nextNote = min(g.nextNote, c.due)
			}
		}
		if waits {
			kept = append(kept, seat)
		}
	}
	u.fresh = kept
}

// noted sets the nextNote of each group whose wait reasons weigh has just noted: of the bad ones,
// or of all on a gated node.
func (u *Order) noted(live, gated bool) {
	if !live || !u.whole || u.from != &u.ready {
		return
	}
	noted := func(g *group) bool {
		p := &u.hintSets[g.hintSet]
		return gated || p.call == u.call && !p.prediction.Good
	}
	for i := range u.groups {
		if g := &u.groups[i]; noted(g) {
			g.nextNote = time.Duration(math.MaxInt64)
		}
	}
	for i := range u.ready.list {
		c := &u.ready.list[i]
		if g := &u.groups[c.group]; noted(g) {
			g.nextNote = min(g.nextNote, c.due)
		}
	}
}
