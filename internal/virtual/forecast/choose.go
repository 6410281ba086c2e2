package forecast

import (
	"fmt"
	"math"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/policies/auto"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// Chooser makes the estimates by which policy auto decides, and compares them with what happens
// until the next decision. One Chooser serves one tracker. The simulator and the master drive
// it in the same way:
//
//	state := a copy of the tracker
//	choice, _ := chooser.Begin(policy, state, cfg)   // observes the outcome of the last decision
//	for more := true; more; { more, _ = choice.Next() }
//	next, _ := choice.End()                          // the policy to install, or nil
//
// The caller may stop after any Next. The zero value is ready.
type Chooser struct {
	open *promise
}

// promise is the forecast of the latest decision, until it is compared with what happened.
type promise struct {
	at      time.Duration
	jobs    []job.ID
	futures [2][][]time.Duration // by side, chosen and instead, then by future and job: its end
}

// Choice is one decision in the making.
type Choice struct {
	chooser *Chooser
	policy  *auto.Policy
	run     *Run
	specs   []string
	build   func(spec string) (sched.Policy, error)
	est     auto.Estimate
	ends    [][][]time.Duration // by candidate, future and job of the state
	jobs    int                 // in all futures of the installed candidate
	large   bool                // a future was cut off, so all are worth nothing
}

// chooseEvents bounds the events of one future of a choice.
const chooseEvents = 1_000_000

// Begin prepares a choice. It returns nil if there is nothing to choose: no task waits, or
// nothing is known about how long tasks take. cfg.Policy is not used; prepare, unless it is nil,
// gives a fresh policy of a candidate the configuration that the installed one has.
func (c *Chooser) Begin(p *auto.Policy, s *State, cfg Config, prepare func(spec string, p sched.Policy) error) *Choice {
	// First and always: the promise of the last decision is judged also when there is nothing to choose any
	// more.
	c.compare(p, s)
	// Every task that is left runs already; no policy can change when it ends.
	if s.Left() <= len(s.Running) {
		return nil
	}
	own := p.Config()
	cfg.Futures, cfg.MaxEvents = own.Futures, chooseEvents
	r := NewRun(cfg, s)
	for i := range s.Jobs {
		j := &s.Jobs[i]
		for k := range job.Kind(job.Kinds) {
			// A guess for one job would decide for all.
			if j.left(k) > 0 && r.model.jobs[j.ID][k].basis == fromNothing {
				return nil
			}
		}
	}
	n := len(own.Candidates)
	return &Choice{chooser: c, policy: p, run: r, specs: own.Candidates, ends: make([][][]time.Duration, n),
		est: auto.Estimate{At: s.At, Costs: make([][]float64, n), Out: make([]string, n)},
		build: func(spec string) (sched.Policy, error) {
			fresh, err := p.Build(spec)
			if err == nil && prepare != nil {
				err = prepare(spec, fresh)
			}
			return fresh, err
		}}
}

// Next simulates one more future of each candidate that may still be chosen. It returns false
// after the last one.
func (x *Choice) Next() (bool, error) {
	// All candidates simulate the future of one number: they draw the same times, and only what the policy
	// does differs.
	number := x.run.done
	installed := -1
	var ended [][]time.Duration // by candidate: the ends of all jobs in this future
	for i, spec := range x.specs {
		if spec == x.policy.Running() {
			installed = i
		}
		ended = append(ended, nil)
		// Its gain is below the margin beyond doubt, so further futures would cost time and change nothing.
		if x.policy.Losing(&x.est, i) {
			continue
		}
		x.run.cfg.Policy = func() (sched.Policy, error) { return x.build(spec) }
		w, err := x.run.newFuture(number)
		if err != nil {
			return false, err
		}
		// Up to the end of all jobs: cut off earlier, a policy that puts long jobs off would look good.
		result, err := w.simulate(w, 0)
		if err != nil {
			return false, err
		}
		// Its jobs have not ended, and a sum over the others would favour the candidate that was cut off.
		if result.Events >= chooseEvents {
			x.large = true
			return false, nil
		}
		for n := range result.Jobs {
			ended[i] = append(ended[i], result.Jobs[n].Ended)
		}
	}
	x.run.done++
	x.add(ended, installed)
	return x.run.done < x.run.cfg.Futures && x.rivals() > 0, nil
}

// rivals counts the candidates that may still be chosen besides the installed one.
func (x *Choice) rivals() (n int) {
	for i, spec := range x.specs {
		if spec != x.policy.Running() && !x.policy.Losing(&x.est, i) {
			n++
		}
	}
	return n
}

// add enters one future into the estimate. A job that ends under no candidate says nothing. One
// that ends under some puts the others out.
func (x *Choice) add(ended [][]time.Duration, installed int) {
	costs := make([]float64, len(ended))
	for n := range x.run.state.Jobs {
		some := false
		for i := range ended {
			some = some || ended[i] != nil && ended[i][n] >= 0
		}
		if !some {
			continue
		}
		x.jobs++
		for i := range ended {
			switch {
			case ended[i] == nil:
			case ended[i][n] < 0:
				x.est.Out[i] = fmt.Sprintf("a job that ends under other candidates does not end under %s", x.specs[i])
			default:
				// The time in the system from now on: what a job has waited before is the same under every
				// candidate.
				costs[i] += (ended[i][n] - x.run.state.At).Seconds()
			}
		}
	}
	for i := range ended {
		if ended[i] != nil {
			x.est.Costs[i] = append(x.est.Costs[i], costs[i])
			x.ends[i] = append(x.ends[i], ended[i])
		}
	}
	x.est.Jobs = x.jobs / max(1, len(x.est.Costs[installed]))
}

// End decides by the futures so far. It returns the policy to install, or nil.
func (x *Choice) End() (sched.Policy, error) {
	if x.large {
		return nil, nil
	}
	installed := x.policy.Running()
	next, err := x.policy.Decide(&x.est)
	if err != nil {
		return nil, err
	}
	chosen, instead := installed, ""
	if next != nil {
		chosen, instead = next.Running(), installed
	}
	// Against the rival that gained most, if the installed candidate stays.
	best := math.Inf(1)
	p := &promise{at: x.est.At, jobs: x.run.ids}
	for i, spec := range x.specs {
		mean := meanOf(x.est.Costs[i])
		switch {
		case spec == chosen:
			p.futures[0] = x.ends[i]
		case spec == instead:
			p.futures[1] = x.ends[i]
		case instead == "" && len(x.ends[i]) > 0 && mean < best:
			p.futures[1], best = x.ends[i], mean
		}
	}
	x.chooser.open = p
	if next == nil {
		return nil, nil // no typed nil
	}
	return next, nil
}

// compare reports the outcome of the latest decision, up to the moment of a state, to the policy.
func (c *Chooser) compare(p *auto.Policy, s *State) {
	o := c.open
	c.open = nil
	if o == nil || s.At <= o.at {
		return
	}
	ended := make(map[job.ID]time.Duration, len(s.Past))
	for i := range s.Past {
		ended[s.Past[i].ID] = s.Past[i].Ended
	}
	var happened float64
	var with [2][]float64
	for side := range with {
		with[side] = make([]float64, len(o.futures[side]))
	}
	for n, id := range o.jobs {
		end, known := ended[id]
		// It still runs: up to now it has taken all of the time, in truth and in the futures below.
		if s.job(id) != nil {
			end, known = s.At, true
		}
		// Other jobs failed, were killed, or ended so long ago that the tracker has forgotten
		// when.
		if !known {
			continue
		}
		happened += (min(end, s.At) - o.at).Seconds()
		for side := range with {
			for f := range with[side] {
				// Capped at now on both sides: what a future says about later cannot be judged yet.
				if end := o.futures[side][f][n]; end >= 0 && end < s.At {
					with[side][f] += (end - o.at).Seconds()
				} else {
					with[side][f] += (s.At - o.at).Seconds()
				}
			}
		}
	}
	predicted := meanOf(with[0])
	square := 0.
	for _, x := range with[0] {
		square += float64((x - predicted) * (x - predicted))
	}
	// n − 1 in Spread: the futures are a sample.
	p.Observe(auto.Outcome{Predicted: predicted, Instead: meanOf(with[1]), Happened: happened,
		Spread: math.Sqrt(square / float64(max(1, len(with[0])-1)))})
}

// Choosing makes a run of the simulator choose, if its policy is one that chooses. The run's
// seed draws the futures.
func Choosing(cfg *sim.Config) {
	if p, ok := cfg.Policy.(*auto.Policy); ok {
		cfg.Choose = &simulated{policy: p, seed: cfg.Seed, stop: cfg.Stop, known: map[job.ID]Past{}}
	}
}

// simulated is the sim.Chooser of a run under policy auto.
type simulated struct {
	Chooser
	policy *auto.Policy
	seed   uint64
	stop   func() error
	known  map[job.ID]Past
}

// Every implements sim.Chooser.
func (c *simulated) Every() time.Duration { return c.policy.Config().Every }

// Choose implements sim.Chooser.
func (c *simulated) Choose(t *tracker.Tracker, heartbeat time.Duration) (sched.Policy, error) {
	// A policy that the workload swaps in ends the choosing.
	if p, ok := t.Policy().(*auto.Policy); !ok || p != c.policy {
		return nil, nil
	}
	copier := Copier{Known: c.known}
	for !copier.Copy(t, math.MaxInt) {
	}
	// Only the installed candidate starts with learned state: the others would start from nothing, too, if
	// they were installed.
	learned, err := sched.SaveState(c.policy.Running(), t.Learned())
	if err != nil {
		return nil, err
	}
	cfg := Config{Seed: c.seed, Heartbeat: heartbeat, Stop: c.stop}
	choice := c.Begin(c.policy, copier.State(), cfg, func(spec string, p sched.Policy) error {
		if spec != c.policy.Running() {
			return nil
		}
		return sched.LoadState(learned, spec, sched.HooksOf(p).Statefuls)
	})
	if choice == nil {
		return nil, nil
	}
	for more := true; more; {
		if more, err = choice.Next(); err != nil {
			return nil, err
		}
	}
	next, err := choice.End()
	if next != nil {
		c.policy = next.(*auto.Policy)
	}
	return next, err
}
