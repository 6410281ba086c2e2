package slots

import (
	"time"

	"github.com/slotwise/slotwise/sched"
)

var _ sched.Inspectable = (*Overload)(nil)

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
