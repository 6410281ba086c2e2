package master

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/live/master/protocol"
	"github.com/slotwise/slotwise/internal/virtual/forecast"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// Forecasts
//
// A forecast is calculated when somebody has asked for one, by one goroutine beside the
// loop. The loop only copies the tracker's state, in portions of copyTasks tasks with
// other work between them. After a forecast the goroutine rests for restFactor times as
// long as it took, so that all forecasts together use at most 5 % of a core: 4 % by the
// goroutine, and up to 1 % by the garbage collector, which uses a fifth of the processor
// time of a fork. Meanwhile the latest forecast is the answer, with its age.

const (
	// A portion must be far shorter than batchTime, because it delays the replies of a whole batch.
	copyTasks  = 2_000
	restFactor = 24
	leastRest  = time.Second
	// mostForecast bounds the time of one forecast. When it is over, and leastFutures were
	// sampled, the answer is made from these. With the rest after it an answer is then at most
	// half a minute old, unless fewer futures than that take longer.
	mostForecast = 1100 * time.Millisecond
	leastFutures = 5
	// firstWait limits the time for which a request waits for the first forecast, or for a fresh
	// forecast in place of a stale one.
	firstWait = 300 * time.Millisecond
)

// forecaster holds the latest forecast.
type forecaster struct {
	kick chan struct{} // capacity 1; asks for a forecast
	// questions are the what-if questions and explanations that are being answered, and turns
	// has one turn, for the one that is being simulated. copies has one, for a copy of the
	// state that is being made.
	// No goroutine waits for questions while it holds one of the others, and copies is given back before turns
	// is taken.
	questions, turns, copies *bounds.Gate

	pastUse sync.Mutex
	past    forecast.Calibration // corrects answers by the errors of earlier ones

	mu     sync.Mutex
	latest *forecast.Forecast
	made   time.Time     // when the state of latest was copied
	epoch  time.Time     // the wall clock's time at the tracker's 0
	ready  chan struct{} // closed when the first forecast is there, or has failed
	// By type, because a policy has at most one configuration of each: one of pools, one of queues.
	confs map[string]any
	// Used by the copy that is being made, so the gate copies guards it.
	known map[job.ID]forecast.Past
}

func newForecaster() *forecaster {
	return &forecaster{kick: make(chan struct{}, 1), questions: bounds.NewGate(bounds.Questions), turns: bounds.NewGate(1), copies: bounds.NewGate(1), ready: make(chan struct{}), confs: map[string]any{}, known: map[job.ID]forecast.Past{}}
}

// Forecast returns the latest forecast and its age, and asks for a newer one. It never
// waits. The forecast is nil before the first one is ready; the caller must not change it.
func (m *Master) Forecast() (f *forecast.Forecast, age time.Duration) {
	fc := m.forecasts
	// One request in the channel is enough: everyone who asks while it waits gets the same
	// forecast.
	select {
	case fc.kick <- struct{}{}:
	default:
	}
	return fc.current()
}

// current returns the latest forecast and its age, without asking for a newer one.
func (fc *forecaster) current() (f *forecast.Forecast, age time.Duration) {
	fc.mu.Lock()
	defer fc.mu.Unlock()
	if fc.latest == nil {
		return nil, 0
	}
	return fc.latest, time.Since(fc.made)
}

// WallTime converts a time of a forecast to the wall clock's time.
func (m *Master) WallTime(t time.Duration) time.Time {
	m.forecasts.mu.Lock()
	defer m.forecasts.mu.Unlock()
	return m.forecasts.epoch.Add(t)
}

// remember keeps a configuration of the policy for the policies of forecasts.
func (fc *forecaster) remember(conf any) {
	fc.mu.Lock()
	defer fc.mu.Unlock()
	fc.confs[fmt.Sprintf("%T", conf)] = conf
}

// forecastOn calculates forecasts on request, until the master closes.
func (m *Master) forecastOn() {
	fc := m.forecasts
	var first sync.Once
	for {
		select {
		case <-fc.kick:
		case <-m.ctx.Done():
			return
		}
		began := time.Now()
		if err := m.refreshForecast(); err != nil && m.ctx.Err() == nil && m.notLeader() == nil {
			m.log.Warn("when jobs will end cannot be forecast", "error", err)
		}
		// Also after an error, or a request would wait for firstWait in vain each time.
		first.Do(func() { close(fc.ready) })
		select {
		case <-time.After(restAfter(time.Since(began))):
		case <-m.ctx.Done():
			return
		}
	}
}

// restAfter returns how long no forecast is calculated after one that took so long. One
// goroutine calculates it, so it used at most that much processor time.
func restAfter(took time.Duration) time.Duration { return max(leastRest, restFactor*took) }

