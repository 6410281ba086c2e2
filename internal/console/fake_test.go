package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/console/source"
	"github.com/slotwise/slotwise/internal/live/secure"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched"
)

// fake is a source and an actor in memory.
type fake struct {
	use      source.Use
	jobs     []*slotwisev1.JobStatus
	attempts []source.Attempt
	nodes    []*slotwisev1.NodeStatus
	log      string
	copies   int                       // calls of Attempts
	acted    []string                  // the actions that were carried out
	asked    *slotwisev1.WhatIfRequest // of the latest WhatIf
	summary  string                    // of Inspect
}

var (
	_ source.Source = (*fake)(nil)
	_ source.Actor  = (*fake)(nil)
)

// newFake returns a source with a number of jobs that all have one name.
func newFake(jobs int, name string) *fake {
	f := &fake{use: source.Use{Map: 8, Reduce: 4, Alive: 1, Nodes: 1, Pools: []source.Share{{Name: name, Maps: 3, Reduce: 1}}, Users: []source.Share{{Name: "ann", Maps: 2, Reduce: 1, Waiting: 5}, {Name: "bob", Maps: 1}}, Revision: 1}, log: "one\ntwo\n"}
	for i := range jobs {
		f.jobs = append(f.jobs, &slotwisev1.JobStatus{
			Id: fmt.Sprint("j", i+1), Name: name, User: "ann", Pool: name, Priority: "NORMAL", State: slotwisev1.JobState_JOB_STATE_RUNNING, Output: name, Message: name,
			LastError: name, LogTail: name, Waiting: name, SubmittedMs: 1000, StartedMs: 2000,
			Maps: &slotwisev1.TaskCounts{Total: 10, Done: 5, Progress: 0.5}, Reduces: &slotwisev1.TaskCounts{Total: 1},
			MapCounters: &slotwisev1.Counters{InputRecords: 7, User: map[string]int64{name: 3}}, ReduceCounters: &slotwisev1.Counters{},
		})
	}
	f.nodes = []*slotwisev1.NodeStatus{{Name: name, Host: name, Rack: name, State: "alive", Reason: name, MapSlots: 8, ReduceSlots: 4, Maps: 3}}
	for i := range int32(20) {
		f.attempts = append(f.attempts, source.Attempt{ID: fmt.Sprintf("j1_m_%d_0", i), Kind: 'm', Task: i, State: "succeeded", Node: name, Level: "NODE",
			Progress: 1, Started: 2000 + 100*int64(i), Ended: 3000 + 100*int64(i), OutputBytes: 100, Error: name})
	}
	f.attempts[7].Ended += 9000
	return f
}

func (f *fake) Use(context.Context) (source.Use, error) { return f.use, nil }

func (f *fake) Jobs(_ context.Context, q source.Query) (source.Jobs, error) {
	var list []*slotwisev1.JobStatus
	for _, j := range f.jobs {
		if strings.Contains(j.Name, q.Text) && (q.State == "" || q.State == source.StateName(j.State)) {
			list = append(list, j)
		}
	}
	return source.Jobs{List: list[min(q.Offset, len(list)):min(q.Offset+q.Limit, len(list))], Total: len(list)}, nil
}

func (f *fake) Job(ctx context.Context, id string) (*source.Job, error) {
	for _, j := range f.jobs {
		if j.Id == id {
			return &source.Job{Status: j, MayChange: secure.From(ctx).User == j.User, Spec: &slotwisev1.JobSpec{Program: &slotwisev1.Program{App: j.Name, Params: map[string]string{j.Name: j.Name}}},
				Why: []*slotwisev1.Explanation{{Kind: slotwisev1.Kind_KIND_MAP, Reason: "slots", Words: j.Name, Advice: j.Name, HeldMs: 5}}}, nil
		}
	}
	return nil, connect.NewError(connect.CodeNotFound, errors.New("no job "+id))
}

func (f *fake) Attempts(context.Context, string) ([]source.Attempt, []*slotwisev1.Finding, error) {
	f.copies++
	return append([]source.Attempt(nil), f.attempts...), []*slotwisev1.Finding{{Code: "skew", Words: f.nodes[0].Name}}, nil
}

func (f *fake) Nodes(context.Context, string) ([]*slotwisev1.NodeStatus, []source.Attempt, error) {
	return f.nodes, f.attempts[:2], nil
}

func (f *fake) Policy(ctx context.Context) (*source.Policy, error) {
	return &source.Policy{Name: "fifo", Known: []string{"fifo", "fair"}, MayChange: secure.From(ctx).Role == secure.Admin,
		Parts: []source.Part{{Role: "order", Name: "fifo", Summary: "first come", Params: []source.Param{{Name: "x", Value: "1", Default: "2", Doc: "a number"}}}}}, nil
}

