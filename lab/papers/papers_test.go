package main

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/repro"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/internal/virtual/world"
	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
)

// TestBatches checks that the policies of all batches accept their settings, that every claim
// names contestants, and that every job mix parses and has work.
func TestBatches(t *testing.T) {
	for _, b := range append(batches(), worldBatch) {
		for i := range b.contestants {
			c, set := &b.contestants[i], map[string]string{}
			for _, v := range c.set {
				key, value, _ := strings.Cut(v, "=")
				set[key] = value
			}
			if _, err := policies.Build(c.policy, sched.Options{Set: set}); err != nil {
				t.Errorf("%s: %s: %v", b.name, c.name, err)
			}
			for _, n := range b.slots(c) {
				if n[0] < 1 || n[1] < 1 {
					t.Errorf("%s: %s has %d and %d slots", b.name, c.name, n[0], n[1])
				}
			}
		}
		for _, c := range b.claims {
			for _, name := range []string{c.of, c.base} {
				if !slices.ContainsFunc(b.contestants, func(x contestant) bool { return x.name == name }) {
					t.Errorf("%s: claim %q names %q, which is no contestant", b.name, c.text, name)
				}
			}
			repro.Judge(c.printed, nil) // panics if it does not parse
		}
		text, err := b.mix(t.TempDir(), 1, 1)
		if err != nil {
			t.Fatalf("%s: %v", b.name, err)
		}
		if _, err := workload.ReadMix(b.name, strings.NewReader(text)); err != nil {
			t.Errorf("%s: %v", b.name, err)
		}
	}
}

// TestSleeping checks that a shortened workload keeps its jobs and the ratio of its times.
func TestSleeping(t *testing.T) {
	jobs, err := sleeping("modfair-b-5", 2, 3, 10)(1)
	if err != nil {
		t.Fatal(err)
	}
	var sizes []int
	for _, j := range jobs {
		sizes = append(sizes, len(j.Maps))
		if j.App != "" || j.Maps[0].Duration != 2145*time.Millisecond || j.Maps[0].CPU != 0 || len(j.Reduces) != 1 || j.SlowStart != 1 {
			t.Errorf("job %+v", j)
		}
	}
	if !slices.Equal(sizes, []int{2, 6, 9}) { // every third of 6, 16 and 25 maps
		t.Errorf("maps %v", sizes)
	}
}

// TestClaims checks the numbers that claims speak of.
func TestClaims(t *testing.T) {
	b := &batch{contestants: []contestant{{name: "base"}, {name: "new"}}}
	values := [][]float64{{10, 20}, {5, 10}}
	for _, c := range []struct {
		claim claim
		want  float64
	}{
		{claim{of: "new", base: "base"}, -0.5}, {claim{of: "base", base: "new"}, 1}, {claim{of: "new", base: "base", gain: true}, 1},
	} {
		if list := c.claim.numbers(b, values); !slices.Equal(list, []float64{c.want, c.want}) {
			t.Errorf("%+v: %v", c.claim, list)
		}
	}
}

// TestCannotTest checks the rule by which a batch is no test of a claim about slots.
func TestCannotTest(t *testing.T) {
	computing := batch{workers: 4, maps: 2, reduces: 2, programs: "x"}
	waiting, sleeps := computing, computing
	waiting.waiting, sleeps.times = true, btworld
	for _, c := range []struct {
		batch batch
		cores int
		want  string
	}{{computing, 2, "cannot test: 16 slots compute on 2 processors"}, {computing, 16, ""}, {waiting, 2, ""}, {sleeps, 2, ""}} {
		if got := c.batch.cannotTest(c.cores); got != c.want {
			t.Errorf("%+v on %d processors: %q, want %q", c.batch, c.cores, got, c.want)
		}
	}
}

// TestFitExtra checks the fit with exact numbers, and that no cost is negative.
func TestFitExtra(t *testing.T) {
	a, m := fitExtra([]extra{{10, 100, 0.45, 2}, {40, 100, 0.6, 1}, {20, 0, 0.1, 3}})
	if math.Abs(a-0.005) > 1e-9 || math.Abs(m-0.004) > 1e-9 {
		t.Errorf("%v s an attempt and %v s an MB, want 0.005 and 0.004", a, m)
	}
	if a, m := fitExtra([]extra{{10, 100, 0.5, 1}, {40, 100, 0.2, 1}}); a != 0 || math.Abs(m-0.0035) > 1e-9 {
		t.Errorf("%v and %v, want 0 and 0.0035", a, m)
	}
}

