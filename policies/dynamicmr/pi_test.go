package dynamicmr_test

import (
	"math"
	"testing"

	"github.com/slotwise/slotwise/policies/dynamicmr"
	"github.com/slotwise/slotwise/policies/hadoop"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

var off = dynamicmr.PrescheduleConfig{}

// state of a cluster of 9 nodes of 4+2 slots. here holds
// the running tasks of the round's node, and all tasks of the cluster, in the order
// maps in map slots, reduces in map slots, reduces in reduce slots, maps in reduce
// slots.
type state struct {
	here, all  [4]int
	maps, reds int // pending
	local      int // of the pending maps; the others have their data elsewhere
}

var places = [4][2]job.Kind{{job.Map, job.Map}, {job.Reduce, job.Map}, {job.Reduce, job.Reduce}, {job.Map, job.Reduce}}

// piBed puts the cluster in a state. The maps belong to one job, the reduces to
// another one without maps.
func piBed(t *testing.T, lendMaps, lendReduces string, pre dynamicmr.PrescheduleConfig, s state) *bed {
	b := newBed(t, 9, 4, 2, cfgOf(t, dynamicmr.PI, lendMaps, lendReduces), pre, "")
	running := s.all[0] + s.all[3]
	hosts := make([]string, running+s.maps)
	for i := range hosts {
		hosts[i] = "nowhere"
		if i >= running && i < running+s.local {
			hosts[i] = "t0"
		}
	}
	m := b.add("x", running+s.maps, 0, hosts...)
	r := b.add("x", 0, s.all[1]+s.all[2]+s.reds)
	for i, p := range places {
		j := m
		if p[0] == job.Reduce {
			j = r
		}
		b.start(j, s.here[i], p[0], p[1], b.all[0], 0)
		b.spread(j, s.all[i]-s.here[i], p[0], p[1])
	}
	return b
}

func TestDynamicMR_A1(t *testing.T) {
	b := piBed(t, "1", "1", off, state{maps: 10, reds: 200, local: 1})
	b.want("M@M:1 R@R:2 R@R:2 R@M:4 R@M:4 R@M:4")
}

func TestDynamicMR_A2(t *testing.T) {
	b := piBed(t, "0", "1", off, state{maps: 10, reds: 200, local: 1})
	b.want("M@M:1 R@R:2 R@R:2")
}

// Two map slots are available; with no local map both are lent, since 8 are
// left of the quota of 18 and 16 of the surplus.
func TestDynamicMR_A3(t *testing.T) {
	s := state{here: [4]int{0, 2, 2, 0}, all: [4]int{5, 10, 18, 0}, maps: 5, reds: 90}
	piBed(t, "0.5", "1", off, s).want("R@M:4 R@M:4")
	s.local = 5
	piBed(t, "0.5", "1", off, s).want("M@M:1 M@M:1")
}

func TestDynamicMR_A4(t *testing.T) {
	piBed(t, "1", "1", off, state{here: [4]int{4, 0, 1, 0}, all: [4]int{36, 0, 4, 0}, maps: 50, local: 50}).want("M@R:3")
}

func TestDynamicMR_A5(t *testing.T) {
	piBed(t, "1", "1", off, state{here: [4]int{4, 0, 2, 0}, all: [4]int{36, 0, 18, 0}}).want("")
	piBed(t, "1", "1", off, state{here: [4]int{4, 0, 2, 0}, all: [4]int{36, 0, 18, 0}, reds: 50}).want("")
	piBed(t, "1", "1", off, state{here: [4]int{0, 0, 2, 0}, all: [4]int{30, 0, 18, 0}}).want("")
}

// Reading 2 in README.md: 12 slots are lent and 9 may be after the quota was lowered.
func TestDynamicMR_A6(t *testing.T) {
	piBed(t, "0.25", "1", off, state{here: [4]int{0, 0, 2, 0}, all: [4]int{0, 12, 18, 0}, reds: 90}).want("")
}

// Reading 1 in README.md: by D = U + P all 36 map slots are lent, by the literal demand 26.
func TestDynamicMR_A7(t *testing.T) {
	for _, c := range []struct {
		lend string
		each int
	}{{"1", 4}, {"0.5", 2}} {
		b := piBed(t, c.lend, "1", off, state{here: [4]int{0, 0, 2, 0}, all: [4]int{0, 0, 18, 0}, reds: 182})
		for range 3 {
			for _, n := range b.all {
				b.heartbeat(n)
			}
		}
		for _, n := range b.all {
			if got := n.RunningOn(job.Reduce, job.Map); got != c.each {
				t.Errorf("with %s, %s lends %d, want %d", c.lend, n.Name(), got, c.each)
			}
		}
	}
	if got, want := literalA7(), [9]int{4, 4, 4, 3, 3, 2, 2, 2, 2}; got != want {
		t.Errorf("literal reading lends %v, want %v", got, want)
	}
}

// literalA7 is Alg 1 with the demand of Hadoop's fair scheduler, running and
// pending tasks of a kind: lent slots are in use but not in demand.
func literalA7() (lent [9]int) {
	const slots, reduceSlots, quota = 36, 18, 36
	running, pending := 18, 182
	for range 5 {
		for n := range lent {
			borrowed := running - 18
			extra := min(max(quota-borrowed, 0), running+pending-reduceSlots)
			line := min((extra*4+slots-1)/slots, 4)
			for give := min(line-lent[n], extra, pending); give > 0; give-- {
				lent[n]++
				running++
				pending--
			}
		}
	}
	return lent
}

func TestDynamicMR_A8(t *testing.T) {
	b := newBed(t, 1, 4, 0, cfgOf(t, dynamicmr.PI, "1", "1"), off, "")
	b.add("x", 0, 3)
	b.want("R@M:4 R@M:4 R@M:4")
}

func TestDynamicMR_A9(t *testing.T) {
	piBed(t, "1", "1", off, state{}).want("")
}

// Reading 2 in README.md: counted by task and slot 4 map slots are lent, so that 14 more make the
// quota of 18; U − run would give −2 and 20 more.
func TestDynamicMR_A10(t *testing.T) {
	b := piBed(t, "0.5", "1", off, state{here: [4]int{0, 0, 2, 0}, all: [4]int{6, 4, 12, 6}, reds: 40})
	for range 3 {
		for _, n := range b.all {
			b.heartbeat(n)
		}
	}
	if got := b.View.Jobs().RunningOn(job.Reduce, job.Map); got != 18 {
		t.Errorf("%d map slots are lent, want 18", got)
	}
}

// Reading 4 in README.md: three maps wait for closer nodes and are counted on three of the four map
// slots, so only one is lent although the quota is four.
func TestSurplusBoundsLending(t *testing.T) {
	b := newBed(t, 1, 4, 1, cfgOf(t, dynamicmr.PI, "1", "1"), off, "")
	b.add("x", 3, 0, "elsewhere")
	b.add("x", 0, 9)
	b.want("R@R:2 R@M:4")
}

// E: the wave model of the sweep: 320 maps of time 1, then 200 reduces of time
// 0.3816, on cluster Z, no overlap. It calibrates a simulator and is no data of
// the paper.
func TestDynamicMR_E(t *testing.T) {
	const reduceTime = 0.3816
	base := 0.0
	for _, c := range []struct {
		lendMaps, lendReduces string
		maps, reduces         int // waves
		speedUp               float64
	}{{"0", "0", 9, 12, 1}, {"0.25", "0", 9, 8, 1.127}, {"0.5", "0", 9, 6, 1.203}, {"0.75", "0", 9, 5, 1.245}, {"1", "0", 9, 4, 1.29},
		{"0", "1", 6, 12, 1.284}, {"1", "1", 6, 4, 1.804}} {
		for _, mode := range []dynamicmr.Mode{dynamicmr.PI, dynamicmr.PD} {
			b := bedOf(t, 9, 4, 2, sched.Compose(dynamicmr.NewDHSA(cfgOf(t, mode, c.lendMaps, c.lendReduces)), hadoop.NewFIFO(),
				hadoop.NewGreedy(false), &hadoop.None{}))
			b.add("x", 320, 0)
			maps := b.waves()
			b.add("x", 0, 200)
			reduces := b.waves()
			if maps != c.maps || reduces != c.reduces {
				t.Errorf("%v %s/%s: %d and %d waves, want %d and %d", mode, c.lendMaps, c.lendReduces, maps, reduces, c.maps, c.reduces)
			}
			took := float64(maps) + reduceTime*float64(reduces)
			if base == 0 {
				base = took
			}
			if math.Abs(base/took-c.speedUp) > 5e-4 {
				t.Errorf("%v %s/%s: speed-up %.4f, want %.3f", mode, c.lendMaps, c.lendReduces, base/took, c.speedUp)
			}
		}
	}
}

// waves counts how often all nodes must be filled until nothing waits.
func (b *bed) waves() (n int) {
	for ; ; n++ {
		for _, node := range b.all {
			b.heartbeat(node)
		}
		if b.View.Jobs().Running(job.Map)+b.View.Jobs().Running(job.Reduce) == 0 {
			return n
		}
		b.finishAll()
	}
}

// finishAll lets all running attempts succeed.
func (b *bed) finishAll() {
	for _, a := range b.Running() {
		b.End(a, true)
	}
}
