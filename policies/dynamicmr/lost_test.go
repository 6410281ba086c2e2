package dynamicmr_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/policies/dynamicmr"
	"github.com/slotwise/slotwise/policies/hadoop"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// shop is a real tracker with nodes that finish their tasks: maps at once,
// reduces when all maps of their job are done.
type shop struct {
	tr    *tracker.Tracker
	now   time.Duration
	nodes []string
	runs  map[string][]job.AttemptID
	kills []job.AttemptID
}

func newShop(cfg dynamicmr.DHSAConfig, specs ...cluster.Spec) *shop {
	return shopOf(sched.Compose(dynamicmr.NewDHSA(cfg), hadoop.NewFIFO(), hadoop.NewGreedy(false), &hadoop.None{}), specs...)
}

func shopOf(p sched.Policy, specs ...cluster.Spec) *shop {
	s := &shop{tr: tracker.New(tracker.Config{NodeTimeout: -1}, p), runs: map[string][]job.AttemptID{}}
	for _, n := range specs {
		s.step(&tracker.Join{Node: n})
		s.nodes = append(s.nodes, n.Name)
	}
	return s
}

func (s *shop) step(ev tracker.Event) {
	for _, e := range s.tr.Step(s.now, ev) {
		switch e.Kind {
		case tracker.Launch:
			s.runs[e.Node] = append(s.runs[e.Node], e.Attempt)
		case tracker.Kill:
			s.kills = append(s.kills, e.Attempt)
		}
	}
}

// beat lets every node but the idle ones send a heartbeat; finish says whether
// their running tasks end first.
func (s *shop) beat(finish bool) {
	s.now += time.Second
	s.step(&tracker.Tick{})
	for _, n := range s.nodes {
		hb := &tracker.Heartbeat{Node: n}
		var rest []job.AttemptID
		for _, id := range s.runs[n] {
			a := s.tr.Jobs().Attempt(id)
			switch {
			case a == nil || a.State() != job.AttemptRunning:
			case finish && (id.Kind == job.Map || a.Job().MapsDone()):
				hb.Reports = append(hb.Reports, tracker.Report{Attempt: id, State: job.AttemptSucceeded, Progress: 1})
			default:
				rest = append(rest, id)
			}
		}
		s.runs[n] = rest
		s.step(hb)
	}
}

func (s *shop) lose(n string) {
	s.step(&tracker.Lose{Node: n})
	delete(s.runs, n)
	for i, x := range s.nodes {
		if x == n {
			s.nodes = append(s.nodes[:i:i], s.nodes[i+1:]...)
		}
	}
}

func node(name string, maps, reduces int) cluster.Spec {
	return cluster.Spec{Name: name, MapSlots: maps, ReduceSlots: reduces}
}

// Reading 14 in README.md: a job has more reduces than slots, they fill every slot that is left once
// its maps are done, and then the node with the maps' output is lost. With typed
// slots the maps would be made again at once; here the tracker must kill reduces.
func TestLostMapsDoNotHang(t *testing.T) {
	for _, mode := range []dynamicmr.Mode{dynamicmr.PI, dynamicmr.PD} {
		for _, keep := range []int{0, 1} {
			t.Run(fmt.Sprint(mode, keep), func(t *testing.T) {
				cfg := defaults(mode)
				cfg.KeepMapSlots = keep
				s := newShop(cfg, node("a", 2, 1), node("b", 2, 1))
				s.step(&tracker.Submit{Spec: job.Spec{Splits: make([]job.Split, 4), Reduces: 40, Request: job.Request{SlowStart: 0.05}}})
				s.lostAfterMaps(t)
				j := s.tr.Jobs().Get(1)
				for i := 0; !j.State().Final(); i++ {
					if i > 400 {
						t.Fatalf("the job hangs: %+v", j.Tally())
					}
					s.beat(true)
				}
				if j.State() != job.Succeeded {
					t.Errorf("the job is %v", j.State())
				}
				if len(s.kills) == 0 {
					t.Error("no reduce was killed, so the trap was not set")
				}
			})
		}
	}
}

// lostAfterMaps finishes all maps, lets reduces fill every slot of the node b and
// loses the node a, on which a map was done.
func (s *shop) lostAfterMaps(t *testing.T) {
	j := s.tr.Jobs().Get(1)
	for i := 0; !j.MapsDone(); i++ {
		if i > 50 {
			t.Fatal("the maps do not end")
		}
		s.beat(true)
	}
	s.beat(false)
	if got := j.RunningOn(job.Reduce, job.Map); got == 0 {
		t.Fatal("no map slot is lent")
	}
	s.lose("a")
	if j.MapsDone() {
		t.Fatal("no map was lost")
	}
}