// TestWorldPage checks that the world has the numbers that the command printed last.
func TestWorldPage(t *testing.T) {
	page, err := os.ReadFile("../results/sim-vs-cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	m, err := world.Lookup("slotwise-cluster")
	if err != nil {
		t.Fatal(err)
	}
	if want := worldLines(m.Overheads.Start, m.Overheads.Attempt.Seconds(), m.Overheads.Shuffle.Seconds()); !strings.Contains(string(page), want) {
		t.Errorf("the page lacks the world's\n%s", want)
	}
}

func TestOutcomes(t *testing.T) {
	rows := [][]string{{"job", "state", "submitted_s", "started_s", "ended_s", "alone_s", "maps", "map_slot_s", "reduces", "reduce_slot_s"},
		{"0", "succeeded", "1", "1.5", "3.5", "2", "4", "6", "1", "2.5"}}
	list, err := outcomes(rows)
	if err != nil || len(list) != 1 || list[0] != (outcome{1, 1.5, 3.5, 2, slots{4, 6}, slots{1, 2.5}}) {
		t.Errorf("%v, %v", list, err)
	}
	if got := slowdown95.of(list); got != 1.25 {
		t.Errorf("slowdown %v", got)
	}
	rows[1][1] = "failed"
	if _, err := outcomes(rows); err == nil {
		t.Error("a failed job is no error")
	}
	if _, err := outcomes([][]string{{"job"}}); err == nil {
		t.Error("missing columns are no error")
	}
}

// TestRun runs a small batch of sleeping tasks and one of a program, on real processes and in
// the simulator, and reads the report.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("starts clusters")
	}
	policies := []contestant{{name: "fifo", policy: "fifo"}, {name: "fair", policy: "fair"}}
	claims := []claim{{text: "it takes less", printed: "less", of: "fair", base: "fifo"}}
	all := []*batch{
		{name: "times", what: "five jobs", workers: 2, maps: 2, reduces: 1, metric: turnaround, times: sleeping("modfair-b-5", 1, 5, 1000), contestants: policies, claims: claims},
		{name: "programs", what: "a Grep", workers: 2, maps: 1, reduces: 1, metric: makespan, programs: app("grep", "DATA/text-6", ""), contestants: policies[:1]},
	}
	page := filepath.Join(t.TempDir(), "page.md")
	s := &settings{only: regexp.MustCompile(""), rounds: 1, speedup: 1, data: t.TempDir(), markdown: page, timeout: 2 * time.Minute, starts: 10}
	if err := s.run(t.Context(), all, io.Discard); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| times | it takes less | less | ", "## times: five jobs", "| fair | ", "## programs: a Grep"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

// TestFactor checks the correction of a profile by a run on a cluster, with numbers computed by
// hand: 2 maps of 10 MB at 0.1 s for each MB and a reduce of 20 MB at 0.05 s are 3 s.
func TestFactor(t *testing.T) {
	p := &workload.Profile{MapCPU: 0.1, ReduceCPU: 0.05, MapSelectivity: 1, CombinerRatio: 1}
	r := clusterRun{used: 4800 * time.Millisecond, results: []mapreduce.Result{{Maps: 2, Reduces: 1,
		Counters: map[string]int64{"map.input_bytes": 20e6, "reduce.input_bytes": 20e6}}}}
	const start = 100 * time.Millisecond
	f, err := r.factorOf(p, start)
	if err != nil || math.Abs(f-1.5) > 1e-9 {
		t.Fatalf("factor %v, %v, want 1.5", f, err)
	}
	correct(p, f, start)
	// The corrected profile predicts the processor time of the run.
	if got := 2*p.MapTask(10e6).CPU + p.ReduceTask(20e6, 2).CPU; got.Round(time.Microsecond) != 4800*time.Millisecond {
		t.Errorf("the corrected profile predicts %v, want 4.8s", got)
	}
	r.used = 200 * time.Millisecond
	if _, err := r.factorOf(p, start); err == nil {
		t.Error("starts that take longer than the whole run are no error")
	}
	b := &batch{programs: app("sort", "[DATA/text, DATA/text]", "") + app("grep", "DATA/movies", "")}
	if b.inputOf("sort") != "text" || b.inputOf("grep") != "movies" {
		t.Errorf("inputs %q and %q", b.inputOf("sort"), b.inputOf("grep"))
	}
}