func (f *fake) Inspect(context.Context) (string, sched.Insight, error) {
	t := sched.InsightTable{Name: "pools", Help: "by pool", Columns: []sched.Measure{{Name: "pool"}, {Name: "deficit", Unit: "slots", Help: "missing", Chart: "deficits"}}}
	t.Add(sched.Text(f.nodes[0].Name), sched.Number(-2))
	return "fifo", sched.Insight{Summary: f.summary, Figures: []sched.Figure{{Measure: sched.Measure{Name: "map slots", Unit: "slots", Help: "s_m", Chart: "slots by kind"}, Datum: sched.Number(3)}}, Tables: []sched.InsightTable{t}}, nil
}

func (f *fake) History(ctx context.Context, q source.Query) (source.Jobs, error) {
	return f.Jobs(ctx, q)
}

func (f *fake) Stack(_ context.Context, attempt string, w io.Writer) error {
	_, err := io.WriteString(w, "goroutine 1 of "+attempt)
	return err
}

func (f *fake) Log(ctx context.Context, attempt string, _ bool, w io.Writer) error {
	if secure.From(ctx).User != "ann" {
		return connect.NewError(connect.CodePermissionDenied, errors.New("only ann may read the log of "+attempt))
	}
	_, err := io.WriteString(w, f.log)
	return err
}

// may carries out an action of ann.
func (f *fake) may(ctx context.Context, words ...string) error {
	if secure.From(ctx).User != "ann" {
		return connect.NewError(connect.CodePermissionDenied, errors.New("only ann may"))
	}
	f.acted = append(f.acted, strings.Join(words, " "))
	return nil
}

func (f *fake) Kill(ctx context.Context, id, reason string) error {
	return f.may(ctx, "kill", id, reason)
}

func (f *fake) SetPriority(ctx context.Context, id, p string) error {
	return f.may(ctx, "priority", id, p)
}

func (f *fake) Move(ctx context.Context, id, pool string) error { return f.may(ctx, "move", id, pool) }

func (f *fake) MayDrain(ctx context.Context) bool { return secure.From(ctx).Role == secure.Admin }

func (f *fake) Drain(ctx context.Context, node string, undo bool) error {
	return f.may(ctx, "drain", node, fmt.Sprint(undo))
}

func (f *fake) SetPolicy(ctx context.Context, name string, set map[string]string) error {
	return f.may(ctx, "policy", name, fmt.Sprint(set))
}

func (f *fake) MayChange(ctx context.Context, user, _ string) bool {
	return secure.From(ctx).User == user
}

func (f *fake) WhatIf(_ context.Context, changes *slotwisev1.WhatIfRequest) (*slotwisev1.WhatIfResponse, error) {
	name := changes.Policy
	f.asked = changes
	switch name {
	case "nosuch":
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("no policy nosuch"))
	case "slow":
		return nil, connect.NewError(connect.CodeDeadlineExceeded, errors.New("it took too long"))
	}
	end := func(ms int64) *slotwisev1.JobForecast {
		return &slotwisev1.JobForecast{Known: true, EndMs: ms, EarlyMs: ms, LateMs: ms}
	}
	return &slotwisev1.WhatIfResponse{Futures: 32, Policy: name, Assumptions: []string{"no node joins"}, Jobs: []*slotwisev1.WhatIfRow{
		{Job: "j1", Name: f.nodes[0].Name, Now: end(9_000_000), Then: end(9_000_100)}, {Job: "j2", Name: f.nodes[0].Name, Now: end(9_000_000), Then: end(8_940_000)}}}, nil
}

func (f *fake) Succeeded(context.Context, time.Time, int, func(*slotwisev1.HistoryJob) error) error {
	return nil
}

func (f *fake) Detach(ctx context.Context) context.Context { return context.WithoutCancel(ctx) }

// fakeSimulator is a source.Simulator whose answers about the past wait for proceed.
type fakeSimulator struct{ proceed chan struct{} }

func (fakeSimulator) Plan(_ context.Context, mix string) ([]*slotwisev1.WhatIfJob, error) {
	switch mix {
	case "wrong":
		return nil, errors.New("jobs:1: no jobs")
	case "fault":
		panic("a fault")
	}
	return []*slotwisev1.WhatIfJob{{Maps: 3, Job: &slotwisev1.JobSpec{Name: mix}}}, nil
}

func (s fakeSimulator) Past(ctx context.Context, q *source.PastQuestion, report func(string)) (*source.PastAnswer, error) {
	report(fmt.Sprintf("simulating %v", q.Since))
	select {
	case <-s.proceed:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return &source.PastAnswer{Installed: "fifo", Verdict: "fair: it is better", Policy: "fair", Set: map[string]string{"pools": "pool a minMaps=1"}, Notes: []string{"a note"}, Rows: []source.PastRow{
		{Policy: "fifo", Measure: "response.mean", Value: 120}, {Policy: "fair", Measure: "response.mean", Value: 90, Ratio: 0.75, Low: 0.6, High: 0.9, Verdict: "fair beats fifo"}}}, nil
}
