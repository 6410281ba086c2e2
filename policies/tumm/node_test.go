package tumm

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/policies/hadoop"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// compose puts a slots part into a policy, first come, first served.
func compose(s sched.Slots) sched.Policy {
	return sched.Compose(s, hadoop.NewFIFO(), &hadoop.Greedy{}, &hadoop.None{})
}

// lab is a tracker with nodes n0, n1, … and events in short.
type lab struct {
	*tracker.Tracker
	t   testing.TB
	now time.Duration
}

func newLab(t testing.TB, s sched.Slots, nodes ...[job.Kinds]int) *lab {
	l := &lab{Tracker: tracker.New(tracker.Config{NodeTimeout: -1}, compose(s)), t: t}
	for i, n := range nodes {
		l.join(i, n)
	}
	return l
}

func (l *lab) join(i int, slots [job.Kinds]int) {
	l.Step(l.now, &tracker.Join{Node: cluster.Spec{Name: fmt.Sprint("n", i), MapSlots: slots[0], ReduceSlots: slots[1]}})
}

func (l *lab) submit(maps, reduces int) *job.Job {
	l.Step(l.now, &tracker.Submit{Spec: job.Spec{Splits: make([]job.Split, maps), Reduces: reduces, Request: job.Request{TaskTimeout: -1}}})
	return l.Jobs().Live()[len(l.Jobs().Live())-1]
}

// beat asks for work for a node and returns how many tasks it got.
func (l *lab) beat(i int) int {
	n := 0
	for _, e := range l.Step(l.now, &tracker.Heartbeat{Node: fmt.Sprint("n", i)}) {
		if e.Kind == tracker.Launch {
			n++
		}
	}
	if s := l.Stats(); s.Refused > 0 {
		l.t.Fatal(s.LastRefusal)
	}
	return n
}

// finish ends the oldest attempt of a kind of a job.
func (l *lab) finish(j *job.Job, k job.Kind) {
	a := j.Oldest(k)
	l.Step(l.now, &tracker.Heartbeat{Node: l.Nodes().Node(a.Node()).Name(), NoWork: true,
		Reports: []tracker.Report{{Attempt: a.ID(), State: job.AttemptSucceeded}}})
}

func (l *lab) running(k job.Kind) (got []int) {
	for _, n := range l.Nodes().All() {
		got = append(got, n.Running(k))
	}
	return got
}

// fixed is TuMM with targets that do not follow the work.
func fixed(cfg Config, want [job.Kinds]int) *TuMM {
	s := NewTuMM(Options{Config: cfg, Feedback: Telescoped, Alpha: 1.2})
	s.split = func(r *sched.Round) [job.Kinds]int {
		running := [job.Kinds]int{r.Jobs().Running(job.Map), r.Jobs().Running(job.Reduce)}
		return Share(want, running, want[job.Map]+want[job.Reduce], size(r.Node()))
	}
	return s
}

// An empty cluster with plenty of both kinds to run, filled node
// by node, or one task at a time in turn.
func TestTuMM_E5_1_And_E5_2(t *testing.T) {
	for _, c := range []struct {
		name          string
		slots         [job.Kinds]int
		want          [job.Kinds]int
		per           int
		maps, reduces []int
	}{
		{"E5.1 node by node", [2]int{3, 3}, [2]int{5, 7}, 0, []int{2, 3}, []int{4, 3}},
		{"E5.1 in turn", [2]int{3, 3}, [2]int{5, 7}, 1, []int{2, 3}, []int{4, 3}},
		{"E5.2 node by node", [2]int{2, 2}, [2]int{10, 6}, 0, []int{3, 3, 2, 2}, []int{1, 1, 2, 2}},
		{"E5.2 in turn", [2]int{2, 2}, [2]int{10, 6}, 1, []int{2, 3, 2, 3}, []int{2, 1, 2, 1}},
	} {
		l := newLab(t, fixed(Config{Early: hadoop.EarlyOn, Fallback: WithinTarget, MaxPerHeartbeat: c.per}, c.want),
			slices.Repeat([][job.Kinds]int{c.slots}, len(c.maps))...)
		l.submit(100, 0)
		l.submit(0, 100)
		for moved := true; moved; {
			moved = false
			for i := range c.maps {
				moved = l.beat(i) > 0 || moved
			}
		}
		if m, r := l.running(job.Map), l.running(job.Reduce); !slices.Equal(m, c.maps) || !slices.Equal(r, c.reduces) {
			t.Errorf("%s: maps %v, reduces %v; want %v, %v", c.name, m, r, c.maps, c.reduces)
		}
	}
}

