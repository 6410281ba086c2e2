package master

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/live/secure"
	"github.com/slotwise/slotwise/internal/testkit/clustertest"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// TestJob runs a job of two maps and a reduce on a fake worker: launches, map outputs,
// permission to commit, the published output, and the order to remove the job's files.
func TestJob(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	out := filepath.Join(t.TempDir(), "out")
	id := r.submit(r.spec(2, 1, out))
	w := r.worker("w1", 2, 1)
	w.awaitLaunch("j1_m_0_0")
	w.awaitLaunch("j1_m_1_0")
	ask := &slotwisev1.MapOutputsRequest{Session: w.session, Job: id}
	first, err := r.workers.MapOutputs(t.Context(), ask)
	if err != nil || !first.Reset_ || len(first.Outputs) != 0 {
		t.Fatalf("%v, error %v", first, err)
	}
	w.heartbeat(0, w.succeeded("j1_m_0_0"), w.succeeded("j1_m_1_0"))
	ask.Cursor, ask.WaitMs = first.Cursor, 10_000
	second, err := r.workers.MapOutputs(t.Context(), ask)
	if err != nil || second.Reset_ || len(second.Outputs) != 2 || second.Outputs[0].Address != "w1:1" {
		t.Fatalf("%v, error %v", second, err)
	}
	w.awaitLaunch("j1_r_0_0")
	if !w.commit(id, "j1_r_0_0", "part-r-00000", "result") {
		t.Fatal("the commit was denied")
	}
	w.heartbeat(0, w.succeeded("j1_r_0_0"))
	st := r.awaitEnd(id)
	if st.State != slotwisev1.JobState_JOB_STATE_SUCCEEDED || st.MapCounters.InputRecords != 20 || st.Maps.Done != 2 {
		t.Errorf("job %v", st)
	}
	if b, err := os.ReadFile(filepath.Join(out, "part-r-00000")); string(b) != "result" {
		t.Errorf("output %q, error %v", b, err)
	}
	clustertest.Eventually(t, "a job is dropped", func() bool { w.heartbeat(time.Second); return len(w.dropped) > 0 })
	if !slices.Equal(w.dropped, []string{"j1"}) {
		t.Errorf("jobs dropped: %v", w.dropped)
	}
	over, err := r.workers.MapOutputs(t.Context(), ask)
	if err != nil || !over.Ended {
		t.Errorf("map outputs of an ended job: %v, error %v", over, err)
	}
}

// TestLateRegister delivers registrations after later ones. They are refused and change
// nothing.
func TestLateRegister(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	register := func(incarnation string, number int64) (string, connect.Code) {
		resp, err := r.workers.Register(t.Context(), &slotwisev1.RegisterRequest{
			Worker: "w1", Address: "w1:1", MapSlots: 1, Incarnation: incarnation, Number: number,
		})
		if err != nil {
			return "", connect.CodeOf(err)
		}
		return resp.Session, 0
	}
	session := ""
	for _, step := range []struct {
		incarnation string
		number      int64
		late        bool
	}{
		{"a", 1, false}, {"a", 3, false}, {"a", 2, true}, {"a", 3, true}, {"a", 0, false}, // a worker that does not number its registrations
		{"b", 1, false}, {"a", 9, true}, {"c", 1, false}, {"b", 2, true}, {"a", 9, true}, {"c", 2, false}, {"", 0, false},
	} {
		got, code := register(step.incarnation, step.number)
		if (code == connect.CodeAborted) != step.late || !step.late && got == "" {
			t.Errorf("%+v: session %q, code %v", step, got, code)
		}
		if got != "" {
			session = got
		}
		resp, err := r.workers.Heartbeat(t.Context(), &slotwisev1.HeartbeatRequest{Session: session, Seq: 1})
		if err != nil || resp.RegisterAgain {
			t.Errorf("after %+v the session is over: %v, error %v", step, resp, err)
		}
	}
}

