package repro

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/metrics"
)

// tyTimers are the timers that are tried for STATICTAGS, s.
var tyTimers = []int{25, 50, 100, 150, 250, 400, 800, 1600, 2400}

// tyQuickTimers are those of a quick run.
var tyQuickTimers = []int{100, 250, 1200}

// tyTuned are timers of STATICTAGS found by trial: T₁*, the one that makes the
// variability of slowdowns least, as the paper has it, and the one with the least
// 95th percentile.
type tyTuned struct {
	timer, low   time.Duration
	best, lowest *tyOutcome
}

// tyTune finds them for a capacity of P_1 in percent.
func tyTune(ctx context.Context, o Options, batches []tyBatch, first int) (*tyTuned, error) {
	timers := pick(o, tyQuickTimers, tyTimers)
	var list []tyScheduler
	for _, t := range timers {
		list = append(list, tyStatic(first, time.Duration(t)*time.Second))
	}
	out, err := runTyrex(ctx, o, batches, first, list...)
	if err != nil {
		return nil, err
	}
	best, low := 0, 0
	for i := range out {
		if mean(out[i].v) < mean(out[best].v) {
			best = i
		}
		if mean(out[i].p95) < mean(out[low].p95) {
			low = i
		}
	}
	return &tyTuned{time.Duration(timers[best]) * time.Second, time.Duration(timers[low]) * time.Second, &out[best], &out[low]}, nil
}

// tyCells are the columns that Figs. 7 to 9 and 11 to 13 show.
func tyCells(x *tyOutcome) []string {
	return []string{share(mean(x.use1)), share(mean(x.use2)), share(mean(x.doneFirst)), number(mean(x.median), 2),
		number(mean(x.v), 2), number(mean(x.p95), 2), number(slices.Max(x.worst), 1)}
}

var tyColumns = []string{"use of P_1", "use of P_2", "done in P_1", "median slowdown", "V(95)", "p95", "worst"}

// tyPaper are the bounds that the text gives for the same columns.
type tyPaper struct{ workload, use1, use2, done, median, v string }

func tyPaperTable(r *Report, title string, rows ...tyPaper) {
	t := r.table(title, slices.Concat([]string{"workload"}, tyColumns)...)
	for _, p := range rows {
		t.add(p.workload, p.use1, p.use2, p.done, p.median, p.v, Missing, Missing)
	}
}

// runTyrexStatic makes Figs. 6 to 9.
func runTyrexStatic(ctx context.Context, o Options) (*Report, error) {
	r, list := &Report{}, tyWorkloads()
	capacities := pick(o, []int{20, 30}, []int{10, 20, 30, 40})
	t := r.table("STATICTAGS with the best timer", slices.Concat([]string{"workload", "P_1", "least", "timer (s)"}, tyColumns)...)
	best, low, at := make([][]time.Duration, len(list)), make([][]time.Duration, len(list)), make([][]*tyOutcome, len(list))
	for i := range list {
		batches, err := tyDraw(ctx, o, &list[i], pick(o, 1, 3), 0.7, 1)
		if err != nil {
			return nil, err
		}
		for _, c := range capacities {
			x, err := tyTune(ctx, o, batches, c)
			if err != nil {
				return nil, err
			}
			best[i], low[i], at[i] = append(best[i], x.timer), append(low[i], x.low), append(at[i], x.lowest)
			for _, row := range []struct {
				by    string
				timer time.Duration
				x     *tyOutcome
			}{{"V(95)", x.timer, x.best}, {"p95", x.low, x.lowest}} {
				t.add(slices.Concat([]string{list[i].name, fmt.Sprintf("%d %%", c), row.by, number(row.timer.Seconds(), 0)}, tyCells(row.x))...)
			}
		}
	}
	tyPaperTable(r, "The paper's bounds (its bars are lost)", tyPaper{"HVW", "< 30 %", "> 75 %", "> 80 %", "< 2", "< 2"},
		tyPaper{"MVW", "< 30 %", "> 75 %", "> 80 %", "< 2", "< 3.3"}, tyPaper{"LVW", "< 30 %", "> 75 %", "< 60 %", "< 2", "< 3.3"})
	tyClaimsStatic(r, capacities, best, low, at)
	return r, tyWhyStatic(ctx, o, r)
}

