package modfair

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// Worked examples of Figures 6 to 9 and Table 3.

// sizes adds jobs of those sizes, the i-th to pool P(i mod 3 + 1).
func (w *fixture) sizes(list ...int) (jobs []*job.Job) {
	for i, n := range list {
		jobs = append(jobs, w.add(fmt.Sprint("P", i%3+1), n, 1))
	}
	w.o.update()
	return jobs
}

func TestModFair_C1(t *testing.T) {
	w := newWorld(t, paper()).join(cluster8(2)...)
	w.update()
	expect(t, "census", w.o.census(), census{})
	expect(t, "enabled", w.o.enabled, false)
	expect(t, "grant", w.o.grant, [2]int{})
	j := w.add("P1", 0, 2)
	expect(t, "reduces only", w.o.enabled, false)
	w.Kill(j)
	w.update()
	expect(t, "pools", len(w.o.pools), 0)
}

func TestModFair_C2(t *testing.T) {
	w := newWorld(t, paper()).join(cluster8(4)...)
	w.sizes(6, 6, 6, 6, 6)
	expect(t, "enabled", w.o.enabled, false)
	expect(t, "where", w.where(), "P1 P2 P3 P1 P2")
}

func TestModFair_C3(t *testing.T) {
	for copies := 1; copies <= 3; copies++ {
		w := newWorld(t, paper()).join(cluster8(2)...)
		var list []int
		for _, n := range []int{6, 10, 16, 21, 25} {
			for range copies {
				list = append(list, n)
			}
		}
		w.sizes(list...)
		expect(t, "enabled", w.o.enabled, true)
		expect(t, "census", w.o.census(), census{total: 5 * copies, small: copies, maps: 6, reduces: 1, fewest: copies})
		expect(t, "in the shared pool", w.o.shared.size, copies)
		for i, m := range w.o.members {
			expect(t, "job in the shared pool", m.at.shared, i < copies)
		}
	}
}

func TestModFair_C4_C5_C6_C10(t *testing.T) {
	for _, c := range []struct {
		name  string
		nodes []int
		sizes []int
		want  bool
	}{
		{"C4 equal 1/4", same(4, 4), []int{2, 5, 5, 5}, true},
		{"C4 equal 2/8", same(4, 4), []int{2, 2, 5, 5, 5, 5, 5, 5}, true},
		{"C4 2/7", same(4, 4), []int{2, 2, 5, 5, 5, 5, 5}, false},
		{"C5 alone", cluster8(2), []int{6}, false},
		{"C6 one", same(5, 1), []int{3}, true},
		{"C6 two", same(5, 1), []int{3, 3}, true},
		{"C10 1/4", []int{2, 4, 4, 6}, []int{2, 5, 5, 5}, true},
		{"C10 1/3", []int{2, 4, 4, 6}, []int{2, 5, 5}, false},
		{"no nodes", nil, []int{3, 4}, false},
	} {
		w := newWorld(t, paper()).join(c.nodes...)
		w.sizes(c.sizes...)
		expect(t, c.name, w.o.enabled, c.want)
	}
}

// A drained node has no slot for a small job, so it must not raise the threshold. Of eight nodes with two
// map slots two are left: their threshold is still 1/2.
func TestThresholdOfOpenNodes(t *testing.T) {
	w := newWorld(t, paper()).join(cluster8(2)...)
	w.sizes(2, 2, 5)
	expect(t, "2/3 on 8 nodes", w.o.enabled, false)
	for _, n := range w.Nodes.List().All()[2:] {
		w.Nodes.Drain(n, true, 0)
	}
	w.o.CapacityChanged()
	expect(t, "2/3 on 2 nodes of 8", w.o.enabled, false)
	w.sizes(5)
	expect(t, "2/4 on 2 nodes of 8", w.o.enabled, true)
}

func TestModFair_C7(t *testing.T) {
	cfg := paper()
	cfg.Classify = ClassifySubmit
	w := newWorld(t, cfg).join(cluster8(2)...)
	w.sizes(6, 10, 16, 21, 25)
	expect(t, "where", w.where(), "P1 P2 P3 P1 P2")
	w.update()
	expect(t, "later", w.where(), "P1 P2 P3 P1 P2")
}

