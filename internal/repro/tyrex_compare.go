package repro

import (
	"context"
	"fmt"
	"slices"
)

// Where the schedulers are in the comparisons.
const (
	tyAtFIFO = iota
	tyAtFairTasks
	tyAtFair
	tyAtStatic
	tyAtStaticLow
	tyAtDynamic
	tyAtDynamicC
)

// tyAll runs all schedulers of Figs. 14 to 16 on batches: STATICTAGS with the best
// timer for them.
func tyAll(ctx context.Context, o Options, batches []tyBatch) ([]tyScheduler, []tyOutcome, error) {
	tuned, err := tyTune(ctx, o, batches, 30)
	if err != nil {
		return nil, nil, err
	}
	list := []tyScheduler{tyFIFO(), tyFairTasks(), tyFair(), tyStatic(30, tuned.timer), tyStatic(30, tuned.low), tyDynamic(30),
		tyDynamic(30, "sample", "departed")}
	list[tyAtStatic].name = fmt.Sprintf("STATICTAGS, least V: %v", tuned.timer)
	list[tyAtStaticLow].name = fmt.Sprintf("STATICTAGS, least p95: %v", tuned.low)
	list[tyAtDynamic].name = "DYNAMICTAGS, with zeros"
	list[tyAtDynamicC].name = "DYNAMICTAGS, without"
	out, err := runTyrex(ctx, o, batches, 30, list...)
	return list, out, err
}

// tyGates are when reduces start: after all maps, which is what all experiments here
// assume, and as Hadoop has it.
var tyGates = []float64{1, 0.05}

// tyGateNames say so.
var tyGateNames = []string{"reduces after all maps", "early reduces"}

// runTyrexCompare makes Figs. 14 and 15.
func runTyrexCompare(ctx context.Context, o Options) (*Report, error) {
	r, list := &Report{}, tyWorkloads()
	var all [2][][]tyOutcome // by start of reduces, workload, scheduler
	for g, gate := range tyGates {
		t := r.table(fmt.Sprintf("Slowdowns (means over seeds), reduces start after %g of the maps", gate), "workload", "scheduler", "median", "V(95)", "p95",
			"worst", "p95 to FIFO", "to FAIR by tasks", "to FAIR, equal weights")
		t.add("paper", "TYREX", Missing, Missing, Missing, Missing, "-50 to -60 %", "-20 to -40 %", Missing)
		for i := range list {
			batches, err := tyDraw(ctx, o, &list[i], pick(o, 1, 5), 0.7, gate)
			if err != nil {
				return nil, err
			}
			names, out, err := tyAll(ctx, o, batches)
			if err != nil {
				return nil, err
			}
			all[g] = append(all[g], out)
			for k := range out {
				x := &out[k]
				to := func(base int) string { return percent(mean(x.p95)/mean(out[base].p95) - 1) }
				t.add(list[i].name, names[k].name, interval95(x.median, 2), interval95(x.v, 2), interval95(x.p95, 2), number(slices.Max(x.worst), 1),
					to(tyAtFIFO), to(tyAtFairTasks), to(tyAtFair))
			}
		}
	}
	tyClaimsCompare(r, list, all)
	tyDrawCompare(r, list, all)
	return r, tyWhyWorlds(ctx, o, r, tyClaimsOfCompare, 0.7, tyLookCompare)
}

// tyAgainst is how a scheduler's values differ from another's, workload by workload.
func tyAgainst(all [][]tyOutcome, at, to int, of func(*tyOutcome) []float64) []float64 {
	out := make([]float64, len(all))
	for i := range all {
		out[i] = mean(of(&all[i][at]))/mean(of(&all[i][to])) - 1
	}
	return out
}

// byWorkload writes a difference for each workload.
func byWorkload(x []float64) string {
	words := ""
	for i, w := range tyWorkloads() {
		words = joined(words, w.name+" "+percent(x[i]))
	}
	return words
}

// tyClaimsOfCompare is how many claims tyClaimsCompare makes.
const tyClaimsOfCompare = 10

// tyDrawn are the schedulers that are drawn, by their places.
var tyDrawn = []struct {
	at   int
	name string
}{{tyAtFIFO, "FIFO"}, {tyAtFairTasks, "FAIR, by tasks"}, {tyAtStaticLow, "STATICTAGS, best timer"}, {tyAtDynamic, "DYNAMICTAGS"}}

// tyDrawCompare draws the percentiles of Fig. 15 and the distributions of LVW and
// HVW with early reduces.
func tyDrawCompare(r *Report, list []tyWorkload, all [2][][]tyOutcome) {
	var groups []string
	var series []Series
	for _, d := range tyDrawn {
		series = append(series, Series{Name: d.name})
	}
	for g := range tyGateNames {
		for i := range list {
			groups = append(groups, list[i].name+" "+[]string{"late", "early"}[g])
			for k, d := range tyDrawn {
				series[k].Y = append(series[k].Y, mean(all[g][i][d.at].p95))
			}
		}
	}
	r.bars("tyrex-fig15", "Tyrex, Figure 15: 95th percentile of slowdowns, late and early reduces", "slowdown", groups, series...).LogY = true
}

func tyP95(x *tyOutcome) []float64    { return x.p95 }
func tyV(x *tyOutcome) []float64      { return x.v }
func tyMedian(x *tyOutcome) []float64 { return x.median }

