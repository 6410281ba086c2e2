package repro

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/slotwise/slotwise/internal/workload"
)

// runLearningAccuracy makes Fig. 10.
func runLearningAccuracy(ctx context.Context, o Options) (*Report, error) {
	seeds, until := pick(o, 1, 10), pick(o, 75*time.Minute, 2*time.Hour)
	names := []string{"CPUActivity", "URLGet"}
	list := []lnScheduler{lnBayes(), lnSlow()}
	var b lnBatch
	for _, x := range list {
		for _, name := range names {
			for s := range seeds {
				seed := o.Seed + uint64(s)
				b.add(x, lnFind(name).endless(seed, until, time.Minute), seed, until)
			}
		}
	}
	if _, err := runAll(ctx, b.configs); err != nil {
		return nil, err
	}
	const blocks = 12
	r := &Report{}
	columns := []string{"scheduler", "job"}
	for i := range blocks {
		columns = append(columns, fmt.Sprint((i+1)*250))
	}
	t := r.table("Accurate decisions in each 250 (curves of the paper lost)", append(columns, "last")...)
	at := make([][]float64, 0, 4)
	for k := 0; k < len(b.watches); k += seeds {
		means := make([]float64, blocks+1)
		for _, w := range b.watches[k : k+seeds] {
			got := w.accuracy()
			for i := range blocks {
				means[i] += got[i] / float64(seeds)
			}
			means[blocks] += got[len(got)-1] / float64(seeds)
		}
		row := []string{list[k/seeds/2].name, names[k/seeds%2]}
		for _, m := range means {
			row = append(row, share(m))
		}
		t.add(row...)
		at = append(at, means)
	}
	cpu, url := at[2], at[3] // of the cautious reading
	early := func(x []float64) float64 { return mean(x[:4]) }
	late := func(x []float64) float64 { return mean(x[8:]) }
	r.claim(ordered(late(cpu) > early(cpu) && late(url) > early(url)), "accuracy rises with experience for both jobs", "cautious reading, first and later thousand decisions: CPUActivity %s to %s, URLGet %s to %s",
		share(early(cpu)), share(late(cpu)), share(early(url)), share(late(url)))
	r.claim(ordered(early(cpu) > early(url)), "CPUActivity is learned much faster than URLGet, which blocks unpredictably", "first thousand decisions: %s against %s; default: %s against %s",
		share(early(cpu)), share(early(url)), share(early(at[0])), share(early(at[1])))
	r.claim(bounded(late(cpu) < 1 && late(url) < 1, "< 100 %"), "it does not reach 100 %", "%s and %s", share(late(cpu)), share(late(url)))
	var lines []Series
	for k := range at {
		s := Series{Name: list[k/2].name + ", " + names[k%2], Y: times100(at[k][:blocks])}
		for i := range blocks {
			s.X = append(s.X, float64((i+1)*250))
		}
		lines = append(lines, s)
	}
	r.lines("learning-fig10", "Learning, Figure 10: accurate decisions in each 250", "decisions", "accurate [%]", lines...)
	return r, nil
}

// runLearningNative makes Fig. 11.
func runLearningNative(ctx context.Context, o Options) (*Report, error) {
	seeds, runs, until := pick(o, 1, 5), pick(o, 2, 10), pick(o, time.Hour, 2*time.Hour)
	list := []lnScheduler{lnBayes(), lnNative(), lnBayes().with("judged by 12 heartbeats", "judge-window", "12")}
	var endless, finite lnBatch
	for i := range lnFig11 {
		x := &lnFig11[i]
		for _, p := range list {
			for s := range seeds {
				seed := o.Seed + uint64(s)
				endless.add(p, x.endless(seed, until, time.Minute), seed, until)
				var jobs []workload.Job
				for n := range runs {
					jobs = append(jobs, x.run(seed, n, 160, time.Minute))
				}
				finite.add(p, chained(jobs), seed, 0)
			}
		}
	}
	if _, err := runAll(ctx, endless.configs); err != nil {
		return nil, err
	}
	results, err := runAll(ctx, finite.configs)
	if err != nil {
		return nil, err
	}
	n := len(list)
	tasks, loads := make([]float64, n*len(lnFig11)), make([]float64, n*len(lnFig11))
	for i, w := range endless.watches {
		tasks[i/seeds] += (w.running.Area(until) - w.half) / lnNodes / (until / 2).Seconds() / float64(seeds)
		m, _, _ := w.over(until/2, until, 1)
		loads[i/seeds] += m / float64(seeds)
	}
	each := len(results) / (n * len(lnFig11))
	spans := make([]float64, n*len(lnFig11))
	for i, res := range results {
		spans[i/each] += res.Makespan.Seconds() / float64(each*runs)
	}
	r := &Report{}
	lnTable11(r, tasks, loads, spans, n)
	lnClaims11(r, tasks, loads, spans, n)
	return r, lnWhyTimes(ctx, o, r)
}

