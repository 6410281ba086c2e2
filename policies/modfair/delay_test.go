package modfair

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

const ms = time.Millisecond

func newDynamic(window int) *Dynamic {
	return NewDynamic(DynamicConfig{Delay: 3000 * ms, Memory: true, Window: window})
}

// Examples of Eq. 7 and 8: samples, the two stages that
// follow, and the level allowed after some wait.
func TestModFair_T(t *testing.T) {
	type at struct {
		last, want cluster.Level
		wait       time.Duration
	}
	const nd, rk, no = cluster.NODE, cluster.RACK, cluster.ANY
	for _, c := range []struct {
		name        string
		node, rack  []time.Duration
		first, next time.Duration
		at          []at
	}{
		{"T1", nil, nil, 3000, 3000, []at{{nd, nd, 0}, {nd, nd, 2999}, {nd, rk, 3000}, {nd, rk, 5999}, {nd, no, 6000}}},
		{"T2", []time.Duration{0, 1000, 2000}, nil, 1000, 3000, []at{{nd, nd, 999}, {nd, rk, 1000}, {nd, rk, 3999}, {nd, no, 4000}}},
		{"T3", []time.Duration{0, 1000, 2000}, []time.Duration{2500, 3500}, 1000, 2000, []at{{nd, nd, 999}, {nd, rk, 1000},
			{nd, rk, 2999}, {nd, no, 3000}, {rk, rk, 1999}, {rk, no, 2000}, {no, no, 0}}},
		{"T4", []time.Duration{1000}, []time.Duration{400}, 1000, 0, []at{{nd, nd, 999}, {nd, no, 1000}}},
		{"T5", []time.Duration{0, 0}, nil, 0, 3000, []at{{nd, rk, 0}, {nd, rk, 2999}, {nd, no, 3000}}},
		{"T5 rack", []time.Duration{0, 0}, []time.Duration{0}, 0, 0, []at{{nd, no, 0}}},
		{"T6", nil, []time.Duration{7000}, 3000, 4000, []at{{nd, nd, 2999}, {nd, rk, 3000}, {nd, rk, 6999}, {nd, no, 7000}}},
	} {
		jobs := job.NewBook(cluster.NewBook(), 0)
		d := newDynamic(0)
		play := func(level cluster.Level, waits []time.Duration) {
			for _, wait := range waits {
				j := jobs.Add(job.Spec{Splits: []job.Split{{Hosts: []string{"h"}}}}, 0)
				d.JobAdded(j)
				d.Wait(j).Waited = wait * ms
				d.TaskStarted(jobs.Start(j.Task(job.Map, 0), job.Launch{Level: level}, 0), 0)
				if d.Wait(j).Waited != 0 || d.Wait(j).Level != level {
					t.Errorf("%s: a launch leaves %+v", c.name, *d.Wait(j))
				}
			}
		}
		play(cluster.NODE, c.node)
		play(cluster.RACK, c.rack)
		play(cluster.ANY, []time.Duration{9, 99}) // changes no counter
		if node, rack := d.Waits(); node != c.first*ms || rack != c.next*ms {
			t.Errorf("%s: waits %v and %v, want %d and %d ms", c.name, node, rack, c.first, c.next)
		}
		j := jobs.Add(job.Spec{Splits: []job.Split{{Hosts: []string{"h"}}}}, 0)
		d.JobAdded(j)
		for _, a := range c.at {
			d.Wait(j).Level, d.Wait(j).Waited = a.last, a.wait*ms
			if got, _ := d.Allowed(&sched.Round{}, sched.Offer{}, j); got != a.want {
				t.Errorf("%s: after %d ms, last map at %v: %v allowed, want %v", c.name, a.wait, a.last, got, a.want)
			}
		}
	}
}

// Without memory the last map's level does not matter.
func TestDynamicWithoutMemory(t *testing.T) {
	jobs := job.NewBook(cluster.NewBook(), 0)
	d := NewDynamic(DynamicConfig{Delay: 3000 * ms})
	j := jobs.Add(job.Spec{Splits: []job.Split{{Hosts: []string{"h"}}, {Hosts: []string{"h"}}}}, 0)
	d.JobAdded(j)
	d.TaskStarted(jobs.Start(j.Task(job.Map, 0), job.Launch{Level: cluster.ANY}, 0), 0)
	if got, limit := d.Allowed(&sched.Round{}, sched.Offer{}, j); got != cluster.NODE || limit != 6000*ms {
		t.Errorf("%v allowed, anywhere after %v", got, limit)
	}
}

