package worker_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/live/worker"
	"github.com/slotwise/slotwise/internal/testkit/clustertest"
	"github.com/slotwise/slotwise/internal/testkit/frametest"
	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/mapreduce/remote"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// TestMain lets the test binary serve as the executable of attempts, too.
func TestMain(m *testing.M) {
	mapreduce.RunAttempt(func(name string) (*mapreduce.App, error) { return nil, errors.New("no app " + name) }, remote.Client())
	clustertest.ManyAtOnce()
	os.Exit(m.Run())
}

// fakeMaster is a master under the control of a test. It serves the actions and jobs
// that the test sets up and records the worker's messages.
type fakeMaster struct {
	most   int // bytes of a message
	t      *testing.T
	dir    string
	addr   string
	server *http.Server
	end    func()            // of the connections that have left HTTP
	files  map[string]string // by hash

	mu struct {
		sync.Mutex
		changed   chan struct{}
		id        string
		session   int
		registers []*slotwisev1.RegisterRequest
		answer    *slotwisev1.RegisterResponse // drop and kill of the next registration
		actions   []*slotwisev1.Action
		acked     int64
		fail      int // number of heartbeats to leave unanswered
		again     bool
		hostile   bool                          // no session lasts
		key       []byte                        // of all sessions; nil is a master without authentication
		owner     string                        // of jobs set up from now on
		reports   map[string]*slotwisev1.Report // the last
		ends      map[string]int                // how often an end was reported
		beat      *slotwisev1.HeartbeatRequest
		held      *slotwisev1.HeartbeatRequest // the last one with a wait
		driver    *slotwisev1.DriverReport     // the last
		jobs      map[string]*slotwisev1.JobForWorkerResponse
		where     []*slotwisev1.MapOutput
		grants    map[string]bool
		asking    int // requests to commit that are being answered, and the most at one time
		mostAsked int
		kept      []*slotwisev1.EndedLog
		full      []string // the answer to each KeepLogs
	}
}

func newFakeMaster(t *testing.T) *fakeMaster { return newFakeMasterWith(t, 64<<20) }

// newFakeMasterWith starts a master that takes messages of at most a number of bytes.
func newFakeMasterWith(t *testing.T, most int) *fakeMaster {
	m := &fakeMaster{t: t, dir: t.TempDir(), addr: clustertest.LoopbackHost() + ":0", files: map[string]string{}, most: most}
	m.mu.changed = make(chan struct{})
	m.mu.id = "m1"
	m.mu.answer = &slotwisev1.RegisterResponse{}
	m.mu.reports, m.mu.ends = map[string]*slotwisev1.Report{}, map[string]int{}
	m.mu.jobs, m.mu.grants = map[string]*slotwisev1.JobForWorkerResponse{}, map[string]bool{}
	m.start()
	t.Cleanup(m.stop)
	return m
}

// start serves at the address of the first call, so that a test can restart the
// master.
func (m *fakeMaster) start() {
	l, err := net.Listen("tcp", m.addr)
	if err != nil {
		m.t.Fatal(err)
	}
	m.addr = l.Addr().String()
	mux := http.NewServeMux()
	ctx, end := context.WithCancel(context.Background())
	m.end = end
	frametest.Handle(ctx, mux, m, m.most)
	mux.HandleFunc("GET /files/{sha}", func(w http.ResponseWriter, r *http.Request) {
		content, ok := m.files[r.PathValue("sha")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Write([]byte(content))
	})
	m.server = &http.Server{Handler: mux}
	go m.server.Serve(l)
}

// stop ends the server and its connections.
func (m *fakeMaster) stop() {
	m.server.Close()
	m.end()
}

// do calls f with the master locked and wakes waiting calls.
func (m *fakeMaster) do(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
	m.notifyLocked()
}

func (m *fakeMaster) notifyLocked() {
	close(m.mu.changed)
	m.mu.changed = make(chan struct{})
}

// until waits until holds returns true. It checks after each message of the worker.
func (m *fakeMaster) until(what string, holds func() bool) {
	m.t.Helper()
	for deadline := time.After(4 * time.Minute); ; {
		m.mu.Lock()
		ok, changed := holds(), m.mu.changed
		m.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			m.t.Fatalf("after four minutes still not: %s", what)
		}
	}
}

// order sends an action to the worker, and again until the worker acknowledges it.
func (m *fakeMaster) order(a *slotwisev1.Action) {
	m.do(func() {
		a.Number = int64(len(m.mu.actions) + 1)
		m.mu.actions = append(m.mu.actions, a)
	})
}

func (m *fakeMaster) launch(attempt string, split *slotwisev1.Split) {
	l := &slotwisev1.Launch{Attempt: attempt, Split: split}
	name, _, _ := strings.Cut(attempt, "_")
	m.do(func() { l.Staging = m.mu.jobs[name].GetStaging() })
	m.order(&slotwisev1.Action{What: &slotwisev1.Action_Launch{Launch: l}})
}

