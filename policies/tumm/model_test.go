package tumm_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// load is a job of the reference model: numbers of tasks and their exact times
// in seconds.
type load struct {
	maps       int
	mapTime    float64
	reduces    int
	reduceTime float64
}

// model is a reference model around the real tracker: exact
// task times, no contention, no delay. When tasks end, their ends are
// reported one by one. Then the nodes send heartbeats in turn until none gets more.
// A reduce that was launched early ends its own time after its job's last map.
type model struct {
	t       testing.TB
	tr      *tracker.Tracker
	loads   map[job.ID]load
	slow    [][job.Kinds]float64 // how many times longer tasks take, by node
	now     time.Duration
	running []run
	waiting []job.AttemptID
	watch   func(*model) // called after each moment, if set
	ended   func(*model) // called after each moment's ends, if set
}

type run struct {
	end  time.Duration
	node string
	id   job.AttemptID
}

// build makes a policy of a slots part, first come, first served, without waits
// and copies, which the model does not know.
func build(t testing.TB, slots string, settings ...string) sched.Policy {
	set := map[string]string{}
	for _, s := range settings {
		k, v, _ := strings.Cut(s, "=")
		set[k] = v
	}
	p, err := policies.Build(slots+",order=fifo,place=greedy,speculate=none", sched.Options{Seed: 1, Set: set})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func newModel(t testing.TB, p sched.Policy, nodes ...[job.Kinds]int) *model {
	m := &model{t: t, tr: tracker.New(tracker.Config{NodeTimeout: -1}, p), loads: map[job.ID]load{}}
	for i, slots := range nodes {
		m.tr.Step(0, &tracker.Join{Node: cluster.Spec{Name: fmt.Sprint("n", i), MapSlots: slots[0], ReduceSlots: slots[1]}})
		m.slow = append(m.slow, [job.Kinds]float64{1, 1})
	}
	return m
}

func equal(n, maps, reduces int) [][job.Kinds]int {
	return slices.Repeat([][job.Kinds]int{{maps, reduces}}, n)
}

func (m *model) submit(slowStart float64, loads ...load) {
	for _, l := range loads {
		spec := job.Spec{Splits: make([]job.Split, l.maps), Reduces: l.reduces, Request: job.Request{SlowStart: slowStart, TaskTimeout: -1}}
		for _, e := range m.tr.Step(m.now, &tracker.Submit{Spec: spec}) {
			if e.Kind == tracker.JobAccepted {
				m.loads[e.Job] = l
			}
		}
	}
}

// makespan plays until nothing runs any more and returns when that was, in
// seconds.
func (m *model) makespan() float64 {
	for {
		m.poll()
		if m.watch != nil {
			m.watch(m)
		}
		if len(m.running) == 0 {
			break
		}
		m.advance()
	}
	if live := len(m.tr.Jobs().Live()); live > 0 {
		m.t.Errorf("stalled at %v with %d jobs", m.now, live)
	}
	return m.now.Seconds()
}

func (m *model) poll() {
	for moved := true; moved; {
		moved = false
		for i := range m.slow {
			moved = m.beat(i) || moved
		}
	}
}

// beat is a heartbeat of a node that asks for work.
func (m *model) beat(node int) bool {
	moved := false
	for _, e := range m.tr.Step(m.now, &tracker.Heartbeat{Node: fmt.Sprint("n", node)}) {
		if e.Kind != tracker.Launch {
			continue
		}
		moved = true
		if e.Attempt.Kind == job.Reduce && !m.tr.Jobs().Get(e.Job).MapsDone() {
			m.waiting = append(m.waiting, e.Attempt)
			continue
		}
		m.schedule(e.Attempt)
	}
	if s := m.tr.Stats(); s.Refused > 0 {
		m.t.Fatal(s.LastRefusal)
	}
	return moved
}

func (m *model) schedule(id job.AttemptID) {
	node, l := m.tr.Jobs().Attempt(id).Node(), m.loads[id.Job]
	seconds := [job.Kinds]float64{l.mapTime, l.reduceTime}[id.Kind] * m.slow[node][id.Kind]
	at := m.now + time.Duration(math.Round(seconds*1e9))
	i, _ := slices.BinarySearchFunc(m.running, at+1, func(r run, t time.Duration) int { return int(r.end - t) })
	m.running = slices.Insert(m.running, i, run{at, fmt.Sprint("n", node), id})
}

// advance ends the tasks that end next.
func (m *model) advance() {
	m.now = m.running[0].end
	for len(m.running) > 0 && m.running[0].end == m.now {
		r := m.running[0]
		m.running = m.running[1:]
		m.tr.Step(m.now, &tracker.Heartbeat{Node: r.node, NoWork: true,
			Reports: []tracker.Report{{Attempt: r.id, State: job.AttemptSucceeded}}})
	}
	waiting := m.waiting
	m.waiting = nil
	for _, id := range waiting {
		if m.tr.Jobs().Get(id.Job).MapsDone() {
			m.schedule(id)
		} else {
			m.waiting = append(m.waiting, id)
		}
	}
	if m.ended != nil {
		m.ended(m)
	}
}

// The five benchmarks at the midpoints of the paper's Table 4, by initial.
var benchmarks = map[rune]load{
	'C': {128, 15.3, 80, 12.7},
	'H': {128, 16.65, 80, 17.6},
	'I': {128, 11.25, 150, 32.3},
	'W': {128, 21.45, 80, 18.9},
	'G': {128, 15.9, 80, 21.1},
}

func mix(initials string) (loads []load) {
	for _, c := range initials {
		loads = append(loads, benchmarks[c])
	}
	return loads
}

// The makespans that an independent program computed for the reference model on 4 nodes
// of 4 slots, within 0.3 %: static splits of 1:3, 2:2 and 3:1 a node, and TuMM.
func TestTuMM_Section7(t *testing.T) {
	for _, c := range []struct {
		name  string
		loads []load
		want  [4]float64
	}{
		{"one job", []load{{48, 10, 24, 20}}, [4]float64{160, 120, 160, 80}},
		{"one map-only job", []load{{32, 10, 0, 0}}, [4]float64{80, 40, 30, 30}},
		{"map-heavy", slices.Repeat([]load{{160, 20, 32, 10}}, 3), [4]float64{2430, 1240, 880, 830}},
		{"reduce-heavy", slices.Repeat([]load{{112, 10, 80, 40}}, 3), [4]float64{1120, 1340, 2500, 940}},
		{"Classification", mix("CCC"), [4]float64{1557.7, 861.4, 930.3, 634.5}},
		{"Histogram Rating", mix("HHH"), [4]float64{1721.6, 975.2, 1239.2, 756.4}},
		{"Inverted Index", mix("III"), [4]float64{1587.4, 2021.1, 3773.7, 1351.2}},
		{"Word Count", mix("WWW"), [4]float64{2191.5, 1218.6, 1370.0, 909.2}},
		{"Grep", mix("GGG"), [4]float64{1674.1, 974.2, 1440.9, 799.0}},
		{"Johnson order", mix("IIGGWWHHCC"), [4]float64{5244.1, 2802.2, 5358.3, 2682.9}},
		{"inverse order", mix("CCHHWWGGII"), [4]float64{5602.7, 3656.0, 5402.8, 2777.3}},
		{"random order", mix("WICGHIWCHG"), [4]float64{5302.9, 2963.9, 5476.7, 2736.3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i, want := range c.want {
				p, maps := build(t, "slots=static"), i+1
				if i == 3 {
					p, maps = build(t, "slots=tumm"), 2
				}
				m := newModel(t, p, equal(4, maps, 4-maps)...)
				m.submit(1, c.loads...)
				if got := m.makespan(); math.Abs(got-want) > 0.003*want {
					t.Errorf("split %d: %.1f s, want %.1f s", i, got, want)
				}
			}
		})
	}
}
