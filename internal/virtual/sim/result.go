package sim

import (
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// Result describes a run after its end.
type Result struct {
	// Ended is the time of the last event: the end of the last job, unless
	// Config.Until came first.
	Ended time.Duration
	// Makespan is from the first submission to the end of the last job.
	Makespan time.Duration
	// Events counts the events that happened, and Stale the events that were cancelled
	// after they had been scheduled. Heartbeats that were left out (see park.go) count as
	// events that happened.
	Events, Stale int64
	// Decisions counts launches.
	Decisions int64
	// Succeeded, Failed and Killed count jobs. Unfinished jobs were cut off by
	// Config.Until.
	Succeeded, Failed, Killed, Unfinished int
	// Attempts counts ended attempts by kind and outcome.
	Attempts [job.Kinds][job.AttemptLost + 1]int64
	// Maps counts launched maps by level.
	Maps [cluster.NONE + 1]int64
	// Free counts attempts that started on a node whose slots of both kinds were all in use,
	// and that slowed nothing down there: their tasks have given durations, and
	// ModelConfig.Contention is off. Policies that start such attempts look too good.
	Free int64
	// BytesRead counts the bytes that successful maps have read, by level, and
	// BytesFetched the number that successful reduces have fetched.
	BytesRead    [cluster.NONE + 1]int64
	BytesFetched float64
	// Tracker holds the tracker's own counts. Refused is 0 unless the policy has a bug.
	Tracker tracker.Stats
	// Jobs describes each job, by its index in Config.Jobs. It is nil unless
	// Config.Details is set.
	Jobs []JobResult
}

// JobResult describes a job after a run. Times are since the start of the run.
type JobResult struct {
	ID job.ID // of the latest start
	// Submitted is the time of the job's submission; negative if never. A job that waits for
	// others may be submitted later than workload.Job.Submit.
	Submitted time.Duration
	// Started is the time of the first attempt's launch, and MapsDone the time at which the last map
	// succeeded; negative if never.
	Started, MapsDone time.Duration
	// Ended is negative for a job cut off by Config.Until.
	Ended time.Duration
	State job.State
	// Maps counts launched maps by level.
	Maps [cluster.NONE + 1]int
	// Waits are the reasons why tasks waited since the latest start, longest first. It is empty unless
	// Config.Explain is set.
	Waits []job.Wait
	// Text is why the job did not succeed; "" if it did.
	Text string
}

// fill adds the tracker's account of the job, or of its latest start if it was started again.
func (r *JobResult) fill(j *job.Job) {
	for l, n := range j.Account().Levels {
		r.Maps[l] += n
	}
	r.Waits = j.Waits()
}
