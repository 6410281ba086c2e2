// Package auto has the policy that chooses among others by forecasts. README.md has the idea.
package auto

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// Policy has one of its candidates decide. At intervals the shell simulates all candidates from
// the present state and passes the result to Decide, which may return another Policy to install.
// The contract between both:
//
//	the shell    forks the state, draws the same futures for every candidate, and reports the
//	             time that jobs spend in the system (Estimate)
//	Losing       says which candidates need no further futures
//	Decide       chooses by the rule of rule.go, and records why
//	the shell    installs the Policy that Decide returns, and later compares the forecast with the truth (Outcome)
//
// Policy has no clock and simulates nothing, so the same estimates lead to the same choices. A
// shell that makes no forecasts leaves the first candidate in place.
type Policy struct {
	cfg    Config
	build  func(spec string) (sched.Policy, error)
	chosen sched.Policy
	// spec is the candidate that is chosen. A successor has its own, and the same record.
	spec   string
	record *Record
}

var (
	_ sched.Chooser     = (*Policy)(nil)
	_ sched.Parted      = (*Policy)(nil)
	_ sched.Quiet       = (*Policy)(nil)
	_ sched.Vain        = (*Policy)(nil)
	_ sched.Inspectable = (*Policy)(nil)
	_ sched.Explainer   = (*Policy)(nil)
	_ sched.Logger      = (*Policy)(nil)
)

// Config holds the parameters of Policy.
type Config struct {
	// Candidates are policies or compositions. The first one decides until another is chosen.
	Candidates []string
	// Every is the least time between two decisions.
	Every time.Duration
	// Least is the least time between two switches.
	Least time.Duration
	// Margin is the part of the jobs' time that a switch must save. It covers costs that forecasts
	// do not see: a new policy begins without the learned state of the old one.
	Margin float64
	// Futures is the number of futures in which each candidate is simulated.
	Futures int
}

const (
	mostCandidates = 16
	mostFutures    = 32
)

// LeastFutures is the number of futures after which a candidate may be given up or chosen.
const LeastFutures = 3

func (c *Config) bind() sched.Bindings {
	return sched.Bindings{
		sched.Bind(&c.Candidates, candidates, sched.Param{Name: "candidates", Default: "flex,flex,order=fifo,fifo,fair,yarn",
			Help: "The policies to choose among, with commas between them; parts with = belong to the policy before them. The first " +
				"one decides until a forecast shows that another is better. Each costs as many simulations as there are futures."}),
		sched.Bind(&c.Every, sched.DurationFrom(time.Second), sched.Param{Name: "choose-every", Default: "1m", Tune: []string{"20s", "1m", "5m"},
			Help: "The least time between two decisions. A master decides less often where simulations would use more than 5 % of a core."}),
		sched.Bind(&c.Least, sched.DurationFrom(0), sched.Param{Name: "least-time", Default: "5m", Tune: []string{"1m", "5m", "30m"},
			Help: "The least time between two switches. Policies that learn need some time with the jobs before they are worth judging."}),
		sched.Bind(&c.Margin, sched.Float(0, 0.5), sched.Param{Name: "margin", Default: "0.05", Tune: []string{"0", "0.02", "0.05", "0.1"},
			Help: "The part of the time that jobs have left which a switch must save: the whole 99 % interval of the gain must be above it."}),
		sched.Bind(&c.Futures, sched.Int(LeastFutures, mostFutures), sched.Param{Name: "futures", Default: "8", Tune: []string{"4", "8", "16"},
			Help: "The number of futures in which a candidate is simulated before the decision. With fewer, intervals are wide and " +
				"switches are rare."}),
	}
}

// candidates accepts a list of at least two policies.
var candidates = sched.Values[[]string]{
	Accepts: fmt.Sprintf("2 to %d different policies with commas between them", mostCandidates),
	Parse: func(text string) ([]string, error) {
		list, err := sched.SplitSpecs(text)
		if err == nil && (len(list) < 2 || len(list) > mostCandidates) {
			err = fmt.Errorf("%d policies", len(list))
		}
		return list, err
	},
	Print: func(list []string) string { return strings.Join(list, ",") },
}

// Params documents the parameters of Policy.
func Params() []sched.Param { return new(Config).bind().Params() }

