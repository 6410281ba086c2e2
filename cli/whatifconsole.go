package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slotwise/slotwise/internal/console/source"
	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// consoleSimulator answers the console's questions of whatif --submit and whatif --since. It runs in the
// master's process, for every user who may see the pages, so it opens no file that a question names.
type consoleSimulator struct {
	setup  *setup
	source source.Source
	actor  source.Actor
}

var _ source.Simulator = consoleSimulator{}

// Bounds of a mix in a question. The mix is drawn before the master can refuse its jobs, and takes
// about a hundred bytes for each task.
const (
	mostMixJobs  = 1000
	mostMixTasks = 200_000
)

// Plan implements source.Simulator.
func (c consoleSimulator) Plan(ctx context.Context, text string) ([]*slotwisev1.WhatIfJob, error) {
	m, err := workload.ReadMix("jobs", strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	// Counted before the jobs are drawn, which would take the memory that the bounds protect.
	n := m.Count
	for i := range m.Classes {
		n += m.Classes[i].Count
		if c := &m.Classes[i]; c.NeedsTasks() || c.NeedsReduces() || c.NeedsCosts() {
			return nil, fmt.Errorf("%s: state maps and map-time, and reduce-time for reduces: the console does not read the inputs of a program", c.Describe())
		}
	}
	if n > mostMixJobs {
		return nil, fmt.Errorf("%d jobs, and a question may have %d", n, mostMixJobs)
	}
	m.Most = mostMixTasks
	// One seed for all questions, so that a page that is loaded again shows the same answer.
	jobs, err := m.Jobs(1)
	if err != nil {
		return nil, err
	}
	list := make([]*slotwisev1.WhatIfJob, len(jobs))
	for i := range jobs {
		list[i] = whatIfJob(&jobs[i])
	}
	return list, nil
}

// consoleBudget bounds the search of a question. The master has other work, and several users may
// ask.
const consoleBudget = 200

// Past implements source.Simulator.
func (c consoleSimulator) Past(ctx context.Context, q *source.PastQuestion, report func(string)) (*source.PastAnswer, error) {
	if q.Budget > consoleBudget {
		return nil, fmt.Errorf("budget %d: the console searches with up to %d simulations; slotwise whatif --since searches longer, on another machine", q.Budget, consoleBudget)
	}
	// On all processors the simulations would delay each heartbeat for minutes.
	q.Workers = 1
	out := &source.PastAnswer{}
	show := newSimProgress(&lineWriter{line: func(line string) {
		if text, found := strings.CutPrefix(line, "warning: "); found {
			out.Notes = append(out.Notes, text)
		} else {
			report(line)
		}
	}}, false)
	all, _, err := c.setup.simulatePast(ctx, q, 1, c, show)
	show.close() // its goroutine writes lines, and out.Notes is read below
	if err != nil {
		// The fields of the form have the names of the flags.
		return nil, errors.New(strings.TrimPrefix(err.Error(), "--"))
	}
	out.Installed, out.Verdict = all.installed, all.verdict
	for _, p := range all.Policies {
		for _, m := range p.Measures {
			if !slices.Contains(collect.Headline, m.Name) {
				continue
			}
			row := source.PastRow{Policy: p.Policy, Measure: m.Name, Value: m.Mean}
			if i := slices.IndexFunc(all.Pairs, func(x collect.Pair) bool { return x.Policy == p.Policy && x.Measure == m.Name }); i >= 0 {
				compareRow(&row, &all.Pairs[i])
			}
			out.Rows = append(out.Rows, row)
		}
	}
	if t := all.Search; t != nil {
		out.Notes = append(out.Notes, fmt.Sprintf("Compositions of parts were searched with %d simulations. The best is compared on the last third of the jobs, which had no part in the search: %v.",
			t.Runs, &t.Best))
		for i := range t.HeldOut {
			row := source.PastRow{Policy: "best of the search", Measure: t.HeldOut[i].Measure}
			compareRow(&row, &t.HeldOut[i])
			out.Rows = append(out.Rows, row)
		}
	}
	if best := all.Recommended; best != nil {
		out.Policy, out.Set = best.Policy, best.Set
	}
	return out, nil
}

// compareRow fills in the difference from the installed policy.
func compareRow(row *source.PastRow, p *collect.Pair) {
	row.Ratio, row.Verdict = p.Ratio.Ratio, p.Verdict
	if p.Known {
		row.Low, row.High = p.Low, p.High
	}
}

// lineWriter passes each line that is written to it to a function, one at a time.
type lineWriter struct {
	line func(string)
	mu   sync.Mutex
	rest string
}

// Write implements io.Writer.
func (w *lineWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	// A line may come in several writes.
	w.rest += string(b)
	for {
		line, rest, found := strings.Cut(w.rest, "\n")
		if !found {
			return len(b), nil
		}
		w.rest = rest
		w.line(line)
	}
}

// succeeded implements pastCluster.
func (c consoleSimulator) succeeded(ctx context.Context, since time.Time, put func(*slotwisev1.HistoryJob) error) error {
	tasks := 0
	return c.actor.Succeeded(ctx, since, mostPast, func(j *slotwisev1.HistoryJob) error {
		if tasks += len(j.Tasks); tasks > mostMixTasks {
			return fmt.Errorf("since: the jobs of that time have more than %d tasks: choose a shorter time, or slotwise whatif --since on another machine", mostMixTasks)
		}
		return put(j)
	})
}

// nodes implements pastCluster.
func (c consoleSimulator) nodes(ctx context.Context) ([]*slotwisev1.NodeStatus, error) {
	list, _, err := c.source.Nodes(ctx, "")
	return list, err
}

// policy implements pastCluster.
func (c consoleSimulator) policy(ctx context.Context) (string, map[string]string, error) {
	p, err := c.source.Policy(ctx)
	if err != nil {
		return "", nil, err
	}
	return p.Name, p.Set, nil
}
