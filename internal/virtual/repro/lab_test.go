package repro

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/workload"
)

// oneMap returns a job of one map.
func oneMap(d time.Duration) []workload.Job {
	return []workload.Job{{Maps: []workload.Task{{Duration: d}}}}
}

// TestGrid checks that outcomes are in the order of rows, columns and repetitions,
// and that repetitions have seeds of their own.
func TestGrid(t *testing.T) {
	x := newLab(t)
	x.Seed = 10
	rows, columns := []time.Duration{100, 200, 300}, []time.Duration{10, 20}
	var seen []uint64
	out := grid(x, rows, columns, 2, func(r, c time.Duration, n uint64) run {
		seen = append(seen, n)
		return run{cluster: paperCluster("tumm"), jobs: oneMap((r + c + time.Duration(n)) * time.Second), scheduler: tummStatic, probe: blind{}}
	})
	for i, r := range rows {
		for k, c := range columns {
			for n, o := range out[i][k] {
				if o.seed != uint64(n) || o.jobs[0].Maps[0].Duration != (r+c+time.Duration(n))*time.Second || o.Makespan < o.jobs[0].Maps[0].Duration || o.watch != nil {
					t.Errorf("row %d, column %d, repetition %d: seed %d, %v", i, k, n, o.seed, o.Makespan)
				}
			}
		}
	}
	if len(out) != 3 || len(out[2]) != 2 || len(out[2][1]) != 2 || !slices.Equal(seen[:3], []uint64{0, 1, 0}) {
		t.Errorf("%d rows; repetitions %v", len(out), seen)
	}
}

// TestStops checks that a cancelled context, or a check that fails, ends an
// experiment with an error, and that other panics pass through.
func TestStops(t *testing.T) {
	play := func(x *lab) {
		x.play(run{cluster: paperCluster("tumm"), jobs: oneMap(time.Hour), scheduler: tummStatic})
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("interrupted")
	cancel(cause)
	if r, err := (&Experiment{run: play}).Run(ctx, Options{}); r != nil || !errors.Is(err, cause) {
		t.Errorf("cancelled: %v, %v", r, err)
	}
	bad := errors.New("bad")
	if r, err := (&Experiment{run: func(x *lab) { x.check(nil); x.check(bad) }}).Run(t.Context(), Options{}); r != nil || err != bad {
		t.Errorf("checked: %v, %v", r, err)
	}
	for want, f := range map[string]func(*lab){
		"no claim":         func(x *lab) { x.holds("missing", true, "") },
		"no hypothesis":    func(x *lab) { x.explainAll(nil, "missing", nil, "") },
		"no printed table": func(x *lab) { x.printed("missing") },
		"no generator":     func(x *lab) { x.generate("missing", 1) },
		"no cluster":       func(*lab) { paperCluster("missing") },
		"policy":           func(*lab) { scheduler{spec: "missing"}.policy(1) },
		"printed number":   func(*lab) { parsePrinted("about 3") },
		"bound":            func(*lab) { inBound("= 3", 3) },
	} {
		func() {
			defer func() {
				if v := recover(); v == nil || !strings.Contains(fmt.Sprint(v), want) {
					t.Errorf("panic %v, want one with %q", v, want)
				}
			}()
			_, _ = (&Experiment{run: f}).Run(t.Context(), Options{})
		}()
	}
}

// TestRefusal checks that a job that cannot succeed stops the experiment.
func TestRefusal(t *testing.T) {
	c := paperCluster("tumm")
	_, err := (&Experiment{run: func(x *lab) {
		r := run{cluster: c, jobs: oneMap(time.Second), scheduler: tummStatic}
		r.config.Model.FailureRate = 0.9999
		x.play(r)
	}}).Run(t.Context(), Options{})
	if err == nil {
		t.Error("a makespan without the failed job was accepted")
	}
}

func TestScheduler(t *testing.T) {
	s := scheduler{"a", "fifo", []string{"x", "1"}}
	u := s.with("b", "y", "2")
	if u.name != "b" || !slices.Equal(u.set, []string{"x", "1", "y", "2"}) || len(s.set) != 2 {
		t.Errorf("%+v from %+v", u, s)
	}
	if a, b := s.with("", "y", "1"), s.with("", "y", "2"); a.set[3] != "1" || b.set[3] != "2" {
		t.Error("two schedulers share their settings")
	}
}

func TestPick(t *testing.T) {
	x := newLab(t)
	if pick(x, 1, 2) != 1 {
		t.Error("the quick value is not picked")
	}
	if x.Quick = false; pick(x, 1, 2) != 2 {
		t.Error("the full value is not picked")
	}
}
