package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/proctree"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// attempt is an attempt that runs or whose end the master has not
// acknowledged. Worker.mu guards what changes.
type attempt struct {
	id      job.AttemptID
	launch  *slotwisev1.Launch
	started time.Time
	stop    context.CancelCauseFunc
	child   *child // nil before its process has started
	log     *logFile

	ended    bool
	deaf     bool // its process has ended: nothing can be told to it
	disowned bool // nobody wants to hear of its end
	state    slotwisev1.AttemptState
	err      string
	done     *slotwisev1.Done
	progress *slotwisev1.Progress
	memory   int64 // resident bytes of its processes
	cpu      time.Duration
}

// report says how the attempt is.
func (a *attempt) report() *slotwisev1.Report {
	r := &slotwisev1.Report{
		Attempt: a.id.String(), State: a.state, Progress: a.progress.GetFraction(), Ticks: a.progress.GetTicks(),
		Error: a.err, CpuNs: int64(a.cpu), Memory: a.memory, StartedMs: a.started.UnixMilli(),
	}
	if a.ended {
		r.OutputBytes, r.Counters = a.done.GetOutputBytes(), a.done.GetCounters()
	}
	if a.state == slotwisev1.AttemptState_ATTEMPT_STATE_SUCCEEDED {
		r.Progress = 1
	}
	return r
}

// killed is why an attempt was stopped that did nothing wrong.
type killed struct{ why string }

// Error returns the reason.
func (k *killed) Error() string { return "killed: " + k.why }

// tooBig is why an attempt was stopped that took too much memory.
type tooBig struct{ used, limit int64 }

// Error says how much.
func (t *tooBig) Error() string {
	return fmt.Sprintf("its processes took %d MiB of memory; a task may take %d MiB (the worker's --task-memory)", t.used>>20, t.limit>>20)
}

// launch starts an attempt, unless it is known already.
func (w *Worker) launch(l *slotwisev1.Launch) {
	id, err := job.ParseAttempt(l.GetAttempt())
	if err != nil {
		w.log.Error("launch refused", "err", err)
		return
	}
	if w.isOther(id.Job, l.GetStaging()) {
		w.log.Warn("the master has forgotten a job, another one has its name", "job", id.Job)
		w.drop(id.Job.String())
	}
	ctx, stop := context.WithCancelCause(context.Background())
	a := &attempt{
		id: id, launch: l, stop: stop, started: time.Now(),
		state: slotwisev1.AttemptState_ATTEMPT_STATE_RUNNING,
	}
	w.mu.Lock()
	known := w.mu.attempts[id] != nil
	if !known {
		w.mu.attempts[id] = a
		w.tasks.Add(1)
		if w.mu.stopped {
			stop(&killed{why: "the worker ends"})
		}
	}
	w.mu.Unlock()
	if known {
		return
	}
	w.metrics.launched(id.Kind)
	go func() {
		defer w.tasks.Done()
		defer stop(nil)
		done, err := w.run(ctx, a)
		w.end(a, done, err)
	}()
}

// end notes how an attempt ended and tells the master at once.
func (w *Worker) end(a *attempt, done *slotwisev1.Done, err error) {
	state := slotwisev1.AttemptState_ATTEMPT_STATE_SUCCEEDED
	text := ""
	switch {
	case err == nil:
	case errors.As(err, new(*killed)):
		state, text = slotwisev1.AttemptState_ATTEMPT_STATE_KILLED, err.Error()
	default:
		state, text = slotwisev1.AttemptState_ATTEMPT_STATE_FAILED, err.Error()
	}
	// It may quote what the task printed, and a message holds text only.
	text = strings.ToValidUTF8(text, "\uFFFD")
	w.mu.Lock()
	a.ended, a.state, a.err, a.done, a.memory = true, state, text, done, 0
	disowned := a.disowned
	if disowned {
		delete(w.mu.attempts, a.id)
	}
	w.mu.Unlock()
	if disowned && state == slotwisev1.AttemptState_ATTEMPT_STATE_SUCCEEDED {
		_ = w.home.discard(a.id) // of a job that is over, or a master that is gone
	}
	w.metrics.ended(a.id.Kind, state)
	w.log.Info("attempt ended", "attempt", a.id, "state", stateName(state), "took", time.Since(a.started), "error", text)
	w.beatNow()
}

