package master

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/live/journal"
	"github.com/slotwise/slotwise/internal/live/master/protocol"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// decoded yields the messages of a journal's records.
func decoded(records iter.Seq2[[]byte, error]) iter.Seq2[*slotwisev1.JournalRecord, error] {
	return func(yield func(*slotwisev1.JournalRecord, error) bool) {
		for b, err := range records {
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

// maybeSnapshot begins to replace the journal's log by a snapshot when the log is several
// times as long as the last snapshot. The loop only begins the next segment. Another
// goroutine replays the older ones and writes the snapshot.
func (m *Master) maybeSnapshot() {
	start := time.Now()
	// Four times the last snapshot: writing snapshots then costs at most a quarter of what the
	// journal writes, however large the state is.
	if m.compacting || m.journal.SinceSnapshot() < max(m.cfg.SnapshotBytes, 4*m.snapshotSize) || start.Before(m.noSnapshot) {
		return
	}
	c, err := m.journal.Begin()
	if err != nil {
		m.fail(err)
		return
	}
	m.unsynced, m.compacting = false, true // Begin has synced
	// Read in the loop, directly after Begin: it belongs to exactly the records before the new
	// segment.
	at, paused := m.core.Position(), time.Since(start)
	m.background.Go(func() {
		size, err := c.Write(m.encoded(protocol.Compact(m.coreConfig, at, decoded(m.gently(c.Records())))))
		m.postOwn(func() { m.snapshotWritten(c, size, paused, time.Since(start), err) })
	})
}

// snapshotWritten ends a compaction, which has stopped the loop for the time paused.
func (m *Master) snapshotWritten(c *journal.Compaction, size int64, paused, took time.Duration, err error) {
	m.compacting = false
	m.journal.End(c)
	if size > 0 {
		m.snapshotSize = size
	}
	switch {
	case err != nil && size > 0:
		m.log.Warn("the snapshot is complete, but files that it replaces take up space until the master starts again", "error", err)
	case err != nil:
		// If the journal cannot be written at all any more, the next sync fails too.
		m.noSnapshot = time.Now().Add(snapshotPause)
		m.log.Error("no snapshot of the journal could be written", "error", err)
		return
	}
	m.log.Info("snapshot", "bytes", size, "paused", paused, "took", took)
}

// yieldEvery is the number of records after which a snapshot lets other goroutines run.
// On a machine with one processor the loop would else wait for the scheduler's 10 ms.
const yieldEvery = 64

// gently yields the same records. It lets other goroutines run in between, and fails when
// the master is closed.
func (m *Master) gently(records iter.Seq2[[]byte, error]) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		n := 0
		for b, err := range records {
			if n++; n%yieldEvery == 0 {
				runtime.Gosched()
			}
			if err == nil {
				err = context.Cause(m.ctx)
			}
			if !yield(b, err) || err != nil {
				return
			}
		}
	}
}

// encoded yields the bytes of records, as gently does.
func (m *Master) encoded(records iter.Seq2[*slotwisev1.JournalRecord, error]) iter.Seq2[[]byte, error] {
	return m.gently(func(yield func([]byte, error) bool) {
		for r, err := range records {
			var b []byte
			if err == nil {
				b, err = proto.Marshal(r)
			}
			if !yield(b, err) || err != nil {
				return
			}
		}
	})
}