// TestRepetition repeats and reorders messages as a network may: actions that are not
// acknowledged, reports, heartbeats that were overtaken, and ended sessions.
func TestRepetition(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	id := r.submit(r.spec(3, 0, ""))
	w := r.worker("w1", 2, 0)

	// The answer is lost. The next one repeats the actions under the same numbers.
	lost, err := w.send(t.Context(), 1, 0)
	if err != nil || len(lost.Actions) != 2 {
		t.Fatalf("%v, error %v", lost, err)
	}
	w.seq = 1
	again := w.heartbeat(0)
	if len(again.Actions) != 2 || again.Actions[0].Number != 1 || again.Actions[1].Number != 2 {
		t.Fatalf("again: %v", again)
	}
	if next := w.heartbeat(0); len(next.Actions) != 0 {
		t.Fatalf("acknowledged actions came again: %v", next)
	}

	// A report that arrives three times counts once, also if one of the heartbeats was
	// overtaken.
	report := w.succeeded("j1_m_0_0")
	w.heartbeat(0, report)
	w.heartbeat(0, report)
	if _, err := w.send(t.Context(), 1, 0, report); err != nil {
		t.Fatal(err)
	}
	if st := r.job(id); st.Maps.Done != 1 || st.MapCounters.InputRecords != 10 {
		t.Errorf("after one success was reported three times: %v", st)
	}
	w.awaitLaunch("j1_m_2_0")

	// A held heartbeat is answered without actions when another one that waits arrives. One that does not
	// wait would leave it held for the minute that it asks for.
	held := make(chan *slotwisev1.HeartbeatResponse, 1)
	w.seq++
	go func(seq int64) {
		resp, err := w.send(t.Context(), seq, time.Minute)
		if err != nil {
			t.Error(err)
		}
		held <- resp
	}(w.seq)
	clustertest.Eventually(t, "the heartbeat is held", func() bool {
		n, err := query(t.Context(), r.m, func() (int, error) { _, n := r.m.core.Held(); return n, nil })
		return err == nil && n == 1
	})
	w.heartbeat(time.Millisecond)
	if resp := <-held; resp.RegisterAgain || len(resp.Actions) > 0 {
		t.Errorf("the held one got %v", resp)
	}

	// A second registration ends the first session, and its attempts start again.
	old := w.session
	w.running = map[string]*slotwisev1.Launch{}
	w.register(2, 0)
	resp, err := r.workers.Heartbeat(t.Context(), &slotwisev1.HeartbeatRequest{Session: old, Seq: 99})
	if err != nil || !resp.RegisterAgain {
		t.Errorf("the old session got %v, error %v", resp, err)
	}
	if _, err := r.workers.AskCommit(t.Context(), &slotwisev1.AskCommitRequest{Session: old, Attempt: "j1_m_1_0"}); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("commit in an old session: %v", err)
	}
	w.awaitLaunch("j1_m_1_1")
	w.awaitLaunch("j1_m_2_1")
	w.heartbeat(0, w.succeeded("j1_m_1_1"), w.succeeded("j1_m_2_1"))
	if st := r.awaitEnd(id); st.State != slotwisev1.JobState_JOB_STATE_SUCCEEDED {
		t.Errorf("job %v", st)
	}
}

// TestPush holds a heartbeat of an idle worker and submits a job, whose launch must be
// the answer at once.
func TestPush(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{Heartbeat: time.Minute})
	w := r.worker("w1", 1, 0)
	got := make(chan *slotwisev1.HeartbeatResponse, 1)
	go func() {
		resp, err := w.send(t.Context(), 1, time.Minute)
		if err != nil {
			t.Error(err)
		}
		got <- resp
	}()
	r.submit(r.spec(1, 0, ""))
	select {
	case resp := <-got:
		if len(resp.Actions) != 1 || resp.Actions[0].GetLaunch().GetAttempt() != "j1_m_0_0" {
			t.Errorf("got %v", resp)
		}
	case <-time.After(4 * time.Minute):
		t.Fatal("nothing within four minutes")
	}
}

