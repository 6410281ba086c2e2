package repro

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/job"
)

// tummClusters are the clusters of Table 3.
var tummClusters = []string{"heter1", "heter2"}

// tummPair are the schedulers of the heterogeneous experiments: FIFO on fixed slots
// and H_TuMM.
var tummPair = []scheduler{tummStatic, tummHTuMM}

// tummInstances are the types of the machines of Table 3, by the names of the groups.
var tummInstances = map[string]string{"xlarge-a": "m1.xlarge", "xlarge-b": "m1.xlarge", "large": "m1.large",
	"m1-xlarge": "m1.xlarge", "c1-xlarge": "c1.xlarge", "m2-xlarge": "m2.xlarge"}

// withInstances returns the cluster with the cores of the real machines, which tasks share,
// and with equal disks.
func withInstances(c workload.Cluster) workload.Cluster {
	return eachGroup(c, func(g *workload.NodeGroup) {
		// The paper's compute units per slot follow from these cores when all slots are busy. With fewer
		// tasks a real machine gives each more, which units per slot cannot say.
		t, err := workload.FindInstance(tummInstances[g.Name])
		if err != nil {
			panic("repro: " + err.Error())
		}
		g.Cores, g.Speed, g.DiskBandwidth = t.Cores, t.Speed(), diskRate
	})
}

// tummHeter returns a run on a cluster of Table 3. Maps and reduces spend a part of their
// time alone on the disk, and the rest on a core.
func tummHeter(cluster string, part float64, jobs []workload.Job, seed uint64, s scheduler) run {
	jobs = contendedReduces(part, contendedBy(part, jobs, seed))
	return tummRun(withInstances(paperCluster("tumm-"+cluster)), jobs, s)
}

// tummTable4 measures the tasks of FIFO on Heter1.
func tummTable4(x *lab) {
	jobs := x.generate("tumm-mixed-random", x.Seed)
	times := x.play(tummHeter("heter1", sharedPart(), jobs, x.Seed, tummStatic))[0].watch.times
	apps := [][2]string{{"classification", "Classification"}, {"histogramratings", "Histogram Rating"}, {"invertedindex", "Inverted Index"},
		{"wordcount", "Word Count"}, {"grep", "Grep"}}
	t := x.table("Fastest and slowest tasks on Heter1 (s)", "benchmark", "maps", "paper", "reduces, fastest", "paper", "slowest to fastest map", "paper")
	for i, p := range x.printed("table4") {
		m, red := times[apps[i][0]][job.Map], times[apps[i][0]][job.Reduce]
		// Reduces have no slowest: with early reduces the longest ones have waited for maps.
		t.add(apps[i][1], fmt.Sprintf("%.1f–%.1f", m.min, m.max), fmt.Sprintf("%.1f–%.1f", p[0], p[1]), number(red.min, 1), number(p[2], 1),
			number(m.max/m.min, 2), number(p[3], 2))
	}
	m := times["classification"][job.Map]
	x.size("fourfold", []float64{m.max / m.min}, "%.2f times: a large instance has two cores for three tasks, and its disk serves them all", m.max/m.min)
}