func TestModFair_C8(t *testing.T) {
	cfg := paper()
	cfg.Classify = ClassifySubmit
	w := newWorld(t, cfg).join(cluster8(2)...)
	jobs := w.sizes(25, 21, 16, 10, 6)
	expect(t, "where", w.where(), "P1 S S S S")
	for _, j := range jobs[1:4] {
		w.Kill(j)
	}
	w.Kill(jobs[0])
	w.update()
	expect(t, "the last is alone, and stays", w.where(), "S")
	expect(t, "served", w.served(), jobs[4].ID())
}

func TestModFair_C9(t *testing.T) {
	w := newWorld(t, paper()).join(cluster8(2)...)
	jobs := w.sizes(6, 10, 16, 21, 25)
	for i, grant := range []int{3, 5, 8, 11} {
		expect(t, "enabled", w.o.enabled, true)
		expect(t, "small", w.o.census().maps, jobs[i].Total(job.Map))
		expect(t, "shared", w.o.bySeat[jobs[i].Seat()].at.shared, true)
		expect(t, "grant", w.o.sharedQuota(job.Map), grant)
		w.Kill(jobs[i])
		w.update()
	}
	expect(t, "alone", w.o.enabled, false)
	expect(t, "where", w.where(), "P2")
}

func TestModFair_Grant(t *testing.T) {
	for _, c := range []struct{ maps, reduces, m, r int }{
		{1, 1, 1, 1}, {2, 1, 1, 1}, {4, 2, 2, 1}, {5, 1, 3, 1}, {6, 1, 3, 1}, {10, 1, 5, 1}, {25, 1, 13, 1}, {40, 1, 16, 1},
	} {
		w := newWorld(t, paper()).join(cluster8(2)...)
		w.add("P1", c.maps, c.reduces)
		w.add("P2", 50, 9)
		expect(t, fmt.Sprint(c.maps, " maps"), w.o.sharedQuota(job.Map), c.m)
		expect(t, fmt.Sprint(c.maps, " maps, reduces"), w.o.sharedQuota(job.Reduce), c.r)
	}
}

func TestModFair_GrantIsKeptUntilReleased(t *testing.T) {
	w := newWorld(t, paper()).join(cluster8(2)...)
	a := w.add("P1", 6, 1)
	w.add("P2", 50, 1)
	expect(t, "first", w.o.sharedQuota(job.Map), 3)
	b := w.add("P3", 2, 1)
	expect(t, "where", w.where(), "P1 P2 S")
	expect(t, "kept", w.o.sharedQuota(job.Map), 3)
	w.Kill(b)
	expect(t, "until the next update", w.o.sharedQuota(job.Map), 3)
	w.update()
	expect(t, "anew", w.o.sharedQuota(job.Map), 3)
	w.Kill(a)
	w.update()
	expect(t, "disabled", w.o.sharedQuota(job.Map), 0)
	w.add("P3", 10, 1)
	expect(t, "anew", w.o.sharedQuota(job.Map), 5)
}

// A job without reduces must not decide that small jobs get no reduce slot.
func TestGrantCountsOnlyJobsWithReduces(t *testing.T) {
	for _, small := range [][]int{{0, 5, 3}, {5, 0, 3}, {3, 5, 0}} {
		w := newWorld(t, paper()).join(cluster8(2)...)
		for range 5 {
			w.add("P2", 50, 1)
		}
		w.o.cfg.Classify = ClassifyOff
		for _, reduces := range small {
			w.add("P1", 6, reduces)
		}
		w.o.cfg.Classify = ClassifyTick
		w.update()
		expect(t, fmt.Sprint(small), w.o.sharedQuota(job.Reduce), 2)
	}
}

