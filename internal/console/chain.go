package console

import (
	"cmp"
	"fmt"
	"time"

	"github.com/slotwise/slotwise/internal/base/svg"
	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/console/source"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// Bounds of the graph of a chain.
const (
	mostSteps  = 40
	stepHeight = 26 // pixels
)

// chainSection draws the steps of a chain and lists them.
func chainSection(steps []*slotwisev1.JobStatus, now time.Time) *section {
	t := jobTable("steps", "Steps of the chain", steps, filterLink{"/ui/jobs"}, now)
	t.Empty = "No step was submitted yet."
	sec := &section{ID: "steps", Title: "Steps", Table: t}
	if len(steps) > 0 {
		sec.Chart = chainChart(steps[max(0, len(steps)-mostSteps):], now)
	}
	if len(steps) > mostSteps {
		sec.Notes = []string{fmt.Sprintf("The graph shows the last %d of %d steps.", mostSteps, len(steps))}
	}
	return sec
}

// chainChart draws each step as a bar over time that leads to the step's page. A line leads from
// the step that ended last before another was submitted: a driver submits a step when the data of
// that one is there.
func chainChart(steps []*slotwisev1.JobStatus, now time.Time) *chart {
	c := &chart{ID: "chain", Title: "Steps over time", H: plotTop + stepHeight*len(steps) + plotBelow, Legend: []legend{{"map", "step"}, {"map running", "running (striped edge)"}, {"bad", "failed"}, {"gone", "killed"}, {"limit", "waits for"}}}
	end := func(st *slotwisev1.JobStatus) int64 { return cmp.Or(st.EndedMs, now.UnixMilli()) }
	from, to := steps[0].SubmittedMs, int64(0)
	for _, st := range steps {
		from, to = min(from, st.SubmittedMs), max(to, end(st))
	}
	x := xScale(from, max(to, from+1))
	middle := func(i int) float64 { return plotTop + stepHeight*(float64(i)+0.5) }
	for i, st := range steps {
		before := -1
		for k, other := range steps {
			// A step's status does not name the steps whose data it reads, so times must do: a driver
			// submits a step just after the end of the one that it waited for.
			if other.EndedMs > 0 && k != i && other.EndedMs <= st.SubmittedMs && (before < 0 || other.EndedMs > steps[before].EndedMs) {
				before = k
			}
		}
		left, right := x.At(float64(st.SubmittedMs)), x.At(float64(end(st)))
		free := left // up to where nothing is drawn in this lane
		if before >= 0 {
			free = x.At(float64(steps[before].EndedMs))
			flow := &svg.Path{}
			// Down first and then across, in the gap between both bars: a straight line would cross the bars
			// between them.
			flow.Move(free, middle(before))
			flow.Up(middle(i))
			flow.Across(left)
			c.Paths = append(c.Paths, path{"limit", flow})
		}
		class := "map"
		switch st.State {
		case slotwisev1.JobState_JOB_STATE_FAILED:
			class = "bad"
		case slotwisev1.JobState_JOB_STATE_KILLED:
			class = "gone"
		case slotwisev1.JobState_JOB_STATE_SUCCEEDED:
		default:
			class = "map running"
		}
		name, took := cmp.Or(st.Step, jobName(st)), shortDuration(source.Age(st, now).Milliseconds())
		c.Shapes = append(c.Shapes, shape{X: left, Y: middle(i) - stepHeight/2 + 1, W: max(4, right-left), H: stepHeight - 2, Class: class, Href: jobPath(st.Id),
			Title: fmt.Sprintf("%s, %s: %s, %s", st.Id, name, source.StateName(st.State), took)})
		c.YTicks = append(c.YTicks, svg.Tick{At: middle(i), Label: cut(st.Id, 9)})
		// The text of a late step stands before its bar, where there is room.
		l := label{X: max(left+4, right) + 6, Y: middle(i) + svg.Baseline, Text: cut(name, 40) + ", " + took}
		if l.X > plotBreadth/2 {
			l.X, l.End = free-6, true
		}
		c.Labels = append(c.Labels, l)
	}
	c.Desc = terminal.Plural(len(steps), "step") + "."
	c.XTicks = timeTicks(from, max(to, from+1), now.Location())
	return c
}
