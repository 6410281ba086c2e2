package sim

import (
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
)

// By hand: two workers on a machine of two cores. A map and a reduce of one
// worker run beside each other at full speed while the other worker idles;
// with three tasks each gets two thirds of a core.
func TestTogether(t *testing.T) {
	second := workload.Task{CPU: time.Second}
	for _, c := range []struct {
		maps int
		want time.Duration
	}{
		{1, time.Second}, {2, time.Second}, {3, 1500 * time.Millisecond}, {4, 2 * time.Second},
	} {
		job := workload.Job{}
		for range c.maps {
			job.Maps = append(job.Maps, second)
		}
		r, err := Run(Config{Policy: mustPolicy(t), Jobs: []workload.Job{job}, Details: true,
			Cluster: workload.Cluster{Heartbeat: "fixed:1ms", Groups: []workload.NodeGroup{
				{Count: 2, Cores: 2, Together: true, MapSlots: 2}}},
			Model: ModelConfig{OutOfBand: true, Replicas: -1}})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Jobs[0].Ended; got < c.want || got > c.want+5*time.Millisecond {
			t.Errorf("%d maps: %v, want %v", c.maps, got, c.want)
		}
	}
	if _, err := Run(Config{Policy: mustPolicy(t), Cluster: workload.Cluster{Racks: 2, Groups: []workload.NodeGroup{
		{Count: 2, Together: true, MapSlots: 1, NICBandwidth: 1e6}}}}); err == nil {
		t.Error("one machine with a network in two racks")
	}
}

// A job is planned before the tracker sees it.
func TestPlan(t *testing.T) {
	job := workload.Job{Submit: time.Second, Plan: time.Second, Maps: []workload.Task{{Duration: time.Second}}}
	next := job
	next.Submit, next.After = 0, []int{0}
	r, err := Run(Config{Policy: mustPolicy(t), Jobs: []workload.Job{job, next}, Details: true,
		Cluster: workload.Cluster{Heartbeat: "fixed:1ms", Groups: []workload.NodeGroup{{Count: 1, MapSlots: 1}}},
		Model:   ModelConfig{OutOfBand: true, Replicas: -1}})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := r.Jobs[0].Submitted, r.Jobs[1].Submitted; a != 2*time.Second || b < 4*time.Second || b > 4*time.Second+10*time.Millisecond {
		t.Errorf("submitted at %v and %v, want 2 s and 4 s", a, b)
	}
}

func mustPolicy(t *testing.T) sched.Policy {
	t.Helper()
	p, err := policies.Build("fifo", sched.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Workers with other slots can share a machine: three maps of two groups share two processors.
func TestBeside(t *testing.T) {
	j := workload.Job{Maps: []workload.Task{{CPU: time.Second}, {CPU: time.Second}, {CPU: time.Second}}}
	c := workload.Cluster{Heartbeat: "fixed:1ms", Racks: 2, Groups: []workload.NodeGroup{
		{Name: "a", Count: 1, Cores: 2, Together: true, MapSlots: 2, Rack: 1}, {Name: "b", Count: 1, Beside: true, MapSlots: 1, ReduceSlots: 3, Rack: 2}}}
	r, err := Run(Config{Policy: mustPolicy(t), Jobs: []workload.Job{j}, Details: true, Cluster: c, Model: ModelConfig{OutOfBand: true, Replicas: -1}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := r.Jobs[0].Ended, 1500*time.Millisecond; got < want || got > want+5*time.Millisecond {
		t.Errorf("three maps: %v, want %v", got, want)
	}
	s, err := prepare(Config{Policy: mustPolicy(t), Cluster: c})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"/rack1", "/rack2"} {
		if nd := &s.nodes[i]; nd.machine != 0 || nd.mates != 2 || nd.spec.Rack != want || s.nodes[0].plant.room != 6 || nd.spec.Cores != 1 {
			t.Errorf("node %d: machine %d with %d nodes, rack %s, room %g, %d cores", i, nd.machine, nd.mates, nd.spec.Rack, s.nodes[0].plant.room, nd.spec.Cores)
		}
	}
}