// lnTable11 shows, by job, the schedulers in the order naive Bayes, native, and
// judged by 12 heartbeats, of n.
func lnTable11(r *Report, tasks, loads, spans []float64, n int) {
	t := r.table("Mean tasks per node in the second half of a job without end, and run times of 160 maps", "job", "tasks", "paper", "load of target", "judged by 12: tasks", "load",
		"five slots: load", "run time (s)", "five slots", "ratio", "paper", "5/m of the paper")
	for i := range lnFig11 {
		x, at := &lnFig11[i], n*i
		t.add(x.name, number(tasks[at], 2), number(x.tasks, 2), share(loads[at]), number(tasks[at+2], 2), share(loads[at+2]), share(loads[at+1]),
			number(spans[at], 0), number(spans[at+1], 0), number(spans[at]/spans[at+1], 2), x.ratio, number(lnSlots/x.tasks, 2))
	}
}

func lnClaims11(r *Report, tasks, loads, spans []float64, n int) {
	words := ""
	var ours, paper []float64
	order := []string{"WordCount+10ms", "URLGet", "URLToDisk", "CPUActivity", "WordCount", "TextWriter"}
	falling, last := true, 1e9
	index := map[string]int{}
	for i := range lnFig11 {
		index[lnFig11[i].name] = i
		d := tasks[n*i]/lnFig11[i].tasks - 1
		ours, paper = append(ours, tasks[n*i]), append(paper, lnFig11[i].tasks)
		words += lnFig11[i].name + " " + percent(d) + ", "
	}
	for _, name := range order {
		x := tasks[n*index[name]]
		falling = falling && x < last
		last = x
	}
	r.claim(judged(falling, "order"), "tasks per node: WordCount+10ms > URLGet > URLToDisk > CPUActivity > WordCount > TextWriter", "the order of the table")
	r.claim(each(ours, paper, ""), "they are those printed, job by job", "%sheavy tasks overshoot since a task shows in the load only after a minute", words)
	ratio := func(name string) float64 { return spans[n*index[name]] / spans[n*index[name]+1] }
	r.claim(each([]float64{ratio("WordCount+10ms") - 1, ratio("URLGet") - 1}, []float64{-60, -40}, "%"), "it is faster than five slots where these leave nodes idle: run times of 0.4 on WordCount+10ms, 0.6 on URLGet",
		"%.2f and %.2f of those with five slots; with 23 maps a node and one launch in 5 s, filling the nodes takes a good part of a run", ratio("WordCount+10ms"), ratio("URLGet"))
	r.claim(each([]float64{ratio("TextWriter") - 1, ratio("WordCount") - 1, ratio("CPUActivity") - 1}, []float64{150, 100, 50}, "%"),
		"five slots are faster on TextWriter (2.5), WordCount (2) and CPUActivity (1.5), by overloading nodes",
		"ratios %.2f, %.2f and %.2f; five slots make loads of %s, %s and %s of the target", ratio("TextWriter"), ratio("WordCount"), ratio("CPUActivity"),
		share(loads[n*index["TextWriter"]+1]), share(loads[n*index["WordCount"]+1]), share(loads[n*index["CPUActivity"]+1]))
	sum := 0.0
	for i := range lnFig11 {
		sum += loads[n*i] / float64(len(lnFig11))
	}
	r.claim(sized(number1(4, "%"), 1-sum), "utilisation is about 96 % of the target", "mean over the six jobs %s", share(sum))
	lnWhyUse(r, tasks, loads, n)
	lnDraw11(r, tasks, spans, n)
}

// lnWhyUse explains the last claim by decisions that are judged later.
func lnWhyUse(r *Report, tasks, loads []float64, n int) {
	t := newTable("Load of target by how long a decision is judged", "job", "the next heartbeat", "the next 12", "tasks", "tasks with 12", "paper")
	sum := 0.0
	for i := range lnFig11 {
		sum += loads[n*i+2] / float64(len(lnFig11))
		t.add(lnFig11[i].name, share(loads[n*i]), share(loads[n*i+2]), number(tasks[n*i], 2), number(tasks[n*i+2], 2), number(lnFig11[i].tasks, 2))
	}
	r.explain(1, because("A load average of a minute shows 8 % of a task after a heartbeat of 5 s, so that the label of a decision says more of the past than of the task, and heavy tasks "+
		"overshoot", []Table{*t}, "%s over the six jobs if a decision is judged by the next 12 heartbeats: with labels that are in time it holds", share(sum)))
}

// lnDraw11 draws Fig. 11.
func lnDraw11(r *Report, tasks, spans []float64, n int) {
	var groups []string
	here, print := Series{Name: "here"}, Series{Name: "paper", Paper: true}
	ratio, printedRatio := Series{Name: "here"}, Series{Name: "paper", Paper: true}
	for i := range lnFig11 {
		groups = append(groups, lnFig11[i].name)
		here.Y, print.Y = append(here.Y, tasks[n*i]), append(print.Y, lnFig11[i].tasks)
		x, _ := strconv.ParseFloat(lnFig11[i].ratio, 64)
		ratio.Y, printedRatio.Y = append(ratio.Y, spans[n*i]/spans[n*i+1]), append(printedRatio.Y, x)
	}
	r.bars("learning-fig11-tasks", "Learning, Figure 11: tasks on a node", "tasks", groups, here, print)
	r.bars("learning-fig11-times", "Learning, Figure 11: run time to that with five slots", "ratio", groups, ratio, printedRatio)
}
