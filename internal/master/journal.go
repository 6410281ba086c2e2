package master

import (
	"bytes"
	"iter"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/counterspb"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/tracker"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched"
)

// note appends a record to the journal; it is durable when the batch is.
func (m *Master) note(r *slotwisev1.JournalRecord) {
	var err error
	if m.record, err = (proto.MarshalOptions{}).MarshalAppend(m.record[:0], r); err != nil {
		m.fail(err)
		return
	}
	m.journal.Append(m.record)
	m.unsynced = true
}

// noteFacts appends what the last step has changed.
func (m *Master) noteFacts() {
	for _, f := range m.tracker.Facts() {
		m.note(encodeFact(f))
	}
}

// fail ends the master: what it cannot make durable it must not answer.
func (m *Master) fail(err error) {
	if m.failed == nil {
		m.failed = err
		m.log.Error("the journal cannot be written: the master stops", "error", err)
	}
}

// sync makes the batch durable and reports whether it is.
func (m *Master) sync() bool {
	if m.unsynced && m.failed == nil {
		m.unsynced = false
		start := time.Now()
		if err := m.journal.Sync(); err != nil {
			m.fail(err)
		}
		m.stats.synced(time.Since(start))
	}
	return m.failed == nil
}

// noteJob writes down what the master knows of a job that the tracker has just
// accepted, then what the tracker does.
func (m *Master) noteJob(j *jobInfo) {
	m.note(jobRecord(j))
	m.noteFacts()
}

func jobRecord(j *jobInfo) *slotwisev1.JournalRecord {
	return &slotwisev1.JournalRecord{What: &slotwisev1.JournalRecord_Job{Job: &slotwisev1.JournalJob{
		Job: int32(j.id), Request: j.request, Spec: j.spec, Token: j.token, Secret: j.secret,
	}}}
}

func (m *Master) notePolicy() { m.note(m.policyRecord()) }

func (m *Master) policyRecord() *slotwisev1.JournalRecord {
	return &slotwisev1.JournalRecord{What: &slotwisev1.JournalRecord_Policy{Policy: &slotwisev1.JournalPolicy{
		Name: m.policy, Set: m.set, Configured: m.cfg.configured(),
	}}}
}

// learnedEvery is how often what the policy has learned is written down.
const learnedEvery = time.Minute

// noteLearned writes down what the policy has learned, if that has changed.
func (m *Master) noteLearned() {
	m.learnedAt = m.now()
	parts := m.tracker.Learned()
	if len(parts) == 0 {
		return
	}
	doc, err := sched.SaveState(m.policy, parts)
	if err != nil {
		m.log.Warn("what the policy has learned is not kept", "error", err)
		return
	}
	if !bytes.Equal(doc, m.learned) {
		m.learned = doc
		m.note(learnedRecord(doc))
	}
}

func learnedRecord(doc []byte) *slotwisev1.JournalRecord {
	return &slotwisev1.JournalRecord{What: &slotwisev1.JournalRecord_Learned{Learned: &slotwisev1.JournalLearned{Doc: doc}}}
}

func finishedRecord(id job.ID, request string) *slotwisev1.JournalRecord {
	return &slotwisev1.JournalRecord{What: &slotwisev1.JournalRecord_Finished{Finished: &slotwisev1.JournalFinished{Job: int32(id), Request: request}}}
}

// maybeSnapshot shortens the journal when the log has grown to a multiple of what
// there is to remember.
func (m *Master) maybeSnapshot() {
	start := time.Now()
	if m.journal.SinceSnapshot() < max(m.cfg.SnapshotBytes, 4*m.snapshotSize) || start.Before(m.noSnapshot) {
		return
	}
	size := int64(0)
	err := m.journal.Snapshot(func(yield func([]byte) bool) {
		for r := range m.snapshot() {
			b, err := proto.Marshal(r)
			if err != nil {
				m.fail(err)
				return
			}
			size += int64(len(b))
			if !yield(b) {
				return
			}
		}
	})
	if err != nil {
		// If the journal can't be written at all any more, the next sync says so.
		m.noSnapshot = start.Add(snapshotPause)
		m.log.Error("no snapshot", "error", err)
		return
	}
	m.snapshotSize = size
	m.log.Info("snapshot", "bytes", size, "took", time.Since(start))
}

// snapshotPause is how long after a snapshot that failed the next is tried.
const snapshotPause = time.Minute

// snapshot yields the shortest journal that leads here. Jobs that are in the
// history are left out.
func (m *Master) snapshot() iter.Seq[*slotwisev1.JournalRecord] {
	return func(yield func(*slotwisev1.JournalRecord) bool) {
		if !m.snapshotOwn(yield) {
			return
		}
		for f := range m.tracker.Snapshot() {
			if id := factJob(f); id != 0 && (m.jobs[id] == nil || m.jobs[id].final != nil) {
				continue
			}
			if !yield(encodeFact(f)) {
				return
			}
		}
	}
}

// snapshotOwn yields what the master knows beside the tracker.
func (m *Master) snapshotOwn(yield func(*slotwisev1.JournalRecord) bool) bool {
	if !yield(m.masterRecord()) || !yield(m.policyRecord()) || m.learned != nil && !yield(learnedRecord(m.learned)) {
		return false
	}
	for _, p := range m.past {
		if !yield(finishedRecord(p.id, p.request)) {
			return false
		}
	}
	for _, id := range m.jobIDs() {
		j := m.jobs[id]
		if j.final == nil && (!yield(jobRecord(j)) || !yield(totalsRecord(j))) {
			return false
		}
		// The tracker may have forgotten an ended job that is not in the history yet.
		if j.final == nil && j.end != nil && m.tracker.Jobs().Get(id) == nil && !yield(encodeFact(j.end)) {
			return false
		}
	}
	return true
}

func (m *Master) masterRecord() *slotwisev1.JournalRecord {
	return &slotwisev1.JournalRecord{What: &slotwisev1.JournalRecord_Master{Master: &slotwisev1.JournalMaster{Id: m.id, Epoch: m.epoch.UnixNano()}}}
}

func totalsRecord(j *jobInfo) *slotwisev1.JournalRecord {
	t := &slotwisev1.JournalTotals{
		Job: int32(j.id), Maps: counterspb.Encode(&j.counters[job.Map]), Reduces: counterspb.Encode(&j.counters[job.Reduce]), Levels: j.levels[:],
		FailedMaps: j.failures[job.Map], FailedReduces: j.failures[job.Reduce], LastError: j.lastError,
	}
	for name := range j.nodes {
		t.Nodes = append(t.Nodes, name)
	}
	slices.Sort(t.Nodes)
	return &slotwisev1.JournalRecord{What: &slotwisev1.JournalRecord_Totals{Totals: t}}
}

// factJob is the job that a fact of a snapshot is about, 0 for none.
func factJob(f tracker.Fact) job.ID {
	switch f := f.(type) {
	case *tracker.FactAccepted:
		return f.Job
	case *tracker.FactPriority:
		return f.Job
	case *tracker.FactPool:
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
