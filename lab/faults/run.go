package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slotwise/slotwise/internal/base/proctree"
	"github.com/slotwise/slotwise/lab/harness"
)

// outcome has the results of one run.
type outcome struct {
	plan
	took        time.Duration // from the first job's start to the last job's end
	injections  []injection
	jobs        int
	explained   []string    // errors of jobs whose failure a fault explains
	problem     error       // what the checks found; nil if the run is good
	finishes    []time.Time // when tasks succeeded, ascending
	snapshotted int         // snapshots that the masters have made
}

// injection records a fault that was due.
type injection struct {
	fault
	hit   bool          // there was a target and the fault was injected
	began time.Time     // zero if the jobs had ended before
	next  time.Duration // from began until a task succeeded anywhere; -1 if none did
}

// String describes the fault and notes if it found no target.
func (s injection) String() string {
	if !s.hit {
		return s.fault.String() + " (no target)"
	}
	return s.fault.String()
}

// run runs a plan in a separate directory and checks the result. It keeps the
// directory if a check failed, and removes it otherwise or if ctx was cancelled.
func (s *settings) run(ctx context.Context, p plan, in *input) *outcome {
	o := &outcome{plan: p, jobs: len(mixes[p.mix])}
	dir := filepath.Join(s.dir, p.name)
	c, err := s.newCluster(ctx, p, dir, in)
	if err == nil {
		err = s.play(ctx, c, o, in)
	}
	if err == nil && ctx.Err() == nil {
		err = errors.Join(c.idle(), c.shutdown(), c.noProcess(), c.nothingLeft(o), c.outputs(o, in))
	}
	keep := err != nil && ctx.Err() == nil
	if keep {
		err = errors.Join(err, c.saveDisks())
	}
	err = errors.Join(err, c.close())
	o.measure(c)
	if !keep {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	o.problem = err
	return o
}

// play submits the jobs, injects the faults at their times, and waits until the jobs
// have ended. It returns errors that no fault explains.
func (s *settings) play(ctx context.Context, c *cluster, o *outcome, in *input) error {
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	begin := time.Now()
	results := make([]error, o.jobs)
	o.injections = make([]injection, len(o.faults))
	faults := make([]error, len(o.faults))
	var jobs, injecting sync.WaitGroup
	for i, name := range mixes[o.mix] {
		jobs.Go(func() { results[i] = c.submit(limited, jobNamed(name), begin.Add(time.Duration(i)*between), in) })
	}
	running, over := context.WithCancel(limited) // faults are injected only while a job runs
	defer over()
	for i, f := range o.faults {
		injecting.Go(func() { o.injections[i], faults[i] = c.injectAt(running, f, begin) })
	}
	ended := make(chan struct{})
	go func() {
		injecting.Wait()
		time.AfterFunc(s.limit, cancel)
		close(ended)
	}()
	jobs.Wait()
	o.took = time.Since(begin)
	over()
	<-ended
	if ctx.Err() == nil && limited.Err() != nil { // jobs have not ended within the limit
		results = append(results, c.explainStuck())
	}
	return errors.Join(errors.Join(faults...), o.judge(results))
}

// target returns the lock of the process or storage that a fault affects.
func (c *cluster) target(f fault) *sync.Mutex {
	switch {
	case f.kind.storage != "":
		return c.store.target()
	case f.kind.central:
		return &c.master.busy
	}
	return &c.workers[f.worker].busy
}

// injectAt waits until a fault is due, injects it, waits for its duration and undoes
// it. If ctx ends before, it does not inject the fault; if ctx ends while the fault
// lasts, it undoes the fault at once. It holds the target's lock in the meantime, so
// that only one fault at a time affects a process.
func (c *cluster) injectAt(ctx context.Context, f fault, begin time.Time) (injection, error) {
	s := injection{fault: f}
	harness.Sleep(ctx, time.Until(begin.Add(f.at)))
	target := c.target(f)
	target.Lock()
	defer target.Unlock()
	if ctx.Err() != nil {
		return s, nil
	}
	s.began = time.Now()
	undo, hit, err := f.kind.inject(c, f)
	s.hit = hit
	if undo != nil {
		harness.Sleep(ctx, f.lasts)
		err = errors.Join(err, undo())
	}
	if err != nil {
		err = fmt.Errorf("%v: %w", f, err)
	}
	return s, err
}

// judge moves the failures that a fault explains to o.explained and returns the
// other errors joined.
func (o *outcome) judge(results []error) error {
	var others error
	for _, v := range results {
		var failed *jobFailed
		if errors.As(v, &failed) && o.explains(failed) {
			o.explained = append(o.explained, v.Error())
			continue
		}
		others = errors.Join(others, v)
	}
	return others
}

// explains reports whether one of the injected faults can cause this failure. A
// failed job whose output is published can only come from lost journal records.
func (o *outcome) explains(failed *jobFailed) bool {
	return slices.ContainsFunc(o.injections, func(s injection) bool {
		return s.hit && (s.kind.losesRecords || !failed.published) &&
			slices.ContainsFunc(s.kind.causes, func(e string) bool { return strings.Contains(failed.message, e) })
	})
}

// jobFailed is the error of "slotwise submit" for a job that failed.
type jobFailed struct {
	name, message string // the job and the last line of the command's output
	status        int
	published     bool // its output directory exists nevertheless
}

// Error returns the exit status and the message.
func (e *jobFailed) Error() string {
	if e.published {
		return fmt.Sprintf("%s: exit status %d, although its output is published: %s", e.name, e.status, e.message)
	}
	return fmt.Sprintf("%s: exit status %d: %s", e.name, e.status, e.message)
}

// submit submits a job at the given time, waits until it has ended, and checks its
// output.
func (c *cluster) submit(ctx context.Context, w work, at time.Time, in *input) error {
	harness.Sleep(ctx, time.Until(at))
	out := path.Join("out", w.name)
	args := append([]string{"submit"}, w.args...)
	cmd := c.client(ctx, append(args, "--input", c.store.uri("in"), "--output", c.store.uri(out), "--wait", "--no-progress")...)
	var output bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.dir, &output, &output
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s was cancelled: %s", w.name, output.String())
	case err != nil:
		text := strings.TrimSpace(output.String())
		text = text[strings.LastIndexByte(text, '\n')+1:] // the lines before are the summary
		failed := &jobFailed{w.name, text, cmd.ProcessState.ExitCode(), false}
		if failed.published, err = exists(c.store, out); failed.published {
			err = checkOutput(c.store, out, w, in)
		}
		return errors.Join(failed, err)
	}
	if err := checkOutput(c.store, out, w, in); err != nil {
		return fmt.Errorf("%s: %w", w.name, err)
	}
	return nil
}

