package master

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/live/client"
	"github.com/slotwise/slotwise/internal/testkit/faultfs"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// faultyStorage adds a file system to cfg into which tests inject faults, and returns
// the prefix of its URIs.
func faultyStorage(t *testing.T, cfg *Config) (files *faultfs.FS, prefix string) {
	t.Helper()
	files = faultfs.New(storage.Local{})
	schemes, err := cfg.Schemes.With("faulty", files.Driver())
	if err != nil {
		t.Fatal(err)
	}
	cfg.Schemes = schemes
	return files, "faulty://"
}

var errOutage = errors.New("the storage is away")

// endDuringOutage runs a job of one map to its end while an operation on its output
// fails.
func (r *rig) endDuringOutage(out string, files *faultfs.FS, op faultfs.Op) (id string) {
	r.t.Helper()
	id = r.submit(r.spec(1, 0, out))
	w := r.worker("w1", 1, 0)
	w.awaitLaunch("j1_m_0_0")
	if !w.commit(id, "j1_m_0_0", "part-m-00000", "result") {
		r.t.Fatal("the commit was denied")
	}
	files.Inject(faultfs.Rule{Op: op, Err: errOutage})
	w.heartbeat(0, w.succeeded("j1_m_0_0"))
	return id
}

// awaitRetry waits until the job's status says that the commit or abort is retried.
func (r *rig) awaitRetry(id string) {
	r.t.Helper()
	r.awaitStatus(id, func(st *slotwisev1.JobStatus) bool {
		return st.State == slotwisev1.JobState_JOB_STATE_COMMITTING && strings.Contains(st.Waiting, errOutage.Error())
	})
}

// awaitStatus waits until a job's status fulfils a condition.
func (r *rig) awaitStatus(id string, want func(*slotwisev1.JobStatus) bool) {
	r.t.Helper()
	for deadline := time.Now().Add(4 * time.Minute); !want(r.job(id)); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("job %v", r.job(id))
		}
	}
}

// TestOutage ends a job while the storage is away: the output is published when the
// storage is back, also by a restarted master. Until then the job's status says why it
// has not ended.
func TestOutage(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]Config{"reopen": {}, "publish": {}, "publish, forgotten by the tracker": {KeepEnded: -1, SnapshotBytes: 1}} {
		t.Run(name, func(t *testing.T) {
			what, _, _ := strings.Cut(name, ",")
			op := faultfs.Op(what)
			files, at := faultyStorage(t, &cfg)
			r := newRig(t, cfg)
			out := filepath.Join(t.TempDir(), "out")
			id := r.endDuringOutage(at+out, files, op)
			r.awaitRetry(id)
			if cfg.SnapshotBytes > 0 { // the batch of this query writes a snapshot
				if _, err := query(t.Context(), r.m, func() (int, error) { r.m.snapshotSize = 0; return 0, nil }); err != nil {
					t.Fatal(err)
				}
			}
			r.restart()
			r.awaitRetry(id)
			files.Reset()
			if st := r.awaitEnd(id); st.State != slotwisev1.JobState_JOB_STATE_SUCCEEDED || st.Waiting != "" {
				t.Errorf("job %v", st)
			}
			if b, err := os.ReadFile(filepath.Join(out, "part-m-00000")); string(b) != "result" {
				t.Errorf("output %q, error %v", b, err)
			}
		})
	}
}

// TestGiveUpOutput checks that a job ends although its storage never returns: when its
// owner kills it, and when the master's patience is over.
func TestGiveUpOutput(t *testing.T) {
	t.Parallel()
	for name, patience := range map[string]time.Duration{"killed": 0, "patience": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{PublishPatience: patience}
			files, at := faultyStorage(t, &cfg)
			r := newRig(t, cfg)
			dir := t.TempDir()
			id := r.endDuringOutage(at+filepath.Join(dir, "out"), files, faultfs.Publish)
			if patience == 0 {
				r.awaitRetry(id)
				if _, err := r.users.Kill(t.Context(), &slotwisev1.KillRequest{Job: id}); err != nil {
					t.Fatal(err)
				}
			}
			want := slotwisev1.JobState_JOB_STATE_FAILED
			if name == "killed" {
				want = slotwisev1.JobState_JOB_STATE_KILLED
			}
			if st := r.awaitEnd(id); st.State != want || !strings.Contains(st.Message, errOutage.Error()) {
				t.Errorf("job %v", st)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("%v is left, error %v", left, err)
			}
		})
	}
}

// TestBriefTrouble publishes an output whose storage was away for an hour. Neither a lease that is lost for one try
// then, nor a directory that is missing for one, ends the retries: the job would fail, and its output would be removed.
func TestBriefTrouble(t *testing.T) {
	t.Parallel()
	for name, brief := range map[string]error{"no lease": errNoLease, "no directory": fs.ErrNotExist} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out, token := filepath.Join(t.TempDir(), "out"), storage.NewToken()
				if _, err := (storage.Local{}).StageShared(t.Context(), out, token, storage.ReplaceNothing); err != nil {
					t.Fatal(err)
				}
				began, troubled := time.Now(), false
				w := outputWork{uri: out, token: token, commit: true, patience: 24 * time.Hour, mayAct: func() error { return nil }}
				w.resolve = func(uri string) (storage.FS, string, error) {
					switch {
					case time.Since(began) < time.Hour:
						return nil, "", errOutage
					case !troubled:
						troubled = true
						return nil, "", brief
					}
					return storage.Local{}, uri, nil
				}
				if err := w.run(t.Context()); err != nil {
					t.Error(err)
				}
				if _, err := os.Stat(filepath.Join(out, "_SUCCESS")); err != nil {
					t.Error(err)
				}
				// A directory that is gone for good is not looked for as long as for a storage that is away.
				began = time.Now()
				w.resolve = func(string) (storage.FS, string, error) { return nil, "", fs.ErrNotExist }
				if err := w.run(t.Context()); !errors.Is(err, fs.ErrNotExist) || time.Since(began) > 2*missingPatience {
					t.Errorf("error %v after %v", err, time.Since(began))
				}
			})
		})
	}
}

