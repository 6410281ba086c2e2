package console

import (
	"fmt"
	"time"

	"github.com/slotwise/slotwise/internal/local"
)

// LineEvery is how often progress is told of where there is no terminal.
const LineEvery = 3 * time.Second

// Pace follows one job. It remembers what is needed to tell how long the job's
// phases will still take, and what has been told of it. How long reduces take cannot be told from how long maps took, so
// each phase is measured by itself: the reduce phase from the end of the maps.
type Pace struct {
	mapsEnded bool
	end       time.Duration // when the maps had ended
	reduced   float64       // how much of the reduces was done by then
	failed    int           // attempts that were told of
	printed   time.Duration // when the last line was due
}

// Remarks is what is said beside bars and in lines; "" for nothing.
type Remarks struct {
	Speed         string // input read, a second
	Maps, Reduces string // time left
}

// Remarks takes note of a job's progress and says what there is to say.
func (c *Pace) Remarks(p *local.Progress) Remarks {
	r := Remarks{Speed: Bytes(Rate(p.BytesRead, p.Elapsed)) + "/s"}
	if p.MapFrac < 1 {
		r.Maps = Left(p.Elapsed, p.MapFrac)
		return r
	}
	if !c.mapsEnded {
		c.mapsEnded, c.end, c.reduced = true, p.Elapsed, p.ReduceFrac
	}
	if p.Reduces > 0 && c.reduced < 1 {
		r.Reduces = Left(p.Elapsed-c.end, (p.ReduceFrac-c.reduced)/(1-c.reduced))
	}
	return r
}

// Trouble tells of attempts that have failed since it was last called, "" if
// there are none or the job is over, whose error says it all.
func (c *Pace) Trouble(p *local.Progress) string {
	if p.Failed <= c.failed || Over(p.State) {
		return ""
	}
	c.failed = p.Failed
	return fmt.Sprintf("%s: %s failed and will be made again: %s", p.Job, Plural(p.Failed, "attempt"), p.LastError)
}

// Line is the job's progress for a log, "" if it is not time for a line.
func (c *Pace) Line(p *local.Progress) string {
	r := c.Remarks(p)
	if Over(p.State) || p.Elapsed-c.printed < LineEvery {
		return ""
	}
	c.printed = p.Elapsed
	return progressLine(p, r)
}

// Over reports whether a job in this state has ended.
func Over(state string) bool {
	return state == "succeeded" || state == "failed" || state == "killed"
}

// Rate returns bytes a second.
func Rate(n int64, took time.Duration) int64 {
	if took <= 0 {
		return 0
	}
	return int64(float64(n) / took.Seconds())
}

// Left says how long it will take to the end if a fraction done has taken so
// long. It says nothing before there is something to go by.
func Left(took time.Duration, done float64) string {
	if done < 0.01 || done > 1 || took < time.Second {
		return ""
	}
	d := time.Duration(float64(took) * (1 - done) / done)
	if d < 100*time.Second {
		return fmt.Sprintf("%.0f s left", d.Seconds())
	}
	return Duration(d) + " left"
}

// progressLine is a job's progress for a log.
func progressLine(p *local.Progress, r Remarks) string {
	s := fmt.Sprintf("%s: map %.0f %%", p.Job, 100*p.MapFrac)
	if r.Maps != "" {
		s += " (" + r.Maps + ")"
	}
	if p.Reduces > 0 {
		s += fmt.Sprintf(", reduce %.0f %%", 100*p.ReduceFrac)
	}
	if r.Reduces != "" {
		s += " (" + r.Reduces + ")"
	}
	return s + ", " + r.Speed
}
