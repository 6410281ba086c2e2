package repro

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/virtual/metrics"
	"github.com/slotwise/slotwise/internal/virtual/report"
	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// This file has Tyrex's workloads, schedulers and measurements. "Partition" means a
// partition of jobs by size (P_1 and P_2), the first of which has smaller jobs.

// tyrex returns the experiments of the Tyrex paper by id.
// Sizes of jobs are lost with the figures. Three classes reproduce what the text and Table II say: counts,
// total work, CV², and the part of the jobs below 10 minutes. Timers, slowdowns and uses of partitions depend
// on the shape of the sizes between these numbers, so explanations vary it (tyWhyCuts, enlarge).
func tyrex() map[string]func(*lab) {
	return map[string]func(*lab){"fig3": tyFig3, "table2-fig5": tyTable2, "fig6-9": tyFig6, "fig10-13": tyFig10, "fig14-15": tyFig14, "fig16": tyFig16}
}

const (
	tyJobs        = 300
	tySlots       = 160
	tyReduceShare = workload.TyrexReduceShare
	tyFirst       = 30   // percent of the slots that P_1 has, unless varied
	equally       = 0.05 // relative difference that the paper calls equal
	tyStart       = 0.05 // share of the maps after which reduces start: Hadoop's default
	tyTaskMemory  = 3 << 30
)

// tyWorkload is a row of Table II, with the classes of jobs that we assume.
type tyWorkload struct {
	name                string
	cv2                 float64
	maps, reduces       int     // in total
	cpu, alone          float64 // total processor time and total time of jobs alone, hours
	tiny, short         workload.Class
	large               int     // number of large jobs
	timerLow, timerHigh float64 // of DYNAMICTAGS in Fig. 10, s
	tyTasks
}

// tyTasks are assumptions about the tasks of a workload.
type tyTasks struct {
	shorter   float64 // divides the durations of tasks, and multiplies their number
	inReduces float64 // part of the work that is in reduces
	// memory is a node's memory in bytes. A task occupies tyTaskMemory. 0 is no limit.
	// paging is the k of the simulator's model of memory.
	memory int64
	paging float64
}

// tyAssumed are the assumptions that the claims are judged under.
var tyAssumed = tyTasks{shorter: 1, inReduces: tyReduceShare}

func tyClass(name string, count int, mean float64) workload.Class {
	return workload.Class{Name: name, Count: count, Work: workload.LogNormalCV2(mean, 1), TaskTime: 33, ReduceShare: tyReduceShare}
}

func tyWorkloads() []tyWorkload {
	return []tyWorkload{
		// Table II. The timers are the ranges of Figure 10 in the text.
		{"HVW", 20, 6139, 788, 63.6, 3.51, tyClass("tiny", 222, 28), tyClass("short", 64, 100), 14, 50, 300, tyAssumed},
		{"MVW", 10, 11866, 1368, 124.6, 3.98, tyClass("tiny", 165, 28), tyClass("short", 108, 150), 27, 100, 500, tyAssumed},
		{"LVW", 4, 30576, 3089, 306.9, 5.31, tyClass("tiny", 90, 30), tyClass("short", 146, 180), 64, 500, 2500, tyAssumed},
	}
}

// largeClass returns the large jobs, whose mean and CV² are chosen so that all jobs
// together have the mean and CV² of Table II.
func (w *tyWorkload) largeClass() workload.Class {
	all := w.cpu * 3600 / tyJobs
	sum, squares := tyJobs*all, tyJobs*(w.cv2+1)*all*all
	for _, c := range []workload.Class{w.tiny, w.short} {
		m := c.Work.Mean()
		sum -= float64(float64(c.Count) * m)
		squares -= float64(float64(c.Count) * 2 * m * m) // E[X²] = (1 + CV²)·m²
	}
	n := float64(w.large)
	// What the other classes leave of Table II's total, by large job.
	m := sum / n
	c := tyClass("large", w.large, m)
	c.Work = workload.LogNormalCV2(m, squares/n/(m*m)-1)
	return c
}

// enlarge multiplies the number of large jobs. The short jobs become fewer.
func (w *tyWorkload) enlarge(times float64) {
	more := int(math.Round(float64(w.large)*times)) - w.large
	// The total stays 300. largeClass then finds a smaller mean and a larger CV² for the same Table II.
	w.large, w.short.Count = w.large+more, w.short.Count-more
}

// draw draws the workload at a load. slowStart is the share of maps after which
// reduces start.
func (w *tyWorkload) draw(x *lab, seed uint64, load, slowStart float64) []workload.Job {
	// The mix draws sizes and arrivals. Its tasks of 33 s are replaced below by tasks with the means of this
	// workload's row: work over tasks, which Table II gives for maps and reduces apart.
	mix := workload.Mix{Sequence: workload.Shuffled, Classes: []workload.Class{w.tiny, w.short, w.largeClass()},
		Arrivals: workload.Arrivals{Kind: workload.AtLoad, Load: load, Slots: tySlots}}
	jobs, err := mix.Jobs(seed)
	x.check(err)
	work := w.cpu * 3600
	mapTime := (1 - w.inReduces) * work / float64(w.maps) / w.shorter
	reduceTime := w.inReduces * work / float64(w.reduces) / w.shorter
	for i := range jobs {
		j := &jobs[i]
		size := tySize(j)
		j.SlowStart = slowStart
		if w.memory > 0 {
			j.Resident = tyTaskMemory
		}
		j.Maps = equalTasks((1-w.inReduces)*size, mapTime)
		j.Reduces = equalTasks(w.inReduces*size, reduceTime)
	}
	return jobs
}

