package master

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/live/master/protocol"
	"github.com/slotwise/slotwise/internal/live/wire"
	"github.com/slotwise/slotwise/internal/virtual/forecast"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

const (
	whatIfTime = 30 * time.Second // for one question
	// whatIfEnough is the time after which leastPairs futures of each side are an answer.
	whatIfEnough = 6 * time.Second
	leastPairs   = 5
	mostWhatIf   = 1000 // changes of a kind in one question
	// whatIfTasks is the number of tasks that the submitted jobs of one question may have
	// together. Each costs some hundred bytes in every simulated future.
	whatIfTasks = 200_000
	// explainTasks is the number of unfinished tasks up to which explain searches for changes
	// with which a job would start. The search forks the state some twenty times.
	explainTasks = 20_000
	// explainWait limits the time for which explain waits for a forecast with the job.
	explainWait = 2 * time.Second
)

// WhatIf forecasts the ends of all jobs without and with changes.
func (c clientService) WhatIf(ctx context.Context, r *slotwisev1.WhatIfRequest) (*slotwisev1.WhatIfResponse, error) {
	m, began := c.m, time.Now()
	if len(r.Priorities) > mostWhatIf || len(r.Kill) > mostWhatIf || len(r.Submit) > mostWhatIf {
		return nil, fault(connect.CodeInvalidArgument, "more than %d changes of one kind", mostWhatIf)
	}
	tasks := int64(0)
	for _, j := range r.Submit { // negative numbers are refused below, and must not make room for others
		tasks += int64(max(0, j.Maps)) + int64(max(0, j.Reduces))
	}
	if tasks > whatIfTasks {
		return nil, fault(connect.CodeInvalidArgument, "the jobs to submit have %d tasks, and at most %d can be simulated: submit fewer", tasks, whatIfTasks)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, whatIfTime+m.cfg.slack, fault(connect.CodeDeadlineExceeded,
		"the simulation of the running jobs took more than %v", whatIfTime))
	defer cancel()
	// Before the gates: a question that is wrong must not wait for the ones that are right.
	v, err := m.variant(r, identity(ctx).User)
	if err != nil {
		return nil, err
	}
	placeOf(ctx).leave() // questions have places of their own
	q, err := m.forecasts.begin(ctx, identity(ctx).Account())
	if err != nil {
		return nil, rpcError(err)
	}
	defer q.end()
	// A copy takes memory, so it is made only when the question is admitted, and the turn to
	// simulate is taken only after it: the loop makes the copy, not this goroutine.
	state, basis, err := m.copyState(ctx, q.user)
	if err != nil {
		return nil, rpcError(err)
	}
	if err := q.start(); err != nil {
		return nil, rpcError(err)
	}
	// A copy where it differs. The run without changes uses the same state, so neither run may change it.
	changed, err := state.With(v)
	if err != nil {
		return nil, fault(connect.CodeInvalidArgument, "%v", err)
	}
	cfg := m.forecastConfig(basis)
	cfg.Stop = q.pause
	asIs := forecast.NewRun(cfg, state)
	// The present policy has its learned state in both runs. A new one begins without any, as
	// it would on the cluster.
	if r.Policy != "" {
		if err := protocol.CheckPolicy(r.Policy, r.Set); err != nil {
			return nil, rpcError(err)
		}
		cfg.PolicyName = r.Policy
		cfg.Policy = func() (sched.Policy, error) { return m.freshPolicy(r.Policy, r.Set) }
		p, err := cfg.Policy()
		if err != nil {
			return nil, connect.NewError(connect.CodeInvalidArgument, err)
		}
		if _, chooses := p.(sched.Chooser); chooses {
			return nil, fault(connect.CodeInvalidArgument, "policy %s chooses again and again while jobs run, and a forecast has one policy: ask about one of its candidates", r.Policy)
		}
	}
	otherwise := forecast.NewRun(cfg, changed)
	now, then, err := inPairs(asIs, otherwise)
	if err != nil {
		return nil, rpcError(err)
	}
	// Both sides are corrected by the same errors of the past, so their difference stays
	// meaningful.
	m.forecasts.apply(now, then)
	resp := m.compare(state, changed, now, then, basis.Epoch)
	// The gain compares futures one by one, which only makes sense for jobs that end in both runs.
	for i := range state.Jobs {
		if g, ok := asIs.Gain(otherwise, state.Jobs[i].ID); ok && resp.Jobs[i].Now.GetKnown() && resp.Jobs[i].Then.GetKnown() {
			resp.Jobs[i].Gain = &slotwisev1.JobGain{MedianMs: g.Median.Milliseconds(), LowMs: g.Low.Milliseconds(), HighMs: g.High.Milliseconds()}
		}
	}
	// Last: the answer is complete without it, and the search uses the rest of the time.
	m.wouldKeep(ctx, q, cfg, state, changed, then, resp)
	resp.TookMs = time.Since(began).Milliseconds()
	return resp, nil
}

