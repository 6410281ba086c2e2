package worker

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"

	"github.com/slotwise/slotwise/internal/base/retry"
)

// Pauses between calls to a master that does not answer: firstPause, then twice as
// long each time, up to lastPause.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = 2 * time.Second
	// electPause is lastPause while one of several masters may be elected. That takes two seconds at
	// most, and a refusal costs a master little.
	electPause = 400 * time.Millisecond
)

// callTimeout is the time limit of a call to the master. A long poll may take that
// much longer than its wait time.
// It is a sixth of a master's default NodeTimeout, so a worker whose connection hangs makes another one before it is
// given up.
const callTimeout = 10 * time.Second

// maxWait is the longest time for which the worker lets the master hold the
// answer to a long poll.
// An answer that is overdue after maxWait and callTimeout is the only sign of a connection whose packets a network
// drops, so longer waits would cost time.
const maxWait = 10 * time.Second

// backOff waits before retry n, counted from 0, or until ctx is cancelled. Registrations
// read the worker's state anew for each try, and sessions are tries of their own, so no
// single call of package retry spans them.
func backOff(ctx context.Context, n int) { _ = retry.Pause(ctx, firstPause, lastPause, n+1) }

// backOffAfter is backOff with pauses of at most electPause after an error that a change of the leader may
// cause.
func backOffAfter(ctx context.Context, n int, masters string, err error) {
	last := lastPause
	if mayElect(masters, err) {
		last = electPause
	}
	_ = retry.Pause(ctx, firstPause, last, n+1)
}

// mayElect reports whether the masters of a list may elect a leader while err lasts: a master has said that
// it does not lead, or none of several has answered. A leader that is overloaded answers, and must not be
// asked more often.
func mayElect(masters string, err error) bool {
	var coded *connect.Error
	if errors.As(err, &coded) && slices.ContainsFunc(coded.Details(), func(d *connect.ErrorDetail) bool {
		return d.Type() == string((&slotwisev1.NotLeader{}).ProtoReflect().Descriptor().FullName())
	}) {
		return true
	}
	return err != nil && strings.Contains(masters, ",") && !connect.IsWireError(err)
}

// A session shorter than shortSession delays the next registration, twice as long
// each time. Two workers of the same name end each other's sessions; without a
// pause they would keep themselves and the master busy with nothing else. After
// manyShort in a row the worker logs a warning.
const (
	shortSession = 5 * time.Second
	manyShort    = 5
)

// runSessions registers and sends heartbeats, one session after the other, until
// ctx is cancelled. It returns an error only if the master refuses the very first
// registration. A later refusal is retried, since giving up would lose the
// attempts that run and the map outputs that are held.
func (w *Worker) runSessions(ctx context.Context) error {
	accepted, refusals, short := false, 0, 0
	for ctx.Err() == nil {
		every, err := w.register(ctx)
		switch {
		case ctx.Err() != nil:
		case err == nil:
			accepted, refusals = true, 0
			began := time.Now()
			w.heartbeats(ctx, every)
			// A long session has ended because the master restarted or the connection broke.
			// Registering at once keeps the pause for the jobs short.
			if time.Since(began) >= shortSession {
				short = 0
				continue
			}
			if short++; short == manyShort {
				w.log.Warn("every session ends at once: is there another worker with the same name?", "worker", w.home.name)
			}
			backOff(ctx, short)
		// Nothing runs yet, so the operator should see the error of a wrong token or name at once,
		// not in a log later.
		case !accepted && isRefusal(err):
			return err
		default:
			w.log.Warn("the master refuses this worker; registration is retried", "err", err)
			backOff(ctx, refusals)
			refusals++
		}
	}
	if cause := context.Cause(ctx); !errors.Is(cause, errDrained) && !errors.Is(cause, context.Canceled) {
		w.log.Info("stopping", "why", cause)
	}
	return nil
}

// isRefusal reports whether err means that the master understood the call and
// rejected it, so that a retry cannot help.
func isRefusal(err error) bool {
	switch connect.CodeOf(err) {
	case connect.CodeInvalidArgument, connect.CodePermissionDenied, connect.CodeUnauthenticated, connect.CodeFailedPrecondition:
		return true
	}
	return false
}

// register begins a session and returns the interval at which the master wants
// heartbeats. It retries until ctx is cancelled, unless the first call is refused.
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
		if ctx.Err() != nil || isRefusal(err) && try == 0 {
			return 0, err
		}
		if err != nil {
			w.log.Warn("cannot register", "master", w.cfg.Master, "err", err)
		}
		backOffAfter(ctx, try, w.cfg.Master, err)
	}
}