// equalTasks divides work into equal tasks of about the given duration in seconds,
// at least one.
func equalTasks(work, each float64) []workload.Task {
	n := int(max(1, math.Round(work/each)))
	return slices.Repeat([]workload.Task{{Duration: time.Duration(work / float64(n) * 1e9).Round(time.Millisecond)}}, n)
}

// tySize returns the work of a job's tasks in seconds.
func tySize(j *workload.Job) float64 {
	sum := time.Duration(0)
	for _, tasks := range [job.Kinds][]workload.Task{j.Maps, j.Reduces} {
		for _, t := range tasks {
			sum += t.Duration
		}
	}
	return sum.Seconds()
}

func tySizes(jobs []workload.Job) []float64 {
	sizes := make([]float64, len(jobs))
	for i := range jobs {
		sizes[i] = tySize(&jobs[i])
	}
	return sizes
}

// tyBatch is a drawn workload with the time of each job alone in seconds.
type tyBatch struct {
	jobs  []workload.Job
	alone []float64
	tyTasks
}

// tyDraw draws a workload for each seed and simulates each of its jobs alone.
func tyDraw(x *lab, w *tyWorkload, seeds int, load, slowStart float64) []tyBatch {
	batches := make([]tyBatch, seeds)
	for s := range batches {
		jobs := w.draw(x, x.Seed+uint64(s), load, slowStart)
		runs := make([]run, len(jobs))
		for i := range jobs {
			// The reference time of a slowdown: the job alone on all slots, under FIFO, as the paper measured
			// it.
			one := jobs[i]
			one.Submit = 0
			// With the same memory limit: a job alone in a world of paging pages, too.
			runs[i] = w.limit(tyRun(tyFIFO, []workload.Job{one}, blind{}))
		}
		// Drawn once and played under every scheduler, so differences between schedulers are paired by seed.
		batches[s] = tyBatch{jobs, spans(x.play(runs...)), w.tyTasks}
	}
	return batches
}

// limit limits the memory of the nodes of a run.
func (t *tyTasks) limit(r run) run {
	r.cluster = eachGroup(r.cluster, func(g *workload.NodeGroup) { g.Memory = t.memory })
	r.config.Model.Paging = t.paging
	return r
}

// The schedulers to compare with. tyFairTasks weighs jobs by their number of unfinished tasks,
// computed anew at each update.
var (
	tyFIFO = scheduler{"FIFO", "fifo,speculate=none", nil}
	// Greedy: the paper describes FAIR without waits for data, and a map far from its data costs nothing
	// here.
	tyFair      = scheduler{"FAIR, equal weights", "fair,speculate=none,place=greedy", nil}
	tyFairTasks = tyFair.with("FAIR, by tasks", "size-weight", "tasks")
)

// tyShares returns the capacities of two partitions. first is the percentage of P_1.
func tyShares(first int) string { return fmt.Sprintf("0.%02d,0.%02d", first, 100-first) }

func tyStatic(first int, timer time.Duration) scheduler {
	// Readings 9 and 13: no lending, as the reported use of the partitions requires, and Hadoop's slow start
	// in place of the default gate, because the paper speaks of reduces that hold slots early.
	return scheduler{"STATICTAGS", "statictags,speculate=none", []string{"capacities", tyShares(first), "timers", timer.String(), "reduce-gate", "0", "lend", "false"}}
}

func tyDynamic(first int) scheduler {
	// No window (reading 7): 300 jobs fit into memory.
	return scheduler{"DYNAMICTAGS", "dynamictags,speculate=none", []string{"capacities", tyShares(first), "window", "0", "lend", "false", "reduce-gate", "0"}}
}

// withoutZeros is s with the other half of reading 2 in policies/tyrex/README.md: DYNAMICTAGS
// judges only by jobs
// that have left the partition.
func withoutZeros(s scheduler) scheduler { return s.with(s.name, "sample", "departed") }

// tyRun returns a run of jobs on the paper's cluster.
func tyRun(s scheduler, jobs []workload.Job, p probe) run {
	return run{scheduler: s, jobs: jobs, probe: p, config: sim.Config{Model: sim.ModelConfig{ProgressEvery: 3 * time.Second}},
		cluster: workload.Cluster{Heartbeat: "hadoop-1.0", Groups: []workload.NodeGroup{{Name: "node", Count: 20, Cores: 8, MapSlots: 6, ReduceSlots: 2}}}}
}

