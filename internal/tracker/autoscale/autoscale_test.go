package autoscale

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/sched/job"
)

// fixture is a cluster whose provider needs startUp to make a machine.
type fixture struct {
	t        *rapid.T
	cfg      Config
	scaler   *Scaler
	now      time.Duration
	replicas int
	made     int
	workers  []*machine
	demand   Slots
	busy     bool
	wants    []need // each step's raw need, for the check of the cool-down
}

type machine struct {
	Worker
	ready time.Duration
	first bool // given back
}

// newWorld starts with Min workers.
func newWorld(t *rapid.T, cfg Config) *fixture {
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{t: t, cfg: cfg, scaler: s, replicas: cfg.Min}
}

// advance lets the provider make and start machines.
func (w *fixture) advance(d time.Duration) {
	w.now += d
	for len(w.workers) < w.replicas {
		w.made++
		w.workers = append(w.workers, &machine{Worker: Worker{Name: fmt.Sprintf("w%d", w.made), Unready: true}, ready: w.now + w.cfg.StartUp})
	}
	for _, m := range w.workers {
		if !m.Registered && w.now >= m.ready {
			m.Registered, m.Unready, m.Slots = true, false, Slots{2, 1}
		}
	}
}

// input returns the state.
func (w *fixture) input() Input {
	in := Input{Demand: w.demand, Busy: w.busy, Replicas: w.replicas}
	for _, m := range w.workers {
		in.Workers = append(in.Workers, m.Worker)
	}
	return in
}

// step carries out one decision and checks it.
func (w *fixture) step() Output {
	out := w.scaler.Step(w.now, w.input())
	if out.Want < w.cfg.Min || out.Want > w.cfg.Max || out.Replicas > max(w.cfg.Max, w.replicas) || out.Replicas < min(w.cfg.Min, w.replicas) {
		w.t.Fatalf("want %d, replicas %d, limits %v", out.Want, out.Replicas, w.cfg)
	}
	raw := min(max(w.scaler.needed(w.input()), w.cfg.Min), w.cfg.Max)
	w.wants = append(w.wants, need{w.now, raw})
	for i := len(w.wants) - 1; i >= 0 && w.now-w.wants[i].at < max(w.cfg.CoolDown, w.cfg.StartUp); i-- {
		if out.Want < w.wants[i].n {
			w.t.Fatalf("at %v want %d, but %d were needed at %v", w.now, out.Want, w.wants[i].n, w.wants[i].at)
		}
	}
	for _, n := range out.Stay {
		m := w.get(n)
		m.Marked, m.Drained = false, false
	}
	for _, n := range out.Leave {
		m := w.get(n)
		m.Marked, m.Drained = true, m.Registered
	}
	for _, n := range out.GiveBack {
		m := w.get(n)
		if !m.Marked || m.Running > 0 {
			w.t.Fatalf("%+v is given back", m)
		}
		m.first = true
	}
	w.replicas = out.Replicas
	w.remove()
	return out
}

// remove removes workers beyond the replicas, in the order of Kubernetes: the Unready ones,
// then workers that are given back, then marked ones. It fails the test if it removes a
// registered worker that the scaler has not given back.
func (w *fixture) remove() {
	slices.SortStableFunc(w.workers, func(a, b *machine) int {
		return cmp.Or(compareBool(b.Unready, a.Unready), compareBool(b.first, a.first), compareBool(b.Marked, a.Marked))
	})
	for ; len(w.workers) > w.replicas; w.workers = w.workers[1:] {
		if m := w.workers[0]; !m.first && m.Registered {
			w.t.Fatalf("%+v goes in place of another", m)
		}
	}
	for _, m := range w.workers {
		m.first = false
	}
}

func (w *fixture) get(name string) *machine {
	for _, m := range w.workers {
		if m.Name == name {
			return m
		}
	}
	w.t.Fatalf("no worker %s", name)
	return nil
}