// ends waits until the worker reports the end of an attempt and returns the report.
func (m *fakeMaster) ends(attempt string) (r *slotwisev1.Report) {
	m.t.Helper()
	m.until(attempt+" ends", func() bool {
		r = m.mu.reports[attempt]
		return r.GetState() > slotwisev1.AttemptState_ATTEMPT_STATE_RUNNING
	})
	return r
}

// drive orders the driver of chain-1 with an executable.
func (m *fakeMaster) drive(executable string) {
	m.order(&slotwisev1.Action{What: &slotwisev1.Action_Drive{Drive: &slotwisev1.Drive{
		Driver: &slotwisev1.DriverRef{Chain: "chain-1", Try: 1},
		Spec:   &slotwisev1.ChainSpec{Job: &slotwisev1.JobSpec{Program: &slotwisev1.Program{Executable: executable}}},
	}}})
}

// driverEnds waits until the only driver has ended, and returns its report.
func (m *fakeMaster) driverEnds() (r *slotwisev1.DriverReport) {
	m.t.Helper()
	m.until("the driver ends", func() bool {
		r = m.mu.driver
		return r.GetState() > slotwisev1.AttemptState_ATTEMPT_STATE_RUNNING
	})
	return r
}

// Register implements slotwisev1connect.WorkerServiceHandler: each call begins a
// session.
func (m *fakeMaster) Register(_ context.Context, r *slotwisev1.RegisterRequest) (*slotwisev1.RegisterResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.registers = append(m.mu.registers, r)
	m.mu.session++
	m.mu.actions, m.mu.acked, m.mu.again = nil, 0, m.mu.hostile
	resp := &slotwisev1.RegisterResponse{
		Session: fmt.Sprint(m.mu.session), Master: m.mu.id, HeartbeatMs: 200,
		DropJobs: m.mu.answer.GetDropJobs(), Key: m.mu.key,
	}
	m.mu.answer = nil
	m.notifyLocked()
	return resp, nil
}