// Of several reduces in the way the one that started last is stopped, and no
// more than one for the one map.
func TestYoungestReduceGivesWay(t *testing.T) {
	cfg := defaults(dynamicmr.PD)
	cfg.LendReduces = 0
	s := newShop(cfg, node("a", 1, 0), node("b", 1, 1), node("c", 1, 1))
	s.step(&tracker.Submit{Spec: job.Spec{Splits: make([]job.Split, 3), Reduces: 20, Request: job.Request{SlowStart: 1}}})
	j := s.tr.Jobs().Get(1)
	for !j.MapsDone() {
		s.beat(true)
	}
	s.beat(false)
	var youngest *job.Attempt
	for a := j.Oldest(job.Reduce); a != nil; a = a.Next() {
		if a.Slot() == job.Map && s.tr.Nodes().Node(a.Node()).Name() != "a" {
			youngest = a
		}
	}
	s.lose("a")
	for range 12 {
		s.beat(false)
	}
	if len(s.kills) != 1 || s.kills[0] != youngest.ID() {
		t.Errorf("stopped %v, want %v", s.kills, youngest.ID())
	}
	if j.Active(job.Map) != 1 {
		t.Error("the map did not get the slot")
	}
}

// Without early reduces maps borrow the reduce slot that a reduce would wait in.
func TestLateReduces(t *testing.T) {
	for _, mode := range []dynamicmr.Mode{dynamicmr.PI, dynamicmr.PD} {
		for _, where := range []hadoop.Early{hadoop.EarlyOwn, hadoop.EarlyOn, hadoop.EarlyOff} {
			early := where != hadoop.EarlyOff
			cfg := defaults(mode)
			cfg.Early = where
			s := newShop(cfg, node("a", 1, 1))
			s.step(&tracker.Submit{Spec: job.Spec{Splits: make([]job.Split, 8), Reduces: 2, Request: job.Request{SlowStart: -1}}})
			j := s.tr.Jobs().Get(1)
			s.beat(true)
			if got := j.Running(job.Map); early != (got == 1) {
				t.Errorf("%v, early %v: %d maps run", mode, early, got)
			}
			for i := 0; !j.State().Final(); i++ {
				if i > 50 {
					t.Fatalf("%v: the job hangs: %+v", mode, j.Tally())
				}
				s.beat(true)
			}
		}
	}
}

// With only reduce slots left maps and reduces share those, and the same holds.
func TestLostMapsDoNotHangWithoutMapSlots(t *testing.T) {
	for _, mode := range []dynamicmr.Mode{dynamicmr.PI, dynamicmr.PD} {
		s := newShop(defaults(mode), node("a", 2, 0), node("b", 0, 2))
		s.step(&tracker.Submit{Spec: job.Spec{Splits: make([]job.Split, 4), Reduces: 6, Request: job.Request{SlowStart: 0.05}}})
		s.beat(true)
		s.beat(true)
		s.lose("a")
		j := s.tr.Jobs().Get(1)
		for i := 0; !j.State().Final(); i++ {
			if i > 400 {
				t.Fatalf("%v: the job hangs: %+v", mode, j.Tally())
			}
			s.beat(true)
		}
	}
}

// The last map slots are kept from reduces that wait, but not from reduces whose maps
// are done.
func TestLastMapSlotsAreKept(t *testing.T) {
	s := newShop(defaults(dynamicmr.PD), node("a", 1, 1))
	s.step(&tracker.Submit{Spec: job.Spec{Splits: []job.Split{{}, {}}, Reduces: 3, Request: job.Request{SlowStart: 0.5}}})
	s.step(&tracker.Submit{Spec: job.Spec{Reduces: 3, Request: job.Request{SlowStart: -1}}})
	first := s.tr.Jobs().Get(1)
	s.beat(true) // a map
	s.beat(true) // the other map; the first is done
	if first.RunningOn(job.Reduce, job.Map) != 0 {
		t.Error("a reduce that waits took the only map slot")
	}
	s.step(&tracker.KillJob{Job: 2})
	s.step(&tracker.Submit{Spec: job.Spec{Splits: []job.Split{{}}, Reduces: 2, Request: job.Request{SlowStart: -1}}})
	for range 12 {
		s.beat(true)
	}
	for _, id := range []job.ID{1, 3} {
		if j := s.tr.Jobs().Get(id); j.State() != job.Succeeded {
			t.Errorf("%v is %v", id, j.State())
		}
	}
}

