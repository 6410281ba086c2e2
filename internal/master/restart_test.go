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

	"github.com/slotwise/slotwise/internal/journal"
	"github.com/slotwise/slotwise/internal/master/protocol"
	"github.com/slotwise/slotwise/internal/storage/faultfs"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// restart has another master go on with a copy of what the first one has on disk
// now, as if that had been killed; only then is the first one stopped.
func (r *rig) restart() {
	r.t.Helper()
	var image string
	// The copy is made between two batches of the loop, so that it is of one
	// moment; torn writes are the journal's own tests' matter. Only the history
	// may be written meanwhile: then a file goes as it is copied.
	for err := error(fs.ErrNotExist); errors.Is(err, fs.ErrNotExist); {
		image = r.t.TempDir()
		_, err = query(r.t.Context(), r.m, func() (struct{}, error) { return struct{}{}, os.CopyFS(image, os.DirFS(r.cfg.Dir)) })
		if err != nil && !strings.Contains(err.Error(), "history.new") {
			r.t.Fatal(err)
		}
	}
	r.stop()
	r.cfg.Dir = image
	r.start()
}

// errPower is why a master ends whose machine has lost its power.
var errPower = errors.New("no power")

// powerCut has another master go on with what is left of the journal, which is in
// memory, when the power is lost in the middle of a batch: of what was not synced
// anything or nothing.
func (r *rig) powerCut(rng *rand.Rand) {
	r.t.Helper()
	m := r.m
	err := m.post(r.t.Context(), func() {
		r.cfg.journalFS = r.cfg.journalFS.(*faultfs.Disk).Crash(rng)
		m.failed = errPower // nothing of this batch is answered
	})
	if err != nil {
		r.t.Fatal(err)
	}
	<-m.Done()
	r.stop()
	r.start()
}

// TestJournalFails lets a sync of the journal fail: nothing is answered any more,
// and the master ends with the error.
func TestJournalFails(t *testing.T) {
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

// withSnapshots runs a test with a journal that is never shortened, and with one
// that is all the time.
func withSnapshots(t *testing.T, test func(t *testing.T, cfg Config)) {
	t.Run("log", func(t *testing.T) { test(t, Config{}) })
	t.Run("snapshots", func(t *testing.T) { test(t, Config{SnapshotBytes: 1}) })
}

// TestRestart restarts the master in each phase of a job. The worker keeps what
// it has; nothing is launched twice, nothing counted twice or lost.
func TestRestart(t *testing.T) {
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
			w.beat(0)
			if len(w.killed)+len(w.dropped) > 0 {
				t.Fatalf("killed %v, dropped %v", w.killed, w.dropped)
			}
		}
		w.gets("j1_m_0_0")
		w.gets("j1_m_1_0")
		again()
		w.beat(0, w.done("j1_m_0_0"))
		again()
		w.beat(0, w.done("j1_m_1_0"))
		again()
		w.gets("j1_r_0_0")
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
		w.beat(0, w.done("j1_r_0_0"))
		st := r.ends(id)
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
		r.past(id)
		w.register(2, 1)
		if !slices.Equal(w.dropJobs, []string{id}) {
			t.Errorf("jobs to drop: %v", w.dropJobs)
		}
	})
}

// past checks that an ended job is found after a restart, by all who ask.
func (r *rig) past(id string) {
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

// TestRestartOfWorker restarts master and worker: what the worker ran and held is
// made again.
func TestRestartOfWorker(t *testing.T) {
	withSnapshots(t, func(t *testing.T, cfg Config) {
		r := newRig(t, cfg)
		id := r.submit(r.spec(2, 1, ""))
		w := r.worker("w1", 2, 1)
		w.gets("j1_m_0_0")
		w.gets("j1_m_1_0")
		w.beat(0, w.done("j1_m_0_0"))
		r.restart()
		w = r.worker("w1", 2, 1)
		w.gets("j1_m_0_1")
		w.gets("j1_m_1_1")
		w.beat(0, w.done("j1_m_0_1"), w.done("j1_m_1_1"))
		w.gets("j1_r_0_0")
		w.beat(0, w.done("j1_r_0_0"))
		if st := r.ends(id); st.State != slotwisev1.JobState_JOB_STATE_SUCCEEDED {
			t.Errorf("job %v", st)
		}
	})
}

// TestRestartBeforeCommit stops the master when the verdict is durable and the
// output is not in place: the next one publishes it.
func TestRestartBeforeCommit(t *testing.T) {
	withSnapshots(t, func(t *testing.T, cfg Config) {
		cfg.Grace = time.Hour
		r := newRig(t, cfg)
		out := filepath.Join(t.TempDir(), "out")
		id := r.submit(r.spec(1, 1, out))
		w1, w2 := r.worker("w1", 1, 0), r.worker("w2", 0, 1)
		w1.gets("j1_m_0_0")
		w1.beat(0, w1.done("j1_m_0_0"))
		w2.gets("j1_r_0_0")
		// The output is lost and its map made again while the reduce, which has
		// fetched it, ends the job. The output waits for the map's death.
		w1.outputs = map[string]bool{}
		w1.register(1, 0)
		w1.gets("j1_m_0_1")
		if !w2.commit(id, "j1_r_0_0", "part-r-00000", "result") {
			t.Fatal("the commit was denied")
		}
		w2.beat(0, w2.done("j1_r_0_0"))
		if st := r.job(id); st.State != slotwisev1.JobState_JOB_STATE_COMMITTING {
			t.Fatalf("job %v", st)
		}
		if _, err := os.Stat(out); !os.IsNotExist(err) {
			t.Fatalf("output is there already, or: %v", err)
		}
		r.restart()
		if st := r.ends(id); st.State != slotwisev1.JobState_JOB_STATE_SUCCEEDED {
			t.Errorf("job %v", st)
		}
		if b, err := os.ReadFile(filepath.Join(out, "part-r-00000")); string(b) != "result" {
			t.Errorf("output %q, error %v", b, err)
		}
	})
}

// TestRestartKeeps checks what else must outlive a master: requests, the policy,
// drained nodes, priorities and pools, files, its id, and time.
func TestRestartKeeps(t *testing.T) {
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

		// A job that has ended is still the one of its request; another
		// configuration goes before the policy that was installed.
		check(r.users.Kill(t.Context(), &slotwisev1.KillRequest{Job: "j1"}))
		r.ends("j1")
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
	})
}

