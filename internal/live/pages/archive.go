package pages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/console/source"
	"github.com/slotwise/slotwise/internal/live/history"
	"github.com/slotwise/slotwise/internal/live/master/protocol"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// Archive is the source of a console for a history whose master need not run. It changes
// nothing.
type Archive struct {
	source.Ended
	store *history.Store
}

var _ source.Past = (*Archive)(nil)

// OpenArchive opens the history in the directory of a master, or in the directory of a
// history itself. The caller must call Close.
func OpenArchive(dir string) (*Archive, error) {
	store, err := history.OpenRead(dir)
	if err != nil {
		return nil, err
	}
	return &Archive{source.Ended{Err: errOnlyPast}, store}, nil
}

// Close closes the history.
func (a *Archive) Close() error { return a.store.Close() }

// past reads a job with read, and answers an unknown one as a master does.
func (a *Archive) past(id string, read func(string) (*slotwisev1.HistoryJob, error)) (*slotwisev1.HistoryJob, error) {
	h, err := read(id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("the history has no job %s", bounds.Cut(id, 80)))
	}
	return h, err
}

// errOnlyPast is the answer of pages that a history cannot fill.
var errOnlyPast = connect.NewError(connect.CodeNotFound, errors.New("a history has no nodes, no policy and no logs"))

// Jobs implements source.Source.
func (a *Archive) Jobs(ctx context.Context, q source.Query) (source.Jobs, error) {
	return a.History(ctx, q)
}

// Job implements source.Source.
func (a *Archive) Job(_ context.Context, id string) (*source.Job, error) {
	h, err := a.past(id, a.store.Head)
	if err != nil {
		return nil, err
	}
	return &source.Job{Status: h.Job, Why: h.Held, Past: true}, nil
}

// Attempts implements source.Source.
func (a *Archive) Attempts(_ context.Context, id string) ([]source.Attempt, []*slotwisev1.Finding, error) {
	h, err := a.past(id, a.store.Get)
	if err != nil {
		return nil, nil, err
	}
	return PastAttempts(h), protocol.SlowPast(h), nil
}

// History implements source.Source.
func (a *Archive) History(ctx context.Context, q source.Query) (source.Jobs, error) {
	out, err := ListPast(ctx, a.store, q)
	if err != nil {
		out.Note = "A part of the history cannot be read: " + err.Error()
	}
	return out, nil
}

// ListPast lists the jobs and the chains of a history that a query selects, newest first. With
// an error it returns what can be read.
func ListPast(ctx context.Context, store *history.Store, q source.Query) (out source.Jobs, err error) {
	x := history.Query{Kind: history.All, Text: q.Text, User: q.User, Pool: q.Pool, From: q.From, To: q.To, Offset: q.Offset, Limit: q.Limit}
	if q.State != "" {
		// A state that the history does not know has no jobs; without this all jobs would be listed.
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

// PastAttempts returns the attempts of a job of the history.
func PastAttempts(h *slotwisev1.HistoryJob) (out []source.Attempt) {
	for _, t := range h.Tasks {
		task, err := job.ParseTask(t.Id)
		// A task of a later version's form is left out, and the page shows the others.
		if err != nil {
			continue
		}
		for _, a := range t.Attempts {
			x := source.Attempt{ID: a.Id, Kind: 'm', Task: task.Index, State: a.State, Node: a.Node, Level: a.Level, Speculative: a.Speculative,
				// An attempt without an end was running when its node was lost: it gets no length.
				Progress: a.Progress, Started: a.StartedMs, Ended: cmp.Or(a.EndedMs, a.StartedMs), Error: a.Error}
			if task.Kind == job.Reduce {
				x.Kind = 'r'
			}
			out = append(out, x)
		}
	}
	return out
}

// AppendAttempts converts attempts that the tracker remembers and appends them to out.
func AppendAttempts(out []source.Attempt, list []protocol.Execution) []source.Attempt {
	for i := range list {
		e := &list[i]
		a := source.Attempt{ID: e.ID.String(), Kind: 'm', Task: e.ID.Index, State: e.State.String(), Node: e.Node, Speculative: e.Speculative,
			Progress: e.Progress, Started: e.StartedMs, Ended: e.EndedMs, OutputBytes: e.OutputBytes, Error: e.Error}
		if e.ID.Kind == job.Reduce {
			a.Kind = 'r'
		}
		if e.Level != 0 {
			a.Level = e.Level.String()
		}
		out = append(out, a)
	}
	return out
}