// TestRequestID submits the same request many times at once, which must make one job.
func TestRequestID(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	out := filepath.Join(t.TempDir(), "out")
	req := &slotwisev1.SubmitRequest{RequestId: "r1", Spec: r.spec(1, 0, out)}
	results := make(chan string, 8)
	for range cap(results) {
		go func() {
			resp, err := r.users.Submit(t.Context(), req)
			if err != nil {
				t.Error(err)
			}
			results <- resp.GetJob()
		}()
	}
	for range cap(results) {
		if id := <-results; id != "j1" {
			t.Errorf("job %q", id)
		}
	}
	req.RequestId, req.Spec.Output = "r2", out+"2"
	if resp, err := r.users.Submit(t.Context(), req); err != nil || resp.Job != "j2" {
		t.Errorf("another request: %v, error %v", resp, err)
	}
}

// TestFailure fails a task too often: the job fails with the last error, and its
// staging directory is removed.
func TestFailure(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	dir := t.TempDir()
	spec := r.spec(1, 0, filepath.Join(dir, "out"))
	spec.MaxAttempts = 2
	id := r.submit(spec)
	w := r.worker("w1", 1, 0)
	w.awaitLaunch("j1_m_0_0")
	w.heartbeat(0, w.failed("j1_m_0_0", "bad luck"))
	w.awaitLaunch("j1_m_0_1")
	w.heartbeat(0, w.failed("j1_m_0_1", "bad luck"))
	st := r.awaitEnd(id)
	if st.State != slotwisev1.JobState_JOB_STATE_FAILED || !strings.Contains(st.Message, "bad luck") || st.Maps.Failed != 2 || st.LastError != "j1_m_0_1: bad luck" {
		t.Errorf("job %v", st)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, error %v", left, err)
	}
}

// TestKill kills a job whose attempt ends late: the output is removed only after that.
func TestKill(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	dir := t.TempDir()
	id := r.submit(r.spec(1, 0, filepath.Join(dir, "out")))
	w := r.worker("w1", 1, 0)
	w.awaitLaunch("j1_m_0_0")
	if _, err := r.users.Kill(t.Context(), &slotwisev1.KillRequest{Job: id, Reason: "enough"}); err != nil {
		t.Fatal(err)
	}
	clustertest.Eventually(t, "the attempt is killed", func() bool { w.heartbeat(time.Second); return slices.Contains(w.killed, "j1_m_0_0") })
	if st := r.job(id); st.State != slotwisev1.JobState_JOB_STATE_COMMITTING {
		t.Errorf("with its attempt alive the job is %v", st.State)
	}
	w.heartbeat(0, &slotwisev1.Report{Attempt: "j1_m_0_0", State: slotwisev1.AttemptState_ATTEMPT_STATE_KILLED})
	if st := r.awaitEnd(id); st.State != slotwisev1.JobState_JOB_STATE_KILLED || st.Message != "enough" {
		t.Errorf("job %v", st)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, error %v", left, err)
	}
}

// TestLeaving lets a worker leave in order: its task runs on another worker at once.
func TestLeaving(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	id := r.submit(r.spec(1, 0, ""))
	w1 := r.worker("w1", 1, 0)
	w1.awaitLaunch("j1_m_0_0")
	resp, err := r.workers.Heartbeat(t.Context(), &slotwisev1.HeartbeatRequest{Session: w1.session, Seq: 9, Draining: true, Leaving: true})
	if err != nil || !resp.RegisterAgain {
		t.Fatalf("%v, error %v", resp, err)
	}
	w2 := r.worker("w2", 1, 0)
	w2.awaitLaunch("j1_m_0_1")
	w2.heartbeat(0, w2.succeeded("j1_m_0_1"))
	r.awaitEnd(id)
}

