package repro

import (
	"context"
	"fmt"
	"time"

	"github.com/slotwise/slotwise/internal/workload"
)

// lnLevel are the loads of runs: as a part of the target, and how often above it.
type lnLevel struct{ load, above float64 }

// lnMeasure makes jobs under schedulers with several seeds; from is when the
// measuring begins, as a part of the run.
func lnMeasure(ctx context.Context, seeds int, o Options, list []lnScheduler, targets []float64, from float64, jobs func(seed uint64) []workload.Job) ([]lnLevel, error) {
	var b lnBatch
	for _, x := range list {
		for s := range seeds {
			seed := o.Seed + uint64(s)
			b.add(x, jobs(seed), seed, 0)
		}
	}
	results, err := runAll(ctx, b.configs)
	if err != nil {
		return nil, err
	}
	out := make([]lnLevel, len(list))
	for i, w := range b.watches {
		target := targets[i/seeds]
		end := results[i].Ended
		load, _, above := w.over(time.Duration(from*float64(end)), end, target)
		out[i/seeds].load += load / target / float64(seeds)
		out[i/seeds].above += above / float64(seeds)
	}
	return out, nil
}

// lnWhyLate judges decisions by more and more heartbeats.
func lnWhyLate(ctx context.Context, o Options, r *Report) error {
	windows := []int{1, 2, 3, 6, 12, 24, 48}
	var list []lnScheduler
	targets := make([]float64, len(windows))
	for i, w := range windows {
		list, targets[i] = append(list, lnBayes().with("", "judge-window", fmt.Sprint(w))), 1
	}
	measure := func(light bool) ([]lnLevel, error) {
		return lnMeasure(ctx, pick(o, 1, 5), o, list, targets, 0.5, func(seed uint64) []workload.Job {
			if light { // of which more run at once than start in 31 s
				return []workload.Job{lnFind("URLGet").run(seed, 0, pick(o, 600, 2240), time.Minute)}
			}
			return []workload.Job{lnFind("WordCount").run(seed, 0, pick(o, 600, 2240), 31200*time.Millisecond)}
		})
	}
	heavy, err := measure(false)
	if err != nil {
		return err
	}
	small, err := measure(true)
	if err != nil {
		return err
	}
	t := newTable("By how many heartbeats a decision is judged; second half of a run", "heartbeats", "WordCount: load of target", "above the target", "URLGet: load of target", "above")
	used, seldom := "", ""
	for i, w := range windows {
		t.add(fmt.Sprint(w), share(heavy[i].load), share(heavy[i].above), share(small[i].load), share(small[i].above))
		if sized(number1(4, "%"), 1-heavy[i].load).verdict != Fails {
			used = joined(used, fmt.Sprint(w))
		}
		if heavy[i].above <= rarely {
			seldom = joined(seldom, fmt.Sprint(w))
		}
	}
	r.explain(2, because("After the 5 s of a heartbeat a load average of a minute shows 8 % of a task, so that the label, overloaded or not, comes too soon and says more of the past than of "+
		"the task; and where one task is 43 % of a node, a mean of 96 % must often be above the target", []Table{*t},
		"Utilisation is about 96 %% when a decision is judged by so many heartbeats: %s. WordCount overloads a node rarely with: %s. The later the label, the rarer overload, and the lower the "+
			"use: both printed claims need other labels than the next heartbeat", orNone(used), orNone(seldom)))
	return nil
}

// lnWhyTargets gives jobs more maps, so that filling and emptying nodes matters
// less.
func lnWhyTargets(ctx context.Context, o Options, r *Report) error {
	targets := []float64{1, 2, 3, 4}
	t := newTable("Load of target by the number of maps a job", "maps a job", "decision judged by", "target 1", "2", "3", "4")
	with := ""
	for _, window := range []string{"1", "12"} {
		for _, maps := range pick(o, []int{160, 640}, []int{160, 640, 2560}) {
			var list []lnScheduler
			for _, target := range targets {
				list = append(list, lnBayes().with("", "target", number(target, 1), "judge-window", window))
			}
			got, err := lnMeasure(ctx, pick(o, 1, 3), o, list, targets, 0, func(seed uint64) []workload.Job { return lnThree(seed, maps) })
			if err != nil {
				return err
			}
			row, near := []string{fmt.Sprint(maps), window + " heartbeats"}, true
			for _, x := range got {
				row, near = append(row, share(x.load)), near && abs(x.load-1) <= closeTo
			}
			t.add(row...)
			if near {
				with = joined(with, fmt.Sprintf("%d maps judged by %s", maps, window))
			}
		}
	}
	r.explain(1, because("Each job has 23 maps a node, and a heartbeat of 5 s adds one task, so that at high targets nodes are filled and emptied for most of the time; at low ones labels "+
		"that come too soon make heavy tasks overshoot", []Table{*t}, "Within a tenth at all targets with: %s. The gap at high targets closes with longer jobs, that at low ones with later labels", orNone(with)))
	return nil
}

