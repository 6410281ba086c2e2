package protocol

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// ChainOwner returns the user that a chain belongs to and its pool.
func (c *Core) ChainOwner(id ChainID) (user, pool string, err error) {
	ch := c.chains.byID[id]
	if ch == nil {
		return "", "", noChain(id)
	}
	return ch.job().User, ch.job().Pool, nil
}

// KnowsChain reports whether a request has a chain.
func (c *Core) KnowsChain(request string) bool { return c.chains.requests[request] != 0 }

// StepOf returns the chain that a job is a step of, or "".
func (c *Core) StepOf(id job.ID) string {
	if j := c.jobs[id]; j != nil {
		return j.spec.Chain
	}
	return ""
}

// EndedStep returns the last status of a step that is in the history, without counters,
// or nil if it has not ended. The error says that the job is no step of the chain.
func (c *Core) EndedStep(chain, job string) (*slotwisev1.JobStatus, error) {
	id, _ := ParseChain(chain)
	if ch := c.chains.byID[id]; ch != nil {
		for _, s := range ch.steps {
			if s.job.String() == job {
				return s.ended, nil
			}
		}
	}
	return nil, errorf(NotFound, "job %s is no step of %s", job, chain)
}

// ChainTimes returns the time since a chain's submission, and how long the chains of its name and
// user in memory took that have succeeded, the oldest first. live is false if it has ended.
func (c *Core) ChainTimes(id ChainID) (elapsed time.Duration, past []time.Duration, live bool) {
	ch := c.chains.byID[id]
	if ch == nil || ch.outcome != nil {
		return 0, nil, false
	}
	self := ch.job()
	// By number, which is the order of the submissions.
	for _, other := range slices.Sorted(maps.Keys(c.chains.byID)) {
		o := c.chains.byID[other]
		if j := o.job(); j.Name == self.Name && j.User == self.User && o.outcome != nil && o.outcome.state == slotwisev1.JobState_JOB_STATE_SUCCEEDED {
			past = append(past, o.outcome.at-o.at)
		}
	}
	return c.now - ch.at, past, true
}

// chainStatus describes a chain like a job: its counts are the sums of its steps'.
func (c *Core) chainStatus(ch *chainEntry) *slotwisev1.JobStatus {
	if ch.final != nil {
		return ch.final
	}
	s := c.describeChain(ch)
	s.Waiting = c.chainWait(ch)
	return s
}

// describeChain describes a chain without the reason why it waits.
func (c *Core) describeChain(ch *chainEntry) *slotwisev1.JobStatus {
	j := ch.job()
	s := &slotwisev1.JobStatus{
		Id: ch.id.String(), Name: j.Name, User: j.User, Pool: j.Pool, Priority: j.Priority, Output: j.Output,
		SubmittedMs: c.millis(max(1, ch.at)), StartedMs: c.millis(ch.started), Revision: ch.revision, LastError: ch.driver.err, LogTail: ch.driver.logTail,
		Maps: &slotwisev1.TaskCounts{}, Reduces: &slotwisev1.TaskCounts{},
		MapCounters: &slotwisev1.Counters{}, ReduceCounters: &slotwisev1.Counters{}, Locality: make([]int32, cluster.NONE),
		Driver: ch.driver.worker, DriverTries: ch.driver.try, State: chainState(ch),
	}
	if ch.outcome != nil {
		s.Message, s.EndedMs = ch.outcome.message, c.millis(ch.outcome.at)
	}
	var running []string
	// An ended step may have left memory with its job, so its last status is kept in the
	// chain.
	for _, step := range ch.steps {
		st := step.ended
		if st == nil {
			st = c.status(step.entry)
			// A function may run several jobs under one name of a step at once.
			if !slices.Contains(running, step.name) {
				running = append(running, step.name)
			}
		}
		s.Steps = append(s.Steps, step.job.String())
		addCounts(s.Maps, st.Maps)
		addCounts(s.Reduces, st.Reduces)
		s.Copies += st.Copies
		if s.Pool == "" {
			s.Pool = st.Pool // the policy has chosen it
		}
		if st.LastError != "" {
			s.LastError, s.LogTail = st.LastError, st.LogTail
		}
	}
	s.Step = strings.Join(running, ", ")
	return s
}

// chainState returns the state of a chain.
func chainState(ch *chainEntry) slotwisev1.JobState {
	switch {
	case ch.final != nil:
		return ch.final.State
	// Steps may still be ending and the directory be removed: users must not take the chain for
	// ended before its final status.
	case ch.outcome != nil:
		return slotwisev1.JobState_JOB_STATE_COMMITTING
	case ch.driver.try == 0:
		return slotwisev1.JobState_JOB_STATE_WAITING
	}
	return slotwisev1.JobState_JOB_STATE_RUNNING
}

// addCounts adds the tasks of a step. Progress is weighted by the number of tasks.
func addCounts(sum, n *slotwisev1.TaskCounts) {
	// Weighted by the totals before they change.
	done := sum.Progress*float64(sum.Total) + n.GetProgress()*float64(n.GetTotal())
	sum.Total += n.GetTotal()
	sum.Pending += n.GetPending()
	sum.Running += n.GetRunning()
	sum.Done += n.GetDone()
	sum.Failed += n.GetFailed()
	sum.SlotMs += n.GetSlotMs()
	if sum.Progress = 0; sum.Total > 0 {
		sum.Progress = done / float64(sum.Total)
	}
}

