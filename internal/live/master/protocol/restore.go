package protocol

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// Restore makes a core from the records of a journal, which may end after any record,
// also within a step. The returned output's records must be durable before its instructions
// start and before the first message is handled.
//
// The output of jobs that have ended but are not in the history is ordered to be
// committed or aborted again, and they are stored in the history again: both are
// idempotent. Restore orders the removal of each staging directory whose job was never
// accepted.
func Restore(cfg Config, records iter.Seq2[*slotwisev1.JournalRecord, error]) (*Core, Output, error) {
	c := blank(cfg)
	r := newReplay(c)
	for rec, err := range records {
		if err == nil {
			err = r.apply(rec)
		}
		if err != nil {
			return nil, Output{}, fmt.Errorf("journal: %w", err)
		}
	}
	if c.id == "" { // the journal is new
		c.id, c.epoch = cfg.ID, cfg.Started
		c.record(c.masterRecord())
	}
	// The wall clock may have been set back while the master was down. Times must not fall
	// below the times in the journal, or attempts would end before they started.
	c.base = max(r.last, cfg.Started.Sub(c.epoch))
	c.now = c.base
	// Watchers of the earlier life hold a revision and ask for changes after it. A count that
	// started at 0 would not answer them until it had caught up.
	for _, j := range c.live {
		j.revision = c.epoch.Add(c.base).UnixMilli()
	}
	if err := c.restoreTracker(r); err != nil {
		return nil, Output{}, err
	}
	// A clone, because resume removes jobs that were never accepted.
	for _, j := range slices.Clone(c.live) {
		c.resume(j)
	}
	for _, s := range c.intents {
		c.removeIntended(s)
	}
	// After the jobs, which are the chains' steps: a chain finishes only if all its steps have
	// ended.
	c.resumeChains()
	// Commits and aborts that the dead master had ordered or had not yet ordered. Storage
	// operations are idempotent, so both are ordered again.
	for _, e := range c.tracker.Unfinished() {
		c.carryOut(e)
	}
	c.logInfo("master restored", "id", c.id, "policy", c.policy, "jobs", len(c.jobs), "nodes", len(c.tracker.Nodes().All()))
	return c, c.out, nil
}

// blank returns a core without state.
func blank(cfg Config) *Core {
	return &Core{
		cfg: cfg, jobs: map[job.ID]*jobEntry{}, requests: map[string]*request{}, workers: map[string]*worker{},
		sessions: map[string]*session{}, held: map[Call]waiter{}, chains: newChainTable(), room: newRoom(cfg.Limits),
	}
}

// trackerConfig returns the configuration of the core's tracker.
func (c *Core) trackerConfig() tracker.Config {
	return tracker.Config{NodeTimeout: c.cfg.NodeTimeout, KeepEnded: c.cfg.KeepEnded, GraylistFaults: c.cfg.GraylistFaults, CommitOutput: true, Record: true,
		StorageRetry: c.cfg.StorageRetry, Seed: c.cfg.Seed, ForgetNodes: ForgetNodes, ForgetMarked: ForgetMarked,
		WaitEvery: waitEvery, OfferAtOnce: true, OfferPause: offerPause}
}

func newReplay(c *Core) *replay {
	return &replay{c: c, details: map[job.ID]*slotwisev1.JournalJob{}, accepted: map[job.ID]bool{}}
}

// replay is the state of Restore while it reads the journal.
type replay struct {
	c        *Core
	facts    []tracker.Fact
	accepted map[job.ID]bool // jobs that the tracker has accepted
	details  map[job.ID]*slotwisev1.JournalJob
	policy   *slotwisev1.JournalPolicy // the latest
	last     time.Duration             // the latest time in a record
}

