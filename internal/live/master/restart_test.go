package master

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/live/journal"
	"github.com/slotwise/slotwise/internal/testkit/clustertest"
	"github.com/slotwise/slotwise/internal/testkit/faultfs"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// restart starts another master on a copy of the first one's directory, as if the first
// one had been killed, and then stops the first one.
func (r *rig) restart() {
	r.t.Helper()
	var image string
	// The copy is made in the loop, between two batches, so that it shows one moment.
	// (The journal's own tests cover torn writes.) Only the history and a snapshot may be
	// written meanwhile; if one of their files vanishes, the copy is made again.
	for err := error(fs.ErrNotExist); errors.Is(err, fs.ErrNotExist); {
		image = r.t.TempDir()
		_, err = query(r.t.Context(), r.m, func() (struct{}, error) { return struct{}{}, os.CopyFS(image, os.DirFS(r.cfg.Dir)) })
		if err != nil && !strings.Contains(err.Error(), "history.new") && !strings.Contains(err.Error(), "open journal/") {
			r.t.Fatal(err)
		}
	}
	r.stop()
	r.cfg.Dir = image
	r.start()
}

// errPower ends a master whose machine has lost power.
var errPower = errors.New("no power")

// powerCut cuts the power in the middle of a batch and starts another master on the
// journal, which is in memory. Any part of the writes that were not synced may be lost.
func (r *rig) powerCut(rng *rand.Rand) {
	r.t.Helper()
	m := r.m
	err := m.post(r.t.Context(), func() {
		r.cfg.journalFS = r.cfg.journalFS.(*faultfs.Disk).Crash(rng)
		m.failed = errPower // the batch's requests get no answer
	})
	if err != nil {
		r.t.Fatal(err)
	}
	<-m.Done()
	r.stop()
	r.start()
}

// TestJournalFails fails a sync of the journal: the master answers no more requests and
// ends with the error.
func TestJournalFails(t *testing.T) {
	t.Parallel()
	disk := faultfs.NewDisk()
	r := newRig(t, Config{journalFS: disk})
	spec := r.spec(1, 0, "")
	disk.Inject(faultfs.Rule{Op: faultfs.Sync, Err: errPower})
	_, err := r.users.Submit(t.Context(), &slotwisev1.SubmitRequest{RequestId: "r1", Spec: spec})
	if connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("submit: %v", err)
	}
	<-r.m.Done()
	if err := r.m.Close(); !errors.Is(err, errPower) {
		t.Errorf("close: %v", err)
	}
}

// withSnapshots runs a test twice: without snapshots, and with a snapshot in each
// batch.
func withSnapshots(t *testing.T, test func(t *testing.T, cfg Config)) {
	t.Run("log", func(t *testing.T) { test(t, Config{}) })
	t.Run("snapshots", func(t *testing.T) { test(t, Config{SnapshotBytes: 1}) })
}

