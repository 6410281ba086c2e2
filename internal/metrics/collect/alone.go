package collect

import (
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/sched"
	"github.com/slotwise/slotwise/internal/sim"
	"github.com/slotwise/slotwise/internal/workload"
)

// chunk is how many jobs follow each other in one run. It does not depend on the
// number of processors, so that results do not either.
const chunk = 64

// Alone finds how long each job takes by itself: in the empty cluster, all of it,
// which is Tyrex's reference time. Jobs run one after another, each submitted
// when the one before has ended, on the cluster of the run without what is drawn
// to go wrong. policy makes a fresh policy for each of several runs that go on
// at the same time; the papers take first come, first served.
//
// A job that does not succeed alone has the time that it took to fail. watch, if
// not nil, is told of all runs, from several goroutines at a time.
func Alone(c *workload.Cluster, jobs []workload.Job, m sim.ModelConfig, seed uint64,
	policy func() (sched.Policy, error), watch sim.Observer) ([]time.Duration, error) {
	m.FailureRate, m.Straggler, m.Crashes, m.MTBF = 0, sim.Straggler{}, nil, 0
	var configs []sim.Config
	for i := 0; i < len(jobs); i += chunk {
		p, err := policy()
		if err != nil {
			return nil, err
		}
		configs = append(configs, sim.Config{Cluster: *c, Policy: p, Jobs: chain(jobs[i:min(i+chunk, len(jobs))]),
			Seed: seed, Model: m, Details: true, Observer: watch})
	}
	results, err := sim.RunAll(configs)
	if err != nil {
		return nil, err
	}
	out := make([]time.Duration, 0, len(jobs))
	for _, r := range results {
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
