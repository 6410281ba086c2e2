package master

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/live/history"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// Workers send the ends of attempts' logs as soon as the attempts have ended, apart from
// heartbeats. The history keeps them. They are read when the worker itself cannot send the
// log any more. A log is sent at least once, and storing it twice changes nothing. Logs of
// attempts that run are lost with their worker.

// maxLogs bounds the logs in one request of a worker.
const maxLogs = 1000

// KeepLogs stores logs of attempts that ran on the caller's worker, and drops others.
func (w workerService) KeepLogs(ctx context.Context, r *slotwisev1.KeepLogsRequest) (*slotwisev1.KeepLogsResponse, error) {
	if len(r.Logs) > maxLogs {
		return nil, fault(connect.CodeInvalidArgument, "the request has %d logs, and the most are %d", len(r.Logs), maxLogs)
	}
	// Checked before the question to the loop, so that a broken worker costs the loop nothing.
	for _, l := range r.Logs {
		if len(l.End) > bounds.KeptLog || l.Size < int64(len(l.End)) {
			return nil, fault(connect.CodeInvalidArgument, "a log has %d bytes of %d, and the most are %d", len(l.End), l.Size, bounds.KeptLog)
		}
	}
	logs, err := query(ctx, w.m, func() (logs []history.Log, err error) {
		for _, l := range r.Logs {
			// The core looks the session up, so a worker that was given up cannot store logs any more.
			user, ranHere, err := w.m.core.LogOwner(r.Session, l.Attempt)
			if err != nil {
				return nil, err
			}
			// A worker may only send logs of attempts that ran there. Others are dropped without an
			// error, or it would send them again for ever.
			if ranHere {
				logs = append(logs, history.Log{Name: l.Attempt, End: l.End, Size: l.Size, User: user, Failed: l.Failed})
			}
		}
		return logs, nil
	})
	if err != nil || len(logs) == 0 {
		return &slotwisev1.KeepLogsResponse{}, err
	}
	// Not in the loop: a transaction waits for the disk.
	full, err := w.m.logWriter.put(w.m.history, logs)
	if err != nil {
		w.m.historyUnwritten(err)
		return nil, fault(connect.CodeUnavailable, "the history cannot store logs now: %w", err)
	}
	// The worker stops sending logs of the jobs in Full, which have used up their room.
	return &slotwisev1.KeepLogsResponse{Full: full}, nil
}

// logWriter stores the logs of concurrent requests together: each transaction waits for the
// disk, and a large cluster sends many requests a second.
type logWriter struct {
	mu      sync.Mutex
	pending *logBatch // not begun yet; nil if there is none
	writing sync.Mutex
}

// logBatch is the logs of several requests. full and err are set when done is closed.
type logBatch struct {
	logs []history.Log
	size int // bytes of logs
	done chan struct{}
	full []string
	err  error
}

// put stores logs and returns the jobs and chains that are full. The first request of a
// batch waits for the batch before it and then writes; the others wait until it has written.
func (w *logWriter) put(h *history.Store, logs []history.Log) (full []string, err error) {
	w.mu.Lock()
	b := w.pending
	first := b == nil
	if first {
		b = &logBatch{done: make(chan struct{})}
		w.pending = b
	}
	// The disk is slower than the workers. They keep their logs and try again; without the
	// bound, the master's memory would hold them all.
	// The first one is admitted at any size: it is a message itself, which has a bound.
	if !first && b.size > bounds.Message {
		w.mu.Unlock()
		return nil, errors.New("too many logs wait for the disk")
	}
	b.logs = append(b.logs, logs...)
	for i := range logs {
		b.size += len(logs[i].End)
	}
	w.mu.Unlock()
	if !first {
		<-b.done
		return b.full, b.err
	}
	w.writing.Lock()
	w.mu.Lock()
	// Only now: requests that arrive while the batch before is written join this one.
	w.pending = nil
	w.mu.Unlock()
	b.full, b.err = h.PutLogs(b.logs)
	w.writing.Unlock()
	close(b.done)
	return b.full, b.err
}

// sendKept passes on the log of an attempt or driver that the history has, with a note that
// says so. Without such a log it returns why, with what the user can know of the reason.
// The caller has checked that the user may read it; owner is the user of the job.
func (m *Master) sendKept(name, owner string, why error, send func(*slotwisev1.LogChunk) error) error {
	l, err := m.history.Log(name)
	// A journal that was lost makes the master count jobs from 1 again, so the log may belong
	// to another user's job of the same name.
	if err == nil && l.User != owner { // of a job with the same name on an earlier journal
		err = fs.ErrNotExist
	}
	// The code's name is put in front again below, so the text is taken without it.
	var coded *connect.Error
	reason := why
	if errors.As(why, &coded) {
		reason = coded.Unwrap()
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return connect.NewError(connect.CodeOf(why), fmt.Errorf("%w; the master has kept no log of it either: it printed nothing, its worker ended at once, or the log was removed to make room for later ones", reason))
	case err != nil:
		m.historyUnread(err)
		return why
	}
	part := "all of its log"
	if l.Size > int64(len(l.End)) {
		part = fmt.Sprintf("the last %s of the %s of its log", terminal.Bytes(int64(len(l.End))), terminal.Bytes(l.Size))
	}
	note := fmt.Sprintf("%v; the master has kept %s", reason, part)
	// The note goes with the first chunk only.
	for end := l.End; len(end) > 0; note = "" {
		n := min(len(end), logChunk)
		if err := send(&slotwisev1.LogChunk{Data: end[:n], Note: note}); err != nil {
			return err
		}
		end = end[n:]
	}
	return nil
}
