package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slotwise/slotwise/lab/harness"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
)

// loadPlan is the load on a master.
type loadPlan struct {
	Workers   int // pretended workers
	First     int // number of the first one; processes have disjoint ranges
	Processes int // processes that the workers are divided among
	Jobs      int
	Maps      int           // per job
	Reduces   int           // per job
	Task      time.Duration // mean duration of an attempt
	Policy    string
}

// fleet is the set of pretended workers in one process. Each worker has
// its own goroutines; they share the HTTP client and these counters.
type fleet struct {
	plan   loadPlan
	master string // URL of the master
	http   *http.Client
	rpc    slotwisev1connect.WorkerServiceClient

	calls, launches, twice, failures, registrations atomic.Int64

	mu struct {
		sync.Mutex
		launched             map[string]bool // attempts that some worker has launched
		firstFailure         string          // see measurements
		beats, commits, bare []time.Duration // see measurements
	}
}

// measurements are the results of one process of workers, or of all processes. Load
// processes send them to the benchmark as JSON.
type measurements struct {
	Calls         int64  // calls that were answered, long polls included
	Launches      int64  // launched attempts
	Twice         int64  // launches of an attempt that had been launched before; must be 0
	Failures      int64  // calls that failed
	FirstFailure  string // why the first call failed or the first attempt ended without success; "" if none did
	Registrations int64
	Beats         []time.Duration // response times of heartbeats that the master answers at once
	Commits       []time.Duration // response times of requests for permission to commit
	Bare          []time.Duration // response times of requests for a page that does not exist
}

// add adds the measurements of another process.
func (m *measurements) add(o measurements) {
	m.Calls += o.Calls
	m.Launches += o.Launches
	m.Twice += o.Twice
	m.Failures += o.Failures
	m.FirstFailure = cmp.Or(m.FirstFailure, o.FirstFailure)
	m.Registrations += o.Registrations
	m.Beats = append(m.Beats, o.Beats...)
	m.Commits = append(m.Commits, o.Commits...)
	m.Bare = append(m.Bare, o.Bare...)
}

// newFleet returns a fleet that has not started.
func newFleet(master string, plan loadPlan) *fleet {
	f := &fleet{plan: plan, master: master}
	f.mu.launched = map[string]bool{}
	// Keep as many idle connections as that number of separate workers would have.
	f.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4 * plan.Workers}}
	f.rpc = slotwisev1connect.NewWorkerServiceClient(f.http, master)
	return f
}

// run runs the workers until ctx ends and returns their measurements.
func (f *fleet) run(ctx context.Context) measurements {
	var wg sync.WaitGroup
	for i := range f.plan.Workers {
		w := &worker{fleet: f, name: fmt.Sprint("w", f.plan.First+i), wake: make(chan struct{}, 1)}
		wg.Go(func() { w.run(ctx) })
	}
	wg.Go(func() { f.probe(ctx) })
	wg.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return measurements{f.calls.Load(), f.launches.Load(), f.twice.Load(), f.failures.Load(), f.mu.firstFailure, f.registrations.Load(), f.mu.beats, f.mu.commits, f.mu.bare}
}

// probeEvery is the pause between two measured heartbeats of a process.
const probeEvery = 10 * time.Millisecond

// probe registers a worker without slots and measures its heartbeats, which the
// master answers at once. Between them it measures bare HTTP requests, which show
// how much of the time the machine and HTTP alone take.
func (f *fleet) probe(ctx context.Context) {
	name := fmt.Sprint("probe", f.plan.First)
	resp, err := f.rpc.Register(ctx, &slotwisev1.RegisterRequest{Worker: name, Address: name + ":1"})
	for seq := int64(1); err == nil && ctx.Err() == nil; seq++ {
		start := time.Now()
		_, err = f.rpc.Heartbeat(ctx, &slotwisev1.HeartbeatRequest{Session: resp.Session, Seq: seq})
		if err == nil {
			f.measured(&f.mu.beats, start)
		}
		f.bare(ctx)
		harness.Sleep(ctx, probeEvery)
	}
}

// bare measures a request for a page that does not exist. The master's HTTP server
// refuses it without involving the master's loop.
func (f *fleet) bare(ctx context.Context) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.master+"/nothing", nil)
	if err != nil {
		return
	}
	start := time.Now()
	resp, err := f.http.Do(req)
	if err != nil {
		return
	}
	_, err = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if err == nil {
		f.measured(&f.mu.bare, start)
	}
}

// measured appends the time since start to one of the lists.
func (f *fleet) measured(list *[]time.Duration, start time.Time) {
	took := time.Since(start)
	f.mu.Lock()
	defer f.mu.Unlock()
	*list = append(*list, took)
}

// launched counts a launch and notices if the attempt was launched before.
func (f *fleet) launched(id string) {
	f.launches.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.launched[id] {
		f.twice.Add(1)
	}
	f.mu.launched[id] = true
}

// called counts a call and reports whether it succeeded. Calls that fail because
// ctx has ended do not count.
func (f *fleet) called(ctx context.Context, err error) bool {
	switch {
	case err == nil:
		f.calls.Add(1)
	case ctx.Err() == nil:
		f.failures.Add(1)
		f.failed(err.Error())
	}
	return err == nil
}

// failed keeps the reason of the first failure, which check prints.
func (f *fleet) failed(why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.firstFailure = cmp.Or(f.mu.firstFailure, why)
}

// jitter returns a random duration between d/2 and 3d/2.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }
