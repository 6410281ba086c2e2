package repro

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/sim"
	"github.com/slotwise/slotwise/internal/workload"
)

// tummCase2 is Case 2 of the paper's motivation, with Table 1.
func tummCase2(ctx context.Context, o Options) (*Report, error) {
	jobs, err := tummBatch(o, "tumm-grep", 160, 0, true)
	if err != nil {
		return nil, err
	}
	setups := tummSplits(jobs)
	setups = append(setups, tummRun(setups[1].cluster, jobs, tummFair))
	calibration, err := tummGrepMaps(o)
	if err != nil {
		return nil, err
	}
	runs, err := play(ctx, o, append(setups, calibration...))
	if err != nil {
		return nil, err
	}
	r := new(Report)
	t := r.table("Grep ×3", "slots and order", "makespan (s)", "paper (s)", "map (s)")
	for i, run := range runs[:5] {
		name, paper := "2:2, fair", "772"
		if i < 4 {
			name, paper = splitName(i)+", fifo", Missing
		}
		if i == 1 {
			paper = "594"
		}
		t.add(name, seconds(run.Makespan), paper, number(run.watch.times["grep"][job.Map].mean(), 1))
	}
	one, two := runs[5].watch.times["grep"][job.Map].mean(), runs[6].watch.times["grep"][job.Map].mean()
	c := r.table("Mean time of a Grep map (s)", "map slots a node", "ours", "paper")
	c.add("1", number(one, 1), number(grepAlone, 1))
	c.add("2", number(two, 1), number(grepBeside, 1))
	r.claim(sized(number1(25, "%"), two/one-1), "with 2 map slots a node a Grep map takes 25 % longer than with 1", "%s", percent(two/one-1))
	ratio := runs[4].Makespan.Seconds() / runs[1].Makespan.Seconds()
	r.claim(sized(number1(30, "%"), ratio-1), "Fair takes 30 % longer than FIFO", "%s", percent(ratio-1))
	r.claim(ordered(runs[0].Makespan > runs[1].Makespan), "1:3 takes longer than 2:2", "%s s, %s s", seconds(runs[0].Makespan),
		seconds(runs[1].Makespan))
	tummTable1(r, runs[1].watch.times["grep"])
	return r, tummReduceHeavy(ctx, o, r)
}

// tummGrepMaps are runs of Grep's maps at the times of Case 2, with 1 and 2 map
// slots a node.
func tummGrepMaps(o Options) ([]setup, error) {
	mix := workload.Mix{Classes: []workload.Class{{Name: "grep", App: "grep", Count: 1, SlowStart: -1,
		Maps: workload.Fixed(400), Reduces: workload.Fixed(0),
		MapTime: workload.Fixed(grepAlone)}}}
	jobs, err := mix.Jobs(o.Seed)
	base := withDisks(paperCluster("tumm"))
	jobs = contended(jobs, o.Seed)
	return []setup{tummRun(withSlots(base, 1, 1), jobs, tummStatic), tummRun(withSlots(base, 2, 1), jobs, tummStatic)}, err
}

// tummTable1 compares the processor use of tasks with the paper's Table 1.
func tummTable1(r *Report, t *[job.Kinds]times) {
	maps := t[job.Map]
	cpu := maps.min * (1 - sharedPart()) / maps.mean()
	tb := r.table("Table 1: CPU of a task of a node with 2:2", "task", "ours", "paper (mean of 5 samples)")
	tb.add("map", share(cpu), "108.0 %, 100.8 %")
	tb.add("reduce, while it waits for maps", share(0), "6.8 %, 0.8 %")
	r.claim(worded(true, "next to none"), "reduces that wait for maps use next to no processor", "0 %% in the model, where fetching costs no processor; "+
		"its maps compute half of their time, where the paper's use a core each: what they wait for in the model, the paper's "+
		"seem to pay as slower computing")
}

