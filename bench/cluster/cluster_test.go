package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// TestMain has the test's own executable be workers when it is started as such.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-as-workers-of" {
		main()
		os.Exit(0)
	}
	code := m.Run()
	os.RemoveAll(shared)
	os.Exit(code)
}

// shared is the directory of the binary that the tests measure; "" before.
var shared string

// binary builds slotwise, once for all tests.
var binary = sync.OnceValues(func() (_ string, err error) {
	if shared, err = os.MkdirTemp("", "bench-cluster"); err != nil {
		return "", err
	}
	name := filepath.Join(shared, "slotwise")
	if out, err := exec.Command("go", "build", "-o", name, "../../cmd/slotwise").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return name, nil
})

// bench runs the command with a real master and returns what it prints.
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

// 100 workers and 20 jobs: run itself fails if a job or a task is not as it must be.
func TestLoad(t *testing.T) {
	out := bench(t, "-n", "100", "-jobs", "20", "-maps", "20", "-reduces", "3", "-task", "20ms")
	for _, want := range []string{"| 100, 20, 460 of 20ms |", "| jobs lost, tasks not finished exactly once | 0, 0 |", "| heartbeat: p50, p99, max |"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}

// Real jobs on small inputs: run itself fails if the outputs differ.
func TestRealJobs(t *testing.T) {
	out := bench(t, "-wordcount", "-rounds", "1", "-quick", "1", "-size", "4194304")
	for _, want := range []string{"| word count | 4 MiB |", "| sort of records | 4 MiB |", "| word count | 1 MiB |"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}

// What is not as it must be is an error.
func TestWrong(t *testing.T) {
	r := &loadResult{plan: loadPlan{Jobs: 1, Maps: 2, Reduces: 1}}
	good := func() *slotwisev1.JobStatus {
		return &slotwisev1.JobStatus{
			State: slotwisev1.JobState_JOB_STATE_SUCCEEDED, Maps: &slotwisev1.TaskCounts{Done: 2}, Reduces: &slotwisev1.TaskCounts{Done: 1},
			MapCounters: &slotwisev1.Counters{InputRecords: 2}, ReduceCounters: &slotwisev1.Counters{InputRecords: 1},
		}
	}
	if err := r.wrong(good()); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*slotwisev1.JobStatus){
		"failed":              func(st *slotwisev1.JobStatus) { st.State = slotwisev1.JobState_JOB_STATE_FAILED },
		"a map missing":       func(st *slotwisev1.JobStatus) { st.Maps.Done = 1 },
		"a map counted twice": func(st *slotwisev1.JobStatus) { st.MapCounters.InputRecords = 3 },
		"a reduce missing":    func(st *slotwisev1.JobStatus) { st.ReduceCounters = nil },
	} {
		st := good()
		if spoil(st); r.wrong(st) == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, s := range []seen{{Launches: 2}, {Launches: 4}, {Launches: 3, Twice: 1}} {
		if r.seen = s; r.check() == nil {
			t.Errorf("%+v: no error", s)
		}
	}
	if r.seen = (seen{Launches: 3}); r.check() != nil {
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