// tyWatch is the probe of the Tyrex experiments. The label of an attempt is the
// partition whose slot it occupies.
type tyWatch struct {
	last   []int32    // partition of the last launched task, by job
	busy   [2]float64 // slot-seconds by partition
	inP1   []float64  // slot-seconds in P_1, by job
	timers []float64  // DYNAMICTAGS's timer, sampled over tyTimerSpan; 0 where it has none
}

// Figure 10 shows 30 minutes.
const (
	tyTimerEvery = 30 * time.Second
	tyTimerSpan  = 30 * time.Minute
)

// attach implements probe.
func (w *tyWatch) attach(c *sim.Config) {
	w.last, w.inP1 = make([]int32, len(c.Jobs)), make([]float64, len(c.Jobs))
	// Only DYNAMICTAGS has a timer that changes.
	dynamic, ok := c.Policy.(*sched.Composition).Order.(interface {
		Timer(int) (time.Duration, bool)
	})
	if !ok {
		return
	}
	c.Trace = func(now time.Duration, _ tracker.Event, _ []tracker.Effect) {
		// A loop, because events may be further apart than a sample: each missed one has the timer that stood
		// all the time. The timer is read after the step that the event caused.
		for now <= tyTimerSpan && now >= time.Duration(len(w.timers)+1)*tyTimerEvery {
			// 0 where there is none, which tyTimerRow leaves out.
			t, _ := dynamic.Timer(1)
			w.timers = append(w.timers, t.Seconds())
		}
	}
}

// Observe implements sim.Observer.
func (w *tyWatch) Observe(e *sim.Event) {
	// FIFO and FAIR label nothing. Three partitions have a third label, whose use no claim needs.
	if e.Label < 1 || int(e.Label) > len(w.busy) {
		return
	}
	switch e.Kind {
	case sim.AttemptStarted:
		w.last[e.Job] = e.Label
	// By the label of the attempt's own slot: a job that has moved may still end tasks in P_1.
	case sim.AttemptEnded:
		s := (e.At - e.Started).Seconds()
		w.busy[e.Label-1] += s
		if e.Label == 1 {
			w.inP1[e.Job] += s
		}
	}
}

// tyOutcome has the measurements of a scheduler: one value for each seed, but
// slowdowns and timers of all seeds together.
type tyOutcome struct {
	slowdowns, timers         []float64
	median, p95, v, worst     []float64 // of the slowdowns; v is V(95)
	doneFirst, use1, use2     []float64 // share of jobs done in P_1; use of P_1 and P_2
	passing                   []float64 // part of use1 by jobs that moved on to P_2
	slowSecond                []float64 // share of the slowest 5 % of jobs that ended in P_2
	makespan, tail, submitted []float64 // s; from the last submission to the end; of all submissions
}

// tyPlay simulates each scheduler on each batch. first is the percentage of slots of
// P_1.
func tyPlay(x *lab, batches []tyBatch, first int, list ...scheduler) []tyOutcome {
	out := make([]tyOutcome, len(list))
	for i, row := range grid(x, list, []int{0}, len(batches), func(s scheduler, _ int, n uint64) run {
		return batches[n].limit(tyRun(s, batches[n].jobs, new(tyWatch)))
	}) {
		for n, r := range row[0] {
			out[i].add(&batches[n], r, float64(first)/100)
		}
	}
	return out
}

// add appends the measurements of a run. first is the share of the slots of P_1.
func (o *tyOutcome) add(b *tyBatch, r outcome, first float64) {
	w := r.probe.(*tyWatch)
	slow := make([]float64, len(r.Jobs))
	last, done, passed := time.Duration(0), 0, 0.0
	for i, j := range r.Jobs {
		slow[i] = metrics.Slowdown((j.Ended - j.Submitted).Seconds(), b.alone[i])
		last = max(last, j.Submitted)
		if w.last[i] == 1 {
			done++
		} else {
			passed += w.inP1[i]
		}
	}
	s := metrics.Summarize(slow)
	slowest, second := 0, 0
	for i := range slow {
		// Includes the job at the percentile, so there always is one.
		if slow[i] >= s.P95 {
			slowest++
			second += count(w.last[i] == 2)
		}
	}
	// The span of submissions and not the makespan: the definition of load has it, and with it the loads of
	// the partitions add up to the load. The last large job would otherwise lower the use of
	// both.
	span := (last - r.Jobs[0].Submitted).Seconds()
	one := first * tySlots * span // slot-seconds of P_1
	o.slowdowns, o.timers = append(o.slowdowns, slow...), append(o.timers, w.timers...)
	for _, v := range []struct {
		list  *[]float64
		value float64
	}{
		{&o.median, s.Median}, {&o.p95, s.P95}, {&o.worst, s.Max}, {&o.v, metrics.Variability(slow, 95)},
		{&o.slowSecond, float64(second) / float64(slowest)}, {&o.doneFirst, float64(done) / float64(len(slow))},
		{&o.use1, w.busy[0] / one}, {&o.passing, passed / one}, {&o.use2, w.busy[1] / ((1 - first) * tySlots * span)},
		{&o.makespan, r.Makespan.Seconds()}, {&o.submitted, span}, {&o.tail, (r.Ended - last).Seconds()},
	} {
		*v.list = append(*v.list, v.value)
	}
}

