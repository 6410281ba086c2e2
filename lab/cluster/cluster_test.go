package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/slotwise/slotwise/lab/harness"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// TestMain runs the command instead of the tests if the benchmark has started this
// executable as a process of pretended workers.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-as-workers-of" {
		main()
		os.Exit(0)
	}
	code := m.Run()
	os.RemoveAll(sharedDir)
	os.Exit(code)
}

// sharedDir is the directory of the binary that the tests measure; "" until binary
// has been called.
var sharedDir string

// binary builds slotwise, once for all tests.
var binary = sync.OnceValues(func() (_ string, err error) {
	if sharedDir, err = os.MkdirTemp("", "bench-cluster"); err != nil {
		return "", err
	}
	name := filepath.Join(sharedDir, "slotwise")
	return name, harness.Build(context.Background(), name)
})

// bench runs the command with a real master and returns its standard output.
func bench(t *testing.T, args ...string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds slotwise")
	}
	slotwise, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if err := run(t.Context(), append([]string{"-binary", slotwise, "-data", t.TempDir()}, args...), strings.NewReader(""), &out, &errs); err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	return out.String()
}

// TestLoad runs 20 jobs on 100 workers. The command itself fails if a job fails or a
// task does not succeed exactly once.
func TestLoad(t *testing.T) {
	out := bench(t, "-n", "100", "-jobs", "20", "-maps", "20", "-reduces", "3", "-task", "20ms")
	for _, want := range []string{"| 100, 20, 460 of 20ms |", "| jobs lost, tasks not finished exactly once | 0, 0 |", "| heartbeat: p50, p99, max |"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}

// TestRealJobs runs real jobs on small inputs. The command itself fails if the
// outputs differ.
func TestRealJobs(t *testing.T) {
	out := bench(t, "-wordcount", "-rounds", "1", "-quick", "1", "-size", "4194304")
	for _, want := range []string{"| word count | 4 MiB |", "| sort of records | 4 MiB |", "| word count | 1 MiB |"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}

// TestTinyJobs runs jobs of a few tiny maps.
func TestTinyJobs(t *testing.T) {
	out := bench(t, "-tiny", "20", "-rounds", "1")
	for _, want := range []string{"| pi, 10 points a map | 20 |", "| streaming, cat of a line a map | 20 |"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}

// TestChecks shows that a failed job, a missing task and a task that ran twice are
// errors.
func TestChecks(t *testing.T) {
	r := &loadResult{plan: loadPlan{Jobs: 1, Maps: 2, Reduces: 1}}
	good := func() *slotwisev1.JobStatus {
		return &slotwisev1.JobStatus{
			State: slotwisev1.JobState_JOB_STATE_SUCCEEDED, Maps: &slotwisev1.TaskCounts{Done: 2}, Reduces: &slotwisev1.TaskCounts{Done: 1},
			MapCounters: &slotwisev1.Counters{InputRecords: 2}, ReduceCounters: &slotwisev1.Counters{InputRecords: 1},
		}
	}
	if err := r.checkJob(good()); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*slotwisev1.JobStatus){
		"failed":              func(st *slotwisev1.JobStatus) { st.State = slotwisev1.JobState_JOB_STATE_FAILED },
		"a map missing":       func(st *slotwisev1.JobStatus) { st.Maps.Done = 1 },
		"a map counted twice": func(st *slotwisev1.JobStatus) { st.MapCounters.InputRecords = 3 },
		"a reduce missing":    func(st *slotwisev1.JobStatus) { st.ReduceCounters = nil },
	} {
		st := good()
		if spoil(st); r.checkJob(st) == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, s := range []measurements{{Launches: 2}, {Launches: 4}, {Launches: 3, Twice: 1}} {
		if r.workers = s; r.check() == nil {
			t.Errorf("%+v: no error", s)
		}
	}
	if r.workers = (measurements{Launches: 3}); r.check() != nil {
		t.Error(r.check())
	}
}

func TestReadMetrics(t *testing.T) {
	m, err := readMetrics(strings.NewReader("# HELP a text 1\na 2\nb{x=\"1\"} 3\nb{x=\"2\"} 4.5\n"))
	if err != nil || m["a"] != 2 || m["b"] != 7.5 || len(m) != 2 {
		t.Errorf("%v, error %v", m, err)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"-n", "0"}, {"-task", "0s"}, {"x"}, {"-no-such"}} {
		if err := run(t.Context(), args, nil, &bytes.Buffer{}, &bytes.Buffer{}); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}

// TestCheck gives check a launch too many.
func TestCheck(t *testing.T) {
	r := loadResult{plan: loadPlan{Jobs: 2, Maps: 3, Reduces: 1}}
	r.workers.add(measurements{Launches: 4})
	r.workers.add(measurements{Launches: 4, FirstFailure: "the master killed m"})
	if err := r.check(); err != nil {
		t.Error(err)
	}
	r.workers.add(measurements{Launches: 1, Failures: 1, FirstFailure: "too late"})
	if err := r.check(); err == nil || !strings.Contains(err.Error(), "9 launches for 8 tasks") || !strings.HasSuffix(err.Error(), ": the master killed m") {
		t.Error(err)
	}
}