// tummFig10 re-makes the mixed workload on both heterogeneous clusters.
func tummFig10(x *lab) {
	// The paper has three orders on each cluster, without which jobs were drawn. A claim about all orders is
	// judged by all of these.
	orders := tummOrders(x)
	t := x.table("Makespan of ten jobs (s)", "cluster", "order", "FIFO", "H_TuMM", "gain", "paper", "slots in use, FIFO", "H_TuMM", "nodes whose maps vary, FIFO", "H_TuMM")
	ahead, all, fuller, varied := 0, 0, 0, true
	gains := make([][]float64, len(tummClusters))
	for c, cluster := range tummClusters {
		runs := grid(x, orders, tummPair, 1, func(n tummOrder, s scheduler, _ uint64) run {
			return tummHeter(cluster, sharedPart(), n.jobs(x), n.seed, s)
		})
		for i, n := range orders {
			fifo, own := runs[i][0][0], runs[i][1][0]
			g := gain(fifo.Makespan, own.Makespan)
			all++
			gains[c] = append(gains[c], g)
			ahead += count(own.Makespan < fifo.Makespan)
			// The share of slots and not of slot time used: the two runs have different makespans.
			fuller += count(own.slotUse() > fifo.slotUse())
			// At least seven of nine: the paper says that each node has its own number of maps, which
			// varies; two nodes may happen to keep theirs.
			varied = varied && own.watch.varying() > 6
			t.add(cluster, n.name, seconds(fifo.Makespan), seconds(own.Makespan), share(g), Missing, share(fifo.slotUse()), share(own.slotUse()),
				fmt.Sprint(fifo.watch.varying()), fmt.Sprint(own.watch.varying()))
		}
	}
	x.holds("shorter", ahead == all, "in %d of %d runs; least gain %s", ahead, all, share(slices.Min(slices.Concat(gains...))))
	if x.failing(1) {
		tummFig10Why(x)
	}
	x.holds("full", fuller == all, "more slots in use than under FIFO in %d of %d runs", fuller, all)
	x.holds("own", varied, "under H_TuMM the number of maps varies on at least 7 of 9 nodes while all their slots are in use")
	x.lines("tumm-fig10", "TuMM, Figure 10: gain of H_TuMM on FIFO, ten jobs in many orders", "gain [%]", "part of the orders",
		cdf("Heter1", times100(gains[0])), cdf("Heter2", times100(gains[1])))
}

// tummFig10Why repeats the runs of Figure 10 with maps that slow each other down
// less.
func tummFig10Why(x *lab) {
	orders := tummOrders(x)
	t := newTable("H_TuMM to FIFO by how much maps slow each other down", "part of a map's time on the node's shared resource", "cluster", "mean gain", "least", "shorter")
	with, worst := "", ""
	for _, part := range []float64{0, 0.25, 0.5, sharedPart()} {
		all := true
		for _, cluster := range tummClusters {
			runs := grid(x, orders, tummPair, 1, func(n tummOrder, s scheduler, _ uint64) run {
				return tummHeter(cluster, part, n.jobs(x), n.seed, s)
			})
			var gains []float64
			shorter := 0
			for i := range runs {
				gains = append(gains, gain(runs[i][0][0].Makespan, runs[i][1][0].Makespan))
				shorter += count(gains[i] > 0)
			}
			all = all && shorter == len(orders)
			worst = joined(worst, fmt.Sprintf("%s at %.2f on %s", percent(slices.Min(gains)), part, cluster))
			t.add(number(part, 2), cluster, share(mean(gains)), share(slices.Min(gains)), fmt.Sprintf("%d of %d", shorter, len(orders)))
		}
		// In every order and on both clusters, since the claim is about all.
		if all {
			with = joined(with, number(part, 2))
		}
	}
	x.explain(1, "busy", []*Table{t}, "H_TuMM is shorter in every order with shares of: %s. Its least gain over the orders is %s", orNone(with), worst)
}

var tummQueries = []string{"q15", "q16", "q18"}