func TestModFair_Q(t *testing.T) {
	for _, c := range []struct {
		name    string
		quota   int // of the shared pool
		pending []int
		want    []int
	}{
		{"Q1", 3, []int{21, 35, 16}, []int{4, 6, 3}},
		{"Q3", 3, []int{0, 0, 0}, []int{0, 0, 0}},
		{"Q4", 3, []int{4}, []int{6}},
		{"Q5", 12, []int{1, 1, 1}, []int{2, 2, 2}},
		{"Q6", 16, []int{1, 1, 1}, []int{0, 0, 0}},
		{"Q7", 3, []int{90, 5, 5}, []int{6, 1, 1}},
		{"Q8", 3, []int{17, 29, 13}, []int{4, 6, 3}},
	} {
		cfg := paper()
		cfg.Classify = ClassifyOff
		w := newWorld(t, cfg).join(cluster8(2)...)
		for i, n := range c.pending {
			w.add(fmt.Sprint("P", i+1), n, 0)
		}
		w.o.grant[job.Map] = c.quota
		w.o.allocate(job.Map)
		expect(t, c.name, w.quotas(job.Map), c.want)
	}
}

func TestModFair_Q1_WholeUpdate(t *testing.T) {
	w := newWorld(t, paper()).join(cluster8(2)...)
	w.sizes(6, 10, 16, 21, 25)
	expect(t, "quotas", w.quotas(job.Map), []int{4, 6, 3})
}

func TestModFair_Q2(t *testing.T) {
	w := newWorld(t, paper()).join(cluster8(4)...)
	w.sizes(6, 6, 6, 6, 6)
	expect(t, "quotas", w.quotas(job.Map), []int{6, 6, 6})
}

// Reduces are shared out in the same way, without a maximum.
func TestAllocateReduces(t *testing.T) {
	cfg := paper()
	cfg.Classify = ClassifyOff
	w := newWorld(t, cfg).join(same(30, 1)...)
	w.add("P1", 1, 20)
	w.add("P2", 1, 10)
	w.update()
	expect(t, "quotas", w.quotas(job.Reduce), []int{20, 10})
}

// remaining-slots=free: the idle slots minus the unused part of the grant.
func TestRemainingFree(t *testing.T) {
	cfg := paper()
	cfg.RemainFree, cfg.Default.Max = true, 0
	w := newWorld(t, cfg).join(cluster8(2)...)
	w.sizes(6, 10, 16, 21, 25)
	expect(t, "idle cluster", w.o.remaining(job.Map), 13)
	w.fill(1)
	w.update()
	expect(t, "half of it", w.o.remaining(job.Map), 8)
	w.fill(3)
	w.update()
	expect(t, "full", w.quotas(job.Map), []int{0, 0, 0})
}

func TestModFair_JobOrder(t *testing.T) {
	cfg := paper()
	cfg.Classify, cfg.Default.Max = ClassifyOff, 0
	w := newWorld(t, cfg).join(cluster8(2)...)
	add := func(p job.Priority, pending, running int, at time.Duration) {
		w.Now = at
		j := w.Submit(job.Spec{Request: job.Request{Pool: "P", Priority: p}, Splits: make([]job.Split, pending+running)})
		w.start(j, running)
	}
	add(job.Normal, 4, 2, 0)
	add(job.Normal, 10, 0, 5)
	add(job.High, 1, 6, 9)
	add(job.Normal, 4, 1, 3)
	expect(t, "order", w.served(), "j3 j2 j4 j1")
}

func TestModFair_JobOrderTies(t *testing.T) {
	cfg := paper()
	cfg.Classify = ClassifyOff
	w := newWorld(t, cfg).join(cluster8(2)...)
	for i := range 10 {
		w.Now = 2
		if i == 4 {
			w.Now = 1
		}
		w.add("P", 3, 0)
	}
	expect(t, "earlier first, then by number", w.served(), "j5 j1 j2 j3 j4 j6 j7 j8 j9 j10")
	empty := newWorld(t, cfg).join(1)
	empty.start(empty.add("P", 1, 0), 1)
	expect(t, "nothing pending", empty.served(), "")
}