// stateName is a state in a word.
func stateName(s slotwisev1.AttemptState) string {
	switch s {
	case slotwisev1.AttemptState_ATTEMPT_STATE_SUCCEEDED:
		return "succeeded"
	case slotwisev1.AttemptState_ATTEMPT_STATE_KILLED:
		return "killed"
	}
	return "failed"
}

// kill stops an attempt. One that has ended is wanted no more, nor is what it
// put out.
func (w *Worker) kill(name, why string) {
	id, err := job.ParseAttempt(name)
	if err != nil {
		w.log.Error("kill refused", "err", err)
		return
	}
	w.mu.Lock()
	a := w.mu.attempts[id]
	if a != nil {
		a.stop(&killed{why: why})
	}
	running := a != nil && !a.ended
	w.mu.Unlock()
	if !running && id.Kind == job.Map {
		if err := w.home.discard(id); err == nil {
			w.log.Info("map output removed", "attempt", id, "why", why)
		}
	}
}

// isOther tells whether the job of a launch is another one than the one known by
// its name: a master whose journal has lost its end gives the same name again.
func (w *Worker) isOther(id job.ID, staging string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	j := w.mu.jobs[id]
	return j != nil && staging != "" && j.info.GetStaging() != staging
}

// drop removes all that is left of a job.
func (w *Worker) drop(name string) {
	id, err := job.ParseID(name)
	if err != nil {
		w.log.Error("drop refused", "err", err)
		return
	}
	w.mu.Lock()
	for _, a := range w.mu.attempts {
		if a.id.Job == id {
			a.disowned = !a.ended
			a.stop(&killed{why: "the job has ended"})
		}
	}
	if j := w.mu.jobs[id]; j != nil {
		j.stop()
		delete(w.mu.jobs, id)
	}
	w.mu.Unlock()
	if err := w.home.dropJob(id); err != nil {
		w.log.Error("map outputs are left", "job", id, "err", err)
	}
	if err := w.home.trimLogs(w.cfg.LogsSize, w.isRunning); err != nil {
		w.log.Error("old logs are left", "err", err)
	}
}

// isRunning tells whether an attempt runs, by its name.
func (w *Worker) isRunning(name string) bool {
	id, err := job.ParseAttempt(name)
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.mu.attempts[id]
	return err == nil && a != nil && !a.ended
}

// watchProcesses kills attempts that take too much memory, and what attempts that
// are no more have left behind.
func (w *Worker) watchProcesses() {
	w.mu.Lock()
	var live []*attempt
	for _, a := range w.mu.attempts {
		if a.child != nil && !a.ended {
			live = append(live, a)
		}
	}
	strays := w.mu.strays
	w.mu.strays = false
	w.mu.Unlock()
	if strays {
		w.killStrays()
	}
	if len(live) == 0 {
		return
	}
	table, err := proctree.Read()
	if err != nil {
		return
	}
	for _, a := range live {
		used, cpu := table.Use(a.child.pid)
		w.mu.Lock()
		a.memory, a.cpu = used, max(a.cpu, cpu)
		w.mu.Unlock()
		if w.cfg.TaskMemory > 0 && used > w.cfg.TaskMemory {
			a.stop(&tooBig{used, w.cfg.TaskMemory})
		}
	}
}

// killStrays ends what this process has adopted: nobody else waits for it.
func (w *Worker) killStrays() {
	if !w.cfg.Adopted {
		return
	}
	w.starter.others(func(mine func(pid int) bool) {
		if n := proctree.KillStrays(mine); n > 0 {
			w.log.Warn("processes left behind by attempts were killed", "processes", n)
		}
	})
}
