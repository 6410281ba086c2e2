package auto_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/policies/auto"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

func build(t interface{ Fatal(...any) }, set map[string]string) *auto.Policy {
	p, err := policies.Build("auto", sched.Options{Set: set})
	if err != nil {
		t.Fatal(err)
	}
	return p.(*auto.Policy)
}

// last returns the values of the latest decision by column.
func last(p *auto.Policy) map[string]sched.Datum {
	v := map[string]sched.Datum{}
	log := p.Log()
	for row := range log.Rows {
		for i, c := range log.Columns {
			v[c.Name] = row[i]
		}
	}
	return v
}

// estimate returns an estimate of two candidates from their costs in each future.
func estimate(at time.Duration, costs ...[]float64) *auto.Estimate {
	return &auto.Estimate{At: at, Jobs: 3, Costs: costs, Out: make([]string, len(costs))}
}

// A switch needs an interval above the margin, and the least time since the last switch. The
// candidate that is installed is the one whose gain the interval was of.
func TestSwitchNeedsInterval(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		margin := rapid.SampledFrom([]string{"0", "0.02", "0.3"}).Draw(t, "margin")
		p := build(t, map[string]string{"candidates": "fifo,fair,flex", "margin": margin, "least-time": "5m"})
		switched, now, switches := time.Duration(math.MinInt64/2), time.Duration(0), 0
		for range rapid.IntRange(1, 6).Draw(t, "decisions") {
			now += time.Duration(rapid.IntRange(1, 10).Draw(t, "minutes")) * time.Minute
			cost := rapid.SliceOfN(rapid.Float64Range(50, 150), 8, 8)
			e := estimate(now, cost.Draw(t, "a"), cost.Draw(t, "b"), cost.Draw(t, "c"))
			// Some candidates are clearly better, or a switch would hardly ever occur.
			if i := rapid.IntRange(0, 5).Draw(t, "better"); i < 3 {
				for f := range e.Costs[i] {
					e.Costs[i][f] *= 0.1
				}
			}
			if rapid.Bool().Draw(t, "wrong") {
				p.Observe(auto.Outcome{Predicted: 10, Spread: 1, Happened: rapid.Float64Range(0, 40).Draw(t, "happened")})
			}
			next, err := p.Decide(e)
			if err != nil {
				t.Fatal(err)
			}
			d := last(p)
			if next == nil {
				if d["chosen"] != d["installed"] {
					t.Fatalf("stayed, but the record says %v", d)
				}
				continue
			}
			p, switches = next, switches+1
			if d["chosen"].Text != p.Running() || d["rival"].Text != p.Running() || d["low"].Number <= 100*map[string]float64{"0": 0, "0.02": 0.02, "0.3": 0.3}[margin] {
				t.Fatalf("switched to %s by %v", p.Running(), d)
			}
			if now-switched < 5*time.Minute {
				t.Fatalf("switched at %v and at %v", switched, now)
			}
			switched = now
		}
	})
}

// Equal futures decide at once; differences within the noise do not.
func TestDecide(t *testing.T) {
	for _, c := range []struct {
		name string
		cost []float64
		want string
	}{
		{"better in all futures", []float64{80, 81, 79, 80}, "fair"},
		{"better on average only", []float64{40, 130, 60, 120}, "fifo"},
		{"better by less than the margin", []float64{99, 99, 99, 99}, "fifo"},
		{"given up after two futures", []float64{10, 10}, "fifo"},
	} {
		p := build(t, map[string]string{"candidates": "fifo,fair"})
		next, err := p.Decide(estimate(time.Hour, []float64{100, 100, 100, 100}, c.cost))
		if err != nil {
			t.Fatal(err)
		}
		if next != nil {
			p = next
		}
		if p.Running() != c.want {
			t.Errorf("%s: %s decides, want %s: %v", c.name, p.Running(), c.want, last(p)["why"])
		}
	}
}

// A candidate that cannot end a job is left at once, whatever the hysteresis, and never chosen.
func TestOut(t *testing.T) {
	p := build(t, map[string]string{"candidates": "fifo,fair,flex", "least-time": "10h"})
	e := estimate(time.Minute, []float64{100, 100, 100}, []float64{10, 10, 10}, []float64{90, 90, 90})
	e.Out[1] = "a job does not end"
	next, err := p.Decide(e)
	if err != nil || next == nil || next.Running() != "flex" {
		t.Fatalf("%v, %v", last(p), err)
	}
	e = estimate(2*time.Minute, []float64{100, 100, 100}, []float64{101, 99, 100}, []float64{0, 0, 0})
	e.Out[2] = "a job does not end"
	if next, err = next.Decide(e); err != nil || next == nil || next.Running() == "flex" {
		t.Errorf("%v, %v", last(p), err)
	}
}

