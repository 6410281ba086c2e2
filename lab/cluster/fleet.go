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

	"github.com/slotwise/slotwise/internal/live/frames"
	"github.com/slotwise/slotwise/lab/harness"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
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

	calls, launches, twice, failures, registrations atomic.Int64

	mu struct {
		sync.Mutex
		launched     map[string]bool // attempts that some worker has launched
		first, last  time.Time       // launches
		firstFailure string          // see measurements
		// See measurements.
		beats, reports, commits, bare []sample
	}
}

// sample is a response time and when the request was made.
type sample struct {
	at   time.Time
	took time.Duration
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
	// Response times from Task after the first launch to the last launch: before and after these the master
	// has little to do, and the first launches fill all slots at once.
	Beats   []time.Duration // of heartbeats that report nothing and that the master answers at once
	Reports []time.Duration // of heartbeats that report ends
	Commits []time.Duration // of requests for permission to commit
	Bare    []time.Duration // of requests for a page that does not exist
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
	m.Reports = append(m.Reports, o.Reports...)
	m.Commits = append(m.Commits, o.Commits...)
	m.Bare = append(m.Bare, o.Bare...)
}

// newFleet returns a fleet that has not started.
func newFleet(master string, plan loadPlan) *fleet {
	f := &fleet{plan: plan, master: master}
	f.mu.launched = map[string]bool{}
	// Keep as many idle connections as that number of separate workers would have.
	f.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4 * plan.Workers}}
	return f
}

// run runs the workers until ctx ends and returns their measurements.
func (f *fleet) run(ctx context.Context) measurements {
	var wg sync.WaitGroup
	for i := range f.plan.Workers {
		w := &worker{fleet: f, name: fmt.Sprint("w", f.plan.First+i), rpc: frames.NewClient(f.http, f.master), wake: make(chan struct{}, 1)}
		wg.Go(func() { w.run(ctx) })
	}
	wg.Go(func() { f.probe(ctx) })
	wg.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return measurements{f.calls.Load(), f.launches.Load(), f.twice.Load(), f.failures.Load(), f.mu.firstFailure, f.registrations.Load(),
		f.steadyLocked(f.mu.beats), f.steadyLocked(f.mu.reports), f.steadyLocked(f.mu.commits), f.steadyLocked(f.mu.bare)}
}

// steadyLocked returns the response times of requests of the time that counts.
func (f *fleet) steadyLocked(list []sample) (times []time.Duration) {
	for _, s := range list {
		if s.at.Sub(f.mu.first) > f.plan.Task && s.at.Before(f.mu.last) {
			times = append(times, s.took)
		}
	}
	return times
}

// probeEvery is the pause between two measured heartbeats of a process.
const probeEvery = 10 * time.Millisecond

// probe registers a worker without slots and measures its heartbeats, which the
// master answers at once. Between them it measures bare HTTP requests, which show
// how much of the time the machine and HTTP alone take.
func (f *fleet) probe(ctx context.Context) {
	name := fmt.Sprint("probe", f.plan.First)
	rpc := frames.NewClient(f.http, f.master)
	defer rpc.Close()
	resp, err := rpc.Register(ctx, &slotwisev1.RegisterRequest{Worker: name, Address: name + ":1"})
	for seq := int64(1); err == nil && ctx.Err() == nil; seq++ {
		start := time.Now()
		_, err = rpc.Heartbeat(ctx, &slotwisev1.HeartbeatRequest{Session: resp.Session, Seq: seq})
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

// measured appends the response time of a request to one of the lists.
func (f *fleet) measured(list *[]sample, start time.Time) {
	took := time.Since(start)
	f.mu.Lock()
	defer f.mu.Unlock()
	*list = append(*list, sample{start, took})
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
	if f.mu.last = time.Now(); f.mu.first.IsZero() {
		f.mu.first = f.mu.last
	}
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
