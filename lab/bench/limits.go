package main

import (
	"fmt"
	"math"

	"github.com/slotwise/slotwise/lab/harness"
)

// limit is a requirement or a goal for one row. Exactly one of against, seconds,
// flat, memory and memoryAll is set and gives the kind of limit.
type limit struct {
	// against names a contestant. Its time divided by ours must be at least must.
	against string
	must    float64 // 0 requires nothing
	// aim is the goal: a ratio for against, the most seconds for seconds. 0 is no
	// goal.
	aim float64

	seconds   float64 // the most that our run may take
	flat      float64 // our longest time per byte may exceed our shortest by this share
	memory    int64   // the most bytes that our peak may reach
	memoryAll int64   // the same for every contestant of a row in which all are slotwise
}

// outcome is the result of comparing a row with one limit.
type outcome struct {
	Text string  `json:"text"` // the measurement and its limit in words
	Got  float64 `json:"got"`
	OK   bool    `json:"ok"`   // the requirement is met, or there is none
	Aim  bool    `json:"aim"`  // the goal is reached
	Skip bool    `json:"skip"` // nothing to compare with: the other contestant did not run
}

// judge compares the medians of a row, ours first, with the limit.
func (l limit) judge(rows []*timing) outcome {
	switch {
	case l.against != "":
		return l.judgeRatio(rows)
	case l.seconds > 0:
		got := rows[0].Seconds
		return outcome{fmt.Sprintf("%.0f ms (must ≤ %.0f, aim %.0f)", got*1e3, l.seconds*1e3, l.aim*1e3), got, got <= l.seconds, got <= l.aim, false}
	case l.flat > 0:
		lo, hi := math.Inf(1), 0.0
		for _, t := range rows {
			if !t.own {
				continue
			}
			perByte := t.Seconds / float64(max(t.Bytes, 1))
			lo, hi = min(lo, perByte), max(hi, perByte)
		}
		ok := hi/lo <= 1+l.flat
		return outcome{fmt.Sprintf("time per byte within %.0f %% (must ≤ %.0f)", 100*(hi/lo-1), 100*l.flat), hi / lo, ok, ok, false}
	case l.memory > 0:
		return judgePeak(rows[:1], l.memory)
	default:
		return judgePeak(rows, l.memoryAll)
	}
}

// judgePeak compares the largest peak of the contestants with a limit.
func judgePeak(rows []*timing, most int64) outcome {
	var peak int64
	for _, t := range rows {
		peak = max(peak, t.PeakRSS)
	}
	ok := peak <= most
	return outcome{fmt.Sprintf("peak %d MiB (must ≤ %d)", peak/harness.MiB, most/harness.MiB), float64(peak), ok, ok, false}
}

// judgeRatio compares our time with the time of the contestant named by against.
func (l limit) judgeRatio(rows []*timing) outcome {
	for _, t := range rows[1:] {
		if t.Name != l.against {
			continue
		}
		if t.Missing != "" {
			return outcome{Text: l.against + ": " + t.Missing, OK: true, Skip: true}
		}
		got := t.Seconds / rows[0].Seconds
		text := fmt.Sprintf("%.2f× %s", got, l.against)
		if l.must > 0 {
			text += fmt.Sprintf(" (must ≥ %.2f)", l.must)
		}
		if l.aim > 0 {
			text += fmt.Sprintf(" (aim %.2f)", l.aim)
		}
		return outcome{text, got, got >= l.must, got >= max(l.aim, l.must), false}
	}
	return outcome{Text: l.against + ": no such contestant", Skip: true}
}

// word summarizes an outcome: "ok+" where the goal is reached too.
func (o outcome) word() string {
	switch {
	case o.Skip:
		return "?"
	case !o.OK:
		return "MISSED"
	case !o.Aim:
		return "ok"
	}
	return "ok+"
}