// TestQueued: the wait of a map is the time since its job was submitted, whether or not the job
// has declined slots.
func TestQueued(t *testing.T) {
	jobs := job.NewBook(cluster.NewBook(), 0)
	d := NewDynamic(DynamicConfig{Delay: 3000 * ms, Memory: true, Queued: true})
	j := jobs.Add(job.Spec{Splits: []job.Split{{Hosts: []string{"h"}}, {Hosts: []string{"h"}}}}, 2*time.Second)
	d.JobAdded(j)
	for i, now := range []time.Duration{6 * time.Second, 12 * time.Second} {
		d.Wait(j).Waited = time.Second
		d.TaskStarted(jobs.Start(j.Task(job.Map, int32(i)), job.Launch{Level: cluster.NODE}, now), now)
	}
	if node, rack := d.Waits(); node != 7*time.Second || rack != 3*time.Second {
		t.Errorf("waits %v and %v, want the mean of 4 s and 10 s, and 3 s", node, rack)
	}
}

// A copy is no sample; neither is a reduce.
func TestDynamicSamples(t *testing.T) {
	jobs := job.NewBook(cluster.NewBook(), 0)
	d := newDynamic(0)
	j := jobs.Add(job.Spec{Splits: []job.Split{{Hosts: []string{"h"}}, {Hosts: []string{"h"}}}, Reduces: 1, Request: job.Request{SlowStart: -1}}, 0)
	d.JobAdded(j)
	if got := d.Explain(j, job.Map, 0); got != "" {
		t.Errorf("explained before anything was measured: %q", got)
	}
	d.Wait(j).Waited = 100 * ms
	d.TaskStarted(jobs.Start(j.Task(job.Reduce, 0), job.Launch{Level: cluster.NODE}, 0), 0)
	d.TaskStarted(jobs.Start(j.Task(job.Map, 0), job.Launch{Level: cluster.NODE, Speculative: true}, 0), 0)
	if d.node.count != 0 {
		t.Errorf("%d samples", d.node.count)
	}
	d.node.add(1500 * ms)
	d.rack.add(1700 * ms)
	d.measure()
	want := "as long as earlier maps waited on average, a job declines machines without its data: for 1.5s any such machine, then for 200ms machines in other racks"
	if got := d.Explain(j, job.Map, 0); got != want {
		t.Errorf("explained as %q", got)
	}
	*d = *newDynamic(0)
	d.JobAdded(j)
	d.node.add(0)
	d.rack.add(0)
	d.measure()
	if got := d.Explain(j, job.Map, 0); !strings.Contains(got, "without waiting") {
		t.Errorf("explained as %q", got)
	}
}

// A mean over a window equals one over the last samples written down.
func TestMeanAgainstList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		window := rapid.IntRange(0, 4).Draw(t, "window")
		samples := rapid.SliceOfN(rapid.IntRange(0, 9), 1, 20).Draw(t, "samples")
		m, last := mean{window: window}, []int(nil)
		for _, s := range samples {
			m.add(time.Duration(s))
			if last = append(last, s); window > 0 && len(last) > window {
				last = last[1:]
			}
			sum := 0
			for _, x := range last {
				sum += x
			}
			if want := time.Duration((sum + len(last) - 1) / len(last)); m.value() != want || m.count != int64(len(last)) {
				t.Fatalf("mean %v of %d, want %v of %d", m.value(), m.count, want, len(last))
			}
		}
	})
}

// Sums of queueing times stay below 2^63 nanoseconds, with a window and without. A negative mean would end
// all waiting, and its state could not be loaded.
func TestLongWaits(t *testing.T) {
	for _, window := range []int{0, 2} {
		d := newDynamic(window)
		d.node = mean{window: window}
		if window == 0 {
			d.node.sum, d.node.count = math.MaxInt64-1, math.MaxInt64/int64(time.Hour)
		}
		for range 3 {
			d.node.add(math.MaxInt64 / 2)
		}
		if got := d.node.value(); got < time.Hour || got > longest {
			t.Errorf("window %d: mean %v", window, got)
		}
		state, err := d.Save()
		if err != nil {
			t.Fatal(err)
		}
		if err := newDynamic(window).Load(state); err != nil {
			t.Errorf("window %d: %v", window, err)
		}
	}
}

