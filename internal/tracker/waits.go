package tracker

import (
	"time"

	"github.com/slotwise/slotwise/sched/job"
)

// maxCollected is of how many jobs wait reasons are collected at once. Each costs a
// walk through the order of all jobs.
const maxCollected = 200

// collectWaits adds, if it is due, the time since the last collection to the
// reasons for which tasks of live jobs wait now. Step calls it before the event is
// worked in, because until then the old state held. If there are more jobs than one
// collection reads, the next one continues with the others.
func (t *Tracker) collectWaits(now time.Duration) {
	if t.cfg.WaitEvery <= 0 || now < t.waitsDue {
		return
	}
	t.waitsDue = now + t.cfg.WaitEvery
	live := t.Jobs().Live()
	// Jobs have ended since, or all have had their turn.
	if t.waitsNext >= len(live) {
		t.waitsNext = 0
	}
	part := live[t.waitsNext:min(len(live), t.waitsNext+maxCollected)]
	t.waitsNext += len(part)
	for _, j := range part {
		t.collectWaitsOf(j, now)
	}
}

// collectWaitsOf adds the time since the job's last collection to the reason for which each kind of
// its tasks waits now.
func (t *Tracker) collectWaitsOf(j *job.Job, now time.Duration) {
	// Since the job's own last collection, which with many jobs is several intervals ago.
	span := now - j.WaitsUpTo()
	t.jobs.SetWaitsUpTo(j, now)
	for k := range job.Kind(job.Kinds) {
		// A kind of which all tasks run or are done waits for nothing.
		if j.Pending(k)+j.Delayed(k) > 0 {
			why, words := t.Explain(j, k)
			t.jobs.AddWait(j, job.Wait{Kind: k, Reason: uint8(why.Code), For: span, Words: words})
		}
	}
}
