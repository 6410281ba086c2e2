package sim

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/job"
)

// flow is a transfer into a node from its own rack or another.
type flow struct {
	node   int
	far    bool
	weight float64
}

// ratesOf starts transfers at the same time and returns the rate of each.
func ratesOf(t testing.TB, racks, perRack int, nic, uplink, core float64, flows []flow) []float64 {
	cfg := Config{Policy: policy(t, "fifo"), Cluster: workload.Cluster{Racks: racks, RackUplink: uplink, CoreLink: core,
		Groups: []workload.NodeGroup{{Count: racks * perRack, MapSlots: 9, NICBandwidth: nic}}}}
	s, err := prepare(cfg)
	if err != nil {
		t.Fatal(err)
	}
	places := make([]int32, len(flows))
	for i, f := range flows {
		at := s.allot(&s.nodes[f.node])
		places[i], s.attempts[at].node = at, int32(f.node)
		u := useNear
		if f.far {
			u = useFar
		}
		s.enter(at, u, 1e9, f.weight)
		s.share() // after each, so that changes are followed
	}
	rates := make([]float64, len(flows))
	for i, f := range flows {
		rates[i] = s.nodes[f.node].plant.station[s.attempts[places[i]].station].rate
	}
	return rates
}

// The rates of some transfers, solved by hand. Nodes go to the racks in turn: with two
// racks, nodes 0 and 2 are in the first.
func TestNetworkShares(t *testing.T) {
	inf := 0.
	for _, c := range []struct {
		name              string
		nic, uplink, core float64
		flows             []flow
		want              []float64
	}{
		{"one has the NIC", 100, inf, inf, []flow{{0, false, 0}}, []float64{100}},
		{"two share it", 100, inf, inf, []flow{{0, false, 0}, {0, true, 1}}, []float64{50, 50}},
		{"the uplink is shared", 100, 120, inf, []flow{{0, true, 1}, {2, true, 1}}, []float64{60, 60}},
		{"what a NIC cannot take goes to others", 100, 120, inf,
			[]flow{{0, true, 1}, {0, false, 0}, {2, true, 1}}, []float64{50, 50, 70}},
		{"what an uplink cannot take stays in the rack", 100, 30, inf,
			[]flow{{0, true, 1}, {0, false, 0}, {2, true, 1}}, []float64{15, 85, 15}},
		{"the core is shared after the uplinks", 100, 30, 50,
			[]flow{{0, true, 1}, {2, true, 1}, {1, true, 1}}, []float64{15, 15, 20}},
		{"half of a fetch comes from the rack", 100, 30, inf,
			[]flow{{0, true, .5}, {2, true, 1}}, []float64{20, 20}},
		{"no NIC to speak of", inf, 40, inf, []flow{{0, true, 1}, {2, true, 1}}, []float64{20, 20}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ratesOf(t, 2, 2, c.nic, c.uplink, c.core, c.flows)
			for i := range got {
				if math.Abs(got[i]-c.want[i]) > 1e-9 {
					t.Fatalf("rates %v, want %v", got, c.want)
				}
			}
		})
	}
}

// A second transfer slows the first one down for a while. The first gets 50 alone in half
// a second, 25 beside the second, and 25 alone again.
func TestNetworkOverTime(t *testing.T) {
	cfg := Config{Policy: policy(t, "fifo"), Cluster: workload.Cluster{Racks: 2,
		Groups: []workload.NodeGroup{{Count: 2, MapSlots: 9, NICBandwidth: 100}}}}
	s, err := prepare(cfg)
	if err != nil {
		t.Fatal(err)
	}
	nd := &s.nodes[0]
	first, second := s.allot(nd), s.allot(nd)
	s.enter(first, useNear, 100, 0)
	s.share()
	s.now = 500 * time.Millisecond
	s.enter(second, useFar, 25, 1)
	s.share()
	if nd.plant.next != time.Second {
		t.Fatalf("the second is done at %v, want 1s", nd.plant.next)
	}
	s.now = time.Second
	s.leave(second)
	s.share()
	if nd.plant.next != 1250*time.Millisecond {
		t.Errorf("the first is done at %v, want 1.25s", nd.plant.next)
	}
}

