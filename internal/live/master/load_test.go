package master

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
)

// loadWorker is a worker whose attempts only wait.
type loadWorker struct {
	name  string
	rpc   slotwisev1connect.WorkerServiceClient
	stats *loadStats
	tasks time.Duration // mean duration of an attempt

	mu      sync.Mutex
	session string
	seq     int64
	acked   int64
	running map[string]bool
	ended   map[string]*slotwisev1.Report // not acknowledged yet
	wake    chan struct{}
}

// loadStats are the measurements of all workers together.
type loadStats struct {
	mu       sync.Mutex
	beats    []time.Duration // round trips of heartbeats with a wait time of 0
	launches atomic.Int64
	twice    atomic.Int64 // repeated launches of one attempt
	seen     sync.Map
}

func (w *loadWorker) run(ctx context.Context) {
	for ctx.Err() == nil {
		resp, err := w.rpc.Register(ctx, &slotwisev1.RegisterRequest{
			Worker: w.name, Address: w.name + ":1", Host: "h-" + w.name, Rack: fmt.Sprintf("/r%d", len(w.name)), MapSlots: 2, ReduceSlots: 1,
		})
		if err != nil {
			continue
		}
		w.mu.Lock()
		w.session, w.seq, w.acked = resp.Session, 0, 0
		w.running, w.ended = map[string]bool{}, map[string]*slotwisev1.Report{}
		w.mu.Unlock()
		w.heartbeat(ctx, time.Duration(resp.HeartbeatMs)*time.Millisecond)
	}
}

// heartbeat keeps a held heartbeat under way and sends another one when an attempt ends.
func (w *loadWorker) heartbeat(ctx context.Context, every time.Duration) {
	ctx, over := context.WithCancel(ctx)
	defer over()
	var wg sync.WaitGroup
	defer wg.Wait()
	for ctx.Err() == nil {
		answered := make(chan struct{})
		wg.Go(func() { defer close(answered); w.call(ctx, every, over) })
		select {
		case <-answered:
		case <-w.wake:
		}
	}
}

