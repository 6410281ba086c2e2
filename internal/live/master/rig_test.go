package master

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/console"
	"github.com/slotwise/slotwise/internal/console/source"
	"github.com/slotwise/slotwise/internal/live/frames"
	"github.com/slotwise/slotwise/internal/live/pages"
	"github.com/slotwise/slotwise/internal/live/secure"
	"github.com/slotwise/slotwise/internal/testkit/clustertest"
	"google.golang.org/protobuf/proto"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
)

// rig is a master behind an HTTP server, with clients of both services.
type rig struct {
	t       *testing.T
	m       *Master
	srv     *httptest.Server
	cfg     Config
	users   slotwisev1connect.ClientServiceClient
	workers slotwisev1connect.WorkerServiceClient
	// closeCalls ends the connection of workers.
	closeCalls func()
}

func newRig(t *testing.T, cfg Config) *rig {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	cfg.Console = newConsole
	// A test that pauses on a busy machine sends no heartbeats and ends no attempts meanwhile, and simulations take longer.
	cfg.NodeTimeout, cfg.Grace, cfg.slack = cmp.Or(cfg.NodeTimeout, time.Hour), cmp.Or(cfg.Grace, 10*time.Minute), 10*time.Minute
	r := &rig{t: t, cfg: cfg}
	r.start()
	t.Cleanup(func() { r.stop() })
	return r
}