// tummTable5 runs the chains of TPC-H jobs. Nothing was measured about their tasks. The part
// of the time that they spend on the disk is the one for which the times of FIFO are nearest
// to the printed ones; the gains are not looked at.
func tummTable5(x *lab) {
	var parts []float64
	for p := 20; p <= 50; p += pick(x, 10, 1) {
		parts = append(parts, float64(p)/100)
	}
	best, least := 0., math.Inf(1)
	for _, part := range parts {
		// Chosen by FIFO's six times alone. H_TuMM's would make the gains that are judged below a fit.
		if d := tummDeviation(x, part); d < least {
			best, least = part, d
		}
	}
	var groups []string
	ours, print := Series{Name: "here"}, Series{Name: "paper", Hollow: true}
	t := x.table(fmt.Sprintf("Time of each query (s), part %.2f of a task's time on the disk", best), "cluster", "query", "FIFO", "paper", "H_TuMM", "paper", "gain", "paper")
	for _, cluster := range tummClusters {
		times := tummTPCH(x, cluster, best, tummPair)
		gains := times.gains()
		for q, p := range x.printed("table5-" + cluster) {
			t.add(cluster, tummQueries[q], number(times.mean(0, q), 1), number(p[0], 1), number(times.mean(1, q), 1), number(p[1], 1), share(gains[q]), number(p[2], 1)+" %")
			groups, print.Y = append(groups, cluster+" "+tummQueries[q]), append(print.Y, p[2])
		}
		ours.Y = append(ours.Y, times100(gains)...)
		x.size("sooner:"+cluster, gains, "%s to %s, mean %s, with a part of %.2f, for which FIFO's six times are nearest to the printed ones (root mean square %s)",
			share(slices.Min(gains)), share(slices.Max(gains)), share(mean(gains)), best, share(least))
		x.seeds(times.drawn(), "%")
		if x.failing(1) {
			tummTPCHWhy(x, cluster)
		}
	}
	tummAligned(x, best)
	x.bars("tumm-table5", "TuMM, Table 5: gain of H_TuMM on FIFO, TPC-H queries", "gain [%]", groups, ours, print)
	tummParts(x, best)
}

// tummAligned judges Figure 12 by the mean time between the end of a job's maps and the
// nearest end of another job.
func tummAligned(x *lab, part float64) {
	t := x.table("Mean distance between the end of a job's maps and the nearest end of another job (s)", "cluster", "FIFO", "H_TuMM")
	better := ""
	for _, cluster := range tummClusters {
		var distances [2]float64
		for i, row := range grid(x, tummPair, []string{cluster}, pick(x, 5, 20), func(s scheduler, c string, n uint64) run {
			return tummHeter(c, part, x.generate("tumm-tpch", x.Seed), x.Seed+n, s)
		}) {
			for _, o := range row[0] {
				distances[i] += tummNearest(o) / float64(len(row[0]))
			}
		}
		if distances[1] < distances[0] {
			better = joined(better, cluster)
		}
		t.add(append([]string{cluster}, cells(fixed(1), distances[:]...)...)...)
	}
	// On both clusters: joined lists them in the order of tummClusters.
	x.holds("aligned", better == strings.Join(tummClusters, "; "), "distances between the end of maps and the nearest end of another job are in the table, means over %d draws", pick(x, 5, 20))
	if x.failing(1) {
		x.explain(1, "aligned", []*Table{t}, "The distance is smaller on: %s", orNone(better))
	}
}

// tummNearest returns the mean time in seconds between the end of a job's maps and the
// nearest end of another job.
func tummNearest(o outcome) float64 {
	var list []float64
	for i := range o.Jobs {
		least := math.Inf(1)
		for k := range o.Jobs {
			if k != i {
				least = min(least, (o.Jobs[i].MapsDone - o.Jobs[k].Ended).Abs().Seconds())
			}
		}
		list = append(list, least)
	}
	return mean(list)
}

// tummDeviation returns the root mean square of the relative distances between FIFO's times
// of the queries and the printed ones.
func tummDeviation(x *lab, part float64) float64 {
	squares := 0.
	for _, cluster := range tummClusters {
		times := tummTPCH(x, cluster, part, tummPair[:1])
		for q, p := range x.printed("table5-" + cluster) {
			// Relative, so that the long queries of heter1 do not decide alone.
			d := times.mean(0, q)/p[0] - 1
			squares += d * d
		}
	}
	return math.Sqrt(squares / float64(len(tummClusters)*len(tummQueries)))
}

