package report

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/slotwise/slotwise/internal/base/svg"
	"github.com/slotwise/slotwise/internal/virtual/metrics"
	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched/job"
)

// small returns a run with speculative copies and failed tasks.
func small(t *testing.T, observers ...sim.Observer) (sim.Config, *sim.Result) {
	t.Helper()
	p, err := policies.Parse("fair")
	if err != nil {
		t.Fatal(err)
	}
	var jobs []workload.Job
	for i := range 3 {
		jobs = append(jobs, workload.Job{Name: "job, the " + string(rune('a'+i)), Request: job.Request{Pool: "p"},
			Maps:    slices.Repeat([]workload.Task{{Duration: 10 * time.Second, Input: 64e6}}, 10),
			Reduces: slices.Repeat([]workload.Task{{Duration: 20 * time.Second}}, 2)})
	}
	cfg := sim.Config{Policy: p, Jobs: jobs, Seed: 1, Details: true, Observer: sim.Observers(observers),
		Cluster: workload.Cluster{Groups: []workload.NodeGroup{{Count: 4, MapSlots: 2, ReduceSlots: 1}}, Racks: 2},
		Model:   sim.ModelConfig{FailureRate: 0.1, Straggler: sim.Straggler{Probability: 0.1, Factor: 9}}}
	r, err := sim.Run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return cfg, r
}

// CSV and Parquet contain the rows that were added.
func TestTablesRoundTrip(t *testing.T) {
	var text, binary bytes.Buffer
	table := NewTable[AttemptRow](&text, &binary)
	var want []AttemptRow
	_, r := small(t, Attempts{table}, observe(func(e *sim.Event) {
		if e.Kind == sim.AttemptEnded {
			want = append(want, attemptOf(e))
		}
	}))
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := parquet.Read[AttemptRow](bytes.NewReader(binary.Bytes()), int64(binary.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error("parquet:", diff)
	}
	records, err := csv.NewReader(&text).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	ended := int64(0)
	for _, k := range r.Attempts {
		for _, n := range k {
			ended += n
		}
	}
	if int64(len(records)) != ended+1 || int64(len(want)) != ended {
		t.Fatalf("%d lines, %d rows, %d attempts", len(records), len(want), ended)
	}
	if h := strings.Join(records[0], " "); h != "job attempt kind slot node locality copy outcome started_s finished_s left_s bytes" {
		t.Errorf("columns %s", h)
	}
	if records[1][1] != want[0].Attempt || records[1][7] != want[0].Outcome {
		t.Errorf("first line %v, want %+v", records[1], want[0])
	}
}

// observe makes a function a sim.Observer.
type observe func(e *sim.Event)

func (f observe) Observe(e *sim.Event) { f(e) }

func TestJobRows(t *testing.T) {
	cfg, r := small(t)
	uses := make([]collect.Use, len(cfg.Jobs))
	rows := Jobs(RunRow{Policy: "fair", Seed: 1}, cfg.Jobs, r, make([]time.Duration, len(cfg.Jobs)), uses)
	var text, binary bytes.Buffer
	table := NewTable[JobRow](&text, &binary)
	for _, row := range rows {
		table.Add(row)
	}
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := parquet.Read[JobRow](bytes.NewReader(binary.Bytes()), int64(binary.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rows, got); diff != "" {
		t.Error(diff)
	}
	if j := rows[0]; j.Response != r.Jobs[0].Ended.Seconds() || j.Maps != 10 || !strings.Contains(text.String(), `"job, the a"`) {
		t.Errorf("%+v\n%s", j, text.String())
	}
}

// Close returns the error of a failed writer.
func TestTableError(t *testing.T) {
	table := NewTable[JobRow](failing{}, io.Discard)
	for range 1000 {
		table.Add(JobRow{Name: "x"})
	}
	if err := table.Close(); !errors.Is(err, errFull) {
		t.Errorf("%v", err)
	}
}

type failing struct{}

var errFull = errors.New("disk full")

func (failing) Write([]byte) (int, error) { return 0, errFull }

func TestComparison(t *testing.T) {
	r := func(policy string, seed uint64, makespan float64) *collect.Report {
		return &collect.Report{Policy: policy, Seed: seed, Makespan: makespan, Jobs: collect.Jobs{All: 2, Succeeded: 2},
			Bounds: collect.Bounds{Work: 50, Path: 40}, Jain: 1, Response: metrics.Summarize([]float64{makespan, 60})}
	}
	bad := r("fair", 1, 200)
	bad.Jobs = collect.Jobs{All: 2, Succeeded: 1, Failed: 1}
	var text strings.Builder
	if err := Comparison(&text, &Study{Slowdown: "alone", Runs: []*collect.Report{r("fifo", 1, 100), bad},
		Failed: []Fault{{"fifo", 2, "it broke"}, {"tumm", 1, "no slots"}}}); err != nil {
		t.Fatal(err)
	}
	const want = `2 jobs, seed 1; times in seconds, slowdowns against the job alone

        makespan          response time        waiting                  slowdown
policy     total  / bound    mean  median  p95    mean  longest / alone    mean  median   p95  V(95)  Jain
fifo         100     2.00    80.0    60.0  100       0                0    0.00    0.00  0.00   0.00  1.00
fair         200     4.00     130    60.0  200       0                0    0.00    0.00  0.00   0.00  1.00
tumm      failed        -       -       -    -       -                -       -       -     -      -     -

lower bound of the makespan: 50.0 (all work over all slots 50.0, longest job or chain 40.0)
`
	squeezed := strings.Join(strings.Fields(text.String()), " ")
	if !strings.HasPrefix(squeezed, strings.Join(strings.Fields(want), " ")) {
		t.Errorf("got\n%s", text.String())
	}
	if !strings.Contains(text.String(), "fair, seed 1: only 1 of 2 jobs succeeded (1 failed, 0 killed, 0 unfinished)") {
		t.Errorf("nothing is said of the failed job:\n%s", text.String())
	}
	for _, want := range []string{"\nfifo, seed 2: failed and is not included in the means: it broke\n", "\ntumm, seed 1: failed and is not included in the means: no slots\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing in\n%s", want, text.String())
		}
	}
	for i, line := range strings.Split(text.String(), "\n") {
		if line != strings.TrimRight(line, " ") {
			t.Errorf("line %d ends in spaces", i+1)
		}
	}
	text.Reset()
	if err := Comparison(&text, &Study{Slowdown: "ideal", Runs: []*collect.Report{r("fifo", 1, 100), r("fifo", 2, 102)}}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "101 ± 12.7") || !strings.Contains(text.String(), "2 seeds from 1 on") {
		t.Errorf("no interval:\n%s", text.String())
	}
}

