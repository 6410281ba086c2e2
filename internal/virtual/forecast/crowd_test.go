package forecast

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/base/counters"
	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// TestMachinesOfAddedNodes checks where added nodes run, and that the answer says so.
func TestMachinesOfAddedNodes(t *testing.T) {
	const (
		own    = "the new nodes are there at once, each on a machine of its own"
		shared = "the new nodes are there at once, on a, whose 2 processors they share with 2 others"
	)
	for _, c := range []struct {
		hosts []string
		cores int
		on    Machine
		want  string
	}{
		{[]string{"a", "a"}, 2, LikeOthers, shared},
		{[]string{"a", "a"}, 2, PresentMachine, shared},
		{[]string{"a", "a"}, 2, NewMachine, own},
		{[]string{"a", "a"}, 0, LikeOthers, "the new nodes are there at once, on a, whose processors are unknown"},
		{[]string{"a", "b"}, 2, LikeOthers, own},
		{[]string{"a", "b"}, 2, PresentMachine, strings.Replace(shared, "2 others", "1 other", 1)},
		{[]string{"", ""}, 2, LikeOthers, own},
		{[]string{"a"}, 2, LikeOthers, own},
	} {
		s := &State{}
		for i, host := range c.hosts {
			s.Nodes = append(s.Nodes, Node{Spec: cluster.Spec{Name: fmt.Sprint("n", i), Host: host, Cores: c.cores}})
		}
		s, err := s.With(Variant{Nodes: 2, On: c.on})
		if err != nil {
			t.Fatal(err)
		}
		if got := NewRun(Config{}, s).assumptions()[3]; got != c.want {
			t.Errorf("%v, %d cores, %v: %q, want %q", c.hosts, c.cores, c.on, got, c.want)
		}
	}
}

// TestWaitForProcessors compares the wait with what follows from the conservation of processor time.
func TestWaitForProcessors(t *testing.T) {
	uses := func(n int, u float64) (list []float64) {
		for range n {
			list = append(list, u)
		}
		return list
	}
	for _, c := range []struct {
		what           string
		cores, others  float64
		uses           []float64
		of, takesTimes float64 // of an attempt with this use
	}{
		{"processors are free", 2, 0, uses(4, 0.5), 0.5, 1},
		{"twice the attempts on a busy machine", 2, 0, uses(8, 0.5), 0.5, 2},
		{"half of each time is reading", 2, 0, uses(6, 0.5), 0.5, 1.5},
		{"sleeping attempts beside computing ones", 2, 0, append(uses(4, 1), uses(10, 0)...), 0, 1},
		{"computing attempts beside sleeping ones", 2, 0, append(uses(4, 1), uses(10, 0)...), 1, 2},
		{"other work slows down, too", 2, 1, uses(2, 1), 1, 1.5},
	} {
		x := (&crowd{processors: c.cores, others: c.others}).wait(c.uses)
		if got := 1 + c.of*x; math.Abs(got-c.takesTimes) > 0.02 {
			t.Errorf("%s: an attempt takes %.3f times as long, want %.3f", c.what, got, c.takesTimes)
		}
	}
}

// TestNodesOnABusyMachine asks for two nodes more on the machine of two present ones: attempts that sleep gain as
// on machines of their own, and attempts that compute gain nothing.
func TestNodesOnABusyMachine(t *testing.T) {
	gain := func(cpu time.Duration, on Machine) time.Duration {
		f := newFixture(t, 0, 0, 0)
		for i := range 2 {
			f.step(&tracker.Join{Node: cluster.Spec{Name: fmt.Sprint("n", i), Host: "a", Cores: 2, MapSlots: 2}})
		}
		f.submit("first", 48, 0)
		for range 2 {
			f.now += 10 * time.Second
			for id, node := range f.run {
				delete(f.run, id)
				var c counters.Set
				c.Add(counters.CPU, int64(cpu))
				f.step(&tracker.Heartbeat{Node: node, Reports: []tracker.Report{{Attempt: id, State: job.AttemptSucceeded, Counters: &c}}})
			}
		}
		var c Copier
		for !c.Copy(f.tr, 10) {
		}
		run := func(v Variant) *Run {
			s, err := c.State().With(v)
			if err != nil {
				t.Fatal(err)
			}
			r := NewRun(Config{Policy: policy, OfferAtOnce: true, Heartbeat: time.Second, Seed: 1}, s)
			if _, err := r.Forecast(); err != nil {
				t.Fatal(err)
			}
			return r
		}
		g, ok := run(Variant{}).Gain(run(Variant{Nodes: 2, On: on}), 1)
		if !ok {
			t.Fatal("no gain is known")
		}
		return g.Median
	}
	elsewhere := gain(5*time.Second, NewMachine)
	near(t, "computing attempts on new machines", elsewhere, -50*time.Second, 6*time.Second)
	near(t, "sleeping attempts on the same machine", gain(10*time.Millisecond, PresentMachine), elsewhere, time.Second)
	near(t, "computing attempts on the same machine", gain(5*time.Second, PresentMachine), 0, 6*time.Second)
	near(t, "attempts that compute for a third", gain(10*time.Second/3, PresentMachine), -100*time.Second/3, 8*time.Second)
}