// With maps alone to run, the fallback says how far they go; the
// letter of the paper starts none at all with an even split.
func TestTuMM_E5_3_And_E5_4(t *testing.T) {
	for _, c := range []struct {
		name, fallback string
		want           [job.Kinds]int
		maps           int
	}{
		{"E5.3", NoFallback, [2]int{12, 4}, 2}, {"E5.3", WithinTarget, [2]int{12, 4}, 3}, {"E5.3", AnyKind, [2]int{12, 4}, 4},
		{"E5.4", NoFallback, [2]int{8, 8}, 0}, {"E5.4", WithinTarget, [2]int{8, 8}, 2},
	} {
		l := newLab(t, fixed(Config{Early: hadoop.EarlyOn, Fallback: c.fallback}, c.want), slices.Repeat([][job.Kinds]int{{2, 2}}, 4)...)
		l.submit(100, 0)
		for range 2 {
			for i := range 4 {
				l.beat(i)
			}
		}
		if m := l.running(job.Map); !slices.Equal(m, slices.Repeat([]int{c.maps}, 4)) {
			t.Errorf("%s %s: maps %v, want %d each", c.name, c.fallback, m, c.maps)
		}
	}
}

// The paper's Fig. 6: 7 maps on two nodes, one twice as fast, under three
// splits of four map slots, with the last task on either node.
func TestTuMM_E6_6(t *testing.T) {
	for _, c := range []struct{ fast, slow, best, worst int }{{2, 2, 3, 4}, {1, 3, 4, 4}, {3, 1, 2, 2}} {
		for i, want := range []int{c.best, c.worst} {
			end, left := [2]int{}, 7
			for now := 0; left > 0; now++ {
				for _, node := range [2][2]int{{0, 1}, {1, 0}}[i] {
					slots, time := [2]int{c.fast, c.slow}[node], node+1
					if now%time == 0 && left > 0 {
						left -= min(left, slots)
						end[node] = now + time
					}
				}
			}
			if got := max(end[0], end[1]); got != want {
				t.Errorf("%d:%d: %d s, want %d", c.fast, c.slow, got, want)
			}
		}
	}
}

// The number of reduces that one heartbeat launches can be bounded; maps still
// fill the node.
func TestMaxReducesPerHeartbeat(t *testing.T) {
	l := newLab(t, fixed(Config{Early: hadoop.EarlyOn, Fallback: WithinTarget, MaxReducesPerHeartbeat: 1}, [2]int{2, 4}), [2]int{3, 3})
	l.submit(100, 0)
	l.submit(0, 100)
	for i, want := range []int{3, 1, 1, 1, 0} {
		if got := l.beat(0); got != want {
			t.Errorf("heartbeat %d: %d tasks, want %d", i, got, want)
		}
	}
}

// On a node of two slots the bounds leave maps one. Without limits on the
// fallback they get both, unless a reduce that only waits holds the other.
func TestEarlyReduces(t *testing.T) {
	for early, want := range map[hadoop.Early]int{hadoop.EarlyOn: 1, hadoop.EarlyGate: 2, hadoop.EarlyOff: 2} {
		s := NewTuMM(Options{Config: Config{Fallback: AnyKind, Early: early}, Feedback: Telescoped, Alpha: 1.2})
		l := newLab(t, s, [2]int{1, 1})
		j := l.submit(9, 2)
		l.beat(0)
		l.finish(j, job.Map)
		l.beat(0)
		l.finish(j, job.Map)
		l.beat(0)
		if got := j.Running(job.Map); got != want {
			t.Errorf("early %v: %d maps run, want %d", early, got, want)
		}
		if why, _ := l.Explain(j, job.Reduce); early != hadoop.EarlyOn && why.Code != sched.MapsFirst {
			t.Errorf("reduces wait for %+v", why)
		}
	}
}

