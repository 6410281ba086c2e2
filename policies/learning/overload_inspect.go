package learning

import (
	"time"

	"github.com/slotwise/slotwise/sched"
)

var (
	_ sched.Inspectable = (*Overload)(nil)
	_ sched.Logger      = (*Overload)(nil)
)

// Inspect implements sched.Inspectable: it shows what the learner has learned and how
// certain it is of its latest predictions.
func (s *Overload) Inspect(time.Duration) (i sched.Insight) {
	if s.view == nil {
		return i
	}
	a := s.learner.Accuracy()
	i.Show(sched.Measure{Name: "labelled decisions", Help: "Decisions of which the learner knows how they turned out."}, float64(a.Labelled()))
	const chart = "confidence and accuracy"
	confidence, accurate, recent := s.learner.Confidence()
	// The shares are 0/0 before the first labelled decision.
	if recent > 0 {
		i.Show(sched.Measure{Name: "confidence", Unit: "share", Help: "How certain the learner was of its latest decisions: the mean probability that it gave to what it decided.", Chart: chart}, confidence)
		i.Show(sched.Measure{Name: "recent accuracy", Unit: "share", Help: "The share of the latest decisions that turned out right.", Chart: chart}, accurate)
		i.Show(sched.Measure{Name: "accuracy", Unit: "share", Help: "The share of all decisions that turned out right.", Chart: chart}, a.Share())
	}
	const outcomes = "decisions by outcome"
	i.Show(sched.Measure{Name: "launched, no overload", Chart: outcomes}, float64(a.Successful))
	i.Show(sched.Measure{Name: "launched, overload followed", Chart: outcomes}, float64(a.Incorrect))
	i.Show(sched.Measure{Name: "withheld, no overload followed", Chart: outcomes}, float64(a.FalseNegative))
	i.Show(sched.Measure{Name: "withheld, overload", Chart: outcomes}, float64(a.Refused))
	t := sched.InsightTable{Name: "nodes", Help: "What the learner knows of each node.", Columns: []sched.Measure{
		{Name: "node"}, {Name: "tasks", Chart: "tasks by node"}, {Name: "state", Help: "Whether the last report was an overload."}, {Name: "load", Unit: "per core", Help: "The load average by processor in the last report."},
		{Name: "unlabelled", Help: "Decisions that wait for reports of the node."}, {Name: "withheld", Help: "Successive withheld decisions that no overload followed."}}}
	for _, n := range s.view.Nodes().All() {
		if !n.Alive() {
			continue
		}
		x := s.learner.Inspect(n.Index())
		state := "no report"
		switch {
		case x.Over:
			state = "overloaded"
		case x.Known:
			state = "not overloaded"
		}
		t.Add(sched.Text(n.Name()), sched.Number(len(n.Attempts())), sched.Text(state), sched.Number(x.Load), sched.Number(x.Waiting), sched.Number(x.Refusals))
	}
	i.Tables = append(i.Tables, t)
	return i
}

// Log implements sched.Logger: the labelled decisions of the learner. A decision that still waits for
// its label is not in it.
func (s *Overload) Log() sched.Log {
	columns := []sched.Measure{
		{Name: "decision"}, {Name: "at_s", Unit: "s", Help: "When it was taken."}, {Name: "node"}, {Name: "job"}, {Name: "kind", Help: "map or reduce."},
		{Name: "decided", Help: "launched, or withheld: all candidates were called bad, and this was the best of them."},
		{Name: "followed", Help: "Whether the node was overloaded afterwards: overload or none."},
		{Name: "probability", Help: "P(good|F), as predicted."}, {Name: "utility", Help: "U(J)."}}
	for f := range Features {
		columns = append(columns, sched.Measure{Name: f.String(), Help: "The feature when the decision was taken."})
	}
	for _, name := range []string{"load", "cpu", "memory", "disk", "network"} {
		columns = append(columns, sched.Measure{Name: "after_" + name, Help: "The greatest in the reports by which the decision was judged."})
	}
	var names map[int32]string
	if s.view != nil {
		names = map[int32]string{}
		for _, n := range s.view.Nodes().All() {
			names[n.Index()] = n.Name()
		}
	}
	log, row := s.learner.Log(), make([]sched.Datum, len(columns))
	return sched.Log{Name: "decisions", Columns: columns, Rows: func(yield func([]sched.Datum) bool) {
		for i := range log.Len() {
			r := log.At(i)
			decided, followed := "withheld", "overload"
			if r.Assigned {
				decided = "launched"
			}
			if r.Good {
				followed = "none"
			}
			// One slice for all rows: a log has up to log-size rows.
			cells := append(row[:0], sched.Number(r.Seq), sched.Number(r.At.Seconds()), sched.Text(names[r.Node]), sched.Text(r.Job.String()), sched.Text(r.Kind.String()),
				sched.Text(decided), sched.Text(followed), sched.Number(r.P), sched.Number(r.Utility))
			for _, v := range r.Values {
				cells = append(cells, sched.Number(v))
			}
			for _, v := range []float64{r.Seen.Load, r.Seen.CPU, r.Seen.Memory, r.Seen.Disk, r.Seen.Network} {
				cells = append(cells, sched.Number(v))
			}
			if !yield(cells) {
				return
			}
		}
	}}
}
