package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/job"
)

// slotTime adds up the time between the launch of each map and the tracker's knowledge of
// its end: the time for which it occupies a slot.
type slotTime struct{ sum time.Duration }

func (s *slotTime) Observe(e *Event) {
	if e.Kind == AttemptEnded {
		s.sum += e.At - e.Started
	}
}

// TestEndsAtOnce: in a world of slotwise the slot time of maps is their work, on any number
// of nodes, and more nodes are never worse, as package proto/slotwise/v1 says of heartbeats. In
// Hadoop's rules an end still waits for the next heartbeat.
func TestEndsAtOnce(t *testing.T) {
	const maps, work = 4000, 3 * time.Second
	j := workload.Job{Request: job.Request{SlowStart: 1}}
	for range maps {
		j.Maps = append(j.Maps, workload.Task{Duration: work})
	}
	var last time.Duration
	for _, nodes := range []int{100, 600, 3000, 10000} {
		x := &slotTime{}
		r := run(t, Config{Cluster: uniformCluster(nodes, 1, 1), Jobs: []workload.Job{j}, Observer: x, Model: ModelConfig{EndsByRule: true, Heartbeat: "slotwise"}})
		if x.sum != maps*work {
			t.Errorf("%d nodes: maps occupy slots for %v, want %v", nodes, x.sum, maps*work)
		}
		// A heartbeat's interval grows with the nodes, so the first launches may be later.
		interval := max(500*time.Millisecond, time.Duration(nodes)*3*time.Millisecond)
		if last != 0 && r.Jobs[0].Ended > last+interval {
			t.Errorf("%d nodes: the job ended at %v, with fewer at %v", nodes, r.Jobs[0].Ended, last)
		}
		last = r.Jobs[0].Ended
	}
	for _, rule := range []string{"hadoop-0.20.2", "hadoop-1.0", "hadoop-1.2"} {
		x := &slotTime{}
		run(t, Config{Cluster: uniformCluster(600, 1, 1), Jobs: []workload.Job{j}, Observer: x, Model: ModelConfig{EndsByRule: true, Heartbeat: rule}})
		if x.sum <= maps*work {
			t.Errorf("%s: maps occupy slots for %v: their ends do not wait for heartbeats", rule, x.sum)
		}
	}
}

// Nodes of slotwise with free slots get tasks when these become able to start; with the other worlds'
// heartbeats the tasks wait. A stopped node gets none, although the tracker does not know yet that it
// has stopped.
func TestOffers(t *testing.T) {
	started := func(m ModelConfig) []time.Duration {
		jobs := []workload.Job{{Name: "j", Submit: 1010 * time.Millisecond, Maps: []workload.Task{{Duration: time.Second}}, Reduces: []workload.Task{{Duration: time.Second}},
			Request: job.Request{SlowStart: 1}}, {Name: "k", Submit: 1020 * time.Millisecond, Maps: []workload.Task{{Duration: time.Second}}}}
		m.Heartbeat, m.Stops, m.Replicas = "fixed:500ms", []Stop{{Node: 0, At: time.Second, Until: time.Minute}}, -1
		x := &launches{}
		run(t, Config{Cluster: uniformCluster(3, 1, 1), Jobs: jobs, Observer: x, Model: m})
		return x.at
	}
	want := []time.Duration{1010 * time.Millisecond, 1020 * time.Millisecond, 2010 * time.Millisecond}
	if got := started(ModelConfig{EndsByRule: true}); !slices.Equal(got, want) {
		t.Errorf("launches at %v, want %v", got, want)
	}
	if got := started(ModelConfig{OutOfBand: true}); got[0] == want[0] || got[1] == want[1] {
		t.Errorf("launches at %v: the world has no offers, so tasks wait for heartbeats", got)
	}
}

// launches notes the times at which attempts start.
type launches struct{ at []time.Duration }

func (l *launches) Observe(e *Event) {
	if e.Kind == AttemptStarted {
		l.at = append(l.at, e.At)
	}
}

// A job of a mix behaves as under slotwise run: reduces start at once if all maps fit and the job states
// no slow start, and maps of stated time have no place.
func TestAsRun(t *testing.T) {
	tasks := func(n int) []workload.Task { return slices.Repeat([]workload.Task{{Duration: 10 * time.Second}}, n) }
	for _, c := range []struct {
		name      string
		job       workload.Job
		asRun     bool
		together  bool
		reduce    time.Duration // launch of the reduce
		preferred bool          // maps prefer nodes
	}{
		{"fits", workload.Job{Maps: tasks(4)}, true, false, 0, false},
		{"does not fit", workload.Job{Maps: tasks(5)}, true, false, 10 * time.Second, false},
		{"stated", workload.Job{Maps: tasks(4), Request: job.Request{SlowStart: 0.5}}, true, false, 10 * time.Second, false},
		{"trace", workload.Job{Maps: tasks(4), Origin: workload.Recorded}, true, false, 10 * time.Second, true},
		{"Hadoop", workload.Job{Maps: tasks(4)}, false, false, 10 * time.Second, true},
		{"computes", workload.Job{Maps: slices.Repeat([]workload.Task{{CPU: 10 * time.Second, Input: 1}}, 4)}, true, false, 0, true},
		{"computes on one machine", workload.Job{Maps: slices.Repeat([]workload.Task{{CPU: 10 * time.Second, Input: 1}}, 4)}, true, true, 0, false},
	} {
		c.job.Reduces = tasks(1)
		cluster := uniformCluster(4, 1, 1)
		cluster.Groups[0].Together = c.together
		r := &reduceLaunch{}
		preferred := false
		run(t, Config{Cluster: cluster, Jobs: []workload.Job{c.job}, Observer: r, Model: ModelConfig{EndsByRule: true, AsRun: c.asRun, ShuffleShare: -1},
			Trace: func(_ time.Duration, ev tracker.Event, _ []tracker.Effect) {
				if s, ok := ev.(*tracker.Submit); ok {
					preferred = len(s.Spec.Splits[0].Hosts) > 0
				}
			}})
		if r.at != c.reduce || preferred != c.preferred {
			t.Errorf("%s: the reduce starts at %v, maps prefer nodes: %v; want %v, %v", c.name, r.at, preferred, c.reduce, c.preferred)
		}
		if gate := (&job.Request{SlowStart: 1}).SlowStartMaps(4); r.gate > gate || r.gate == 0 != (c.reduce == 0) {
			t.Errorf("%s: the event of the submission has a gate of %d maps", c.name, r.gate)
		}
	}
}

// reduceLaunch notes the launch of the first reduce and the gate of the job.
type reduceLaunch struct {
	at   time.Duration
	gate int
}

func (l *reduceLaunch) Observe(e *Event) {
	switch {
	case e.Kind == JobSubmitted:
		l.gate = e.Gate
	case e.Kind == AttemptStarted && e.Attempt.Kind == job.Reduce:
		l.at = e.At
	}
}
