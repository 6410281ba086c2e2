package auto

import (
	"iter"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// columns are the values that tables show of a decision.
var columns = []sched.Measure{
	{Name: "at", Unit: "s", Help: "time of the decision since the start of the run"},
	{Name: "installed", Help: "candidate that decided before"},
	{Name: "chosen", Help: "candidate that decides from then on"},
	{Name: "rival", Help: "chosen candidate, or, if the installed one stayed, the one with the largest gain by the forecasts"},
	{Name: "gain", Unit: "%", Help: "part of the jobs' time that the rival would save"},
	{Name: "low", Unit: "%", Help: "lower end of the 99 % interval of the gain"},
	{Name: "high", Unit: "%", Help: "upper end of the interval"},
	{Name: "futures", Help: "futures in which the installed candidate was simulated"},
	{Name: "predicted", Unit: "s", Help: "time that the jobs would spend in the system until the next decision, under the chosen candidate"},
	{Name: "instead", Unit: "s", Help: "the same under the installed one, or the rival if the installed one stayed"},
	{Name: "happened", Unit: "s", Help: "the time that they did spend"},
	{Name: "why", Help: "reason of the decision"},
}

// row returns the columns of a decision.
func (d *Decision) row() []sched.Datum {
	best := Rival{Policy: "none"}
	for i, g := range d.Rivals {
		// A candidate with a larger gain may have been passed over because its interval is wide. The
		// numbers beside a switch must be the ones that it rests on.
		switched := d.Chosen != d.Installed && best.Policy == d.Chosen
		if i == 0 || d.Chosen == g.Policy || !switched && g.Out == "" && (best.Out != "" || g.Gain > best.Gain) {
			best = g
		}
	}
	row := []sched.Datum{sched.Number(d.At.Seconds()), sched.Text(d.Installed), sched.Text(d.Chosen), sched.Text(best.Policy),
		sched.Number(float64(100 * best.Gain)), sched.Number(float64(100 * best.Low)), sched.Number(float64(100 * best.High)), sched.Number(d.Futures)}
	if d.Came == nil {
		row = append(row, sched.Text("unknown"), sched.Text("unknown"), sched.Text("unknown"))
	} else {
		row = append(row, sched.Number(d.Came.Predicted), sched.Number(d.Came.Instead), sched.Number(d.Came.Happened))
	}
	return append(row, sched.Text(d.Why))
}

// shownDecisions is the number of decisions that Inspect returns, the latest first.
const shownDecisions = 20

// Inspect implements sched.Inspectable.
func (p *Policy) Inspect(now time.Duration) (in sched.Insight) {
	r := p.record
	in.Summary = p.Explain(nil, job.Map, now) // the same for all jobs
	in.Say(sched.Measure{Name: "chosen", Help: "candidate that decides"}, p.spec)
	in.Show(sched.Measure{Name: "switches", Help: "switches to another candidate", Chart: "choices"}, float64(r.Switches))
	in.Show(sched.Measure{Name: "decisions", Help: "decisions, with those to stay", Chart: "choices"}, float64(r.Decided))
	in.Show(sched.Measure{Name: "doubt", Help: "factor by which errors of past forecasts widen the intervals of gains", Chart: "doubt"}, r.Doubt())
	if r.Switches > 0 {
		in.Show(sched.Measure{Name: "chosen-for", Unit: "s", Help: "time since the last switch"}, (now - r.Since).Seconds())
	}
	t := sched.InsightTable{Name: "choices", Help: "the latest decisions, the newest first", Columns: columns}
	for i := len(r.Decisions) - 1; i >= max(0, len(r.Decisions)-shownDecisions); i-- {
		t.Add(r.Decisions[i].row()...)
	}
	in.Tables = append(in.Tables, t)
	return in
}

// Log implements sched.Logger.
func (p *Policy) Log() sched.Log {
	return sched.Log{Name: "choices", Columns: columns, Rows: iter.Seq[[]sched.Datum](func(yield func([]sched.Datum) bool) {
		for i := range p.record.Decisions {
			if !yield(p.record.Decisions[i].row()) {
				return
			}
		}
	})}
}
