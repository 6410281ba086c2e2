package master

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"math"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/base/retry"
	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/live/history"
	"github.com/slotwise/slotwise/internal/live/master/protocol"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// Jobs that are not in memory any more are in the history, which handlers read on
// their own goroutines.

// Numbers of jobs in a list of the history: without a limit in the request, and at
// most.
const (
	defaultPast = 50
	maxPast     = 1000
)

// History lists jobs that have ended, or returns one with its tasks.
func (c clientService) History(ctx context.Context, r *slotwisev1.HistoryRequest) (*slotwisev1.HistoryResponse, error) {
	if r.Job != "" {
		if err := checkName(r.Job, r.Chains); err != nil {
			return nil, err
		}
		j, err := c.m.past(r.Job)
		if err != nil {
			return nil, err
		}
		// One page: a job of a million tasks is longer than a message may be.
		tasks, err := c.m.pastTasks(ctx, &slotwisev1.TasksRequest{Job: r.Job})
		if err != nil {
			return nil, err
		}
		j.Tasks = tasks.Tasks
		return &slotwisev1.HistoryResponse{Jobs: []*slotwisev1.HistoryJob{c.m.shownPast(identity(ctx), j)}, Next: tasks.Next}, nil
	}
	q := history.Query{Text: r.Text, User: r.User, Pool: r.Pool, State: r.State, From: r.SubmittedFromMs, To: r.SubmittedToMs, Since: r.EndedFromMs,
		Before: r.Before, Limit: pastLimit(r.Limit)}
	if r.Chains {
		q.Kind = history.Chains
	}
	if r.Before != "" {
		if err := checkName(r.Before, r.Chains); err != nil {
			return nil, err
		}
	}
	done, err := c.m.readHistory(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	jobs, err := c.m.history.List(ctx, q)
	// The jobs read so far are an answer; the note says that some are missing.
	if err != nil {
		c.m.historyUnread(err)
	}
	resp := &slotwisev1.HistoryResponse{}
	if note := c.m.historyNote.Load(); note != nil {
		resp.Note = *note
	}
	page := protocol.Page{}
	for _, j := range jobs {
		// Next names the last job that was sent: the next request continues behind it.
		// The first entry always fits (Page), so the list behind Next is not empty.
		if j = c.m.shownPast(identity(ctx), j); !page.Add(proto.Size(j)) {
			resp.Next = resp.Jobs[len(resp.Jobs)-1].Job.Id
			break
		}
		resp.Jobs = append(resp.Jobs, j)
	}
	return resp, nil
}

// checkName returns an error if name is not the name of a job or of a chain. With chains only
// the name of a chain is right.
func checkName(name string, chains bool) (err error) {
	if chains || protocol.IsChain(name) {
		if _, err = protocol.ParseChain(name); err != nil {
			return rpcError(err)
		}
		return nil
	}
	if _, err = job.ParseID(name); err != nil {
		return connect.NewError(connect.CodeInvalidArgument, err)
	}
	return nil
}

// pastLimit returns the number of jobs that a request for at most n lists.
func pastLimit(n int32) int {
	if n <= 0 {
		return defaultPast
	}
	return min(int(n), maxPast)
}

// writeHistory stores an ended job or chain in the background. While the history cannot take
// it, writeHistory retries with growing pauses until the master ends. It reports the first
// failure and the end of the retries. The core's limits bound the entries that wait here.
// One entry is written at a time. The others wait without a lock, so that the master ends
// soon even if another process has locked the database.
func (m *Master) writeHistory(entry *slotwisev1.HistoryJob, result func(error) protocol.Message) {
	l := m.lead
	m.background.Go(func() {
		reported := false
		o := retry.Options{FirstPause: firstPause, LastPause: longestPause, Patience: retry.While(func(err error) bool { return !errors.Is(err, history.ErrRefused) }),
			Retrying: func(err error) {
				if reported {
					return
				}
				// The core shows users the end of the job after this first report.
				reported = true
				m.log.Error("a job or chain cannot be written to the history now: the master tries again, and its journal keeps it meanwhile", "id", entry.Job.Id, "error", err)
				m.report(l, result(err))
			}}
		err := retry.Run(l.ctx, o, func(ctx context.Context) error {
			select {
			case m.historyTurn <- struct{}{}:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			// The own copy first. If the others fail, the next try finds it stored and changes nothing here.
			err := m.history.Put(entry)
			// The turn ends before the calls to the other masters: a frozen one would hold up all
			// other entries.
			<-m.historyTurn
			if err == nil {
				err = m.keepHistory(ctx, entry)
			}
			return err
		})
		switch {
		// The record itself is the reason, so no further try could store it. The core must learn
		// that the entry is done, or the job would stay in memory and in the journal for ever.
		case errors.Is(err, history.ErrRefused):
			m.log.Error("a job or chain is not kept in the history", "id", entry.Job.Id, "error", err)
		case err != nil:
			return // the master ends, and the next one writes the entry
		}
		m.report(l, result(nil))
	})
}

// historyUnread logs that an answer lacks jobs of the history. Every request may meet the same
// damage, so the lines are limited.
func (m *Master) historyUnread(err error) {
	if skipped, ok := m.unread.Allow(time.Now()); ok {
		m.log.Error("the history cannot be read completely", "error", err, "lines_left_out", skipped)
	}
}

// historyUnwritten logs that logs of attempts cannot be kept. Each worker tries again, so the
// lines are limited.
func (m *Master) historyUnwritten(err error) {
	if skipped, ok := m.unwritten.Allow(time.Now()); ok {
		m.log.Error("the logs of attempts cannot be written to the history: workers try again", "error", err, "lines_left_out", skipped)
	}
}

// historyDamaged is the history's history.Report.
func (m *Master) historyDamaged(aside string, damage error) {
	note := "earlier jobs are missing: the history was lost"
	if aside == "" {
		m.log.Error("the history was lost and begins anew", "error", damage)
	} else {
		note = "earlier jobs are missing: the history was damaged, and " + aside + " is the damaged database"
		m.log.Error("the history was damaged and begins anew; the damaged database is kept", "as", aside, "error", damage)
	}
	note += " (" + m.start.Format(time.RFC3339) + " or later)"
	m.historyNote.Store(&note)
	m.stats.damaged.Inc()
}

// historyLost reports that a history which was new at the start lacks n jobs that have ended by the journal.
func (m *Master) historyLost(n int) {
	m.historyDamaged("", errors.New("there was no database at the start, and by the journal it has "+terminal.Plural(n, "job")))
}

// trimEvery is the time between two removals of entries that have become too old. New
// entries remove old ones, too.
const trimEvery = time.Hour

// trimHistory removes old entries of the history until the master ends.
func (m *Master) trimHistory() {
	tick := time.NewTicker(trimEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := m.history.Trim(); err != nil {
				m.log.Error("old jobs cannot be removed from the history", "error", err)
			}
		case <-m.ctx.Done():
			return
		}
	}
}

// withPast adds jobs and chains of the history to live, a page of jobs in memory. The
// page begins behind the position after. Jobs that ended before the master was restarted
// are only in the history.
func (m *Master) withPast(ctx context.Context, r *slotwisev1.JobsRequest, after int64, live *slotwisev1.JobsResponse) *slotwisev1.JobsResponse {
	done, err := m.readHistory(ctx)
	if err != nil {
		return live // the caller has gone
	}
	defer done()
	list := map[int64]*slotwisev1.JobStatus{}
	until := int64(math.MaxInt64)
	// The page of jobs in memory was cut off there. Jobs of the history behind it belong to
	// the next page.
	if live.Next != "" {
		until = protocol.ListPosition(live.Next) // later jobs belong to the next page
	}
	for _, kind := range []history.Kind{history.Jobs, history.Chains} {
		// The limit is the number of ended jobs that memory has: a restarted master lists as many as before its
		// restart, and slotwise history has the others.
		old, err := m.history.List(ctx, history.Query{Kind: kind, User: r.User, Pool: r.Pool, Limit: max(0, m.cfg.KeepEnded)})
		if err != nil {
			m.historyUnread(err)
		}
		for _, h := range old {
			if at := protocol.ListPosition(h.Job.Id); at > after && at <= until {
				list[at] = h.Job
			}
		}
	}
	// A job that has just ended is in both. The core's status is not older than the history's.
	for _, s := range live.Jobs {
		list[protocol.ListPosition(s.Id)] = s
	}
	resp := &slotwisev1.JobsResponse{Next: live.Next}
	page := protocol.Page{}
	for _, at := range slices.Sorted(maps.Keys(list)) {
		if !page.Add(proto.Size(list[at])) {
			resp.Next = resp.Jobs[len(resp.Jobs)-1].Id
			break
		}
		resp.Jobs = append(resp.Jobs, list[at])
	}
	return resp
}

// pastTasks returns the page of a job's tasks that a request asks for, from the history. It
// decodes the tasks up to the end of the page.
func (m *Master) pastTasks(ctx context.Context, r *slotwisev1.TasksRequest) (*slotwisev1.TasksResponse, error) {
	done, err := m.readHistory(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	resp := &slotwisev1.TasksResponse{}
	page, began := protocol.Page{}, r.After == ""
	for j, err := range m.history.Pieces(r.Job) {
		if err != nil {
			return nil, m.pastError(r.Job, err)
		}
		for _, t := range j.Tasks {
			id, err := job.ParseTask(t.Id)
			wanted := began && err == nil && (r.Kind == slotwisev1.Kind_KIND_UNSPECIFIED || r.Kind == protocol.WireKind(id.Kind)) &&
				protocol.InState(t, r.State)
			// After the test above, because the page begins behind this task.
			began = began || t.Id == r.After
			if !wanted {
				continue
			}
			if !page.Add(proto.Size(t)) {
				resp.Next = resp.Tasks[len(resp.Tasks)-1].Id
				return resp, nil
			}
			resp.Tasks = append(resp.Tasks, t)
		}
	}
	return resp, nil
}

// readHistory waits until the user may have one more costly read of the history: a list, or
// a job with its tasks. The database has few connections, and who waits for one does so in
// the order of arrival. The caller must call done.
func (m *Master) readHistory(ctx context.Context) (done func(), err error) {
	user := identity(ctx).Account()
	if err := m.requests.reads.Take(ctx, user, 1); err != nil {
		return nil, rpcError(err)
	}
	return func() { m.requests.reads.Give(user, 1) }, nil
}

// past reads a job without its tasks, or a chain, from the history.
func (m *Master) past(name string) (*slotwisev1.HistoryJob, error) {
	j, err := m.history.Head(name)
	return j, m.pastError(name, err)
}

// pastWhole reads a job with its tasks from the history.
func (m *Master) pastWhole(ctx context.Context, name string) (*slotwisev1.HistoryJob, error) {
	done, err := m.readHistory(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	j, err := m.history.Get(name)
	return j, m.pastError(name, err)
}

// pastError returns the answer for an error of the history, nil for nil.
func (m *Master) pastError(name string, err error) error {
	switch {
	// One of the masters that have not answered yet may have the entry. The client tries again.
	// Only NotFound is doubtful. An entry that is there was stored by a majority and is right.
	case errors.Is(err, fs.ErrNotExist) && !m.pull.Load().complete():
		return fault(connect.CodeUnavailable, "this master leads for a short time and has not read the history of the others yet, which may have %s: try again", name)
	case errors.Is(err, fs.ErrNotExist) && protocol.IsChain(name):
		return fault(connect.CodeNotFound, "no chain %s", name)
	case errors.Is(err, fs.ErrNotExist):
		return fault(connect.CodeNotFound, "no job %s", name)
	case err != nil:
		return rpcError(err)
	}
	return nil
}

// changedPast returns the answer to a change of a job or chain that is not in memory. It is an error, unless the
// entry has ended in the state goal: a client repeats its request if the leader dies before it answers.
func (m *Master) changedPast(name string, goal slotwisev1.JobState) error {
	j, err := m.past(name)
	if err == nil && (goal == slotwisev1.JobState_JOB_STATE_UNSPECIFIED || j.GetJob().GetState() != goal) {
		err = fault(connect.CodeFailedPrecondition, "%s has ended", name)
	}
	return err
}

// orPast returns v and err, or if err says that the job is not in memory, the answer
// that past makes of the history, and its error: that one may say that the history is not read yet.
func orPast[T any](v T, err error, past func() (T, error)) (T, error) {
	if connect.CodeOf(err) != connect.CodeNotFound {
		return v, err
	}
	return past()
}
