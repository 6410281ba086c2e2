package tracker_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/policies/hadoop"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// recorder is a part with every hook. It records each call.
type recorder struct {
	hadoop.None
	log   []string
	limit [job.Kinds]int
}

func (r *recorder) say(format string, args ...any) {
	r.log = append(r.log, fmt.Sprintf(format, args...))
}

func (r *recorder) Start(v *sched.View, now time.Duration) {
	r.say("start %v %d jobs", now, len(v.Jobs().Live()))
}
func (r *recorder) JobAdded(j *job.Job)                         { r.say("add %v", j.ID()) }
func (r *recorder) JobRemoved(j *job.Job)                       { r.say("remove %v %v", j.ID(), j.Outcome()) }
func (r *recorder) JobChanged(j *job.Job, c sched.Change)       { r.say("change %v %d", j.ID(), c) }
func (r *recorder) TaskStarted(a *job.Attempt, _ time.Duration) { r.say("started %v", a.ID()) }
func (r *recorder) TaskEnded(a *job.Attempt, _ time.Duration) {
	r.say("ended %v %v", a.ID(), a.State())
}
func (r *recorder) NodeJoined(n *cluster.Node)                   { r.say("joined %s", n.Name()) }
func (r *recorder) NodeLost(n *cluster.Node)                     { r.say("lost %s", n.Name()) }
func (r *recorder) Heartbeat(n *cluster.Node, now time.Duration) { r.say("beat %s %v", n.Name(), now) }
func (r *recorder) Interval() time.Duration                      { return 10 * time.Second }
func (r *recorder) Update(now time.Duration)                     { r.say("update %v", now) }
func (r *recorder) Limits(*cluster.Node) [job.Kinds]int          { return r.limit }
func (r *recorder) Explain(j *job.Job, k job.Kind, _ time.Duration) string {
	return fmt.Sprintf("says %v %v", j.ID(), k)
}
func (r *recorder) Save() ([]byte, error) { return nil, nil }
func (r *recorder) Load([]byte) error     { return nil }

func TestHooksAreTold(t *testing.T) {
	r := &recorder{limit: [job.Kinds]int{1, 5}}
	tr := tracker.New(tracker.Config{}, sched.Compose(&hadoop.Static{}, hadoop.NewFIFO(), &hadoop.Greedy{}, r))
	expect := func(what string, want ...string) {
		t.Helper()
		if !slices.Equal(r.log, want) {
			t.Errorf("%s: told %q, want %q", what, r.log, want)
		}
		r.log = nil
	}
	step := func(at time.Duration, ev tracker.Event) { tr.Step(at*time.Second, ev) }
	expect("new", "start 0s 0 jobs")
	step(1, joinEvent("n1", 9, 0))
	step(1, &tracker.Submit{Spec: job.Spec{Splits: make([]job.Split, 1), Reduces: 1, Request: job.Request{SlowStart: 1}}})
	expect("join and submit", "joined n1", "add j1")
	step(2, &tracker.Heartbeat{Node: "n1"})
	expect("launch of the last map", "beat n1 2s", "started j1_m_0_0", "change j1 2")
	done := tracker.Report{Attempt: job.AttemptID{TaskID: job.TaskID{Job: 1}}, State: job.AttemptSucceeded}
	step(3, &tracker.Heartbeat{Node: "n1", Reports: []tracker.Report{done}, NoWork: true})
	expect("maps done", "ended j1_m_0_0 succeeded", "change j1 3", "beat n1 3s")
	step(35, &tracker.SetPriority{Job: 1, Priority: job.High})
	expect("time passes", "update 10s", "update 20s", "update 30s", "change j1 1")
	step(35, &tracker.Heartbeat{Node: "n1"})
	if n := tr.Nodes().Get("n1"); n.Used(job.Reduce) != 1 {
		t.Error("the limiter's slots were not used")
	}
	r.log = nil
	step(36, &tracker.Lose{Node: "n1"})
	expect("node lost", "ended j1_r_0_0 lost", "change j1 3", "change j1 2", "change j1 3", "lost n1")
	step(37, &tracker.KillJob{Job: 1})
	expect("kill", "remove j1 killed")
	step(1e6, &tracker.Tick{})
	if len(r.log) != tracker.MaxCatchUp+1 || r.log[tracker.MaxCatchUp] != "update 277h46m40s" {
		t.Errorf("after a long silence: %d updates, the last %s", len(r.log), r.log[len(r.log)-1])
	}
	if len(tr.Learned()) != 1 {
		t.Error("learned state not found")
	}
}