// TestFiles uploads files under their SHA-256 and under wrong names.
func TestFiles(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{Limits: Limits{File: 100}})
	sha := r.put("hello")
	r.put("hello")
	for _, c := range []struct {
		name, content string
		code          int
	}{
		{sha[:63] + "0", "hello", http.StatusBadRequest},
		{strings.ToUpper(sha), "hello", http.StatusBadRequest},
		{"..%2f..%2fx", "hello", http.StatusBadRequest},
		{strings.Repeat("0", 64), strings.Repeat("x", 101), http.StatusRequestEntityTooLarge},
	} {
		if code := r.putAs(c.name, c.content); code != c.code {
			t.Errorf("PUT %s: status %d, want %d", c.name, code, c.code)
		}
	}
	entries, err := os.ReadDir(filepath.Join(r.cfg.Dir, "files"))
	if err != nil || len(entries) != 1 || entries[0].Name() != sha {
		t.Errorf("files %v, error %v", entries, err)
	}
	spec := r.spec(1, 0, "")
	spec.Program.Executable = strings.Repeat("0", 64)
	_, err = r.users.Submit(t.Context(), &slotwisev1.SubmitRequest{RequestId: "x", Spec: spec})
	if connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("a job whose program is missing: %v", err)
	}
}

// TestLimits exceeds each limit. A user who is alone may hold half of what users share.
func TestLimits(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{Limits: Limits{Jobs: 4, JobTasks: 10, Tasks: 24, Nodes: 1, Waiting: 1, SlotsPerNode: 4}})
	submit := func(maps int) error {
		_, err := r.users.Submit(t.Context(), &slotwisev1.SubmitRequest{RequestId: newToken(), Spec: r.spec(maps, 0, "")})
		return err
	}
	for _, x := range []struct {
		what string
		err  error
		want connect.Code
	}{
		{"a job of 11 tasks", submit(11), connect.CodeResourceExhausted},
		{"a job of 10", submit(10), 0},
		{"3 tasks more", submit(3), connect.CodeResourceExhausted},
		{"2 tasks more", submit(2), 0},
		{"a third job", submit(0), connect.CodeResourceExhausted},
	} {
		if x.err == nil && x.want != 0 || x.err != nil && connect.CodeOf(x.err) != x.want {
			t.Errorf("%s: %v", x.what, x.err)
		}
	}
	r.worker("w1", 4, 0)
	for _, w := range []*slotwisev1.RegisterRequest{
		{Worker: "w2", MapSlots: 1}, {Worker: "w1", MapSlots: 5}, {Worker: "a/b"}, {Worker: ""}, {Worker: "w1", Running: []string{"x"}},
	} {
		if _, err := r.workers.Register(t.Context(), w); err == nil {
			t.Errorf("%v was let in", w)
		}
	}

	// Only one request may wait for a change. The next one is answered at once.
	waits := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	long := &slotwisev1.JobRequest{Job: "j2", After: 1 << 60, WaitMs: 60_000}
	go func() { _, err := r.users.Job(ctx, long); waits <- err }()
	clustertest.Eventually(t, "one waits", func() bool {
		n, err := query(t.Context(), r.m, func() (int, error) { n, _ := r.m.core.Held(); return n, nil })
		return err == nil && n == 1
	})
	if resp, err := r.users.Job(t.Context(), long); err != nil || resp.Job.Id != "j2" {
		t.Errorf("%v, error %v", resp, err)
	}
	stop()
	<-waits
	clustertest.Eventually(t, "nobody waits", func() bool {
		n, err := query(t.Context(), r.m, func() (int, error) { n, _ := r.m.core.Held(); return n, nil })
		return err == nil && n == 0
	})
}