// TestAbsentWorker restarts the master and lets a worker stay away: its work goes
// to another one after the time-out.
func TestAbsentWorker(t *testing.T) {
	r := newRig(t, Config{NodeTimeout: 300 * time.Millisecond})
	id := r.submit(r.spec(1, 0, ""))
	w := r.worker("w1", 1, 0)
	w.gets("j1_m_0_0")
	r.restart()
	w2 := r.worker("w2", 1, 0)
	w2.gets("j1_m_0_1")
	w2.beat(0, w2.done("j1_m_0_1"))
	r.ends(id)
}

// TestRestartInSubmit has a request come again whose output was staged by a master
// that died before it accepted the job: nothing of that is left.
func TestRestartInSubmit(t *testing.T) {
	r := newRig(t, Config{})
	dir := t.TempDir()
	req := &slotwisev1.SubmitRequest{RequestId: "again", Spec: r.spec(1, 0, filepath.Join(dir, "out"))}
	if err := stage(t.Context(), nil, req.Spec.Output, protocol.StagingToken(r.m.core.ID(), requestName(req.Spec.User, req.RequestId)), false); err != nil {
		t.Fatal(err)
	}
	r.restart()
	resp, err := r.users.Submit(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if staged, err := os.ReadDir(dir); err != nil || len(staged) != 1 {
		t.Errorf("staged: %v, %v", staged, err)
	}
	if _, err := r.users.Kill(t.Context(), &slotwisev1.KillRequest{Job: resp.Job}); err != nil {
		t.Fatal(err)
	}
	r.ends(resp.Job)
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestOneMaster starts a second master on a directory.
func TestOneMaster(t *testing.T) {
	r := newRig(t, Config{})
	if m, err := Open(r.cfg); err == nil {
		t.Error("a second master has the directory too")
		m.Close()
	}
}

// TestStoppedMaster asks a master that has been closed.
func TestStoppedMaster(t *testing.T) {
	r := newRig(t, Config{})
	if err := r.m.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.users.Jobs(t.Context(), &slotwisev1.JobsRequest{}); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("error %v", err)
	}
}

// TestEveryPrefix runs a job, then starts a master on each beginning of the
// journal: whatever it finds there, the job ends well with a new worker, or was
// never accepted.
func TestEveryPrefix(t *testing.T) {
	r := newRig(t, Config{})
	id := r.submit(r.spec(2, 1, ""))
	w := r.worker("w1", 2, 1)
	w.gets("j1_m_0_0")
	w.beat(0, w.failed("j1_m_0_0", "bad luck"))
	w.gets("j1_m_1_0")
	w.beat(0, w.done("j1_m_1_0"))
	w.gets("j1_m_0_1")
	w.beat(0, w.done("j1_m_0_1"))
	w.gets("j1_r_0_0")
	if resp, err := r.workers.AskCommit(t.Context(), &slotwisev1.AskCommitRequest{Session: w.session, Attempt: "j1_r_0_0"}); err != nil || !resp.Granted {
		t.Fatalf("%v, error %v", resp, err)
	}
	w.beat(0, w.done("j1_r_0_0"))
	r.ends(id)
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
			x.work("w1")
			if st := x.ends(id); st.State != slotwisev1.JobState_JOB_STATE_SUCCEEDED {
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

// work has a new worker do all there is to do.
func (r *rig) work(name string) {
	r.t.Helper()
	w := r.worker(name, 2, 1)
	for range 200 {
		var reports []*slotwisev1.Report
		for id := range w.running {
			reports = append(reports, w.done(id))
		}
		w.beat(20*time.Millisecond, reports...)
		list, err := r.users.Jobs(r.t.Context(), &slotwisev1.JobsRequest{})
		if err != nil {
			r.t.Fatal(err)
		}
		if len(list.Jobs) == 0 && len(w.running) == 0 {
			return
		}
	}
}

func journalRecords(t *testing.T, dir string) (records [][]byte) {
	t.Helper()
	l, err := journal.Open(filepath.Join(dir, "journal"), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for b, err := range l.Replay() {
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
