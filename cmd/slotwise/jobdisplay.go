package main

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/slotwise/slotwise/mapreduce"
)

// jobDisplay shows how jobs get on: a pair of bars for each on a terminal,
// else a line now and then. Several goroutines may use it.
type jobDisplay struct {
	out      io.Writer
	quiet    bool // no display at all, only what is written to it
	terminal bool

	mu struct {
		sync.Mutex
		bars *mpb.Progress // nil until there is something to show
		jobs map[string]*jobBars
	}
}

// jobBars is what is shown of one job.
type jobBars struct {
	latest      atomic.Pointer[mapreduce.Progress]
	maps, reds  *mpb.Bar // nil until shown, reds for a job without reduces
	failed      int      // attempts that were told of
	lastPrinted time.Duration
}

// barSteps is the length of a bar in its own units.
const barSteps = 1000

// newJobDisplay makes a display on out, or one that shows nothing.
func newJobDisplay(out io.Writer, quiet bool) *jobDisplay {
	d := &jobDisplay{out: out, quiet: quiet, terminal: !quiet && isTerminal(out)}
	d.mu.jobs = map[string]*jobBars{}
	return d
}

// Write prints p, whole lines, where bars do not overwrite it: what child
// processes have to say.
func (d *jobDisplay) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lineWriterLocked().Write(p)
}

// update shows a job's new state.
func (d *jobDisplay) update(p mapreduce.Progress) {
	if d.quiet {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	j := d.mu.jobs[p.ID]
	if j == nil {
		j = new(jobBars)
		d.mu.jobs[p.ID] = j
	}
	j.latest.Store(&p)
	if p.Failed > j.failed {
		j.failed = p.Failed
		fmt.Fprintf(d.lineWriterLocked(), "%s: %s failed, trying again: %s\n",
			p.Job, plural(p.Failed, "attempt"), p.LastError)
	}
	if d.terminal {
		d.drawLocked(j, &p)
	} else if over(p.State) == "" && p.Elapsed-j.lastPrinted >= lineEvery {
		j.lastPrinted = p.Elapsed
		fmt.Fprintln(d.out, progressLine(&p))
	}
}

// lineWriterLocked returns a writer of lines that bars do not overwrite.
func (d *jobDisplay) lineWriterLocked() io.Writer {
	if d.mu.bars != nil {
		return d.mu.bars
	}
	return d.out
}

// drawLocked moves a job's bars, putting them up or taking them away.
func (d *jobDisplay) drawLocked(j *jobBars, p *mapreduce.Progress) {
	if over(p.State) != "" {
		j.drop()
		return
	}
	if j.maps == nil {
		if p.Elapsed < showAfter {
			return
		}
		d.openLocked(j, p)
	}
	j.maps.SetCurrent(int64(p.MapFrac * barSteps))
	if j.reds != nil {
		j.reds.SetCurrent(int64(p.ReduceFrac * barSteps))
	}
}

// openLocked puts a job's bars on the terminal.
func (d *jobDisplay) openLocked(j *jobBars, p *mapreduce.Progress) {
	if d.mu.bars == nil {
		d.mu.bars = mpb.New(mpb.WithOutput(d.out), mpb.WithWidth(48))
	}
	add := func(what string, right func(*mapreduce.Progress) string) *mpb.Bar {
		return d.mu.bars.AddBar(barSteps,
			mpb.PrependDecorators(decor.Name(p.Job+" "+what+" ", decor.WCSyncSpaceR), decor.Percentage(decor.WC{W: 5})),
			mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return " " + right(j.latest.Load()) })))
	}
	j.maps = add("map", speed)
	if p.Reduces > 0 {
		j.reds = add("reduce", left)
	}
}

// drop takes a job's bars away.
func (j *jobBars) drop() {
	for _, b := range []*mpb.Bar{j.maps, j.reds} {
		if b != nil {
			b.Abort(true)
		}
	}
	j.maps, j.reds = nil, nil
}

// close takes all bars away. Nothing may be updated after it.
func (d *jobDisplay) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, j := range d.mu.jobs {
		j.drop()
	}
	if d.mu.bars != nil {
		d.mu.bars.Wait()
		d.mu.bars = nil
	}
}

// over returns the state of a job that has ended, else "".
func over(state string) string {
	switch state {
	case "succeeded", "failed", "killed":
		return state
	}
	return ""
}

// progressLine is a job's progress for a log.
func progressLine(p *mapreduce.Progress) string {
	s := fmt.Sprintf("%s: map %3.0f %%", p.Job, 100*p.MapFrac)
	if p.Reduces > 0 {
		s += fmt.Sprintf(", reduce %3.0f %%", 100*p.ReduceFrac)
	}
	return s + ", " + speed(p) + ", " + left(p)
}

// speed is how fast input has been read so far.
func speed(p *mapreduce.Progress) string {
	return humanBytes(rate(p.BytesRead, p.Elapsed)) + "/s"
}

// left is how long a job may still take.
func left(p *mapreduce.Progress) string {
	d, ok := remaining(p)
	if !ok {
		return "-"
	}
	if d < 100*time.Second {
		return fmt.Sprintf("%.0f s left", d.Seconds())
	}
	return humanDuration(d) + " left"
}

// remaining guesses how long a job will still take: as if it went on as fast
// as it has so far, with the maps two thirds of the work. It does not guess
// before there is something to go by.
func remaining(p *mapreduce.Progress) (time.Duration, bool) {
	done := p.MapFrac
	if p.Reduces > 0 {
		done = (2*p.MapFrac + p.ReduceFrac) / 3
	}
	if done < 0.01 || done > 1 || p.Elapsed < time.Second {
		return 0, false
	}
	return time.Duration(float64(p.Elapsed) * (1 - done) / done), true
}
