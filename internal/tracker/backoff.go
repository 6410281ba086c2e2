package tracker

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/slotwise/slotwise/sched/job"
)

// Retries after errors of the storage
//
// A storage that is away fails every attempt that needs it, as fast as attempts can be
// launched. Retried at once, a healthy job would use up the tries of its tasks within
// seconds. Errors of the storage and of a node's disk therefore have a rule of their own:
//
//	the failed task is delayed: it is not pending until its retry time
//	the pause doubles from firstPause to lastPause with each such failure since the task's
//	  last success; jitter shortens it by up to a half, so tasks do not return at once
//	for Config.StorageRetry after the first such failure, failures are excused: they are
//	  not counted, against the task or against the node
//	after that they count as any other failure, so the job ends in bounded time
//
// Policies do not see delayed tasks. A step compares the time with delayedDue and walks
// over jobs only if a retry time has come.
const (
	firstPause = time.Second
	lastPause  = time.Minute
)

// DefaultStorageRetry is longer than the time after which HDFS's NameNode gives up a
// silent DataNode: 2 · dfs.namenode.heartbeat.recheck-interval + 10 ·
// dfs.heartbeat.interval = 10.5 minutes by default. Until then it may offer the
// DataNode to writers. One lastPause is added, so a retry comes after that.
const DefaultStorageRetry = 12 * time.Minute

// failure applies the rule to a failure of an attempt that still runs.
func (t *Tracker) failure(a *job.Attempt, r *Report) job.Failure {
	f := job.Failure{Text: r.Error, LogTail: r.LogTail, Cause: r.Cause}
	if f.Cause != job.CauseStorage && f.Cause != job.CauseNode {
		return f
	}
	failures, since := a.Task().Outage()
	// The first failure begins the outage.
	if failures == 0 {
		since = t.now
	}
	f.Excused = t.now-since < t.cfg.StorageRetry
	f.RetryAt = t.now + t.pause(a.ID(), failures)
	return f
}

// pause returns the pause after an attempt's failure, if the task has failed before for
// such a cause the given number of times. The jitter depends on the seed and the attempt
// only, so every replay has the same.
func (t *Tracker) pause(id job.AttemptID, failures int) time.Duration {
	// The shift is bounded because a second shifted by 34 overflows.
	d := min(firstPause<<min(failures, 16), lastPause)
	name := uint64(id.Job)<<40 ^ uint64(id.Kind)<<39 ^ uint64(id.Index)<<12 ^ uint64(id.Number)
	g := rand.New(rand.NewPCG(t.cfg.Seed, name))
	return d - time.Duration(g.Int64N(int64(d/2)))
}

// watchDelayed notes whether a live job has delayed tasks, after a change of its tasks.
func (t *Tracker) watchDelayed(j *job.Job) {
	s := &t.bySeat[j.Seat()]
	if first := j.FirstDelayed(); first != nil {
		t.delayedDue = min(t.delayedDue, first.RetryAt())
		if !s.delayed {
			s.delayed = true
			t.delayed = append(t.delayed, j)
		}
	}
}

// releaseDelayed makes the delayed tasks pending whose retry time has come.
func (t *Tracker) releaseDelayed() {
	if t.now < t.delayedDue {
		return
	}
	t.delayedDue = never
	t.delayed = slices.DeleteFunc(t.delayed, func(j *job.Job) bool {
		first := j.FirstDelayed()
		for ; first != nil && first.RetryAt() <= t.now; first = j.FirstDelayed() {
			t.jobs.Release(first)
		}
		// Decide has ended its tasks, and its seat may be another job's by now.
		if !j.State().Live() {
			return true
		}
		if first != nil {
			t.delayedDue = min(t.delayedDue, first.RetryAt())
		}
		// Before noteDemand: it calls watchDelayed, which appends to the list that DeleteFunc walks
		// unless the job is marked as listed.
		t.bySeat[j.Seat()].delayed = first != nil
		t.wantOffer()
		t.noteDemand(j)
		return first == nil
	})
}
