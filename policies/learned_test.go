package policies

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// TestOwnUtilityAndEvaluator runs jobs under a utility and an evaluator of a program. Both are
// called, and their results decide: jobs of the user "later" start only after a minute, and a
// node that always counts as overloaded labels all launches as bad.
func TestOwnUtilityAndEvaluator(t *testing.T) {
	asked := 0
	own := sched.Table{
		Utilities: []sched.Utility{{Name: "patient", Value: func(j *job.Job, _ job.Kind, now time.Duration) float64 {
			if j.User() == "later" && now < time.Minute {
				return 0
			}
			return 1
		}}},
		Evaluators: []sched.Evaluator{{Name: "always", Overloaded: func(s sched.NodeState) bool { asked++; return s.Load >= 0 }}},
	}
	g, err := Builtin().With(own)
	if err != nil {
		t.Fatal(err)
	}
	p, err := g.Build("learning-nb", sched.Options{Seed: 1, Set: map[string]string{"utility": "constant*patient", "evaluator": "always"}})
	if err != nil {
		t.Fatal(err)
	}
	jobs := []workload.Job{{Name: "a", Maps: []workload.Task{{Duration: 5 * time.Second}}}, {Name: "b", Maps: []workload.Task{{Duration: 5 * time.Second}}}}
	jobs[0].User = "later"
	r, err := sim.Run(sim.Config{Cluster: workload.Cluster{Heartbeat: "fixed:3s", Groups: []workload.NodeGroup{{Name: "n", Count: 1, Cores: 2, MapSlots: 2, ReduceSlots: 1}}}, Jobs: jobs, Policy: p, Details: true})
	if err != nil {
		t.Fatal(err)
	}
	if r.Jobs[0].Started < time.Minute || r.Jobs[1].Started > 10*time.Second || asked == 0 {
		t.Errorf("jobs started at %v and %v, the evaluator was asked %d times", r.Jobs[0].Started, r.Jobs[1].Started, asked)
	}
	for want, set := range map[string]map[string]string{
		`there is no utility "luck"`:     {"utility": "fifo*luck"},
		`there is no evaluator "strict"`: {"evaluator": "strict"},
	} {
		if _, err := g.Build("learning-nb", sched.Options{Set: set}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", set, err)
		}
	}
	for _, bad := range []sched.Table{
		{Utilities: []sched.Utility{{Name: "a*b", Value: own.Utilities[0].Value}}}, {Utilities: []sched.Utility{{Name: "a"}}},
		{Evaluators: []sched.Evaluator{{Name: "a"}}}, {Evaluators: append(own.Evaluators, own.Evaluators...)},
	} {
		if _, err := Builtin().With(bad); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
	builtIn := own
	builtIn.Utilities = []sched.Utility{{Name: "fifo", Value: own.Utilities[0].Value}}
	if g, err = Builtin().With(builtIn); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Build("learning-nb", sched.Options{Set: map[string]string{"utility": "fifo"}}); err == nil || !strings.Contains(err.Error(), "built in") {
		t.Errorf("a utility with a built-in name: %v", err)
	}
}

// mapsByNode counts the maps that start on each node.
type mapsByNode map[string]int

func (m mapsByNode) Observe(e *sim.Event) {
	if e.Kind == sim.AttemptStarted && e.Attempt.Kind == job.Map {
		m[e.NodeName]++
	}
}

// TestHTuMMBestSplit runs jobs on two machines of which one reads four times as fast and the other
// computes twice as fast. split=best gives more of the maps, which read, to the first.
func TestHTuMMBestSplit(t *testing.T) {
	maps := func(split string) int {
		p, err := Build("htumm,speculate=none,place=greedy", sched.Options{Seed: 1, Set: map[string]string{"split": split}})
		if err != nil {
			t.Fatal(err)
		}
		j := workload.Job{Name: "j", Maps: slices.Repeat([]workload.Task{{Input: 1 << 30}}, 32), Reduces: slices.Repeat([]workload.Task{{CPU: 20 * time.Second}}, 32)}
		node := func(name string, disk, speed float64) workload.NodeGroup {
			return workload.NodeGroup{Name: name, Count: 1, Cores: 8, Speed: speed, DiskBandwidth: disk, MapSlots: 3, ReduceSlots: 3}
		}
		started := mapsByNode{}
		if _, err := sim.Run(sim.Config{Cluster: workload.Cluster{Heartbeat: "fixed:1s", Groups: []workload.NodeGroup{node("reads", 400e6, 0.5), node("computes", 100e6, 1)}},
			Jobs: []workload.Job{j, j, j, j}, Policy: p, Model: sim.ModelConfig{Replicas: -1}, Observer: started}); err != nil {
			t.Fatal(err)
		}
		return started["reads1"] + started["reads"]
	}
	if best, printed := maps("best"), maps("proportions"); best <= printed {
		t.Errorf("of 128 maps %d start on the machine that reads fast with split=best, %d with Algorithm 4", best, printed)
	}
}