func tyClaimsCompare(r *Report, list []tyWorkload, all [2][][]tyOutcome) {
	for g, when := range tyGateNames {
		x := all[g]
		fifo, fair := tyAgainst(x, tyAtDynamic, tyAtFIFO, tyP95), tyAgainst(x, tyAtDynamic, tyAtFairTasks, tyP95)
		r.claim(sized(printed{-60, -50, "%"}, fifo...), "the 95th percentile of slowdowns is 50 to 60 % below FIFO's in all workloads: DYNAMICTAGS, "+when, "%s", byWorkload(fifo))
		r.claim(sized(printed{-40, -20, "%"}, fair...), "it is 20 to 40 % below FAIR's: DYNAMICTAGS, "+when, "%s against FAIR by tasks, %s against equal weights",
			byWorkload(fair), byWorkload(tyAgainst(x, tyAtDynamic, tyAtFair, tyP95)))
		tuned := tyAgainst(x, tyAtStaticLow, tyAtFairTasks, tyP95)
		r.claim(sized(printed{-40, -20, "%"}, tuned...), "it is 20 to 40 % below FAIR's: STATICTAGS, "+when, "%s against FAIR by tasks, %s against equal weights",
			byWorkload(tuned), byWorkload(tyAgainst(x, tyAtStaticLow, tyAtFair, tyP95)))
	}
	v, m := tyAgainst(all[0], tyAtDynamic, tyAtFIFO, tyV), tyAgainst(all[0], tyAtDynamic, tyAtFIFO, tyMedian)
	r.claim(sized(number1(-50, "%"), v[0]), "against FIFO variability falls by half for HVW", "%s", percent(v[0]))
	r.claim(sized(number1(-30, "%"), v[1:]...), "by 30 % for MVW and LVW", "%s and %s", percent(v[1]), percent(v[2]))
	r.claim(sized(number1(-50, "%"), m[1:]...), "and the median by half for these", "%s and %s", percent(m[1]), percent(m[2]))
	s, d := 0.0, 0.0
	for i := range list {
		s, d = s+mean(all[0][i][tyAtStaticLow].p95)/3, d+mean(all[0][i][tyAtDynamic].p95)/3
	}
	r.claim(worded(d < (1+little)*s, "little difference"), "DYNAMICTAGS needs no tuning and comes close to STATICTAGS with the best timer", "mean of the 95th percentiles %.2f against %.2f "+
		"with the timer tuned for just that", d, s)
}

// runTyrexStress makes Fig. 16, with reduces that wait for all maps and with
// Hadoop's early start.
func runTyrexStress(ctx context.Context, o Options) (*Report, error) {
	r, w := &Report{}, &tyWorkloads()[0]
	t := r.table("HVW under a load of 0.9 (means over seeds; times in minutes)", "reduces start at", "scheduler", "median", "p95", "worst", "submissions",
		"makespan", "tail", "tail in paper")
	var all [2][]tyOutcome
	for g, gate := range tyGates {
		batches, err := tyDraw(ctx, o, w, pick(o, 1, 10), 0.9, gate)
		if err != nil {
			return nil, err
		}
		names, out, err := tyAll(ctx, o, batches)
		if err != nil {
			return nil, err
		}
		all[g] = out
		for k := range out {
			x := &out[k]
			paper := Missing
			switch k {
			case tyAtFairTasks:
				paper = "45 (makespan 70)"
			case tyAtStaticLow, tyAtDynamic:
				paper = "9 (makespan 34)"
			}
			t.add(share(gate), names[k].name, interval95(x.median, 2), interval95(x.p95, 2), number(slices.Max(x.worst), 1), number(mean(x.submitted)/60, 1),
				interval95(minutes(x.makespan), 1), interval95(minutes(x.tail), 1), paper)
		}
	}
	worst := slices.Max(all[0][tyAtDynamic].worst)
	r.claim(bounded(worst <= 10, "10"), "no job has a slowdown above 10 under Tyrex", "worst %.1f over all seeds with reduces after all maps, %.1f with their early start, "+
		"mean of the worst of a run %.1f and %.1f", worst, slices.Max(all[1][tyAtDynamic].worst), mean(all[0][tyAtDynamic].worst), mean(all[1][tyAtDynamic].worst))
	for g, when := range tyGateNames {
		p := func(at int) float64 { return mean(all[g][at].p95) }
		d := p(tyAtDynamic)
		r.claim(ordered(d < min(p(tyAtFIFO), p(tyAtFairTasks))), "Tyrex has the least slowdowns of all: "+when, "95th percentile %.1f against %.1f (FIFO), %.1f (FAIR by tasks) and "+
			"%.1f (FAIR, equal weights)", d, p(tyAtFIFO), p(tyAtFairTasks), p(tyAtFair))
		fair, tyrex := mean(all[g][tyAtFairTasks].makespan)/60, mean(all[g][tyAtDynamic].makespan)/60
		r.claim(sized(number1(106, "%"), fair/tyrex-1), "FAIR needs a makespan 106 % longer than Tyrex's: "+when, "%.1f and %.1f min", fair, tyrex)
	}
	var lines []Series
	for _, d := range tyDrawn {
		lines = append(lines, cdf(d.name, all[1][d.at].slowdowns))
	}
	r.lines("tyrex-fig16", "Tyrex, Figure 16: slowdowns of HVW at load 0.9, early reduces", "slowdown", "part of the jobs", lines...).LogX = true
	return r, tyWhyWorlds(ctx, o, r, 5, 0.9, tyLookStress)
}

func minutes(seconds []float64) []float64 {
	out := make([]float64, len(seconds))
	for i, s := range seconds {
		out[i] = s / 60
	}
	return out
}