// TestDecision runs random demand on random clusters. Each step checks the limits and the
// cool-down. At the end work gets as many workers as it needs, and without work the
// cluster shrinks to Min.
func TestDecision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seconds := func(name string, most int) time.Duration {
			return time.Duration(rapid.IntRange(0, most).Draw(t, name)) * time.Second
		}
		cfg := Config{Min: rapid.IntRange(0, 3).Draw(t, "min"), StartUp: seconds("start-up", 40), CoolDown: seconds("cool-down", 60), Hold: seconds("hold", 60)}
		cfg.Max = max(1, cfg.Min+rapid.IntRange(0, 8).Draw(t, "more"))
		w := newWorld(t, cfg)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "change") {
				w.demand = Slots{rapid.IntRange(0, 30).Draw(t, "maps"), rapid.IntRange(0, 10).Draw(t, "reduces")}
				w.busy = rapid.Bool().Draw(t, "busy")
			}
			for _, m := range w.workers {
				if m.Registered {
					m.Unready = rapid.IntRange(0, 5).Draw(t, "unready") == 0
				}
				if m.Registered && rapid.IntRange(0, 3).Draw(t, "work") == 0 {
					m.Running, m.Outputs = 0, rapid.IntRange(0, 3).Draw(t, "outputs")
					if !m.Drained {
						m.Running = rapid.IntRange(0, 3).Draw(t, "running")
					}
				}
			}
			w.advance(seconds("pause", 20))
			w.step()
		}
		w.demand, w.busy = Slots{rapid.IntRange(1, 40).Draw(t, "last"), 0}, false
		for range 5 {
			w.advance(cfg.StartUp + time.Second)
			w.step()
		}
		able := 0
		for _, m := range w.workers {
			if m.Registered && !m.Marked {
				able++
			}
		}
		if need := min(max(cfg.Min, (w.demand[job.Map]+1)/2), cfg.Max); able < need {
			t.Fatalf("%d workers for %d maps, want %d", able, w.demand[job.Map], need)
		}
		w.demand = Slots{}
		for range 10 {
			for _, m := range w.workers {
				m.Running, m.Outputs, m.Unready = 0, 0, !m.Registered
			}
			w.advance(time.Minute)
			w.step()
		}
		if len(w.workers) != cfg.Min || w.replicas != cfg.Min {
			t.Fatalf("%d workers of %d stay without work, want %d", len(w.workers), w.replicas, cfg.Min)
		}
	})
}

