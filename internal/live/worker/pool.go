package worker

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slotwise/slotwise/internal/base/durable"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// Starting a process costs more than many a task. So the process of an attempt that has
// succeeded stays, idle, for the next attempt of its job. A process of the worker's own program,
// which runs no code of a job, also serves later jobs of the same user. So a small job finds warm
// processes. The life of a process:
//
//	started ──► attempt ──done, ready──► idle ──► attempt ──► … ──► ended
//
// It ends, and a fresh one takes its place, after an attempt that failed, was stopped, or
// used too much memory; after maxTurns attempts; when it has been idle for idleTime, or
// sharedIdleTime if it serves other jobs; when the only job that it serves has ended; when a process
// is started, there are more processes than slots then, and it has been idle longest; and when
// the worker drains or ends. So idle processes never hold memory beside the attempts of all slots.
//
// An attempt takes a process only if the key is the same: program, limits, user, and the job
// unless the process serves several.
// What isolates attempts from each other:
//
//   - The process reports that it is ready only after all of its descendants have ended.
//   - The worker writes nothing for an attempt to the process after the attempt's end
//     (turn.send), and the process drops messages that arrive between two attempts. The
//     process sends nothing for an attempt after its end.
//   - Each attempt's output goes to its own log, up to the last byte before its end. What
//     goroutines print after it is in the log of the attempt that runs next.
//   - A stopped attempt's process may be killed only until the attempt has ended. From then
//     on superviseChild alone decides, and it never keeps the process of a stopped attempt.
//
// A process may end or hang while it is idle, and the worker may notice that only after it
// has sent the next order. An attempt whose process has not answered with Began has had no
// effect, so the worker starts a fresh process and sends the order again.

// The values of Config.Reuse.
const (
	ReuseOwn = "own" // attempts of the worker's own program: built-in apps and streaming jobs
	ReuseAll = "all" // attempts of uploaded programs, too
	ReuseOff = "off" // none
)

const (
	// idleTime is the time without an attempt after which the worker ends a process of one job,
	// and sharedIdleTime the same for one that serves other jobs.
	idleTime       = 5 * time.Second
	sharedIdleTime = time.Minute
	// maxTurns is the greatest number of attempts of one process. It bounds what attempts
	// leave behind in it, such as open files.
	maxTurns = 1000
	// beginGraces is the time in which a process that was idle must begin its next attempt,
	// as a multiple of Config.KillGrace.
	beginGraces = 10
)

// poolKey says which attempts may have a process one after the other.
type poolKey struct {
	shared  bool   // the process serves several jobs of a user; job and staging are empty
	user    string // of the job, as the master knows him
	job     job.ID
	staging string // distinguishes two jobs to which two masters gave the same id
	path    string // of the executable
	owner   string // the account as which the process runs; "" is the worker's user
	limits  limits
}

// keyOf returns the key of an attempt.
func (w *Worker) keyOf(p *process, info *slotwisev1.JobForWorkerResponse, path string) poolKey {
	k := poolKey{user: info.GetSpec().GetUser(), path: path, limits: p.limits}
	switch {
	case p.owner != nil:
		// With the account's groups, so a process from before an administrator has changed them is not used again.
		k.owner = fmt.Sprint(*p.owner)
	case path == w.cfg.Executable:
		// Commands of a streaming job could change a process of their own user, so other users of
		// the cluster get other processes.
		k.shared = true
		return k
	}
	k.job, k.staging = p.id.Job, info.GetStaging()
	return k
}

// checkReuse validates Config.Reuse.
func (c *Config) checkReuse() error {
	switch c.Reuse {
	case ReuseOwn, ReuseAll, ReuseOff:
		return nil
	}
	return fmt.Errorf("--reuse %q: must be %s, %s or %s", c.Reuse, ReuseOwn, ReuseAll, ReuseOff)
}

// reuses reports whether processes of an executable run several attempts.
func (c *Config) reuses(path string) bool {
	return c.Reuse == ReuseAll || c.Reuse == ReuseOwn && path == c.Executable
}

// takeIdle removes from the pool, and returns, the most recently used idle process with the
// key. It returns nil if the pool has none.
func (w *Worker) takeIdle(key poolKey) *child {
	w.mu.Lock()
	defer w.mu.Unlock()
	// The latest first: the others then reach their idle time and end.
	for i, c := range slices.Backward(w.mu.idle) {
		if c.key != key {
			continue
		}
		select {
		case <-c.ended: // the timer closes its pipes and removes its control group
			continue
		default:
		}
		c.expires.Stop()
		w.mu.idle = slices.Delete(w.mu.idle, i, i+1)
		return c
	}
	return nil
}

// keepIdle puts a process into the pool, which then owns it. It returns false if the
// process is not wanted.
func (w *Worker) keepIdle(c *child) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.turns >= maxTurns || w.mu.draining {
		return false
	}
	within := sharedIdleTime
	if !c.key.shared {
		// The job may have been dropped during the attempt, or another master may have given its
		// number to another job. No attempt would take the process then.
		j := w.mu.jobs[c.key.job]
		if j == nil || j.info.GetStaging() != c.key.staging {
			return false
		}
		within = idleTime
	}
	c.expires = time.AfterFunc(within, func() { w.endIdle(func(d *child) bool { return d == c }) })
	w.mu.idle = append(w.mu.idle, c)
	return true
}