// chainWait says why a chain makes no progress: it has no driver, or no step has a task.
func (c *Core) chainWait(ch *chainEntry) string {
	if why := c.driverWait(ch); why != "" {
		return why
	}
	why := ""
	for _, s := range ch.steps {
		if s.entry == nil {
			continue
		}
		w := c.waitReason(s.entry)
		// One step that makes progress is progress of the chain, whatever holds the others back.
		if w == "" {
			return ""
		}
		why = w
	}
	return why
}

// stepStatuses describes the steps of a chain: all steps, or only the steps that run.
func (c *Core) stepStatuses(ch *chainEntry, all bool) (out []*slotwisev1.JobStatus) {
	// One step with a running task is progress, so the reasons of the others are not the chain's.
	for _, s := range ch.steps {
		switch {
		case s.entry != nil:
			out = append(out, c.statusNow(s.entry))
		case all:
			out = append(out, s.ended)
		}
	}
	return out
}

// appendChains adds the chains behind a position to a page of jobs.
func (c *Core) appendChains(r *slotwisev1.JobsRequest, after int64, resp *slotwisev1.JobsResponse, page *Page) {
	for _, id := range slices.Sorted(maps.Keys(c.chains.byID)) {
		ch := c.chains.byID[id]
		j := ch.job()
		// Chains are listed behind all jobs: job numbers are at most MaxInt32 (see ListPosition).
		if math.MaxInt32+int64(id) <= after || ch.final != nil && !r.Ended || r.User != "" && j.User != r.User || r.Pool != "" && j.Pool != r.Pool {
			continue
		}
		s := c.chainStatus(ch)
		if !page.Add(proto.Size(s)) {
			resp.Next = resp.Jobs[len(resp.Jobs)-1].Id
			return
		}
		resp.Jobs = append(resp.Jobs, s)
	}
}

// LastDriver returns the name under which the worker of a chain's current or last driver
// keeps the driver's log, and the worker's name.
func (c *Core) LastDriver(id ChainID) (name, worker string, err error) {
	ch := c.chains.byID[id]
	switch {
	case ch == nil:
		return "", "", noChain(id)
	case ch.driver.ran == "":
		return "", "", errorf(NotFound, "%s has had no driver yet", id)
	}
	return fmt.Sprintf("%s_%d", id, ch.driver.try), ch.driver.ran, nil
}

// ExplainChain says why a chain's driver does not run, or why its running steps get no
// task.
func (c *Core) ExplainChain(id ChainID) (*slotwisev1.ExplainResponse, error) {
	ch := c.chains.byID[id]
	if ch == nil {
		return nil, noChain(id)
	}
	resp := &slotwisev1.ExplainResponse{Job: id.String()}
	if why := c.driverWait(ch); why != "" {
		resp.Why = append(resp.Why, &slotwisev1.Explanation{Reason: "driver", Words: why, Advice: "start a worker, end the drain of one (slotwise nodes drain --undo), or let workers run more drivers (slotwise worker --drivers)"})
	}
	for _, s := range ch.steps {
		if s.entry != nil {
			resp.Why = append(resp.Why, c.explanations(s.entry)...)
		}
	}
	return resp, nil
}

// chainWatcher is a held WatchChain call.
type chainWatcher struct{ m *WatchChain }

// watchChain answers with the chain's status or holds the call.
func (c *Core) watchChain(m *WatchChain) {
	ch := c.chains.byID[m.Chain]
	if ch == nil {
		c.refuse(m.Call, noChain(m.Chain))
		return
	}
	// Without room the call is answered at once, and the client asks again: its long poll becomes a short one.
	if m.Wait && ch.revision <= m.After && ch.final == nil && c.room.watches.Take(m.User, 1) {
		w := &chainWatcher{m}
		ch.watchers = append(ch.watchers, w)
		c.held[m.Call] = w
		return
	}
	c.answerWatch(ch, m)
}

// answerWatch answers a WatchChain.
func (c *Core) answerWatch(ch *chainEntry, m *WatchChain) {
	c.reply(m.Call, &slotwisev1.JobResponse{Job: proto.CloneOf(c.chainStatus(ch)), Steps: c.stepStatuses(ch, m.Steps)})
}

// release implements waiter.
func (w *chainWatcher) release(c *Core) {
	ch := c.chains.byID[w.m.Chain]
	ch.watchers = slices.DeleteFunc(ch.watchers, func(x *chainWatcher) bool { return x == w })
	c.unwatch(ch, w)
}

// unwatch answers a held WatchChain.
func (c *Core) unwatch(ch *chainEntry, w *chainWatcher) {
	delete(c.held, w.m.Call)
	c.room.watches.Add(w.m.User, -1)
	c.answerWatch(ch, w.m)
}

// reviseChain raises a chain's revision and answers its watchers, as revise does for a
// job.
func (c *Core) reviseChain(ch *chainEntry) {
	ch.changed = false
	ch.revision++
	if ch.final != nil {
		ch.final.Revision = ch.revision
	}
	watchers := ch.watchers
	ch.watchers = nil
	for _, w := range watchers {
		c.unwatch(ch, w)
	}
}