// Property: on random clusters with random losses of map output each job ends, no
// limit on lent slots is exceeded, and slots are never overfull; alone and as
// part of the named policies.
func TestLendingLivesAndKeepsQuotas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mode := rapid.SampledFrom([]dynamicmr.Mode{dynamicmr.PI, dynamicmr.PD}).Draw(t, "mode")
		share := rapid.SampledFrom([]string{"0", "0.3", "0.5", "1"})
		set := map[string]string{"lend-mode": mode.String(), "lend-map-slots": share.Draw(t, "maps"),
			"lend-reduce-slots": share.Draw(t, "reduces"), "keep-map-slots": fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "keep"))}
		set["early-reduces"] = rapid.SampledFrom([]string{"own", "on", "gate", "off"}).Draw(t, "early")
		spec := "slots=dhsa-pi,place=greedy,speculate=none"
		if rapid.Bool().Draw(t, "named") {
			spec = "dynamicmr-pi"
			set["preschedule-max"], set["speculative-lag"] = fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "most")), "2s"
		}
		count := rapid.IntRange(0, 3)
		s := shopOf(build(t, spec, set), node("a", 1, 1), node("b", count.Draw(t, "m"), count.Draw(t, "r")),
			node("c", count.Draw(t, "m"), count.Draw(t, "r")))
		for range rapid.IntRange(1, 4).Draw(t, "jobs") {
			s.step(&tracker.Submit{Spec: drawJob(t)})
		}
		lossy := rapid.IntRange(0, 12).Draw(t, "loss")
		for i := range 600 {
			s.beat(i%3 != 1)
			s.checkQuotas(t, set)
			if i == lossy && rapid.Bool().Draw(t, "lose") {
				s.lose(rapid.SampledFrom([]string{"b", "c"}).Draw(t, "node"))
			}
			if len(s.tr.Jobs().Live()) == 0 {
				return
			}
		}
		var lines []string
		for _, j := range s.tr.Jobs().Live() {
			lines = append(lines, fmt.Sprintf("%v %+v", j.ID(), j.Tally()))
		}
		t.Fatalf("jobs do not end: %s", strings.Join(lines, "; "))
	})
}

func drawJob(t *rapid.T) job.Spec {
	s := job.Spec{Splits: make([]job.Split, rapid.IntRange(0, 6).Draw(t, "splits")), Request: job.Request{SlowStart: 0.05, Pool: rapid.SampledFrom([]string{"p", "q"}).Draw(t, "pool")},
		Reduces: rapid.IntRange(1, 9).Draw(t, "n")}
	for i := range s.Splits {
		s.Splits[i].Hosts = rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "z"}), 0, 2).Draw(t, "hosts")
	}
	return s
}

// checkQuotas holds the counts of lent slots against their limits. Slots that go
// with a node take nothing from what runs, and P3 has its own limit.
func (s *shop) checkQuotas(t *rapid.T, set map[string]string) {
	l, n := s.tr.Jobs(), s.tr.Nodes()
	if st := s.tr.Stats(); st.Refused > 0 {
		t.Fatal(st.LastRefusal)
	}
	if n.Alive() < len(n.All()) {
		return
	}
	pre, back := 0, 0
	for _, x := range n.All() {
		for _, a := range x.Attempts() {
			if dynamicmr.Presched(a) {
				pre++
			}
			if dynamicmr.PaidBack(a) {
				back++
			}
		}
	}
	if most := fraction(t, set["lend-map-slots"]).Floor(n.Slots(job.Map)); l.RunningOn(job.Reduce, job.Map)-back > most {
		t.Fatalf("%d map slots lent, %d of them by P3, of %d", l.RunningOn(job.Reduce, job.Map), back, most)
	}
	if most := fraction(t, set["lend-reduce-slots"]).Floor(n.Slots(job.Reduce)); l.RunningOn(job.Map, job.Reduce) > most {
		t.Fatalf("%d reduce slots lent of %d", l.RunningOn(job.Map, job.Reduce), most)
	}
	if most, named := set["preschedule-max"]; named && fmt.Sprint(pre) > most {
		t.Fatalf("%d reduce slots taken by P2 of %s", pre, most)
	}
}