func (r *rig) start() {
	r.t.Helper()
	m, err := Open(r.cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	r.m = m
	r.srv = httptest.NewServer(new(secure.Guard).Wrap(m.Handler()))
	r.users = slotwisev1connect.NewClientServiceClient(r.srv.Client(), r.srv.URL)
	calls := frames.NewClient(r.srv.Client(), r.srv.URL)
	r.workers, r.closeCalls = calls, calls.Close
}

func (r *rig) stop() {
	if r.m == nil {
		return
	}
	r.srv.CloseClientConnections()
	r.closeCalls()
	if err := r.m.Close(); err != nil && !errors.Is(err, errPower) {
		r.t.Error(err)
	}
	r.srv.Close()
	r.m = nil
}

// put uploads content and returns its name.
func (r *rig) put(content string) string {
	r.t.Helper()
	sum := sha256.Sum256([]byte(content))
	sha := hex.EncodeToString(sum[:])
	if code := r.putAs(sha, content); code != http.StatusCreated && code != http.StatusNoContent {
		r.t.Fatalf("PUT: status %d", code)
	}
	return sha
}

func (r *rig) putAs(sha, content string) int {
	r.t.Helper()
	req, err := http.NewRequest(http.MethodPut, r.srv.URL+"/files/"+sha, strings.NewReader(content))
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := r.srv.Client().Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// spec returns a job. An output of "" means that it writes none.
func (r *rig) spec(maps, reduces int, output string) *slotwisev1.JobSpec {
	return &slotwisev1.JobSpec{
		Name: "test", User: "ann", Program: &slotwisev1.Program{Executable: r.put("program"), App: "x"},
		Synthetic: int32(maps), Reduces: int32(reduces), SlowStart: proto.Float64(1), Output: output,
	}
}

func (r *rig) submit(spec *slotwisev1.JobSpec) string {
	r.t.Helper()
	resp, err := r.users.Submit(r.t.Context(), &slotwisev1.SubmitRequest{RequestId: newToken(), Spec: spec})
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.Job
}

func (r *rig) job(id string) *slotwisev1.JobStatus {
	r.t.Helper()
	resp, err := r.users.Job(r.t.Context(), &slotwisev1.JobRequest{Job: id})
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.Job
}

// awaitEnd waits for a job's end and returns its final status.
func (r *rig) awaitEnd(id string) *slotwisev1.JobStatus {
	r.t.Helper()
	after := int64(-1)
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); {
		resp, err := r.users.Job(r.t.Context(), &slotwisev1.JobRequest{Job: id, After: after, WaitMs: 5000})
		if err != nil {
			r.t.Fatal(err)
		}
		if resp.Job.EndedMs > 0 {
			return resp.Job
		}
		after = resp.Job.Revision
	}
	r.t.Fatalf("job %s does not end: %v", id, r.job(id))
	return nil
}

// fakeWorker speaks the worker's side of the protocol, one step for each call. Its
// attempts run until the test ends them.
type fakeWorker struct {
	r        *rig
	name     string
	session  string
	seq      int64
	acked    int64
	dropJobs []string
	running  map[string]*slotwisev1.Launch
	started  []string // every launch, in order
	killed   []string
	dropped  []string
	outputs  map[string]bool // of maps that have succeeded here
}

func (r *rig) worker(name string, maps, reduces int) *fakeWorker {
	r.t.Helper()
	w := &fakeWorker{r: r, name: name, running: map[string]*slotwisev1.Launch{}, outputs: map[string]bool{}}
	w.register(maps, reduces)
	return w
}

func (w *fakeWorker) register(maps, reduces int) {
	w.r.t.Helper()
	req := &slotwisev1.RegisterRequest{
		Worker: w.name, Address: w.name + ":1", Host: "host-" + w.name, MapSlots: int32(maps), ReduceSlots: int32(reduces), Incarnation: "1",
	}
	for id := range w.running {
		req.Running = append(req.Running, id)
	}
	for id := range w.outputs {
		req.Outputs = append(req.Outputs, &slotwisev1.HeldOutput{Attempt: id, Bytes: 1})
	}
	resp, err := w.r.workers.Register(w.r.t.Context(), req)
	if err != nil {
		w.r.t.Fatal(err)
	}
	w.session, w.seq, w.acked, w.dropJobs = resp.Session, 0, 0, resp.DropJobs
}

// heartbeat sends a heartbeat with reports and carries out the answer's actions.
func (w *fakeWorker) heartbeat(wait time.Duration, reports ...*slotwisev1.Report) *slotwisev1.HeartbeatResponse {
	w.r.t.Helper()
	w.seq++
	resp, err := w.send(w.r.t.Context(), w.seq, wait, reports...)
	if err != nil {
		w.r.t.Fatal(err)
	}
	w.carryOut(resp)
	return resp
}

func (w *fakeWorker) send(ctx context.Context, seq int64, wait time.Duration, reports ...*slotwisev1.Report) (*slotwisev1.HeartbeatResponse, error) {
	for id := range w.running {
		reports = append(reports, &slotwisev1.Report{Attempt: id, State: slotwisev1.AttemptState_ATTEMPT_STATE_RUNNING})
	}
	return w.r.workers.Heartbeat(ctx, &slotwisev1.HeartbeatRequest{
		Session: w.session, Seq: seq, Acked: w.acked, Reports: reports, WaitMs: wait.Milliseconds(),
	})
}

// carryOut carries actions out, but for repeated ones.
func (w *fakeWorker) carryOut(resp *slotwisev1.HeartbeatResponse) {
	for _, a := range resp.Actions {
		if a.Number <= w.acked {
			continue
		}
		w.acked = a.Number
		switch what := a.What.(type) {
		case *slotwisev1.Action_Launch:
			w.running[what.Launch.Attempt] = what.Launch
			w.started = append(w.started, what.Launch.Attempt)
		case *slotwisev1.Action_Kill:
			delete(w.running, what.Kill.Attempt)
			delete(w.outputs, what.Kill.Attempt)
			w.killed = append(w.killed, what.Kill.Attempt)
		case *slotwisev1.Action_DropJob:
			w.dropped = append(w.dropped, what.DropJob)
		}
	}
}

// awaitLaunch sends heartbeats until the attempt was launched here.
func (w *fakeWorker) awaitLaunch(attempt string) {
	w.r.t.Helper()
	clustertest.Eventually(w.r.t, w.name+" runs "+attempt, func() bool {
		if w.running[attempt] == nil {
			w.heartbeat(100 * time.Millisecond)
		}
		return w.running[attempt] != nil
	})
}

// succeeded ends an attempt and returns the report of its success.
func (w *fakeWorker) succeeded(attempt string) *slotwisev1.Report {
	delete(w.running, attempt)
	w.outputs[attempt] = true
	return &slotwisev1.Report{
		Attempt: attempt, State: slotwisev1.AttemptState_ATTEMPT_STATE_SUCCEEDED, Progress: 1, OutputBytes: 1,
		Counters: &slotwisev1.Counters{InputRecords: 10},
	}
}

func (w *fakeWorker) failed(attempt, why string) *slotwisev1.Report {
	delete(w.running, attempt)
	return &slotwisev1.Report{Attempt: attempt, State: slotwisev1.AttemptState_ATTEMPT_STATE_FAILED, Error: why}
}

// commit asks for permission to commit and writes a part file of the attempt. It
// returns false if the permission is denied.
func (w *fakeWorker) commit(jobID, attempt, part, content string) bool {
	w.r.t.Helper()
	resp, err := w.r.workers.AskCommit(w.r.t.Context(), &slotwisev1.AskCommitRequest{Session: w.session, Attempt: attempt})
	if err != nil {
		w.r.t.Fatal(err)
	}
	if !resp.Granted {
		return false
	}
	j, err := w.r.workers.JobForWorker(w.r.t.Context(), &slotwisev1.JobForWorkerRequest{Session: w.session, Job: jobID})
	if err != nil {
		w.r.t.Fatal(err)
	}
	fs, path, err := w.r.cfg.Schemes.Resolve(j.Spec.Output)
	if err != nil {
		w.r.t.Fatal(err)
	}
	s, err := fs.Reopen(w.r.t.Context(), path, j.Staging)
	if err != nil {
		w.r.t.Fatal(err)
	}
	f, err := s.Create(w.r.t.Context(), part)
	if err == nil {
		_, err = f.Write([]byte(content))
	}
	if err == nil {
		err = f.Commit()
	}
	if err != nil {
		w.r.t.Fatal(err)
	}
	return true
}

// newConsole is the Config.Console of the command.
func newConsole(ctx context.Context, s source.Source, a source.Actor) (http.Handler, func()) {
	c := console.New(ctx, s, a, pages.Visitor, "")
	return c, c.Follow
}