const (
	// keepTime limits the search for changes with which deadlines are kept: the rest of the answer
	// is ready before.
	keepTime = 5 * time.Second
	// keepJobs is the number of late jobs for which one answer searches.
	keepJobs = 3
)

// wouldKeep adds, to the rows of jobs that would not keep their deadlines, with which further change
// each would. A row without an addition was not searched, or the time was over first.
func (m *Master) wouldKeep(ctx context.Context, q *question, cfg forecast.Config, state, changed *forecast.State, then *forecast.Forecast, resp *slotwisev1.WhatIfResponse) {
	ctx, cancel := context.WithTimeout(ctx, keepTime+m.cfg.slack)
	defer cancel()
	cfg.Stop = func() error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return q.pause()
	}
	searched := 0
	for i := range changed.Jobs {
		j := &changed.Jobs[i]
		kept := func(f *forecast.Forecast) bool {
			a := f.Job(j.ID)
			return a.Known && a.Late <= j.Submitted+j.Spec.Deadline
		}
		// Nothing keeps a deadline that has passed. Where nothing is known of a job's times, more
		// workers would be a guess.
		if a := then.Job(j.ID); j.Spec.Deadline == 0 || j.Submitted+j.Spec.Deadline <= state.At || !a.Known && !a.Never || kept(then) {
			continue
		}
		if searched++; searched > keepJobs {
			return
		}
		found, err := forecast.WouldKeep(cfg, changed, j.ID, func(f *forecast.Forecast) bool {
			m.forecasts.apply(f) // as the answer itself, which would contradict the advice otherwise
			return kept(f)
		})
		row := rowOf(resp, state, j.ID)
		for _, c := range found {
			row.WouldKeep = append(row.WouldKeep, change(c))
		}
		switch {
		case err != nil && ctx.Err() == nil:
			m.log.Warn("what would keep a deadline cannot be worked out", "job", j.ID, "error", err)
			return
		case err != nil:
			return
		case len(found) == 0:
			row.WouldKeep = []string{fmt.Sprintf("neither a higher priority nor %s", terminal.Plural(changed.MostMore(), "more worker"))}
		}
	}
}

// rowOf returns the row of a job: the jobs of the state come first, in its order, then the ones that the
// question submits, by number.
func rowOf(resp *slotwisev1.WhatIfResponse, state *forecast.State, id job.ID) *slotwisev1.WhatIfRow {
	if id > state.Last {
		return resp.Jobs[len(state.Jobs)+int(id-state.Last)-1]
	}
	return resp.Jobs[slices.IndexFunc(state.Jobs, func(j forecast.LiveJob) bool { return j.ID == id })]
}

// change words a Counterfactual.
func change(c forecast.Counterfactual) string {
	switch {
	case c.Slots > 0:
		return terminal.Plural(c.Slots, fmt.Sprintf("more %v slot", c.Kind))
	case c.Nodes > 0:
		return terminal.Plural(c.Nodes, "more worker")
	}
	return "priority " + strings.ToLower(strings.ReplaceAll(c.Priority.String(), "_", "-"))
}

// inPairs simulates the futures of two runs in turn, so that both have as many when
// whatIfEnough is over.
func inPairs(a, b *forecast.Run) (*forecast.Forecast, *forecast.Forecast, error) {
	began := time.Now()
	for done := 1; ; done++ {
		moreA, err := a.Next()
		if err != nil {
			return nil, nil, err
		}
		moreB, err := b.Next()
		if err != nil {
			return nil, nil, err
		}
		// Both sides have the same number of futures, drawn with the same seed, so the difference
		// is not the luck of one more draw.
		if !moreA && !moreB || done >= leastPairs && time.Since(began) > whatIfEnough {
			return a.Result(), b.Result(), nil
		}
	}
}

