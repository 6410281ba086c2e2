package study

import (
	"math"
	"slices"

	"github.com/slotwise/slotwise/internal/virtual/report"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/job"
)

// mostSpreadJobs bounds the jobs whose spread over seeds is reported.
const mostSpreadJobs = 1000

// spread returns how each job's response time varies over the seeds, for each policy. It returns nil if
// the seeds draw different jobs, whose response times do not belong together.
func (s *Study) spread() (list []report.JobSpread) {
	jobs := s.drafts[0].jobs
	if len(s.drafts) == 1 || len(jobs) > mostSpreadJobs {
		return nil
	}
	for _, d := range s.drafts[1:] {
		if !slices.EqualFunc(jobs, d.jobs, sameJob) {
			return nil
		}
	}
	for _, spec := range s.cfg.Policies.Specs() {
		for i := range jobs {
			var times []float64
			for _, r := range s.runs {
				if r.err == nil && r.Policy == spec && !math.IsNaN(r.outcomes.Response[i]) {
					times = append(times, r.outcomes.Response[i])
				}
			}
			if len(times) == 0 {
				continue
			}
			slices.Sort(times)
			// The nearest rank, a time that a run really had: with five seeds an interpolated 5th percentile
			// would be a number between the least two.
			at := func(q float64) float64 { return times[int(q*float64(len(times)-1)+0.5)] }
			list = append(list, report.JobSpread{Policy: spec, Job: jobs[i].Name, Median: at(0.5), P5: at(0.05), P95: at(0.95), Least: times[0], Most: times[len(times)-1], Runs: len(times)})
		}
	}
	return list
}

// sameJob reports whether two jobs have the same name, time and work.
func sameJob(a, b workload.Job) bool {
	for k := range job.Kind(job.Kinds) {
		if a.Count(k) != b.Count(k) {
			return false
		}
	}
	same := func(x, y workload.Task) bool {
		return x.Duration == y.Duration && x.CPU == y.CPU && x.Input == y.Input && x.Output == y.Output
	}
	if a.Name != b.Name || a.Submit != b.Submit {
		return false
	}
	// Jobs with an outline come from a trace, which no seed changes.
	return a.Outline != nil || slices.EqualFunc(a.Maps, b.Maps, same) && slices.EqualFunc(a.Reduces, b.Reduces, same)
}