// registration composes a registration: the worker's identity and capacity, the
// attempts that run and the map outputs that it holds.
func (w *Worker) registration() (*slotwisev1.RegisterRequest, error) {
	c := &w.cfg
	req := &slotwisev1.RegisterRequest{
		Worker: w.home.name, Address: w.address, Host: c.Host, Rack: c.Rack,
		MapSlots: int32(c.MapSlots), ReduceSlots: int32(c.ReduceSlots), Cores: int32(c.CPUs),
		Memory: c.Memory, MapBuffer: bufferOf(c.slotMemory()), Limits: w.limitedBy(), Incarnation: w.incarnation, Version: c.Version, Executable: w.executable,
		Dir: w.home.path, DriverSlots: int32(c.Drivers), NeedsUsers: c.RunAs == RunAsOwner,
	}
	w.mu.Lock()
	// Listed comes before the outputs: an attempt that ends in between is then in both lists,
	// never in none. The lock is not held while the disk is read.
	listed := w.mu.agent.Listed()
	w.mu.Unlock()
	// From the disk and not from memory: outputs of a killed worker are there, too, and reduces need no second
	// run of their maps.
	held, err := w.home.heldOutputs()
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.mu.agent.Registration(req, listed, held)
	w.mu.Unlock()
	return req, nil
}

// registered begins the session that the master granted. again is true if the
// master is another one than before: the worker has then stopped and removed
// everything of the former master's jobs and must register once more.
func (w *Worker) registered(resp *slotwisev1.RegisterResponse) (again bool, err error) {
	// Before anything is removed: a master without authentication may be the wrong one.
	if err := w.cfg.needsUsers(resp.GetKey()); err != nil {
		return false, err
	}
	if !w.accept(resp.GetTerm()) {
		return false, errFormerLeader
	}
	// Outputs of another master's jobs must be gone before the session begins, because its first orders may have
	// the same ids.
	otherMaster, err := w.home.setMaster(resp.GetMaster())
	if err != nil {
		return false, err
	}
	w.sessionKey.Set(resp.GetKey())
	w.mu.Lock()
	orders := w.mu.agent.Registered(resp, otherMaster)
	w.mu.lastAnswer = time.Now()
	if otherMaster {
		w.mu.masters++
		// The new master has given the ids of these attempts and jobs to others, perhaps of other
		// users.
		w.logs.clear()
		clear(w.mu.jobs)
		w.endIdleLocked(func(*child) bool { return true })
	}
	for _, j := range w.mu.jobs {
		j.cursor = "" // cursors are valid within one session
	}
	w.mu.Unlock()
	w.log.Info("registered", "master", resp.GetMaster(), "session", resp.GetSession(), "new-master", otherMaster)
	w.carryOut(orders)
	return otherMaster, nil
}

// errFormerLeader reports an answer of a master that no longer leads.
var errFormerLeader = errors.New("the answer is of a master that led before the present one")

// accept reports whether the answer of a leader may be acted upon.
func (w *Worker) accept(term uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.agent.Accept(term, time.Since(w.began).Milliseconds())
}

// answer is the outcome of one heartbeat call.
type answer struct {
	req  *slotwisev1.HeartbeatRequest
	resp *slotwisev1.HeartbeatResponse
	err  error
	took time.Duration
	// waited says that the master could hold the heartbeat.
	waited bool
}

// tooSoon is the duration below which an empty answer makes the worker pause: a
// master that does not hold answers must not be flooded.
const tooSoon = 5 * time.Millisecond

// heartbeats keeps heartbeats under way until the session ends. The master holds
// the answer to a heartbeat until it has an action or the wait time is over. When
// the worker has something to report meanwhile, it sends a second heartbeat, which the
// master answers at once; there are never more than two.
func (w *Worker) heartbeats(ctx context.Context, every time.Duration) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Room for both heartbeats, so that their goroutines end, although this loop reads no more
	// after the session's end.
	answers := make(chan answer, 2)
	waiting, reporting, failures := false, false, 0 // waiting: the master has a heartbeat that it may hold
	newest := int64(0)
	send := func(wait time.Duration) {
		// Composed here and not in the goroutine, so that the numbers of heartbeats are in the
		// order in which they report.
		req := w.composeHeartbeat(wait)
		newest = req.GetSeq()
		go func() { answers <- w.call(ctx, req, wait > 0) }()
	}
	for due := false; ctx.Err() == nil; {
		switch {
		// The master always has one heartbeat to answer: it is the way on which actions arrive.
		case !waiting:
			send(w.holdTime(every))
			waiting, due = true, false
		case due && !reporting:
			// The report has all news so far. Their sign, left in the channel while the report before was under
			// way, would send one more without any.
			select {
			case <-w.wake:
			default:
			}
			send(0)
			reporting, due = true, false
		}
		wake := w.wake
		// The news waits in the channel for the next heartbeat. More calls would only repeat one
		// another.
		if reporting {
			wake = nil
		}
		select {
		case <-wake:
			due = true
		case a := <-answers:
			if a.waited {
				waiting = false
			} else {
				reporting = false
			}
			switch {
			case ctx.Err() != nil:
				return
			case a.err != nil:
				if isRefusal(a.err) {
					return // registering again returns the reason
				}
				// A refusal for the size must change the next heartbeat, which would otherwise be refused
				// in the same way for ever.
				w.shrink(a)
				if failures++; failures == 1 || failures%30 == 0 {
					w.log.Warn("heartbeat failed", "err", a.err, "times", failures)
				}
				// In the loop itself, so that no other heartbeat leaves meanwhile. Orders need no hurry: the master does
				// not answer.
				backOffAfter(ctx, failures, w.cfg.Master, a.err)
				due = true // what the lost heartbeat reported, or its answer ordered, must not wait for the held one
			// Attempts keep running. The next registration lists them, and the master takes them back or has them
			// killed.
			case a.resp.GetRegisterAgain():
				return
			default:
				failures = 0
				due = w.answered(a) || due
				if ms := a.resp.GetHeartbeatMs(); ms > 0 {
					every = time.Duration(ms) * time.Millisecond
				}
				// Only an empty answer to the newest heartbeat means that the master does not hold
				// calls: a newer one may have taken the place of this one.
				if a.waited && len(a.resp.GetActions()) == 0 && a.req.GetSeq() == newest && a.took < tooSoon {
					backOff(ctx, 0)
				}
			}
		case <-ctx.Done():
		}
	}
}