// TestLongAway starts a master so long after a job's success that its patience with the
// storage would be over. It tries to publish the output all the same, because no master
// has tried meanwhile.
func TestLongAway(t *testing.T) {
	t.Parallel()
	var cfg Config
	files, at := faultyStorage(t, &cfg)
	r := newRig(t, cfg)
	id := r.endDuringOutage(at+filepath.Join(t.TempDir(), "out"), files, faultfs.Publish)
	r.awaitRetry(id)
	r.cfg.PublishPatience, r.cfg.RemovePatience = time.Hour, time.Hour
	if _, err := query(t.Context(), r.m, func() (int, error) {
		epoch := r.m.start.Add(-r.m.core.Base()).Add(-48 * time.Hour) // as the next master reads it
		r.m.append(&slotwisev1.JournalRecord{What: &slotwisev1.JournalRecord_Master{Master: &slotwisev1.JournalMaster{
			Id: r.m.core.ID(), Epoch: epoch.UnixNano(),
		}}})
		return 0, nil
	}); err != nil {
		t.Fatal(err)
	}
	r.restart()
	r.awaitRetry(id)
	files.Reset()
	if st := r.awaitEnd(id); st.State != slotwisev1.JobState_JOB_STATE_SUCCEEDED {
		t.Errorf("job %v", st)
	}
}

// TestRemoveAgain checks that the staged output of a killed job is removed when the
// storage is back.
func TestRemoveAgain(t *testing.T) {
	t.Parallel()
	var cfg Config
	files, at := faultyStorage(t, &cfg)
	r := newRig(t, cfg)
	dir := t.TempDir()
	id := r.submit(r.spec(1, 0, at+filepath.Join(dir, "out")))
	files.Inject(faultfs.Rule{Op: faultfs.Reopen, Err: errOutage})
	if _, err := r.users.Kill(t.Context(), &slotwisev1.KillRequest{Job: id}); err != nil {
		t.Fatal(err)
	}
	r.awaitRetry(id)
	files.Reset()
	if st := r.awaitEnd(id); st.State != slotwisev1.JobState_JOB_STATE_KILLED {
		t.Errorf("job %v", st)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left, error %v", left, err)
	}
}

// TestCommitTookEffect kills a job whose commit takes effect although its answer is an
// error. The output is visible, so the job has succeeded.
func TestCommitTookEffect(t *testing.T) {
	t.Parallel()
	cfg := Config{}
	files, at := faultyStorage(t, &cfg)
	r := newRig(t, cfg)
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	id := r.submit(r.spec(1, 0, at+out))
	w := r.worker("w1", 1, 0)
	w.awaitLaunch("j1_m_0_0")
	if !w.commit(id, "j1_m_0_0", "part-m-00000", "result") {
		t.Fatal("the commit was denied")
	}
	files.Inject(faultfs.Rule{Op: faultfs.Publish, Err: errOutage, Call: func() {
		roots, err := filepath.Glob(filepath.Join(dir, ".out.slotwise-shared-*"))
		for _, root := range roots {
			_, token, _ := strings.Cut(filepath.Base(root), "-shared-")
			s, err := storage.Local{}.Reopen(t.Context(), out, token)
			if err == nil {
				err = s.Commit(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
		}
		if err != nil {
			t.Error(err)
		}
	}})
	w.heartbeat(0, w.succeeded("j1_m_0_0"))
	r.awaitRetry(id)
	if _, err := r.users.Kill(t.Context(), &slotwisev1.KillRequest{Job: id}); err != nil {
		t.Fatal(err)
	}
	if st := r.awaitEnd(id); st.State != slotwisev1.JobState_JOB_STATE_SUCCEEDED || st.Message != "" {
		t.Errorf("job %v", st)
	}
	if b, err := os.ReadFile(filepath.Join(out, "part-m-00000")); string(b) != "result" {
		t.Errorf("output %q, error %v", b, err)
	}
}

// TestStagingOutage submits a job while the storage of its output is away: the client's
// submission waits for the storage, and a refusal of the storage ends it.
func TestStagingOutage(t *testing.T) {
	t.Parallel()
	var cfg Config
	files, at := faultyStorage(t, &cfg)
	r := newRig(t, cfg)
	c, err := client.New(r.srv.URL, client.Options{StorageRetry: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	spec := r.spec(1, 0, at+filepath.Join(t.TempDir(), "out"))
	files.Inject(faultfs.Rule{Op: faultfs.Stage, Err: storage.Unavailable(errOutage)})
	go func() { // the storage is back once it was asked again
		for files.Fired() < 2 && t.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
		files.Reset()
	}()
	id, err := c.Submit(t.Context(), spec)
	if err != nil || r.job(id).Output != spec.Output {
		t.Errorf("job %q, %v", id, err)
	}
	files.Inject(faultfs.Rule{Op: faultfs.Stage, Err: storage.Denied(errOutage)})
	other := r.spec(1, 0, at+filepath.Join(t.TempDir(), "out"))
	if _, err := c.Submit(t.Context(), other); err == nil || !strings.Contains(err.Error(), errOutage.Error()) || files.Fired() != 1 {
		t.Errorf("%v after %d faults", err, files.Fired())
	}
}
