package auto

import (
	"fmt"
	"math"
	"time"
)

// Estimate holds the costs of the candidates in simulations from one moment.
type Estimate struct {
	At   time.Duration
	Jobs int // present and further ones, on average
	// Costs holds, by candidate and then by future, the time that all jobs spend in the system
	// from now on, in seconds. Futures of the same number draw the same times and jobs. A
	// candidate that was given up has fewer futures than the chosen one.
	Costs [][]float64
	// Out says, by candidate, why a candidate cannot be chosen; "" if it can.
	Out []string
}

// Record keeps the decisions of a Policy and the errors of its forecasts.
type Record struct {
	Decided   int           `json:"decided"`
	Switches  int           `json:"switches"`
	Since     time.Duration `json:"since"` // of the last switch
	Decisions []Decision    `json:"decisions,omitempty"`
	// Squares are the squares of the latest errors of forecasts, each in units of the spread of
	// its own futures. Forecasts that tell the truth about themselves have a mean of 1.
	Squares []float64 `json:"squares,omitempty"`
}

// Decision is one decision.
type Decision struct {
	At        time.Duration `json:"at"`
	Installed string        `json:"installed"`
	Chosen    string        `json:"chosen"` // equal to Installed unless the policy was switched
	Why       string        `json:"why"`
	Jobs      int           `json:"jobs"`
	Futures   int           `json:"futures"`
	Rivals    []Rival       `json:"rivals,omitempty"`
	Came      *Outcome      `json:"came,omitempty"` // nil until it is known
}

// Rival is a candidate against which the installed policy was compared.
type Rival struct {
	Policy string `json:"policy"`
	// Gain is the part of the jobs' time that it saves. Its 99 % interval is from Low to High.
	Gain    float64 `json:"gain"`
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
	Futures int     `json:"futures"`
	Out     string  `json:"out,omitempty"` // why it could not be chosen
}

// Outcome compares a forecast with what happened until the next decision: the time that the
// jobs of the decision's moment spent in the system, in seconds.
type Outcome struct {
	Predicted float64 `json:"predicted"` // mean of the futures under the policy that was chosen
	Instead   float64 `json:"instead"`   // the same under the policy that it replaced, or the best rival
	Spread    float64 `json:"spread"`    // standard deviation of Predicted among the futures
	Happened  float64 `json:"happened"`
}

const (
	savedDecisions = 30
	keptDecisions  = 10_000
	keptErrors     = 20
	// priorErrors is the number of errors as which the assumption counts that forecasts tell
	// the truth about themselves.
	priorErrors = 4
	// leastSpread is the least spread of a forecast, as a part of the forecast: no future draws
	// everything that may happen.
	leastSpread = 0.02
	mostError   = 10 // in units of the spread
)

// Doubt is the factor by which errors of past forecasts widen all intervals, at least 1.
func (r *Record) Doubt() float64 {
	// Four errors of exactly one spread: with none observed the factor is 1, and the first bad forecast
	// cannot widen intervals tenfold.
	sum := float64(priorErrors)
	for _, x := range r.Squares {
		sum += x
	}
	return max(1, math.Sqrt(sum/float64(priorErrors+len(r.Squares))))
}

// Observe notes the outcome of the latest decision, and the error of its forecast.
func (p *Policy) Observe(o Outcome) {
	r := p.record
	if n := len(r.Decisions); n > 0 {
		r.Decisions[n-1].Came = &o
	}
	// Futures that agree to the second would make every small error a large number of spreads.
	spread := max(o.Spread, leastSpread*o.Predicted)
	if spread <= 0 {
		return
	}
	// Bounded, or one absurd forecast would rule out switches for the next twenty decisions.
	z := max(-mostError, min(mostError, (o.Happened-o.Predicted)/spread))
	r.Squares = append(r.Squares, float64(z*z))
	r.Squares = r.Squares[max(0, len(r.Squares)-keptErrors):]
}

// student holds the 99.5th percentile of Student's distribution by degrees of freedom. Two-sided
// intervals of 99 % keep the chance below 5 % that one of four rivals wins by luck.
var student = [mostFutures]float64{0, 63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012, 2.977, 2.947,
	2.921, 2.898, 2.878, 2.861, 2.845, 2.831, 2.819, 2.807, 2.797, 2.787, 2.779, 2.771, 2.763, 2.756, 2.750, 2.744}

