package protocol

import (
	"bytes"
	"iter"
	"maps"
	"strings"

	"github.com/slotwise/slotwise/internal/tracker"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// recordFacts records what the tracker's last step has changed.
func (c *Core) recordFacts() {
	for _, f := range c.tracker.Facts() {
		c.record(encodeFact(f))
		if g, ok := f.(*tracker.FactGraylisted); ok {
			c.logGraylisted(g)
		}
	}
}

// logGraylisted logs that a node has come on the graylist or off it, with the jobs that accuse it.
func (c *Core) logGraylisted(g *tracker.FactGraylisted) {
	if g.Undo {
		c.logInfo("worker taken off the graylist: it gets work again", "worker", g.Node)
		return
	}
	var jobs []string
	for _, f := range c.tracker.Nodes().Get(g.Node).Faults() {
		jobs = append(jobs, f.Job.String())
	}
	c.logWarn("worker graylisted: tasks of several jobs failed there and succeeded elsewhere. \"slotwise nodes drain --undo NODE\" gives it work again",
		"worker", g.Node, "jobs", strings.Join(jobs, " "))
}

// The functions below make the records of the core's own state. Restore reads them in
// replay.apply.

func jobRecord(j *jobEntry) *slotwisev1.JournalRecord {
	return &slotwisev1.JournalRecord{What: &slotwisev1.JournalRecord_Job{Job: &slotwisev1.JournalJob{
		Job: int32(j.id), Request: j.request, Spec: j.spec, Token: j.token, Secret: j.secret, Authenticated: j.authenticated,
	}}}
}

func intentRecord(s *slotwisev1.JournalStaging) *slotwisev1.JournalRecord {
	return &slotwisev1.JournalRecord{What: &slotwisev1.JournalRecord_Staging{Staging: s}}
}

func (c *Core) policyRecord() *slotwisev1.JournalRecord {
	return &slotwisev1.JournalRecord{What: &slotwisev1.JournalRecord_Policy{Policy: &slotwisev1.JournalPolicy{
		Name: c.policy, Set: c.set, Configured: c.cfg.Configured, Choice: c.choice,
	}}}
}

func learnedRecord(doc []byte) *slotwisev1.JournalRecord {
	return &slotwisev1.JournalRecord{What: &slotwisev1.JournalRecord_Learned{Learned: &slotwisev1.JournalLearned{Doc: doc}}}
}

func finishedRecord(id job.ID, request string) *slotwisev1.JournalRecord {
	return &slotwisev1.JournalRecord{What: &slotwisev1.JournalRecord_Finished{Finished: &slotwisev1.JournalFinished{Job: int32(id), Request: request}}}
}

func (c *Core) masterRecord() *slotwisev1.JournalRecord {
	return &slotwisev1.JournalRecord{What: &slotwisev1.JournalRecord_Master{Master: &slotwisev1.JournalMaster{Id: c.id, Epoch: c.epoch.UnixNano(), At: int64(c.now)}}}
}

// setPolicy installs another policy. No task is touched.
func (c *Core) setPolicy(m *SetPolicy) {
	// Learned state and choice belong to the former policy. The record below drops it in a replay,
	// too.
	// The name first: if the policy panics when it meets the jobs, the shell names it.
	c.policy, c.set, c.learned, c.choice = m.Name, m.Set, nil, nil
	c.tracker.SetPolicy(m.Policy)
	c.record(c.policyRecord())
	c.reply(m.Call, &slotwisev1.SetPolicyResponse{})
}

// choose records a choice of the installed policy, and has the chosen candidate decide from now on.
func (c *Core) choose(m *Choose) {
	p, ok := c.tracker.Policy().(sched.Chooser)
	// The forecasts have taken a while, and a user may have installed another policy meanwhile.
	if !ok || m.Name != c.policy || !maps.Equal(m.Set, c.set) {
		c.refuse(m.Call, errorf(FailedPrecondition, "policy %s is no longer installed", m.Name))
		return
	}
	next, err := p.LoadChoice(m.Choice)
	if err != nil {
		c.refuse(m.Call, errorf(InvalidArgument, "%v", err))
		return
	}
	c.choice = m.Choice
	c.record(c.policyRecord())
	if next != sched.Policy(p) {
		// What the former candidate has learned means nothing to the new one.
		c.tracker.SetPolicy(next)
		c.learned = nil
	} else if c.learned != nil { // state that another policy has learned is worth nothing after its record
		c.record(learnedRecord(c.learned))
	}
	c.reply(m.Call, nil)
}

// reconfigure hands a configuration to the policy.
func (c *Core) reconfigure(m *Reconfigure) {
	// Not recorded: the shell reads the file again after a restart, and a record would bring back pools that an
	// administrator has removed from it meanwhile.
	known, err := c.tracker.Reconfigure(m.Conf)
	switch {
	case err != nil:
		c.refuse(m.Call, errorf(InvalidArgument, "%v", err))
	case !known:
		c.refuse(m.Call, errorf(FailedPrecondition, "policy %s has no part that takes such a configuration", c.policy))
	default:
		c.reply(m.Call, nil)
	}
}

// noteLearned records what the policy has learned, if that has changed.
func (c *Core) noteLearned() {
	// Also if nothing follows: otherwise every tick would encode the state again.
	c.learnedAt = c.now
	parts := c.tracker.Learned()
	if len(parts) == 0 {
		return
	}
	doc, err := sched.SaveState(c.policy, parts)
	if err != nil {
		c.logWarn("what the policy has learned cannot be saved", "error", err)
		return
	}
	// An idle cluster would grow its journal by one record a minute.
	if !bytes.Equal(doc, c.learned) {
		c.learned = doc
		c.record(learnedRecord(doc))
	}
}

// Snapshot yields a short journal from which Restore makes this state. Jobs that
// are in the history are left out, except for their requests. Sessions and held calls
// are not in the journal at all: workers register again after a restart, and callers
// repeat their requests. The core must not change while the records are read.
func (c *Core) Snapshot() iter.Seq[*slotwisev1.JournalRecord] {
	return func(yield func(*slotwisev1.JournalRecord) bool) {
		if !c.snapshotOwn(yield) {
			return
		}
		for f := range c.tracker.Snapshot() {
			// The history has these jobs. Without a JournalJob, which snapshotOwn leaves out,
			// Restore could not read their facts.
			if id := factJob(f); id != 0 && (c.jobs[id] == nil || c.jobs[id].final != nil && !c.jobs[id].unsaved) {
				continue
			}
			if !yield(encodeFact(f)) {
				return
			}
		}
	}
}

// snapshotOwn yields the records of what the core knows beside the tracker.
func (c *Core) snapshotOwn(yield func(*slotwisev1.JournalRecord) bool) bool {
	// The policy precedes its learned state, because a record of a policy drops the learned state.
	if !yield(c.masterRecord()) || !yield(c.policyRecord()) || c.learned != nil && !yield(learnedRecord(c.learned)) {
		return false
	}
	// Requests outlive their jobs: a client that repeats a submission after a day must get the same job.
	for _, p := range c.past {
		if !yield(finishedRecord(p.id, p.request)) {
			return false
		}
	}
	for _, r := range c.chainRecords() {
		if !yield(r) {
			return false
		}
	}
	for _, s := range c.intents {
		if !yield(intentRecord(s)) {
			return false
		}
	}
	for _, j := range c.live {
		if !yield(jobRecord(j)) {
			return false
		}
		// The tracker may have forgotten an ended job that is not in the history yet.
		if j.end != nil && c.tracker.Jobs().Get(j.id) == nil && !yield(encodeFact(j.end)) {
			return false
		}
	}
	return true
}

// factJob returns the job that a fact of a snapshot is about, 0 if it is about
// none.
func factJob(f tracker.Fact) job.ID {
	switch f := f.(type) {
	case *tracker.FactAccepted:
		return f.Job
	case *tracker.FactPriority:
		return f.Job
	case *tracker.FactPool:
		return f.Job
	case *tracker.FactCounted:
		return f.Job
	case *tracker.FactOutcome:
		return f.Job
	case *tracker.FactCommitCancelled:
		return f.Job
	case *tracker.FactJobEnded:
		return f.Job
	case *tracker.FactTask:
		return f.Task.Job
	}
	return 0
}
