package main

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/slotwise/slotwise/internal/live/frames"
	"github.com/slotwise/slotwise/lab/harness"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// worker is a pretended worker: it speaks a worker's side of the protocol and
// pretends to run the attempts that the master launches.
type worker struct {
	fleet *fleet
	name  string
	rpc   *frames.Client
	wake  chan struct{} // capacity 1; has a value while an ended attempt waits to be reported

	mu      sync.Mutex
	session string
	seq     int64                         // of the latest heartbeat
	acted   int64                         // number of the last order that was carried out
	running map[string]context.CancelFunc // by attempt
	ended   map[string]*slotwisev1.Report // by attempt; not acknowledged yet
	maps    map[job.ID]int                // of the jobs whose description the worker has
}

// mapSlots is the number of map slots of a pretended worker.
const mapSlots = 2

// run registers the worker, and registers it again when its session ends, until
// ctx ends.
func (w *worker) run(ctx context.Context) {
	defer w.rpc.Close()
	for ctx.Err() == nil {
		resp, err := w.rpc.Register(ctx, &slotwisev1.RegisterRequest{
			Worker: w.name, Address: w.name + ":1", Host: "h-" + w.name, Rack: "/r" + w.name[len(w.name)-1:], MapSlots: mapSlots, ReduceSlots: 1,
			Incarnation: "1",
		})
		if !w.fleet.called(ctx, err) {
			harness.Sleep(ctx, jitter(time.Second))
			continue
		}
		w.fleet.registrations.Add(1)
		w.mu.Lock()
		w.session, w.seq, w.acted = resp.Session, 0, 0
		w.running, w.ended, w.maps = map[string]context.CancelFunc{}, map[string]*slotwisev1.Report{}, map[job.ID]int{}
		w.mu.Unlock()
		w.beat(ctx, time.Duration(resp.HeartbeatMs)*time.Millisecond)
	}
}

// beat sends heartbeats until the session ends, as a worker does. One heartbeat is always waiting at
// the master, which answers it when it has orders or after every. When an attempt
// has ended, beat sends another one, which the master answers at once.
func (w *worker) beat(ctx context.Context, every time.Duration) {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, endSession := context.WithCancel(ctx)
	defer endSession()
	wg.Go(func() {
		for ctx.Err() == nil {
			w.call(ctx, every, endSession)
		}
	})
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
			w.call(ctx, 0, endSession)
		}
	}
}

// call sends one heartbeat and carries out the orders in the reply. It calls
// endSession if the heartbeat fails or the master asks for a new registration.
func (w *worker) call(ctx context.Context, wait time.Duration, endSession func()) {
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
	start := time.Now()
	resp, err := w.rpc.Heartbeat(ctx, req)
	if wait == 0 && err == nil {
		w.fleet.measured(&w.fleet.mu.reports, start)
	}
	if !w.fleet.called(ctx, err) || resp.RegisterAgain {
		endSession()
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

// actLocked carries out one order. w.mu is held.
func (w *worker) actLocked(ctx context.Context, a *slotwisev1.Action) {
	switch what := a.What.(type) {
	case *slotwisev1.Action_Launch:
		id := what.Launch.Attempt
		w.fleet.launched(id)
		if attempt, err := job.ParseAttempt(id); err == nil && what.Launch.Job != nil {
			w.maps[attempt.Job] = int(what.Launch.Job.Maps)
		}
		ctx, cancel := context.WithCancel(ctx)
		w.running[id] = cancel
		go w.attempt(ctx, id)
	case *slotwisev1.Action_Kill:
		if stop := w.running[what.Kill.Attempt]; stop != nil {
			w.fleet.failed("the master killed " + what.Kill.Attempt + ": " + what.Kill.Reason)
			stop()
			delete(w.running, what.Kill.Attempt)
		}
	case *slotwisev1.Action_DropJob:
		if id, err := job.ParseID(what.DropJob); err == nil {
			delete(w.maps, id)
		}
	}
}

// attempt pretends to run an attempt: it makes the calls that real attempts make,
// and then sleeps.
func (w *worker) attempt(ctx context.Context, name string) {
	f := w.fleet
	id, err := job.ParseAttempt(name)
	if err != nil {
		return
	}
	w.mu.Lock()
	session := w.session
	maps, known := w.maps[id.Job]
	w.mu.Unlock()
	if !known {
		info, err := w.rpc.JobForWorker(ctx, &slotwisev1.JobForWorkerRequest{Session: session, Job: id.Job.String()})
		known = f.called(ctx, err)
		maps = int(info.GetMaps())
	}
	if !known || id.Kind == job.Reduce && !w.awaitOutputs(ctx, session, id.Job.String(), maps) || !harness.Sleep(ctx, jitter(f.plan.Task)) {
		w.end(name, slotwisev1.AttemptState_ATTEMPT_STATE_FAILED)
		return
	}
	if id.Kind == job.Reduce {
		start := time.Now()
		resp, err := w.rpc.AskCommit(ctx, &slotwisev1.AskCommitRequest{Session: session, Attempt: name})
		if !f.called(ctx, err) || !resp.Granted {
			if err == nil {
				f.failed("the master refused to let " + name + " commit: " + resp.Reason)
			}
			w.end(name, slotwisev1.AttemptState_ATTEMPT_STATE_FAILED)
			return
		}
		f.measured(&f.mu.commits, start)
	}
	w.end(name, slotwisev1.AttemptState_ATTEMPT_STATE_SUCCEEDED)
}

// awaitOutputs polls the locations of a job's map outputs until all maps have one.
// It reports false if the job has ended or a call fails.
func (w *worker) awaitOutputs(ctx context.Context, session, name string, maps int) bool {
	known := map[int32]bool{}
	for cursor := ""; len(known) < maps; {
		resp, err := w.rpc.MapOutputs(ctx, &slotwisev1.MapOutputsRequest{Session: session, Job: name, Cursor: cursor, WaitMs: 10_000})
		if !w.fleet.called(ctx, err) {
			return false
		}
		if resp.Ended {
			w.fleet.failed("the job " + name + " ended while a reduce waited for its map outputs")
			return false
		}
		if resp.Reset_ {
			clear(known)
		}
		for _, o := range resp.Outputs {
			if known[o.Map] = true; o.Lost {
				delete(known, o.Map)
			}
		}
		cursor = strings.Clone(resp.Cursor)
	}
	return true
}

// end records the outcome of an attempt for the next heartbeat and wakes beat. It
// does nothing if the attempt was killed.
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
