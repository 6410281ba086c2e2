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

// tyGates are when reduces start: after all maps, and as Hadoop has it.
var tyGates = []float64{1, 0.05}

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
	return r, nil
}

// tyAgainst says how much lower a scheduler's values are than another's, workload by
// workload, and whether all are at most a bound.
func tyAgainst(all [][]tyOutcome, at, to int, bound float64, of func(*tyOutcome) []float64) (bool, string) {
	holds, words := true, ""
	for i, name := range []string{"HVW", "MVW", "LVW"} {
		x := mean(of(&all[i][at]))/mean(of(&all[i][to])) - 1
		holds = holds && x <= bound
		if i > 0 {
			words += ", "
		}
		words += name + " " + percent(x)
	}
	return holds, words
}

func tyP95(x *tyOutcome) []float64    { return x.p95 }
func tyV(x *tyOutcome) []float64      { return x.v }
func tyMedian(x *tyOutcome) []float64 { return x.median }

func tyClaimsCompare(r *Report, list []tyWorkload, all [2][][]tyOutcome) {
	late, words := tyAgainst(all[0], tyAtDynamic, tyAtFIFO, -0.4, tyP95)
	early, words2 := tyAgainst(all[1], tyAtDynamic, tyAtFIFO, -0.4, tyP95)
	r.claim(late && early, "the 95th percentile of slowdowns is 50 to 60 % below FIFO's in all workloads", "reduces after all maps: %s; early reduces: %s", words, words2)
	_, words = tyAgainst(all[0], tyAtDynamic, tyAtFairTasks, -0.1, tyP95)
	early, words2 = tyAgainst(all[1], tyAtDynamic, tyAtFairTasks, -0.1, tyP95)
	_, equal := tyAgainst(all[1], tyAtDynamic, tyAtFair, 0, tyP95)
	tuned, static := tyAgainst(all[1], tyAtStaticLow, tyAtFairTasks, -0.1, tyP95)
	r.claim(early && tuned, "it is 20 to 40 % below FAIR's", "early reduces, Hadoop's default: STATICTAGS %s, DYNAMICTAGS %s against FAIR by tasks, DYNAMICTAGS %s "+
		"against equal weights; reduces after all maps: DYNAMICTAGS %s. What hurts FAIR are reduces of large jobs that hold slots while their maps go on; "+
		"without them FAIR is the better", static, words2, equal, words)
	late, words = tyAgainst(all[0], tyAtDynamic, tyAtFIFO, -0.2, tyV)
	_, words2 = tyAgainst(all[0], tyAtDynamic, tyAtFIFO, 0, tyMedian)
	r.claim(late, "against FIFO variability falls by half (HVW) or 30 % (MVW, LVW), and the median by half for MVW and LVW",
		"V(95): %s; median: %s", words, words2)
	s, d := 0.0, 0.0
	for i := range list {
		s, d = s+mean(all[0][i][tyAtStaticLow].p95)/3, d+mean(all[0][i][tyAtDynamic].p95)/3
	}
	r.claim(d < 1.35*s, "DYNAMICTAGS needs no tuning and comes close to STATICTAGS with the best timer", "mean of the 95th percentiles %.2f against %.2f "+
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
	r.claim(worst < 10, "no job has a slowdown above 10 under Tyrex", "worst %.1f over all seeds with reduces after all maps, %.1f with their early start, "+
		"mean of the worst of a run %.1f and %.1f", worst, slices.Max(all[1][tyAtDynamic].worst), mean(all[0][tyAtDynamic].worst), mean(all[1][tyAtDynamic].worst))
	best := func(out []tyOutcome) bool {
		d := mean(out[tyAtDynamic].p95)
		return d < mean(out[tyAtFIFO].p95) && d < mean(out[tyAtFairTasks].p95)
	}
	early := all[1]
	r.claim(best(early), "Tyrex has the least slowdowns of all", "95th percentile with early reduces, Hadoop's default: %.1f against %.1f (FIFO), %.1f (FAIR by tasks) and "+
		"%.1f (FAIR, equal weights); with reduces after all maps %.1f against %.1f, %.1f and %.1f", mean(early[tyAtDynamic].p95), mean(early[tyAtFIFO].p95),
		mean(early[tyAtFairTasks].p95), mean(early[tyAtFair].p95),
		mean(all[0][tyAtDynamic].p95), mean(all[0][tyAtFIFO].p95), mean(all[0][tyAtFairTasks].p95), mean(all[0][tyAtFair].p95))
	fair, tyrex := &all[1][tyAtFairTasks], &all[1][tyAtDynamic]
	r.claim(mean(fair.makespan) > 1.5*mean(tyrex.makespan), "FAIR needs about twice Tyrex's makespan, because large jobs hold reduce slots",
		"with an early start of reduces, makespans of %.1f and %.1f min; reduces that hold slots while they wait for maps do cost FAIR (%.1f min without the early start), "+
			"but not twice: at this load either is bounded by the work and by the last large job", mean(fair.makespan)/60, mean(tyrex.makespan)/60, mean(all[0][tyAtFairTasks].makespan)/60)
	return r, nil
}

func minutes(seconds []float64) []float64 {
	out := make([]float64, len(seconds))
	for i, s := range seconds {
		out[i] = s / 60
	}
	return out
}
