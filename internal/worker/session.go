package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/job"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// Between calls to a master that does not answer the worker waits, twice as
// long each time.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = 2 * time.Second
)

// callTimeout is how long the master may take for an answer, beyond the time
// for which it may hold it.
const callTimeout = 10 * time.Second

// maxWait is the longest time for which the worker lets an answer be held.
const maxWait = 10 * time.Second

// pause waits before the nth try in a row, with jitter, so that the workers of
// a master that comes back don't all call at once.
func pause(ctx context.Context, n int) {
	d := min(lastPause, firstPause<<min(n, 10))
	t := time.NewTimer(d/2 + rand.N(d/2+1))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// beat registers and sends heartbeats until ctx ends. An error is a master that
// will not have this worker.
func (w *Worker) beat(ctx context.Context) error {
	known, refusals, short := false, 0, 0
	for ctx.Err() == nil {
		every, err := w.register(ctx)
		switch {
		case ctx.Err() != nil:
		case err == nil:
			known, refusals = true, 0
			began := time.Now()
			w.heartbeats(ctx, every)
			if time.Since(began) >= shortSession {
				short = 0
				continue
			}
			if short++; short == manyShort {
				w.log.Warn("sessions end at once: is there another worker of this name?")
			}
			pause(ctx, short)
		case !known && refused(err):
			return err
		default: // its mind may change: what runs and is held would be lost
			w.log.Warn("the master will not have this worker any more", "err", err)
			pause(ctx, refusals)
			refusals++
		}
	}
	if cause := context.Cause(ctx); !errors.Is(cause, errDrained) && !errors.Is(cause, context.Canceled) {
		w.log.Info("stopping", "why", cause)
	}
	return nil
}

// A session shorter than this delays the next, twice as long each time: of two
// workers of one name each ends the other's, and without a pause they would do
// nothing else, nor would their master. So many in a row are worth a warning.
const (
	shortSession = 5 * time.Second
	manyShort    = 5
)

// refused tells whether the master has understood the call and says no.
func refused(err error) bool {
	switch connect.CodeOf(err) {
	case connect.CodeInvalidArgument, connect.CodePermissionDenied, connect.CodeUnauthenticated, connect.CodeFailedPrecondition:
		return true
	}
	return false
}

// register begins a session; it returns the longest wanted silence. What the
// master can't know any more is removed.
func (w *Worker) register(ctx context.Context) (time.Duration, error) {
	for try := 0; ; try++ {
		req, err := w.registration()
		if err != nil {
			return 0, err
		}
		call, cancel := context.WithTimeout(ctx, callTimeout)
		resp, err := w.rpc.Register(call, req)
		cancel()
		if err == nil {
			var again bool
			if again, err = w.registered(resp); err == nil && !again {
				return time.Duration(resp.GetHeartbeatMs()) * time.Millisecond, nil
			}
		}
		if ctx.Err() != nil || refused(err) && try == 0 {
			return 0, err
		}
		if err != nil {
			w.log.Warn("cannot register", "master", w.cfg.Master, "err", err)
		}
		pause(ctx, try)
	}
}

// registration says who the worker is, what it runs and what it holds.
func (w *Worker) registration() (*slotwisev1.RegisterRequest, error) {
	c := &w.cfg
	w.registrations++
	req := &slotwisev1.RegisterRequest{
		Number: w.registrations,
		Worker: w.home.name, Address: w.address, Host: c.Host, Rack: c.Rack,
		MapSlots: int32(c.MapSlots), ReduceSlots: int32(c.ReduceSlots), Cores: int32(cores()),
		Memory: c.Memory, MapBuffer: c.mapBuffer(), Incarnation: w.incarnation, Version: c.Version, Executable: w.executable,
	}
	// What ends between the two looks is in the first or in both.
	w.mu.Lock()
	for id := range w.mu.attempts {
		req.Running = append(req.Running, id.String())
	}
	w.mu.Unlock()
	held, err := w.home.held()
	if err != nil {
		return nil, err
	}
	slices.Sort(req.Running)
	for _, o := range held {
		if !slices.Contains(req.Running, o.GetAttempt()) {
			req.Outputs = append(req.Outputs, o)
		}
	}
	return req, nil
}

// registered carries out what the master answers. again says that the worker
// must register once more, since what it said was of another master's jobs.
func (w *Worker) registered(resp *slotwisev1.RegisterResponse) (again bool, err error) {
	changed, err := w.home.ofMaster(resp.GetMaster())
	if err != nil {
		return false, err
	}
	w.mu.Lock()
	w.mu.session, w.mu.seq, w.mu.acted = resp.GetSession(), 0, 0
	w.mu.lastBeat = time.Now()
	if changed {
		for id, a := range w.mu.attempts {
			a.stop(&killed{why: "its master is gone"})
			a.disowned = true
			if a.ended {
				delete(w.mu.attempts, id)
			}
		}
		clear(w.mu.jobs)
		w.mu.complaint = nil
	}
	for _, j := range w.mu.jobs {
		j.cursor = "" // of the session before
	}
	w.mu.Unlock()
	w.log.Info("registered", "master", resp.GetMaster(), "session", resp.GetSession(), "anew", changed)
	if changed {
		return true, nil
	}
	for _, name := range resp.GetKill() {
		w.kill(name, "no longer wanted")
	}
	for _, name := range resp.GetDropJobs() {
		w.drop(name)
	}
	return false, nil
}

// answer is what became of one heartbeat.
type answer struct {
	req  *slotwisev1.HeartbeatRequest
	resp *slotwisev1.HeartbeatResponse
	err  error
	took time.Duration
}

// heartbeats keeps a heartbeat under way until the session is over. At most
// two are: one that the master holds, and one that overtakes it since there
// is something to report.
func (w *Worker) heartbeats(ctx context.Context, every time.Duration) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer, 2)
	sent, failures := 0, 0
	newest := int64(0)
	due := true
	for ctx.Err() == nil {
		if due && sent < 2 {
			req := w.heartbeat(w.waitFor(every))
			newest, due = req.GetSeq(), false
			sent++
			go func() { answers <- w.call(ctx, req) }()
		}
		wake := w.wake
		if sent == 2 {
			wake = nil
		}
		select {
		case <-wake:
			due = true
		case a := <-answers:
			sent--
			switch {
			case ctx.Err() != nil:
				return
			case a.err != nil:
				if refused(a.err) {
					return // register again, and be told why not
				}
				if failures++; failures == 1 || failures%30 == 0 {
					w.log.Warn("heartbeat failed", "err", a.err, "times", failures)
				}
				pause(ctx, failures)
			case a.resp.GetRegisterAgain():
				return
			default:
				failures = 0
				w.confirmed(a.req)
				w.act(a.resp.GetActions())
				if ms := a.resp.GetHeartbeatMs(); ms > 0 {
					every = time.Duration(ms) * time.Millisecond
				}
				if len(a.resp.GetActions()) == 0 && a.req.GetSeq() == newest && a.took < tooSoon {
					pause(ctx, 0) // a master that holds nothing is not to be overrun
				}
			}
			due = due || sent == 0
		case <-ctx.Done():
		}
	}
}

