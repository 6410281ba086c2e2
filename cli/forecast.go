package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/base/terminal"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// left returns the time from the master's answer to a time of a forecast. Both are of the master's
// clock, so this machine's clock does not matter. A time that has passed counts as 0.
func left(f *slotwisev1.JobForecast, ms int64) time.Duration {
	return time.Duration(max(0, ms-f.NowMs)) * time.Millisecond
}

// endsIn says in a table cell when a job is expected to end. The order of the cases goes from what
// is certain to guesses; of a job whose reduces are unknown, the end of its maps is still
// of use.
func endsIn(j *slotwisev1.JobStatus) string {
	switch f := j.Forecast; {
	case j.EndedMs != 0 || f == nil:
		return ""
	case f.Never:
		return "never"
	case !f.Known && f.MapsEndMs > 0:
		return "maps in " + terminal.Interval(left(f, f.MapsEndMs), left(f, f.MapsEarlyMs), left(f, f.MapsLateMs))
	case !f.Known:
		return "unknown"
	// The master has no newer answer. Its interval lies in the past, and would be shown as 0 s.
	case overdue(f):
		return "overdue by " + terminal.About(time.Duration(f.NowMs-f.LateMs)*time.Millisecond)
	default:
		return terminal.Interval(left(f, f.EndMs), left(f, f.EarlyMs), left(f, f.LateMs)) + made(f)
	}
}

// overdue reports whether the latest answer has run out: it expected the end before now.
func overdue(f *slotwisev1.JobForecast) bool { return f.LateMs < f.NowMs }

// made says how old an answer is, or "" while that is little beside the time that is left.
func made(f *slotwisev1.JobForecast) string {
	age := time.Duration(f.AgeMs) * time.Millisecond
	// An answer of a minute ago is news for a job of an hour, and stale for one that ends in a minute.
	if age < 5*time.Second || age < left(f, f.EndMs)/5 {
		return ""
	}
	return ", as of " + terminal.About(age) + " ago"
}

// dueText says whether a job has met its deadline, or is expected to; "" without one. It is certain
// about the past only. Of the future it compares the deadline with the median and with the late end
// of the interval: behind the median means likely missed, between the two at risk.
func dueText(j *slotwisev1.JobStatus) string {
	at, f := j.DeadlineMs, j.Forecast
	span := func(ms int64) string { return terminal.About(time.Duration(ms) * time.Millisecond) }
	switch {
	case at == 0:
		return ""
	// A failed job has no result, early or late.
	case j.EndedMs != 0 && j.State != slotwisev1.JobState_JOB_STATE_SUCCEEDED:
		return clock(at)
	case j.EndedMs > at:
		return clock(at) + ", missed by " + span(j.EndedMs-at)
	case j.EndedMs != 0:
		return clock(at) + ", met with " + span(at-j.EndedMs) + " to spare"
	case f == nil || !f.Known && !f.Never:
		return clock(at)
	case f.Never:
		return clock(at) + ", cannot be met on this cluster"
	case f.NowMs > at:
		return clock(at) + ", missed; the job continues"
	case f.EndMs > at:
		return clock(at) + ", likely to be missed by " + span(f.EndMs-at)
	case f.LateMs > at:
		return clock(at) + ", at risk: the job may end " + span(f.LateMs-at) + " later"
	}
	return clock(at) + ", likely to be met with " + span(at-f.EndMs) + " to spare"
}

// forecastLines describes a forecast as names and values. An end is never without its interval and
// its assumptions: a single time would be read as a promise.
func forecastLines(f *slotwisev1.JobForecast) (lines [][2]string) {
	if f == nil {
		return nil
	}
	if f.Position > 0 {
		lines = append(lines, [2]string{"place", fmt.Sprintf("number %d of the jobs that wait, starts in %s", f.Position, terminal.About(left(f, f.StartMs)))})
	}
	end := ""
	switch {
	case f.Never:
		end = "never on this cluster: " + f.Unknown
	case !f.Known:
		end = "unknown: " + f.Unknown
		if f.MapsEndMs > 0 {
			end = fmt.Sprintf("maps in %s, 8 of 10 times between %s and %s; then unknown: %s", terminal.About(left(f, f.MapsEndMs)), clockTime(f.MapsEarlyMs), clockTime(f.MapsLateMs), f.Unknown)
		}
	case overdue(f):
		end = fmt.Sprintf("overdue: it was expected until %s", clockTime(f.LateMs))
	default:
		end = fmt.Sprintf("in %s, 8 of 10 times between %s and %s", terminal.About(left(f, f.EndMs)), clockTime(f.EarlyMs), clockTime(f.LateMs))
	}
	lines = append(lines, [2]string{"expected end", end})
	if f.Basis != "" {
		lines = append(lines, [2]string{"task times", f.Basis})
	}
	if f.Known {
		lines = append(lines, [2]string{"assumed", strings.Join(f.Assumptions, "; ")})
	}
	// A younger answer is as good as a new one; made has the same bound.
	if f.AgeMs >= 5000 {
		lines = append(lines, [2]string{"forecast made", terminal.About(time.Duration(f.AgeMs)*time.Millisecond) + " ago"})
	}
	return lines
}

// clockTime formats a time of the master as the time of the day here, with the date if that is
// another day.
func clockTime(ms int64) string {
	t := time.UnixMilli(ms)
	if t.Format(time.DateOnly) != time.Now().Format(time.DateOnly) {
		return t.Format(time.DateTime)
	}
	return t.Format(time.TimeOnly)
}

// printOutlook prints what made a job slow, what would start it, and when it is expected to
// end.
func printOutlook(w io.Writer, resp *slotwisev1.ExplainResponse) {
	// In this order: facts of the past, then remedies for now, then expectations.
	for _, x := range resp.Slow {
		terminal.Fprintf(w, "%s: %s\n", x.Code, x.Words)
	}
	for _, s := range resp.WouldStart {
		terminal.Fprintf(w, "would start now: with %s\n", s)
	}
	if text := dueText(&slotwisev1.JobStatus{DeadlineMs: resp.DeadlineMs, Forecast: resp.Forecast}); text != "" {
		terminal.Fprintf(w, "deadline: %s\n", text)
	}
	for _, l := range forecastLines(resp.Forecast) {
		terminal.Fprintf(w, "%s: %s\n", l[0], l[1])
	}
}
