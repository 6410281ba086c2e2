package nodeload

import (
	"testing"
	"time"
)

// The processor time of an ended process stays in the sum, even if another process
// reuses its pid. Memory is the present value, and the peak is kept.
func TestGroupsAddUp(t *testing.T) {
	var procs []proc
	g := NewGroups()
	g.list = func() ([]proc, error) { return procs, nil }
	if err := g.Sample(0); err != nil || g.Usage(7) != (Usage{}) {
		t.Errorf("nothing watched: %v, %+v", err, g.Usage(7))
	}
	g.Watch(7)
	for i, step := range []struct {
		procs []proc
		want  Usage
	}{
		{[]proc{{pid: 1, group: 7, born: 1, cpu: 2 * time.Second, memory: 10, disk: 5}, {pid: 9, group: 8, cpu: time.Hour}},
			Usage{CPU: 2 * time.Second, Memory: 10, PeakMemory: 10, DiskBytes: 5, Processes: 1}},
		{[]proc{{pid: 1, group: 7, born: 1, cpu: 3 * time.Second, memory: 20, disk: 25}, {pid: 2, group: 7, born: 2, cpu: time.Second, memory: 5}},
			Usage{CPU: 4 * time.Second, Cores: 1, Memory: 25, PeakMemory: 25, DiskBytes: 25, DiskRate: 10, Processes: 2}},
		{[]proc{{pid: 1, group: 7, born: 3, cpu: time.Second, memory: 1}},
			Usage{CPU: 5 * time.Second, Cores: 0.5, Memory: 1, PeakMemory: 25, DiskBytes: 25, Processes: 1}},
		{nil, Usage{CPU: 5 * time.Second, PeakMemory: 25, DiskBytes: 25}},
	} {
		procs = step.procs
		if err := g.Sample(time.Duration(i+1) * 2 * time.Second); err != nil {
			t.Fatal(err)
		}
		if got := g.Usage(7); got != step.want {
			t.Errorf("step %d: %+v, want %+v", i, got, step.want)
		}
	}
	g.Forget(7)
	if g.Usage(7) != (Usage{}) {
		t.Error("still measured")
	}
}
