package workload

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/sched/job"
)

// Packed tasks equal the tasks of the job.
func TestPack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 1<<20), rapid.Int64(), rapid.Just(int64(math.MinInt64)))
		span := rapid.OneOf(rapid.Map(number, func(n int64) time.Duration { return time.Duration(n) }),
			rapid.Map(rapid.Int64Range(-1000, 1e9), func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }))
		task := rapid.Custom(func(t *rapid.T) Task {
			return Task{Duration: span.Draw(t, "duration"), Fetch: span.Draw(t, "fetch"), CPU: span.Draw(t, "cpu"),
				Input: number.Draw(t, "input"), Output: number.Draw(t, "output")}
		})
		j := Job{Name: "j", Maps: rapid.SliceOf(task).Draw(t, "maps"), Reduces: rapid.SliceOf(task).Draw(t, "reduces"), Request: job.Request{SlowStart: -1}}
		want := j.Tasks()
		j.pack()
		got := j.Tasks()
		if j.Maps != nil || j.Outline == nil || j.Count(0) != len(want[0]) || j.Count(1) != len(want[1]) {
			t.Fatalf("packed: %+v", j)
		}
		for k := range want {
			if !slices.EqualFunc(got[k], want[k], func(a, b Task) bool { return cmp.Equal(a, b) }) {
				t.Fatalf("kind %d: %v, want %v", k, got[k], want[k])
			}
		}
	})
}

// Hosts are not packed, and the tasks of recorded times take a few bytes.
func TestPackedSize(t *testing.T) {
	j := Job{Maps: []Task{{Duration: time.Second, Hosts: []string{"h"}}}}
	if j.pack(); j.Outline != nil || len(j.Maps) != 1 {
		t.Errorf("%+v", j)
	}
	for _, c := range []struct {
		task Task
		most int
	}{{Task{Duration: 45_123 * time.Millisecond, Fetch: -1}, 15}, {Task{Duration: 45_123 * time.Millisecond}, 4},
		{Task{Duration: 45_123 * time.Millisecond, Input: 64 << 20, Output: 10 << 20}, 13}} {
		if got := len(c.task.pack(nil)); got > c.most {
			t.Errorf("%+v takes %d bytes, want at most %d", c.task, got, c.most)
		}
	}
}