// TestRestart restarts the master in each phase of a job. The worker keeps its attempts
// and outputs; no attempt starts twice, and no count is lost or doubled.
func TestRestart(t *testing.T) {
	t.Parallel()
	withSnapshots(t, func(t *testing.T, cfg Config) {
		r := newRig(t, cfg)
		out := filepath.Join(t.TempDir(), "out")
		id := r.submit(r.spec(2, 1, out))
		r.restart()
		w := r.worker("w1", 2, 1)
		again := func() {
			t.Helper()
			r.restart()
			resp, err := r.workers.Heartbeat(t.Context(), &slotwisev1.HeartbeatRequest{Session: w.session, Seq: w.seq + 1})
			if err != nil || !resp.RegisterAgain {
				t.Fatalf("the old session after a restart: %v, error %v", resp, err)
			}
			w.register(2, 1)
			w.heartbeat(0)
			if len(w.killed)+len(w.dropped) > 0 {
				t.Fatalf("killed %v, dropped %v", w.killed, w.dropped)
			}
		}
		w.awaitLaunch("j1_m_0_0")
		w.awaitLaunch("j1_m_1_0")
		again()
		w.heartbeat(0, w.succeeded("j1_m_0_0"))
		again()
		w.heartbeat(0, w.succeeded("j1_m_1_0"))
		again()
		w.awaitLaunch("j1_r_0_0")
		again()
		outputs, err := r.workers.MapOutputs(t.Context(), &slotwisev1.MapOutputsRequest{Session: w.session, Job: id, Cursor: "old:2"})
		if err != nil || !outputs.Reset_ {
			t.Fatalf("map outputs: %v, error %v", outputs, err)
		}
		found := map[int32]string{}
		for _, o := range outputs.Outputs {
			found[o.Map] = o.Address
		}
		if found[0] != "w1:1" || found[1] != "w1:1" {
			t.Errorf("map outputs after a restart: %v", outputs.Outputs)
		}
		if !w.commit(id, "j1_r_0_0", "part-r-00000", "result") {
			t.Fatal("the commit was denied")
		}
		again()
		if !w.commit(id, "j1_r_0_0", "part-r-00000", "result") {
			t.Fatal("the commit was denied when asked for again")
		}
		w.heartbeat(0, w.succeeded("j1_r_0_0"))
		st := r.awaitEnd(id)
		if st.State != slotwisev1.JobState_JOB_STATE_SUCCEEDED || st.MapCounters.InputRecords != 20 || st.ReduceCounters.InputRecords != 10 {
			t.Errorf("job %v", st)
		}
		if want := []string{"j1_m_0_0", "j1_m_1_0", "j1_r_0_0"}; !slices.Equal(slices.Sorted(slices.Values(w.started)), want) {
			t.Errorf("launched %v, want %v", w.started, want)
		}
		if b, err := os.ReadFile(filepath.Join(out, "part-r-00000")); string(b) != "result" {
			t.Errorf("output %q, error %v", b, err)
		}
		r.restart()
		r.checkInHistory(id)
		w.register(2, 1)
		if !slices.Equal(w.dropJobs, []string{id}) {
			t.Errorf("jobs to drop: %v", w.dropJobs)
		}
	})
}

// checkInHistory checks that all requests find an ended job after a restart.
func (r *rig) checkInHistory(id string) {
	r.t.Helper()
	if st := r.job(id); st.State != slotwisev1.JobState_JOB_STATE_SUCCEEDED || st.Maps.Done != 2 {
		r.t.Errorf("job %v", st)
	}
	tasks, err := r.users.Tasks(r.t.Context(), &slotwisev1.TasksRequest{Job: id, Kind: slotwisev1.Kind_KIND_MAP})
	if err != nil || len(tasks.Tasks) != 2 || len(tasks.Tasks[0].Attempts) != 1 {
		r.t.Errorf("tasks %v, error %v", tasks, err)
	}
	list, err := r.users.History(r.t.Context(), &slotwisev1.HistoryRequest{})
	if err != nil || len(list.Jobs) != 1 || list.Jobs[0].Job.Id != id {
		r.t.Errorf("history %v, error %v", list, err)
	}
	live, err := r.users.Jobs(r.t.Context(), &slotwisev1.JobsRequest{Ended: true})
	if err != nil || len(live.Jobs) != 1 || live.Jobs[0].Id != id {
		r.t.Errorf("jobs %v, error %v", live, err)
	}
}

// TestTasksInState asks for failed and killed attempts of tasks that have succeeded, while the master has the job
// and when only the history has it.
func TestTasksInState(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	id := r.submit(r.spec(3, 0, ""))
	w := r.worker("w1", 3, 0)
	for _, attempt := range []string{"_m_0_0", "_m_1_0", "_m_2_0"} {
		w.awaitLaunch(id + attempt)
	}
	killed := w.failed(id+"_m_1_0", "killed: enough")
	killed.State = slotwisev1.AttemptState_ATTEMPT_STATE_KILLED
	w.heartbeat(0, w.failed(id+"_m_0_0", "bad luck"), killed, w.succeeded(id+"_m_2_0"))
	w.awaitLaunch(id + "_m_0_1")
	w.awaitLaunch(id + "_m_1_1")
	w.heartbeat(0, w.succeeded(id+"_m_0_1"), w.succeeded(id+"_m_1_1"))
	r.awaitEnd(id)
	for _, where := range []string{"the master", "the history"} {
		for state, want := range map[string][]string{"failed": {"_m_0"}, "killed": {"_m_1"}, "succeeded": {"_m_0", "_m_1", "_m_2"}, "lost": nil} {
			resp, err := r.users.Tasks(t.Context(), &slotwisev1.TasksRequest{Job: id, State: state})
			var got []string
			for _, task := range resp.GetTasks() {
				got = append(got, strings.TrimPrefix(task.Id, id))
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s has %s: %v, %v, want %v", where, state, got, err, want)
			}
		}
		r.restart()
	}
}

