package cli

import (
	"context"

	simreport "github.com/slotwise/slotwise/internal/report"
)

// plots draws all plots: slowdowns over all seeds, the courses of counts and what
// was in the slots for the first.
func (x *simFiles) plots(ctx context.Context, s *study) error {
	var slowdowns []simreport.Line
	var courses []simreport.Timeline
	for _, r := range s.runs {
		if r.err != nil {
			continue
		}
		if len(slowdowns) == 0 || slowdowns[len(slowdowns)-1].Name != r.Policy {
			slowdowns = append(slowdowns, simreport.Line{Name: r.Policy})
		}
		last := &slowdowns[len(slowdowns)-1]
		for _, j := range simreport.Jobs(r.Run, r.draft.jobs, r.result, r.draft.alone, r.collector.Uses()) {
			if j.State == "succeeded" {
				last.Values = append(last.Values, j.Slowdown)
			}
		}
		if r.lanes == nil {
			continue
		}
		courses = append(courses, simreport.Timeline{Name: r.Policy, Courses: r.collector.Courses(),
			Capacity: r.collector.Capacity(), End: r.result.Ended})
		if err := x.plot(ctx, "gantt-"+fileName(r.Run), r.lanes.Gantt("Slots over time: "+r.Policy), nil); err != nil {
			return err
		}
	}
	cdf, err := simreport.SlowdownCDF(slowdowns)
	if err := x.plot(ctx, "slowdown", cdf, err); err != nil {
		return err
	}
	queue, err := simreport.QueueLength(courses)
	if err := x.plot(ctx, "queue", queue, err); err != nil {
		return err
	}
	slots, err := simreport.SlotUse(courses)
	return x.plot(ctx, "slots", slots, err)
}

// plot writes a figure in both formats.
func (x *simFiles) plot(ctx context.Context, name string, f *simreport.Figure, err error) error {
	if err != nil {
		return err
	}
	if err := x.write(ctx, name+".svg", f.SVG); err != nil {
		return err
	}
	return x.write(ctx, name+".png", f.PNG)
}
