package history

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/base/bounds"
)

// noise returns n bytes that no compression makes smaller.
func noise(n int) []byte {
	r := rand.NewChaCha8([32]byte{1})
	b := make([]byte, n)
	_, _ = r.Read(b) // never fails
	return b
}

// wantLog reads a log and compares its text; "" means that the history must not have it.
func wantLog(t *testing.T, s *Store, name, text string) {
	t.Helper()
	l, err := s.Log(name)
	switch {
	case text == "" && !errors.Is(err, fs.ErrNotExist):
		t.Errorf("log of %s: %v, %v; want none", name, l, err)
	case text != "" && (err != nil || string(l.End) != text):
		t.Errorf("log of %s: %v, %v; want %q", name, l, err, text)
	}
}

// TestLogs stores logs of attempts and drivers, replaces one, and reads them, also after the
// store was opened again.
func TestLogs(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Limits{})
	full, err := s.PutLogs([]Log{
		{Name: "j1_m_0_0", End: []byte("first"), Size: 5, User: "ann"}, {Name: "j1_m_0_1", End: []byte("b"), Size: 100, User: "ann", Failed: true},
		{Name: "chain-1_1", End: []byte("one"), Size: 3}, {Name: "chain-1_2", End: []byte("two"), Size: 3},
	})
	if err != nil || len(full) != 0 {
		t.Fatal(full, err)
	}
	if _, err := s.PutLogs([]Log{{Name: "j1_m_0_0", End: []byte("again"), Size: 5, User: "bob"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutLogs([]Log{{Name: "no job"}}); err == nil {
		t.Error("a log of no job is stored")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, Limits{})
	for name, text := range map[string]string{"j1_m_0_0": "again", "j1_m_0_1": "b", "j1_m_0_2": "", "j2_m_0_0": "", "chain-1_1": "one", "chain-1": "two"} {
		wantLog(t, s, name, text)
	}
	if l, err := s.Log("j1_m_0_0"); err != nil || l.User != "bob" {
		t.Errorf("%+v, %v", l, err)
	}
	if l, err := s.Log("j1_m_0_1"); err != nil || l.User != "ann" || l.Size != 100 {
		t.Errorf("%+v, %v", l, err)
	}
}

// TestLogsOfJob fills a job's share of the space. Logs of failed attempts then have as much
// again, and other jobs have their own.
func TestLogsOfJob(t *testing.T) {
	s := open(t, t.TempDir(), Limits{})
	end := noise(bounds.KeptLog)
	put := func(job string, failed bool, from, n int) []string {
		t.Helper()
		var logs []Log
		for i := range n {
			logs = append(logs, Log{Name: fmt.Sprintf("%s_m_%d_0", job, from+i), End: end, Size: int64(len(end)), Failed: failed})
		}
		full, err := s.PutLogs(logs)
		if err != nil {
			t.Fatal(err)
		}
		return full
	}
	share := bounds.JobLogs / bounds.KeptLog
	if full := put("j1", false, 0, share-1); len(full) != 0 {
		t.Errorf("%v is full too early", full)
	}
	if full := put("j1", false, share, 2); !slices.Equal(full, []string{"j1"}) {
		t.Errorf("%v is full, want j1", full)
	}
	put("j1", true, 2*share, share-1)
	put("j1", true, 4*share, 3)
	put("j2", false, 0, 1)
	for n, kept := range map[int]bool{0: true, share - 2: true, share + 1: false, 2 * share: true, 3*share - 2: true, 4*share + 2: false} {
		if _, err := s.Log(fmt.Sprintf("j1_m_%d_0", n)); (err == nil) != kept {
			t.Errorf("log %d: %v, want it kept: %v", n, err, kept)
		}
	}
	wantLog(t, s, "j2_m_0_0", string(end))
}

// TestLogLimits removes the oldest logs beyond a size and an age.
func TestLogLimits(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Limits{Logs: 100 << 10})
	text := string(noise(20 << 10))
	for i := range 10 {
		if _, err := s.PutLogs([]Log{{Name: fmt.Sprintf("j%d_m_0_0", i+1), End: []byte(text), Size: 1 << 20}}); err != nil {
			t.Fatal(err)
		}
	}
	wantLog(t, s, "j6_m_0_0", "")
	wantLog(t, s, "j7_m_0_0", text)
	wantLog(t, s, "j10_m_0_0", text)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, Limits{Logs: 50 << 10}) // a smaller limit applies at the start
	wantLog(t, s, "j8_m_0_0", "")
	wantLog(t, s, "j9_m_0_0", text)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Millisecond) // the age of a log has a resolution of a millisecond
	s = open(t, dir, Limits{Age: time.Millisecond})
	wantLog(t, s, "j10_m_0_0", "")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, Limits{Logs: -1})
	if full, err := s.PutLogs([]Log{{Name: "j1_m_0_0", End: []byte(strings.Repeat("x", 9)), Size: 9}}); err != nil || !slices.Equal(full, []string{"j1"}) {
		t.Errorf("without space for logs: %v is full, %v", full, err)
	}
	wantLog(t, s, "j1_m_0_0", "")
}

// One user who prints much removes his own oldest logs, and not the logs of others. The counts
// are right when the history is opened again.
func TestLogsOfGreedyUser(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Limits{Logs: 64 << 10})
	put := func(name, user string) {
		t.Helper()
		end := noise(8 << 10)
		if _, err := s.PutLogs([]Log{{Name: name, End: end, Size: int64(len(end)), User: user}}); err != nil {
			t.Fatal(err)
		}
	}
	kept := func(name string) bool {
		_, err := s.Log(name)
		return err == nil
	}
	put("j1_m_0_0", "modest")
	put("j2_m_0_0", "modest")
	for i := range 40 {
		put(fmt.Sprintf("j%d_m_0_0", i+3), "greedy")
		if i == 20 {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open(t, dir, Limits{Logs: 64 << 10})
		}
	}
	if !kept("j1_m_0_0") || !kept("j2_m_0_0") || kept("j3_m_0_0") || !kept("j42_m_0_0") {
		t.Error("the greedy user's logs have removed others' logs, or his latest one")
	}
	var sum int64
	if err := s.db.QueryRow("SELECT sum(bytes) FROM logs").Scan(&sum); err != nil || sum != s.write.logs || sum > 64<<10 {
		t.Errorf("%d bytes are counted as %d: %v", sum, s.write.logs, err)
	}
}