// tooSoon is how quick an empty answer may be before the worker waits a little.
const tooSoon = 5 * time.Millisecond

// waitFor is how long the next answer may be held: while attempts run their
// progress is to be known.
func (w *Worker) waitFor(every time.Duration) time.Duration {
	if every <= 0 || every > maxWait {
		every = maxWait
	}
	if w.running() > 0 {
		every = min(every, time.Second)
	}
	return every
}

// call sends a heartbeat.
func (w *Worker) call(ctx context.Context, req *slotwisev1.HeartbeatRequest) answer {
	wait := time.Duration(req.GetWaitMs()) * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, wait+callTimeout)
	defer cancel()
	start := time.Now()
	resp, err := w.rpc.Heartbeat(ctx, req)
	a := answer{req, resp, err, time.Since(start)}
	w.metrics.beat(a)
	if err == nil {
		w.mu.Lock()
		w.mu.lastBeat = time.Now()
		w.mu.Unlock()
	}
	return a
}

// heartbeat says all that the master has not acknowledged, and how things are.
func (w *Worker) heartbeat(wait time.Duration) *slotwisev1.HeartbeatRequest {
	load := w.sampleLoad()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.seq++
	req := &slotwisev1.HeartbeatRequest{
		Session: w.mu.session, Seq: w.mu.seq, Acked: w.mu.acted, WaitMs: wait.Milliseconds(),
		Draining: w.mu.draining || w.mu.full || w.mu.stopped, FetchFailures: slices.Clone(w.mu.complaint), Load: load,
	}
	for _, a := range w.mu.attempts {
		req.Reports = append(req.Reports, a.report())
	}
	slices.SortFunc(req.Reports, func(a, b *slotwisev1.Report) int {
		x, _ := job.ParseAttempt(a.GetAttempt())
		y, _ := job.ParseAttempt(b.GetAttempt())
		return x.Compare(y)
	})
	return req
}

// loadEvery is how often the machine's load is measured at most.
const loadEvery = time.Second

// sampleLoad says how busy the machine is. One goroutine at a time may call it.
func (w *Worker) sampleLoad() *slotwisev1.Load {
	now := time.Since(w.began)
	if w.load.last == nil || now-w.load.at >= loadEvery {
		l, err := w.load.sampler.Sample(now)
		w.load.at = now
		w.load.last = &slotwisev1.Load{
			Cpu: l.CPU, LoadAverage: l.LoadAverage, Memory: 1 - l.MemoryFree,
			DiskRate: l.DiskRate, NetworkRate: l.NetworkRate, Known: err == nil,
		}
	}
	return w.load.last
}

// confirmed forgets what the master has heard of for good.
func (w *Worker) confirmed(req *slotwisev1.HeartbeatRequest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if req.GetSession() != w.mu.session {
		return
	}
	for _, r := range req.GetReports() {
		if id, err := job.ParseAttempt(r.GetAttempt()); err == nil && r.GetState() != slotwisev1.AttemptState_ATTEMPT_STATE_RUNNING {
			delete(w.mu.attempts, id)
		}
	}
	w.mu.complaint = slices.DeleteFunc(w.mu.complaint, func(f *slotwisev1.FetchFailure) bool {
		return slices.Contains(req.GetFetchFailures(), f)
	})
}

// act carries out the actions that are new.
func (w *Worker) act(actions []*slotwisev1.Action) {
	for _, a := range actions {
		w.mu.Lock()
		fresh := a.GetNumber() > w.mu.acted
		if fresh {
			w.mu.acted = a.GetNumber()
		}
		w.mu.Unlock()
		if !fresh {
			continue
		}
		switch what := a.GetWhat().(type) {
		case *slotwisev1.Action_Launch:
			w.launch(what.Launch)
		case *slotwisev1.Action_Kill:
			w.kill(what.Kill.GetAttempt(), what.Kill.GetReason())
		case *slotwisev1.Action_DropJob:
			w.drop(what.DropJob)
		}
	}
}

// leave says goodbye, if the master can be reached soon.
func (w *Worker) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	req := w.heartbeat(0)
	if req.GetSession() == "" {
		return
	}
	req.Leaving, req.Draining = true, true
	if _, err := w.rpc.Heartbeat(ctx, req); err != nil {
		w.log.Warn("the master is not told that the worker leaves", "err", err)
	}
}