// Saved state loads under the same window and under other windows.
func TestDynamicState(t *testing.T) {
	d := newDynamic(3)
	for i := range 5 {
		d.node.add(time.Duration(i) * ms)
	}
	d.rack.add(9 * ms)
	d.measure()
	state, err := d.Save()
	if err != nil {
		t.Fatal(err)
	}
	for window, want := range map[int]string{3: "3ms 6ms", 0: "3ms 6ms", 2: "3.5ms 5.5ms"} {
		e := newDynamic(window)
		err := e.Load(state)
		node, rack := e.Waits()
		if got := fmt.Sprint(node, " ", rack); err != nil || got != want {
			t.Errorf("window %d: %s, %v, want %s", window, got, err, want)
		}
	}
	again := newDynamic(3)
	if err := again.Load(state); err != nil {
		t.Fatal(err)
	}
	again.node.add(0)
	d.node.add(0)
	if again.node.value() != d.node.value() {
		t.Errorf("loaded and saved part: %v, %v", again.node.value(), d.node.value())
	}
}

// Damaged or foreign state is rejected and changes nothing.
func TestDynamicStateRefused(t *testing.T) {
	good := `{"kind":"delay-dynamic","version":1,"node":{"sum_ns":5,"count":1},"rack":{"sum_ns":0,"count":0}}`
	d := newDynamic(0)
	if err := d.Load([]byte(good)); err != nil {
		t.Fatal(err)
	}
	before := fmt.Sprint(*d)
	for what, state := range map[string]string{
		"empty":          "",
		"cut off":        good[:len(good)-1],
		"more":           good + "{}",
		"foreign":        strings.Replace(good, "delay-dynamic", "tumm", 1),
		"version":        strings.Replace(good, `"version":1`, `"version":2`, 1),
		"unknown field":  strings.Replace(good, `"version"`, `"x":1,"version"`, 1),
		"negative":       strings.Replace(good, `"sum_ns":0`, `"sum_ns":-1`, 1),
		"negative count": strings.Replace(good, `"count":0`, `"count":-2`, 1),
		"sum of nothing": strings.Replace(good, `"sum_ns":0`, `"sum_ns":3`, 1),
		"no number":      strings.Replace(good, `"count":1`, `"count":"1"`, 1),
		"wrong sum":      strings.Replace(good, `"count":1`, `"count":1,"recent_ns":[4]`, 1),
		"bad sample":     strings.Replace(good, `"count":1`, `"count":2,"recent_ns":[6,-1]`, 1),
	} {
		if err := d.Load([]byte(state)); err == nil || !strings.HasPrefix(err.Error(), "state of delay-dynamic: ") {
			t.Errorf("%s: %v", what, err)
		}
		if after := fmt.Sprint(*d); after != before {
			t.Errorf("%s: %s became %s", what, before, after)
		}
	}
}

// Invalid values are rejected by the parameter that they were given for.
func TestDynamicRejects(t *testing.T) {
	for _, set := range []string{"delay=-1s", "delay=x", "delay=", "delay-window=-1", "delay-window=1048577", "delay-window=x",
		"delay-memory=yes", "wait-until=never", "off-rack=last"} {
		name, value, _ := strings.Cut(set, "=")
		_, err := ReadDynamic(sched.NewKit(sched.Options{Set: map[string]string{name: value}}))
		if err == nil || !strings.Contains(err.Error(), "parameter "+name+": bad value") {
			t.Errorf("%s: error %v", set, err)
		}
	}
	p, err := ReadDynamic(sched.NewKit(sched.Options{Set: map[string]string{"delay-memory": "off", "delay": "0s"}}))
	if d, ok := p.(*Dynamic); err != nil || !ok || d.memory || d.first != 0 {
		t.Errorf("got %+v, %v", p, err)
	}
}