func tyClaimsStatic(r *Report, capacities []int, best, low [][]time.Duration, at [][]*tyOutcome) {
	of := func(c int) int { return slices.Index(capacities, c) }
	most, mostLow := slices.Max(slices.Concat(best[0], best[1])), slices.Max(slices.Concat(low[0], low[1]))
	r.claim(bounded(mostLow < 250*time.Second, "< 250 s"), "the best timer of HVW and MVW is below 250 s whatever the capacity", "at most %v by the 95th percentile, %v by the "+
		"variability, which also becomes small when all jobs are slow: the median is its denominator", mostLow, most)
	last := len(capacities) - 1
	r.claim(sized(number1(5, "times"), low[2][last].Seconds()/low[2][0].Seconds()), "the best timer of LVW grows five times from 10 to 40 %", "from %v at %d %% to %v at %d %%",
		low[2][0], capacities[0], low[2][last], capacities[last])
	i := of(30)
	tyClaimUse(r, at, i)
	h, m, l := at[0][i], at[1][i], at[2][i]
	r.claim(bounded(min(mean(h.doneFirst), mean(m.doneFirst)) > 0.8, "> 80 %"), "over 80 % of the jobs of HVW and MVW end in P_1", "%s and %s with 30 %% of the slots and the timer of the least 95th percentile",
		share(mean(h.doneFirst)), share(mean(m.doneFirst)))
	r.claim(bounded(mean(l.doneFirst) < 0.6, "< 60 %"), "clearly fewer of LVW's, below 60 %", "%s", share(mean(l.doneFirst)))
	tyClaimSlowdown(r, at, i, 2, 3.3)
}

// tyClaimUse judges the use of partitions at the i-th capacity.
func tyClaimUse(r *Report, at [][]*tyOutcome, i int) {
	low, high, words := 0.0, 1.0, ""
	var passing []string
	for _, x := range at {
		low, high = max(low, mean(x[i].use1)), min(high, mean(x[i].use2))
		words += fmt.Sprintf("%s and %s, ", share(mean(x[i].use1)), share(mean(x[i].use2)))
		passing = append(passing, share(mean(x[i].passing)))
	}
	r.claim(bounded(low < 0.3 && high > 0.75, "< 30 %, > 75 %"), "P_1 is used for less than 30 %, P_2 for more than 75 %", "%sHVW, MVW, LVW with 30 %% of the slots; "+
		"of P_1's, %s are jobs on their way to P_2", words, strings.Join(passing, ", "))
}

// tyClaimSlowdown judges medians and variabilities at the i-th capacity.
func tyClaimSlowdown(r *Report, at [][]*tyOutcome, i int, median, v float64) {
	worst, worstV, words := 0.0, 0.0, ""
	var second []string
	for k, name := range []string{"HVW", "MVW", "LVW"} {
		x := at[k][i]
		worst, worstV = max(worst, mean(x.median)), max(worstV, mean(x.v))
		second = append(second, share(mean(x.slowSecond)))
		words += fmt.Sprintf("%s %.2f and %.2f; ", name, mean(x.median), mean(x.v))
	}
	r.claim(bounded(worst < median, fmt.Sprintf("< %g", median)), fmt.Sprintf("the median slowdown is below %g in all workloads", median), "median and V(95): %sP_1 has 30 %%", words)
	r.claim(bounded(worstV < v, fmt.Sprintf("< %g", v)), fmt.Sprintf("the variability of slowdowns V(95) is below %g in all workloads", v), "worst %.2f; of the slowest twentieth of the jobs %s "+
		"(HVW, MVW, LVW) ended in P_2, where they wait for each other first come, first served", worstV, strings.Join(second, ", "))
}