// TestHadoopFiles changes a file of pools while the master runs, and changes the policy
// to one that does not use the file and back.
func TestHadoopFiles(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "fair.xml")
	write := func(limit string) {
		t.Helper()
		text := "<allocations><pool name=\"ann\"><maxMaps>" + limit + "</maxMaps></pool></allocations>"
		if err := errors.Join(os.WriteFile(file+".new", []byte(text), 0o644), os.Rename(file+".new", file)); err != nil {
			t.Fatal(err)
		}
	}
	write("none at all")
	if m, err := Open(Config{Dir: t.TempDir(), Policy: "fair", FairScheduler: file}); err == nil {
		m.Close()
		t.Error("a bad file is accepted at the start")
	}
	write("1")
	r := newRig(t, Config{Policy: "fair", FairScheduler: file, Reload: 5 * time.Millisecond})
	r.submit(r.spec(4, 0, ""))
	w := r.worker("w1", 4, 0)
	runs := func(n int) {
		t.Helper()
		clustertest.Eventually(t, fmt.Sprint(n, " maps run"), func() bool {
			w.heartbeat(5 * time.Millisecond)
			return len(w.running) == n
		})
	}
	runs(1)
	write("2")
	runs(2)
	for _, p := range []string{"fifo", "fair"} {
		if _, err := r.users.SetPolicy(t.Context(), &slotwisev1.SetPolicyRequest{Name: p}); err != nil {
			t.Fatal(err)
		}
	}
	write("3")
	clustertest.Eventually(t, "three maps or more run", func() bool {
		w.heartbeat(5 * time.Millisecond)
		return len(w.running) >= 3
	})
}

// Both of Hadoop's files are given: each policy finds its own when it is installed, and the one that no
// file is for finds none. On three masters they come into force with each new leader.
func TestBothHadoopFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pools, queues := filepath.Join(dir, "fair.xml"), filepath.Join(dir, "capacity.xml")
	if err := errors.Join(os.WriteFile(pools, []byte(`<allocations><pool name="ann"><maxMaps>1</maxMaps></pool></allocations>`), 0o600),
		os.WriteFile(queues, []byte(`<configuration><property><name>mapred.capacity-scheduler.queue.ann.capacity</name><value>100</value></property></configuration>`), 0o600)); err != nil {
		t.Fatal(err)
	}
	log := &logText{}
	seats := newSeats(t, func(c *Config) {
		c.Policy, c.FairScheduler, c.CapacityScheduler, c.Reload = "fair", pools, queues, time.Hour
		c.Log = slog.New(slog.NewTextHandler(log, nil))
	})
	// oneRuns ends the attempts of a worker with four slots until one map runs afterwards: the files are read soon
	// after the leader begins. Then no second one starts.
	oneRuns := func(w *fakeWorker) {
		t.Helper()
		eventually(t, func() bool {
			for id := range w.running {
				w.heartbeat(0, w.succeeded(id))
			}
			w.heartbeat(50 * time.Millisecond)
			w.heartbeat(50 * time.Millisecond)
			return len(w.running) == 1
		})
		time.Sleep(50 * time.Millisecond)
		if w.heartbeat(5 * time.Millisecond); len(w.running) != 1 {
			t.Errorf("%d maps run, and the pool may have one", len(w.running))
		}
	}
	first := leader(t, seats)
	r := rigOf(t, first)
	r.submit(&slotwisev1.JobSpec{Name: "x", User: "ann", Pool: "ann", Program: &slotwisev1.Program{App: "x"}, Synthetic: 400})
	w := r.worker("w1", 4, 0)
	oneRuns(w)
	for _, p := range []string{"fifo", "capacity"} {
		if _, err := r.users.SetPolicy(t.Context(), &slotwisev1.SetPolicyRequest{Name: p}); err != nil {
			t.Fatal(err)
		}
	}
	if resp, err := r.users.Policy(t.Context(), &slotwisev1.PolicyRequest{}); err != nil || resp.Name != "capacity" || resp.Set["queues"] == "" {
		t.Errorf("the queues are not in force: %v, %v", resp, err)
	}
	if _, err := r.users.SetPolicy(t.Context(), &slotwisev1.SetPolicyRequest{Name: "fair"}); err != nil {
		t.Fatal(err)
	}
	if text := log.String(); strings.Contains(text, ".xml") || strings.Contains(text, "not in force") {
		t.Errorf("a file that waits for its policy is reported:\n%s", text)
	}
	first.crash()
	w.r = rigOf(t, leader(t, seats))
	eventually(t, func() bool {
		_, err := w.r.users.Jobs(t.Context(), &slotwisev1.JobsRequest{})
		return err == nil
	})
	w.register(4, 0)
	oneRuns(w)
}