// Measurements of a scheduler, means over its seeds.
func tyP95(o *tyOutcome) float64      { return mean(o.p95) }
func tyV(o *tyOutcome) float64        { return mean(o.v) }
func tyMedian(o *tyOutcome) float64   { return mean(o.median) }
func tyMakespan(o *tyOutcome) float64 { return mean(o.makespan) }

// tyRatio returns by which fraction a measurement of a scheduler exceeds another's.
func tyRatio(a, b *tyOutcome, of func(*tyOutcome) float64) float64 { return of(a)/of(b) - 1 }

// tyFig3 re-makes Figure 3. Its four benchmarks differ in the durations of their
// tasks, which are only in the figure, so we simulate four durations.
func tyFig3(x *lab) {
	t := x.table("A job of 600 maps and 60 reduces on two halves", "mean task (s)", "tasks vary", "never moved (s)", "moved at half (s)", "difference", "paper")
	worst := 0.0
	for _, row := range []struct{ mean, cv2 float64 }{{10, 0}, {33, 0}, {33, 0.1}, {60, 0.1}} {
		tasks := func(seed uint64, n int) []workload.Task {
			g, d := rand.New(rand.NewPCG(seed, 0x74797265780a)), workload.LogNormalCV2(row.mean, row.cv2)
			list := make([]workload.Task, n)
			for i := range list {
				list[i].Duration = time.Duration(d.Draw(g) * 1e9).Round(time.Millisecond)
			}
			return list
		}
		// Reduces after all maps: early ones would keep P_1's slots after the move, which is another cost
		// than the paper's.
		j := workload.Job{Request: job.Request{SlowStart: 1}, Maps: tasks(x.Seed, 600), Reduces: tasks(x.Seed+1, 60)}
		half := time.Duration(tySize(&j) / 2 * 1e9)
		out := tyPlay(x, []tyBatch{{jobs: []workload.Job{j}, alone: []float64{1}}}, 50, tyStatic(50, 1000*time.Hour), tyStatic(50, half))
		cost := tyRatio(&out[1], &out[0], tyMakespan)
		worst = max(worst, cost)
		t.add(number(row.mean, 0), fmt.Sprintf("CV² %g", row.cv2), number(tyMakespan(&out[0]), 1), number(tyMakespan(&out[1]), 1), percent(cost), "none")
	}
	x.holds("cost", worst < equally, "at most %s; no attempt is killed or repeated", percent(worst))
}

// tyStats describes a workload, means over its seeds.
type tyStats struct{ cv2, maps, reduces, work, alone, below10, load10 float64 }

func tyDescribe(batches []tyBatch) (x tyStats) {
	n := float64(len(batches))
	for s := range batches {
		sizes := tySizes(batches[s].jobs)
		sum := metrics.Summarize(sizes)
		x.cv2 += sum.CV2 / n
		x.work += sum.Mean * float64(sum.N) / 3600 / n
		x.load10 += metrics.LoadShare(sizes, 600) / n
		for i := range sizes {
			x.maps += float64(len(batches[s].jobs[i].Maps)) / n
			x.reduces += float64(len(batches[s].jobs[i].Reduces)) / n
			x.alone += batches[s].alone[i] / 3600 / n
			// Below 10 minutes of work, the cut of Figure 5.
			if sizes[i] < 600 {
				x.below10 += 1 / n / float64(len(sizes))
			}
		}
	}
	return x
}

// tyTable2 re-makes Table II, and Figures 4 and 5.
func tyTable2(x *lab) {
	list := tyWorkloads()
	t := x.table("Table II: means over seeds, and the paper's", "workload", "CV²", "paper", "maps", "paper", "reduces", "paper",
		"work (h)", "paper", "alone (h)", "paper", "below 10 min", "paper", "load below 10 min", "paper")
	var below, load []float64
	sizes := make([][]float64, len(list)) // of the first seed
	for i := range list {
		w := &list[i]
		batches := tyDraw(x, w, pick(x, 2, 6), 0.7, tyStart)
		s := tyDescribe(batches)
		below, load, sizes[i] = append(below, s.below10), append(load, s.load10), tySizes(batches[0].jobs)
		want := Missing
		if i == 0 {
			want = "about 10 %"
		}
		t.add(w.name, number(s.cv2, 1), number(w.cv2, 0), number(s.maps, 0), fmt.Sprint(w.maps), number(s.reduces, 0), fmt.Sprint(w.reduces),
			number(s.work, 1), number(w.cpu, 1), number(s.alone, 2), number(w.alone, 2), share(s.below10), "> 60 %", share(s.load10), want)
	}
	x.within("small", below, "%s, %s and %s", share(below[0]), share(below[1]), share(below[2]))
	x.size("cut", load[:1], "%s of HVW, %s of MVW, %s of LVW (Fig. 5b)", share(load[0]), share(load[1]), share(load[2]))
	tyCalibrate(x)
	tyCuts(x, list, sizes)
	if x.failing(1) {
		tyWhyCuts(x)
	}
}