// The progress of a reduce is a third for the shuffle, a third for the merge and a third
// for the reduce function.
func TestProgress(t *testing.T) {
	cl := workload.Cluster{Racks: 1, Heartbeat: "fixed:100ms", Groups: []workload.NodeGroup{
		{Count: 2, Cores: 1, MapSlots: 1, ReduceSlots: 1, NICBandwidth: 10}}}
	j := workload.Job{Request: job.Request{SlowStart: 1}, Maps: tasks(1, workload.Task{CPU: 10 * time.Second, Output: 100}),
		Reduces: tasks(1, workload.Task{CPU: 10 * time.Second})}
	got := map[time.Duration]float64{}
	run(t, Config{Cluster: cl, Jobs: []workload.Job{j}, Trace: func(now time.Duration, ev tracker.Event, _ []tracker.Effect) {
		if hb, ok := ev.(*tracker.Heartbeat); ok && len(hb.Reports) > 0 {
			got[now.Truncate(time.Second)] = hb.Reports[0].Progress
		}
	}})
	// The map takes 10 s, the fetch 10 s, the reduce 10 s.
	for at, want := range map[time.Duration]float64{2: .29, 7: .79, 14: .49 / 3, 24: 1./3 + .49*2/3} {
		if math.Abs(got[at*time.Second]-want) > 0.011 {
			t.Errorf("progress after about %d s is %v, want %v", at, got[at*time.Second], want)
		}
	}
}

// The rates are max-min fair by the textbook's definition: raise all rates together, and
// when a link is full, freeze the transfers on it.
func TestNetworkAgainstFilling(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		racks, perRack := rapid.IntRange(1, 3).Draw(rt, "racks"), rapid.IntRange(1, 3).Draw(rt, "nodes")
		some := rapid.SampledFrom([]float64{0, 20, 35, 50, 100, 300})
		nic := rapid.SampledFrom([]float64{10, 40, 100}).Draw(rt, "nic")
		uplink, core := some.Draw(rt, "uplink"), some.Draw(rt, "core")
		var flows []flow
		for range rapid.IntRange(1, 12).Draw(rt, "flows") {
			f := flow{node: rapid.IntRange(0, racks*perRack-1).Draw(rt, "node")}
			if f.far = racks > 1 && rapid.Bool().Draw(rt, "far"); f.far {
				f.weight = rapid.SampledFrom([]float64{0.25, 0.5, 1}).Draw(rt, "weight")
			}
			flows = append(flows, f)
		}
		got, want := ratesOf(t, racks, perRack, nic, uplink, core, flows), filling(racks, nic, uplink, core, flows)
		for i := range got {
			if math.Abs(got[i]-want[i]) > 1e-6*want[i] {
				rt.Fatalf("flows %v: rates %v, by filling %v", flows, got, want)
			}
		}
	})
}

// filling computes the rates by progressive filling over all links.
func filling(racks int, nic, uplink, core float64, flows []flow) []float64 {
	type link struct{ left, demand float64 }
	rates, done := make([]float64, len(flows)), make([]bool, len(flows))
	for {
		links := map[string]*link{}
		on := func(f flow) (names []string, weights []float64, limits []float64) {
			names, weights, limits = []string{fmt.Sprint("nic", f.node)}, []float64{1}, []float64{nic}
			if f.far {
				names = append(names, fmt.Sprint("rack", f.node%racks), "core")
				weights, limits = append(weights, f.weight, f.weight), append(limits, limit(uplink), limit(core))
			}
			return
		}
		for i, f := range flows {
			names, weights, limits := on(f)
			for k, name := range names {
				if links[name] == nil {
					links[name] = &link{left: limits[k]}
				}
				links[name].left -= rates[i] * weights[k]
				if !done[i] {
					links[name].demand += weights[k]
				}
			}
		}
		step := math.Inf(1)
		for _, l := range links {
			if l.demand > 0 {
				step = min(step, l.left/l.demand)
			}
		}
		if math.IsInf(step, 1) {
			return rates
		}
		for i, f := range flows {
			if done[i] {
				continue
			}
			rates[i] += step
			for _, name := range first(on(f)) {
				if l := links[name]; !math.IsInf(l.left, 1) && l.left-step*l.demand <= 1e-9*(1+l.left) {
					done[i] = true
				}
			}
		}
	}
}

func first(names []string, _, _ []float64) []string { return names }