// TestRacks registers a worker that does not name its rack, which the topology knows.
func TestRacks(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{Rack: func(host string) string { return "/rack-of-" + host }})
	r.worker("w1", 1, 0)
	resp, err := r.users.Nodes(t.Context(), &slotwisev1.NodesRequest{})
	if err != nil || len(resp.Nodes) != 1 || resp.Nodes[0].Rack != "/rack-of-host-w1" {
		t.Errorf("nodes %v, error %v", resp, err)
	}
}

// TestMetrics reads the metrics and health checks.
func TestMetrics(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{Version: "v1"})
	r.submit(r.spec(3, 0, ""))
	r.worker("w1", 1, 0).awaitLaunch("j1_m_0_0")
	get := func(path string) string {
		t.Helper()
		resp, err := r.srv.Client().Get(r.srv.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: status %d, error %v", path, resp.StatusCode, err)
		}
		return string(b)
	}
	if got := get("/healthz") + get("/readyz"); got != "ok\nok\n" {
		t.Errorf("health: %q", got)
	}
	text := get("/metrics")
	for _, line := range []string{
		`slotwise_master_info{policy="fifo",version="v1"} 1`,
		`slotwise_master_nodes{state="alive"} 1`,
		`slotwise_master_jobs{state="running"} 1`,
		`slotwise_master_slots_used{kind="map"} 1`,
		`slotwise_master_tasks_pending{kind="map"} 2`,
		`slotwise_master_attempts_launched_total 1`,
		`slotwise_master_pool_slots_used{pool="ann"} 1`,
		`slotwise_master_pool_tasks_pending{pool="ann"} 2`,
		`slotwise_master_user_slots_used{user="ann"} 1`,
		`slotwise_master_user_tasks_pending{user="ann"} 2`,
		`slotwise_master_nodes{state="graylisted"} 0`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no %s in\n%s", line, text)
		}
	}
	if !strings.Contains(text, "slotwise_master_batch_seconds_count") || !strings.Contains(text, "slotwise_master_journal_sync_seconds_count") {
		t.Error("no histograms")
	}
	if runtime.GOOS == "linux" && !strings.Contains(text, "\nprocess_resident_memory_bytes ") {
		t.Error("no memory of the master's process")
	}
}

// TestFilesSwept fills the store: files that no job needs make room, the least recently
// used first; files that a job needs stay. The one user has half of the room.
func TestFilesSwept(t *testing.T) {
	t.Parallel()
	const unit = bounds.FileCost
	r := newRig(t, Config{Limits: Limits{Files: 12 * unit}})
	id := r.submit(r.spec(1, 0, "")) // needs "program", which counts as one unit
	program, old, older := r.put("program"), r.put(strings.Repeat("b", 2*unit)), r.put(strings.Repeat("c", 2*unit))
	files := &r.m.files.mu
	files.Lock()
	for i, sha := range []string{older, old, program} {
		f := files.files[sha]
		f.used = time.Now().Add(time.Duration(i)*time.Minute - 3*time.Hour)
		files.files[sha] = f
	}
	files.Unlock()
	there := func(sha string) bool {
		_, err := os.Stat(filepath.Join(r.cfg.Dir, "files", sha))
		return err == nil
	}
	r.put(strings.Repeat("d", 2*unit))
	if there(older) || !there(old) || !there(program) {
		t.Errorf("after the first: %v %v %v", there(older), there(old), there(program))
	}
	sum := sha256.Sum256([]byte(strings.Repeat("e", 4*unit)))
	if code := r.putAs(hex.EncodeToString(sum[:]), strings.Repeat("e", 4*unit)); code != http.StatusInsufficientStorage {
		t.Errorf("beyond what there is room for: status %d", code)
	}
	if there(old) || !there(program) {
		t.Errorf("after the second: %v %v", there(old), there(program))
	}
	if _, err := r.users.Kill(t.Context(), &slotwisev1.KillRequest{Job: id}); err != nil {
		t.Fatal(err)
	}
	r.awaitEnd(id)
	// The job's files are released when its end is in the history, a moment later.
	code := 0
	clustertest.Eventually(t, "there is room", func() bool {
		code = r.putAs(hex.EncodeToString(sum[:]), strings.Repeat("e", 4*unit))
		return code != http.StatusInsufficientStorage
	})
	if code != http.StatusCreated || there(program) {
		t.Errorf("once the job has ended: status %d, %v", code, there(program))
	}
}