// refreshForecast makes a forecast of the current state.
func (m *Master) refreshForecast() error {
	fc := m.forecasts
	state, basis, err := m.copyState(m.ctx, ownAccount)
	if err != nil {
		return err
	}
	began := time.Now()
	run := forecast.NewRun(m.forecastConfig(basis), state)
	for more, done := true, 1; more; done++ {
		if more, err = run.Next(); err != nil {
			return err
		}
		// On a large state a few futures must do, or the answer would be out of date when it is
		// ready.
		if time.Since(began) > mostForecast && done >= leastFutures {
			break
		}
	}
	f := run.Result()
	fc.pastUse.Lock()
	// The ends of this state correct the record first, then the forecast is noted as simulated, and
	// corrected last. Noting a corrected one would measure the correction.
	fc.past.Observe(state)
	fc.past.Note(f)
	fc.past.Apply(f)
	fc.pastUse.Unlock()
	// Without the copy, which the loop has made. The rest in forecastOn counts both.
	f.Took = time.Since(began)
	fc.mu.Lock()
	defer fc.mu.Unlock()
	fc.latest, fc.made, fc.epoch = f, began, basis.Epoch
	return nil
}

// forecastConfig returns how to simulate the futures of a state under the master's policy.
func (m *Master) forecastConfig(b protocol.Basis) forecast.Config {
	return forecast.Config{PolicyName: b.Policy, Heartbeat: b.Heartbeat, OfferAtOnce: true, WorkAlone: true, Seed: m.cfg.Seed, Stop: m.ctx.Err,
		Policy: func() (sched.Policy, error) { return m.installed(b) }}
}

// installed builds a copy of the installed policy, with its choice and its learned state.
func (m *Master) installed(b protocol.Basis) (sched.Policy, error) {
	p, err := m.buildPolicy(b.Policy, b.Set)
	if err != nil {
		return nil, err
	}
	// First, because the choice may replace the policy, and the new one needs what equip gives.
	if c, ok := p.(sched.Chooser); ok && b.Choice != nil {
		if p, err = c.LoadChoice(b.Choice); err != nil {
			return nil, err
		}
	}
	return p, m.equip(p, b.Policy, b.Learned)
}

// freshPolicy builds a policy with the configurations of pools and queues of the installed one.
func (m *Master) freshPolicy(name string, set map[string]string) (sched.Policy, error) {
	p, err := m.buildPolicy(name, set)
	if err != nil {
		return nil, err
	}
	return p, m.equip(p, name, nil)
}

// equip gives a policy the configurations of pools and queues of the installed one, and what a
// policy of a name has learned unless that is nil.
func (m *Master) equip(p sched.Policy, name string, learned []byte) error {
	hooks := sched.HooksOf(p)
	fc := m.forecasts
	fc.mu.Lock()
	defer fc.mu.Unlock()
	// In any order: each goes to its own parts of the policy.
	for _, conf := range fc.confs {
		for _, h := range hooks.Configs {
			if _, err := h.Reconfigure(conf); err != nil {
				return err
			}
		}
	}
	if learned == nil {
		return nil
	}
	return sched.LoadState(learned, name, hooks.Statefuls)
}

// ownAccount is the account of the master's own work, among the accounts of users.
const ownAccount = "\x00master"

// copyState copies the tracker's state in portions, between which the loop does other work.
// Copies are made one after the other, in the order of the users' use.
func (m *Master) copyState(ctx context.Context, user string) (*forecast.State, protocol.Basis, error) {
	var basis protocol.Basis
	// One copy at a time, because Copier.Known is shared, and because two copies would take the memory of the
	// tracker twice.
	if err := m.forecasts.copies.Take(ctx, user, 1); err != nil {
		return nil, basis, err
	}
	defer m.forecasts.copies.Give(user, 1)
	copier := forecast.Copier{Known: m.forecasts.known}
	for portion := 0; ; portion++ {
		// Buffers, because the loop must not wait for a goroutine that has given up. New ones for
		// each portion, so that no late answer is taken for the next.
		complete := make(chan bool, 1)
		lost := make(chan error, 1)
		m.postOwn(func() {
			// The core may be gone since the portion before, and its portions do not fit to another
			// core's.
			if err := m.notLeader(); err != nil {
				lost <- err
				return
			}
			if portion == 0 {
				basis = m.core.ForecastBasis()
			}
			complete <- copier.Copy(m.core.Tracker(), copyTasks)
		})
		select {
		// ctx is not among the cases: a portion in the inbox uses the copier, so this goroutine must not leave before the portion.
		case done := <-complete:
			if done {
				return copier.State(), basis, nil
			}
			// Only here: a portion that waits in the loop uses the copier.
			if ctx.Err() != nil {
				return nil, basis, context.Cause(ctx)
			}
		case err := <-lost:
			return nil, basis, err
		// The loop has ended and will not run the portion.
		case <-m.stopped:
			return nil, basis, errClosed
		case <-m.ctx.Done():
			return nil, basis, context.Cause(m.ctx)
		}
	}
}

