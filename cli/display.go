package cli

import (
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/cwriter"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/live/local"
	"github.com/slotwise/slotwise/mapreduce"
)

// showAfter is the time for which a command runs before it shows bars. Shorter commands need none.
// A bar that comes and goes within a blink looks like a fault of the terminal.
const showAfter = 300 * time.Millisecond

// isTerminal reports whether w is a terminal. It looks through the writers of this package: the
// output of a command is an Escaper even on a terminal.
func isTerminal(w io.Writer) bool {
	f := fileOf(w)
	return f != nil && cwriter.IsTerminal(int(f.Fd()))
}

// fileOf returns the file to which w writes, nil if there is none.
func fileOf(w io.Writer) *os.File {
	// From the outside in: the Escaper, results, the file. Standard error has no results.
	w = raw(w)
	if r, ok := w.(*results); ok {
		w = r.Writer
	}
	f, _ := w.(*os.File)
	return f
}

// byteDisplay shows the progress of a command that processes a known number of bytes: a bar on a
// terminal, else an occasional line. One goroutine uses it at a time. It needs no lines above its
// bar: such commands run no programs of others.
type byteDisplay struct {
	out   io.Writer // nil to show nothing
	name  string
	total int64
	start time.Time
	last  time.Time // time of the last line
	bars  *mpb.Progress
	bar   *mpb.Bar
}

// newByteDisplay returns a display on out for total bytes. With quiet it shows
// nothing.
func newByteDisplay(out io.Writer, quiet bool, name string, total int64) *byteDisplay {
	now := time.Now()
	d := &byteDisplay{out: out, name: name, total: total, start: now, last: now}
	if quiet {
		d.out = nil
	}
	return d
}

// update shows that n bytes are done.
func (d *byteDisplay) update(n int64) {
	if d.out == nil {
		return
	}
	now := time.Now()
	switch {
	case d.bar != nil:
		d.bar.SetCurrent(n)
	// A terminal gets a bar that moves with each call. In a log every line stays, so they are rare
	// there.
	case isTerminal(d.out):
		if now.Sub(d.start) >= showAfter {
			d.open(n)
		}
	case now.Sub(d.last) >= local.LineEvery:
		d.last = now
		terminal.Fprintf(d.out, "%s: %3.0f %%, %s/s\n", d.name,
			100*float64(n)/float64(max(d.total, 1)), terminal.Bytes(terminal.Rate(n, now.Sub(d.start))))
	}
}

// open adds the bar to the terminal.
func (d *byteDisplay) open(n int64) {
	// The bar consists of escape sequences, so it goes around the escaper.
	d.bars = mpb.New(mpb.WithOutput(raw(d.out)), mpb.WithWidth(64))
	speed := func(s decor.Statistics) string {
		return " " + terminal.Bytes(terminal.Rate(s.Current, time.Since(d.start))) + "/s"
	}
	// Without a length at first, for the reason in openLocked.
	d.bar = d.bars.AddBar(0,
		mpb.PrependDecorators(decor.Name(d.name+" "), decor.Percentage()),
		mpb.AppendDecorators(decor.Any(speed)))
	d.bar.SetTotal(max(d.total, 1), false)
	d.bar.SetCurrent(n)
}

// close removes the bar.
func (d *byteDisplay) close() {
	if d.bar != nil {
		// Wait as well, or the goroutine of the bar draws over what the command prints next.
		d.bar.Abort(true)
		d.bars.Wait()
	}
}

// jobDisplay shows the progress of jobs: two bars per job on a terminal, else
// an occasional line. Several goroutines may use it.
//
// It is the standard error of a job. Progress, warnings and the lines of child processes share the
// terminal, and only a writer that knows the bars can put a line above them.
type jobDisplay struct {
	out      io.Writer
	quiet    bool // no progress, only written lines
	terminal bool

	mu struct {
		sync.Mutex
		bars  *mpb.Progress     // nil until the first bar
		lines *terminal.Escaper // writes lines above the bars
		jobs  map[string]*jobBars
	}
}

// jobBars is the display of one job. It lives from the job's first report to its last one. The bars
// come later than that, and never for a short job.
type jobBars struct {
	pace local.Pace
	// The goroutines of the bars read it while update stores the next one.
	said       atomic.Pointer[local.Remarks] // text beside the bars
	maps, reds *mpb.Bar                      // nil until shown, reds for a job without reduces
}