// Read returns a Policy with the parameters that the user has set. It builds every candidate
// once, so that a mistake is found before the first choice.
func Read(k *sched.Kit) (sched.Policy, error) {
	p := &Policy{build: k.Build, record: &Record{}}
	if err := k.Read(p.cfg.bind()); err != nil {
		return nil, err
	}
	for i, spec := range p.cfg.Candidates {
		built, err := k.Build(spec)
		if err != nil {
			return nil, fmt.Errorf("parameter candidates: %w", err)
		}
		// The others were built for their mistakes only. A policy that is chosen later starts without
		// state, whenever it was built.
		if i == 0 {
			p.chosen, p.spec = built, spec
		}
	}
	return p, nil
}

// Config returns the parameters.
func (p *Policy) Config() Config { return p.cfg }

// Running returns the candidate that decides.
func (p *Policy) Running() string { return p.spec }

// Counts returns the number of decisions, and how many decisions switched to another candidate.
func (p *Policy) Counts() (decided, switches int) { return p.record.Decided, p.record.Switches }

// Why returns the reason of the latest decision; "" before the first.
func (p *Policy) Why() string {
	if n := len(p.record.Decisions); n > 0 {
		return p.record.Decisions[n-1].Why
	}
	return ""
}

// Build makes a fresh policy of a candidate.
func (p *Policy) Build(candidate string) (sched.Policy, error) { return p.build(candidate) }

// Begin implements sched.Policy.
func (p *Policy) Begin(r *sched.Round) { p.chosen.Begin(r) }

// Next implements sched.Policy.
func (p *Policy) Next(r *sched.Round) (sched.Assignment, bool) { return p.chosen.Next(r) }

// Parts implements sched.Parted.
func (p *Policy) Parts() []any { return []any{p.chosen} }

// Quiet implements sched.Quiet.
func (p *Policy) Quiet() bool {
	q, ok := p.chosen.(sched.Quiet)
	return ok && q.Quiet()
}

// VainRound implements sched.Vain.
func (p *Policy) VainRound(free, launchable [job.Kinds]bool) bool {
	v, ok := p.chosen.(sched.Vain)
	return ok && v.VainRound(free, launchable)
}

// Chosen implements sched.Chooser.
func (p *Policy) Chosen() sched.Policy { return p.chosen }

// with returns a Policy that has a fresh policy of a candidate decide, with the same record.
func (p *Policy) with(spec string) (*Policy, error) {
	chosen, err := p.build(spec)
	if err != nil {
		return nil, err
	}
	// The record is shared: decisions count for the whole run, whichever candidate decides.
	return &Policy{cfg: p.cfg, build: p.build, chosen: chosen, spec: spec, record: p.record}, nil
}

// choice is the document of SaveChoice.
type choice struct {
	Chosen string `json:"chosen"`
	*Record
}

// SaveChoice implements sched.Chooser. It leaves out all but the latest decisions.
func (p *Policy) SaveChoice() ([]byte, error) {
	r := *p.record
	r.Decisions = r.Decisions[max(0, len(r.Decisions)-savedDecisions):]
	return json.Marshal(choice{p.spec, &r})
}

// LoadChoice implements sched.Chooser.
func (p *Policy) LoadChoice(doc []byte) (sched.Policy, error) {
	c := choice{Record: &Record{}}
	if err := json.Unmarshal(doc, &c); err != nil {
		return nil, fmt.Errorf("choice of policy auto: %w", err)
	}
	if !slices.Contains(p.cfg.Candidates, c.Chosen) {
		return nil, fmt.Errorf("choice of policy auto: %s is no candidate", c.Chosen)
	}
	// The receiver itself if it runs the chosen candidate: a new policy would lose what the old one has
	// learned.
	next := p
	if c.Chosen != p.spec {
		var err error
		if next, err = p.with(c.Chosen); err != nil {
			return nil, fmt.Errorf("choice of policy auto: %w", err)
		}
	}
	// Only now, so that an error leaves the record alone.
	*p.record = *c.Record
	return next, nil
}

// Explain implements sched.Explainer.
func (p *Policy) Explain(_ *job.Job, _ job.Kind, now time.Duration) string {
	d := p.record.lastSwitch()
	switch {
	case d == nil && p.record.Switches > 0: // the record of the switch is no longer kept
		return fmt.Sprintf("policy auto has %s decide, chosen %v ago", p.spec, (now - p.record.Since).Round(time.Second))
	case d == nil:
		return fmt.Sprintf("policy auto has %s decide; in %d decisions no other candidate was better beyond doubt", p.spec, p.record.Decided)
	}
	return fmt.Sprintf("policy auto has %s decide, chosen %v ago in place of %s: %s", p.spec, (now - d.At).Round(time.Second), d.Installed, d.Why)
}