// awaitForecast returns the latest forecast. It waits up to firstWait for a new one if there
// is none yet, or if the latest is stale because no request has come for a while.
func (m *Master) awaitForecast(ctx context.Context) (*forecast.Forecast, time.Duration) {
	f, age := m.Forecast()
	if f != nil && age < staleAfter(f.Took) {
		return f, age
	}
	ctx, cancel := context.WithTimeout(ctx, firstWait)
	defer cancel()
	if f == nil {
		select {
		case <-m.forecasts.ready:
		case <-ctx.Done():
		}
		return m.Forecast()
	}
	// ready is closed once, so only a look finds the next forecast.
	poll := time.NewTicker(firstWait / 20)
	defer poll.Stop()
	for {
		select {
		case <-poll.C:
			if latest, age := m.forecasts.current(); latest != f {
				return latest, age
			}
		case <-ctx.Done():
			return m.forecasts.current()
		}
	}
}

// staleAfter returns the age from which a request waits for a newer forecast. By then the
// rest after a forecast that took so long is over, so the newer one can begin at once.
func staleAfter(took time.Duration) time.Duration { return 3*time.Second + 2*restAfter(took) }

// addForecasts replaces each job that has not ended by a copy with the forecast of its end. With fresh it may wait
// for a forecast, as awaitForecast does; else it takes the latest one.
func (m *Master) addForecasts(ctx context.Context, jobs []*slotwisev1.JobStatus, fresh bool) {
	var f *forecast.Forecast
	var age time.Duration
	var epoch time.Time
	for i, s := range jobs {
		if s.GetEndedMs() != 0 {
			continue
		}
		if protocol.IsChain(s.GetId()) {
			jobs[i] = m.chainForecast(ctx, s)
			continue
		}
		id, err := job.ParseID(s.GetId())
		if err != nil {
			continue
		}
		// Taken only for a job that has not ended: a page of ended jobs waits for no forecast.
		if f == nil {
			if fresh {
				f, age = m.awaitForecast(ctx)
			} else {
				f, age = m.Forecast()
			}
			if f == nil {
				return
			}
			epoch = m.WallTime(0)
		}
		if a := f.Job(id); a != nil {
			jobs[i] = proto.CloneOf(s) // a status may be the answer to several calls
			jobs[i].Forecast = wireForecast(f, a, age, epoch)
		}
	}
}

// chainForecast returns a copy of a chain's status with the forecast of its end, or the status
// itself if the chain has ended.
func (m *Master) chainForecast(ctx context.Context, s *slotwisev1.JobStatus) *slotwisev1.JobStatus {
	id, err := protocol.ParseChain(s.GetId())
	if err != nil {
		return s
	}
	var past []time.Duration
	var elapsed time.Duration
	live, err := query(ctx, m, func() (live bool, err error) {
		elapsed, past, live = m.core.ChainTimes(id)
		return live, nil
	})
	if err != nil || !live {
		return s
	}
	now := time.Now()
	f := &slotwisev1.JobForecast{NowMs: now.UnixMilli(), Unknown: "no chain of its name has succeeded yet, and how many steps it will have is not known"}
	if len(past) > 0 {
		median, early, late := forecast.Again(past, elapsed)
		millis := func(t time.Duration) int64 { return now.Add(t - elapsed).UnixMilli() }
		f.Known, f.Unknown, f.EndMs, f.EarlyMs, f.LateMs = true, "", millis(median), millis(early), millis(late)
		f.Basis = "its own from " + terminal.Plural(len(past), "earlier chain") + " of the same name"
	}
	s = proto.CloneOf(s)
	s.Forecast = f
	return s
}

// wireForecast returns a job's forecast as a message. epoch is the wall clock's time at the
// tracker's 0.
func wireForecast(f *forecast.Forecast, a *forecast.JobForecast, age time.Duration, epoch time.Time) *slotwisev1.JobForecast {
	millis := func(t time.Duration) int64 {
		// 0 is a time that is not known.
		if t == 0 {
			return 0
		}
		return epoch.Add(t).UnixMilli()
	}
	return &slotwisev1.JobForecast{Position: int32(a.Position), StartMs: millis(a.Start), EndMs: millis(a.End), EarlyMs: millis(a.Early),
		LateMs: millis(a.Late), Known: a.Known, Unknown: a.Unknown, Never: a.Never, WaitsFor: a.WaitsFor, Basis: a.Basis,
		MapsEndMs: millis(a.MapsEnd), MapsEarlyMs: millis(a.MapsEarly), MapsLateMs: millis(a.MapsLate), Futures: int32(f.Futures), AgeMs: age.Milliseconds(), Assumptions: f.Assumptions, NowMs: time.Now().UnixMilli()}
}
