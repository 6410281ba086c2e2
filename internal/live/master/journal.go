package master

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
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
			// A new message for each record: the core keeps parts, such as the description of a job.
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

// HasJournal reports whether a master's directory has a journal with anything in it.
func HasJournal(dir string) bool {
	entries, err := os.ReadDir(filepath.Join(dir, journalDir)) //nolint:forbidigo // a directory that only the master may write to
	// An unreadable directory may have entries, and the error of opening it names the reason.
	return len(entries) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist)
}

// openJournal opens the journal. A new one begins with the group of cfg.
func openJournal(cfg *Config) (*journal.Store, error) {
	group := strings.Join(slices.Sorted(slices.Values(cfg.Peers)), ",")
	// A master without peers is the only voter of its group from the first entry on, so it leads
	// without an election.
	fresh := &slotwisev1.RaftBase{Index: 1, Term: 1, Self: journal.Single, Members: []*slotwisev1.Member{{Id: journal.Single}}}
	if cfg.Self != "" {
		// 0 means no member, and 1 is journal.Single. A random number is never drawn again by a member
		// that has lost its directory, which is all that its id must promise.
		fresh = &slotwisev1.RaftBase{Group: group, Self: max(2, rand.Uint64()), Forms: cfg.Bootstrap}
	}
	// Asked before the journal is opened, which would create it. A second start without a flag would then take
	// the empty journal for a valid one.
	if cfg.Self != "" && !cfg.Bootstrap && !cfg.Join && !HasJournal(cfg.Dir) {
		return nil, fmt.Errorf("%s has no journal: start the masters of a new cluster with --bootstrap, each once. A master that has lost its directory must not come back as if "+
			"nothing had happened: it could elect a leader that misses accepted jobs. Run slotwise masters remove %s, start it with --join, and run slotwise masters add %s", cfg.Dir, cfg.Self, cfg.Self)
	}
	s, err := journal.OpenStore(filepath.Join(cfg.Dir, journalDir), journal.Options{FS: cfg.journalFS}, fresh)
	if err != nil {
		return nil, err
	}
	switch {
	// The journal itself may say so, if this member received the entry that removed it. If it did not, the
	// others answer its first message with Removed.
	case s.Group() == group && slices.Contains(s.Removed(s.Committed()), s.Self()):
		err = errRemoved(cfg.Self)
	case s.Group() == group:
		return s, nil
	case s.Group() == "":
		err = errors.New("this journal belongs to a master without peers: start it without --peers, or give each of the masters a new directory")
	case group == "":
		err = fmt.Errorf("this journal belongs to one of the masters %s: start it with --peers", s.Group())
	default:
		err = fmt.Errorf("this journal belongs to one of the masters %s: start it with the same --peers", s.Group())
	}
	// A journal of another group could have other members' votes in it. No flag can make the two fit.
	return nil, errors.Join(err, s.Close())
}

// append adds a record to the batch's part of the journal.
func (m *Master) append(r *slotwisev1.JournalRecord) {
	var err error
	// Not retried and not skipped: the core has taken the step already, so its state and the journal would
	// differ from here on.
	if m.record, err = (proto.MarshalOptions{}).MarshalAppend(m.record[:0], r); err != nil {
		m.fail(fmt.Errorf("a journal record cannot be encoded: %w", err))
		return
	}
	// An entry begins with up to maxData of earlier records, and is one record of the journal
	// itself.
	if len(m.record) > journal.MaxRecord-maxData {
		m.fail(fmt.Errorf("a journal record of %d bytes exceeds the limit of %d bytes", len(m.record), journal.MaxRecord-maxData))
		return
	}
	// Large steps become several entries, as they became several batches of the journal.
	// A follower receives an entry as one message. With larger entries one submission of a million tasks would
	// hold up the heartbeats behind it for longer than Election.
	if m.data = journal.AppendRecord(m.data, m.record); len(m.data) > maxData {
		m.propose()
	}
}

// maxData is the length of an entry in bytes from which the next records begin another one.
const maxData = 4 << 20

