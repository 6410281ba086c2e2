package study

import (
	"context"
	"encoding/csv"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/tracker/autoscale"
	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
	"github.com/slotwise/slotwise/internal/virtual/report"
	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
)

// write makes a file of the test and returns its name.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

const mix = `
arrivals: {poisson: 5s}
classes:
  - {name: short, count: 6, maps: {uniform: [1, 6]}, map-time: 10s, pool: a}
  - {name: long, count: 2, maps: 20, map-time: 20s, reduces: 2, reduce-time: 20s, pool: b}
`

// config prepares a study of a mix under some policies.
func config(t *testing.T, mix string, specs ...string) Config {
	t.Helper()
	c, err := ReadCluster("nodes=4,maps=2,reduces=1")
	if err != nil {
		t.Fatal(err)
	}
	w, err := ReadWorkload(context.Background(), write(t, "mix.yaml", mix), &c, WorkloadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return Config{Cluster: c, ClusterName: "four", Workload: w, Policies: NewPolicies(policies.Builtin(), specs), Seed: 3, Seeds: 2}
}

// counter counts the jobs and the phases that a study reports.
type counter struct {
	ended  atomic.Int64
	phases []string
	jobs   int
}

func (c *counter) Observe(e *sim.Event) {
	if e.Kind == sim.JobEnded {
		c.ended.Add(1)
	}
}

func (c *counter) Phase(what string, jobs int) {
	c.phases, c.jobs = append(c.phases, what), c.jobs+jobs
}

// TestStudy runs two policies with two seeds. Every policy has a summary over the
// seeds, the progress covers every job of every run, and the files are complete.
func TestStudy(t *testing.T) {
	cfg := config(t, mix, "fifo", "fair")
	progress := &counter{}
	out := filepath.Join(t.TempDir(), "out")
	cfg.Details, cfg.Explain, cfg.Progress = true, true, progress
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	files, err := OpenFiles(s, out, "", false)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Discard()
	if err := s.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := files.Publish(context.Background()); err != nil {
		t.Fatal(err)
	}
	all := s.Comparison()
	if len(all.Runs) != 4 || len(all.Policies) != 2 || all.Policies[1].Policy != "fair" || all.Policies[1].Runs != 2 || len(all.Waits) != 4 ||
		all.Runs[1].Seed != 4 || all.Cluster != "four" || len(all.Failed) != 0 {
		t.Errorf("%+v", all)
	}
	if n := int(progress.ended.Load()); n != progress.jobs || n != 2*8+4*8 || len(progress.phases) != 2 {
		t.Errorf("%d jobs ended of %d in %q", n, progress.jobs, progress.phases)
	}
	for _, name := range []string{"jobs.csv", "report.json", "tasks-fair-4.parquet", "gantt-fifo-3.svg", "slots.svg", "report.html"} {
		if _, err := os.Stat(filepath.Join(out, name)); err != nil {
			t.Error(err)
		}
	}
	if err := CheckOut(out, false); err == nil || CheckOut(out, true) != nil {
		t.Errorf("an earlier result: %v, %v", err, CheckOut(out, true))
	}
}

// TestCheckOut refuses to replace a directory with anything that its study has not written,
// and publishes nothing over files that came during the runs.
func TestCheckOut(t *testing.T) {
	result := func(t *testing.T, overwrite bool) (string, *Files) {
		cfg := config(t, mix, "learning-nb", "fifo")
		cfg.Details = true
		s, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(t.TempDir(), "out")
		files, err := OpenFiles(s, out, "", overwrite)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(files.Discard)
		if err := s.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		return out, files
	}
	out, files := result(t, false)
	if err := files.Publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := CheckOut(out, true); err != nil {
		t.Errorf("a result of all kinds of files: %v", err)
	}
	for name, add := range map[string]func(path string) error{
		"thesis.tex":            func(path string) error { return os.WriteFile(path, nil, 0o666) },
		"jobs2.csv":             func(path string) error { return os.WriteFile(path, nil, 0o666) },
		"tasks-fifo-99.csv":     func(path string) error { return os.WriteFile(path, nil, 0o666) },
		"photo.svg":             func(path string) error { return os.WriteFile(path, nil, 0o666) },
		"decisions-other-3.csv": func(path string) error { return os.WriteFile(path, nil, 0o666) },
		"slots.png":             func(path string) error { return os.WriteFile(path, nil, 0o666) },
		"gantt-fifo-98.svg":     func(path string) error { return os.Mkdir(path, 0o777) },
	} {
		path := filepath.Join(out, name)
		if err := add(path); err != nil {
			t.Fatal(err)
		}
		if err := CheckOut(out, true); err == nil || !strings.Contains(err.Error(), "contains "+name+",") {
			t.Errorf("a result with %s: %v", name, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, reportName), []byte(`{"mine": 1}`), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := CheckOut(other, true); err == nil {
		t.Error("a report.json of another program is replaced")
	}

	for _, overwrite := range []bool{false, true} {
		out, files := result(t, overwrite)
		late := filepath.Join(out, "late.txt")
		if err := errors.Join(os.Mkdir(out, 0o777), os.WriteFile(late, nil, 0o666)); err != nil {
			t.Fatal(err)
		}
		if err := files.Publish(t.Context()); err == nil {
			t.Errorf("overwrite %v: published over a file that came during the runs", overwrite)
		}
		if _, err := os.Stat(late); err != nil {
			t.Errorf("overwrite %v: %v", overwrite, err)
		}
	}
}

// TestDecisions reads the table of decisions that a policy that learns has logged.
func TestDecisions(t *testing.T) {
	cfg := config(t, mix, "learning-nb", "fifo")
	cfg.Details = true
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	files, err := OpenFiles(s, out, "", false)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Discard()
	if err := errors.Join(s.Run(t.Context()), files.Publish(t.Context())); err != nil {
		t.Fatal(err)
	}
	list, err := filepath.Glob(filepath.Join(out, "decisions-*"))
	if err != nil || len(list) != s.cfg.Seeds || filepath.Base(list[0]) != "decisions-learning-nb-3.csv" {
		t.Fatalf("tables %v, %v; want one for each seed of learning-nb", list, err)
	}
	f, err := os.Open(list[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll() // checks that all rows are as long as the first
	if err != nil || len(rows) < 9 {
		t.Fatalf("%d rows, %v; want one for each of 8 tasks or more", len(rows), err)
	}
	at := func(name string) int { return slices.Index(rows[0], name) }
	launched := 0
	for _, row := range rows[1:] {
		p, err := strconv.ParseFloat(row[at("probability")], 64)
		if err != nil || p < 0 || p > 1 || row[at("node")] == "" || row[at("load")] == "" || row[at("after_load")] == "" {
			t.Fatalf("row %v: %v", row, err)
		}
		if row[at("decided")] == "launched" {
			launched++
		}
	}
	if launched == 0 {
		t.Error("no task was launched")
	}
}

// TestAutoscale compares the costs of a fixed cluster and of one that grows and shrinks.
func TestAutoscale(t *testing.T) {
	study := func(least, most int) (*Study, error) {
		cfg := config(t, strings.Replace(mix, "5s", "200s", 1), "fair")
		cfg.Autoscale = &autoscale.Config{Min: least, Max: most, StartUp: 10 * time.Second, CoolDown: 20 * time.Second}
		return New(cfg)
	}
	machines := func(least int) *collect.Report {
		s, err := study(least, 4)
		if err == nil {
			err = s.Run(t.Context())
		}
		if err != nil || len(s.Failed()) > 0 {
			t.Fatal(err, s.Failed())
		}
		var text strings.Builder
		if err := report.Comparison(&text, s.Comparison().Study); err != nil || !strings.Contains(text.String(), "machine hours") {
			t.Error(err, text.String())
		}
		return s.Comparison().Runs[0]
	}
	all, few := machines(4), machines(1)
	busy := all.Machines.Hours - all.Machines.Idle
	switch work := (all.Slots.Time[0] + all.Slots.Time[1]) / 3600; {
	case all.Machines.Most != 4 || few.Machines.Most > 4 || few.Machines.Hours >= all.Machines.Hours || few.Machines.Idle >= all.Machines.Idle:
		t.Errorf("fixed: %+v, growing: %+v", all.Machines, few.Machines)
	case busy > work || 3*busy < work: // a machine has three slots
		t.Errorf("machines are busy for %v hours, slots for %v", busy, work)
	}
	if _, err := study(1, 5); !errors.Is(err, ErrAutoscale) {
		t.Errorf("max=5 with 4 nodes: %v", err)
	}
}

// TestStudyFailures: a run that cannot end is listed and leaves no tables, and an
// interrupted study leaves no files.
func TestStudyFailures(t *testing.T) {
	cfg := config(t, mix, "fifo", "yarn")
	cfg.Cluster.Groups[0].ReduceSlots = 0
	var warned []string
	cfg.Seeds, cfg.Warn = 1, func(text string) { warned = append(warned, text) }
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if f := s.Failed(); len(f) != 1 || f[0].Policy != "fifo" || !strings.Contains(f[0].Error, "no reduce slots") {
		t.Errorf("failed: %v", f)
	}
	if len(warned) != 1 || s.Comparison().Slowdown != Ideal {
		t.Errorf("warnings %q, reference %s", warned, s.Comparison().Slowdown)
	}
	dir := t.TempDir()
	s, err = New(config(t, mix, "fifo"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := OpenFiles(s, filepath.Join(dir, "out"), "", false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	stop := errors.New("stop")
	cancel(stop)
	if err := s.Run(ctx); !errors.Is(err, stop) {
		t.Errorf("an interrupted study: %v", err)
	}
	files.Discard()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// TestSwapsOfStudy: the swaps of a mix reach every run, and a wrong one is an
// error of the workload.
func TestSwapsOfStudy(t *testing.T) {
	const two = "jobs:\n  - {name: long, maps: 40, map-time: 4s, pool: a}\n  - {name: short, maps: 4, map-time: 4s, pool: b}\n"
	mean := func(mix string) float64 {
		s, err := New(config(t, mix, "fifo"))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		return s.Comparison().Runs[0].Response.Mean
	}
	if without, with := mean(two), mean(two+"swap: [{at: 2s, policy: fair}]\n"); with >= without {
		t.Errorf("mean response %v s with a swap to fair, %v s without", with, without)
	}
	if _, err := New(config(t, two+"swap: [{at: 2s, policy: nosuch}]\n", "fifo")); !errors.Is(err, ErrWorkload) || !strings.Contains(err.Error(), "swap 1") {
		t.Errorf("a wrong swap: %v", err)
	}
}

// TestPolicies: parameters and files go to the policies that accept them.
func TestPolicies(t *testing.T) {
	specs, err := sched.SplitSpecs("fifo,fair,place=greedy", "slots=static,order=fifo")
	if err != nil || !slices.Equal(specs, []string{"fifo", "fair,place=greedy", "slots=static,order=fifo"}) {
		t.Fatalf("%q, %v", specs, err)
	}
	p := NewPolicies(policies.Builtin(), []string{"fifo", "fair", "capacity"})
	if err := p.Set(map[string]string{"nosuch": "1"}); err == nil {
		t.Error("an unknown parameter is accepted")
	}
	pools := write(t, "fair.xml", "<allocations><pool name=\"a\"><minMaps>1</minMaps></pool><colour>red</colour></allocations>")
	if warnings, err := p.UsePools(pools); err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "colour") {
		t.Errorf("pools: %q, %v", warnings, err)
	}
	if err := p.Check(); err != nil {
		t.Error(err)
	}
	if _, err := NewPolicies(policies.Builtin(), []string{"fifo"}).UsePools(pools); err == nil {
		t.Error("fifo accepts pools")
	}
}

// The plot of slowdowns leaves out the jobs of the warm-up, as the tables do, for policies and for the bound.
func TestWarmUpOfThePlot(t *testing.T) {
	cfg := config(t, mix, "fifo")
	cfg.Seeds, cfg.References = 1, []string{RefBound}
	var err error
	if cfg.WarmUp, err = collect.ParseWarmUp("0.5"); err != nil {
		t.Fatal(err)
	}
	s, err := New(cfg)
	if err == nil {
		err = s.Run(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	_, bounds := s.bounded()
	kept := len(s.drafts[0].jobs) - s.warmed.Jobs
	if s.warmed.Jobs == 0 || len(bounds) != kept || len(s.runs[0].outcomes.Known(collect.Slowdowns)) != kept {
		t.Errorf("%d of %d jobs are left out, and %d slowdowns of the bound remain", s.warmed.Jobs, len(s.drafts[0].jobs), len(bounds))
	}
}
