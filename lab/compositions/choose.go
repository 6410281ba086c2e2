package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/slotwise/slotwise/lab/harness"
)

// score has the losses of a candidate so far, by world and measure.
type score struct {
	candidate
	losses []float64
	cells  []string
}

// mean returns the mean of log(1 + loss).
func (s *score) mean() float64 {
	sum := 0.0
	for _, l := range s.losses {
		sum += l
	}
	return sum / float64(len(s.losses))
}

// worst returns the largest loss and where it was.
func (s *score) worst() (float64, string) {
	at := 0
	for i, l := range s.losses {
		if l > s.losses[at] {
			at = i
		}
	}
	return s.losses[at], s.cells[at]
}

// within returns the share of cells with a loss of at most 3 %.
func (s *score) within() float64 {
	n := 0
	for _, l := range s.losses {
		if l <= math.Log(1.03) {
			n++
		}
	}
	return float64(n) / float64(len(s.losses))
}

// choose ranks all compositions, and the named policies beside them, in the worlds that
// choose. After each world it keeps the better half, because the worlds become larger.
// Named policies stay, so that losses are relative to them too.
func choose(ctx context.Context, s *settings) error {
	var field []*score
	for _, c := range unique(append(named(), everyComposition()...)) {
		field = append(field, &score{candidate: c})
	}
	fixed := len(named())
	for _, w := range worlds() {
		if !w.chooses || !s.only.MatchString(w.name) {
			continue
		}
		if err := round(ctx, s, &w, field); err != nil {
			return err
		}
		rest := field[fixed:]
		slices.SortStableFunc(rest, func(a, b *score) int { return cmp.Compare(a.mean(), b.mean()) })
		field = field[:fixed+max(min(s.keep, len(rest)), len(rest)/2)]
		fmt.Fprintf(os.Stderr, "%s: %d compositions stay; best so far %v\n", w.name, len(field)-fixed, rest[0].candidate)
	}
	slices.SortStableFunc(field, func(a, b *score) int { return cmp.Compare(a.mean(), b.mean()) })
	t := harness.NewTable(os.Stdout, "composition", "mean loss", "greatest loss", "where", "cells within 3 %")
	for i, x := range field {
		if i < s.keep || x.candidate.set == "" && i < len(field) {
			worst, where := x.worst()
			t.Row(x.String(), percent(x.mean()), percent(worst), where, fmt.Sprintf("%.0f %%", 100*x.within()))
		}
	}
	return nil
}

// choosing are the seeds of the choice. A single one would favour a composition that has luck with its
// slow attempts.
var choosing = []uint64{1, 2}

// round adds the losses of a world, with each seed.
func round(ctx context.Context, s *settings, w *world, field []*score) error {
	for _, seed := range choosing {
		if err := roundOf(ctx, s, w, field, seed); err != nil {
			return err
		}
	}
	return nil
}

func roundOf(ctx context.Context, s *settings, w *world, field []*score, seed uint64) error {
	c, err := w.open(ctx, s, seed)
	if err != nil {
		return err
	}
	var all []candidate
	for _, x := range field {
		all = append(all, x.candidate)
	}
	runs, err := simulate(ctx, c, all)
	if err != nil {
		return err
	}
	for _, m := range find() {
		for i, l := range losses(m, runs) {
			field[i].losses = append(field[i].losses, l)
			field[i].cells = append(field[i].cells, fmt.Sprintf("%s %s, seed %d", w.name, m.Name, seed))
		}
	}
	return nil
}

// percent formats a logarithm of a ratio as a loss.
func percent(log float64) string {
	if math.IsInf(log, 1) {
		return "failed"
	}
	return fmt.Sprintf("%.1f %%", 100*(math.Exp(log)-1))
}
