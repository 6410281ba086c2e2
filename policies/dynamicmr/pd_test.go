package dynamicmr_test

import (
	"slices"
	"testing"

	"github.com/slotwise/slotwise/policies/dynamicmr"
	"github.com/slotwise/slotwise/policies/hadoop"
	"github.com/slotwise/slotwise/sched/job"
)

// pdBed is cluster Z where the node that asks uses the given map and reduce
// slots, and tasks of pool "z" run elsewhere so that the demand of all is total
// once the jobs of the example, wanting the tasks given, are added.
func pdBed(t *testing.T, cfg dynamicmr.DHSAConfig, pre dynamicmr.PrescheduleConfig, pools string, maps, reduces, total, wanting int) *bed {
	b := newBed(t, 9, 4, 2, cfg, pre, pools)
	b.use(maps, reduces, total-wanting)
	return b
}

// use runs tasks of pool z: on the first node as given, the rest of all elsewhere.
func (b *bed) use(maps, reduces, all int) {
	here := maps + reduces
	m := b.add("z", maps+min(max(0, all-here), 32), 0, "nowhere")
	r := b.add("z", 0, reduces+max(0, all-here-32))
	b.start(m, maps, job.Map, job.Map, b.all[0], 0)
	b.start(r, reduces, job.Reduce, job.Reduce, b.all[0], 0)
	b.spread(m, m.Pending(job.Map), job.Map, job.Map)
	b.spread(r, r.Pending(job.Reduce), job.Reduce, job.Reduce)
}

// local adds a job all of whose maps have their data on the first node.
func (b *bed) local(pool string, maps, reduces int) *job.Job {
	hosts := slices.Repeat([]string{"t0"}, max(1, maps))
	return b.add(pool, maps, reduces, hosts...)
}

func pd(t *testing.T, lendMaps, lendReduces string) dynamicmr.DHSAConfig {
	return cfgOf(t, dynamicmr.PD, lendMaps, lendReduces)
}

func TestDynamicMR_B1(t *testing.T) {
	b := pdBed(t, pd(t, "1", "1"), off, "", 4, 2, 74, 30)
	b.local("x", 30, 0)
	b.want("")
}

func TestDynamicMR_B2(t *testing.T) {
	b := pdBed(t, pd(t, "1", "1"), off, "", 3, 0, 27, 10)
	b.local("x", 10, 0)
	b.want("")
}

func TestDynamicMR_B3(t *testing.T) {
	for lend, want := range map[string]string{"1": "M@M:1 M@M:1 M@M:1 M@M:1 M@R:3 M@R:3", "0": "M@M:1 M@M:1 M@M:1 M@M:1"} {
		b := newBed(t, 9, 4, 2, pd(t, "1", lend), off, "")
		b.local("x", 60, 0)
		b.want(want)
	}
}

func TestDynamicMR_B4(t *testing.T) {
	b := newBed(t, 9, 4, 2, pd(t, "1", "1"), off, "")
	b.add("x", 0, 60)
	b.want("R@R:2 R@R:2 R@M:4 R@M:4 R@M:4 R@M:4")
	b = newBed(t, 9, 4, 2, pd(t, "0", "1"), off, "")
	b.add("x", 0, 60)
	b.want("R@R:2 R@R:2")
	b = newBed(t, 9, 4, 2, pd(t, "0.5", "1"), off, "")
	j := b.add("x", 0, 77)
	b.spread(j, 17, job.Reduce, job.Map)
	b.want("R@R:2 R@R:2 R@M:4")
}

func TestDynamicMR_B5(t *testing.T) {
	b := pdBed(t, pd(t, "1", "1"), off, "", 3, 1, 54, 4)
	b.local("x", 1, 3)
	b.want("M@M:1 R@R:2")
}

// By pools, the pool that runs less comes first with a reduce in a map slot;
// by phases, a phase without surplus lends nothing.
func TestDynamicMR_B6(t *testing.T) {
	for _, c := range []struct {
		mode       dynamicmr.Mode
		maps, reds int // pending
		want       string
	}{{dynamicmr.PD, 3, 1, "R@M:4/b M@M:1/a"}, {dynamicmr.PI, 20, 20, "M@M:1/a M@M:1/a"}} {
		b := newBed(t, 9, 4, 2, cfgOf(t, c.mode, "1", "1"), off, "")
		b.use(2, 2, 45)
		b.spreadAnywhere(b.local("a", 5+c.maps, 0), 5, job.Map)
		b.spreadAnywhere(b.add("b", 0, 2+c.reds), 2, job.Reduce)
		b.want(c.want)
	}
}

// spreadAnywhere runs tasks in whatever slots the nodes from the second on have.
func (b *bed) spreadAnywhere(j *job.Job, n int, k job.Kind) {
	for _, node := range b.all[1:] {
		for _, slot := range []job.Kind{k, k.Other()} {
			m := min(n, node.Free(slot))
			b.start(j, m, k, slot, node, 0)
			n -= m
		}
	}
	if n > 0 {
		b.t.Fatalf("no room for %d more", n)
	}
}

func TestDynamicMR_B7(t *testing.T) {
	for lend, want := range map[string]string{"1": "M@M:5 M@R:5", "0": "M@M:5"} {
		b := pdBed(t, pd(t, "1", lend), off, "", 3, 1, 54, 2)
		b.add("x", 2, 0, "t5")
		b.want(want)
	}
}

// The switch that makes Case 5 obey the wait for local data.
func TestFarMapsMayWait(t *testing.T) {
	c := pd(t, "1", "1")
	c.FarAtOnce = false
	b := pdBed(t, c, off, "", 3, 1, 54, 2)
	b.add("x", 2, 0, "t5")
	b.want("")
}

func TestDynamicMR_B8(t *testing.T) {
	b := newBed(t, 9, 4, 2, pd(t, "1", "1"), off, "")
	b.use(0, 0, 3)
	b.want("")
}

func TestDynamicMR_B9(t *testing.T) {
	b := newBed(t, 9, 4, 2, pd(t, "1", "1"), off, "")
	b.use(1, 0, 7)
	b.local("x", 20, 0)
	b.want("M@M:1 M@M:1")
}

func TestDynamicMR_B10(t *testing.T) {
	b := pdBed(t, pd(t, "1", "1"), off, "pool b minMaps=6", 2, 2, 54, 9)
	a, c := b.local("a", 3, 0), b.local("b", 6, 0)
	b.spreadAnywhere(a, 1, job.Map)
	b.spreadAnywhere(c, 4, job.Map)
	b.want("M@M:1/b M@M:1/b")
}

// Reduces go before the far maps of their own job where they may wait in lent
// slots, unless the last map slots are kept; by default they may not.
func TestDynamicMR_B11(t *testing.T) {
	c := pd(t, "1", "1")
	b := pdBed(t, c, off, "", 2, 2, 54, 10)
	b.add("x", 5, 5, "t5")
	b.want("M@M:5 M@M:5")
	c.Early = hadoop.EarlyOn
	b = pdBed(t, c, off, "", 2, 2, 54, 10)
	b.add("x", 5, 5, "t5")
	b.want("R@M:4 R@M:4")
	c.KeepMapSlots = 36
	b = pdBed(t, c, off, "", 2, 2, 54, 10)
	b.add("x", 5, 5, "t5")
	b.want("M@M:5 M@M:5")
}