func newHeter(n int) *HTuMM {
	return NewHTuMM(HeterOptions{Config: Config{Early: hadoop.EarlyOn, Remaining: Unassigned, Fallback: WithinTarget}, MinPerType: n})
}

// A node keeps its split when no work remains, and starts with an even one.
// It starts again when it rejoins with other slots.
func TestHTuMMKeepsItsSplit(t *testing.T) {
	h := newHeter(0)
	l := newLab(t, h, [2]int{1, 4})
	expect := func(want [job.Kinds]int) {
		t.Helper()
		if got := h.Split(l.Nodes().Node(0)); got != want {
			t.Errorf("split %v, want %v", got, want)
		}
	}
	expect([2]int{2, 3})
	j := l.submit(1, 0)
	l.beat(0)
	expect([2]int{5, 0})
	l.finish(j, job.Map)
	l.beat(0)
	expect([2]int{5, 0})
	l.Step(0, &tracker.Lose{Node: "n0"})
	expect([2]int{0, 0})
	l.join(0, [2]int{1, 1})
	expect([2]int{1, 1})
}

// Reading 13 in README.md: each kind may be given a least number of slots.
func TestMinPerType(t *testing.T) {
	for least, want := range map[int][2]int{0: {5, 0}, 1: {4, 1}, 2: {3, 2}, 9: {3, 2}} {
		h := newHeter(least)
		l := newLab(t, h, [2]int{1, 4})
		l.submit(9, 0)
		l.beat(0)
		if got := h.Split(l.Nodes().Node(0)); got != want {
			t.Errorf("at least %d: split %v, want %v", least, got, want)
		}
	}
}

func newPlain() *TuMM {
	return NewTuMM(Options{Config: Config{Early: hadoop.EarlyOn, Remaining: Unfinished, Fallback: WithinTarget}, Feedback: Telescoped, Alpha: 1.2})
}

// Reading 9 in README.md: unequal nodes get their shares of the targets. Without reduces that is
// all slots of a node but one, and the smallest node keeps one of each kind.
func TestTuMMSplitsUnequalNodes(t *testing.T) {
	l := newLab(t, newPlain(), [2]int{3, 3}, [2]int{2, 2}, [2]int{1, 1})
	l.submit(20, 0)
	for i, want := range []int{5, 3, 1} {
		if got := l.beat(i); got != want {
			t.Errorf("node %d runs %d maps, want %d", i, got, want)
		}
	}
	l.Step(0, &tracker.Lose{Node: "n1"})
	if got := l.beat(0) + l.beat(2); got != 0 {
		t.Errorf("without n1 the others got %d more maps, want 0", got)
	}
}

// Bounds that leave each node a slot of each kind need two slots per node.
func TestTuMMNeedsTwoSlots(t *testing.T) {
	l := newLab(t, newPlain(), [2]int{1, 0})
	j := l.submit(2, 0)
	if got := l.beat(0); got != 1 {
		t.Errorf("a node of one slot got %d maps", got)
	}
	if _, words := l.Explain(j, job.Map); !strings.Contains(words, "at least 2 slots per machine") {
		t.Errorf("explained as %q", words)
	}
}

// Why a job gets nothing, in each situation that re-typing adds.
func TestReasons(t *testing.T) {
	l := newLab(t, newPlain(), [2]int{2, 2})
	j := l.submit(9, 2)
	l.beat(0)
	expect := func(k job.Kind, code sched.Code, words ...string) {
		t.Helper()
		why, said := l.Explain(j, k)
		for _, w := range append(words, "of work left") {
			if !strings.Contains(said, w) {
				t.Errorf("%v: %q lacks %q", k, said, w)
			}
		}
		if why.Code != code {
			t.Errorf("%v: reason %+v, want code %d", k, why, code)
		}
	}
	// Three maps run; the fourth slot is kept for a reduce that may not start.
	expect(job.Map, sched.NoSlot, "all 3 map slots of the cluster are in use", "3 of 4 slots go to maps")
	expect(job.Reduce, sched.SlowStart)
	l.join(1, [2]int{2, 2})
	expect(job.Map, sched.SplitFull, "keeps its free slots for reduces: its split allows 3 maps, and 3 run")
	l.beat(1)
	l.now = 10 * time.Second
	l.finish(j, job.Map)
	l.beat(0)
	l.beat(1)
	// Both reduces run early, on the slots kept for them.
	expect(job.Reduce, sched.NoPending)
	h := newLab(t, newHeter(0), [2]int{2, 2})
	j = h.submit(0, 9)
	h.beat(0)
	l = h
	expect(job.Reduce, sched.NoSlot, "all 4 reduce slots", "each machine splits its slots")
}