// tyCalibrate shows for which part of the work in reduces jobs alone take the times
// of Table II.
func tyCalibrate(x *lab) {
	t := x.table("Total time of the jobs alone (h) by the part of the work in reduces", "part", "HVW", "MVW", "LVW", "mean distance to the paper's")
	for _, part := range pick(x, []float64{0.05, 0.1, 0.25}, []float64{0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.4}) {
		row, distance := []string{number(part, 2)}, 0.0
		for _, w := range tyWorkloads() {
			w.inReduces = part
			alone := tyDescribe(tyDraw(x, &w, pick(x, 1, 3), 0.7, tyStart)).alone
			row, distance = append(row, number(alone, 2)), distance+abs(alone/w.alone-1)/3
		}
		t.add(append(row, share(distance))...)
	}
	row := []string{"paper"}
	for _, w := range tyWorkloads() {
		row = append(row, number(w.alone, 2))
	}
	t.add(append(row, "")...)
}

// tyCut returns the CV² of min(X, p), and of X − p where X > p.
func tyCut(sizes []float64, p float64) (below, above float64) {
	var l, a metrics.Moments
	for _, s := range sizes {
		l.Add(min(s, p))
		if s > p {
			a.Add(s - p)
		}
	}
	return l.CV2(), a.CV2()
}

// tyCuts re-makes Figure 4: how variable sizes below and above a cut are.
func tyCuts(x *lab, list []tyWorkload, sizes [][]float64) {
	t := x.table("Fig. 4: CV² of min(X, p) and of X − p where X > p (curves of the paper lost)", "p (s)",
		"HVW below", "above", "MVW below", "above", "LVW below", "above")
	rising, last, aboves := true, [3]float64{}, []float64(nil)
	for _, p := range []float64{30, 50, 100, 200, 300, 500, 1000, 2000} {
		row := []string{number(p, 0)}
		for i := range list {
			below, above := tyCut(sizes[i], p)
			rising, last[i], aboves = rising && below >= last[i], below, append(aboves, above)
			row = append(row, number(below, 2), number(above, 2))
		}
		t.add(row...)
	}
	cross := ""
	var lines []Series
	for i := range list {
		meet := false
		// In steps of 2 %: the claim is that the curves meet, not where exactly.
		for p := 1.0; p < 1e5 && !meet; p = math.Ceil(p * 1.02) {
			if b, a := tyCut(sizes[i], p); b >= a {
				meet = true
				cross += fmt.Sprintf(" %s %.0f s", list[i].name, p)
			}
		}
		rising = rising && meet
		below, above := Series{Name: list[i].name + ", below"}, Series{Name: list[i].name + ", above"}
		// Even steps on a logarithmic axis.
		for p := 30.0; p <= 2000; p *= 1.1 {
			b, a := tyCut(sizes[i], p)
			below.X, above.X = append(below.X, p), append(above.X, p)
			below.Y, above.Y = append(below.Y, b), append(above.Y, a)
		}
		lines = append(lines, below, above)
	}
	x.holds("rises", rising, "they meet at%s", cross)
	x.within("flat", aboves, "not at small cuts here")
	f := x.lines("tyrex-fig4", "Tyrex, Figure 4: variability of sizes below and above a cut", "cut p [s]", "CV²", lines...)
	f.LogX, f.LogY = true, true
	f.Limits = []report.Limit{{Name: "threshold", At: 2}}
}

// tyWhyCuts makes the tiny jobs smaller without changing the totals of Table II.
func tyWhyCuts(x *lab) {
	t := newTable("CV² of X − 30 s where X > 30 s by the mean size of the tiny jobs", "mean of tiny jobs (s)", "HVW", "MVW", "LVW", "paper")
	with := ""
	for _, mean := range []float64{28, 20, 14, 10, 7, 5} {
		var aboves []float64
		for _, w := range tyWorkloads() {
			// The large jobs compensate, since largeClass solves for Table II's totals.
			w.tiny = tyClass("tiny", w.tiny.Count, mean)
			_, above := tyCut(tySizes(w.draw(x, x.Seed, 0.7, 1)), 30)
			aboves = append(aboves, above)
		}
		if slices.Max(aboves) < 2 {
			with = joined(with, number(mean, 0)+" s")
		}
		t.add(slices.Concat([]string{number(mean, 0)}, cells(fixed(2), aboves...), []string{"< 2"})...)
	}
	x.explain(1, "tiny", []*Table{t}, "It falls with the size of the tiny jobs, below 2 in all workloads with means of: %s", orNone(with))
}

// tyTuned are timers of STATICTAGS found by trial: the one with the least variability
// of slowdowns, as the paper chooses it (T₁*), and the one with the least 95th
// percentile.
type tyTuned struct {
	timer, low   time.Duration
	best, lowest *tyOutcome
}

