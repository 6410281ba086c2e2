package webui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/history"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/master/protocol"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// Archive is the source of a console for the history of a master that need not run. It
// reads the directory once, when it is opened, and changes nothing there.
type Archive struct {
	dir    string
	jobs   []*slotwisev1.JobStatus // newest first
	byID   map[string]string       // names of files by id
	broken int                     // files that cannot be read
}

var _ Source = (*Archive)(nil)

// OpenArchive reads the history in the directory of a master, or in the directory of a
// history itself.
func OpenArchive(dir string) (*Archive, error) {
	if inside := filepath.Join(dir, "history"); isDir(inside) {
		dir = inside
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	a := &Archive{dir: dir, byID: map[string]string{}}
	for _, e := range entries {
		if !history.IsFile(e.Name()) {
			continue
		}
		h, err := a.read(e.Name())
		if err != nil {
			a.broken++
			continue
		}
		a.byID[h.Job.Id] = e.Name()
		a.jobs = append(a.jobs, h.Job)
	}
	if len(a.jobs) == 0 {
		return nil, fmt.Errorf("%s has no file of an ended job: name the directory of a master (slotwise master --dir)", dir)
	}
	slices.SortStableFunc(a.jobs, func(x, y *slotwisev1.JobStatus) int { return cmp.Compare(y.SubmittedMs, x.SubmittedMs) })
	return a, nil
}

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

// read reads the file of a job.
func (a *Archive) read(name string) (*slotwisev1.HistoryJob, error) {
	f, err := os.Open(filepath.Join(a.dir, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return history.Read(f)
}

// past reads a job with its tasks.
func (a *Archive) past(id string) (*slotwisev1.HistoryJob, error) {
	name, ok := a.byID[id]
	if !ok {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("the history has no job %s", cut(id, 80)))
	}
	return a.read(name)
}

// errOnlyHistory is the answer of pages that a history cannot fill.
var errOnlyHistory = connect.NewError(connect.CodeNotFound, errors.New("a history has no nodes, no policy and no logs"))

// Use implements Source.
func (a *Archive) Use(context.Context) (Use, error) { return Use{}, errOnlyHistory }

// Jobs implements Source.
func (a *Archive) Jobs(ctx context.Context, q Query) (Jobs, error) { return a.History(ctx, q) }

// Job implements Source.
func (a *Archive) Job(_ context.Context, id string) (*Job, error) {
	h, err := a.past(id)
	if err != nil {
		return nil, err
	}
	return &Job{Status: h.Job, Why: h.Held, Past: true}, nil
}

// Attempts implements Source.
func (a *Archive) Attempts(_ context.Context, id string) ([]Attempt, []*slotwisev1.Finding, error) {
	h, err := a.past(id)
	if err != nil {
		return nil, nil, err
	}
	return PastAttempts(h), protocol.SlowPast(h), nil
}

// Nodes implements Source.
func (a *Archive) Nodes(context.Context, string) ([]*slotwisev1.NodeStatus, []Attempt, error) {
	return nil, nil, errOnlyHistory
}

// Policy implements Source.
func (a *Archive) Policy(context.Context) (*Policy, error) { return nil, errOnlyHistory }

// History implements Source.
func (a *Archive) History(_ context.Context, q Query) (out Jobs, err error) {
	var all []*slotwisev1.JobStatus
	for _, j := range a.jobs {
		if q.Matches(j) {
			all = append(all, j)
		}
	}
	if a.broken > 0 {
		out.Note = fmt.Sprintf("%d files of the history cannot be read.", a.broken)
	}
	out.List, out.Total = q.Page(all)
	return out, nil
}

// Log implements Source.
func (a *Archive) Log(context.Context, string, bool, io.Writer) error { return errOnlyHistory }

// Matches reports whether the query selects a job.
func (q *Query) Matches(j *slotwisev1.JobStatus) bool {
	text := strings.ToLower(q.Text)
	return (q.User == "" || q.User == j.User) && (q.Pool == "" || q.Pool == j.Pool) && (q.State == "" || q.State == protocol.StateWord(j.State)) &&
		j.SubmittedMs >= q.From && (q.To == 0 || j.SubmittedMs <= q.To) &&
		(text == "" || strings.Contains(strings.ToLower(j.Id), text) || strings.Contains(strings.ToLower(j.Name), text))
}

// Page returns the query's page of the selected jobs, and their number.
func (q *Query) Page(all []*slotwisev1.JobStatus) (page []*slotwisev1.JobStatus, total int) {
	from := min(max(0, q.Offset), len(all))
	return all[from:min(from+q.Limit, len(all))], len(all)
}

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
