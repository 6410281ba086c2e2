package collect

import (
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/sim"
	"github.com/slotwise/slotwise/internal/workload"
	"github.com/slotwise/slotwise/sched"
)

// chunkSize is how many jobs follow each other in one run. It does not depend on
// the number of processors, so that results do not either.
const chunkSize = 64

// Alone finds how long each job of a run takes by itself: in the empty cluster,
// all of it, which is Tyrex's reference time. Jobs go one after another, each
// submitted when the one before has ended, on the cluster of the run without
// what is drawn to go wrong. policy makes a fresh policy for each of several runs
// that go on at the same time, in place of the run's own; the papers take first
// come, first served. The run's Observer and Stop serve all of them, from several
// goroutines at a time.
//
// A job that does not succeed alone has the time that it took to fail; one that
// cannot run at all is an error.
func Alone(run sim.Config, policy func() (sched.Policy, error)) ([]time.Duration, error) {
	m := &run.Model
	m.FailureRate, m.Straggler, m.Crashes, m.MTBF = 0, sim.Straggler{}, nil, 0
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
	results, errs := sim.RunEach(configs)
	out := make([]time.Duration, 0, len(run.Jobs))
	for i, r := range results {
		if errs[i] != nil {
			return nil, errs[i]
		}
		for _, j := range r.Jobs {
			out = append(out, j.Ended-j.Submitted)
		}
	}
	return out, nil
}

// chain makes jobs follow each other.
func chain(jobs []workload.Job) []workload.Job {
	out := make([]workload.Job, len(jobs))
	for i, j := range jobs {
		j.Submit, j.After, j.Priority = 0, nil, job.Normal
		if i > 0 {
			j.After = []int{i - 1}
		}
		out[i] = j
	}
	return out
}