// TestAccess sends requests of users without the permission.
func TestAccess(t *testing.T) {
	t.Parallel()
	m, err := Open(Config{Dir: t.TempDir(), Access: secure.Rules{Pools: map[string]secure.Pool{"prod": {Submit: []string{"ann", "@ops"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	as := func(user string, groups ...string) context.Context {
		id := secure.Identity{User: user, Groups: groups, Role: secure.User}
		switch user {
		case "root":
			id.Role = secure.Admin
		case "w1":
			id.Role = secure.Worker
		}
		return secure.With(t.Context(), id)
	}
	c := clientService{m}
	program := &slotwisev1.Program{App: "x"}
	submit := func(ctx context.Context, user, pool string) error {
		_, err := c.Submit(ctx, &slotwisev1.SubmitRequest{RequestId: newToken(), Spec: &slotwisev1.JobSpec{
			User: user, Pool: pool, Program: program, Synthetic: 1,
		}})
		return err
	}
	for _, x := range []struct {
		what string
		err  error
		code connect.Code
	}{
		{"ann in prod", submit(as("ann"), "", "prod"), 0},
		{"bob in prod", submit(as("bob"), "", "prod"), connect.CodePermissionDenied},
		{"bob of ops in prod", submit(as("bob", "ops"), "", "prod"), 0},
		{"bob as ann", submit(as("bob"), "ann", ""), connect.CodePermissionDenied},
		{"root as ann", submit(as("root"), "ann", ""), 0},
	} {
		if got := connect.CodeOf(x.err); x.err != nil && got != x.code || x.err == nil && x.code != 0 {
			t.Errorf("%s: %v", x.what, x.err)
		}
	}
	_, err = c.Kill(as("bob"), &slotwisev1.KillRequest{Job: "j1"})
	if connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("bob kills ann's job: %v", err)
	}
	for job, reason := range map[string]string{"j1": "", "j2": "too old"} {
		who, want := "ann", "killed by ann"
		if reason != "" {
			who, want = "root", "killed by root: too old"
		}
		if _, err = c.Kill(as(who), &slotwisev1.KillRequest{Job: job, Reason: reason}); err != nil {
			t.Error(err)
		}
		if resp, err := c.Job(as("root"), &slotwisev1.JobRequest{Job: job}); err != nil || resp.Job.Message != want {
			t.Errorf("%s, killed by %s: %v %v, want %q", job, who, resp, err, want)
		}
	}
	_, err = c.SetPolicy(as("ann"), &slotwisev1.SetPolicyRequest{Name: "fair"})
	if connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("ann sets the policy: %v", err)
	}
	accessByRole(t, m, as)
}

// accessByRole sends requests that are reserved for one role.
func accessByRole(t *testing.T, m *Master, as func(string, ...string) context.Context) {
	for _, x := range []struct {
		user, method, path string
		status             int
	}{
		{"ann", "POST", "/slotwise.v1.WorkerService/Register", http.StatusForbidden},
		{"root", "POST", "/slotwise.v1.WorkerService/MapOutputs", http.StatusForbidden},
		{"w1", "POST", "/slotwise.v1.ClientService/Jobs", http.StatusForbidden},
		{"ann", "POST", "/slotwise.v1.ClientService/Jobs", http.StatusOK},
		{"w1", "PUT", "/files/" + strings.Repeat("0", 64), http.StatusForbidden},
		{"w1", "GET", "/files/" + strings.Repeat("0", 64), http.StatusNotFound},
	} {
		r := httptest.NewRequestWithContext(as(x.user), x.method, x.path, strings.NewReader("{}"))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, r)
		if w.Code != x.status {
			t.Errorf("%s %s as %s: %d, want %d: %s", x.method, x.path, x.user, w.Code, x.status, w.Body)
		}
	}
	r := httptest.NewRequest("POST", "/slotwise.v1.ClientService/Jobs", strings.NewReader("{}"))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, r)
	if w.Code != http.StatusForbidden {
		t.Errorf("without a guard: %d", w.Code)
	}
}

// TestLongErrors sends long texts with characters of several bytes. They must not be
// cut within a character, because the journal and the answers cannot hold half a character.
func TestLongErrors(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{Grace: time.Millisecond})
	w := r.worker("w1", 4, 0)
	for i := range 3 {
		id := r.submit(r.spec(1, 0, ""))
		attempt := id + "_m_0_0"
		w.awaitLaunch(attempt)
		w.heartbeat(0, w.failed(attempt, strings.Repeat("x", i)+strings.Repeat("€", bounds.Text)))
		reason := strings.Repeat("y", i) + strings.Repeat("€", bounds.Text)
		if _, err := r.users.Kill(t.Context(), &slotwisev1.KillRequest{Job: id, Reason: reason}); err != nil {
			t.Fatal(err)
		}
		if st := r.awaitEnd(id); st.State != slotwisev1.JobState_JOB_STATE_KILLED || !strings.Contains(st.Message, "€€") {
			t.Errorf("job %v", st)
		}
	}
}

// TestHistoryOfNonsense: an id that is no chain's is refused as such; one of an unknown
// chain is not found.
func TestHistoryOfNonsense(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	for id, want := range map[string]connect.Code{"chain-x": connect.CodeInvalidArgument, "chain-0": connect.CodeInvalidArgument, "chain-9": connect.CodeNotFound} {
		_, err := r.users.History(t.Context(), &slotwisev1.HistoryRequest{Job: id})
		if got := connect.CodeOf(err); got != want {
			t.Errorf("the history of %s: %v, want %v", id, err, want)
		}
		if _, err := r.users.Explain(t.Context(), &slotwisev1.ExplainRequest{Job: id}); connect.CodeOf(err) != want {
			t.Errorf("the explanation of %s: %v, want %v", id, err, want)
		}
	}
}

// TestAllDrained checks the wait reason of a job while all workers are drained.
func TestAllDrained(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.worker("w1", 1, 0)
	drain := func(undo bool) {
		if _, err := r.users.Drain(t.Context(), &slotwisev1.DrainRequest{Node: "w1", Undo: undo}); err != nil {
			t.Fatal(err)
		}
	}
	const words = "takes new work: 1 drained"
	drain(false)
	id := r.submit(r.spec(1, 0, ""))
	if st := r.job(id); !strings.Contains(st.Waiting, words) {
		t.Errorf("job %v", st)
	}
	why, err := r.users.Explain(t.Context(), &slotwisev1.ExplainRequest{Job: id})
	if err != nil || !strings.Contains(why.Why[0].Words, words) {
		t.Errorf("%v, error %v", why, err)
	}
	drain(true)
	if st := r.job(id); strings.Contains(st.Waiting, words) {
		t.Errorf("job %v", st)
	}
}
