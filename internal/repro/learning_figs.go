package repro

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/workload"
)

// runLearningRuns makes Fig. 8.
func runLearningRuns(ctx context.Context, o Options) (*Report, error) {
	const each = 31200 * time.Millisecond
	list := []lnScheduler{lnBayes(), lnSlow(), lnBayes().with("judged by 6 heartbeats", "judge-window", "6"),
		lnBayes().with("judged by 12 heartbeats", "judge-window", "12"), lnPerceptron()}
	seeds, runs := pick(o, 1, 5), pick(o, 3, 6)
	var b lnBatch
	for _, x := range list {
		for s := range seeds {
			seed := o.Seed + uint64(s)
			var jobs []workload.Job
			for i := range runs {
				jobs = append(jobs, lnFind("WordCount").run(seed, i, 1120, each))
			}
			b.add(x, chained(jobs), seed, 0)
		}
	}
	results, err := runAll(ctx, b.configs)
	if err != nil {
		return nil, err
	}
	r := &Report{}
	t := r.table("WordCount, six runs (means over seeds)", "scheduler", "run", "run time (min)", "paper", "mean load of target", "paper", "highest load of target",
		"samples above target")
	type point struct{ minutes, load, peak, above float64 }
	at := make([][]point, len(list))
	for i, res := range results {
		k, w := i/seeds, b.watches[i]
		if at[k] == nil {
			at[k] = make([]point, runs)
		}
		for n, j := range res.Jobs {
			mean, peak, above := w.over(j.Submitted, j.Ended, 1)
			p := &at[k][n]
			p.minutes += (j.Ended - j.Submitted).Minutes() / float64(seeds)
			p.load, p.peak, p.above = p.load+mean/float64(seeds), p.peak+peak/float64(seeds), p.above+above/float64(seeds)
		}
	}
	for k, x := range list {
		for n, p := range at[k] {
			wantTime, wantLoad := Missing, Missing
			if n == runs-1 {
				wantTime, wantLoad = "about 36", "about 96 %"
			}
			t.add(x.name, fmt.Sprint(n+1), number(p.minutes, 1), wantTime, share(p.load), wantLoad, share(p.peak), share(p.above))
		}
	}
	first, last, slow, six, twelve := at[0][0], at[0][runs-1], at[1], at[2][runs-1], at[3][runs-1]
	r.claim(sized(number1(4, "%"), 1-last.load), "utilisation settles close to what was asked, at about 96 %", "%s in the last run as the paper judges decisions, "+
		"%s and %s when a decision is judged by the next 6 or 12 heartbeats", share(last.load), share(six.load), share(twelve.load))
	r.claim(worded(last.above <= rarely, "rarely"), "after the learning phase nodes are rarely overloaded", "%s of the samples are above the target", share(last.above))
	if r.failing(2) {
		if err := lnWhyLate(ctx, o, r); err != nil {
			return nil, err
		}
	}
	r.claim(ordered(last.peak < first.peak), "peaks of the load shrink over time", "%s in the first run, %s in the last", share(first.peak), share(last.peak))
	r.claim(ordered(slow[0].minutes > max(slow[1].minutes, slow[2].minutes)), "the first run is the slowest", "cautious reading: %.1f, %.1f and %.1f min; default: %.1f, %.1f and %.1f min",
		slow[0].minutes, slow[1].minutes, slow[2].minutes, first.minutes, at[0][1].minutes, at[0][2].minutes)
	var groups []string
	var bars []Series
	for n := range runs {
		groups = append(groups, fmt.Sprint("run ", n+1))
	}
	for k, x := range list {
		s := Series{Name: x.name}
		for _, p := range at[k] {
			s.Y = append(s.Y, 100*p.load)
		}
		bars = append(bars, s)
	}
	r.bars("learning-fig8", "Learning, Figure 8: mean load of the nodes, WordCount six times", "of the target [%]", groups, bars...).Limits = []Limit{{"paper, last run", 96}}
	return r, nil
}

// runLearningTargets makes Fig. 9.
func runLearningTargets(ctx context.Context, o Options) (*Report, error) {
	seeds := pick(o, 1, 10)
	targets := []float64{1, 1.5, 2, 2.5, 3, 3.5, 4}
	list := []lnScheduler{lnBayes(), lnSlow()}
	var b lnBatch
	for _, x := range list {
		for _, target := range targets {
			for s := range seeds {
				seed := o.Seed + uint64(s)
				b.add(x.with(x.name, "target", number(target, 1)), lnThree(seed, 160), seed, 0)
			}
		}
	}
	if _, err := runAll(ctx, b.configs); err != nil {
		return nil, err
	}
	r := &Report{}
	t := r.table("Mean load of a node (bars of the paper lost: close to 4 times the target)", "target", "load asked", "naive Bayes", "of it", "slow", "of it")
	achieved := make([][]float64, len(list))
	for i := range b.watches {
		if i%seeds > 0 {
			continue
		}
		var loads []float64
		for _, w := range b.watches[i : i+seeds] {
			m, _, _ := w.over(0, w.samples[len(w.samples)-1].at, 1)
			loads = append(loads, m*lnCores)
		}
		k := i / seeds / len(targets)
		achieved[k] = append(achieved[k], mean(loads)/lnCores/targets[i/seeds%len(targets)])
	}
	for i, target := range targets {
		row := []string{number(target, 1), number(lnCores*target, 0)}
		for k := range list {
			row = append(row, number(achieved[k][i]*target*lnCores, 2), share(achieved[k][i]))
		}
		t.add(row...)
	}
	nb := achieved[0]
	monotone, near := true, true
	for i := range nb {
		monotone = monotone && (i == 0 || nb[i]*targets[i] > nb[i-1]*targets[i-1])
		near = near && abs(nb[i]-1) <= closeTo
	}
	r.claim(ordered(monotone), "the load follows the target", "from %.2f at 1 to %.2f at 4", nb[0]*lnCores, nb[len(nb)-1]*4*lnCores)
	r.claim(worded(near, "close to"), "it is close to the load asked", "between %s and %s of it", share(slices.Min(nb)), share(slices.Max(nb)))
	if r.failing(1) {
		if err := lnWhyTargets(ctx, o, r); err != nil {
			return nil, err
		}
	}
	r.claim(ordered(nb[len(nb)-1] < nb[0]), "the gap grows with the target, because a heartbeat adds one task", "%s of the load at 1, %s at 4", share(nb[0]), share(nb[len(nb)-1]))
	lines := []Series{{Name: "as asked", Paper: true}, {Name: list[0].name}, {Name: list[1].name}}
	for i, target := range targets {
		for k, part := range []float64{1, achieved[0][i], achieved[1][i]} {
			lines[k].X, lines[k].Y = append(lines[k].X, target), append(lines[k].Y, part*target*lnCores)
		}
	}
	r.lines("learning-fig9", "Learning, Figure 9: load of a node by target", "target (load of a processor)", "mean load of a node", lines...)
	return r, lnSlowStops(ctx, o, r)
}