func (w *loadWorker) call(ctx context.Context, wait time.Duration, over func()) {
	w.mu.Lock()
	w.seq++
	req := &slotwisev1.HeartbeatRequest{Session: w.session, Seq: w.seq, Acked: w.acked, WaitMs: wait.Milliseconds(), Load: &slotwisev1.Load{Known: true}}
	for id := range w.running {
		req.Reports = append(req.Reports, &slotwisev1.Report{Attempt: id, State: slotwisev1.AttemptState_ATTEMPT_STATE_RUNNING, Progress: 0.5})
	}
	for _, r := range w.ended {
		req.Reports = append(req.Reports, r)
	}
	w.mu.Unlock()
	resp, err := w.rpc.Heartbeat(ctx, req)
	if err != nil || resp.RegisterAgain {
		over()
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range req.Reports {
		if r.State != slotwisev1.AttemptState_ATTEMPT_STATE_RUNNING {
			delete(w.ended, r.Attempt)
		}
	}
	for _, a := range resp.Actions {
		if a.Number <= w.acked {
			continue
		}
		w.acked = a.Number
		switch what := a.What.(type) {
		case *slotwisev1.Action_Launch:
			w.launchLocked(what.Launch.Attempt)
		case *slotwisev1.Action_Kill:
			delete(w.running, what.Kill.Attempt)
		}
	}
}

func (w *loadWorker) launchLocked(id string) {
	w.stats.launches.Add(1)
	if _, twice := w.stats.seen.LoadOrStore(id, true); twice {
		w.stats.twice.Add(1)
	}
	w.running[id] = true
	time.AfterFunc(w.tasks/2+rand.N(w.tasks), func() {
		w.mu.Lock()
		if w.running[id] {
			delete(w.running, id)
			w.ended[id] = &slotwisev1.Report{Attempt: id, State: slotwisev1.AttemptState_ATTEMPT_STATE_SUCCEEDED, Progress: 1, OutputBytes: 1000}
		}
		w.mu.Unlock()
		select {
		case w.wake <- struct{}{}:
		default:
		}
	})
}

// probe measures heartbeats of a worker without slots that are answered at once.
func (s *loadStats) probe(ctx context.Context, rpc slotwisev1connect.WorkerServiceClient) {
	resp, err := rpc.Register(ctx, &slotwisev1.RegisterRequest{Worker: "probe", Address: "probe:1"})
	for seq := int64(1); err == nil && ctx.Err() == nil; seq++ {
		start := time.Now()
		_, err = rpc.Heartbeat(ctx, &slotwisev1.HeartbeatRequest{Session: resp.Session, Seq: seq})
		s.mu.Lock()
		s.beats = append(s.beats, time.Since(start))
		s.mu.Unlock()
		time.Sleep(10 * time.Millisecond) // between two measurements
	}
}

// TestLoad runs many jobs on many workers: every job succeeds, and no attempt is launched
// twice. SLOTWISE_LOAD=1 makes it 1,000 workers and 200 jobs.
func TestLoad(t *testing.T) {
	workers, jobs, maps, reduces, task := 60, 15, 40, 4, 30*time.Millisecond
	if os.Getenv("SLOTWISE_LOAD") != "" {
		workers, jobs, maps, reduces, task = 1000, 200, 200, 10, 2*time.Second
	}
	r := newRig(t, Config{Policy: "fair", SnapshotBytes: 8 << 20})
	transport := &http.Transport{MaxIdleConnsPerHost: 2 * workers, DialContext: (&net.Dialer{}).DialContext}
	client := &http.Client{Transport: transport}
	stats := &loadStats{}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	for i := range workers {
		w := &loadWorker{
			name: fmt.Sprint("w", i), rpc: slotwisev1connect.NewWorkerServiceClient(client, r.srv.URL), stats: stats, tasks: task,
			wake: make(chan struct{}, 1),
		}
		wg.Go(func() { w.run(ctx) })
	}
	wg.Go(func() { stats.probe(ctx, slotwisev1connect.NewWorkerServiceClient(client, r.srv.URL)) })
	start := time.Now()
	ids := make([]string, jobs)
	for i := range ids {
		spec := r.spec(maps, reduces, "")
		spec.User, spec.NoSpeculation = fmt.Sprint("u", i%10), true
		ids[i] = r.submit(spec)
	}
	for _, id := range ids {
		if st := r.waitLong(id); st.State != slotwisev1.JobState_JOB_STATE_SUCCEEDED || int(st.Maps.Done) != maps || int(st.Reduces.Done) != reduces {
			t.Errorf("job %v", st)
		}
	}
	took := time.Since(start)
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	stats.mu.Lock()
	defer stats.mu.Unlock()
	slices.Sort(stats.beats)
	at := func(q float64) time.Duration { return stats.beats[int(q*float64(len(stats.beats)-1))] }
	want := int64(jobs * (maps + reduces))
	t.Logf("%d workers, %d jobs, %d tasks in %v: %.0f launches/s; heartbeats: p50 %v, p99 %v; heap %d MiB (clients included)",
		workers, jobs, want, took.Round(time.Millisecond), float64(stats.launches.Load())/took.Seconds(), at(0.5), at(0.99), mem.HeapInuse>>20)
	if n := stats.launches.Load(); n != want || stats.twice.Load() > 0 {
		t.Errorf("%d launches of %d tasks, %d twice", n, want, stats.twice.Load())
	}
}

// waitLong waits for a job's end without a time limit.
func (r *rig) waitLong(id string) *slotwisev1.JobStatus {
	r.t.Helper()
	for after := int64(-1); ; {
		resp, err := r.users.Job(r.t.Context(), &slotwisev1.JobRequest{Job: id, After: after, WaitMs: 20_000})
		if err != nil {
			r.t.Fatal(err)
		}
		if resp.Job.EndedMs > 0 {
			return resp.Job
		}
		after = resp.Job.Revision
	}
}
