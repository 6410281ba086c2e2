package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slotwise/slotwise/internal/live/history"
	"github.com/slotwise/slotwise/internal/live/master/protocol"
	"github.com/slotwise/slotwise/internal/virtual/study"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// past returns a job of the history with two maps, of which one failed at first, and a
// reduce that started before they ended.
func past(id int, submitted int64, state slotwisev1.JobState, chain string) *slotwisev1.HistoryJob {
	task := func(name string, attempts ...*slotwisev1.AttemptStatus) *slotwisev1.TaskStatus {
		return &slotwisev1.TaskStatus{Id: fmt.Sprintf("j%d_%s", id, name), State: "succeeded", Hosts: []string{"h1"}, Attempts: attempts}
	}
	attempt := func(from, to int64, state string) *slotwisev1.AttemptStatus {
		return &slotwisev1.AttemptStatus{State: state, StartedMs: submitted + from, EndedMs: submitted + to}
	}
	return &slotwisev1.HistoryJob{
		Job: &slotwisev1.JobStatus{Id: fmt.Sprint("j", id), Name: "count", User: "ann", Pool: "etl", Priority: "HIGH", State: state,
			SubmittedMs: submitted, EndedMs: submitted + 9000, InputBytes: 11, Chain: chain},
		Tasks: []*slotwisev1.TaskStatus{
			task("m_0", attempt(100, 2100, "succeeded")),
			task("m_1", attempt(100, 1100, "failed"), attempt(2000, 5000, "succeeded")),
			task("r_0", attempt(2500, 9000, "succeeded")),
		},
	}
}

func TestReadPast(t *testing.T) {
	dir := t.TempDir()
	store, err := history.Open(dir, history.Limits{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.Put(&slotwisev1.HistoryJob{Job: &slotwisev1.JobStatus{Id: "chain-1"}}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "journal-1"), []byte("another file of the master"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, j := range []*slotwisev1.HistoryJob{
		past(1, 50_000, slotwisev1.JobState_JOB_STATE_SUCCEEDED, "chain-1"),
		past(2, 60_000, slotwisev1.JobState_JOB_STATE_SUCCEEDED, "chain-1"),
		past(3, 61_000, slotwisev1.JobState_JOB_STATE_FAILED, ""),
	} {
		if err := store.Put(j); err != nil {
			t.Fatal(err)
		}
	}
	asks := past(4, 62_000, slotwisev1.JobState_JOB_STATE_SUCCEEDED, "")
	asks.Request = protocol.PastRequest(&job.Request{User: "bob", Pool: "first", SlowStart: 0.5, MaxAttempts: 2, TaskTimeout: time.Minute,
		NoSpeculation: true, TaskMemory: 1 << 30, TaskCPUs: 2, Hints: [job.Kinds]job.Ratings{{CPU: 1}, {Disk: 9}}})
	if err := store.Put(asks); err != nil {
		t.Fatal(err)
	}
	w, err := study.ReadWorkload(t.Context(), "history:"+dir, &workload.Cluster{}, study.WorkloadOptions{Inputs: studyInputs()})
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := w.Source.Jobs(1)
	if err != nil {
		t.Fatal(err)
	}
	const s = time.Second
	want := workload.Job{Name: "count", App: "count", Request: job.Request{User: "ann", Pool: "etl", Priority: 1},
		Origin: workload.Own,
		Maps:   []workload.Task{{Duration: 2 * s, Input: 6}, {Duration: 3 * s, Input: 5}},
		// It counts from the end of the last map.
		Reduces: []workload.Task{{Duration: 4 * s, Fetch: -1}}}
	second := want
	second.Submit, second.After = 10*s, []int{0}
	third := want
	third.Submit = 12 * s
	// The owner, pool and priority are those at the end.
	third.Request = job.Request{User: "ann", Pool: "etl", Priority: 1, SlowStart: 0.5, MaxAttempts: 2, TaskTimeout: time.Minute,
		NoSpeculation: true, TaskMemory: 1 << 30, TaskCPUs: 2, Hints: [job.Kinds]job.Ratings{{CPU: 1}, {Disk: 9}}}
	for i := range jobs {
		tasks := jobs[i].Tasks() // they are packed
		jobs[i].Maps, jobs[i].Reduces, jobs[i].Outline = tasks[job.Map], tasks[job.Reduce], nil
	}
	if diff := cmp.Diff([]workload.Job{want, second, third}, jobs); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{dir + ": 1 jobs that did not succeed are left out"}, w.Warnings); diff != "" {
		t.Errorf("warnings (-want +got)\n%s", diff)
	}
}
