package main

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/slotwise/slotwise/internal/job"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// worker speaks a worker's side of the protocol and pretends to run what it is
// told to.
type worker struct {
	fleet *fleet
	name  string
	wake  chan struct{} // has a value when there is something to report

	mu      sync.Mutex
	session string
	seq     int64
	acted   int64
	running map[string]context.CancelFunc
	ended   map[string]*slotwisev1.Report // not acknowledged yet
}

// run keeps the worker registered until ctx ends.
func (w *worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		resp, err := w.fleet.rpc.Register(ctx, &slotwisev1.RegisterRequest{
			Worker: w.name, Address: w.name + ":1", Host: "h-" + w.name, Rack: "/r" + w.name[len(w.name)-1:], MapSlots: 2, ReduceSlots: 1,
			Incarnation: "1",
		})
		if !w.fleet.called(ctx, err) {
			pause(ctx, somewhere(time.Second))
			continue
		}
		w.fleet.registrations.Add(1)
		w.mu.Lock()
		w.session, w.seq, w.acted = resp.Session, 0, 0
		w.running, w.ended = map[string]context.CancelFunc{}, map[string]*slotwisev1.Report{}
		w.mu.Unlock()
		w.beat(ctx, time.Duration(resp.HeartbeatMs)*time.Millisecond)
	}
}

// beat keeps a held heartbeat under way, and sends another, which has the master
// answer the held one, when a task has ended.
func (w *worker) beat(ctx context.Context, every time.Duration) {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, over := context.WithCancel(ctx)
	defer over()
	for ctx.Err() == nil {
		answered := make(chan struct{})
		wg.Go(func() { defer close(answered); w.call(ctx, every, over) })
		select {
		case <-answered:
		case <-w.wake:
		}
	}
}

func (w *worker) call(ctx context.Context, wait time.Duration, over func()) {
	w.mu.Lock()
	w.seq++
	req := &slotwisev1.HeartbeatRequest{
		Session: w.session, Seq: w.seq, Acked: w.acted, WaitMs: wait.Milliseconds(),
		Load: &slotwisev1.Load{Known: true, Cpu: 0.5, LoadAverage: 1, Memory: 0.5},
	}
	for id := range w.running {
		req.Reports = append(req.Reports, &slotwisev1.Report{
			Attempt: id, State: slotwisev1.AttemptState_ATTEMPT_STATE_RUNNING, Progress: 0.5, CpuNs: 1e9, Memory: 1 << 27,
		})
	}
	for _, r := range w.ended {
		req.Reports = append(req.Reports, r)
	}
	w.mu.Unlock()
	resp, err := w.fleet.rpc.Heartbeat(ctx, req)
	if !w.fleet.called(ctx, err) || resp.RegisterAgain {
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
		if a.Number > w.acted {
			w.acted = a.Number
			w.actLocked(ctx, a)
		}
	}
}

func (w *worker) actLocked(ctx context.Context, a *slotwisev1.Action) {
	switch what := a.What.(type) {
	case *slotwisev1.Action_Launch:
		id := what.Launch.Attempt
		w.fleet.launched(id)
		ctx, cancel := context.WithCancel(ctx)
		w.running[id] = cancel
		go w.attempt(ctx, id)
	case *slotwisev1.Action_Kill:
		if stop := w.running[what.Kill.Attempt]; stop != nil {
			stop()
			delete(w.running, what.Kill.Attempt)
		}
	}
}

// attempt pretends to be one: it asks what attempts ask, and takes its time.
func (w *worker) attempt(ctx context.Context, name string) {
	f := w.fleet
	id, err := job.ParseAttempt(name)
	if err != nil {
		return
	}
	w.mu.Lock()
	session := w.session
	w.mu.Unlock()
	info, err := f.rpc.JobForWorker(ctx, &slotwisev1.JobForWorkerRequest{Session: session, Job: id.Job.String()})
	if !f.called(ctx, err) || id.Kind == job.Reduce && !w.follow(ctx, session, id.Job.String(), int(info.Maps)) || !pause(ctx, somewhere(f.plan.Task)) {
		w.end(name, slotwisev1.AttemptState_ATTEMPT_STATE_FAILED)
		return
	}
	if id.Kind == job.Reduce {
		start := time.Now()
		resp, err := f.rpc.AskCommit(ctx, &slotwisev1.AskCommitRequest{Session: session, Attempt: name})
		if !f.called(ctx, err) || !resp.Granted {
			w.end(name, slotwisev1.AttemptState_ATTEMPT_STATE_FAILED)
			return
		}
		f.measured(&f.mu.commits, start)
	}
	w.end(name, slotwisev1.AttemptState_ATTEMPT_STATE_SUCCEEDED)
}

// follow asks where the maps' outputs are until all are there.
func (w *worker) follow(ctx context.Context, session, name string, maps int) bool {
	there := map[int32]bool{}
	for cursor := ""; len(there) < maps; {
		resp, err := w.fleet.rpc.MapOutputs(ctx, &slotwisev1.MapOutputsRequest{Session: session, Job: name, Cursor: cursor, WaitMs: 10_000})
		if !w.fleet.called(ctx, err) || resp.Ended {
			return false
		}
		if resp.Reset_ {
			clear(there)
		}
		for _, o := range resp.Outputs {
			if there[o.Map] = true; o.Lost {
				delete(there, o.Map)
			}
		}
		cursor = strings.Clone(resp.Cursor)
	}
	return true
}

// end notes how an attempt went, unless it was killed, and has it reported.
func (w *worker) end(name string, state slotwisev1.AttemptState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	stop := w.running[name]
	if stop == nil {
		return
	}
	stop()
	delete(w.running, name)
	w.ended[name] = &slotwisev1.Report{
		Attempt: name, State: state, Progress: 1, OutputBytes: 1000, Error: "",
		Counters: &slotwisev1.Counters{InputRecords: 1, InputBytes: 1000, OutputRecords: 10, OutputBytes: 1000, CpuNs: 1e9},
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
