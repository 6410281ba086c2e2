package sweep

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/policies"
)

const mix = `
arrivals: {poisson: 5s}
classes:
  - {name: short, count: 6, maps: {uniform: [1, 6]}, map-time: 10s, pool: a}
  - {name: long, count: 2, maps: 20, map-time: 20s, reduces: 2, reduce-time: 20s, pool: b}
`

const grid = `
workload: mix.yaml
clusters:
  - nodes: [4, 6]
    division: 2+1
policies:
  - fifo
  - name: dynamictags
    set: {threshold: [1, 4]}
worlds:
  - slotwise
  - {set: {failure-rate: 0.05}}
loads: [1, 2]
seeds: 2
`

// directory makes a directory with the mix, and returns it.
func directory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mix.yaml"), []byte(mix), 0o666); err != nil {
		t.Fatal(err)
	}
	return dir
}

// plan reads a study in a directory.
func plan(t *testing.T, dir, text string) (*Plan, error) {
	t.Helper()
	s, err := Read("study.yaml", strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	return NewPlan(context.Background(), s, Options{Registry: policies.Builtin(), Dir: dir, Program: "test"})
}

func mustPlan(t *testing.T, dir, text string) *Plan {
	t.Helper()
	p, err := plan(t, dir, text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := OpenStore(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// counter counts the jobs of the phases, and the jobs that have ended. It calls stop when
// a number of jobs have ended.
type counter struct {
	jobs, after int64
	ended       atomic.Int64
	stop        func()
}

func (c *counter) Phase(_ string, jobs int) { c.jobs = int64(jobs) }

func (c *counter) Observe(e *sim.Event) {
	if e.Kind == sim.JobEnded && c.ended.Add(1) == c.after {
		c.stop()
	}
}

// A grid has a cell for each combination. All run, the table has a row for each, and the
// files are complete.
func TestStudy(t *testing.T) {
	dir := directory(t)
	p := mustPlan(t, dir, grid)
	if n := 2 * 2 * 2 * 2 * (3 + 3); len(p.Cells) != n {
		t.Fatalf("%d cells, want %d", len(p.Cells), n)
	}
	store, progress := open(t, dir), &counter{}
	if err := p.Run(context.Background(), store, RunOptions{Progress: progress}); err != nil {
		t.Fatal(err)
	}
	if want := int64(8 * 5 * 16); progress.jobs != want || progress.ended.Load() < want {
		t.Errorf("progress of %d jobs, %d ended, want %d", progress.jobs, progress.ended.Load(), want)
	}
	r, err := p.Result(store)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Write(store); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(filepath.Join(store.dir, "runs.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines, err := csv.NewReader(file).ReadAll()
	if err != nil || len(lines) != len(p.Cells)+1 {
		t.Fatalf("runs.csv: %d lines, %v", len(lines), err)
	}
	rows, err := parquet.ReadFile[Row](filepath.Join(store.dir, "runs.parquet"))
	if err != nil || len(rows) != len(p.Cells) || rows[0].Makespan != r.Rows[0].Makespan || rows[0].Makespan <= 0 {
		t.Errorf("runs.parquet: %d rows, %v", len(rows), err)
	}
	page, err := os.ReadFile(filepath.Join(store.dir, "report.html"))
	if err != nil || strings.Count(string(page), "<svg") != 4*4 || regexp.MustCompile(`(src|href)="`).Match(page) {
		t.Errorf("report.html: %v, %d plots, or it refers to other files", err, strings.Count(string(page), "<svg"))
	}
	var text bytes.Buffer
	if err := r.Print(&text); err != nil || strings.Contains(text.String(), "± 0") || !strings.Contains(text.String(), "compared with fifo, in % of its values, [95 % intervals]") {
		t.Errorf("printed %v:\n%s", err, text.String())
	}
	if len(r.Pairs) != 8*(5-1)*len(collect.Headline) {
		t.Errorf("%d comparisons", len(r.Pairs))
	}
}

// With autoscale every policy runs on a fixed and a growing cluster. The growing one costs fewer
// machine-hours, and both share the times of jobs alone.
func TestAutoscale(t *testing.T) {
	dir := directory(t)
	p := mustPlan(t, dir, "workload: mix.yaml\nclusters: ['nodes=6,maps=2,reduces=1,heartbeat=fixed:3s']\npolicies: [fifo, fair]\nautoscale: [none, 'min=1,start-up=20s,cool-down=20s']\nloads: [0.1]\nreferences: [bound, srpt]\n")
	if len(p.Cells) != 2*4 {
		t.Fatalf("%d cells", len(p.Cells))
	}
	store := open(t, dir)
	if err := p.Run(context.Background(), store, RunOptions{}); err != nil {
		t.Fatal(err)
	}
	r, err := p.Result(store)
	if err != nil {
		t.Fatal(err)
	}
	hours := make(map[string]map[string]*Row)
	for _, row := range r.Rows {
		if hours[row.Policy] == nil {
			hours[row.Policy] = make(map[string]*Row)
		}
		hours[row.Policy][row.Autoscale] = row
	}
	for _, policy := range []string{"fifo", "fair", "srpt, sizes known"} {
		fixed, grown := hours[policy]["none"], hours[policy]["min=1,start-up=20s,cool-down=20s"]
		if want := 6 * fixed.Makespan / 3600; math.Abs(fixed.MachineHours-want) > 0.1*want {
			t.Errorf("%s: a fixed cluster costs %g machine-hours, want about %g", policy, fixed.MachineHours, want)
		}
		if grown.MachineHours >= fixed.MachineHours || grown.MachineIdle > grown.MachineHours || grown.Makespan <= fixed.Makespan {
			t.Errorf("%s: fixed %+v, growing %+v", policy, fixed, grown)
		}
	}
	if bound := hours["lower bound"]["none"]; !math.IsNaN(bound.MachineHours) {
		t.Errorf("the bound has %g machine-hours", bound.MachineHours)
	}
	plots := r.Plots()
	if len(plots) != 5 || plots[4].Name != "machines-hours" {
		t.Errorf("%d plots", len(plots))
	}
	var text bytes.Buffer
	if err := r.Print(&text); err != nil || !strings.Contains(text.String(), "machines.hours") || !strings.Contains(text.String(), ", autoscale min=1,start-up=20s,cool-down=20s, load 0.1") {
		t.Errorf("printed %v:\n%s", err, text.String())
	}
	if err := r.Write(store); err != nil {
		t.Fatal(err)
	}
}

// References: no policy has a smaller makespan than the bound, and with known sizes the
// mean response is smaller than first come, first served. In order of the list all short jobs would be
// first, and both orders the same.
func TestReferences(t *testing.T) {
	dir := directory(t)
	if err := os.WriteFile(filepath.Join(dir, "shuffled.yaml"), []byte("order: shuffled\n"+mix), 0o666); err != nil {
		t.Fatal(err)
	}
	p := mustPlan(t, dir, "workload: shuffled.yaml\nclusters: ['nodes=3,maps=2,reduces=1,heartbeat=fixed:3s']\npolicies: ['fifo,speculate=none']\nloads: [3]\nseeds: 3\n")
	store := open(t, dir)
	if err := p.Run(context.Background(), store, RunOptions{}); err != nil {
		t.Fatal(err)
	}
	r, err := p.Result(store)
	if err != nil {
		t.Fatal(err)
	}
	by := make(map[string]map[uint64]*Row)
	for _, row := range r.Rows {
		if by[row.Policy] == nil {
			by[row.Policy] = make(map[uint64]*Row)
		}
		by[row.Policy][row.Seed] = row
	}
	better := 0
	for seed, fifo := range by["fifo,speculate=none"] {
		bound, srpt, split := by["lower bound"][seed], by["srpt, sizes known"][seed], by["fifo, best static split"][seed]
		for _, row := range []*Row{fifo, srpt} {
			if row.Makespan < bound.Makespan || row.ResponseMean < bound.ResponseMean || row.ResponseP95 < bound.ResponseP95 {
				t.Errorf("seed %d: %s is below the bound: %+v, %+v", seed, row.Policy, row, bound)
			}
		}
		if !math.IsNaN(bound.Jain) || split.State != "ok" {
			t.Errorf("bound %+v, split %+v", bound, split)
		}
		if srpt.ResponseMean < fifo.ResponseMean {
			better++
		}
	}
	if better < 3 {
		t.Errorf("shortest remaining work first has a smaller mean response in only %d of 3 runs", better)
	}
}

// An interrupted study keeps the cells that have ended. The next run makes only the others
// and ends with the same table as a run without interrupt.
func TestResume(t *testing.T) {
	dir := directory(t)
	whole := mustPlan(t, dir, grid)
	other, err := OpenStore(filepath.Join(dir, "whole"))
	if err != nil {
		t.Fatal(err)
	}
	if err := whole.Run(context.Background(), other, RunOptions{}); err != nil {
		t.Fatal(err)
	}
	store, p := open(t, dir), mustPlan(t, dir, grid)
	ctx, cancel := context.WithCancelCause(context.Background())
	stopped := errors.New("stopped")
	progress := &counter{after: 200, stop: func() { cancel(stopped) }}
	if err := p.Run(ctx, store, RunOptions{Workers: 2, Progress: progress}); !errors.Is(err, stopped) {
		t.Fatalf("an interrupted run: %v", err)
	}
	p = mustPlan(t, dir, grid)
	missing := len(p.Missing(store))
	if missing == 0 || missing == len(p.Cells) {
		t.Fatalf("%d of %d cells are missing after the interrupt", missing, len(p.Cells))
	}
	progress = &counter{}
	if err := p.Run(context.Background(), store, RunOptions{Workers: 2, Progress: progress}); err != nil {
		t.Fatal(err)
	}
	if progress.jobs > int64(missing*8) {
		t.Errorf("%d jobs for %d missing cells", progress.jobs, missing)
	}
	a, err1 := whole.Result(other)
	b, err2 := p.Result(store)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	var x, y bytes.Buffer
	if err := errors.Join(a.Print(&x), b.Print(&y)); err != nil || x.String() != y.String() {
		t.Errorf("the results differ (%v):\n%s\n%s", err, x.String(), y.String())
	}
}

// A damaged result is made again, with a warning that names it. Two studies may write one cell
// at the same time.
func TestDamagedCell(t *testing.T) {
	dir := directory(t)
	small := "workload: mix.yaml\nclusters: ['nodes=3,maps=2,reduces=1']\npolicies: [fifo]\nreferences: none\n"
	store, p := open(t, dir), mustPlan(t, dir, small)
	if err := p.Run(context.Background(), store, RunOptions{}); err != nil {
		t.Fatal(err)
	}
	path := store.path(p.Cells[0].Key)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files { // also the times alone
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), f.Name()), whole[:len(whole)/2], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	store, p = open(t, dir), mustPlan(t, dir, small)
	var warned []string
	if err := p.Run(context.Background(), store, RunOptions{Warn: func(text string) { warned = append(warned, text) }}); err != nil {
		t.Fatal(err)
	}
	if len(warned) != 1 || !strings.Contains(warned[0], path+" is damaged; the run is made again") {
		t.Errorf("warnings %q", warned)
	}
	if _, err := p.Result(store); err != nil {
		t.Error(err)
	}
	if again, err := os.ReadFile(path); err != nil || !bytes.Equal(again, whole) {
		t.Errorf("the result differs: %v", err)
	}
	sum := bytes.Clone(whole)
	sum[len(sum)-8] ^= 1 // the checksum of a complete file
	if err := os.WriteFile(path, sum, 0o600); err != nil {
		t.Fatal(err)
	}
	if store = open(t, dir); store.Has(p.Cells[0].Key) || !store.Damaged(p.Cells[0].Key) {
		t.Error("a result with a wrong checksum counts as complete")
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := store.save("same", strings.Repeat("x", 1<<20)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if !store.Has("same") {
		t.Error("a result that was written eight times at once is damaged")
	}
}

// The key of a cell depends on each of its inputs, and on nothing else.
func TestKeys(t *testing.T) {
	dir := directory(t)
	first := mustPlan(t, dir, grid).Cells
	seen := make(map[string]string)
	for _, c := range first {
		if other, twice := seen[c.Key]; twice {
			t.Errorf("%s has the key of %s", c.Describe(), other)
		}
		seen[c.Key] = c.Describe()
	}
	for i, c := range mustPlan(t, dir, grid+"measures: [makespan]\n").Cells {
		if c.Key != first[i].Key {
			t.Errorf("%s: another plot changes the key", c.Describe())
		}
	}
	for name, text := range map[string]string{
		"reference": grid + "reference: ideal\n", "parameter": strings.Replace(grid, "[1, 4]", "[2, 5]", 1),
	} {
		same := 0
		for _, c := range mustPlan(t, dir, text).Cells {
			if seen[c.Key] != "" && (name == "reference" || strings.Contains(c.Policy(), "threshold")) {
				same++
			}
		}
		if same > 0 {
			t.Errorf("%s: %d cells keep their keys", name, same)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "mix.yaml"), []byte(strings.Replace(mix, "10s", "11s", 1)), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range mustPlan(t, dir, grid).Cells {
		if seen[c.Key] != "" {
			t.Errorf("%s: keeps its key with another workload", c.Describe())
		}
	}
}

// A cell waits for memory unless it is alone, and shared lists of jobs count once.
func TestGate(t *testing.T) {
	g, ctx := newGate(100), context.Background()
	one, two := new(draw), &draw{seed: 2}
	if !g.enter(ctx, 500, 50, one) {
		t.Fatal("a cell that is alone does not enter")
	}
	g.leave(500, 50, one)
	g.enter(ctx, 30, 30, one)
	g.enter(ctx, 30, 30, one)
	if g.used != 90 {
		t.Fatalf("%d in use, want 90", g.used)
	}
	ended, cancel := context.WithCancel(ctx)
	entered := make(chan bool)
	go func() { entered <- g.enter(ended, 30, 30, two) }()
	cancel()
	g.wake()
	if <-entered {
		t.Error("a cell beyond the limit enters")
	}
	g.leave(30, 30, one)
	if g.used != 60 || !g.enter(ctx, 10, 30, two) {
		t.Errorf("%d in use after one has left", g.used)
	}
}

// Mistakes in the file are errors that name the key and the remedy.
func TestMistakes(t *testing.T) {
	dir := directory(t)
	const good = "workload: mix.yaml\nclusters: ['nodes=2,maps=1,reduces=1']\npolicies: [fifo]\n"
	if _, err := plan(t, dir, good); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"":                                       "is empty",
		"workload: [":                            "yaml",
		good + "polices: [fair]\n":               `unknown key "polices"; did you mean "policies"?`,
		"workload: mix.yaml\n":                   "policies is missing",
		good + "loads: [0]\n":                    "loads: 0 must be above 0",
		good + "seeds: 0.5\n":                    "is not a whole number",
		good + "seeds: 100000\n":                 "must be from 1 to 10000",
		good + "seeds: 0\n":                      "seeds: 0 must be from 1 to 10000",
		good + "seeds: {count: 0}\n":             "seeds: 0 must be from 1 to 10000",
		good + "reference: best\n":               "must be alone or ideal",
		good + "references: [optimum]\n":         "is not bound, srpt, psjf, sita, classictags, static-split or none",
		good + "measures: [slowdown]\n":          "unknown measure",
		good + "worlds: [mars]\n":                "unknown world",
		good + "worlds: [{set: {x: 1}}]":         "unknown parameter",
		good + "autoscale: [min=1, min=1]\n":     "is there twice",
		good + "autoscale: min=3\n":              "min=3: must be from 0 to max, which is 2",
		good + "autoscale: 'min=1,max=2'\n":      "leave out max",
		good + "fair-scheduler: mix.yaml":        "fair-scheduler",
		strings.Replace(good, "fifo", "fifi", 1): "fifi",
		strings.Replace(good, "[fifo]", "[{name: fifo, set: {nosuch: 1}}]", 1):                  "nosuch",
		strings.Replace(good, "[fifo]", "[{name: fifo, colour: red}]", 1):                       "unknown key",
		strings.Replace(good, "[fifo]", "[fifo, fifo]", 1):                                      "is there twice",
		strings.Replace(good, "mix.yaml", "nosuch.yaml", 1):                                     "nosuch.yaml",
		strings.Replace(good, "['nodes=2,maps=1,reduces=1']", "[{nodes: 2}]", 1):                "no slots",
		strings.Replace(good, "['nodes=2,maps=1,reduces=1']", "[{slots: 2}]", 1):                "needs division",
		strings.Replace(good, "['nodes=2,maps=1,reduces=1']", "[{nodes: many}]", 1):             "whole number",
		strings.Replace(good, "['nodes=2,maps=1,reduces=1']", "[{nodes: 2, division: 3:1}]", 1): "division",
		strings.Replace(good, "['nodes=2,maps=1,reduces=1']", "[{slots: 5, division: 3+1}]", 1): "not a division of 5",
	} {
		if _, err := plan(t, dir, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngives %v, want %q", text, err, want)
		}
	}
	if _, err := OpenStore(dir); err == nil {
		t.Error("a directory with other files is accepted")
	}
}

// Divisions of slots, as a share or as a sum.
func TestDivision(t *testing.T) {
	p := mustPlan(t, directory(t), "workload: mix.yaml\npolicies: [fifo]\nclusters: [{nodes: 2, slots: [6, 8], division: [0.25, 0.67]}]\n")
	var got []string
	for _, c := range p.clusters {
		g := c.cluster.Groups[0]
		got = append(got, fmt.Sprintf("%d+%d", g.MapSlots, g.ReduceSlots))
	}
	if want := "2+4 2+6 4+2 5+3"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// TestNamedNodes changes the number of nodes of a cluster whose file names its hosts.
func TestNamedNodes(t *testing.T) {
	dir := directory(t)
	nodes := `[{"name":"a","rack":"r","map_slots":2,"reduce_slots":1,"cpus":3},{"name":"b","rack":"r","map_slots":2,"reduce_slots":1,"cpus":3}]`
	if err := os.WriteFile(filepath.Join(dir, "nodes.json"), []byte(nodes), 0o666); err != nil {
		t.Fatal(err)
	}
	p := mustPlan(t, dir, "workload: mix.yaml\npolicies: [fifo]\nreferences: none\nclusters: [{spec: nodes.json, nodes: [2, 4]}]\n")
	store := open(t, filepath.Join(dir, "out"))
	if err := p.Run(context.Background(), store, RunOptions{}); err != nil {
		t.Fatal(err)
	}
	r, err := p.Result(store)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range r.Rows {
		if row.State != "ok" {
			t.Errorf("%d nodes: %s", row.Nodes, row.Error)
		}
	}
	if hosts := p.clusters[0].cluster.Groups[0].Hosts; len(hosts) != 2 || p.clusters[1].cluster.Groups[0].Hosts != nil {
		t.Errorf("hosts %v and %v", hosts, p.clusters[1].cluster.Groups[0].Hosts)
	}
}

// TestKeyOfMemory runs a changed mix again: the memory that its tasks occupy is a part of the key.
func TestKeyOfMemory(t *testing.T) {
	dir := directory(t)
	text := "workload: mix.yaml\npolicies: [fifo]\nclusters: [\"nodes=2,maps=2,reduces=1\"]\n"
	before := mustPlan(t, dir, text).Cells[0].Key
	changed := strings.ReplaceAll(mix, "pool: a", "pool: a, resident: 2GiB")
	if err := os.WriteFile(filepath.Join(dir, "mix.yaml"), []byte(changed), 0o666); err != nil {
		t.Fatal(err)
	}
	if after := mustPlan(t, dir, text).Cells[0].Key; after == before {
		t.Error("a mix whose tasks occupy memory has the key of one whose tasks occupy none")
	}
}

// docs/formats/study.md describes every key. SLOTWISE_REWRITE=1 writes its tables.
func TestPage(t *testing.T) {
	const page, begin, end = "../../../../docs/formats/study.md", "<!-- generated: keys -->\n", "<!-- end -->\n"
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok1 := strings.Cut(string(b), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s lacks its marks", page)
	}
	var out strings.Builder
	table := func(keys []Key) {
		out.WriteString("\n| key | what |\n|---|---|\n")
		for _, k := range keys {
			if k.Name == "" || k.Help == "" {
				t.Errorf("a key without a name or help: %+v", k)
			}
			fmt.Fprintf(&out, "| `%s` | %s |\n", k.Name, k.Help)
		}
	}
	top, nested := Keys()
	table(top)
	for _, list := range []string{"policies", "clusters", "worlds", "seeds"} {
		fmt.Fprintf(&out, "\nA mapping in `%s`:\n", list)
		table(nested[list])
	}
	out.WriteString("\nMeasures:")
	for i, m := range collect.Measures {
		fmt.Fprintf(&out, "%s `%s`", map[bool]string{true: ","}[i > 0], m.Name)
	}
	out.WriteString(".\n\n")
	want := head + begin + out.String() + end + tail
	if want == string(b) {
		return
	}
	if os.Getenv("SLOTWISE_REWRITE") == "" {
		t.Fatalf("%s differs from the keys; SLOTWISE_REWRITE=1 go test ./internal/virtual/study/sweep writes it", page)
	}
	if err := os.WriteFile(page, []byte(want), 0o666); err != nil {
		t.Fatal(err)
	}
}

// Whatever the file holds, Read returns an error or a study.
func FuzzRead(f *testing.F) {
	f.Add(grid)
	f.Add("&a a: *a")
	f.Add("policies: [{name: [1]}]")
	f.Add("seeds: {from: -1}")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := Read("s.yaml", strings.NewReader(text)); err == nil && (s.Seeds.Count < 1 || len(s.Loads) == 0) {
			t.Errorf("%+v", s)
		}
	})
}