// compare makes the rows of a what-if answer.
func (m *Master) compare(state, changed *forecast.State, now, then *forecast.Forecast, epoch time.Time) *slotwisev1.WhatIfResponse {
	due := func(j *forecast.LiveJob) int64 {
		if j.Spec.Deadline == 0 {
			return 0
		}
		return epoch.Add(j.Submitted + j.Spec.Deadline).UnixMilli()
	}
	// A side without a job, after the only one was killed, has no futures.
	resp := &slotwisev1.WhatIfResponse{Futures: int32(max(now.Futures, then.Futures)), Assumptions: then.Assumptions, Policy: then.Policy}
	for i := range state.Jobs {
		j := &state.Jobs[i]
		row := &slotwisev1.WhatIfRow{Job: j.ID.String(), Name: j.Spec.Name, Now: wireForecast(now, now.Job(j.ID), 0, epoch), DeadlineMs: due(j)}
		if a := then.Job(j.ID); a != nil {
			row.Then = wireForecast(then, a, 0, epoch)
		}
		resp.Jobs = append(resp.Jobs, row)
	}
	for i := range changed.Jobs {
		// Only jobs that the question adds have such ids.
		if j := &changed.Jobs[i]; j.ID > state.Last {
			resp.Jobs = append(resp.Jobs, &slotwisev1.WhatIfRow{Name: j.Spec.Name, Then: wireForecast(then, then.Job(j.ID), 0, epoch), DeadlineMs: due(j)})
		}
	}
	return resp
}

// machinesOf are the words of requests for the machines of added workers.
var machinesOf = map[string]forecast.Machine{"": forecast.LikeOthers, "new": forecast.NewMachine, "present": forecast.PresentMachine}

// variant translates the changes of a request. user owns the jobs that name no user.
func (m *Master) variant(r *slotwisev1.WhatIfRequest, user string) (v forecast.Variant, err error) {
	// No right is checked: a question changes nothing, and each user may see all jobs.
	v.Nodes = int(r.Nodes)
	var ok bool
	if v.On, ok = machinesOf[r.Machine]; !ok {
		return v, fault(connect.CodeInvalidArgument, "machine %q is unknown: use present or new", r.Machine)
	}
	for _, p := range r.Priorities {
		id, err := job.ParseID(p.Job)
		if err != nil {
			return v, badName(err)
		}
		level, err := parsePriority(p.Priority)
		if err != nil {
			return v, err
		}
		v.Priorities = append(v.Priorities, forecast.NewPriority{Job: id, Priority: level})
	}
	for _, name := range r.Kill {
		id, err := job.ParseID(name)
		if err != nil {
			return v, badName(err)
		}
		v.Kill = append(v.Kill, id)
	}
	for _, j := range r.Submit {
		n, err := m.newJob(j, user)
		if err != nil {
			return v, err
		}
		v.Submit = append(v.Submit, n)
	}
	return v, nil
}

// newJob translates a job that is not submitted.
func (m *Master) newJob(j *slotwisev1.WhatIfJob, user string) (n forecast.NewJob, err error) {
	// Written so that NaN, for which every comparison is false, is refused, too.
	bad := func(x float64) bool { return !(x >= 0 && x < 1e7) || math.IsNaN(x) }
	limit, name := int32(m.cfg.Limits.JobTasks), j.Job.GetName()
	switch {
	case len(name) > bounds.Name || len(j.Job.GetUser()) > bounds.Name || len(j.Job.GetPool()) > bounds.Name:
		return n, fault(connect.CodeInvalidArgument, "a name of a job has more than %d bytes", bounds.Name)
	// reduces > limit-maps instead of maps+reduces > limit, because the sum could overflow.
	case j.Maps < 0 || j.Reduces < 0 || j.Maps > limit || j.Reduces > limit-j.Maps || j.Maps+j.Reduces == 0:
		return n, fault(connect.CodeInvalidArgument, "job %q has %d maps and %d reduces: it may have 1 to %d tasks", name, j.Maps, j.Reduces, limit)
	case bad(j.MapSeconds) || bad(j.ReduceSeconds) || j.SplitBytes < 0:
		return n, fault(connect.CodeInvalidArgument, "job %q: times and sizes must be from 0 to 10,000,000 s", name)
	}
	request, err := wire.DecodeRequest(j.Job)
	if err != nil {
		return n, fault(connect.CodeInvalidArgument, "job %q: %v", name, err)
	}
	request.User = cmp.Or(request.User, user)
	n.Spec = job.Spec{Name: name, Request: request, Splits: make([]job.Split, j.Maps), Reduces: int(j.Reduces)}
	for i := range n.Spec.Splits {
		n.Spec.Splits[i].Bytes = j.SplitBytes
	}
	n.Seconds = [job.Kinds]float64{j.MapSeconds, j.ReduceSeconds}
	return n, nil
}