// tyTimers returns the timers to try, in seconds.
func tyTimers(x *lab) []int {
	return pick(x, []int{250, 1200}, []int{25, 50, 100, 150, 250, 400, 800, 1600, 2400})
}

// tyTry simulates STATICTAGS with each timer. first is the percentage of P_1.
func tyTry(x *lab, batches []tyBatch, first int) []tyOutcome {
	var list []scheduler
	for _, t := range tyTimers(x) {
		list = append(list, tyStatic(first, time.Duration(t)*time.Second))
	}
	return tyPlay(x, batches, first, list...)
}

// tyTune finds the best timers for a percentage of P_1.
func tyTune(x *lab, batches []tyBatch, first int) *tyTuned {
	timers, out := tyTimers(x), tyTry(x, batches, first)
	best, low := 0, 0
	for i := range out {
		// Strictly less: of equal ones the shorter timer, which comes first.
		if tyV(&out[i]) < tyV(&out[best]) {
			best = i
		}
		if tyP95(&out[i]) < tyP95(&out[low]) {
			low = i
		}
	}
	return &tyTuned{time.Duration(timers[best]) * time.Second, time.Duration(timers[low]) * time.Second, &out[best], &out[low]}
}

// tyColumns are the columns of Figs. 7 to 9 and 11 to 13.
var tyColumns = []string{"use of P_1", "use of P_2", "done in P_1", "median slowdown", "V(95)", "p95", "worst"}

// cells formats the columns of tyColumns.
func (o *tyOutcome) cells() []string {
	return []string{share(mean(o.use1)), share(mean(o.use2)), share(mean(o.doneFirst)), number(tyMedian(o), 2), number(tyV(o), 2), number(tyP95(o), 2),
		number(slices.Max(o.worst), 1)}
}

// tyPaperTable adds a table of the bounds that the paper's text gives for the
// columns of tyColumns: workload, use, done, median and V(95).
func tyPaperTable(x *lab, rows ...[]string) {
	t := x.table("The paper's bounds (its bars are lost)", slices.Concat([]string{"workload"}, tyColumns)...)
	for _, r := range rows {
		t.add(append(r, Missing, Missing)...)
	}
}

// tyFig6 re-makes Figures 6 to 9.
func tyFig6(x *lab) {
	list, capacities := tyWorkloads(), pick(x, []int{20, 30}, []int{10, 20, 30, 40})
	t := x.table("STATICTAGS with the best timer", slices.Concat([]string{"workload", "P_1", "least", "timer (s)"}, tyColumns)...)
	tuned := make([][]*tyTuned, len(list)) // by workload and capacity
	for i := range list {
		// The same batches for all capacities and timers: they differ in nothing else.
		batches := tyDraw(x, &list[i], pick(x, 1, 3), 0.7, tyStart)
		for _, c := range capacities {
			u := tyTune(x, batches, c)
			tuned[i] = append(tuned[i], u)
			t.add(slices.Concat([]string{list[i].name, fmt.Sprintf("%d %%", c), "V(95)", number(u.timer.Seconds(), 0)}, u.best.cells())...)
			t.add(slices.Concat([]string{list[i].name, fmt.Sprintf("%d %%", c), "p95", number(u.low.Seconds(), 0)}, u.lowest.cells())...)
		}
	}
	tyPaperTable(x, []string{"HVW", "< 30 %", "> 75 %", "> 80 %", "< 2", "< 2"}, []string{"MVW", "< 30 %", "> 75 %", "> 80 %", "< 2", "< 3.3"},
		[]string{"LVW", "< 30 %", "> 75 %", "< 60 %", "< 2", "< 3.3"})

	most, mostLow := time.Duration(0), time.Duration(0)
	for _, u := range slices.Concat(tuned[0], tuned[1]) {
		most, mostLow = max(most, u.timer), max(mostLow, u.low)
	}
	// By the least 95th percentile. The paper chooses by V(95), which also is small where all jobs are slow,
	// since it divides by the median.
	x.within("timer", []float64{mostLow.Seconds()}, "at most %v by the 95th percentile, %v by the variability, which is also small when all jobs are slow: the median is its denominator", mostLow, most)
	last := len(capacities) - 1
	narrow, wide := tuned[2][0].low, tuned[2][last].low
	x.size("grows", []float64{wide.Seconds() / narrow.Seconds()}, "from %v at %d %% to %v at %d %%", narrow, capacities[0], wide, capacities[last])
	at := slices.Index(capacities, tyFirst)
	judged := []*tyOutcome{tuned[0][at].lowest, tuned[1][at].lowest, tuned[2][at].lowest}
	tyClaimUse(x, judged)
	done := func(i int) float64 { return mean(judged[i].doneFirst) }
	x.within("done", []float64{done(0), done(1)}, "%s and %s with 30 %% of the slots and the timer of the least 95th percentile", share(done(0)), share(done(1)))
	x.within("fewer", []float64{done(2)}, "%s", share(done(2)))
	tyClaimSlowdown(x, judged)
	tyBestCapacity(x, list, tuned, capacities)
	tyWhyStatic(x)
	if x.failing(1) {
		tyWhyCapacity(x, capacities)
	}
}

