package engine

import (
	"testing"

	"github.com/slotwise/slotwise/internal/base/counters"
	"github.com/slotwise/slotwise/internal/data/engine/mem"
	"github.com/slotwise/slotwise/sched/job"
)

// TestInputFile: a task names the file that is read, and none before the first one.
func TestInputFile(t *testing.T) {
	var task Task
	if got := task.InputFile(); got != "" {
		t.Errorf("before a file is read: %q", got)
	}
	t.Chdir("/")
	for _, x := range [][2]string{{"a", "/a"}, {"d/b", "/d/b"}, {"/x/../c", "/c"}, {"file:///d/e", "/d/e"}, {"hdfs://nn/d/e", "hdfs://nn/d/e"}, {"s3://b/e", "s3://b/e"}} {
		task.setInputFile(x[0])
		if got := task.InputFile(); got != x[1] {
			t.Errorf("while %s is read: %q, want %q", x[0], got, x[1])
		}
	}
}

// TestSortSinkCounts: a map that sorts counts its records and their bytes.
func TestSortSinkCounts(t *testing.T) {
	env := &Env{Mem: mem.NewPool(64 << 20), MapBuffer: 16 << 20}
	s, err := newSortSink(env, &MapTask{
		Program: &Program{},
		Task:    &Task{Ctx: t.Context(), Attempt: job.AttemptID{TaskID: job.TaskID{Job: 1}}, Maps: 1, Reduces: 2, Counters: &UserCounters{}, Meter: &Meter{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.discard()
	s.Emit([]byte("key"), []byte("value"))
	s.Emit(nil, []byte("v"))
	if records, bytes := s.count.Get(counters.OutputRecords), s.count.Get(counters.OutputBytes); records != 2 || bytes != 9 {
		t.Errorf("%d records of %d bytes, want 2 of 9", records, bytes)
	}
}