// Forecasts that were wrong widen the intervals, so the same estimate no longer decides.
func TestDoubt(t *testing.T) {
	e := estimate(time.Hour, []float64{100, 100, 100, 100}, []float64{80, 84, 78, 82})
	p := build(t, map[string]string{"candidates": "fifo,fair"})
	for range 10 {
		p.Observe(auto.Outcome{Predicted: 100, Spread: 10, Happened: 95})
	}
	if next, err := p.Decide(e); next == nil || err != nil {
		t.Fatalf("right forecasts: %v, %v", last(p), err)
	}
	p = build(t, map[string]string{"candidates": "fifo,fair"})
	for range 10 {
		p.Observe(auto.Outcome{Predicted: 100, Spread: 10, Happened: 150})
	}
	if next, err := p.Decide(e); next != nil || err != nil {
		t.Errorf("forecasts that erred by five times their spread: %v, %v", last(p), err)
	}
}

// A saved choice continues with the same candidate and the same next decision.
func TestSavedChoice(t *testing.T) {
	set := map[string]string{"candidates": "fifo,fair,yarn"}
	p := build(t, set)
	p, err := p.Decide(estimate(time.Hour, []float64{100, 100, 100}, []float64{60, 60, 60}, []float64{90, 90, 90}))
	if err != nil {
		t.Fatal(err)
	}
	p.Observe(auto.Outcome{Predicted: 50, Instead: 80, Spread: 5, Happened: 52})
	doc, err := p.SaveChoice()
	if err != nil {
		t.Fatal(err)
	}
	restored, err := build(t, set).LoadChoice(doc)
	if err != nil {
		t.Fatal(err)
	}
	q := restored.(*auto.Policy)
	if q.Running() != "fair" || sched.CompositionOf(q) == nil {
		t.Fatalf("%s decides", q.Running())
	}
	again, err := q.SaveChoice()
	if err != nil || !slices.Equal(doc, again) {
		t.Errorf("saved %s, and after a restart %s, %v", doc, again, err)
	}
	if in, words := q.Inspect(2*time.Hour), q.Explain(nil, job.Map, 2*time.Hour); in.Summary != words {
		t.Errorf("the summary is %q, and the explanation %q", in.Summary, words)
	}
	if words := q.Explain(nil, job.Map, 2*time.Hour); words != "policy auto has fair decide, chosen 1h0m0s ago in place of fifo: it saves 40 % (40 % to 40 %) of the jobs' time, by 3 futures" {
		t.Error(words)
	}
	for doc, want := range map[string]string{"{": "unexpected end", `{"chosen":"flex"}`: "flex is no candidate"} {
		if _, err := build(t, set).LoadChoice([]byte(doc)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", doc, err)
		}
	}
}

// Bad settings are refused with the parameter's name.
func TestSettings(t *testing.T) {
	for _, c := range [][3]string{
		{"candidates", "fifo", "1 policies; must be 2 to 16"},
		{"candidates", "fifo,fair,fifo", "named twice"},
		{"candidates", "fifo,fare", "unknown policy"},
		{"candidates", "fifo,auto", "cannot choose among others"},
		{"choose-every", "10ms", "at least 1s"},
		{"margin", "2", "from 0 to 0.5"},
		{"futures", "1000", "from 3 to 32"},
	} {
		_, err := policies.Build("auto", sched.Options{Set: map[string]string{c[0]: c[1]}})
		if err == nil || !strings.Contains(err.Error(), c[0]) || !strings.Contains(err.Error(), c[2]) {
			t.Errorf("%s=%s: %v, want %q", c[0], c[1], err, c[2])
		}
	}
	_, err := policies.Build("auto", sched.Options{Live: true, Set: map[string]string{"candidates": "fifo,srpt"}})
	if err == nil || !strings.Contains(err.Error(), "only a simulation knows") {
		t.Errorf("srpt on a cluster: %v", err)
	}
}

// The table of quantiles is right.
func TestStudent(t *testing.T) {
	for n := 3; n <= 32; n++ {
		want := distuv.StudentsT{Sigma: 1, Nu: float64(n - 1)}.Quantile(0.995)
		a, b := make([]float64, n), make([]float64, n)
		for i := range n {
			a[i], b[i] = 50, 100
		}
		a[0] = 60
		p := build(t, map[string]string{"candidates": "fifo,fair"})
		if _, err := p.Decide(estimate(0, b, a)); err != nil {
			t.Fatal(err)
		}
		d := last(p)
		mean := (50*float64(n) + 10) / float64(n)
		square := 0.
		for _, x := range a {
			square += (x - mean) * (x - mean)
		}
		half := want * math.Sqrt(square/float64(n*(n-1)))
		if got := (d["high"].Number - d["low"].Number) / 2; math.Abs(got-half) > 0.001*half {
			t.Errorf("%d futures: %g, want %g", n, got, half)
		}
	}
}
