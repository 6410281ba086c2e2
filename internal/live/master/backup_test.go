package master

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/slotwise/slotwise/internal/base/durable"
	"github.com/slotwise/slotwise/internal/testkit/clustertest"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// TestBackup backs a running master up while one job has ended and another runs. A master
// on the restored directory lists the first one and continues the second one with the
// worker that runs its attempts.
func TestBackup(t *testing.T) {
	t.Parallel()
	withSnapshots(t, func(t *testing.T, cfg Config) {
		r := newRig(t, cfg)
		w := r.worker("w1", 1, 0)
		first := r.submit(r.spec(1, 0, ""))
		w.awaitLaunch("j1_m_0_0")
		w.heartbeat(0, w.succeeded("j1_m_0_0"))
		r.awaitEnd(first)
		out := filepath.Join(t.TempDir(), "out")
		second := r.submit(r.spec(1, 0, out))
		w.awaitLaunch("j2_m_0_0")

		if cfg.SnapshotBytes > 0 {
			clustertest.Eventually(t, "a snapshot of the journal is written", func() bool {
				snapshots, _ := filepath.Glob(filepath.Join(r.cfg.Dir, "journal", "snapshot-*"))
				return len(snapshots) > 0
			})
		}
		file, dir := filepath.Join(t.TempDir(), "backup.tar"), filepath.Join(t.TempDir(), "new", "m")
		if _, err := Backup(durable.OS(), r.cfg.Dir, file); err != nil {
			t.Fatal(err)
		}
		r.stop()
		if _, err := Restore(durable.OS(), file, dir); err != nil {
			t.Fatal(err)
		}
		r.cfg.Dir = dir
		r.start()

		w.register(1, 0)
		w.heartbeat(0)
		if slices.Contains(w.killed, "j2_m_0_0") || slices.Contains(w.dropped, "j2") {
			t.Errorf("killed %v, dropped %v", w.killed, w.dropped)
		}
		if !w.commit(second, "j2_m_0_0", "part-m-00000", "result") {
			t.Fatal("the commit was denied")
		}
		w.heartbeat(0, w.succeeded("j2_m_0_0"))
		if st := r.awaitEnd(second); st.State != slotwisev1.JobState_JOB_STATE_SUCCEEDED {
			t.Errorf("the running job ended as %v", st)
		}
		past, err := r.users.History(t.Context(), &slotwisev1.HistoryRequest{Job: first})
		if err != nil || past.Jobs[0].Job.State != slotwisev1.JobState_JOB_STATE_SUCCEEDED {
			t.Errorf("the job that had ended: %v, %v", past, err)
		}
		if _, err := Backup(durable.OS(), r.cfg.Dir, file+"2"); err != nil {
			t.Error(err)
		}
	})
}