// fail ends the master: it must not answer requests whose changes it cannot make
// durable.
func (m *Master) fail(err error) {
	if m.failed == nil {
		m.failed = err
		m.log.Error("the journal cannot be written: the master stops", "error", err)
	}
}

// checkEvery is the interval at which the master looks whether its directory is still
// the one that it opened.
const checkEvery = time.Second

// checkDirectory ends the master if its directory was removed or replaced. It would
// acknowledge changes that no restart finds.
func (m *Master) checkDirectory() {
	now := time.Now()
	// The loop ticks five times a second, and each look is a system call on a disk that may be slow.
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

// maybeSnapshot proposes to replace the journal's log by a snapshot when the log is several
// times as long as the last snapshot. All masters replace theirs up to the proposal's entry,
// which holds the part of the core's state that does not follow from records.
func (m *Master) maybeSnapshot() {
	// Four times the last snapshot: writing snapshots then costs at most a quarter of what the
	// journal writes, however large the state is.
	// Only a leader proposes, and one position at a time: the journal remembers the boundary of the last one only.
	if m.lead == nil || m.positioned || m.replacing || m.journal.SinceSnapshot() < max(m.cfg.SnapshotBytes, 4*m.snapshotSize) || time.Now().Before(m.noSnapshot) {
		return
	}
	// No other record shares the entry of a position: PositionOf reads the entry's only record.
	// The state of this moment, so nothing else may have been collected since seal. propose then gives it an
	// entry of its own.
	m.append(m.core.Position().Record())
	m.positioned = true
	m.propose()
}

// maintainJournal begins the work on the journal that is due: its own snapshot, and one
// for another master that is far behind. Other goroutines do it.
func (m *Master) maintainJournal() {
	// One at a time, because each holds the whole journal in memory. Raft asks again for the next follower.
	if !m.snapshotForPeer && m.journal.SnapshotWanted() {
		m.snapshotForPeer = true
		// The call in the loop fixes the index and the files. The reading may take minutes beside it.
		read := m.journal.MakeSnapshot()
		m.background.Go(func() {
			snap, err := read()
			m.postOwn(func() {
				if m.snapshotForPeer = false; err != nil {
					m.log.Error("the journal cannot be read for another master", "error", err)
					return
				}
				m.journal.OfferSnapshot(snap)
			})
		})
	}
	// Non-nil once the entry with the position is committed. Also followers get here: each writes its own
	// snapshot.
	c := m.journal.Replaceable()
	if c == nil {
		return
	}
	// From here on replacing keeps the next position back, until snapshotWritten.
	m.positioned, m.replacing = false, true
	start := time.Now()
	m.background.Go(func() {
		at := &slotwisev1.JournalRecord{}
		err := proto.Unmarshal(c.Position, at)
		var size int64
		if err == nil {
			size, err = c.Write(m.encoded(protocol.Compact(m.coreConfig, protocol.PositionOf(at), decoded(m.gently(c.Records())))))
		}
		m.postOwn(func() { m.snapshotWritten(c, size, time.Since(start), err) })
	})
}

// snapshotWritten ends a replacement.
func (m *Master) snapshotWritten(c *journal.Replacement, size int64, took time.Duration, err error) {
	m.replacing = false
	// Also after an error: without End the journal would refuse every later snapshot, also of the
	// leader.
	m.journal.End(c)
	if err != nil {
		// If the journal cannot be written at all any more, the next sync fails too.
		// A full disk is the usual cause. A try may write gigabytes before it fails, so there must not be one
		// in each batch.
		m.noSnapshot = time.Now().Add(snapshotPause)
		m.log.Error("no snapshot of the journal could be written", "error", err)
		return
	}
	m.snapshotSize = size // the measure for the next one
	m.log.Info("snapshot", "bytes", size, "took", took)
	// Only now: a member that was elected while the snapshot was written has restored its core from these files.
	m.background.Go(func() {
		if err := c.Remove(); err != nil {
			m.log.Warn("the snapshot is complete, but files that it replaces take up space until the master starts again", "error", err)
		}
	})
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
				// Close waits for this goroutine. A large snapshot would keep the process for minutes, and the next start
				// begins it anew in any case.
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
