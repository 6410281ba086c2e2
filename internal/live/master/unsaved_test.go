package master

import (
	"bytes"
	"database/sql"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/live/history"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// breakHistory makes all writes to a history fail that is otherwise in order, as a full disk
// does. mend ends that.
func breakHistory(t *testing.T, dir string) (mend func()) {
	t.Helper()
	run := func(statement string) {
		t.Helper()
		db, err := sql.Open("sqlite3", "file:"+filepath.Join(dir, "history", history.FileName)+"?_pragma=busy_timeout(30000)")
		if err != nil {
			t.Fatal(err)
		}
		_, err = db.Exec(statement)
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
	}
	run("CREATE TRIGGER full BEFORE INSERT ON runs BEGIN SELECT RAISE(ABORT, 'the disk is full'); END")
	return func() { run("DROP TRIGGER full") }
}

// metric returns the value of a metric.
func (r *rig) metric(name string) string {
	r.t.Helper()
	return metricAt(r.t, r.srv.URL, name)
}

// metricAt returns the value of a metric of the master at a URL, "" if there is none.
func metricAt(t *testing.T, url, name string) string {
	t.Helper()
	resp, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("metrics: %s, %v", resp.Status, err)
	}
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// awaitHistory waits until the history has a job, whatever the master remembers.
func (r *rig) awaitHistory(id string) *slotwisev1.HistoryJob {
	r.t.Helper()
	for deadline := time.Now().Add(4 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		h, err := r.m.history.Get(id)
		if err == nil {
			return h
		}
		if time.Now().After(deadline) {
			r.t.Fatal(err)
		}
	}
}

// killedJob submits a job and kills it.
func (r *rig) killedJob() string {
	r.t.Helper()
	id := r.submit(r.spec(1, 0, ""))
	if _, err := r.users.Kill(r.t.Context(), &slotwisev1.KillRequest{Job: id, Reason: "enough"}); err != nil {
		r.t.Fatal(err)
	}
	return id
}

// TestHistoryFails ends jobs while the history cannot be written. Users see their ends. The
// history gets them when it works again, in this life of the master or in the next one.
func TestHistoryFails(t *testing.T) {
	t.Parallel()
	withSnapshots(t, func(t *testing.T, cfg Config) {
		r := newRig(t, cfg)
		first := r.killedJob()
		r.awaitEnd(first)
		mend := breakHistory(t, r.cfg.Dir)
		second := r.killedJob()
		if st := r.awaitEnd(second); st.State != slotwisev1.JobState_JOB_STATE_KILLED {
			t.Errorf("job %v", st)
		}
		if _, err := r.m.history.Get(second); err == nil {
			t.Error("the history was written")
		}
		if got := r.metric("slotwise_master_history_unsaved"); got != "1" {
			t.Errorf("%q jobs are unsaved, want 1", got)
		}
		mend()
		r.awaitHistory(second)
		mend = breakHistory(t, r.cfg.Dir)
		third := r.killedJob()
		r.awaitEnd(third)
		r.stop()
		mend()
		r.start()
		if h := r.awaitHistory(third); h.Job.Message != "enough" || len(h.Tasks) != 1 {
			t.Errorf("the history has %v", h)
		}
		for _, id := range []string{first, second, third} {
			r.awaitHistory(id)
		}
	})
}

// TestDamagedHistory starts a master on a damaged history, twice. The master starts an empty
// one each time, says so, and keeps the damaged ones.
func TestDamagedHistory(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.awaitEnd(r.killedJob())
	path := filepath.Join(r.cfg.Dir, "history", history.FileName)
	garbage := bytes.Repeat([]byte("damaged "), 10_000)
	for round := 1; round <= 2; round++ {
		r.stop()
		if err := os.WriteFile(path, garbage, 0o600); err != nil {
			t.Fatal(err)
		}
		r.start()
		if got := r.metric("slotwise_master_history_damaged_total"); got != "1" {
			t.Errorf("%q databases were set aside, want 1", got)
		}
		id := r.killedJob()
		r.awaitEnd(id)
		r.awaitHistory(id)
	}
	kept, err := filepath.Glob(path + ".damaged-*")
	if err != nil || len(kept) != 2 {
		t.Errorf("the damaged databases are %v, %v", kept, err)
	}
}

// TestOtherHistory starts a master on the history of another version, which it must not
// touch.
func TestOtherHistory(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.stop()
	db, err := sql.Open("sqlite3", filepath.Join(r.cfg.Dir, "history", history.FileName))
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Exec("PRAGMA user_version = 99")
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	m, err := Open(r.cfg)
	if err == nil {
		err = m.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "another version") {
		t.Errorf("the history of another version: %v", err)
	}
}

// TestLostHistory removes the history of a master that has ended, and of one that runs. The
// master says so in its metric and in lists, and a new master without jobs does not.
func TestLostHistory(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	says := func(what string, lost bool) {
		t.Helper()
		resp, err := r.users.History(t.Context(), &slotwisev1.HistoryRequest{})
		if err != nil || strings.Contains(resp.Note, "the history was lost") != lost || !lost && resp.Note != "" {
			t.Errorf("%s: the list says %q, %v", what, resp.GetNote(), err)
		}
		if got := r.metric("slotwise_master_history_damaged_total"); (got != "0") != lost {
			t.Errorf("%s: the metric is %q", what, got)
		}
	}
	end := func() {
		id := r.killedJob()
		r.awaitEnd(id)
		r.awaitHistory(id)
	}
	says("a new master", false)
	end()
	r.stop()
	r.start()
	says("a whole history", false)
	r.stop()
	lose := func() {
		if err := os.RemoveAll(filepath.Join(r.cfg.Dir, "history")); err != nil {
			t.Fatal(err)
		}
	}
	lose()
	r.start()
	says("removed before the start", true)
	end()
	r.stop()
	r.start()
	says("after the next start", false)
	lose()
	end()
	says("removed while the master runs", true)
}

// TestLostJournal starts a master whose journal is gone, whole or emptied, beside a history with
// jobs. It refuses, because it would give the numbers of those jobs again and overwrite them.
// Once the history has been moved away it begins anew.
func TestLostJournal(t *testing.T) {
	t.Parallel()
	for what, lose := range map[string]func(dir string) error{
		"gone": func(dir string) error { return os.RemoveAll(filepath.Join(dir, "journal")) },
		"empty": func(dir string) error {
			logs, err := filepath.Glob(filepath.Join(dir, "journal", "log-*"))
			for _, l := range logs {
				err = errors.Join(err, os.Truncate(l, 0))
			}
			return err
		},
	} {
		r := newRig(t, Config{})
		r.stop()
		store, err := history.Open(r.cfg.Dir, r.cfg.History, nil)
		if err != nil {
			t.Fatal(err)
		}
		ended := &slotwisev1.HistoryJob{Job: &slotwisev1.JobStatus{Id: "j7", State: slotwisev1.JobState_JOB_STATE_SUCCEEDED}}
		if err := errors.Join(store.Put(ended), store.Close(), lose(r.cfg.Dir)); err != nil {
			t.Fatal(err)
		}
		if m, err := Open(r.cfg); err == nil || !strings.Contains(err.Error(), "the journal is empty or lost, but the history has jobs up to j7") {
			t.Errorf("%s: %v", what, err)
			if err == nil {
				t.Error(m.Close())
			}
		}
		if err := os.Rename(filepath.Join(r.cfg.Dir, "history"), filepath.Join(r.cfg.Dir, "history-of-before")); err != nil {
			t.Fatal(err)
		}
		m, err := Open(r.cfg)
		if err != nil {
			t.Fatalf("%s, without the history: %v", what, err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}
