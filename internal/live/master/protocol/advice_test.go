package protocol

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// adviceWorld is a cluster with four map slots and three jobs. The first one runs in all
// slots, and the two others wait.
func adviceWorld(t *testing.T, spec string, set map[string]string, pools [3]string) *Core {
	p, err := policies.Build(spec, sched.Options{Set: set})
	if err != nil {
		t.Fatal(err)
	}
	c := &Core{tracker: tracker.New(tracker.Config{}, p)}
	step := func(ev tracker.Event) { c.tracker.Step(time.Second, ev) }
	step(&tracker.Join{Node: cluster.Spec{Name: "n1", MapSlots: 4, ReduceSlots: 1}})
	for i, pool := range pools {
		step(&tracker.Submit{Spec: job.Spec{Name: fmt.Sprint(i), Request: job.Request{User: fmt.Sprint("u", i), Pool: pool}, Splits: make([]job.Split, 20)}})
		if i == 0 {
			for range 4 {
				step(&tracker.Heartbeat{Node: "n1"})
			}
		}
	}
	return c
}

// before returns how many jobs come before a job.
func before(c *Core, id job.ID) int {
	why, _ := c.tracker.Explain(c.tracker.Jobs().Get(id), job.Map)
	if why.Code != sched.Behind {
		return 0
	}
	return why.Have
}

// Who follows the advice to raise a job's priority or to move the job brings it forward,
// under every policy and with jobs in one pool and in several. Who is not advised to do so
// may still try, but is not sent on a way that leads nowhere.
func TestAdviceBringsJobsForward(t *testing.T) {
	given := map[string]bool{}
	specs := append(policies.Names(), "order=johnson", "order=reverse", "order=utility,slots=static,place=greedy")
	for _, spec := range specs {
		for _, pools := range [][3]string{{"a", "a", "a"}, {"a", "b", "b"}, {"b", "a", "a"}, {"a", "b", "c"}} {
			for _, set := range []map[string]string{nil, {"queues": "a,capacity=30,supports-priority=true;b,capacity=30;idle,capacity=30"},
				{"pools": "pool a mode=fifo"}} {
				if set != nil && !hasParam(t, spec, set) {
					continue
				}
				for _, id := range []job.ID{2, 3} {
					c := adviceWorld(t, spec, set, pools)
					j := c.tracker.Jobs().Get(id)
					why, words := c.tracker.Explain(j, job.Map)
					advice := c.advice(j, job.Map, why)
					was := before(c, id)
					where := fmt.Sprintf("%s %v, pools %v, j%d: %s", spec, set, pools, id, words)
					if strings.Contains(advice, "slotwise priority") {
						given[spec+" priority"] = true
						c.tracker.Step(time.Second, &tracker.SetPriority{Job: id, Priority: job.VeryHigh})
						if now := before(c, id); now >= was {
							t.Errorf("%s\nraising the priority left %d jobs before it, as %d before", where, now, was)
						}
					}
					if strings.Contains(advice, "slotwise move") && why.Code == sched.Behind {
						given[spec+" move"] = true
						c = adviceWorld(t, spec, set, pools)
						c.tracker.Step(time.Second, &tracker.MoveJob{Job: id, Pool: "idle"})
						if now := before(c, id); now >= was {
							t.Errorf("%s\nmoving it left %d jobs before it, as %d before", where, now, was)
						}
					}
				}
			}
		}
	}
	for _, want := range []string{"fifo priority", "tumm priority", "order=johnson priority", "fair move", "capacity priority", "capacity move",
		"modfair priority"} {
		if !given[want] {
			t.Errorf("%s: never advised, so nothing was tried", want)
		}
	}
	for _, never := range []string{"fifo move", "statictags move"} {
		if given[never] {
			t.Errorf("%s: advised", never)
		}
	}
}

// hasParam reports whether a policy has the parameters of a set.
func hasParam(t *testing.T, spec string, set map[string]string) bool {
	_, err := policies.Build(spec, sched.Options{Set: set})
	return err == nil
}

// The advice for a cluster in which no node takes work names what closes the nodes.
func TestAdviceForClosedNodes(t *testing.T) {
	for _, c := range []struct {
		name string
		does func(step func(tracker.Event))
		want string
	}{
		{"disk full", func(step func(tracker.Event)) {
			step(&tracker.Heartbeat{Node: "n1", Condition: cluster.DiskFull, Why: "1 MiB is free"})
		}, "free space"},
		{"disk gone", func(step func(tracker.Event)) {
			step(&tracker.Heartbeat{Node: "n1", Condition: cluster.DiskGone})
		}, "repair"},
		{"drained", func(step func(tracker.Event)) { step(&tracker.Drain{Node: "n1"}) }, "drain --undo"},
		{"being stopped", func(step func(tracker.Event)) {
			step(&tracker.Heartbeat{Node: "n1", Condition: cluster.Leaving})
		}, "start another worker"},
	} {
		core := adviceWorld(t, "fifo", nil, [3]string{"a", "a", "a"})
		c.does(func(ev tracker.Event) { core.tracker.Step(2*time.Second, ev) })
		j := core.tracker.Jobs().Get(2)
		why, words := core.tracker.Explain(j, job.Map)
		if got := core.advice(j, job.Map, why); why.Code != sched.AllClosed || !strings.HasPrefix(got, c.want) && !strings.Contains(got, c.want) {
			t.Errorf("%s: %s (%v): advice %q, want %q", c.name, words, why.Code.Name(), got, c.want)
		}
	}
}

// The advice for reduces that wait for maps names the flag that sets how many maps they wait for.
func TestAdviceForSlowStart(t *testing.T) {
	c := adviceWorld(t, "fifo", nil, [3]string{"a", "a", "a"})
	j := c.tracker.Jobs().Get(1)
	if got := c.advice(j, job.Reduce, sched.Reason{Code: sched.SlowStart, Need: 20}); !strings.Contains(got, "--slow-start") {
		t.Errorf("the advice is %q", got)
	}
}
