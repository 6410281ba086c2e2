package master

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/base/durable"
	"github.com/slotwise/slotwise/internal/live/journal"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// writeLongJournal writes the journal of a master with jobs that have run the first done of
// their maps on one worker, and have one reduce.
func writeLongJournal(t testing.TB, dir string, jobs, maps, done int) {
	t.Helper()
	l, err := journal.Open(filepath.Join(dir, "journal"), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	write := func(r *slotwisev1.JournalRecord) {
		b, err := proto.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		l.Append(b)
	}
	at := int64(time.Second)
	write(&slotwisev1.JournalRecord{What: &slotwisev1.JournalRecord_Master{Master: &slotwisev1.JournalMaster{Id: "m", Epoch: time.Now().Add(-time.Hour).UnixNano()}}})
	write(&slotwisev1.JournalRecord{What: &slotwisev1.JournalRecord_Joined{Joined: &slotwisev1.FactJoined{Name: "w1", Host: "h1", MapSlots: 4, ReduceSlots: 1, At: at}}})
	for id := int32(1); id <= int32(jobs); id++ {
		spec := &slotwisev1.JobSpec{Name: "test", User: "ann", Program: &slotwisev1.Program{Executable: "x", App: "x"}, Synthetic: int32(maps), Reduces: 1, SlowStart: proto.Float64(1)}
		write(&slotwisev1.JournalRecord{What: &slotwisev1.JournalRecord_Job{Job: &slotwisev1.JournalJob{Job: id, Request: fmt.Sprint("r", id), Spec: spec}}})
		write(&slotwisev1.JournalRecord{What: &slotwisev1.JournalRecord_Accepted{Accepted: &slotwisev1.FactAccepted{Job: id, Pool: "ann", Priority: 2, SlowStart: 1, MaxAttempts: 4, TaskTimeout: int64(time.Minute), At: at}}})
		for i := range int32(done) {
			a := &slotwisev1.AttemptRef{Job: id, Index: i}
			write(&slotwisev1.JournalRecord{What: &slotwisev1.JournalRecord_Launched{Launched: &slotwisev1.FactLaunched{Attempt: a, Node: "w1", At: at}}})
			write(&slotwisev1.JournalRecord{What: &slotwisev1.JournalRecord_Ended{Ended: &slotwisev1.FactEnded{Attempt: a, State: 1, OutputBytes: 1 << 20, At: at + 1,
				Counters: &slotwisev1.Counters{InputRecords: 10, OutputBytes: 1 << 20}}}})
		}
	}
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// stubborn is a disk that removes nothing but temporary files.
type stubborn struct{ durable.FS }

var errImmutable = errors.New("the file is immutable")

func (s stubborn) Remove(path string) error {
	if strings.HasSuffix(path, ".tmp") {
		return s.FS.Remove(path)
	}
	return errImmutable
}

// TestSnapshotLeavesFiles verifies that a snapshot counts although the files that it
// replaces cannot be removed, that the log says so, and that the next master starts.
func TestSnapshotLeavesFiles(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	var mu sync.Mutex
	cfg := Config{journalFS: stubborn{durable.OS()}, Log: slog.New(slog.NewTextHandler(locked{&mu, &text}, nil))}
	cfg.Dir = t.TempDir()
	writeLongJournal(t, cfg.Dir, 2, 2, 2)
	r := newRig(t, cfg)
	in := func(f func() bool) bool {
		ok, err := query(t.Context(), r.m, func() (bool, error) { return f(), nil })
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	in(func() bool { r.m.cfg.SnapshotBytes, r.m.snapshotSize = 1, 0; return true })
	for end := time.Now().Add(4 * time.Minute); !in(func() bool { return r.m.snapshotSize > 0 && !r.m.replacing }); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no snapshot")
		}
	}
	in(func() bool {
		if !r.m.noSnapshot.IsZero() {
			t.Errorf("the next snapshot waits until %v", r.m.noSnapshot)
		}
		return true
	})
	r.stop()
	mu.Lock()
	got := text.String()
	mu.Unlock()
	if strings.Contains(got, "no snapshot") || !strings.Contains(got, "the snapshot is complete, but") || !strings.Contains(got, errImmutable.Error()) {
		t.Errorf("log:\n%s", got)
	}
	r.cfg.journalFS = nil
	r.start()
}

// locked is a writer that several goroutines use.
type locked struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// BenchmarkSnapshot measures for how long a snapshot of 1,000 jobs with 100,000 tasks keeps
// the loop from answering: its own part in the work, the longest answer to
// a request meanwhile, and, for comparison, the time that it takes to encode the same
// snapshot in the loop.
func BenchmarkSnapshot(b *testing.B) {
	cfg := Config{}
	cfg.Dir = b.TempDir()
	writeLongJournal(b, cfg.Dir, 1000, 100, 100)
	var paused, longest, inLoop, took time.Duration
	shortest := time.Hour // pause: on a busy machine the longest one measures the others
	for b.Loop() {
		cfg.SnapshotBytes = 1 << 40
		m := openForBench(b, cfg)
		ask := func(f func()) time.Duration {
			start := time.Now()
			if _, err := query(b.Context(), m, func() (struct{}, error) { f(); return struct{}{}, nil }); err != nil {
				b.Fatal(err)
			}
			return time.Since(start)
		}
		inLoop = max(inLoop, ask(func() {
			for r := range m.core.Snapshot() {
				if _, err := proto.Marshal(r); err != nil {
					b.Error(err)
				}
			}
		}))
		begin := time.Now()
		pause := ask(func() { m.cfg.SnapshotBytes, m.snapshotSize = 1, 0 })
		paused, shortest = max(paused, pause), min(shortest, pause)
		ask(func() { m.cfg.SnapshotBytes = 1 << 40 })
		for under := true; under; time.Sleep(time.Millisecond) {
			longest = max(longest, ask(func() { under = m.replacing }))
		}
		took = max(took, time.Since(begin))
		if err := m.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(paused.Microseconds())/1000, "pause-ms")
	b.ReportMetric(float64(shortest.Microseconds())/1000, "shortest-pause-ms")
	b.ReportMetric(float64(longest.Microseconds())/1000, "longest-answer-ms")
	b.ReportMetric(float64(inLoop.Microseconds())/1000, "in-loop-ms")
	b.ReportMetric(float64(took.Microseconds())/1000, "snapshot-ms")
}

// openForBench opens a master.
func openForBench(t testing.TB, cfg Config) *Master {
	t.Helper()
	m, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