// barSteps is the number of steps of a bar. Progress is a fraction and bars count, so the steps are
// as fine as a terminal can show.
const barSteps = 1000

// newJobDisplay returns a display on out. With quiet it shows no progress.
func newJobDisplay(out io.Writer, quiet bool) *jobDisplay {
	d := &jobDisplay{out: out, quiet: quiet, terminal: !quiet && isTerminal(out)}
	d.mu.jobs = map[string]*jobBars{}
	return d
}

// Write prints whole lines, such as the output of child processes, above the
// bars.
func (d *jobDisplay) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lineWriterLocked().Write(p)
}

// warn prints a warning, also with quiet, because it may change the meaning of a result.
func (d *jobDisplay) warn(text string) { terminal.Fprintf(d, "warning: %s\n", text) }

// update shows the new state of a job.
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
	// Before the state is looked at: the last report of a failed job has the attempt's error that
	// explains the failure.
	if text := j.pace.Failures((*local.Progress)(&p)); text != "" {
		io.WriteString(d.lineWriterLocked(), text+"\n")
	}
	switch {
	// Here and not at the end of the command, because a file of 200 jobs would leave 400 bars.
	case terminal.Over(p.State):
		j.drop()
		delete(d.mu.jobs, p.ID)
	case d.terminal:
		// Pace is not for several goroutines, and the bars have their own, so the texts are made here.
		said := j.pace.Remarks((*local.Progress)(&p))
		j.said.Store(&said)
		d.drawLocked(j, &p)
	default:
		if text := j.pace.Line((*local.Progress)(&p)); text != "" {
			// Directly: without a terminal there are no bars to write above.
			io.WriteString(d.out, text+"\n")
		}
	}
}

// lineWriterLocked returns a writer whose lines the bars do not overwrite.
func (d *jobDisplay) lineWriterLocked() io.Writer {
	if d.mu.bars != nil {
		return d.mu.lines
	}
	return d.out
}

// drawLocked moves the bars of a job. It adds them when the job has run for
// showAfter.
func (d *jobDisplay) drawLocked(j *jobBars, p *mapreduce.Progress) {
	if j.maps == nil {
		if p.Elapsed < showAfter {
			return
		}
		d.openLocked(j, p)
	}
	// The fraction may fall: the output of a lost map is made again.
	j.maps.SetCurrent(int64(p.MapFrac * barSteps))
	if j.reds != nil {
		j.reds.SetCurrent(int64(p.ReduceFrac * barSteps))
	}
}

// openLocked adds the bars of a job to the terminal. All jobs share one mpb.Progress: two would
// move the cursor over each other's lines.
func (d *jobDisplay) openLocked(j *jobBars, p *mapreduce.Progress) {
	if d.mu.bars == nil {
		d.mu.bars = mpb.New(mpb.WithOutput(raw(d.out)), mpb.WithWidth(48))
		// Another escaper, because raw(d.out) has gone around the command's.
		d.mu.lines = terminal.NewEscaper(d.mu.bars)
	}
	add := func(what string, right func(*local.Remarks) string) *mpb.Bar {
		// A bar with a length completes by itself when it is full and can then
		// not be removed.
		b := d.mu.bars.AddBar(0,
			mpb.PrependDecorators(decor.Name(terminal.Escape(p.Job)+" "+what+" ", decor.WCSyncSpaceR), decor.Percentage(decor.WC{W: 5})),
			mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return " " + right(j.said.Load()) })))
		b.SetTotal(barSteps, false)
		return b
	}
	j.maps = add("map", func(r *local.Remarks) string { return r.Speed + "  " + r.Maps + r.Job })
	// A bar at 0 % for a job without reduces would look stuck.
	if p.Reduces > 0 {
		j.reds = add("reduce", func(r *local.Remarks) string { return r.Reduces })
	}
}

// drop removes the bars of a job.
func (j *jobBars) drop() {
	for _, b := range []*mpb.Bar{j.maps, j.reds} {
		if b != nil {
			b.Abort(true)
		}
	}
	j.maps, j.reds = nil, nil
}

// close removes all bars. The caller must not update the display afterwards.
func (d *jobDisplay) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	// Jobs that an interrupt has ended send no last report, so their bars are still there.
	for _, j := range d.mu.jobs {
		j.drop()
	}
	if d.mu.bars != nil {
		d.mu.bars.Wait()
		d.mu.bars = nil
	}
}
