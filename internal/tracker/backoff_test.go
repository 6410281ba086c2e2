package tracker_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/sched/job"
)

// outage plays a job whose attempts take the time run and fail while the storage is away.
type outage struct {
	tr    *tracker.Tracker
	now   time.Duration
	back  time.Duration // when the storage returns
	run   time.Duration
	ends  map[job.AttemptID]time.Duration // when the running attempts end
	state job.State                       // of the job, once it is done
}

func (o *outage) step(ev tracker.Event) {
	for _, e := range o.tr.Step(o.now, ev) {
		switch e.Kind {
		case tracker.Launch:
			o.ends[e.Attempt] = o.now + o.run
		case tracker.Kill:
			delete(o.ends, e.Attempt)
		case tracker.JobDone:
			o.state = e.State
		}
	}
}

// play steps only when an attempt ends, or at the times that the tracker names.
func (o *outage) play(t *rapid.T) {
	o.step(joinEvent("n1", 2, 0))
	for o.state == job.Pending {
		if at, due := o.tr.OfferDue(); due {
			o.now = max(o.now, at)
			o.step(&tracker.Offer{Nodes: []string{"n1"}})
			continue
		}
		next := o.tr.NextDeadline()
		if next < 0 && len(o.ends) == 0 {
			t.Fatalf("at %v nothing runs, and the tracker names no time", o.now)
		}
		if o.now > 1000*time.Hour {
			t.Fatalf("the job never ends: %v", o.tr.Jobs().Get(1).State())
		}
		hb := &tracker.Heartbeat{Node: "n1"}
		for id, at := range o.ends {
			if next < 0 || at < next {
				next = at
			}
			if at <= o.now {
				r := tracker.Report{Attempt: id, State: job.AttemptSucceeded}
				if at < o.back {
					r.State, r.Cause, r.Error = job.AttemptFailed, job.CauseStorage, "away"
				}
				hb.Reports = append(hb.Reports, r)
				delete(o.ends, id)
			}
		}
		if len(hb.Reports) > 0 {
			o.step(hb)
			continue
		}
		o.now = max(o.now, next)
		o.step(&tracker.Tick{})
	}
}

func newOutage(tb testing.TB, t *rapid.T, retry time.Duration, attempts int) *outage {
	cfg := tracker.Config{NodeTimeout: -1, StorageRetry: retry, OfferAtOnce: true, Seed: rapid.Uint64().Draw(t, "seed")}
	o := &outage{tr: tracker.New(cfg, testPolicy(tb, "fifo,speculate=none")), ends: map[job.AttemptID]time.Duration{}}
	o.run = time.Duration(rapid.IntRange(0, 40).Draw(t, "run")) * time.Second
	o.step(&tracker.Submit{Spec: job.Spec{Splits: make([]job.Split, rapid.IntRange(1, 5).Draw(t, "maps")), Request: job.Request{MaxAttempts: attempts, TaskTimeout: -1}}})
	return o
}

// If the storage returns within StorageRetry, the job succeeds, although no failure may
// count against its tasks, and soon after the storage has returned.
func TestJobsOutliveOutages(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		o := newOutage(t, r, time.Hour, 1)
		o.back = time.Duration(rapid.IntRange(1, 3000).Draw(r, "back")) * time.Second
		o.play(r)
		// Each of the five tasks may have to wait for a pause, and for two rounds of the
		// others in two slots.
		if limit := o.back + time.Minute + 6*(o.run+time.Second); o.state != job.Succeeded || o.now > limit {
			r.Fatalf("the job is %v at %v; the storage returned at %v", o.state, o.now, o.back)
		}
	})
}

// If the storage stays away, the job fails in bounded time, after a bounded number of
// attempts.
func TestOutagesAreBounded(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		attempts := rapid.IntRange(1, 4).Draw(r, "attempts")
		retry := time.Duration(rapid.IntRange(1, 1000).Draw(r, "retry")) * time.Second
		o := newOutage(t, r, retry, attempts)
		o.back = 1 << 62
		o.play(r)
		j := o.tr.Jobs().Get(1)
		rounds := time.Duration(j.Total(job.Map)) // tasks may wait for a slot
		if limit := retry + time.Duration(attempts+1)*(time.Minute+rounds*o.run+time.Second); o.state != job.Failed || o.now > limit {
			r.Fatalf("the job is %v at %v, allowed are %v", o.state, o.now, limit)
		}
		// Six pauses shorter than half a minute, then one in half a minute or more.
		most := attempts + 7 + int(retry/(30*time.Second))
		for i := range j.Total(job.Map) {
			if n := j.Task(job.Map, int32(i)).Attempts(); n > most {
				r.Fatalf("task %d has had %d attempts, allowed are %d", i, n, most)
			}
		}
	})
}
