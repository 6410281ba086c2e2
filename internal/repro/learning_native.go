package repro

import (
	"context"
	"fmt"
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
	r.claim(late(cpu) > early(cpu) && late(url) > early(url), "accuracy rises with experience for both jobs", "cautious reading, first and later thousand decisions: CPUActivity %s to %s, URLGet %s to %s",
		share(early(cpu)), share(late(cpu)), share(early(url)), share(late(url)))
	r.claim(early(cpu) > early(url), "CPUActivity is learned much faster than URLGet, which blocks unpredictably", "first thousand decisions: %s against %s; default: %s against %s",
		share(early(cpu)), share(early(url)), share(early(at[0])), share(early(at[1])))
	r.claim(late(cpu) < 1 && late(url) < 1, "it does not reach 100 %", "%s and %s", share(late(cpu)), share(late(url)))
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
	return r, nil
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
	near, words := true, ""
	order := []string{"WordCount+10ms", "URLGet", "URLToDisk", "CPUActivity", "WordCount", "TextWriter"}
	ordered, last := true, 1e9
	index := map[string]int{}
	for i := range lnFig11 {
		index[lnFig11[i].name] = i
		d := tasks[n*i]/lnFig11[i].tasks - 1
		near = near && abs(d) < 0.15
		words += lnFig11[i].name + " " + percent(d) + ", "
	}
	for _, name := range order {
		x := tasks[n*index[name]]
		ordered = ordered && x < last
		last = x
	}
	r.claim(ordered, "tasks per node: WordCount+10ms > URLGet > URLToDisk > CPUActivity > WordCount > TextWriter", "the order of the table")
	r.claim(near, "tasks per node come within 15 % of the paper's", "%sheavy tasks overshoot since a task shows in the load only after a minute", words)
	ratio := func(name string) float64 { return spans[n*index[name]] / spans[n*index[name]+1] }
	r.claim(ratio("WordCount+10ms") < 0.55 && ratio("URLGet") < 0.7, "it is faster than five slots where these leave nodes idle: twice on WordCount+10ms, 1.7 times on URLGet",
		"run times %.2f and %.2f of those with five slots; with 23 maps a node and one launch in 5 s, filling the nodes takes a good part of a run", ratio("WordCount+10ms"), ratio("URLGet"))
	r.claim(ratio("TextWriter") > 1.5 && ratio("WordCount") > 1.5 && ratio("CPUActivity") > 1.25, "five slots are faster on TextWriter, WordCount and CPUActivity, by overloading nodes",
		"ratios %.2f, %.2f and %.2f; five slots make loads of %s, %s and %s of the target", ratio("TextWriter"), ratio("WordCount"), ratio("CPUActivity"),
		share(loads[n*index["TextWriter"]+1]), share(loads[n*index["WordCount"]+1]), share(loads[n*index["CPUActivity"]+1]))
	sum := 0.0
	for i := range lnFig11 {
		sum += loads[n*i] / float64(len(lnFig11))
	}
	r.claim(sum > 0.9 && sum < 1.1, "utilisation is about 96 % of the target", "mean over the six jobs %s", fmt.Sprint(share(sum)))
}