// apply applies one record.
func (r *replay) apply(rec *slotwisev1.JournalRecord) error {
	c := r.c
	switch w := rec.What.(type) {
	case *slotwisev1.JournalRecord_Master:
		c.id, c.epoch = w.Master.Id, time.Unix(0, w.Master.Epoch)
		r.last = max(r.last, time.Duration(w.Master.At))
	case *slotwisev1.JournalRecord_Policy:
		// Learned state belongs to one policy: the record of another one ends it.
		r.policy, c.learned = w.Policy, nil
	case *slotwisev1.JournalRecord_Learned:
		c.learned = w.Learned.Doc
	case *slotwisev1.JournalRecord_Job:
		return r.applyJob(w.Job)
	case *slotwisev1.JournalRecord_Staging:
		c.intents = append(c.intents, w.Staging)
	case *slotwisev1.JournalRecord_Position:
		// A snapshot up to here holds this time and has released the tasks whose pauses had ended.
		// A leader that began earlier would delay these tasks again, and its next snapshot would not.
		r.last = max(r.last, time.Duration(w.Position.Now))
	case *slotwisev1.JournalRecord_StagingEnded:
		c.dropIntent(w.StagingEnded.Request)
	case *slotwisev1.JournalRecord_Finished:
		id := job.ID(w.Finished.Job)
		// The history has the job. Only its request stays, so that a repeated Submit is answered
		// with the same job instead of running it twice.
		if j := c.jobs[id]; j != nil {
			delete(c.jobs, id)
			c.removeLive(j)
		}
		if w.Finished.Request != "" { // else a step, which its chain remembers
			c.remember(pastRequest{id, w.Finished.Request})
		}
	default:
		if !r.applyChain(rec) {
			return r.applyFact(rec)
		}
	}
	return nil
}

// applyJob enters a job's details, which precede the fact that the job was accepted. If
// a number occurs twice, the job that had it first was never accepted.
func (r *replay) applyJob(d *slotwisev1.JournalJob) error {
	core, err := CoreSpec(d.Spec)
	if err != nil {
		return fmt.Errorf("job %d: %w", d.Job, err)
	}
	id := job.ID(d.Job)
	if before := r.c.jobs[id]; before != nil {
		r.c.removeLive(before)
	}
	r.details[id] = d
	j := r.c.newJob(d.Request, d.Spec, core)
	j.id, j.token, j.secret, j.authenticated = id, d.Token, d.Secret, d.Authenticated
	r.c.addJob(j)
	return nil
}

// applyFact collects a fact for the tracker and updates the job's entry.
func (r *replay) applyFact(rec *slotwisev1.JournalRecord) error {
	f, err := decodeFact(rec, func(id job.ID) *slotwisev1.JournalJob { return r.details[id] })
	if err != nil {
		return err
	}
	if f == nil {
		return errors.New("a record has an unknown type: it was written by another version of slotwise, which must be used to read it")
	}
	// A fact about a job that is unknown to the tracker would be a contradiction there.
	if end, ok := f.(*tracker.FactJobEnded); !ok || r.accepted[end.Job] {
		r.facts = append(r.facts, f)
	} // else the tracker had forgotten the job when the snapshot was made
	r.last = max(r.last, timeOf(f))
	switch f := f.(type) {
	case *tracker.FactAccepted:
		r.accepted[f.Job] = true
		// An accepted job has its own records, with which its output is committed or aborted.
		if d := r.details[f.Job]; d != nil {
			r.c.dropIntent(d.Request)
		}
	// dropFiles and announceOutputs look only at nodes on which the job ever had an attempt.
	case *tracker.FactLaunched:
		if j := r.c.jobs[f.Attempt.Job]; j != nil {
			j.nodes[f.Node] = true
		}
	// In a snapshot this record replaces the task's launches.
	case *tracker.FactTask:
		if j := r.c.jobs[f.Task.Job]; j != nil {
			for _, name := range f.Nodes {
				j.nodes[name] = true
			}
		}
	case *tracker.FactJobEnded:
		// resume finds the end here and has the history written again.
		if j := r.c.jobs[f.Job]; j != nil {
			j.end = f
		}
	}
	return nil
}

