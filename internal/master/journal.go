package master

import (
	"fmt"
	"iter"
	"time"

	"google.golang.org/protobuf/proto"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// records yields the records of the journal.
func (m *Master) records() iter.Seq2[*slotwisev1.JournalRecord, error] {
	return func(yield func(*slotwisev1.JournalRecord, error) bool) {
		for b, err := range m.journal.Replay() {
			r := &slotwisev1.JournalRecord{}
			if err == nil {
				err = proto.Unmarshal(b, r)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// append adds a record to the batch's part of the journal.
func (m *Master) append(r *slotwisev1.JournalRecord) {
	var err error
	if m.record, err = (proto.MarshalOptions{}).MarshalAppend(m.record[:0], r); err != nil {
		m.fail(fmt.Errorf("a journal record cannot be encoded: %w", err))
		return
	}
	m.journal.Append(m.record)
	m.unsynced = true
}

// fail ends the master: it must not answer requests whose changes it cannot make
// durable.
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

// checkEvery is the interval at which the master looks whether its directory is still
// the one that it opened.
const checkEvery = time.Second

// checkDirectory ends the master if its directory was removed or replaced. It would
// acknowledge changes that no restart finds.
func (m *Master) checkDirectory() {
	now := time.Now()
	if now.Sub(m.checked) < checkEvery {
		return
	}
	m.checked = now
	if err := m.journal.Check(); err != nil {
		m.fail(err)
	}
}

// snapshotPause is the time between a failed snapshot and the next try.
const snapshotPause = time.Minute

// maybeSnapshot replaces the journal's log by a snapshot when the log is several
// times as long as the last snapshot.
func (m *Master) maybeSnapshot() {
	start := time.Now()
	if m.journal.SinceSnapshot() < max(m.cfg.SnapshotBytes, 4*m.snapshotSize) || start.Before(m.noSnapshot) {
		return
	}
	size := int64(0)
	err := m.journal.Snapshot(func(yield func([]byte, error) bool) {
		for r := range m.core.Snapshot() {
			b, err := proto.Marshal(r)
			if err != nil {
				err = fmt.Errorf("a journal record cannot be encoded: %w", err)
			}
			size += int64(len(b))
			if !yield(b, err) {
				return
			}
		}
	})
	if err != nil {
		// If the journal cannot be written at all any more, the next sync fails too.
		m.noSnapshot = start.Add(snapshotPause)
		m.log.Error("no snapshot of the journal could be written", "error", err)
		return
	}
	m.snapshotSize = size
	m.log.Info("snapshot", "bytes", size, "took", time.Since(start))
}
