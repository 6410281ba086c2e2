package sim

import (
	"time"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/tracker"
)

// Result is what came out of a run.
type Result struct {
	// Ended is when the last event happened: with all jobs done, the end of the
	// last job.
	Ended time.Duration
	// Makespan is from the first submission to the end of the last job.
	Makespan time.Duration
	// Events counts entries that were popped from the queue and were not
	// overtaken; Stale counts those that were.
	Events, Stale int64
	// Decisions counts launches.
	Decisions int64
	// Succeeded, Failed and Killed count jobs. Unfinished ones are those cut
	// off by Config.Until.
	Succeeded, Failed, Killed, Unfinished int
	// Attempts counts ended attempts by kind and outcome.
	Attempts [job.Kinds][job.AttemptLost + 1]int64
	// Maps counts launched maps by level.
	Maps [cluster.NONE + 1]int64
	// BytesRead is what successful maps have read, by level, BytesFetched what
	// successful reduces have: map outputs that were made twice count once.
	BytesRead    [cluster.NONE + 1]int64
	BytesFetched float64
	// Tracker are the tracker's own counts; Refused is 0 unless the policy has a
	// bug.
	Tracker tracker.Stats
	// Jobs tells of each job, by its index in Config.Jobs, if Config.Details
	// is set.
	Jobs []JobResult
}

// JobResult is what became of a job. Times are since the start of the run.
type JobResult struct {
	ID job.ID
	// Submitted is when it was, which for a job that comes after others may be
	// later than its Submit. It is negative for a job that never was.
	Submitted time.Duration
	// Started is when its first attempt was launched, MapsDone when its last
	// map had succeeded; negative if never.
	Started, MapsDone time.Duration
	// Ended is negative for a job cut off by Config.Until.
	Ended time.Duration
	State job.State
	// Maps counts launched maps by level.
	Maps [cluster.NONE + 1]int
	// Waits are why its tasks waited, longest first, if Config.Explain is set.
	Waits []job.Wait
	// Text says why the job did not succeed.
	Text string
}

// fill copies what the tracker has kept of the job.
func (r *JobResult) fill(j *job.Job) {
	r.Maps, r.Waits = j.Account().Levels, j.Waits()
}