// After a restart a policy hears of a node when it registers again, once, even if the
// node's slots have changed meanwhile.
func TestHooksAfterRestart(t *testing.T) {
	cfg := tracker.Config{Record: true}
	tr := tracker.New(cfg, testPolicy(t, "fifo"))
	var facts []tracker.Fact
	step := func(ev tracker.Event) {
		tr.Step(0, ev)
		facts = append(facts, tr.Facts()...)
	}
	step(joinEvent("n1", 1, 0))
	step(joinEvent("n2", 1, 0))
	step(&tracker.Submit{Spec: job.Spec{Splits: make([]job.Split, 2)}})
	step(&tracker.Heartbeat{Node: "n1"})
	step(&tracker.Heartbeat{Node: "n2"})
	r := &recorder{}
	tr, err := tracker.Restore(cfg, sched.Compose(&hadoop.Static{}, hadoop.NewFIFO(), &hadoop.Greedy{}, r), 0, slices.Values(facts))
	if err != nil {
		t.Fatal(err)
	}
	r.log = nil
	same, other := joinEvent("n1", 1, 0), joinEvent("n2", 2, 0)
	same.Running = []job.AttemptID{{TaskID: job.TaskID{Job: 1}}}
	other.Running = []job.AttemptID{{TaskID: job.TaskID{Job: 1, Index: 1}}}
	tr.Step(0, same)
	if want := []string{"joined n1"}; !slices.Equal(r.log, want) {
		t.Errorf("the same slots: told %q, want %q", r.log, want)
	}
	r.log = nil
	tr.Step(0, other)
	if want := []string{"ended j1_m_1_0 lost", "change j1 2", "joined n2"}; !slices.Equal(r.log, want) {
		t.Errorf("other slots: told %q, want %q", r.log, want)
	}
	r.log = nil
	other.Node.MapSlots = 3
	tr.Step(0, other)
	if want := []string{"lost n2", "joined n2"}; !slices.Equal(r.log, want) {
		t.Errorf("other slots of a member: told %q, want %q", r.log, want)
	}
}

// A new policy hears of the nodes and jobs that there are, and nothing else
// happens.
func TestSetPolicy(t *testing.T) {
	tr := tracker.New(tracker.Config{}, testPolicy(t, "fifo"))
	tr.Step(0, joinEvent("n1", 1, 0))
	tr.Step(0, joinEvent("n2", 1, 0))
	tr.Step(0, &tracker.Lose{Node: "n2"})
	tr.Step(0, &tracker.Submit{Spec: job.Spec{Splits: make([]job.Split, 2)}})
	tr.Step(0, &tracker.Heartbeat{Node: "n1"})
	r := &recorder{limit: [job.Kinds]int{2, 0}}
	p := sched.Compose(&hadoop.Static{}, hadoop.NewFIFO(), &hadoop.Greedy{}, r)
	tr.Step(17*time.Second, &tracker.Tick{})
	tr.SetPolicy(p)
	if want := []string{"start 17s 1 jobs", "joined n1", "add j1"}; !slices.Equal(r.log, want) || tr.Policy() != p {
		t.Errorf("told %q, want %q", r.log, want)
	}
	if got := tr.Step(20*time.Second, &tracker.Heartbeat{Node: "n1"}); len(got) != 1 || got[0].Kind != tracker.Launch {
		t.Errorf("the new policy did %v", got)
	}
	if !slices.Contains(r.log, "update 20s") {
		t.Errorf("not updated at a multiple of the interval: %q", r.log)
	}
	if why, words := tr.Explain(tr.Jobs().Get(1), job.Map); why.Code != sched.NoPending ||
		words != "no map waits: all have been started (2 running) or are done; says j1 map" {
		t.Errorf("explained %q", words)
	}
}

func TestNextDeadline(t *testing.T) {
	tr := tracker.New(tracker.Config{NodeTimeout: -1}, testPolicy(t, "fifo"))
	expect := func(what string, want time.Duration) {
		t.Helper()
		if got := tr.NextDeadline(); got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	expect("nothing", -1)
	tr.Step(0, joinEvent("n1", 1, 0))
	tr.Step(0, &tracker.Submit{Spec: job.Spec{Splits: make([]job.Split, 1), Request: job.Request{TaskTimeout: time.Minute}}})
	tr.Step(5*time.Second, &tracker.Heartbeat{Node: "n1"})
	expect("an attempt runs", 65*time.Second)
	if got := tr.Step(tr.NextDeadline(), &tracker.Tick{}); len(got) != 1 || got[0].Kind != tracker.Kill {
		t.Errorf("at the deadline: %v", got)
	}
	tr = tracker.New(tracker.Config{NodeTimeout: time.Hour}, testPolicy(t, "preempting"))
	expect("periodic", 10*time.Second)
	tr.Step(10*time.Second, joinEvent("n1", 1, 0))
	expect("next period", 20*time.Second)
	tr = tracker.New(tracker.Config{NodeTimeout: time.Hour}, testPolicy(t, "fifo"))
	tr.Step(time.Second, joinEvent("n1", 1, 0))
	expect("node", time.Hour+time.Second)
}

// Time that runs backwards counts as the latest so far.
func TestTimeDoesNotRunBackwards(t *testing.T) {
	tr := tracker.New(tracker.Config{}, testPolicy(t, "fifo"))
	tr.Step(time.Hour, joinEvent("n1", 1, 0))
	tr.Step(0, &tracker.Tick{})
	if tr.Now() != time.Hour || !tr.Nodes().Get("n1").Alive() {
		t.Errorf("now is %v", tr.Now())
	}
}