// Every figure is well-formed SVG, and equal input gives equal bytes.
func TestFigures(t *testing.T) {
	draw := func() map[string]*svg.Figure {
		cfg, _ := small(t)
		lanes, k := NewLanes(&cfg.Cluster, cfg.Jobs), collect.New(&cfg.Cluster, cfg.Jobs, make([]time.Duration, len(cfg.Jobs)), false)
		_, r := small(t, lanes, k)
		runs := []Timeline{{"fair", k.Courses(), k.Capacity(), r.Ended}, {"fair again", k.Courses(), k.Capacity(), r.Ended}}
		cdf := SlowdownCDF([]Line{{"fair", []float64{3, 1, 2}}, {"nothing", nil}, {"zero", []float64{0}}})
		return map[string]*svg.Figure{"cdf": cdf, "queue": QueueLength(runs), "use": SlotUse(runs), "gantt": lanes.Gantt("fair")}
	}
	first, second := draw(), draw()
	for name, f := range first {
		var a, b bytes.Buffer
		if err := errors.Join(f.SVG(&a), second[name].SVG(&b)); err != nil {
			t.Fatal(name, err)
		}
		if !bytes.Equal(a.Bytes(), b.Bytes()) {
			t.Errorf("%s: the second time it looks different", name)
		}
		dec := xml.NewDecoder(&a)
		for {
			if _, err := dec.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
}

// TestGanttBars compares the bars that are drawn with the lanes: as many as attempts, none
// outside of the run, none above another of its class.
func TestGanttBars(t *testing.T) {
	cfg, _ := small(t)
	lanes := NewLanes(&cfg.Cluster, cfg.Jobs)
	small(t, lanes)
	p := lanes.Gantt("fair").Panels[0]
	n, classes := 0, map[string]bool{}
	for _, m := range p.Marks[1:] {
		boxes := m.(svg.Boxes)
		if classes[boxes.Class] {
			t.Errorf("two marks of the class %q", boxes.Class)
		}
		classes[boxes.Class] = true
		for i, b := range boxes.List {
			if b.Left < p.X.Low || b.Right > p.X.High || b.Right < b.Left || b.Bottom < p.Y.Low || b.Top > p.Y.High {
				t.Errorf("%+v is outside", b)
			}
			for _, other := range boxes.List[:i] {
				if b.Bottom == other.Bottom && b.Left < other.Right && other.Left < b.Right {
					t.Errorf("%+v is above %+v", b, other)
				}
			}
		}
		n += len(boxes.List)
	}
	if n != len(lanes.bars) || !classes[gone+ofMaps] || !classes["s0"+ofMaps] || !classes["s0"+ofReduces] {
		t.Errorf("%d bars of %d attempts in %v", n, len(lanes.bars), classes)
	}
}

// No lane holds two attempts at the same time, and each attempt has a bar.
func TestLanes(t *testing.T) {
	cfg, _ := small(t)
	lanes := NewLanes(&cfg.Cluster, cfg.Jobs)
	_, r := small(t, lanes)
	type place struct {
		node *laneNode
		lane int
	}
	until := map[place]time.Duration{}
	for _, b := range lanes.bars {
		at := place{b.node, b.lane}
		if b.from < until[at] || b.to < b.from {
			t.Fatalf("bar %+v begins before the one in front of it ends, %v", b, until[at])
		}
		until[at] = b.to
		if b.lane >= 3 {
			t.Errorf("a fourth lane on a node of three slots")
		}
	}
	n := int64(0)
	for _, k := range r.Attempts {
		for _, x := range k {
			n += x
		}
	}
	if int64(len(lanes.bars)) != n {
		t.Errorf("%d bars of %d attempts", len(lanes.bars), n)
	}
	if _, what, names := lanes.tones(); len(names) != 3 || what != "job" {
		t.Errorf("the legend has %q", names)
	}
	if big := NewLanes(&workload.Cluster{Groups: []workload.NodeGroup{{Count: 1000, MapSlots: 4}}}, nil); big.every != 56 {
		t.Errorf("one of %d nodes of 4 slots is shown", big.every)
	}
}
