package repro

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/workload"
)

// tummMix makes the ten jobs in an order, with the numbers of maps of the
// homogeneous cluster's inputs.
func tummMix(generator string, seed uint64) ([]workload.Job, error) {
	jobs, err := paperJobs(generator, seed)
	for i := range jobs {
		for _, b := range tummBenchmarks {
			if b.generator == "tumm-"+jobs[i].App {
				jobs[i].Maps = slices.Repeat(jobs[i].Maps[:1], b.maps)
			}
		}
	}
	return contended(jobs, seed), err
}

// tummOrders are the orders of Figure 8 by generator, the random one with seeds.
func tummOrders(o Options) (names []string, seeds []uint64) {
	names, seeds = []string{"tumm-mixed-johnson", "tumm-mixed-inverse"}, []uint64{o.Seed, o.Seed}
	for s := range pick(o, uint64(3), uint64(20)) {
		names, seeds = append(names, "tumm-mixed-random"), append(seeds, o.Seed+s)
	}
	return names, seeds
}

// tummFig8 is the mixed workload.
func tummFig8(ctx context.Context, o Options) (*Report, error) {
	names, seeds := tummOrders(o)
	runs := make([][]outcome, len(names))
	for i := range names {
		jobs, err := tummMix(names[i], seeds[i])
		if err != nil {
			return nil, err
		}
		if runs[i], err = play(ctx, o, tummSplits(jobs)); err != nil {
			return nil, err
		}
	}
	r := new(Report)
	t := r.table("Makespan of ten jobs (s)", "order", "1:3", "2:2", "3:1", "TuMM", "TuMM to 2:2")
	balanced, ahead := 0, 0
	var random [4][]float64
	for i, run := range runs {
		if run[1].Makespan < min(run[0].Makespan, run[2].Makespan) {
			balanced++
		}
		if run[3].Makespan < min(run[0].Makespan, run[1].Makespan, run[2].Makespan) {
			ahead++
		}
		if i < 2 {
			t.add([]string{"Johnson", "inverse"}[i], seconds(run[0].Makespan), seconds(run[1].Makespan), seconds(run[2].Makespan),
				seconds(run[3].Makespan), percent(-gain(run[1].Makespan, run[3].Makespan)))
			continue
		}
		for s := range random {
			random[s] = append(random[s], run[s].Makespan.Seconds())
		}
	}
	row := []string{fmt.Sprintf("random, mean of %d", len(random[0]))}
	for s := range random {
		row = append(row, number(mean(random[s]), 1))
	}
	t.add(append(row, percent(mean(random[3])/mean(random[1])-1))...)
	t.add("paper", Missing, Missing, Missing, "about 2400 in Johnson's order", Missing)
	r.claim(ordered(balanced == len(runs)), "2:2 is the best fixed split in every order", "in %d of %d", balanced, len(runs))
	r.claim(ordered(ahead == len(runs)), "TuMM is the shortest in every order", "in %d of %d", ahead, len(runs))
	fixed, adaptive := spread(runs, 1), spread(runs, 3)
	r.claim(ordered(adaptive < fixed), "TuMM depends least on the order", "longest to shortest: 2:2 %s, TuMM %s", percent(fixed), percent(adaptive))
	tummNarrative(r, runs[0], runs[1])
	return r, nil
}

// spread is the longest makespan over the shortest, of all orders, minus 1.
func spread(runs [][]outcome, split int) float64 {
	low, high := runs[0][split].Makespan, runs[0][split].Makespan
	for _, run := range runs {
		low, high = min(low, run[split].Makespan), max(high, run[split].Makespan)
	}
	return high.Seconds()/low.Seconds() - 1
}

// tummNarrative holds what the paper tells of Figure 8 against the tasks that
// ran.
func tummNarrative(r *Report, johnson, inverse []outcome) {
	t := r.table("Running tasks under TuMM, mean over each eighth of the makespan (maps / reduces)",
		"order", "1", "2", "3", "4", "5", "6", "7", "8")
	var half [2][2]float64
	for i, run := range []outcome{johnson[3], inverse[3]} {
		row := []string{[]string{"Johnson", "inverse"}[i]}
		for part := range time.Duration(8) {
			from, to := run.Makespan*part/8, run.Makespan*(part+1)/8
			m, n := run.watch.meanLevel(from, to, job.Map), run.watch.meanLevel(from, to, job.Reduce)
			row = append(row, fmt.Sprintf("%.1f / %.1f", m, n))
			half[i][part/4] += (m - n) / 4
		}
		t.add(row...)
	}
	first := johnson[3].Jobs[0].MapsDone
	maps := johnson[3].watch.meanLevel(0, first, job.Map)
	r.claim(worded(maps >= (1-closeTo)*12, "nearly all of what the bounds allow"), "Johnson: nearly all slots are map slots until the first job's maps are done (first 100 s)",
		"%.1f of 16 slots run maps for the first %s s; 12 is what the bounds allow", maps, seconds(first))
	r.claim(ordered(half[0][0] < 0 && half[0][1] > 0), "Johnson: more reduce slots in the first half, more map slots in the second",
		"maps less reduces on average: %+.1f, then %+.1f", half[0][0], half[0][1])
	r.claim(ordered(half[1][0] > 0 && half[1][1] < 0), "the inverse order is the mirror image", "%+.1f, then %+.1f", half[1][0], half[1][1])
	g := r.table("Mean distance between the end of a job's maps and that of the job before (s)", "order", "2:2", "TuMM")
	better := true
	for i, runs := range [][]outcome{johnson, inverse} {
		fixed, adaptive := phaseGap(runs[1]), phaseGap(runs[3])
		g.add([]string{"Johnson", "inverse"}[i], number(fixed, 1), number(adaptive, 1))
		better = better && adaptive < fixed
	}
	r.claim(ordered(better), "the maps of a job end with the reduces of the one before, more closely than on fixed slots", "distances in the table above")
}