// A new split kills nothing, and a policy with fixed splits that takes over does
// not fill a node beyond its total.
func TestSwapKeepsTotals(t *testing.T) {
	l := newLab(t, newHeter(0), [2]int{2, 2})
	j := l.submit(9, 0)
	l.beat(0)
	l.submit(0, 9)
	l.finish(j, job.Map)
	l.SetPolicy(compose(&hadoop.Static{}))
	n := l.Nodes().Node(0)
	if got := l.beat(0); got != 1 || n.Used(job.Map) != 2 || n.Used(job.Reduce) != 2 {
		t.Errorf("%d launched; used %d and %d of 2 and 2", got, n.Used(job.Map), n.Used(job.Reduce))
	}
}

// The last means outlive a restart; damage and foreign state change nothing.
func TestState(t *testing.T) {
	a := newPlain()
	a.mon.last = [2]float64{12.5, 0}
	state, err := a.Save()
	if err != nil {
		t.Fatal(err)
	}
	b := newHeter(0)
	if err := b.Load(state); err != nil || b.mon.last != a.mon.last {
		t.Errorf("%v, %v", b.mon.last, err)
	}
	b.mon.last = [2]float64{3, 4}
	bad := map[string]string{
		"": "EOF", "perceptron 1": "invalid", string(state[:len(state)-1]): "EOF", string(state) + "{}": "data follows",
		strings.Replace(string(state), `:1,`, `:2,`, 1):         "version 2",
		strings.Replace(string(state), `"tumm"`, `"tags"`, 1):   `state of "tags"`,
		strings.Replace(string(state), "12.5", "-1", 1):         "a task time of -1 s",
		strings.Replace(string(state), "12.5", `"x"`, 1):        "cannot unmarshal",
		strings.Replace(string(state), "map_sec", "map_min", 1): "unknown field",
	}
	for text, want := range bad {
		if err := b.Load([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || b.mon.last != [2]float64{3, 4} {
			t.Errorf("%q: %v; means %v", text, err, b.mon.last)
		}
	}
}

// The slots of a drained node are no slots of H_TuMM's split.
func TestHTuMMClosedNode(t *testing.T) {
	h := newHeter(0)
	l := newLab(t, h, [2]int{2, 2}, [2]int{2, 2})
	l.Step(l.now, &tracker.Drain{Node: "n1"})
	if got := [2]int{h.Size(job.Map), h.Size(job.Reduce)}; got != [2]int{2, 2} {
		t.Errorf("slots %v while a node is drained", got)
	}
}

// A drained node counts in S and k no longer: on nodes with a slot of each kind the
// others keep a map slot, and get their old share when the node returns.
func TestTuMMClosedNode(t *testing.T) {
	part := newPlain()
	l := newLab(t, part, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1})
	l.submit(9, 0)
	l.Step(l.now, &tracker.Drain{Node: "n3"})
	for i := range 3 {
		if got := l.beat(i); got != 1 {
			t.Errorf("n%d got %d maps, want 1", i, got)
		}
	}
	if got := [2]int{part.Size(job.Map), part.Size(job.Reduce)}; got != [2]int{3, 3} {
		t.Errorf("slots %v while a node is drained", got)
	}
	l.Step(l.now, &tracker.Drain{Node: "n3", Undo: true})
	if got := [2]int{part.Size(job.Map), part.Size(job.Reduce)}; l.beat(3) != 1 || got != [2]int{4, 4} {
		t.Errorf("slots %v when it is back", got)
	}
}