// The job with the largest rest goes first: 15 of 18 launches to the job of 25.
func TestModFair_JobOrderEqualises(t *testing.T) {
	cfg := paper()
	cfg.Classify, cfg.Default.Max = ClassifyOff, 0
	w := newWorld(t, cfg).join(cluster8(3)...)
	w.add("P", 25, 0)
	w.add("P", 10, 0)
	var got []string
	for range 18 {
		id, _ := job.ParseID(strings.Fields(w.served())[0])
		w.start(w.Jobs.List().Get(id), 1)
		got = append(got, id.String())
	}
	expect(t, "launches", strings.Join(got, " "), strings.Repeat("j1 ", 15)+"j2 j1 j2")
}

func TestModFair_PoolOrder(t *testing.T) {
	for _, c := range []struct {
		fair bool
		want string
	}{{false, "P1 P2 P5 P4 P3"}, {true, "P1 P2 P3 P4 P5"}} {
		cfg := paper()
		cfg.Classify, cfg.Sorted = ClassifyOff, !c.fair
		cfg.Pools = map[string]Limits{"P4": {3, 6, 4}}
		w := newWorld(t, cfg).join(cluster8(4)...)
		for i, p := range [][2]int{{10, 1}, {2, 1}, {1, 2}, {20, 5}, {9, 3}} {
			w.start(w.add(fmt.Sprint("P", i+1), p[0]+p[1], 0), p[1])
		}
		expect(t, fmt.Sprint("fair ", c.fair), w.poolOrder(), c.want)
	}
}

func TestModFair_PoolOrderEdges(t *testing.T) {
	for _, c := range []struct {
		least, pending, running int
		want                    poolKey
	}{
		{3, 10, 1, poolKey{0, 1. / 3, 0}}, {3, 2, 1, poolKey{0, 1. / 2, 0}}, {3, 1, 2, poolKey{1, 2, 0}},
		{3, 9, 3, poolKey{0, 1, 0}}, {0, 5, 0, poolKey{0, 0, 0}}, {0, 5, 1, poolKey{1, 1, 0}},
	} {
		p := &pool{limits: Limits{Min: c.least, Max: 6, Weight: 1}}
		p.side[job.Map].pending, p.side[job.Map].running = c.pending, c.running
		expect(t, fmt.Sprintf("%+v", c), p.standing(job.Map), c.want)
	}
	cfg := paper()
	cfg.Classify = ClassifyOff
	w := newWorld(t, cfg).join(4)
	j := w.add("P1", 2, 0)
	expect(t, "one pool", w.poolOrder(), "P1")
	w.start(j, 2)
	expect(t, "nothing pending", w.poolOrder(), "")
}

// Equal pools are in an order that the seed decides, and only the seed.
func TestModFair_PoolOrderRandomTies(t *testing.T) {
	order := func(seed uint64) string {
		cfg := paper()
		cfg.Classify, cfg.TieByName, cfg.Seed = ClassifyOff, false, seed
		w := newWorld(t, cfg).join(4)
		for i := range 5 {
			w.add(fmt.Sprint("P", i), 3, 0)
		}
		first := w.poolOrder()
		w.served()
		expect(t, "asked twice", w.poolOrder(), first)
		return first
	}
	seen := map[string]bool{}
	for seed := range uint64(50) {
		expect(t, "same seed", order(seed), order(seed))
		seen[order(seed)[:2]] = true
	}
	expect(t, "pools that were first", len(seen), 5)
}

func TestModFair_E1(t *testing.T) {
	w := newWorld(t, paper()).join(cluster8(2)...)
	jobs := w.sizes(6, 10, 16, 21, 25)
	expect(t, "launches", w.fill(2), "S S S P1 P2 P3 P1 P2 P3 P1 P2 P3 P1 P2 P2 P2")
	var left []int
	for _, i := range []int{0, 3, 1, 4, 2} {
		left = append(left, jobs[i].Pending(job.Map))
	}
	expect(t, "left", left, []int{3, 17, 10, 19, 13})
	w.update()
	expect(t, "Q8", w.quotas(job.Map), []int{4, 6, 3})
}

