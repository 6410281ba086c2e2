package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/job"
)

// The makespan begins with the first submission, not with the run.
func TestMakespanBegins(t *testing.T) {
	late := plain(1, 10*time.Second, 0, 0)
	late.Submit = 100 * time.Second
	r := run(t, Config{Cluster: uniformCluster(1, 1, 0), Jobs: []workload.Job{late}})
	near(t, "makespan", r.Makespan, 10*time.Second, 20*time.Millisecond)
}

// A reduce fetches its part of what the maps leave: by its input if that is
// known, else an equal one; if nothing is known of the maps, its input.
func TestReduceFetches(t *testing.T) {
	left := []workload.Task{{Output: 300}, {Output: 100}}
	for _, c := range []struct {
		name    string
		maps    []workload.Task
		reduces []workload.Task
		want    []float64
	}{
		{"by input", left, []workload.Task{{Input: 30}, {Input: 10}}, []float64{300, 100}},
		{"equally", left, make([]workload.Task, 2), []float64{200, 200}},
		{"its input", make([]workload.Task, 2), []workload.Task{{Input: 30}, {Input: 10}}, []float64{30, 10}},
	} {
		j := newRunning(0, 1, &workload.Job{Maps: c.maps, Reduces: c.reduces, Request: job.Request{SlowStart: -1}})
		if got := []float64{j.wants(0), j.wants(1)}; !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// An attempt that is to fail does so part of the way through its stages, and a
// reduce of given duration does not wait for the maps with that.
func TestFailsOnTheWay(t *testing.T) {
	a := &attempt{work: &work{}}
	a.add(stage{use: useGate, span: 10 * time.Second})
	a.cut(0.4)
	if st := a.stages[0]; !a.fails || a.count != 1 || st.use != useTime || st.span != 4*time.Second {
		t.Errorf("of given duration: %d stages, %+v", a.count, st)
	}
	a = &attempt{work: &work{}}
	a.add(stage{use: useTime, span: time.Second})
	a.add(stage{use: useCPU, amount: 8})
	a.add(stage{use: useDisk, amount: 1e6})
	a.add(stage{use: useDisk, amount: 1e6})
	a.cut(0.375)
	if a.count != 2 || a.stages[0].span != time.Second || a.stages[1].amount != 4 {
		t.Errorf("of stages: %d of them, %+v", a.count, a.stages[:2])
	}
}

// Users that are done at the same moment leave in order of their numbers,
// whatever the order in which they came.
func TestTiesLeaveInOrder(t *testing.T) {
	q := station{rate: 1}
	for _, at := range []int32{3, 1, 2} {
		q.enter(at, 5, 0)
	}
	q.enter(0, 9, 0)
	q.advance(5 * time.Second)
	if got := q.take(nil); !slices.Equal(got, []int32{1, 2, 3}) {
		t.Errorf("%v", got)
	}
}