// outputs checks all outputs again at the end of the run, to show that no late
// attempt or retried request has changed them.
func (c *cluster) outputs(o *outcome, in *input) error {
	var failed error
	for _, name := range mixes[o.mix] {
		out := path.Join("out", name)
		if published, err := exists(c.store, out); err == nil && !published && len(o.explained) > 0 {
			continue
		}
		if err := checkOutput(c.store, out, jobNamed(name), in); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s, checked again at the end: %w", name, err))
		}
	}
	return failed
}

// explainStuck returns an error with the master's view of jobs that do not end.
func (c *cluster) explainStuck() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var all error
	for _, args := range [][]string{{"jobs"}, {"nodes"}, {"tasks", "j1"}, {"explain", "j1"}} {
		out, err := c.client(ctx, args...).CombinedOutput()
		all = errors.Join(all, fmt.Errorf("%v: %v\n%s", args, err, out))
	}
	return all
}

// saveDisks writes a list of the files on the workers' disks, because the disks are
// unmounted at the end.
func (c *cluster) saveDisks() error {
	var b strings.Builder
	for _, w := range c.workers {
		filepath.Walk(w.dir, func(path string, info os.FileInfo, err error) error {
			if err == nil {
				fmt.Fprintf(&b, "%s %d\n", path, info.Size())
			}
			return nil
		})
	}
	return os.WriteFile(filepath.Join(c.dir, "disks.txt"), []byte(b.String()), 0o666)
}

// noProcess returns an error if a process of the cluster is still alive. It finds
// them by the mark in their environment. Tasks that run as the jobs' user have only their
// worker's mark.
func (c *cluster) noProcess() error {
	var left []string
	all := proctree.Marked(c.mark)
	if c.plan.owners {
		for _, w := range c.workers {
			all = append(all, w.tasks()...)
		}
	}
	for _, p := range all {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		if err == nil && !p.Ended {
			left = append(left, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("processes are still running after shutdown: %q", left)
	}
	return nil
}