// tyBestCapacity judges which share of the slots suits P_1 best: that with the least 95th
// percentile of slowdowns, under the timer of the least 95th percentile.
func tyBestCapacity(x *lab, list []tyWorkload, tuned [][]*tyTuned, capacities []int) {
	middle, evidence := tyCapacities(list, tuned, capacities)
	x.holds("share", middle, "least 95th percentile with %s", evidence)
}

// tyCapacities returns the best capacity of each workload, in words, and whether the claim holds.
func tyCapacities(list []tyWorkload, tuned [][]*tyTuned, capacities []int) (middle bool, evidence string) {
	middle = true
	for i := range list {
		best := 0
		for c := range capacities {
			if tyP95(tuned[i][c].lowest) < tyP95(tuned[i][best].lowest) {
				best = c
			}
		}
		middle = middle && (capacities[best] == 20 || capacities[best] == 30)
		evidence = joined(evidence, fmt.Sprintf("%s %d %%", list[i].name, capacities[best]))
	}
	return middle, evidence
}

// tyWhyCapacity searches for the best capacity with other draws of the jobs and in other worlds.
func tyWhyCapacity(x *lab, capacities []int) {
	t := newTable("Capacity of P_1 with the least 95th percentile of slowdowns, each with its best timer", "world", "workload", "draws", "p95 with "+strings.Join(numbered(capacities...), ", ")+" %")
	with, all := "", ""
	for _, at := range pick(x, []int{0}, []int{0, 4, 6}) { // as assumed, reduces after all maps, shorter tasks
		world, workloads := tyWorlds[at], tyWorkloads()
		tuned, draws := make([][]*tyTuned, len(workloads)), pick(x, 1, 2)
		for i := range workloads {
			w := &workloads[i]
			w.tyTasks = world.tyTasks
			w.enlarge(world.larger)
			batches, row := tyDraw(x, w, draws, 0.7, world.slowStart), ""
			for _, c := range capacities {
				u := tyTune(x, batches, c)
				tuned[i], row = append(tuned[i], u), joined(row, number(tyP95(u.lowest), 2))
			}
			t.add(world.name, w.name, fmt.Sprint(draws), row)
		}
		middle, best := tyCapacities(workloads, tuned, capacities)
		if all = joined(all, world.name+" ("+best+")"); middle {
			with = joined(with, world.name)
		}
	}
	x.explainAll(x.lastClaims(1), "capacity", []*Table{t}, "20 or 30 %% is best for all workloads with: %s. The best capacities are: %s", orNone(with), all)
}

// tyClaimUse judges the use of partitions, by workload.
func tyClaimUse(x *lab, at []*tyOutcome) {
	low, high, evidence := 0.0, 1.0, ""
	var passing []string
	for _, o := range at {
		low, high = max(low, mean(o.use1)), min(high, mean(o.use2))
		evidence += fmt.Sprintf("%s and %s, ", share(mean(o.use1)), share(mean(o.use2)))
		passing = append(passing, share(mean(o.passing)))
	}
	x.holds("use", low < 0.3 && high > 0.75, "%sHVW, MVW, LVW with 30 %% of the slots; of P_1's, %s are jobs on their way to P_2", evidence, strings.Join(passing, ", "))
}

// tyClaimSlowdown judges medians and variabilities of slowdowns, by workload.
func tyClaimSlowdown(x *lab, at []*tyOutcome) {
	var medians, vs []float64
	var second []string
	evidence := ""
	for k, w := range tyWorkloads() {
		medians, vs = append(medians, tyMedian(at[k])), append(vs, tyV(at[k]))
		second = append(second, share(mean(at[k].slowSecond)))
		evidence += fmt.Sprintf("%s %.2f and %.2f; ", w.name, medians[k], vs[k])
	}
	x.within("median", medians, "median and V(95): %sP_1 has 30 %%", evidence)
	x.within("variability", vs, "worst %.2f; of the slowest twentieth of the jobs %s (HVW, MVW, LVW) ended in P_2, where they wait for each other first come, first served",
		slices.Max(vs), strings.Join(second, ", "))
}