// TestRestartOfWorker restarts master and worker: the worker's attempts and map outputs
// are lost, and their tasks run again.
func TestRestartOfWorker(t *testing.T) {
	t.Parallel()
	withSnapshots(t, func(t *testing.T, cfg Config) {
		r := newRig(t, cfg)
		id := r.submit(r.spec(2, 1, ""))
		w := r.worker("w1", 2, 1)
		w.awaitLaunch("j1_m_0_0")
		w.awaitLaunch("j1_m_1_0")
		w.heartbeat(0, w.succeeded("j1_m_0_0"))
		r.restart()
		w = r.worker("w1", 2, 1)
		w.awaitLaunch("j1_m_0_1")
		w.awaitLaunch("j1_m_1_1")
		w.heartbeat(0, w.succeeded("j1_m_0_1"), w.succeeded("j1_m_1_1"))
		w.awaitLaunch("j1_r_0_0")
		w.heartbeat(0, w.succeeded("j1_r_0_0"))
		if st := r.awaitEnd(id); st.State != slotwisev1.JobState_JOB_STATE_SUCCEEDED {
			t.Errorf("job %v", st)
		}
	})
}

// TestRestartBeforeCommit stops the master when the job's outcome is durable and its
// output is not published: the next master publishes it.
func TestRestartBeforeCommit(t *testing.T) {
	t.Parallel()
	withSnapshots(t, func(t *testing.T, cfg Config) {
		cfg.Grace = time.Hour
		r := newRig(t, cfg)
		out := filepath.Join(t.TempDir(), "out")
		id := r.submit(r.spec(1, 1, out))
		w1, w2 := r.worker("w1", 1, 0), r.worker("w2", 0, 1)
		w1.awaitLaunch("j1_m_0_0")
		w1.heartbeat(0, w1.succeeded("j1_m_0_0"))
		w2.awaitLaunch("j1_r_0_0")
		// The map's output is lost, and the map runs again while the reduce, which has
		// fetched the output, ends the job. The commit waits until the map has ended.
		w1.outputs = map[string]bool{}
		w1.register(1, 0)
		w1.awaitLaunch("j1_m_0_1")
		if !w2.commit(id, "j1_r_0_0", "part-r-00000", "result") {
			t.Fatal("the commit was denied")
		}
		w2.heartbeat(0, w2.succeeded("j1_r_0_0"))
		if st := r.job(id); st.State != slotwisev1.JobState_JOB_STATE_COMMITTING {
			t.Fatalf("job %v", st)
		}
		if _, err := os.Stat(out); !os.IsNotExist(err) {
			t.Fatalf("output is there already, or: %v", err)
		}
		r.restart()
		if st := r.awaitEnd(id); st.State != slotwisev1.JobState_JOB_STATE_SUCCEEDED {
			t.Errorf("job %v", st)
		}
		if b, err := os.ReadFile(filepath.Join(out, "part-r-00000")); string(b) != "result" {
			t.Errorf("output %q, error %v", b, err)
		}
	})
}

