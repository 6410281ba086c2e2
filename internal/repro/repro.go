// Package repro re-makes the experiments of the five papers whose schedulers are
// built in: each table and figure becomes an experiment, a function over
// internal/sim whose tables have the paper's numbers beside ours, with a verdict
// on each of the paper's claims.
//
// Nothing here schedules anything: the policies and the tracker are the ones that
// run for real. An experiment states its set-up as the paper gives it and, apart
// from that, what had to be assumed. There are no numbers whose only purpose is
// to meet a table: what is calibrated says from which measurement.
//
//	repro.go    Experiment, Report and their helpers
//	papers.go   the registry
//	judge.go    the rules by which claims are judged
//	figure.go   what is drawn
//	render.go   reports as text and as markdown
//	NAME.go     the experiments of a paper, more of them in NAME_….go
package repro

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/slotwise/slotwise/internal/sched/policies"
	"github.com/slotwise/slotwise/internal/sim"
	"github.com/slotwise/slotwise/sched"
)

// Options are the settings of an experiment.
type Options struct {
	// Quick asks for fewer seeds and smaller inputs: a few seconds a paper.
	Quick bool
	// Seed is where all draws come from. The same one gives the same report.
	Seed uint64
}

// pick returns what fits the length of the run.
func pick[T any](o Options, quick, full T) T {
	if o.Quick {
		return quick
	}
	return full
}

// Experiment is a table or a figure of a paper, or several that share their runs.
type Experiment struct {
	// ID is the paper's short name, a slash and what it is: tumm/fig7.
	ID string
	// Paper is the short name, Title what a reader would call the experiment.
	Paper, Title string
	// Setup is what the paper says of its set-up, a statement each; Assumptions
	// are what it does not say, with the reason for our choice. Calibrated
	// numbers name their source in either.
	Setup, Assumptions []string
	// Run makes the experiment. It stops with ctx's error between two batches
	// of runs.
	Run func(ctx context.Context, o Options) (*Report, error)
}

// Report is what an experiment found.
type Report struct {
	Tables []Table
	// Figures are drawn by whoever prints the report.
	Figures []Figure
	Claims  []Claim
}

// Table has ours and the paper's numbers side by side. Numbers are ready to be
// read: rounded, with a unit in the column's name.
type Table struct {
	Title   string
	Columns []string
	Rows    [][]string
}

// Missing stands in a table where the paper's number is in a figure that could
// not be read, or is nowhere.
const Missing = "-"

// Claim is a statement of a paper and what became of it here.
type Claim struct {
	Text string
	// Verdict follows from one of Rules, which Rule names with its numbers;
	// Evidence is ours.
	Verdict        Verdict
	Rule, Evidence string
	// Why is the explanation of a claim that does not hold; nil of others.
	Why *Why
}

// add appends a row to a table.
func (t *Table) add(cells ...string) { t.Rows = append(t.Rows, cells) }

// claim adds a verdict to a report.
func (r *Report) claim(j judgement, text, evidence string, args ...any) {
	r.Claims = append(r.Claims, Claim{Text: text, Verdict: j.verdict, Rule: j.rule, Evidence: fmt.Sprintf(evidence, args...)})
}

// table adds a table to a report. The pointer is valid until the next one is
// added.
func (r *Report) table(title string, columns ...string) *Table {
	r.Tables = append(r.Tables, Table{Title: title, Columns: columns})
	return &r.Tables[len(r.Tables)-1]
}

// policy builds a fresh policy by its name or composition, with settings in
// pairs of name and value. Experiments spell policies out, so one that cannot be
// built is a mistake here.
func policy(spec string, seed uint64, settings ...string) sched.Policy {
	set := make(map[string]string, len(settings)/2)
	for i := 0; i+1 < len(settings); i += 2 {
		set[settings[i]] = settings[i+1]
	}
	p, err := policies.Build(spec, sched.Options{Seed: seed, Set: set})
	if err != nil {
		panic(fmt.Sprintf("repro: policy %s: %v", spec, err))
	}
	return p
}

// runAll makes independent runs on all processors and refuses results that could
// not be trusted: a refused assignment is a bug of a policy, and a job that did
// not succeed is not in a makespan.
func runAll(ctx context.Context, configs []sim.Config) ([]*sim.Result, error) {
	configs = slices.Clone(configs)
	for i := range configs {
		configs[i].Stop = func() error { return context.Cause(ctx) }
	}
	results, err := sim.RunAll(configs)
	if err != nil {
		return nil, err
	}
	for i, r := range results {
		switch {
		case r.Tracker.Refused > 0:
			return nil, fmt.Errorf("run %d: refused assignment: %s", i, r.Tracker.LastRefusal)
		case r.Failed+r.Killed > 0:
			return nil, fmt.Errorf("run %d: %d jobs failed, %d killed", i, r.Failed, r.Killed)
		}
	}
	return results, nil
}

// seconds writes a time in seconds, to a tenth.
func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) }

// percent writes a fraction in percent, with a sign: +12.3 %.
func percent(x float64) string { return fmt.Sprintf("%+.1f %%", 100*x) }

// share writes a fraction in percent without a sign.
func share(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }

// number writes a number with so many digits after the point.
func number(x float64, digits int) string { return strconv.FormatFloat(x, 'f', digits, 64) }

// gain is how much shorter a time has become, as a part of what it was: 0.2 is
// 20 % less.
func gain(before, after time.Duration) float64 { return 1 - after.Seconds()/before.Seconds() }

// speedup is how much more gets done in a time: T_base/T_new − 1.
func speedup(before, after time.Duration) float64 { return before.Seconds()/after.Seconds() - 1 }

// mean is the arithmetic mean, 0 of nothing.
func mean(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs))
}
