package cli

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/cwriter"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/slotwise/slotwise/internal/console"
)

// showAfter is how long a command runs before it shows bars: what is over at
// once needs none.
const showAfter = 300 * time.Millisecond

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && cwriter.IsTerminal(int(f.Fd()))
}

// byteDisplay shows how far a command of a known number of bytes has come: a
// bar on a terminal, else a line now and then. It is used by one goroutine at
// a time.
type byteDisplay struct {
	out   io.Writer // nil for no display at all
	name  string
	total int64
	start time.Time
	last  time.Time // when the last line was printed
	bars  *mpb.Progress
	bar   *mpb.Bar
}

// newByteDisplay makes a display on out of total bytes; quiet makes one that
// shows nothing.
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
	case isTerminal(d.out):
		if now.Sub(d.start) >= showAfter {
			d.open(n)
		}
	case now.Sub(d.last) >= console.LineEvery:
		d.last = now
		fmt.Fprintf(d.out, "%s: %3.0f %%, %s/s\n", d.name,
			100*float64(n)/float64(max(d.total, 1)), console.Bytes(console.Rate(n, now.Sub(d.start))))
	}
}

// open puts the bar on the terminal.
func (d *byteDisplay) open(n int64) {
	d.bars = mpb.New(mpb.WithOutput(d.out), mpb.WithWidth(64))
	speed := func(s decor.Statistics) string {
		return " " + console.Bytes(console.Rate(s.Current, time.Since(d.start))) + "/s"
	}
	d.bar = d.bars.AddBar(0,
		mpb.PrependDecorators(decor.Name(d.name+" "), decor.Percentage()),
		mpb.AppendDecorators(decor.Any(speed)))
	d.bar.SetTotal(max(d.total, 1), false)
	d.bar.SetCurrent(n)
}

// close takes the bar away.
func (d *byteDisplay) close() {
	if d.bar != nil {
		d.bar.Abort(true)
		d.bars.Wait()
	}
}