// tyFig10 re-makes Figures 10 to 13.
func tyFig10(x *lab) {
	timers := x.table("Fig. 10: the timer in the first 30 minutes (s), P_1 has 30 %", "workload", "sample", "10th percentile", "median", "90th percentile",
		"within the paper's range", "paper")
	var rows [][]string
	list, at := tyWorkloads(), make([][]*tyOutcome, 3) // by workload: 20 %, 30 %, 30 % without zeros, STATICTAGS
	medians, inRange := [3]float64{}, true
	var drawn [][]tyBatch
	for i := range list {
		w := &list[i]
		batches := tyDraw(x, w, pick(x, 1, 6), 0.7, tyStart)
		drawn = append(drawn, batches)
		for k, v := range []struct {
			first  int
			s      scheduler
			sample string
			name   string // in the table of timers; "" leaves it out
		}{{20, tyDynamic(20), "with zeros", ""}, {30, tyDynamic(30), "with zeros", "with zeros"}, {30, withoutZeros(tyDynamic(30)), "without zeros", "without zeros"}} {
			o := &tyPlay(x, batches, v.first, v.s)[0]
			at[i] = append(at[i], o)
			rows = append(rows, slices.Concat([]string{w.name, fmt.Sprintf("%d %%", v.first), v.sample}, o.cells()))
			if v.name == "" {
				continue
			}
			// With zeros is the reading that claims are judged by (reading 2); the other one is beside it.
			if median := tyTimerRow(timers, w, v.name, o.timers); k == 1 {
				medians[i] = median
				inRange = inRange && median >= w.timerLow && median <= w.timerHigh
			}
		}
		o := tyTune(x, batches[:min(len(batches), 3)], tyFirst).lowest
		at[i] = append(at[i], o)
		rows = append(rows, slices.Concat([]string{w.name, "30 %", "STATICTAGS, timer of least p95"}, o.cells()))
	}
	x.table("Figs. 11 to 13: DYNAMICTAGS", slices.Concat([]string{"workload", "P_1", "sample"}, tyColumns)...).Rows = rows
	tyPaperTable(x, []string{"HVW", "< 30 %", Missing, "> 80 %", "< 2.2", "< 3.2"}, []string{"MVW", "< 30 %", Missing, "> 80 %", "< 2.2", "< 3.2"},
		[]string{"LVW", "< 30 %", Missing, "10 points above STATICTAGS", "< 2.2", "< 3.2"})

	x.holds("order", medians[0] < medians[1] && medians[1] < medians[2], "medians %.0f, %.0f and %.0f s", medians[0], medians[1], medians[2])
	x.holds("range", inRange, "the medians above, and the share of time within these ranges in the table")
	judged := []*tyOutcome{at[0][1], at[1][1], at[2][1]}
	tyClaimUse(x, judged)
	done := func(o *tyOutcome) float64 { return mean(o.doneFirst) }
	x.within("done", []float64{done(judged[0]), done(judged[1])}, "%s and %s", share(done(judged[0])), share(done(judged[1])))
	static := done(at[2][3])
	// "10 % higher" is read as 10 points; the paper may mean a tenth.
	x.size("points", []float64{done(judged[2]) - static}, "%s against %s", share(done(judged[2])), share(static))
	tyClaimSlowdown(x, judged)
	most := 0.0
	for i := range at {
		most = max(most, abs(tyRatio(at[i][0], at[i][1], tyV)))
	}
	x.word("capacity", []float64{most}, "V(95) differs by at most %s", share(most))
	tyThree(x, list, drawn, at)
	tyWhyWorlds(x, 9, 0.7, tyLookDynamic)
}

// tyThree compares two partitions with three. at has the outcomes of Figure 10 by workload, of which number 1 is the
// one with two partitions on the same batches.
func tyThree(x *lab, list []tyWorkload, drawn [][]tyBatch, at [][]*tyOutcome) {
	t := x.table("DYNAMICTAGS with two and three partitions: V(95), and the 95th percentile of slowdowns", "workload", "30 %, 70 %", "p95", "30 %, 30 %, 40 %", "p95", "20 %, 20 %, 60 %", "p95")
	better := 0
	for i := range list {
		two := tyDynamic(tyFirst)
		three := tyPlay(x, drawn[i], tyFirst, two.with("three", "capacities", "0.30,0.30,0.40"), two.with("three", "capacities", "0.20,0.20,0.60"))
		out := append([]tyOutcome{*at[i][1]}, three...)
		row := []string{list[i].name}
		for k := range out {
			row = append(row, number(tyV(&out[k]), 2), number(tyP95(&out[k]), 2))
		}
		t.add(row...)
		// The better of the two divisions, which favours three partitions: the claim is that they do not
		// help.
		better += count(min(tyV(&out[1]), tyV(&out[2])) < (1-equally)*tyV(&out[0]))
	}
	x.holds("three", better == 0, "one of two divisions into three has a V(95) that is lower by more than 5 %% in %d of %d workloads", better, len(list))
}

// tyTimerRow adds a row of Figure 10 and returns the median timer.
func tyTimerRow(t *Table, w *tyWorkload, sample string, values []float64) float64 {
	// Samples without a timer (CV² of at most 2) are no short timers.
	set := slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return v <= 0 })
	paper := fmt.Sprintf("%g to %g", w.timerLow, w.timerHigh)
	if len(set) == 0 {
		t.add(w.name, sample, Missing, Missing, Missing, Missing, paper)
		return 0
	}
	in := 0
	for _, v := range set {
		in += count(v >= w.timerLow && v <= w.timerHigh)
	}
	at := func(q float64) float64 { return metrics.Percentile(set, q) }
	t.add(w.name, sample, number(at(10), 0), number(at(50), 0), number(at(90), 0), share(float64(in)/float64(len(set))), paper)
	return at(50)
}
