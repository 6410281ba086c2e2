package master

import (
	"context"
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/tracker"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched"
)

// reasonsAtOnce is of how many jobs reasons are gathered or told at once: each
// costs a walk through the order of all jobs.
const reasonsAtOnce = 200

// gatherReasons notes what holds the jobs back now, those of many jobs in turns.
func (m *Master) gatherReasons(now time.Duration) {
	m.explain = now
	live := m.tracker.Jobs().Live()
	if m.asked >= len(live) {
		m.asked = 0
	}
	part := live[m.asked:min(len(live), m.asked+reasonsAtOnce)]
	m.asked += len(part)
	rounds := time.Duration(1 + len(live)/reasonsAtOnce)
	for _, t := range part {
		j := m.jobs[t.ID()]
		j.holds.Note(m.tracker, t, min(now-j.noted, 2*rounds*explainEvery))
		j.noted = now
	}
}

// waitsFor says in words why a job gets nothing now; "" if something of it runs
// or nothing waits.
func (m *Master) waitsFor(j *jobInfo) string {
	if j.trouble != "" {
		return j.trouble
	}
	t := j.core
	if j.decided() || t.Running(job.Map)+t.Running(job.Reduce) > 0 {
		return ""
	}
	for k := range job.Kind(job.Kinds) {
		if t.Pending(k) > 0 {
			_, words := m.tracker.Explain(t, k)
			return words + m.nobody()
		}
	}
	return ""
}

// Explain says why a job gets no task now and what made it wait so far.
func (c clientService) Explain(ctx context.Context, r *slotwisev1.ExplainRequest) (*slotwisev1.ExplainResponse, error) {
	resp, err := ask(ctx, c.m, func() (*slotwisev1.ExplainResponse, error) {
		j, err := c.m.job(r.Job)
		if err != nil {
			return nil, err
		}
		return &slotwisev1.ExplainResponse{Job: r.Job, Why: c.m.explanations(j)}, nil
	})
	return orPast(c.m, r.Job, resp, err, func(j *slotwisev1.HistoryJob) *slotwisev1.ExplainResponse {
		return &slotwisev1.ExplainResponse{Job: r.Job, Why: j.Held}
	})
}

// explanations are what holds a job back now, a reason for each kind of task
// that waits, then what held it back before, longest first.
func (m *Master) explanations(j *jobInfo) (out []*slotwisev1.Explanation) {
	type key struct {
		kind job.Kind
		code sched.Code
	}
	said := map[key]*slotwisev1.Explanation{}
	if t := j.core; !j.decided() {
		for k := range job.Kind(job.Kinds) {
			if t.Total(k) == 0 {
				continue
			}
			why, words := m.tracker.Explain(t, k)
			e := &slotwisev1.Explanation{Kind: wireKind(k), Reason: why.Code.Name(), Words: words + m.nobody(), Advice: advice(why.Code)}
			said[key{k, why.Code}] = e
			out = append(out, e)
		}
	}
	return append(out, heldBack(j, func(h tracker.Hold) bool {
		if e := said[key{h.Kind, h.Code}]; e != nil {
			e.HeldMs = h.For.Milliseconds()
			return false
		}
		return true
	})...)
}

// nobody says, after why a job waits, that no worker takes work, if that is so. The
// tracker cannot say it: a worker declines by itself when its disk is full.
func (m *Master) nobody() string {
	for _, s := range m.nodes {
		if n := m.tracker.Nodes().Get(s.worker); !s.draining && n != nil && !n.Draining() {
			return ""
		}
	}
	if len(m.nodes) == 0 {
		return ""
	}
	return "; no worker takes work, for all are drained or have full disks (slotwise nodes)"
}

// heldBack lists what held a job back, longest first, as far as want says.
func heldBack(j *jobInfo, want func(tracker.Hold) bool) (out []*slotwisev1.Explanation) {
	for _, h := range j.holds.Longest() {
		if want(h) {
			out = append(out, &slotwisev1.Explanation{
				Kind: wireKind(h.Kind), Reason: h.Code.Name(), Words: h.Words, HeldMs: h.For.Milliseconds(), Advice: advice(h.Code),
			})
		}
	}
	return out
}

// advice says what would change that a job waits for a reason; "" if nothing
// that a user could do would.
func advice(c sched.Code) string {
	switch c {
	case sched.Behind:
		return "a higher priority (slotwise priority), or a pool with fewer jobs before it (slotwise move)"
	case sched.NoSlot:
		return "more workers or slots, or killing what is not needed"
	case sched.NoNode:
		return "start a worker with slots of this kind, or end the drain of one (slotwise nodes drain --undo)"
	case sched.PoolFull, sched.JobsFull, sched.QueueFull, sched.UserFull:
		return "another pool (slotwise move), or a higher limit of this one in the policy's settings"
	case sched.WaitLocality, sched.PassesSlots, sched.OutOfReach:
		return "a shorter wait for local slots in the settings of the policy's place part"
	case sched.SlowStart:
		return "a smaller --slow-start starts reduces earlier; they would wait for maps in their slots"
	case sched.PartitionFull, sched.Overload, sched.NoValue:
		return "another policy (slotwise policy NAME)"
	case sched.NodeBarred, sched.FailedHere:
		return "look at the failed attempts (slotwise tasks, slotwise logs)"
	}
	return ""
}