// phaseGap is the mean time between the end of each job's maps and the end of the
// job before, whichever is first.
func phaseGap(run outcome) float64 {
	var gaps []float64
	for i := 1; i < len(run.Jobs); i++ {
		gaps = append(gaps, (run.Jobs[i].MapsDone - run.Jobs[i-1].Ended).Abs().Seconds())
	}
	return mean(gaps)
}

// tummVariants are the policies of the ablation.
var tummVariants = []struct {
	name, policy string
	settings     []string
}{
	{"2:2 fixed", tummStatic, nil},
	{"TuMM", tummTuMM, nil},
	{"without feedback (Eq. 4 alone)", tummTuMM, []string{"feedback", "off"}},
	{"Eq. 6 to the letter", tummTuMM, []string{"feedback", "literal"}},
	{"tasks left: not started ones only", tummTuMM, []string{"remaining", "unassigned"}},
	{"reduces timed after the maps", tummTuMM, []string{"reduce-time", "after_maps"}},
	{"no early reduces", tummTuMM, []string{"early-reduces", "off"}},
	{"an idle slot serves any kind", tummTuMM, []string{"fallback", "any"}},
}

// tummAblation compares variants of TuMM, and of what had to be assumed.
func tummAblation(ctx context.Context, o Options) (*Report, error) {
	r := new(Report)
	worlds := []struct {
		name  string
		setup func(*setup)
	}{
		{"as above", func(*setup) {}},
		{"slow start 1", func(s *setup) {
			for i := range s.jobs {
				s.jobs[i].SlowStart = 1
			}
		}},
		{"heartbeat 0.3 s", func(s *setup) { s.model.Heartbeat = "fixed:300ms" }},
		{"no contention", func(s *setup) { s.jobs, _ = paperJobs("tumm-mixed-johnson", o.Seed) }},
	}
	columns := []string{"variant"}
	var setups []setup
	for _, w := range worlds {
		columns = append(columns, w.name)
		for _, v := range tummVariants {
			jobs, err := tummMix("tumm-mixed-johnson", o.Seed)
			if err != nil {
				return nil, err
			}
			s := tummRun(withDisks(paperCluster("tumm")), jobs, v.policy, v.settings...)
			w.setup(&s)
			setups = append(setups, s)
		}
	}
	runs, err := play(ctx, o, setups)
	if err != nil {
		return nil, err
	}
	t := r.table("Ten jobs in Johnson's order: makespan (s)", columns...)
	for i, v := range tummVariants {
		row := []string{v.name}
		for w := range worlds {
			row = append(row, seconds(runs[w*len(tummVariants)+i].Makespan))
		}
		t.add(row...)
	}
	r.claim(ordered(runs[1].Makespan < min(runs[2].Makespan, runs[3].Makespan)), "feedback improves the estimate",
		"Johnson's order, Eq. 6 summed from where a phase began: %s s; to the letter, rounding down at each step loses map slots: %s s; "+
			"Eq. 4 alone: %s s", seconds(runs[1].Makespan), seconds(runs[3].Makespan), seconds(runs[2].Makespan))
	if r.failing(1) {
		err = tummFeedback(ctx, o, r)
	}
	return r, err
}

// tummFeedback compares Eq. 4 with and without feedback in many orders.
func tummFeedback(ctx context.Context, o Options, r *Report) error {
	names, seeds := tummOrders(o)
	t := newTable("TuMM with feedback to TuMM without, makespan of ten jobs over all orders of Figure 8", "heartbeat", "mean", "least", "greatest", "shorter with feedback")
	conclusion := ""
	for _, beat := range []string{"fixed:3s", "fixed:300ms", "fixed:10s"} {
		var setups []setup
		for i := range names {
			jobs, err := tummMix(names[i], seeds[i])
			if err != nil {
				return err
			}
			for _, v := range tummVariants[1:3] {
				s := tummRun(withDisks(paperCluster("tumm")), jobs, v.policy, v.settings...)
				s.model.Heartbeat = beat
				setups = append(setups, s)
			}
		}
		runs, err := play(ctx, o, setups)
		if err != nil {
			return err
		}
		var diffs []float64
		shorter := 0
		for i := range names {
			diffs = append(diffs, -gain(runs[2*i+1].Makespan, runs[2*i].Makespan))
			shorter += btoi(diffs[i] < 0)
		}
		t.add(beat[len("fixed:"):], percent(mean(diffs)), percent(slices.Min(diffs)), percent(slices.Max(diffs)), fmt.Sprintf("%d of %d", shorter, len(names)))
		conclusion += fmt.Sprintf("; %s on average with a heartbeat every %s", percent(mean(diffs)), beat[len("fixed:"):])
	}
	r.explain(1, because("One order of jobs says little: other orders, and other intervals of the heartbeats that slots follow the estimate by, may tell both apart", []Table{*t},
		"Feedback changes the makespan by a few percent to either side%s. Eq. 4 is nearly right without it where tasks of a kind are alike, as they are here; "+
			"what it is for, estimates that are wrong, this set-up has none of", conclusion))
	return nil
}