func TestModFair_E2(t *testing.T) {
	for _, c := range []struct {
		hard bool
		want int
	}{{true, 18}, {false, 30}} {
		cfg := paper()
		cfg.MaxHard = c.hard
		w := newWorld(t, cfg).join(cluster8(4)...)
		jobs := w.sizes(6, 6, 6, 6, 6)
		expect(t, "launches", len(strings.Fields(w.fill(4))), c.want)
		if c.hard {
			var run []int
			for _, j := range jobs {
				run = append(run, j.Running(job.Map))
			}
			expect(t, "running", run, []int{3, 3, 6, 3, 3})
		}
	}
}

func TestModFair_E3(t *testing.T) {
	w := newWorld(t, paper()).join(1)
	expect(t, "no jobs", w.fill(1), "")
	a := w.add("P1", 1, 0)
	expect(t, "one", w.fill(1), "S")
	w.add("P1", 1, 0)
	expect(t, "no free slot", w.fill(1), "")
	w.Kill(a)

	w = newWorld(t, paper()).join(same(5, 1)...)
	w.add("P1", 3, 0)
	expect(t, "shared pool at its grant", w.fill(3), "S S")
	expect(t, "reason", w.o.LimitReached(w.Jobs.List().Get(1), job.Map), sched.Reason{Code: sched.PartitionFull, Pool: "shared", Have: 2, Need: 2})
}

const (
	nd = cluster.NODE
	rk = cluster.RACK
	no = cluster.ANY
)

func TestModFair_R(t *testing.T) {
	for _, c := range []struct {
		name   string
		from   job.Priority
		levels []cluster.Level
		want   []job.Priority
	}{
		{"R1", job.Normal, []cluster.Level{nd, rk, no, nd, nd, nd}, []job.Priority{0, -1, -2, 0, 0, 0}},
		{"R2", job.High, []cluster.Level{no, rk, rk, rk}, []job.Priority{1, 2, 1, 1}},
		{"R3", job.Normal, []cluster.Level{no, nd, nd, nd}, []job.Priority{0, 2, 1, 1}},
		{"R4", job.Low, []cluster.Level{nd, no, no, no, nd}, []job.Priority{-1, -2, -1, -1, 1}},
		{"R5 up", job.VeryHigh, []cluster.Level{rk, nd}, []job.Priority{2, 1}},
		{"R5 down", job.VeryLow, []cluster.Level{nd, no}, []job.Priority{-2, -1}},
	} {
		w := newWorld(t, paper()).join(9)
		j := w.Submit(job.Spec{Request: job.Request{Priority: c.from}, Splits: make([]job.Split, len(c.levels)+1)})
		var got []job.Priority
		for i, level := range c.levels {
			w.launch(j.Task(job.Map, int32(i)), level)
			got = append(got, w.o.bySeat[j.Seat()].priority)
		}
		expect(t, c.name, got, c.want)
		expect(t, c.name+": the tracker's", j.Priority(), c.from)
	}
}

// All 45 cells of Table 3, with readings 13 and 14 in README.md and as printed.
func TestModFair_PriorityTable(t *testing.T) {
	change := [][2]cluster.Level{{nd, nd}, {nd, rk}, {nd, no}, {rk, nd}, {rk, rk}, {rk, no}, {no, nd}, {no, rk}, {no, no}}
	for table, rows := range map[Table][]string{
		TableText:  {"HHNLL", "HNLvL", "NLvvL", "HVHNL", "HHNLL", "HNLvL", "HVVHN", "HVHNL", "HHNLL"},
		TablePrint: {"VHNLv", "HNLvL", "NLvvL", "HVHNL", "VHNLv", "HNLvL", "HNLvL", "HVHNL", "VHNLv"},
	} {
		for i, row := range rows {
			for col := range 5 {
				from := job.VeryHigh - job.Priority(col)
				got := adjust(from, change[i][0], change[i][1], table)
				letter := string("vLNHV"[got-job.VeryLow])
				expect(t, fmt.Sprint(table, change[i], from), letter, row[col:col+1])
				if table == TableText && got == from && (from == job.VeryHigh || from == job.VeryLow) {
					t.Errorf("%v stays under %v", from, change[i])
				}
			}
		}
	}
}
