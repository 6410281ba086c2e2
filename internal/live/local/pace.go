package local

import (
	"fmt"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/base/terminal"
)

// LineEvery is the interval of progress lines where there is no terminal.
const LineEvery = 3 * time.Second

// Pace estimates the remaining time of one job's phases and decides when to print a
// progress line. The duration of maps says nothing about the duration of reduces, so
// it measures each phase separately: the reduce phase from the end of the maps.
type Pace struct {
	mapsEnded bool
	end       time.Duration // when the last map ended
	reduced   float64       // fraction of the reduces that was done by then
	failed    int           // failed attempts reported so far
	printed   time.Duration // when the last line was due
}

// Remarks are the texts beside progress bars and in progress lines; "" prints nothing.
type Remarks struct {
	Speed         string // input bytes read per second
	Maps, Reduces string // remaining time
	Job           string // the master's forecast of the job's end
}

// Remarks records a job's progress and returns the texts to show.
func (c *Pace) Remarks(p *Progress) Remarks {
	r := Remarks{Speed: terminal.Bytes(terminal.Rate(p.BytesRead, p.Elapsed)) + "/s", Job: Expectation(&p.Expected)}
	if p.Expected.Known {
		return r // better than the phases' own pace
	}
	if p.MapFrac < 1 {
		r.Maps = terminal.Left(p.Elapsed, p.MapFrac)
		return r
	}
	// Reduces that were started early have copied while maps ran. The rest of their work is measured
	// from here, or the wait for the maps would count as slow reducing.
	if !c.mapsEnded {
		c.mapsEnded, c.end, c.reduced = true, p.Elapsed, p.ReduceFrac
	}
	if p.Reduces > 0 && c.reduced < 1 {
		r.Reduces = terminal.Left(p.Elapsed-c.end, (p.ReduceFrac-c.reduced)/(1-c.reduced))
	}
	return r
}

// Failures describes the attempts that failed since the last call. It returns "" if
// there are none, or if the job has ended, because its error includes them.
func (c *Pace) Failures(p *Progress) string {
	if p.Failed <= c.failed || terminal.Over(p.State) {
		return ""
	}
	c.failed = p.Failed
	// An error with the end of a log has several lines, and this is one.
	last := strings.Join(strings.FieldsFunc(p.LastError, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	return fmt.Sprintf("%s: %s failed and will be made again: %s", terminal.Escape(p.Job), terminal.Plural(p.Failed, "attempt"), terminal.Escape(last))
}

// Line returns a progress line for a log, or "" if LineEvery has not passed. Remarks are taken in
// any case: the end of the maps must be noted when it comes.
func (c *Pace) Line(p *Progress) string {
	r := c.Remarks(p)
	if terminal.Over(p.State) || p.Elapsed-c.printed < LineEvery {
		return ""
	}
	c.printed = p.Elapsed
	return progressLine(p, r)
}

// Expectation says when a job is expected to start and end, or "" if that is unknown.
func Expectation(e *Expected) string {
	text := ""
	if e.Position > 0 {
		text = fmt.Sprintf("number %d of the jobs that wait, starts in %s", e.Position, terminal.About(e.Start))
	}
	if !e.Known {
		return text
	}
	if text != "" {
		text += ", "
	}
	return text + fmt.Sprintf("ends in %s", terminal.Interval(e.Left, e.Early, e.Late))
}

// progressLine formats a job's progress for a log.
func progressLine(p *Progress, r Remarks) string {
	s := fmt.Sprintf("%s: map %.0f %%", terminal.Escape(p.Job), 100*p.MapFrac)
	if r.Maps != "" {
		s += " (" + r.Maps + ")"
	}
	if p.Reduces > 0 {
		s += fmt.Sprintf(", reduce %.0f %%", 100*p.ReduceFrac)
	}
	if r.Reduces != "" {
		s += " (" + r.Reduces + ")"
	}
	if r.Job != "" {
		s += ", " + r.Job
	}
	return s + ", " + r.Speed
}