// runTyrexDynamic makes Figs. 10 to 13.
func runTyrexDynamic(ctx context.Context, o Options) (*Report, error) {
	r, list := &Report{}, tyWorkloads()
	timers := r.table("Fig. 10: the timer in the first 30 minutes (s), P_1 has 30 %", "workload", "sample", "10th percentile", "median", "90th percentile",
		"within the paper's range", "paper")
	var rows [][]string
	at := make([][]*tyOutcome, len(list)) // by workload: 20 %, 30 %, 30 % without zeros, static
	var medians [3]float64
	for i := range list {
		w := &list[i]
		batches, err := tyDraw(ctx, o, w, pick(o, 1, 10), 0.7, 1)
		if err != nil {
			return nil, err
		}
		for k, v := range []struct {
			first int
			x     tyScheduler
			name  string
		}{{20, tyDynamic(20), ""}, {30, tyDynamic(30), "with zeros (C0)"}, {30, tyDynamic(30, "sample", "departed"), "without zeros (C)"}} {
			out, err := runTyrex(ctx, o, batches, v.first, v.x)
			if err != nil {
				return nil, err
			}
			at[i] = append(at[i], &out[0])
			rows = append(rows, slices.Concat([]string{w.name, fmt.Sprintf("%d %%", v.first), []string{"C0", "C0", "C"}[k]}, tyCells(&out[0])))
			if v.name != "" {
				q := tyTimerRow(timers, w, v.name, out[0].timers)
				if k == 1 {
					medians[i] = q
				}
			}
		}
		x, err := tyTune(ctx, o, batches, 30)
		if err != nil {
			return nil, err
		}
		at[i] = append(at[i], x.lowest)
		rows = append(rows, slices.Concat([]string{w.name, "30 %", "STATICTAGS, timer of least p95"}, tyCells(x.lowest)))
	}
	t := r.table("Figs. 11 to 13: DYNAMICTAGS", slices.Concat([]string{"workload", "P_1", "sample"}, tyColumns)...)
	t.Rows = rows
	tyPaperTable(r, "The paper's bounds (its bars are lost)", tyPaper{"HVW", "< 30 %", Missing, "> 80 %", "< 2.2", "< 3.2"},
		tyPaper{"MVW", "< 30 %", Missing, "> 80 %", "< 2.2", "< 3.2"}, tyPaper{"LVW", "< 30 %", Missing, "10 points above STATICTAGS", "< 2.2", "< 3.2"})
	tyClaimsDynamic(r, at, medians)
	return r, tyWhyWorlds(ctx, o, r, 8, 0.7, tyLookDynamic)
}

// tyTimerRow adds a row of Fig. 10 and returns the median timer.
func tyTimerRow(t *Table, w *tyWorkload, sample string, values []float64) float64 {
	set, in := []float64(nil), 0
	for _, v := range values {
		if v > 0 {
			set = append(set, v)
			if v >= w.timerLow && v <= w.timerHigh {
				in++
			}
		}
	}
	if set == nil {
		t.add(w.name, sample, Missing, Missing, Missing, Missing, fmt.Sprintf("%g to %g", w.timerLow, w.timerHigh))
		return 0
	}
	at := func(q float64) float64 { return metrics.Percentile(set, q) }
	t.add(w.name, sample, number(at(10), 0), number(at(50), 0), number(at(90), 0), share(float64(in)/float64(len(set))),
		fmt.Sprintf("%g to %g", w.timerLow, w.timerHigh))
	return at(50)
}

func tyClaimsDynamic(r *Report, at [][]*tyOutcome, medians [3]float64) {
	r.claim(ordered(medians[0] < medians[1] && medians[1] < medians[2]), "the timer is shortest for HVW and longest for LVW", "medians %.0f, %.0f and %.0f s",
		medians[0], medians[1], medians[2])
	list, in := tyWorkloads(), true
	for i := range list {
		in = in && medians[i] >= list[i].timerLow && medians[i] <= list[i].timerHigh
	}
	r.claim(bounded(in, "as printed"), "it lies between 50 and 300 s, 100 and 500 s, 500 and 2500 s", "the medians above, and the share of time within these ranges in the table")
	tyClaimUse(r, at, 1)
	h, m, l := at[0][1], at[1][1], at[2][1]
	r.claim(bounded(min(mean(h.doneFirst), mean(m.doneFirst)) > 0.8, "> 80 %"), "over 80 % of the jobs of HVW and MVW end in P_1", "%s and %s",
		share(mean(h.doneFirst)), share(mean(m.doneFirst)))
	static := at[2][3]
	r.claim(sized(number1(10, "%"), mean(l.doneFirst)-mean(static.doneFirst)), "of LVW, 10 points more end in P_1 than under STATICTAGS", "%s against %s",
		share(mean(l.doneFirst)), share(mean(static.doneFirst)))
	tyClaimSlowdown(r, at, 1, 2.2, 3.2)
	far := 0.0
	for _, x := range at {
		far = max(far, abs(mean(x[0].v)/mean(x[1].v)-1))
	}
	r.claim(worded(far < little, "little difference"), "20 or 30 % of the slots for P_1 make little difference", "V(95) differs by at most %s", share(far))
}
