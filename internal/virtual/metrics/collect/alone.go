package collect

import (
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// chunkSize is the number of jobs in one run of Alone. It does not depend on
// the number of processors, so that results do not either.
const chunkSize = 64

// Alone measures how long each job of a run takes alone in the empty cluster,
// which is Tyrex's reference time. Jobs run one after another, each submitted
// when the previous one has ended. Random failures, stragglers and other programs are switched
// off. policy makes a fresh policy for each of several concurrent runs, in
// place of the run's own; the papers use first come, first served. The run's
// Observer and Stop serve all these runs and are called from several
// goroutines.
//
// For a job that does not succeed alone, Alone returns the time until it
// failed. A job that cannot run at all is an error.
func Alone(run sim.Config, policy func() (sched.Policy, error)) ([]time.Duration, error) {
	m := &run.Model
	m.FailureRate, m.Straggler, m.Outliers, m.Crashes, m.MTBF, m.Background = 0, sim.Straggler{}, false, nil, 0, nil
	// A run that is cut off at Until would leave jobs without a time alone.
	run.Details, run.Trace, run.Until = true, nil, 0
	var configs []sim.Config
	for chunk := range slices.Chunk(run.Jobs, chunkSize) {
		cfg := run
		cfg.Jobs = chain(chunk)
		var err error
		if cfg.Policy, err = policy(); err != nil {
			return nil, err
		}
		configs = append(configs, cfg)
	}
	// Chunks run side by side. Within a chunk the jobs follow each other in one run, because the set-up of
	// the cluster costs more than most jobs.
	results, errs := sim.RunEach(configs, 0)
	out := make([]time.Duration, 0, len(run.Jobs))
	for i, r := range results {
		if errs[i] != nil {
			return nil, errs[i]
		}
		for _, j := range r.Jobs {
			// Submitted is the end of the job before: for the simulator a job is submitted when the last of
			// its After has ended.
			out = append(out, j.Ended-j.Submitted)
		}
	}
	return out, nil
}

// chain returns copies of the jobs, each submitted after the previous one.
func chain(jobs []workload.Job) []workload.Job {
	out := make([]workload.Job, len(jobs))
	for i, j := range jobs {
		// Alone in the cluster it waits for no other job, and its priority has no effect.
		j.Submit, j.After, j.Priority = 0, nil, job.Normal
		if i > 0 {
			j.After = []int{i - 1}
		}
		out[i] = j
	}
	return out
}
