package repro

import (
	"bytes"
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/workload"
)

func TestRegistry(t *testing.T) {
	var ids []string
	for _, e := range All() {
		if !strings.HasPrefix(e.ID, e.Paper+"/") || e.Title == "" || len(e.Setup) == 0 || e.Run == nil || PaperTitle(e.Paper) == "" {
			t.Errorf("%q of %q: incomplete", e.ID, e.Paper)
		}
		if slices.Contains(ids, e.ID) {
			t.Errorf("%s twice", e.ID)
		}
		ids = append(ids, e.ID)
		if found, err := Find(e.ID); err != nil || len(found) != 1 {
			t.Errorf("Find(%s): %d, %v", e.ID, len(found), err)
		}
	}
	if _, err := Find("nonsense"); err == nil {
		t.Error("nonsense is found")
	}
	if all, err := Find("all"); err != nil || len(all) != len(ids) {
		t.Errorf("all: %d, %v", len(all), err)
	}
}

// makeQuick makes an experiment quickly and checks the form of its report.
func makeQuick(t *testing.T, id string) Made {
	t.Helper()
	e, err := Find(id)
	if err != nil {
		t.Fatal(err)
	}
	r, err := e[0].Run(t.Context(), Options{Quick: true, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, tb := range r.Tables {
		for _, row := range tb.Rows {
			if len(row) != len(tb.Columns) {
				t.Errorf("%s: %s: row %q has not %d cells", id, tb.Title, row, len(tb.Columns))
			}
		}
	}
	for _, c := range r.Claims {
		if c.Text == "" || c.Evidence == "" || strings.Contains(c.Evidence, "%!") {
			t.Errorf("%s: claim %+v", id, c)
		}
	}
	return Made{Experiment: e[0], Report: r}
}

// Two runs are equal, and so is what is written of them.
func TestDeterministic(t *testing.T) {
	for _, id := range []string{"tumm/fig6", "tumm/table4", "tumm/case1", "dynamicmr/fig5"} {
		a, b := makeQuick(t, id), makeQuick(t, id)
		if d := cmp.Diff(a.Report, b.Report); d != "" {
			t.Errorf("%s: %s", id, d)
		}
		var text, page bytes.Buffer
		if err := WriteText(&text, a); err != nil || !strings.Contains(text.String(), a.Title) {
			t.Errorf("text: %v\n%s", err, text.String())
		}
		if err := WriteMarkdown(&page, []Made{a}, Options{Quick: true, Seed: 1}); err != nil || !strings.Contains(page.String(), "### "+id) {
			t.Errorf("markdown: %v\n%s", err, page.String())
		}
	}
}

// The one example of which the paper gives all numbers.
func TestFigure6(t *testing.T) {
	m := makeQuick(t, "tumm/fig6")
	for _, row := range m.Tables[0].Rows {
		if row[1] != row[2]+".0" {
			t.Errorf("%s: %s s, paper %s s", row[0], row[1], row[2])
		}
	}
	if held, all := Held([]Made{m}); held != 1 || all != 1 {
		t.Errorf("%d of %d claims hold", held, all)
	}
}

// The calibration gives back what it was calibrated on.
func TestSharedPart(t *testing.T) {
	d := sharedPart() * grepAlone
	if two := d*(1+d/grepAlone) + grepAlone - d; math.Abs(two-grepBeside) > 1e-9 {
		t.Errorf("two maps take %g s, want %g", two, grepBeside)
	}
	setups, err := tummGrepMaps(Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	runs, err := play(context.Background(), Options{Seed: 1}, setups)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{grepAlone, grepBeside} {
		if got := runs[i].watch.times["grep"][job.Map].mean(); math.Abs(got-want) > 0.03*want {
			t.Errorf("%d maps on a node: %.2f s each, want %g", i+1, got, want)
		}
	}
}

// What a watch integrates is what the jobs' given times add up to.
func TestWatch(t *testing.T) {
	jobs := []workload.Job{{Pool: "a", App: "x", Maps: slices.Repeat([]workload.Task{{Duration: 10 * time.Second}}, 6)},
		{Pool: "b", App: "y", Maps: slices.Repeat([]workload.Task{{Duration: 20 * time.Second}}, 3)}}
	s := setup{cluster: withSlots(paperCluster("tumm"), 1, 1), jobs: jobs, policy: tummStatic}
	s.cluster.Heartbeat = "fixed:1ms"
	runs, err := play(t.Context(), Options{Seed: 1}, []setup{s})
	if err != nil {
		t.Fatal(err)
	}
	w := runs[0].watch
	if got := w.slotSeconds(); math.Abs(got-120) > 0.1 {
		t.Errorf("%.2f slot-seconds, want 120", got)
	}
	if m := w.times["y"][job.Map]; m.n != 3 || math.Abs(m.mean()-20) > 0.01 {
		t.Errorf("times of y: %+v", m)
	}
	if got := w.meanLevel(0, runs[0].Makespan, job.Map) * runs[0].Makespan.Seconds(); math.Abs(got-120) > 0.1 {
		t.Errorf("levels add up to %.2f s, want 120", got)
	}
	if w.starts[job.Map][job.Map] != 9 || w.unbalanced.Value() <= 0 {
		t.Errorf("starts %v, unbalanced %g", w.starts, w.unbalanced.Value())
	}
}