// TestRestartKeeps checks the other state that must outlast a restart: requests, the
// policy, drained nodes, priorities and pools, files, the master's id, and time.
func TestRestartKeeps(t *testing.T) {
	t.Parallel()
	withSnapshots(t, func(t *testing.T, cfg Config) {
		r := newRig(t, cfg)
		req := &slotwisev1.SubmitRequest{RequestId: "r1", Spec: r.spec(1, 0, "")}
		if _, err := r.users.Submit(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		r.worker("w1", 0, 1)
		check := func(_ any, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		check(r.users.Drain(t.Context(), &slotwisev1.DrainRequest{Node: "w1"}))
		check(r.users.SetPolicy(t.Context(), &slotwisev1.SetPolicyRequest{Name: "fair"}))
		check(r.users.SetPriority(t.Context(), &slotwisev1.SetPriorityRequest{Job: "j1", Priority: "HIGH"}))
		check(r.users.Move(t.Context(), &slotwisev1.MoveRequest{Job: "j1", Pool: "deep"}))
		before, now := r.m.core.ID(), r.m.now()
		r.restart()
		if r.m.core.ID() != before || r.m.now() < now {
			t.Errorf("id %s at %v, before %s at %v", r.m.core.ID(), r.m.now(), before, now)
		}
		if resp, err := r.users.Submit(t.Context(), req); err != nil || resp.Job != "j1" {
			t.Errorf("the same request: %v, error %v", resp, err)
		}
		if p, err := r.users.Policy(t.Context(), &slotwisev1.PolicyRequest{}); err != nil || p.Name != "fair" {
			t.Errorf("policy %v, error %v", p, err)
		}
		if st := r.job("j1"); st.Priority != "HIGH" || st.Pool != "deep" {
			t.Errorf("job %v", st)
		}
		r.worker("w1", 0, 1)
		if n, err := r.users.Nodes(t.Context(), &slotwisev1.NodesRequest{}); err != nil || n.Nodes[0].State != "drained" {
			t.Errorf("nodes %v, error %v", n, err)
		}

		// The request still names its job after the job's end. A changed configuration
		// takes precedence over the installed policy.
		check(r.users.Kill(t.Context(), &slotwisev1.KillRequest{Job: "j1"}))
		r.awaitEnd("j1")
		r.cfg.Policy = "capacity"
		r.restart()
		if resp, err := r.users.Submit(t.Context(), req); err != nil || resp.Job != "j1" {
			t.Errorf("the same request: %v, error %v", resp, err)
		}
		if id := r.submit(r.spec(1, 0, "")); id != "j2" {
			t.Errorf("the next job is %s", id)
		}
		if p, err := r.users.Policy(t.Context(), &slotwisev1.PolicyRequest{}); err != nil || p.Name != "capacity" {
			t.Errorf("policy %v, error %v", p, err)
		}

		// j1 is in the history only. A repeated kill succeeds, and other changes say that the job has ended.
		check(r.users.Kill(t.Context(), &slotwisev1.KillRequest{Job: "j1"}))
		ended := func(_ any, err error) {
			t.Helper()
			if connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), "j1 has ended") {
				t.Errorf("a change of a job that has ended: %v", err)
			}
		}
		ended(r.users.SetPriority(t.Context(), &slotwisev1.SetPriorityRequest{Job: "j1", Priority: "LOW"}))
		ended(r.users.Move(t.Context(), &slotwisev1.MoveRequest{Job: "j1", Pool: "deep"}))
		ended(r.users.Kill(t.Context(), &slotwisev1.KillRequest{Attempt: "j1_m_0_0"}))
		if _, err := r.users.Kill(t.Context(), &slotwisev1.KillRequest{Job: "j9"}); connect.CodeOf(err) != connect.CodeNotFound {
			t.Errorf("a kill of an unknown job: %v", err)
		}
	})
}

// TestAbsentWorker restarts the master, and a worker does not register again: its tasks
// run on another worker after the time-out.
func TestAbsentWorker(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	id := r.submit(r.spec(1, 0, ""))
	w := r.worker("w1", 1, 0)
	w.awaitLaunch("j1_m_0_0")
	r.cfg.NodeTimeout = time.Second
	r.restart()
	w2 := r.worker("w2", 1, 0)
	clustertest.Eventually(t, "the job ends", func() bool {
		var reports []*slotwisev1.Report
		for id := range w2.running {
			reports = append(reports, w2.succeeded(id))
		}
		if w2.heartbeat(100*time.Millisecond, reports...).RegisterAgain { // the test has paused for longer than NodeTimeout
			w2.register(1, 0)
		}
		return r.job(id).EndedMs > 0
	})
	if st := r.job(id); st.State != slotwisev1.JobState_JOB_STATE_SUCCEEDED || len(w2.started) == 0 || slices.Contains(w2.started, "j1_m_0_0") {
		t.Errorf("job %v; the other worker has started %v", st, w2.started)
	}
}