// lnThree are the jobs of Fig. 9: two that follow one.
func lnThree(seed uint64, maps int) []workload.Job {
	jobs := []workload.Job{lnFind("TextWriter").run(seed, 0, maps, time.Minute), lnFind("WordCount").run(seed, 1, maps, time.Minute),
		lnFind("Grep").run(seed, 2, maps, time.Minute)}
	jobs[1].After, jobs[2].After = []int{0}, []int{0}
	return jobs
}

// lnSlowStops looks for why the cautious reading nearly stops at high targets, by
// taking its parts away one by one, and the change of jobs.
func lnSlowStops(ctx context.Context, o Options, r *Report) error {
	variants := []lnScheduler{lnSlow(), lnSlow().with("slow, with Laplace's smoothing", "smoothing", "laplace"),
		lnSlow().with("slow, learning from all refusals", "train-withheld", "all"), lnSlow().with("slow, load in coarse steps", "features", lnFeatures), lnBayes()}
	targets := []float64{1, 2, 4}
	t := r.table("What makes \"slow\" stop: load of target", "scheduler", "jobs", "target 1", "2", "4")
	for _, same := range []bool{false, true} {
		for _, v := range variants {
			var list []lnScheduler
			for _, target := range targets {
				list = append(list, v.with(v.name, "target", number(target, 1)))
			}
			got, err := lnMeasure(ctx, pick(o, 1, 5), o, list, targets, 0, func(seed uint64) []workload.Job {
				jobs := lnThree(seed, 160)
				for i := range jobs {
					if same {
						jobs[i].Profile = jobs[0].Profile
					}
				}
				return jobs
			})
			if err != nil {
				return err
			}
			row := []string{v.name, "three sorts"}
			if same {
				row[1] = "three sorts, rated as one"
			}
			for _, x := range got {
				row = append(row, share(x.load))
			}
			t.add(row...)
		}
	}
	return nil
}

// lnWhyTimes explains run times against five slots by the number of maps.
func lnWhyTimes(ctx context.Context, o Options, r *Report) error {
	from := len(r.Claims) - 3 // those of lighter and of heavier jobs
	if r.Claims[from].Verdict != Fails && r.Claims[from+1].Verdict != Fails {
		return nil
	}
	t := newTable("Run time to that with five slots by the number of maps", "job", "160 maps", "640", "2560", "5/m of the paper", "paper")
	words := ""
	for i := range lnFig11 {
		x := &lnFig11[i]
		row := []string{x.name}
		for _, maps := range []int{160, 640, 2560} {
			var b lnBatch
			for s := range pick(o, 1, 3) {
				for _, p := range []lnScheduler{lnBayes(), lnNative()} {
					b.add(p, []workload.Job{x.run(o.Seed+uint64(s), 0, maps, time.Minute)}, o.Seed+uint64(s), 0)
				}
			}
			results, err := runAll(ctx, b.configs)
			if err != nil {
				return err
			}
			var own, five float64
			for k := range results {
				if k%2 == 0 {
					own += results[k].Makespan.Seconds()
				} else {
					five += results[k].Makespan.Seconds()
				}
			}
			row = append(row, number(own/five, 2))
		}
		t.add(append(row, number(lnSlots/x.tasks, 2), x.ratio)...)
		words = joined(words, x.name+" "+row[3])
	}
	why := because("With 23 maps a node and one launch in 5 s, filling the nodes takes a good part of a run, and a classifier without experience lets heavy tasks overshoot at first, which makes a "+
		"short run of them quick", []Table{*t}, "With 2560 maps the ratios are those of tasks per node: %s. So long runs have what is printed", words)
	for i := from; i < from+2; i++ {
		if r.Claims[i].Verdict == Fails {
			r.Claims[i].Why = why
		}
	}
	return nil
}