// wouldStart says with which changes a waiting job would start at once. It returns nothing
// if the answer would cost too much, or if it takes too long because others ask, too.
func (m *Master) wouldStart(ctx context.Context, id job.ID) (list []string) {
	// The latest forecast says that the job runs or is about to. The search, which forks the
	// state many times, would find nothing.
	if f, _ := m.Forecast(); f.Job(id) == nil || f.Job(id).Position == 0 && f.Job(id).WaitsFor == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second+m.cfg.slack)
	defer cancel()
	q, err := m.forecasts.begin(ctx, identity(ctx).Account())
	if err != nil {
		return nil
	}
	defer q.end()
	state, basis, err := m.copyState(ctx, q.user)
	// explain still answers, without this part.
	if err != nil || state.Left() > explainTasks || q.start() != nil {
		return nil
	}
	cfg := m.forecastConfig(basis)
	cfg.Stop = q.pause
	found, err := forecast.WouldStart(cfg, state, id)
	if err != nil && ctx.Err() == nil {
		m.log.Warn("what would start a job cannot be worked out", "job", id, "error", err)
	}
	for _, c := range found {
		text := change(c)
		if c.Slots == 0 {
			text += fmt.Sprintf(" (slotwise priority %v %s)", id, strings.TrimPrefix(text, "priority "))
		}
		list = append(list, text)
	}
	return list
}

// explainForecast adds what a forecast says to an explanation.
func (m *Master) explainForecast(ctx context.Context, id job.ID, resp *slotwisev1.ExplainResponse) {
	status := []*slotwisev1.JobStatus{{Id: resp.Job}}
	for began := time.Now(); ctx.Err() == nil; time.Sleep(explainWait / 20) {
		// A job that is younger than the latest forecast has to wait for the next one.
		if m.addForecasts(ctx, status, true); status[0].Forecast != nil || !m.undecided(ctx, id) || time.Since(began) > explainWait {
			break
		}
	}
	resp.Forecast = status[0].Forecast
	resp.WouldStart = m.wouldStart(ctx, id)
}

// undecided reports whether a job has tasks left.
func (m *Master) undecided(ctx context.Context, id job.ID) bool {
	live, err := query(ctx, m, func() (bool, error) {
		j := m.core.Tracker().Jobs().Get(id)
		return j != nil && j.State().Live(), nil
	})
	return live && err == nil
}

// sliceTime is the time for which one question is simulated before the next has its turn.
const sliceTime = 50 * time.Millisecond

// question is one that is being answered. Each holds copies of the state in memory, so
// their number is bounded. One at a time is simulated, for sliceTime: a short question is
// answered while a long one pauses, and together they use one core.
type question struct {
	fc      *forecaster
	ctx     context.Context
	user    string
	hasTurn bool
	since   time.Time // when the turn began
}

// begin waits until the user may have one more question answered. The caller must call
// end.
func (fc *forecaster) begin(ctx context.Context, user string) (*question, error) {
	if err := fc.questions.Take(ctx, user, 1); err != nil {
		return nil, err
	}
	return &question{fc: fc, ctx: ctx, user: user}, nil
}

// start waits for the first turn.
func (q *question) start() error {
	if err := q.fc.turns.Take(q.ctx, q.user, 1); err != nil {
		return err
	}
	q.hasTurn, q.since = true, time.Now()
	return nil
}

// pause is the forecast.Config.Stop of a question. It lets others have a turn when this one
// has lasted for sliceTime.
func (q *question) pause() error {
	switch {
	case q.ctx.Err() != nil:
		return context.Cause(q.ctx)
	// Runs call Stop many times a second, and giving the turn away each time would cost more than
	// the simulation.
	case time.Since(q.since) < sliceTime:
		return nil
	}
	// Yield returns at once if no other question waits, so one alone is not slowed down.
	err := q.fc.turns.Yield(q.ctx, q.user, 1)
	// After an error the turn is another's, so end must not give it back.
	q.hasTurn, q.since = err == nil, time.Now()
	return err
}

func (q *question) end() {
	if q.hasTurn {
		q.fc.turns.Give(q.user, 1)
	}
	q.fc.questions.Give(q.user, 1)
}

// apply corrects forecasts by the errors of earlier ones.
func (fc *forecaster) apply(list ...*forecast.Forecast) {
	fc.pastUse.Lock()
	defer fc.pastUse.Unlock()
	for _, f := range list {
		fc.past.Apply(f)
	}
}
