package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slotwise/slotwise/internal/proctree"
)

// outcome is how a run went.
type outcome struct {
	plan
	took     time.Duration // from the first job's start to the last job's end
	strikes  []strike
	jobs     int
	excused  []string // jobs that failed as a fault explains, and with what
	wrong    error    // nil is a run in which all held
	finishes []time.Time
}

// strike is what became of a fault.
type strike struct {
	fault
	hit    bool
	struck time.Time
	healed time.Time
	next   time.Duration // from struck to the next task that finished; -1 if none did
}

// String tells of the fault, and whether there was something to hit.
func (s strike) String() string {
	if !s.hit {
		return s.fault.String() + " (nothing to hit)"
	}
	return s.fault.String()
}

// run runs a plan in a directory of its own, which stays if something was wrong
// and not just interrupted.
func (s *settings) run(ctx context.Context, p plan, in *input) *outcome {
	o := &outcome{plan: p, jobs: len(mixes[p.mix])}
	dir := filepath.Join(s.dir, p.name)
	c, err := newCluster(dir, s.binary, p.workers, s.disks)
	if err == nil {
		err = s.play(ctx, c, o, in)
	}
	if err == nil && ctx.Err() == nil {
		err = errors.Join(c.settled(), c.shutdown(), c.noProcess(), c.nothingLeft(o), c.outputs(o, in))
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
	o.wrong = err
	return o
}

// play submits the jobs, has the faults strike and waits for the jobs' end.
func (s *settings) play(ctx context.Context, c *cluster, o *outcome, in *input) error {
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	begin := time.Now()
	verdicts := make([]error, o.jobs)
	o.strikes = make([]strike, len(o.faults))
	faults := make([]error, len(o.faults))
	var jobs, harms sync.WaitGroup
	for i, name := range mixes[o.mix] {
		jobs.Go(func() { verdicts[i] = c.submit(limited, workNamed(name), begin.Add(time.Duration(i)*between), in) })
	}
	needed, over := context.WithCancel(limited) // while there is a job to hurt
	defer over()
	for i, f := range o.faults {
		harms.Go(func() { o.strikes[i], faults[i] = c.suffer(needed, f, begin) })
	}
	healed := make(chan struct{})
	go func() {
		harms.Wait()
		time.AfterFunc(s.limit, cancel)
		close(healed)
	}()
	jobs.Wait()
	o.took = time.Since(begin)
	over()
	<-healed
	if ctx.Err() == nil && limited.Err() != nil { // they did not end in time
		verdicts = append(verdicts, c.stuck())
	}
	return errors.Join(errors.Join(faults...), o.judge(verdicts))
}

// suffer has a fault strike at its time, and ends it; if ctx has ended it does not
// strike, or ends at once.
func (c *cluster) suffer(ctx context.Context, f fault, begin time.Time) (strike, error) {
	s := strike{fault: f}
	rest(ctx, time.Until(begin.Add(f.at)))
	d := c.master
	if !f.kind.central {
		d = &c.workers[f.worker].daemon
	}
	d.busy.Lock()
	defer d.busy.Unlock()
	if ctx.Err() != nil {
		return s, nil
	}
	s.struck = time.Now()
	heal, hit, err := f.kind.strike(c, f)
	s.hit = hit
	if heal != nil {
		rest(ctx, f.lasts)
		err = errors.Join(err, heal())
	}
	s.healed = time.Now()
	if err != nil {
		err = fmt.Errorf("%v: %w", f, err)
	}
	return s, err
}

// rest waits, unless ctx ends before.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// judge divides jobs that failed into those that a fault explains and others.
func (o *outcome) judge(verdicts []error) error {
	var wrong error
	for _, v := range verdicts {
		var failed *jobFailed
		if errors.As(v, &failed) && o.explains(failed) {
			o.excused = append(o.excused, v.Error())
			continue
		}
		wrong = errors.Join(wrong, v)
	}
	return wrong
}

// explains reports whether one of the faults that struck has a job fail with
// such words, and so.
func (o *outcome) explains(failed *jobFailed) bool {
	return slices.ContainsFunc(o.strikes, func(s strike) bool {
		return s.hit && (s.kind.forgets || !failed.published) &&
			slices.ContainsFunc(s.kind.excuses, func(e string) bool { return strings.Contains(failed.said, e) })
	})
}

// jobFailed is a job that ended without success, and said why.
type jobFailed struct {
	name, said string
	status     int
	published  bool // its output is in place nevertheless
}

// Error tells what the job said.
func (e *jobFailed) Error() string {
	if e.published {
		return fmt.Sprintf("%s: exit status %d, with its output in place: %s", e.name, e.status, e.said)
	}
	return fmt.Sprintf("%s: exit status %d: %s", e.name, e.status, e.said)
}

// submit runs a job and compares its output.
func (c *cluster) submit(ctx context.Context, w work, at time.Time, in *input) error {
	rest(ctx, time.Until(at))
	out := filepath.Join(c.out(), w.name)
	args := append([]string{"submit"}, w.args...)
	args = append(args, "--input", in.dir, "--output", out, "--master", c.submits.address(), "--wait", "--no-progress")
	cmd := exec.CommandContext(ctx, c.binary, args...)
	var said bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.dir, &said, &said
	cmd.Env = append(os.Environ(), c.mark, "TMPDIR="+c.temp())
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s has not ended: %s", w.name, said.String())
	case err != nil:
		text := strings.TrimSpace(said.String())
		text = text[strings.LastIndexByte(text, '\n')+1:] // what comes before is the summary
		failed := &jobFailed{w.name, text, cmd.ProcessState.ExitCode(), false}
		if _, err := os.Stat(out); err == nil {
			failed.published = true
			return errors.Join(failed, checkOutput(out, w, in))
		}
		return failed
	}
	if err := checkOutput(out, w, in); err != nil {
		return fmt.Errorf("%s: %w", w.name, err)
	}
	return nil
}

// outputs compares once more what jobs have put out: nothing that came later has
// changed it.
func (c *cluster) outputs(o *outcome, in *input) error {
	var wrong error
	for _, name := range mixes[o.mix] {
		out := filepath.Join(c.out(), name)
		if _, err := os.Stat(out); errors.Is(err, os.ErrNotExist) && len(o.excused) > 0 {
			continue
		}
		if err := checkOutput(out, workNamed(name), in); err != nil {
			wrong = errors.Join(wrong, fmt.Errorf("%s, at the end: %w", name, err))
		}
	}
	return wrong
}

// stuck asks the master what it knows of jobs that do not end.
func (c *cluster) stuck() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var all error
	for _, args := range [][]string{{"jobs"}, {"nodes"}, {"tasks", "j1"}, {"explain", "j1"}} {
		out, err := exec.CommandContext(ctx, c.binary, append(args, "--master", c.submits.address())...).CombinedOutput()
		all = errors.Join(all, fmt.Errorf("%v: %v\n%s", args, err, out))
	}
	return all
}

// saveDisks keeps the names of what is on the workers' disks, which go away.
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

// noProcess complains of processes of the cluster that have outlived it.
func (c *cluster) noProcess() error {
	var left []string
	for _, p := range proctree.Marked(c.mark) {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		if err == nil && !p.Ended {
			left = append(left, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("processes are left: %q", left)
	}
	return nil
}
