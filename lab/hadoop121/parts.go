package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/lab/harness"
	"github.com/slotwise/slotwise/sched/job"
)

// moments are the points of a job's course in seconds after its submission, in the order of
// momentNames. A job without reduces has -1 for theirs.
type moments [momentCount]float64

const (
	firstMap = iota
	lastMapStart
	lastMapEnd
	firstReduce
	lastReduceStart
	lastTaskEnd
	jobEnd
	momentCount
)

var momentNames = [momentCount]string{"first map starts", "last map starts", "last map ends", "first reduce starts", "last reduce starts",
	"last task ends", "job ends"}

// newMoments returns the moments of a job of which nothing is known.
func newMoments() moments {
	var m moments
	for i := range m {
		m[i] = -1
	}
	return m
}

// started and ended add an attempt of a task that succeeded. The tracker assigned it and
// learned of its end at these times.
func (m *moments) started(kind job.Kind, at float64) {
	first, last := firstMap, lastMapStart
	if kind == job.Reduce {
		first, last = firstReduce, lastReduceStart
	}
	if m[first] < 0 || at < m[first] {
		m[first] = at
	}
	m[last] = max(m[last], at)
}

func (m *moments) ended(kind job.Kind, at float64) {
	if kind == job.Map {
		m[lastMapEnd] = max(m[lastMapEnd], at)
	}
	m[lastTaskEnd] = max(m[lastTaskEnd], at)
}

// watcher collects the moments of the jobs of a replay.
type watcher struct {
	jobs      []moments
	submitted []float64
}

func newWatcher(jobs int) *watcher {
	w := &watcher{submitted: make([]float64, jobs)}
	for range jobs {
		w.jobs = append(w.jobs, newMoments())
	}
	return w
}

// Observe implements sim.Observer.
func (w *watcher) Observe(e *sim.Event) {
	if e.Job < 0 {
		return
	}
	m, at := &w.jobs[e.Job], e.At.Seconds()-w.submitted[e.Job]
	switch {
	case e.Kind == sim.JobSubmitted:
		w.submitted[e.Job] = e.At.Seconds()
	case e.Kind == sim.JobEnded:
		m[jobEnd] = at
	case e.Kind == sim.AttemptEnded && e.Outcome == job.AttemptSucceeded:
		m.started(e.Attempt.Kind, e.Started.Seconds()-w.submitted[e.Job])
		m.ended(e.Attempt.Kind, at)
	}
}

// recordedMoments returns the moments of a recorded job.
func recordedMoments(result *resultFile, id string, submit, finish int64) moments {
	m := newMoments()
	m[jobEnd] = float64(finish-submit) / 1e3
	for _, a := range result.Attempts {
		kind, known := map[string]job.Kind{"MAP": job.Map, "REDUCE": job.Reduce}[a.Kind]
		if !known || a.Job != id || a.State != "SUCCESS" {
			continue
		}
		m.started(kind, float64(a.Assign-submit)/1e3)
		m.ended(kind, float64(a.Learned-submit)/1e3)
	}
	return m
}

// below returns the share of values that are below x; half of the equal ones count.
func below(values []float64, x float64) float64 {
	n := 0.
	for _, v := range values {
		switch {
		case v < x:
			n++
		case v == x:
			n += 0.5
		}
	}
	return n / float64(len(values))
}

// printParts prints where in a job's course the replays differ from the record.
func (c *comparison) printParts(w io.Writer) {
	fmt.Fprintf(w, "%s: seconds after the submission, recorded / median of the replays [5 %%, 95 %%] (share of the replays below the recorded time)\n\n", c.name)
	t := harness.NewTable(w, append([]string{"job"}, momentNames[:]...)...)
	for i, j := range c.jobs {
		row := []string{j.id}
		for k := range momentNames {
			var list []float64
			for _, m := range c.moments[i] {
				list = append(list, m[k])
			}
			if j.moments[k] < 0 {
				row = append(row, "")
				continue
			}
			slices.Sort(list)
			row = append(row, fmt.Sprintf("%.1f / %.1f [%.1f, %.1f] (%.0f %%)", j.moments[k], harness.Median(list),
				harness.Quantile(list, 0.05), harness.Quantile(list, 0.95), 100*below(list, j.moments[k])))
		}
		t.Row(row...)
	}
	fmt.Fprintln(w)
}