// timeOf returns the time of a fact; 0 if it has none, or only times before the one with which a snapshot begins.
func timeOf(f tracker.Fact) time.Duration {
	switch f := f.(type) {
	case *tracker.FactAccepted:
		return f.At
	case *tracker.FactLaunched:
		return f.At
	case *tracker.FactEnded:
		return f.At
	case *tracker.FactOutputLost:
		return f.At
	case *tracker.FactOutcome:
		return f.At
	case *tracker.FactJobEnded:
		return f.At
	case *tracker.FactJoined:
		return f.At
	case *tracker.FactLeft:
		return f.At
	case *tracker.FactDrained:
		return f.At
	case *tracker.FactGraylisted:
		return f.At
	}
	return 0
}

// restoreTracker builds the policy and the tracker. A policy that a user has installed
// stays if the configured policy is the same as then.
func (c *Core) restoreTracker(r *replay) error {
	c.policy, c.set = c.cfg.Policy, c.cfg.PolicySet
	kept := r.policy != nil && r.policy.Configured == c.cfg.Configured
	if kept {
		c.policy, c.set = r.policy.Name, r.policy.Set
	}
	p, err := c.cfg.Build(c.policy, c.set)
	if err != nil {
		return err
	}
	if chooser, ok := p.(sched.Chooser); ok && kept && r.policy.Choice != nil {
		chosen, err := chooser.LoadChoice(r.policy.Choice)
		// A candidate of another version of slotwise may no longer exist. The first one decides
		// until the next decision, because a master that did not start would stop all jobs.
		if err != nil {
			c.logWarn("the choice of the policy cannot be used", "error", err)
		} else {
			p, c.choice = chosen, r.policy.Choice
		}
	}
	c.tracker, err = tracker.Restore(c.trackerConfig(), p, c.base, slices.Values(r.facts))
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	// The journal may end in the middle of a step, and the tracker has completed it. These
	// facts must be durable before any instruction that follows from them.
	c.recordFacts()
	if r.policy != nil && c.learned != nil {
		// A policy can do without its memory. A master that refused to start over it would stop
		// all jobs.
		if err := sched.LoadState(c.learned, c.policy, c.tracker.Learned()); err != nil {
			c.learned = nil
			c.logWarn("what the policy had learned cannot be used", "error", err)
		}
	}
	if !kept {
		c.record(c.policyRecord())
		if c.learned != nil { // a policy's record ends what an earlier one has learned
			c.record(learnedRecord(c.learned))
		}
	}
	return nil
}

// resume rebuilds the entry of a job from the restored tracker. If the job's outcome is
// decided, its attempts are unknown in this life, so its output does not wait for them.
func (c *Core) resume(j *jobEntry) {
	t := c.tracker.Jobs().Get(j.id)
	j.core = t
	// The master died between the job's record and the tracker's fact, so no client has heard
	// of the job. The intent that precedes both has its staging directory removed.
	if t == nil && j.end == nil {
		delete(c.jobs, j.id)
		c.removeLive(j)
		return
	}
	// From here on a repeated Submit of the earlier life is answered with this job.
	c.requests[j.request] = &request{job: j.id}
	c.addStep(j)
	c.order(&HoldFiles{j.spec.Program})
	// The job's tasks have ended, so it has no map outputs to announce and no attempts to
	// expect.
	if j.decided() {
		j.outputs.ended = true
		if j.end != nil {
			c.endJob(j, j.end)
		}
		return
	}
	// Until their workers register or are given up, these attempts may write to the output.
	for k := range job.Kind(job.Kinds) {
		for a := t.Oldest(k); a != nil; a = a.Next() {
			c.attemptStarted(j, a.ID(), c.nodeOf(a))
		}
	}
	// A job without reduces has no readers of map outputs.
	if t.Total(job.Reduce) == 0 {
		return
	}
	// A new log of map outputs. Its readers start from the beginning, because cursors of the
	// earlier life are not valid.
	for i := range t.Total(job.Map) {
		if a := t.Task(job.Map, int32(i)).Success(); a != nil {
			j.outputs.events = append(j.outputs.events, outputEvent{a.ID(), c.nodeOf(a)})
		}
	}
}
