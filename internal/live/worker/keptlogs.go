package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/base/bounds"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// When an attempt or driver has ended and has printed something, the worker sends the end of
// its log to the master, which keeps it for the time after this worker. One goroutine sends
// the logs of several attempts together, apart from heartbeats. While the master is away it
// tries again. A worker drains until the master has all logs; one that ends at once has lastLogs left.
//
// A master that has replaced another one gives the same names to attempts of other users. So
// it never gets a log of an attempt that began under an earlier master.

const (
	gatherLogs = 200 * time.Millisecond // pause before a request, so that it carries the logs of several attempts
	lastLogs   = 5 * time.Second        // for the logs that are left when the worker ends
	mostLogs   = 10_000                 // that wait; beyond them the oldest are dropped
	mostFull   = 10_000                 // jobs and chains that are remembered as full
	logsAtOnce = bounds.Batch / bounds.KeptLog
)

// endedLog is the log of an attempt or driver that has ended.
type endedLog struct {
	name    string
	run     string // the job or chain
	log     *logFile
	failed  bool
	masters int // Worker.mu.masters when the attempt or driver began
}

// errOtherMaster reports that another master has replaced the one that knows the attempts.
var errOtherMaster = errors.New("another master has replaced the one of these attempts")

// logSender holds the logs that wait to be sent.
type logSender struct {
	mu struct {
		sync.Mutex
		waiting []endedLog
		sending int             // logs that take has returned last and that are being sent
		full    map[string]bool // jobs and chains of which the master keeps logs of failed attempts only
	}
	wake chan struct{} // holds a value when logs wait
}

// add queues a log unless the master would drop it. log is nil if the attempt has not begun.
func (s *logSender) add(l endedLog) {
	if l.log == nil || l.log.printed() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.full[l.run] && !l.failed {
		return
	}
	// The oldest go: the newest failures are the ones that a user asks about. The files stay on this machine in
	// any case.
	if len(s.mu.waiting) == mostLogs {
		s.mu.waiting = s.mu.waiting[1:]
	}
	s.mu.waiting = append(s.mu.waiting, l)
	// One signal in the channel is enough for all logs that wait.
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// take removes the next logs to send from the queue. All are of attempts under one master.
func (s *logSender) take() []endedLog {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for n < min(len(s.mu.waiting), logsAtOnce) && s.mu.waiting[n].masters == s.mu.waiting[0].masters {
		n++
	}
	batch := s.mu.waiting[:n:n]
	s.mu.sending = n
	// Without this the slice would keep the array, and the ended logs in it, alive.
	if s.mu.waiting = s.mu.waiting[n:]; len(s.mu.waiting) == 0 {
		s.mu.waiting = nil
	}
	return batch
}

// left returns the number of logs that the master has not got yet.
func (s *logSender) left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.waiting) + s.mu.sending
}

// setFull remembers jobs and chains of which the master keeps logs of failed attempts only.
func (s *logSender) setFull(runs []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, run := range runs {
		if s.mu.full == nil || len(s.mu.full) >= mostFull { // a chain, or a job that has ended meanwhile, stays
			s.mu.full = map[string]bool{}
		}
		s.mu.full[run] = true
	}
}

// forget removes what setFull has remembered of a job that has ended.
func (s *logSender) forget(run string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.full, run)
}

// clear drops everything: another master has replaced the one that knows these attempts.
func (s *logSender) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.waiting, s.mu.full = nil, nil
}

// sendLogs sends logs until ctx is cancelled, and then the remaining ones.
func (w *Worker) sendLogs(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-w.logs.wake:
		case <-ctx.Done():
		}
		t := time.NewTimer(gatherLogs)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
		w.sendWaiting(ctx)
	}
	last, cancel := context.WithTimeout(context.Background(), lastLogs)
	defer cancel()
	w.sendWaiting(last)
	if n := w.logs.left(); n > 0 {
		w.log.Warn("this worker ends, and the master has not kept the logs of the last attempts", "logs", n)
	}
}

// sendWaiting sends all logs that wait. It returns when none is left, or when ctx is
// cancelled, with the logs that are left in the queue.
func (w *Worker) sendWaiting(ctx context.Context) {
	for batch := w.logs.take(); len(batch) > 0; batch = w.logs.take() {
		// Read once for all tries: an attempt of the same name may begin a new log in between.
		logs := w.readLogs(batch)
		for try := 0; len(logs) > 0; try++ {
			full, err := w.keepLogs(ctx, logs, batch[0].masters)
			if err == nil {
				w.logs.setFull(full)
				break
			}
			if errors.Is(err, errOtherMaster) {
				break
			}
			// At the worker's end the last call of sendWaiting takes them again, with its own time
			// limit.
			if ctx.Err() != nil {
				w.logs.putBack(batch)
				return
			}
			// A refusal is final for these logs, and the next ones must not wait behind them. A
			// session that is over is no refusal: the next try names the next session.
			if c := connect.CodeOf(err); isRefusal(err) && c != connect.CodeUnauthenticated || c == connect.CodeUnimplemented {
				w.log.Warn("the master does not keep the logs of attempts that have ended", "logs", len(logs), "err", err)
				break
			}
			// After a second and a half, so that a change of the leader is no warning. A drain may take long for this.
			if try == 5 {
				w.log.Warn("the master has not kept the logs of ended attempts yet: they are sent again, and a drain waits for it", "logs", len(logs), "err", err)
			}
			backOff(ctx, try)
		}
	}
}

// putBack makes logs the next ones to send.
func (s *logSender) putBack(logs []endedLog) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.waiting, s.mu.sending = append(logs, s.mu.waiting...), 0
}

// readLogs reads the ends of logs. It leaves out logs that cannot be read: they were removed
// to make room, or an attempt with the same name has begun.
func (w *Worker) readLogs(batch []endedLog) []*slotwisev1.EndedLog {
	var logs []*slotwisev1.EndedLog
	for _, l := range batch {
		if end, size := l.log.last(bounds.KeptLog); len(end) > 0 {
			logs = append(logs, &slotwisev1.EndedLog{Attempt: l.name, End: end, Size: size, Failed: l.failed})
		}
	}
	return logs
}

// keepLogs sends logs to the master in the current session, or returns errOtherMaster.
// masters is the value of Worker.mu.masters when the attempts began.
func (w *Worker) keepLogs(ctx context.Context, logs []*slotwisev1.EndedLog, masters int) (full []string, err error) {
	w.mu.Lock()
	session, same := w.mu.agent.Session(), w.mu.masters == masters
	w.mu.Unlock()
	// Looked at under the lock with the session: the answer would otherwise be given to another master's
	// session.
	if !same {
		return nil, errOtherMaster
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := w.rpc.KeepLogs(ctx, &slotwisev1.KeepLogsRequest{Session: session, Logs: logs})
	return resp.GetFull(), err
}