// TestIdleWorkerReturns restarts the master of a worker without attempts: when it registers again
// it is not counted as lost, because Prometheus raises an alert for three lost workers.
func TestIdleWorkerReturns(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.worker("w1", 1, 0)
	r.restart()
	r.worker("w1", 1, 0)
	nodes, err := r.users.Nodes(t.Context(), &slotwisev1.NodesRequest{})
	if err != nil || len(nodes.Nodes) != 1 || nodes.Nodes[0].State != "alive" {
		t.Fatalf("%v, %v", nodes, err)
	}
	lost, err := query(t.Context(), r.m, func() (int64, error) { return r.m.core.Tracker().Stats().LostNodes, nil })
	if err != nil || lost != 0 {
		t.Errorf("%d workers lost, %v", lost, err)
	}
}

// TestOneMaster starts a second master on a directory.
func TestOneMaster(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	if m, err := Open(r.cfg); err == nil {
		t.Error("a second master has the directory too")
		m.Close()
	}
}

// TestStoppedMaster sends a request to a closed master.
func TestStoppedMaster(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	if err := r.m.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.users.Jobs(t.Context(), &slotwisev1.JobsRequest{}); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("error %v", err)
	}
}

// TestEveryPrefix runs a job, then starts a master on each prefix of the journal. With a
// new worker the job succeeds, unless the prefix is so short that it was never accepted.
func TestEveryPrefix(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	id := r.submit(r.spec(2, 1, ""))
	w := r.worker("w1", 2, 1)
	w.awaitLaunch("j1_m_0_0")
	w.heartbeat(0, w.failed("j1_m_0_0", "bad luck"))
	w.awaitLaunch("j1_m_1_0")
	w.heartbeat(0, w.succeeded("j1_m_1_0"))
	w.awaitLaunch("j1_m_0_1")
	w.heartbeat(0, w.succeeded("j1_m_0_1"))
	w.awaitLaunch("j1_r_0_0")
	if resp, err := r.workers.AskCommit(t.Context(), &slotwisev1.AskCommitRequest{Session: w.session, Attempt: "j1_r_0_0"}); err != nil || !resp.Granted {
		t.Fatalf("%v, error %v", resp, err)
	}
	w.heartbeat(0, w.succeeded("j1_r_0_0"))
	r.awaitEnd(id)
	r.stop()
	records := journalRecords(t, r.cfg.Dir)
	if len(records) < 12 {
		t.Fatalf("only %d records", len(records))
	}
	ended := 0
	for n := range len(records) + 1 {
		cfg := Config{Dir: t.TempDir()}
		writeJournal(t, cfg.Dir, records[:n])
		x := newRig(t, cfg)
		list, err := x.users.Jobs(t.Context(), &slotwisev1.JobsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Jobs) > 0 {
			x.runEverything("w1")
			if st := x.awaitEnd(id); st.State != slotwisev1.JobState_JOB_STATE_SUCCEEDED {
				t.Fatalf("after %d records: %v", n, st)
			}
			ended++
		}
		x.stop()
	}
	if ended < len(records)/2 {
		t.Errorf("only %d of %d beginnings had a job", ended, len(records))
	}
}

// runEverything lets a new worker run all tasks.
func (r *rig) runEverything(name string) {
	r.t.Helper()
	w := r.worker(name, 2, 1)
	clustertest.Eventually(r.t, "all jobs have run", func() bool {
		var reports []*slotwisev1.Report
		for id := range w.running {
			reports = append(reports, w.succeeded(id))
		}
		w.heartbeat(20*time.Millisecond, reports...)
		list, err := r.users.Jobs(r.t.Context(), &slotwisev1.JobsRequest{})
		if err != nil {
			r.t.Fatal(err)
		}
		return len(list.Jobs) == 0 && len(w.running) == 0
	})
}

// journalRecords returns the master's records in a journal, without the raft entries around
// them: a journal of a version before masters were replicated.
func journalRecords(t *testing.T, dir string) (records [][]byte) {
	t.Helper()
	l, err := journal.OpenStore(filepath.Join(dir, "journal"), journal.Options{}, &slotwisev1.RaftBase{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	last, _ := l.LastIndex()
	for b, err := range l.Records(last) {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, slices.Clone(b))
	}
	return records
}

func writeJournal(t *testing.T, dir string, records [][]byte) {
	t.Helper()
	l, err := journal.Open(filepath.Join(dir, "journal"), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range records {
		l.Append(b)
	}
	if err := errors.Join(l.Sync(), l.Close()); err != nil {
		t.Fatal(err)
	}
}
