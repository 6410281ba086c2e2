package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/live/history"
	"github.com/slotwise/slotwise/internal/live/master/protocol"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// Archive is the source of a console for a history whose master need not run. It changes
// nothing.
type Archive struct{ store *history.Store }

var _ Source = (*Archive)(nil)

// OpenArchive opens the history in the directory of a master, or in the directory of a
// history itself. The caller must call Close.
func OpenArchive(dir string) (*Archive, error) {
	store, err := history.OpenRead(dir)
	if err != nil {
		return nil, err
	}
	return &Archive{store}, nil
}

// Close closes the history.
func (a *Archive) Close() error { return a.store.Close() }

// past reads a job with read.
func (a *Archive) past(id string, read func(string) (*slotwisev1.HistoryJob, error)) (*slotwisev1.HistoryJob, error) {
	h, err := read(id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("the history has no job %s", cut(id, 80)))
	}
	return h, err
}

// errOnlyHistory is the answer of pages that a history cannot fill.
var errOnlyHistory = connect.NewError(connect.CodeNotFound, errors.New("a history has no nodes, no policy and no logs"))

// Use implements Source.
func (a *Archive) Use(context.Context) (Use, error) { return Use{}, errOnlyHistory }

// Jobs implements Source.
func (a *Archive) Jobs(ctx context.Context, q Query) (Jobs, error) { return a.History(ctx, q) }

// Job implements Source.
func (a *Archive) Job(_ context.Context, id string) (*Job, error) {
	h, err := a.past(id, a.store.Head)
	if err != nil {
		return nil, err
	}
	return &Job{Status: h.Job, Why: h.Held, Past: true}, nil
}

// Attempts implements Source.
func (a *Archive) Attempts(_ context.Context, id string) ([]Attempt, []*slotwisev1.Finding, error) {
	h, err := a.past(id, a.store.Get)
	if err != nil {
		return nil, nil, err
	}
	return PastAttempts(h), protocol.SlowPast(h), nil
}

// Nodes implements Source.
func (a *Archive) Nodes(context.Context, string) ([]*slotwisev1.NodeStatus, []Attempt, error) {
	return nil, nil, errOnlyHistory
}

// Inspect implements Source.
func (a *Archive) Inspect(context.Context) (string, sched.Insight, error) {
	return "", sched.Insight{}, errOnlyHistory
}

// Policy implements Source.
func (a *Archive) Policy(context.Context) (*Policy, error) { return nil, errOnlyHistory }

// History implements Source.
func (a *Archive) History(ctx context.Context, q Query) (Jobs, error) {
	out, err := ListPast(ctx, a.store, q)
	if err != nil {
		out.Note = "A part of the history cannot be read: " + err.Error()
	}
	return out, nil
}

// ListPast lists the jobs and the chains of a history that a query selects, newest first. With
// an error it returns what can be read.
func ListPast(ctx context.Context, store *history.Store, q Query) (out Jobs, err error) {
	x := history.Query{Kind: history.All, Text: q.Text, User: q.User, Pool: q.Pool, From: q.From, To: q.To, Offset: q.Offset, Limit: q.Limit}
	if q.State != "" {
		if x.State = protocol.ParseState(q.State); x.State == 0 {
			return out, nil
		}
	}
	list, total, err := store.Page(ctx, x)
	for _, h := range list {
		out.List = append(out.List, h.Job)
	}
	out.Total = total
	return out, err
}

// Log implements Source.
func (a *Archive) Log(context.Context, string, bool, io.Writer) error { return errOnlyHistory }

// PastAttempts returns the attempts of a job of the history.
func PastAttempts(h *slotwisev1.HistoryJob) (out []Attempt) {
	for _, t := range h.Tasks {
		task, err := job.ParseTask(t.Id)
		if err != nil {
			continue
		}
		for _, a := range t.Attempts {
			x := Attempt{ID: a.Id, Kind: 'm', Task: task.Index, State: a.State, Node: a.Node, Level: a.Level, Speculative: a.Speculative,
				Progress: a.Progress, Started: a.StartedMs, Ended: cmp.Or(a.EndedMs, a.StartedMs), Error: a.Error}
			if task.Kind == job.Reduce {
				x.Kind = 'r'
			}
			out = append(out, x)
		}
	}
	return out
}
