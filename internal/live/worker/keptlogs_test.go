package worker_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/live/worker"
	"github.com/slotwise/slotwise/internal/testkit/clustertest"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// kept returns the log that the worker has sent of an attempt, nil if none.
func (m *fakeMaster) kept(attempt string) *slotwisev1.EndedLog {
	for _, l := range m.mu.kept {
		if l.GetAttempt() == attempt {
			return l
		}
	}
	return nil
}

// TestKeepLogs checks which logs a worker sends to the master: logs of attempts that have
// printed something, and once the job is full, of failed attempts only. A worker that ends
// sends the remaining ones.
func TestKeepLogs(t *testing.T) {
	t.Parallel()
	m := newFakeMaster(t)
	w := m.worker("", func(c *worker.Config) { c.LogSize = 1 << 20 })
	m.launch("j1_m_0_0", m.job("j1", "cat", 1, "a\n"))
	j2 := m.job("j2", "case $SLOTWISE_ATTEMPT in *_0) seq 20000 >&2;; *_3) echo failed >&2; exit 3;; *) echo more >&2; esac; cat", 1, "a\n")
	m.launch("j2_m_0_0", j2)
	m.launch("j3_m_0_0", m.job("j3", "echo the disk is on fire >&2; exit 3", 1, "a\n"))
	m.until("two logs are sent", func() bool { return len(m.mu.kept) == 2 })
	m.do(func() {
		var all strings.Builder
		for i := range 20000 {
			fmt.Fprintln(&all, i+1)
		}
		if l := m.kept("j2_m_0_0"); l == nil || l.Failed || l.Size != int64(all.Len()) || len(l.End) != bounds.KeptLog || !strings.HasSuffix(all.String(), string(l.End)) {
			t.Errorf("the long log: %d bytes of %d", len(l.GetEnd()), l.GetSize())
		}
		if l := m.kept("j3_m_0_0"); l == nil || !l.Failed || l.Size != int64(len(l.End)) || !strings.Contains(string(l.End), "the disk is on fire\n") {
			t.Errorf("the log of the failed attempt: %v", l)
		}
		m.mu.full = []string{"j2"}
	})
	m.launch("j2_m_0_1", j2)
	m.until("the log that fills the job is sent", func() bool { return m.kept("j2_m_0_1") != nil })
	m.launch("j4_m_0_0", m.job("j4", "echo next >&2; cat", 1, "a\n"))
	m.until("the next log is sent, so the answer to the one before has arrived", func() bool { return m.kept("j4_m_0_0") != nil })
	m.launch("j2_m_0_2", j2)
	want(t, m.ends("j2_m_0_2"), succeeded, "")
	m.launch("j2_m_0_3", j2)
	m.ends("j2_m_0_3")
	w.stop()
	m.do(func() {
		if m.kept("j2_m_0_2") != nil || m.kept("j2_m_0_3") == nil || m.kept("j1_m_0_0") != nil {
			t.Errorf("sent: of %v, of the failed attempt %v, of the silent one %v", m.kept("j2_m_0_2"), m.kept("j2_m_0_3"), m.kept("j1_m_0_0"))
		}
	})
}

// TestKeepLogsOtherMaster replaces the master while an attempt runs. The log of the attempt,
// whose name the new master can give to an attempt of another user, is not sent.
func TestKeepLogsOtherMaster(t *testing.T) {
	t.Parallel()
	m := newFakeMaster(t)
	w := m.worker("")
	m.launch("j1_m_0_0", m.job("j1", "echo secret >&2; sleep 600", 1, "a\n"))
	log := filepath.Join(w.dir, "logs", "j1_m_0_0.log")
	clustertest.Eventually(t, "the attempt prints", func() bool { b, _ := os.ReadFile(log); return len(b) > 0 })
	m.do(func() { m.mu.id, m.mu.again = "m2", true })
	m.until("it registers twice more", func() bool { return len(m.mu.registers) >= 3 })
	m.launch("j2_m_0_0", m.job("j2", "echo next >&2; cat", 1, "a\n"))
	m.until("the next log is sent", func() bool { return m.kept("j2_m_0_0") != nil })
	w.stop()
	m.do(func() {
		if m.kept("j1_m_0_0") != nil {
			t.Error("another master has got the log")
		}
	})
}