// Heartbeat records the reports. It answers at once if there are actions, and after
// the wait time otherwise.
func (m *fakeMaster) Heartbeat(ctx context.Context, r *slotwisev1.HeartbeatRequest) (*slotwisev1.HeartbeatResponse, error) {
	for recorded, end := false, time.After(time.Duration(r.GetWaitMs())*time.Millisecond); ; {
		m.mu.Lock()
		if m.mu.again || r.GetSession() != fmt.Sprint(m.mu.session) {
			m.mu.Unlock()
			return &slotwisev1.HeartbeatResponse{RegisterAgain: true}, nil
		}
		newest := m.mu.beat
		if r.GetWaitMs() > 0 { // one without a wait leaves it held
			newest = m.mu.held
		}
		overtaken := newest.GetSession() == r.GetSession() && newest.GetSeq() > r.GetSeq()
		if !overtaken && !recorded {
			recorded = true
			m.recordLocked(r)
		}
		var todo []*slotwisev1.Action
		for _, a := range m.mu.actions {
			if a.GetNumber() > m.mu.acked {
				todo = append(todo, a)
			}
		}
		if m.mu.fail > 0 && (len(todo) > 0 || len(r.GetReports()) > 0) {
			m.mu.fail--
			m.mu.Unlock()
			return nil, connect.NewError(connect.CodeUnavailable, errors.New("the answer is lost"))
		}
		changed := m.mu.changed
		m.mu.Unlock()
		resp := &slotwisev1.HeartbeatResponse{Actions: todo}
		if overtaken {
			return &slotwisev1.HeartbeatResponse{}, nil
		}
		if len(todo) > 0 {
			return resp, nil
		}
		select {
		case <-changed:
		case <-end:
			return resp, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (m *fakeMaster) recordLocked(r *slotwisev1.HeartbeatRequest) {
	// One that waits and comes late, after a report, may call an attempt running that has ended since.
	late := m.mu.beat.GetSession() == r.GetSession() && m.mu.beat.GetSeq() > r.GetSeq()
	if !late {
		m.mu.beat = r
	}
	if r.GetWaitMs() > 0 {
		m.mu.held = r
	}
	for _, d := range r.GetDrivers() {
		if late && d.GetState() == slotwisev1.AttemptState_ATTEMPT_STATE_RUNNING {
			continue
		}
		m.mu.driver = d
	}
	m.mu.acked = max(m.mu.acked, r.GetAcked())
	for _, rep := range r.GetReports() {
		if late && rep.GetState() == slotwisev1.AttemptState_ATTEMPT_STATE_RUNNING {
			continue
		}
		m.mu.reports[rep.GetAttempt()] = rep
		if rep.GetState() > slotwisev1.AttemptState_ATTEMPT_STATE_RUNNING {
			m.mu.ends[rep.GetAttempt()]++
		}
	}
	m.notifyLocked()
}

// AskCommit grants every request that the test has not denied.
func (m *fakeMaster) AskCommit(_ context.Context, r *slotwisev1.AskCommitRequest) (*slotwisev1.AskCommitResponse, error) {
	m.do(func() { m.mu.asking++; m.mu.mostAsked = max(m.mu.mostAsked, m.mu.asking) })
	time.Sleep(time.Millisecond) // so that requests meet
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.asking--
	if granted, said := m.mu.grants[r.GetAttempt()]; said && !granted {
		return &slotwisev1.AskCommitResponse{Reason: "the test says no"}, nil
	}
	return &slotwisev1.AskCommitResponse{Granted: true}, nil
}

// JobForWorker returns a job that the test has set up.
func (m *fakeMaster) JobForWorker(_ context.Context, r *slotwisev1.JobForWorkerRequest) (*slotwisev1.JobForWorkerResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if j := m.mu.jobs[r.GetJob()]; j != nil {
		return j, nil
	}
	return nil, connect.NewError(connect.CodeNotFound, errors.New("no such job"))
}

// KeepLogs stores the logs, and says that the jobs in full are full.
func (m *fakeMaster) KeepLogs(_ context.Context, r *slotwisev1.KeepLogsRequest) (*slotwisev1.KeepLogsResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.kept = append(m.mu.kept, r.GetLogs()...)
	return &slotwisev1.KeepLogsResponse{Full: m.mu.full}, nil
}

// MapOutputs returns all locations that the test has set, whenever they have changed.
func (m *fakeMaster) MapOutputs(ctx context.Context, r *slotwisev1.MapOutputsRequest) (*slotwisev1.MapOutputsResponse, error) {
	for end := time.After(time.Duration(r.GetWaitMs()) * time.Millisecond); ; {
		m.mu.Lock()
		cursor, where, changed := fmt.Sprint(len(m.mu.where)), slices.Clone(m.mu.where), m.mu.changed
		m.mu.Unlock()
		if cursor != r.GetCursor() {
			return &slotwisev1.MapOutputsResponse{Reset_: true, Outputs: where, Cursor: cursor}, nil
		}
		select {
		case <-changed:
		case <-end:
			return &slotwisev1.MapOutputsResponse{Cursor: cursor}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// hash returns the SHA-256 of a file's content.
func hash(t *testing.T, path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// job sets up a streaming job of one map that reads text, and returns the split.
func (m *fakeMaster) job(id, mapper string, reduces int, text string, files ...*slotwisev1.ShippedFile) *slotwisev1.Split {
	m.t.Helper()
	in := filepath.Join(m.dir, id+".txt")
	if err := os.WriteFile(in, []byte(text), 0o666); err != nil {
		m.t.Fatal(err)
	}
	out, token := filepath.Join(m.dir, id+".out"), storage.NewToken()
	s, err := storage.Local{}.StageShared(m.t.Context(), out, token, storage.ReplaceNothing)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { s.Abort(context.Background()) })
	program := &slotwisev1.Program{
		Executable: hash(m.t, "/proc/self/exe"), Streaming: &slotwisev1.Streaming{Mapper: mapper}, Files: files,
	}
	if reduces > 0 {
		program.Streaming.Reducer = "cat"
	}
	m.do(func() {
		m.mu.jobs[id] = &slotwisev1.JobForWorkerResponse{
			Spec: &slotwisev1.JobSpec{Name: id, Program: program, Reduces: int32(reduces), Output: "file://" + out},
			Maps: 1, Staging: token, Secret: []byte("secret"), Owner: m.mu.owner,
		}
	})
	n := int64(len(text))
	return &slotwisev1.Split{Bytes: n, Pieces: []*slotwisev1.Piece{{Uri: "file://" + in, Length: n, FileSize: n}}}
}

// testWorker is a worker that runs in the test process.
type testWorker struct {
	*worker.Worker
	dir  string
	stop func()
	done chan error
}

// worker starts a worker and waits until it has registered.
func (m *fakeMaster) worker(dir string, change ...func(*worker.Config)) *testWorker {
	m.t.Helper()
	if dir == "" {
		dir = m.t.TempDir()
	}
	cfg := worker.Config{
		Master: "http://" + m.addr, Dir: dir, MapSlots: 2, ReduceSlots: 2, Memory: 64 << 20, MinFree: -1,
		KillGrace: 200 * time.Millisecond, Log: slog.New(slog.NewTextHandler(m.t.Output(), nil)),
	}
	for _, f := range change {
		f(&cfg)
	}
	before := 0
	m.do(func() { before = len(m.mu.registers) })
	w, err := worker.Start(cfg)
	if err != nil {
		m.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	tw := &testWorker{Worker: w, dir: dir, done: make(chan error, 1)}
	go func() { tw.done <- w.Run(ctx) }()
	tw.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-tw.done; err != nil {
			m.t.Error(err)
		}
	})
	m.t.Cleanup(tw.stop)
	m.until("the worker registers", func() bool { return len(m.mu.registers) > before })
	return tw
}
