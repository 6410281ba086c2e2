package main

import (
	"fmt"
	"math"
)

// limit is one thing that must hold, or is aimed at, in a row. Exactly one of
// against, seconds, flat, memory and memoryAll says what kind it is. A zero
// must or aim is none.
type limit struct {
	against string  // our speed divided by that contestant's: at least must
	must    float64 // for against
	aim     float64 // for against; for seconds, at most

	seconds float64 // our time: at most
	flat    float64 // time per byte over all contestants: largest by smallest at most 1+flat
	memory  int64   // bytes: our peak at most

	memoryAll int64 // bytes: the peak of every contestant, who are all ours, at most
}

// verdict is how a limit came out.
type verdict struct {
	Text string  `json:"text"` // in words, with the number
	Got  float64 `json:"got"`
	OK   bool    `json:"ok"`   // what must hold does, or nothing must
	Aim  bool    `json:"aim"`  // the aim is reached
	Skip bool    `json:"skip"` // could not be judged: the other did not run
}

// judge holds a limit against the medians of a row, ours first.
func (l limit) judge(rows []*timing) verdict {
	switch {
	case l.against != "":
		return l.judgeRatio(rows)
	case l.seconds > 0:
		got := rows[0].Seconds
		return verdict{fmt.Sprintf("%.0f ms (must ≤ %.0f, aim %.0f)", got*1e3, l.seconds*1e3, l.aim*1e3), got, got <= l.seconds, got <= l.aim, false}
	case l.flat > 0:
		lo, hi := math.Inf(1), 0.0
		for _, t := range rows {
			perByte := t.Seconds / float64(max(t.Bytes, 1))
			lo, hi = min(lo, perByte), max(hi, perByte)
		}
		ok := hi/lo <= 1+l.flat
		return verdict{fmt.Sprintf("time per byte within %.0f %% (must ≤ %.0f)", 100*(hi/lo-1), 100*l.flat), hi / lo, ok, ok, false}
	case l.memory > 0:
		return judgePeak(rows[:1], l.memory)
	default:
		return judgePeak(rows, l.memoryAll)
	}
}

func judgePeak(rows []*timing, most int64) verdict {
	var peak int64
	for _, t := range rows {
		peak = max(peak, t.PeakRSS)
	}
	ok := peak <= most
	return verdict{fmt.Sprintf("peak %d MiB (must ≤ %d)", peak/mib, most/mib), float64(peak), ok, ok, false}
}

func (l limit) judgeRatio(rows []*timing) verdict {
	for _, t := range rows[1:] {
		if t.Name != l.against {
			continue
		}
		if t.Missing != "" {
			return verdict{Text: l.against + ": " + t.Missing, OK: true, Skip: true}
		}
		got := t.Seconds / rows[0].Seconds
		text := fmt.Sprintf("%.2f× %s", got, l.against)
		if l.must > 0 {
			text += fmt.Sprintf(" (must ≥ %.2f)", l.must)
		}
		if l.aim > 0 {
			text += fmt.Sprintf(" (aim %.2f)", l.aim)
		}
		return verdict{text, got, got >= l.must, got >= max(l.aim, l.must), false}
	}
	return verdict{Text: l.against + ": no such contestant", Skip: true}
}