// gain compares a candidate with the chosen one over the futures that both have. The interval of
// the ratio of means (Cochran, Sampling Techniques, 6.4) is widened by Doubt.
func (p *Policy) gain(e *Estimate, candidate, installed int) (g Rival) {
	a, b := e.Costs[candidate], e.Costs[installed]
	// Only futures of both are compared, so that they meet the same jobs and faults.
	n := min(len(a), len(b))
	g = Rival{Policy: p.cfg.Candidates[candidate], Futures: n, Low: math.Inf(-1), High: math.Inf(1), Out: e.Out[candidate]}
	sumA, sumB := 0., 0.
	for i := range n {
		sumA, sumB = sumA+a[i], sumB+b[i]
	}
	if n < 2 || sumB <= 0 {
		g.Low, g.High = -1, 1 // JSON has no infinity
		return g
	}
	ratio, square := sumA/sumB, 0.
	for i := range n {
		// The conversions keep the compiler from fusing operations; see package portable.
		// The futures are paired, so the error of the ratio follows from the residuals. Independent means
		// would have several times the spread.
		residual := a[i] - float64(ratio*b[i])
		square += float64(residual * residual)
	}
	half := student[n-1] * p.record.Doubt() * math.Sqrt(square/float64(n*(n-1))) / (sumB / float64(n))
	g.Gain, g.Low, g.High = 1-ratio, 1-ratio-half, 1-ratio+half
	return g
}

// Losing reports whether further futures of a candidate can be left out: it cannot be chosen, or
// after some futures its gain is below the margin beyond doubt.
func (p *Policy) Losing(e *Estimate, candidate int) bool {
	installed := p.index()
	if candidate == installed {
		return false
	}
	g := p.gain(e, candidate, installed)
	// The whole interval is at or below the margin, so no further future makes the candidate win. Equal
	// bounds are futures without any spread, as of a state without running tasks.
	return g.Out != "" || g.Futures >= LeastFutures && (g.High <= p.cfg.Margin || g.High == g.Low && g.Gain <= p.cfg.Margin)
}

// index returns the index of the chosen candidate.
func (p *Policy) index() int {
	for i, spec := range p.cfg.Candidates {
		if spec == p.spec {
			return i
		}
	}
	return 0
}

// Decide chooses a candidate by an estimate and records the decision. It returns nil if the
// present one stays, else the Policy to install in place of the receiver. A switch needs
//
//	a whole interval of the gain above the margin
//	the least time since the last switch
//
// unless the present candidate is out: then the best of the others takes over at once.
func (p *Policy) Decide(e *Estimate) (*Policy, error) {
	installed, best := p.index(), -1
	d := Decision{At: e.At, Installed: p.spec, Chosen: p.spec, Jobs: e.Jobs, Futures: len(e.Costs[installed])}
	var won Rival
	for i := range p.cfg.Candidates {
		if i == installed {
			continue
		}
		g := p.gain(e, i, installed)
		d.Rivals = append(d.Rivals, g)
		better := g.Futures >= LeastFutures && g.Low > p.cfg.Margin || e.Out[installed] != ""
		// Equal gains leave the candidate that is named first.
		if g.Out == "" && better && (best < 0 || g.Gain > won.Gain) {
			best, won = i, g
		}
	}
	early := p.record.Switches > 0 && e.At-p.record.Since < p.cfg.Least
	next := (*Policy)(nil)
	switch {
	case best < 0 && e.Out[installed] != "":
		d.Why = "no candidate can end the present jobs: " + e.Out[installed]
	case best < 0:
		d.Why = fmt.Sprintf("no other candidate saves more than %s of the jobs' time beyond doubt", percent(p.cfg.Margin))
	// Without the least time, gains that come from the jobs of the moment would switch back and forth. An
	// installed candidate that cannot end the jobs must not wait.
	case early && e.Out[installed] == "":
		d.Why = fmt.Sprintf("%s would save %s, but the last switch is less than %v ago", won.Policy, won.words(), p.cfg.Least)
	default:
		var err error
		if next, err = p.with(won.Policy); err != nil {
			return nil, err
		}
		d.Chosen = won.Policy
		d.Why = fmt.Sprintf("it saves %s of the jobs' time, by %d futures", won.words(), won.Futures)
		if e.Out[installed] != "" {
			d.Why = p.spec + " cannot go on: " + e.Out[installed]
		}
		p.record.Switches++
		p.record.Since = e.At
	}
	p.record.Decided++
	p.record.Decisions = append(p.record.Decisions, d)
	// At twice the number, so that the list is not copied at each decision. Without the copy the array would grow for ever.
	if len(p.record.Decisions) >= 2*keptDecisions {
		p.record.Decisions = append([]Decision(nil), p.record.Decisions[keptDecisions:]...)
	}
	return next, nil
}

// words describes a gain with its interval.
func (g *Rival) words() string {
	return fmt.Sprintf("%s (%s to %s)", percent(g.Gain), percent(g.Low), percent(g.High))
}

func percent(x float64) string { return fmt.Sprintf("%.0f %%", float64(100*x)) }

// lastSwitch returns the latest decision that is remembered and switched; nil if there is none.
func (r *Record) lastSwitch() *Decision {
	for i := len(r.Decisions) - 1; i >= 0; i-- {
		if d := &r.Decisions[i]; d.Chosen != d.Installed {
			return d
		}
	}
	return nil
}