// tummReduceHeavy looks for the batch that the paper describes for Case 2:
// reduces that take longer than maps with 2:2, and a best split in between.
func tummReduceHeavy(ctx context.Context, o Options, r *Report) error {
	t := r.table("Grep ×3 with more reduces a job: makespan (s)", "reduces", "1:3", "2:2", "3:1", "TuMM", "maps at 2:2 (s)", "reduces at 2:2 (s)")
	counts := pick(o, []int{80, 160}, []int{80, 120, 160, 200})
	found := ""
	for _, n := range counts {
		jobs, err := tummBatch(o, "tumm-grep", 160, n, true)
		if err != nil {
			return err
		}
		runs, err := play(ctx, o, tummSplits(jobs))
		if err != nil {
			return err
		}
		maps := runs[1].Jobs[0].MapsDone
		last := runs[1].Jobs[len(jobs)-1]
		reduces := last.Ended - max(last.MapsDone, runs[1].Jobs[len(jobs)-2].Ended)
		t.add(fmt.Sprint(n), seconds(runs[0].Makespan), seconds(runs[1].Makespan), seconds(runs[2].Makespan),
			seconds(runs[3].Makespan), seconds(maps), seconds(reduces))
		if reduces > maps && runs[0].Makespan > runs[1].Makespan && runs[3].Makespan < runs[1].Makespan {
			found = fmt.Sprintf("%d reduces a job: %s s for the reduces of a job, %s s for its maps; TuMM %s s, 2:2 %s s, 1:3 %s s", n,
				seconds(reduces), seconds(maps), seconds(runs[3].Makespan), seconds(runs[1].Makespan), seconds(runs[0].Makespan))
		}
	}
	if found == "" {
		found = "no number of reduces in the table makes it so"
	}
	r.claim(ordered(strings.Contains(found, "TuMM")), "reduces take longer than maps with 2:2, yet 1:3 is worse: the best split lies between", "%s", found)
	return nil
}

// tummFig6 is the paper's example of a fast and a slow node.
func tummFig6(ctx context.Context, o Options) (*Report, error) {
	paper := []string{"3", "4", "2"}
	var setups []setup
	maps := slices.Repeat([]workload.Task{{Duration: time.Second}}, 7)
	for _, s := range [][2]int{{2, 2}, {1, 3}, {3, 1}} {
		c := workload.Cluster{Racks: 1, Heartbeat: "fixed:10ms", Groups: []workload.NodeGroup{
			{Name: "fast", Count: 1, Cores: 4, Speed: 1, MapSlots: s[0], ReduceSlots: 1},
			{Name: "slow", Count: 1, Cores: 4, Speed: 0.5, MapSlots: s[1], ReduceSlots: 1}}}
		setups = append(setups, setup{cluster: c, jobs: []workload.Job{{Name: "maps", Maps: maps}}, policy: tummStatic,
			model: sim.ModelConfig{Replicas: -1, OutOfBand: true}})
	}
	runs, err := play(ctx, o, setups)
	if err != nil {
		return nil, err
	}
	r := new(Report)
	t := r.table("Seven maps", "map slots, fast:slow", "makespan (s)", "paper (s)")
	for i, s := range []string{"2:2", "1:3", "3:1"} {
		t.add(s, seconds(runs[i].Makespan), paper[i])
	}
	ok := runs[2].Makespan < runs[0].Makespan && runs[0].Makespan < runs[1].Makespan
	r.claim(ordered(ok), "more map slots on the faster node end the batch sooner (3:1 before 2:2 before 1:3)", "%s s, %s s, %s s",
		seconds(runs[2].Makespan), seconds(runs[0].Makespan), seconds(runs[1].Makespan))
	return r, nil
}

