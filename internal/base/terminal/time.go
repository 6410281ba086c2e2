package terminal

import (
	"fmt"
	"time"
)

// Over reports whether a job in this state has ended.
func Over(state string) bool {
	return state == "succeeded" || state == "failed" || state == "killed"
}

// Rate returns bytes per second.
func Rate(n int64, took time.Duration) int64 {
	if took <= 0 {
		return 0
	}
	return int64(float64(n) / took.Seconds())
}

// Left returns the remaining time in words, if the fraction done took the given time. It returns ""
// while the fraction is too small for an estimate: below a hundredth or a second, start-up counts
// for more than the work does.
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

// Interval formats a time with its 10th and 90th percentiles. The interval is left out if its ends
// look like each other.
func Interval(t, early, late time.Duration) string {
	if About(early) == About(late) {
		return About(t)
	}
	return fmt.Sprintf("%s (%s to %s)", About(t), About(early), About(late))
}

// About formats a time to the second. A negative time counts as 0, and a forecast of more than a
// year is a bound of the forecaster, so its figures would mean nothing.
func About(d time.Duration) string {
	switch d = max(0, d); {
	case d > 365*24*time.Hour:
		return "over a year"
	case d < 100*time.Second:
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return Duration(d)
}

// Later formats a difference of times with its direction. Below a second, forecasts differ by chance.
func Later(d time.Duration) string {
	switch {
	case d.Abs() < time.Second:
		return "same"
	case d < 0:
		return About(-d) + " earlier"
	}
	return About(d) + " later"
}

// LaterWithin formats a difference of times with its interval, unless the interval says the same.
func LaterWithin(d, low, high time.Duration) string {
	text := Later(d)
	switch {
	case low == high || max(low.Abs(), high.Abs()) < time.Second:
		return text
	// With its sign changed, high is the smaller number.
	case high < 0:
		return text + " (" + About(-high) + " to " + About(-low) + ")"
	case low > 0:
		return text + " (" + About(low) + " to " + About(high) + ")"
	}
	return text + " (" + Later(low) + " to " + Later(high) + ")"
}