// shrink makes the next heartbeats smaller if the master has refused one for its size.
func (w *Worker) shrink(a answer) {
	if connect.CodeOf(a.err) != connect.CodeResourceExhausted {
		return
	}
	w.mu.Lock()
	orders := w.mu.agent.TooLarge(a.req)
	w.mu.Unlock()
	w.log.Warn("the master refused a heartbeat for its size: the next one is smaller", "bytes", proto.Size(a.req), "err", a.err)
	w.carryOut(orders)
}

// answered takes an answer into account and carries out its actions. more says that there is
// something to report that the heartbeat did not carry.
func (w *Worker) answered(a answer) (more bool) {
	w.mu.Lock()
	w.mu.agent.Acknowledge(a.req)
	more = w.mu.agent.Unacknowledged()
	orders := w.mu.agent.Act(a.resp.GetActions(), time.Now().UnixMilli())
	w.mu.Unlock()
	w.carryOut(orders)
	return more
}

// holdTime returns how long the master may hold the next answer. While attempts
// run it is at most a second, so that the master learns their progress.
func (w *Worker) holdTime(every time.Duration) time.Duration {
	// The interval comes from the master and grows with the cluster.
	if every <= 0 || every > maxWait {
		every = maxWait
	}
	if w.running() > 0 {
		every = min(every, time.Second)
	}
	return every
}

// call sends a heartbeat and waits for the answer.
func (w *Worker) call(ctx context.Context, req *slotwisev1.HeartbeatRequest, waits bool) answer {
	wait := time.Duration(req.GetWaitMs()) * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, wait+callTimeout)
	defer cancel()
	start := time.Now()
	resp, err := w.rpc.Heartbeat(ctx, req)
	a := answer{req, resp, err, time.Since(start), waits}
	w.metrics.heartbeatAnswered(a)
	// The orders of a master that was frozen and continues: another one has led meanwhile and may have given the
	// slots away.
	if err == nil && !w.accept(resp.GetTerm()) {
		a.err = errFormerLeader
	}
	if a.err == nil {
		w.mu.Lock()
		w.mu.lastAnswer = time.Now()
		w.mu.Unlock()
	}
	return a
}

// composeHeartbeat composes the next heartbeat, whose answer the master may hold
// for wait. Only the session's goroutine calls it.
func (w *Worker) composeHeartbeat(wait time.Duration) *slotwisev1.HeartbeatRequest {
	load := w.sampleLoad()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.agent.Heartbeat(wait.Milliseconds(), load)
}

// loadEvery is the shortest interval between two measurements of the machine.
const loadEvery = time.Second

// sampleLoad returns the machine's load, measured at most loadEvery ago. Only the
// session's goroutine calls it.
func (w *Worker) sampleLoad() *slotwisev1.Load {
	now := time.Since(w.began)
	// Rates over a few milliseconds would be noise: two heartbeats may follow each other at once.
	if w.load.last == nil || now-w.load.at >= loadEvery {
		l, err := w.load.sampler.Sample(now)
		w.load.at = now
		w.load.last = &slotwisev1.Load{
			Cpu: l.CPU, LoadAverage: l.LoadAverage, Memory: 1 - l.MemoryFree,
			DiskRate: l.DiskRate, NetworkRate: l.NetworkRate, Known: err == nil,
			Processes: int64(l.Processes), Swap: 1 - l.SwapFree, DiskFree: l.DiskFree, Arch: l.Machine.Arch.String(),
			MachineMemory: l.Machine.Memory, MachineSwap: l.Machine.Swap, Disks: int32(min(l.Machine.Disks, math.MaxInt32)), Kernel: l.Machine.Kernel,
		}
	}
	return w.load.last
}

// sendLeaving tells the master that the worker ends, so that the master need not
// wait for the node to expire. It tries once, for a second.
func (w *Worker) sendLeaving() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	req := w.composeHeartbeat(0)
	// The worker has never registered, so no master waits for its end.
	if req.GetSession() == "" {
		return
	}
	req.Leaving, req.Draining = true, true
	if _, err := w.rpc.Heartbeat(ctx, req); err != nil {
		w.log.Warn("cannot tell the master that this worker ends; the master will notice when the worker expires", "err", err)
	}
}