// makeRoom ends the processes that have been idle longest, until there is a slot for one
// more process.
func (w *Worker) makeRoom() {
	w.mu.Lock()
	defer w.mu.Unlock()
	busy := 0
	//house:sorted a count does not depend on the order
	for _, p := range w.mu.processes {
		if p.child != nil {
			busy++
		}
	}
	// 1 is the process that is about to start. If attempts alone use all slots, every idle one goes.
	over := min(busy+len(w.mu.idle)+1-w.cfg.MapSlots-w.cfg.ReduceSlots, len(w.mu.idle))
	if over <= 0 {
		return
	}
	oldest := slices.Clone(w.mu.idle[:over])
	w.endIdleLocked(func(c *child) bool { return slices.Contains(oldest, c) })
}

// endIdle removes the idle processes for which which returns true from the pool and ends
// them in the background.
func (w *Worker) endIdle(which func(*child) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endIdleLocked(which)
}

func (w *Worker) endIdleLocked(which func(*child) bool) {
	w.mu.idle = slices.DeleteFunc(w.mu.idle, func(c *child) bool {
		if !which(c) {
			return false
		}
		c.expires.Stop()
		w.endLater(c)
		return true
	})
}

// keepsDir reports whether the attempt's directory may serve the next attempt. A directory
// of another user must not: its owner could replace what the worker then writes to.
func (p *process) keepsDir(order *slotwisev1.Order) bool {
	return p.owner == nil && len(order.GetJob().GetSpec().GetProgram().GetFiles()) == 0
}

// keepDir keeps the directory of an attempt that has ended for the next one, if it still has
// its first mode and only an empty working directory.
func (c *child) keepDir(dir string) bool {
	if !isFresh(dir, "work") || !isFresh(workDir(dir)) {
		return false
	}
	c.dir = dir
	return true
}

// isFresh reports whether dir is a directory with its first mode and only these entries.
func isFresh(dir string, entries ...string) bool {
	// Lstat: the attempt may have put a link in the place of its directory.
	info, err := os.Lstat(dir)
	if err != nil || info.Mode() != os.ModeDir|0o700 {
		return false
	}
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer f.Close()
	// The attempt may have left a million files there. One more than expected decides, too.
	names, err := f.Readdirnames(len(entries) + 1)
	return (err == nil || err == io.EOF) && slices.Equal(names, entries)
}

// takeDir moves the kept directory to an attempt's path. It returns false if there is none
// or it cannot be moved.
func (c *child) takeDir(to string) bool {
	from := c.dir
	if c.dir = ""; from == "" {
		return false
	}
	if os.Rename(from, to) == nil {
		return true
	}
	_ = durable.RemoveTree(from) // it is fresh, or was
	return false
}

// endLater ends a process that has no attempt in the background. Meanwhile another master may
// have an attempt with an earlier attempt's id launched. So the process's directory gets a
// name that no attempt has before endLater returns.
func (w *Worker) endLater(c *child) {
	if to := filepath.Join(w.home.attempts(), w.uniqueName("ended")); c.takeDir(to) {
		c.dir = to
	}
	w.ending.Go(func() { w.endChild(c) })
}

// uniqueName returns a name with a suffix that no other name of this worker has.
func (w *Worker) uniqueName(name string) string {
	return fmt.Sprintf("%s.%d", name, w.lastName.Add(1))
}

// endChild ends a process that has no attempt. The process ends when its pipe is closed.
func (w *Worker) endChild(c *child) {
	c.in.Close()
	t := time.AfterFunc(w.cfg.KillGrace, c.kill)
	defer t.Stop()
	_ = w.waitChild(c, nil) // a process that ends with its pipe kills itself
	w.removeGroup(c.name, c.group)
	if c.dir != "" {
		w.removeDir(c.dir)
	}
}

// turn is the use of a process by one attempt.
type turn struct {
	child *child
	sends struct {
		sync.Mutex // held while a message is written
		over       bool
	}
	ended bool // the attempt gets no further map outputs; guarded by Worker.mu
	// asking is set while a request to commit has no answer yet. A program that repeats its
	// requests must not cause more than one call to the master at a time.
	asking atomic.Bool
}

// errTurnOver is the error of a message to an attempt that has ended.
var errTurnOver = errors.New("the attempt has ended")

// send writes a message to the process, and fails once the attempt has ended. It blocks
// while the pipe is full.
func (t *turn) send(m *slotwisev1.ToAttempt) error {
	t.sends.Lock()
	defer t.sends.Unlock()
	if t.sends.over {
		return errTurnOver
	}
	return t.child.send(m)
}

// endSends makes send fail, now and later. It waits for a message that is being written,
// for at most grace. It reports whether all messages were written as a whole.
func (t *turn) endSends(grace time.Duration) (whole bool) {
	c := t.child
	// Before the lock, which a send that waits for room in the pipe holds.
	c.in.SetWriteDeadline(time.Now().Add(grace))
	t.sends.Lock()
	t.sends.over = true
	t.sends.Unlock()
	// The next attempt's messages have no deadline.
	c.in.SetWriteDeadline(time.Time{})
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.mu.broken
}
