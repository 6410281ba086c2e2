package sim

import (
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/tracker/autoscale"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched/job"
)

// copying returns the specs of all named policies that make speculative copies, and of
// fifo with each speculator.
func copying(t *testing.T) (specs []string) {
	for _, name := range append(policies.Names(), "fifo,speculate=late", "fifo,speculate=sepb") {
		info, err := policies.Describe(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range info.Parts {
			if p.Part == "speculate" && p.Name != "none" {
				specs = append(specs, name)
			}
		}
	}
	return specs
}

// A job of a few seconds, one of whose processes stops, ends within 30 s under every
// speculator: at once after its siblings, or without siblings, in the first wave of maps
// and in the last, early in the task and when it is almost done. Without a speculator
// it waits until the attempt times out.
func TestStoppedProcess(t *testing.T) {
	wordcount := func(maps, reduces int) workload.Job {
		return plain(maps, 2*time.Second, reduces, 3*time.Second)
	}
	hang := func(k job.Kind, task int32, after time.Duration) []Hang {
		return []Hang{{Kind: k, Task: task, After: after}}
	}
	cases := map[string]struct {
		job   workload.Job
		hangs []Hang
	}{
		"first map":             {wordcount(12, 2), hang(job.Map, 0, time.Second)},
		"last map":              {wordcount(12, 2), hang(job.Map, 11, time.Second)},
		"map, almost done":      {wordcount(12, 2), hang(job.Map, 11, 1900*time.Millisecond)},
		"only map":              {wordcount(1, 1), hang(job.Map, 0, time.Second)},
		"one of two reduces":    {wordcount(12, 2), hang(job.Reduce, 1, 2500*time.Millisecond)},
		"only reduce":           {wordcount(12, 1), hang(job.Reduce, 0, 2500*time.Millisecond)},
		"reduce, when fetching": {wordcount(12, 1), hang(job.Reduce, 0, time.Second)},
		"two maps at once":      {wordcount(12, 2), append(hang(job.Map, 0, time.Second), hang(job.Map, 1, time.Second)...)},
	}
	play := func(spec string, j workload.Job, hangs []Hang) (*Result, error) {
		return Run(Config{Cluster: uniformCluster(3, 2, 2), Jobs: []workload.Job{j}, Policy: policy(t, spec), Details: true,
			Model: ModelConfig{Heartbeat: "fixed:1s", Hangs: hangs, NodeTimeout: time.Minute}})
	}
	for _, spec := range copying(t) {
		for name, c := range cases {
			r, err := play(spec, c.job, c.hangs)
			switch {
			case err != nil:
				t.Errorf("%s, %s: %v", spec, name, err)
			case r.Jobs[0].Ended > 30*time.Second:
				t.Errorf("%s, %s: ended after %v", spec, name, r.Jobs[0].Ended)
			case r.Attempts[job.Map][job.AttemptKilled]+r.Attempts[job.Reduce][job.AttemptKilled] == 0:
				t.Errorf("%s, %s: nothing was copied, so nothing hung", spec, name)
			}
		}
	}
	for name, c := range cases {
		if r, err := play("fifo,speculate=none", c.job, c.hangs); err != nil || r.Jobs[0].Ended < job.DefaultTaskTimeout {
			t.Errorf("%s: without copies the job must wait until the attempt times out: %+v, %v", name, r, err)
		}
	}
}

// A whole worker that stops costs the time to notice its silence, not the time after which
// it is given up.
func TestSilentNodeIsCopied(t *testing.T) {
	for _, spec := range copying(t) {
		r := run(t, Config{Cluster: uniformCluster(3, 2, 2), Jobs: []workload.Job{plain(6, 4*time.Second, 0, 0)}, Policy: policy(t, spec),
			Model: ModelConfig{Heartbeat: "fixed:1s", Replicas: -1, Crashes: []Crash{{Node: 1, At: 2 * time.Second}}, NodeTimeout: 10 * time.Minute}})
		if r.Jobs[0].Ended > 30*time.Second {
			t.Errorf("%s: ended after %v", spec, r.Jobs[0].Ended)
		}
	}
}

// An attempt that hangs while its node is stopped still hangs when the node continues.
func TestHangOnStoppedNode(t *testing.T) {
	j := workload.Job{Maps: []workload.Task{{CPU: 3 * time.Second}}}
	r := run(t, Config{Cluster: uniformCluster(1, 1, 1), Jobs: []workload.Job{j}, Until: time.Minute, Model: ModelConfig{
		Stops: []Stop{{Node: 0, At: time.Second, Until: 3 * time.Second}},
		Hangs: []Hang{{Job: 0, Kind: job.Map, After: 2 * time.Second}}}})
	if r.Unfinished != 1 {
		t.Errorf("%d jobs have not ended, want the one that hangs", r.Unfinished)
	}
}

// Under Config.Autoscale the tracker numbers nodes in the order in which they join, which may differ
// from the cluster's: here node 3 joins before node 2. The attempt that stops is on node 3.
func TestHangOfLateNode(t *testing.T) {
	s, err := prepare(Config{Cluster: uniformCluster(3, 1, 1), Policy: policy(t, "fifo,speculate=none"), Details: true,
		Autoscale: &autoscale.Config{Min: 1, Max: 3, CoolDown: time.Hour, StartUp: time.Minute, Hold: time.Minute},
		Jobs:      []workload.Job{plain(2, 20*time.Second, 0, 0)},
		Model:     ModelConfig{Heartbeat: "fixed:1s", Hangs: []Hang{{Task: 1, After: time.Second}}}})
	if err != nil {
		t.Fatal(err)
	}
	s.start()
	s.fleet.machines[2], s.fleet.replicas = machine{requested: true}, 2
	s.fleet.boot(s, 2)
	if at := s.tr.Nodes().Get(s.nodes[2].name).Index(); at != 1 {
		t.Fatalf("node 3 has the tracker's index %d", at)
	}
	if err := s.loop(); err != nil {
		t.Fatal(err)
	}
	s.finish()
	if r := s.result; r.Jobs[0].Ended < 5*time.Minute {
		t.Errorf("the job ended after %v: its second map did not stop", r.Jobs[0].Ended)
	}
}