// tummFig7 is the simple workload.
func tummFig7(ctx context.Context, o Options) (*Report, error) {
	r := new(Report)
	t := r.table("Makespan of three jobs (s)", "benchmark", "1:3", "2:2", "3:1", "TuMM", "best fixed", "gain on 2:2", "paper", "gain without contention")
	var gains, free []float64
	best, ahead := map[string]int{}, 0
	var titles []string
	var spans [4]Series
	for _, b := range tummBenchmarks {
		runs, err := tummFourAndTwo(ctx, o, b.generator, b.maps)
		if err != nil {
			return nil, err
		}
		for i := range runs[:3] {
			if runs[i].Makespan < runs[best[b.title]].Makespan {
				best[b.title] = i
			}
		}
		if runs[3].Makespan < runs[best[b.title]].Makespan {
			ahead++
		}
		titles = append(titles, b.title)
		for i := range spans {
			spans[i].Name = splitName(i)
			spans[i].Y = append(spans[i].Y, runs[i].Makespan.Seconds())
		}
		g, paper := gain(runs[1].Makespan, runs[3].Makespan), Missing
		if b.title == "Inverted Index" {
			paper = "28 %"
		}
		gains, free = append(gains, g), append(free, gain(runs[4].Makespan, runs[5].Makespan))
		t.add(b.title, seconds(runs[0].Makespan), seconds(runs[1].Makespan), seconds(runs[2].Makespan), seconds(runs[3].Makespan),
			splitName(best[b.title]), share(g), paper, share(free[len(free)-1]))
	}
	t.add("mean", "", "", "", "", "", share(mean(gains)), "about 20 %", share(mean(free)))
	r.claim(ordered(ahead == len(gains)), "TuMM is the shortest for all five benchmarks", "for %d of %d", ahead, len(gains))
	r.claim(sized(number1(20, "%"), mean(gains)), "the mean gain on 2:2 is about 20 %",
		"%s, and %s if maps do not hinder each other", share(mean(gains)), share(mean(free)))
	r.claim(ordered(gains[0] == slices.Max(gains)), "the gain is largest for Inverted Index", "%s, largest %s", share(gains[0]),
		share(slices.Max(gains)))
	r.claim(sized(number1(28, "%"), gains[0]), "it is 28 % there", "%s", share(gains[0]))
	r.claim(ordered(best["Inverted Index"] == 0), "1:3 is the best fixed split for Inverted Index", "it is %s", splitName(best["Inverted Index"]))
	histogram := splitName(best["Histogram Rating"])
	r.claim(ordered(histogram == "3:1"), "3:1 is the best fixed split for Histogram Rating", "it is %s with the 80 reduces a job of the heterogeneous runs", histogram)
	if r.failing(1) {
		if err := tummHistogram(ctx, o, r); err != nil {
			return nil, err
		}
	}
	r.bars("tumm-fig7", "TuMM, Figure 7: makespan of three jobs", "makespan [s]", titles, spans[:]...)
	r.bars("tumm-fig7-gain", "TuMM, Figure 7: gain of TuMM on 2:2", "gain [%]", append(titles, "mean"), hundredfold("maps hinder each other as Grep's", append(gains, mean(gains))),
		hundredfold("they do not", append(free, mean(free))), Series{Name: "paper", Y: []float64{28, math.NaN(), math.NaN(), math.NaN(), math.NaN(), 20}, Paper: true})
	return r, nil
}

// tummFourAndTwo runs a benchmark on the three fixed splits and under TuMM, then
// on 2:2 and under TuMM without contention.
func tummFourAndTwo(ctx context.Context, o Options, generator string, maps int) ([]outcome, error) {
	jobs, err := tummBatch(o, generator, maps, 0, true)
	if err != nil {
		return nil, err
	}
	plain, err := tummBatch(o, generator, maps, 0, false)
	if err != nil {
		return nil, err
	}
	free := tummSplits(plain)
	return play(ctx, o, append(tummSplits(jobs), free[1], free[3]))
}

// tummHistogram looks for the number of reduces from which on 2:2 is better for
// Histogram Rating than 3:1: the paper gives none for the homogeneous cluster.
func tummHistogram(ctx context.Context, o Options, r *Report) error {
	t := newTable("Histogram Rating ×3 by the number of reduces a job: makespan (s)", "reduces", "1:3", "2:2", "3:1", "TuMM")
	most := 0
	for _, n := range pick(o, []int{40, 60, 80}, []int{20, 30, 40, 50, 60, 70, 80}) {
		jobs, err := tummBatch(o, "tumm-histogramratings", 160, n, true)
		if err != nil {
			return err
		}
		runs, err := play(ctx, o, tummSplits(jobs))
		if err != nil {
			return err
		}
		t.add(fmt.Sprint(n), seconds(runs[0].Makespan), seconds(runs[1].Makespan), seconds(runs[2].Makespan), seconds(runs[3].Makespan))
		if runs[2].Makespan < min(runs[0].Makespan, runs[1].Makespan) {
			most = n
		}
	}
	r.explain(1, because("The homogeneous runs had fewer reduces; how many is not said", []Table{*t}, "3:1 is the best fixed split with up to %d reduces a job", most))
	return nil
}