// TestVictim chooses the worker that holds least, and keeps it until its output is read.
func TestVictim(t *testing.T) {
	s, err := New(Config{Max: 9, Hold: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	in := Input{Demand: Slots{4, 0}, Replicas: 3, Workers: []Worker{
		{Name: "a", Registered: true, Slots: Slots{2, 1}, Running: 2, Outputs: 0},
		{Name: "b", Registered: true, Slots: Slots{2, 1}, Running: 1, Outputs: 2},
		{Name: "c", Registered: true, Slots: Slots{2, 1}, Running: 1, Outputs: 1},
	}}
	if out := s.Step(0, in); !slices.Equal(out.Leave, []string{"c"}) || len(out.GiveBack) > 0 || out.Replicas != 3 {
		t.Fatalf("%+v", out)
	}
	c := &in.Workers[2]
	c.Marked = true
	if out := s.Step(time.Second, in); !slices.Equal(out.Leave, []string{"c"}) {
		t.Fatalf("a worker that is marked and not drained is not drained again: %+v", out)
	}
	c.Drained, c.Running = true, 0
	if out := s.Step(2*time.Second, in); len(out.Leave)+len(out.GiveBack) > 0 {
		t.Fatalf("%+v", out)
	}
	if out := s.Step(62*time.Second, in); !slices.Equal(out.GiveBack, []string{"c"}) || out.Replicas != 2 {
		t.Fatalf("%+v", out)
	}
	in.Demand[job.Map] = 6
	if out := s.Step(63*time.Second, in); !slices.Equal(out.Stay, []string{"c"}) || out.Replicas != 3 {
		t.Fatalf("demand came back: %+v", out)
	}
}

// TestUnready keeps an idle worker as long as the provider would remove a busy one in its
// place, and prefers the worker that is not ready as the next to leave.
func TestUnready(t *testing.T) {
	s, err := New(Config{Max: 9})
	if err != nil {
		t.Fatal(err)
	}
	in := Input{Demand: Slots{4, 0}, Replicas: 3, Workers: []Worker{
		{Name: "a", Registered: true, Slots: Slots{2, 1}, Running: 2, Outputs: 7, Unready: true},
		{Name: "b", Registered: true, Slots: Slots{2, 1}, Running: 2},
		{Name: "c", Registered: true, Slots: Slots{2, 1}, Marked: true, Drained: true},
	}}
	if out := s.Step(0, in); len(out.GiveBack) > 0 || out.Replicas != 3 || !slices.Equal(out.Exposed, []string{"a"}) {
		t.Fatalf("a busy worker is not ready: %+v", out)
	}
	in.Workers[2].Unready = true
	if out := s.Step(time.Second, in); !slices.Equal(out.GiveBack, []string{"c"}) {
		t.Fatalf("the idle one is not ready either: %+v", out)
	}
	in.Workers[2].Unready, in.Demand = false, Slots{2, 0}
	if out := s.Step(2*time.Second, in); !slices.Equal(out.Leave, []string{"a"}) || len(out.GiveBack) > 0 {
		t.Fatalf("demand for one: %+v", out)
	}
	a := &in.Workers[0]
	a.Marked, a.Drained, a.Running, a.Outputs = true, true, 0, 0
	if out := s.Step(3*time.Second, in); !slices.Equal(out.GiveBack, []string{"a", "c"}) || out.Replicas != 1 {
		t.Fatalf("all work has left: %+v", out)
	}
}

// TestSlowRemoval gives two workers back while the provider still lists them. The scaler must
// not give back any worker again, and must not plan with the two.
func TestSlowRemoval(t *testing.T) {
	s, err := New(Config{Max: 9})
	if err != nil {
		t.Fatal(err)
	}
	in := Input{Demand: Slots{6, 0}, Replicas: 5}
	for i, name := range []string{"a", "b", "c", "d", "e"} {
		w := Worker{Name: name, Registered: true, Slots: Slots{2, 1}, Running: 2}
		if i >= 3 {
			w.Marked, w.Drained, w.Running = true, true, 0
		}
		in.Workers = append(in.Workers, w)
	}
	out := s.Step(time.Hour, in)
	for at := time.Hour; at < time.Hour+time.Minute && len(out.GiveBack) == 0; at += time.Second {
		out = s.Step(at, in)
	}
	if !slices.Equal(out.GiveBack, []string{"d", "e"}) || out.Replicas != 3 {
		t.Fatalf("%+v", out)
	}
	in.Replicas = 3
	if out := s.Step(2*time.Hour, in); len(out.GiveBack)+len(out.Leave)+len(out.Stay) > 0 || out.Replicas != 3 {
		t.Fatalf("while the two are removed: %+v", out)
	}
	in.Demand[job.Map] = 8
	if out := s.Step(2*time.Hour+time.Second, in); len(out.Stay) > 0 || out.Replicas != 4 {
		t.Fatalf("demand comes back meanwhile: %+v", out)
	}
}

// TestRestart keeps the workers at the first step, because a master that has restarted does
// not know the demand before the restart.
func TestRestart(t *testing.T) {
	s, err := New(Config{Max: 9, CoolDown: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	in := Input{Replicas: 2, Workers: []Worker{{Name: "a"}, {Name: "b"}}}
	for _, at := range []time.Duration{0, 59 * time.Second} {
		if out := s.Step(at, in); out.Want != 2 || len(out.Leave) > 0 {
			t.Fatalf("at %v: %+v", at, out)
		}
	}
	if out := s.Step(61*time.Second, in); len(out.Leave) != 2 {
		t.Fatalf("%+v", out)
	}
}

// TestOperator leaves workers alone that an operator has drained, and replaces them.
func TestOperator(t *testing.T) {
	s, err := New(Config{Max: 2})
	if err != nil {
		t.Fatal(err)
	}
	in := Input{Demand: Slots{2, 0}, Replicas: 1, Workers: []Worker{{Name: "a", Registered: true, Drained: true, Slots: Slots{2, 1}}}}
	if out := s.Step(0, in); out.Replicas != 2 || len(out.Stay)+len(out.Leave)+len(out.GiveBack) > 0 {
		t.Fatalf("%+v", out)
	}
}

func TestParse(t *testing.T) {
	c, err := Parse("min=2,max=50,start-up=30s")
	if err != nil || c.String() != "min=2,max=50,start-up=30s,cool-down=1m0s,hold=10m0s" {
		t.Fatal(c, err)
	}
	if again, err := Parse(c.String()); err != nil || again != c {
		t.Fatal(again, err)
	}
	for _, bad := range []string{"", "min=1", "max=0", "min=3,max=2", "max=2,max=3", "max=x", "max=2,start-up=5", "max=2,hold=-1s", "max=2,colour=red", "max=99999"} {
		if _, err := Parse(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