// tummParts shows what follows from other parts of the time on the disk, and the world that
// was assumed before: a processor for each slot, as fast as its compute units.
func tummParts(x *lab, best float64) {
	t := x.table("Gain of H_TuMM by the part of a task's time on the disk, mean of three queries", "part", "FIFO's times to the printed ones, root mean square", "heter1", "heter2")
	for _, part := range append(pick(x, []float64{0.3}, []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6}), best, sharedPart()) {
		row := []string{number(part, 2), share(tummDeviation(x, part))}
		for _, cluster := range tummClusters {
			row = append(row, share(mean(tummTPCH(x, cluster, part, tummPair).gains())))
		}
		t.add(row...)
	}
	row := []string{fmt.Sprintf("%.2f, a processor per slot, disks as fast as processors, reduces do not share", sharedPart()), ""}
	for _, cluster := range tummClusters {
		row = append(row, share(mean(tummQueryTimes(x, tummPair, func(seed uint64, s scheduler) run {
			return tummRun(withDisks(paperCluster("tumm-"+cluster)), contended(x.generate("tumm-tpch", x.Seed), seed), s)
		}).gains())))
	}
	t.add(row...)
}

// tummTPCHWhy repeats the runs with tasks that share the disk more or less.
func tummTPCHWhy(x *lab, cluster string) {
	t := newTable("Gain of H_TuMM on "+cluster+" by the part of a task's time on the disk", append([]string{"part"}, tummQueries...)...)
	with := ""
	for _, part := range []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5} {
		gains := tummTPCH(x, cluster, part, tummPair).gains()
		t.add(append([]string{number(part, 1)}, cells(share, gains...)...)...)
		if x.sized("sooner", gains...) != Fails {
			with = joined(with, number(part, 1))
		}
	}
	x.explain(1, "contention", []*Table{t}, "The gain is in size with parts of: %s", orNone(with))
}

// queryTimes has the times of the queries in seconds, by scheduler, query and draw.
type queryTimes [][3][]float64

func (t queryTimes) mean(scheduler, query int) float64 { return mean(t[scheduler][query]) }

// gains returns the gain of the second scheduler on the first for each query.
func (t queryTimes) gains() []float64 {
	var list []float64
	for q := range tummQueries {
		list = append(list, 1-t.mean(1, q)/t.mean(0, q))
	}
	return list
}

// drawn returns the gain of each draw, the mean over the queries.
func (t queryTimes) drawn() []float64 {
	list := make([]float64, len(t[0][0]))
	for d := range list {
		for q := range tummQueries {
			// Paired: both schedulers of a draw have the same tasks. The mean of these is not exactly the
			// gain of the means that the table shows.
			list[d] += (1 - t[1][q][d]/t[0][q][d]) / float64(len(tummQueries))
		}
	}
	return list
}

// tummTPCH runs the chains on a cluster of Table 3 with several draws.
func tummTPCH(x *lab, cluster string, part float64, list []scheduler) queryTimes {
	return tummQueryTimes(x, list, func(seed uint64, s scheduler) run {
		return tummHeter(cluster, part, x.generate("tumm-tpch", x.Seed), seed, s)
	})
}

// tummQueryTimes simulates each scheduler with several draws.
func tummQueryTimes(x *lab, list []scheduler, cell func(seed uint64, s scheduler) run) queryTimes {
	draws := make([]uint64, pick(x, 5, 40))
	for s := range draws {
		// The draws are columns of the grid and not repetitions, which would change the simulator's seed,
		// too. Only the times of tasks vary.
		draws[s] = x.Seed + uint64(s)
	}
	times := make(queryTimes, len(list))
	for i, row := range grid(x, list, draws, 1, func(s scheduler, seed uint64, _ uint64) run { return cell(seed, s) }) {
		for q, query := range tummQueries {
			for _, r := range row {
				times[i][q] = append(times[i][q], queryEnd(r[0], query).Seconds())
			}
		}
	}
	return times
}

// queryEnd returns the time at which the last job of a query ended.
func queryEnd(r outcome, query string) (end time.Duration) {
	for i := range r.jobs {
		// The generator names the chain of a query in the user of its jobs.
		if r.jobs[i].User == query {
			end = max(end, r.Jobs[i].Ended)
		}
	}
	return end
}
