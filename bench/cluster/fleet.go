package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
)

// loadPlan says what a master is loaded with.
type loadPlan struct {
	Workers, First, Processes int
	Jobs, Maps, Reduces       int
	Task                      time.Duration
	Policy                    string
}

// fleet is the pretended workers of one process.
type fleet struct {
	plan   loadPlan
	master string // URL
	http   *http.Client
	rpc    slotwisev1connect.WorkerServiceClient

	calls, launches, twice, failures, registrations atomic.Int64

	mu struct {
		sync.Mutex
		seen                 map[string]bool // attempts launched
		beats, commits, bare []time.Duration
	}
}

// seen is what a process of workers has seen.
type seen struct {
	Calls         int64 // answered, held ones included
	Launches      int64
	Twice         int64 // launches of what had been launched
	Failures      int64 // of calls
	Registrations int64
	Beats         []time.Duration // heartbeats that were not to be held
	Commits       []time.Duration // questions whether to commit
	Bare          []time.Duration // requests that are refused before anybody is asked
}

func newFleet(master string, plan loadPlan) *fleet {
	f := &fleet{plan: plan, master: master}
	f.mu.seen = map[string]bool{}
	// As many connections as so many workers would have.
	f.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4 * plan.Workers}}
	f.rpc = slotwisev1connect.NewWorkerServiceClient(f.http, master)
	return f
}

// run has the workers at work until ctx ends.
func (f *fleet) run(ctx context.Context) seen {
	var wg sync.WaitGroup
	for i := range f.plan.Workers {
		w := &worker{fleet: f, name: fmt.Sprint("w", f.plan.First+i), wake: make(chan struct{}, 1)}
		wg.Go(func() { w.run(ctx) })
	}
	wg.Go(func() { f.probe(ctx) })
	wg.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return seen{f.calls.Load(), f.launches.Load(), f.twice.Load(), f.failures.Load(), f.registrations.Load(), f.mu.beats, f.mu.commits, f.mu.bare}
}

// probeEvery is the pause between two measured heartbeats of a process.
const probeEvery = 10 * time.Millisecond

// probe measures heartbeats that are not to be held, of a worker without slots, and
// beside them what the machine and HTTP alone take.
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
		pause(ctx, probeEvery)
	}
}

// bare measures a request for what is not there.
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

func (f *fleet) measured(list *[]time.Duration, start time.Time) {
	took := time.Since(start)
	f.mu.Lock()
	defer f.mu.Unlock()
	*list = append(*list, took)
}

// launched counts an attempt.
func (f *fleet) launched(id string) {
	f.launches.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.seen[id] {
		f.twice.Add(1)
	}
	f.mu.seen[id] = true
}

// called counts a call and reports whether it was answered.
func (f *fleet) called(ctx context.Context, err error) bool {
	switch {
	case err == nil:
		f.calls.Add(1)
	case ctx.Err() == nil:
		f.failures.Add(1)
	}
	return err == nil
}

// pause waits, and reports whether ctx has not ended meanwhile.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// somewhere returns a time between half and one and a half times d.
func somewhere(d time.Duration) time.Duration { return d/2 + rand.N(d) }
