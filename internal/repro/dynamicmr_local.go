package repro

import (
	"context"
	"fmt"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/sim"
)

// with adds settings to a variant.
func (v variant) with(name string, settings ...string) variant {
	return variant{name, v.policy, append(append([]string(nil), v.settings...), settings...)}
}

// dynNoDHSA is the Fair scheduler with DynamicMR's prescheduling alone.
var dynNoDHSA = variant{"fair", "dynamicmr-pi", []string{"lend-map-slots", "0", "lend-reduce-slots", "0"}}

// localShare is the part of maps that started where their data is.
func localShare(run outcome) float64 {
	all := int64(0)
	for _, n := range run.Maps {
		all += n
	}
	return float64(run.Maps[cluster.NODE]) / float64(all)
}

// dynPairs are the variants of Figures 3 and 4, each without and with
// prescheduling.
func dynPairs() []variant {
	var list []variant
	for _, v := range []variant{dynNoDHSA, dynPI, dynPD, dynPIl, dynPDl} {
		list = append(list, v.with(v.name+", without", "preschedule", "false"), v.with(v.name+", with", "preschedule", "true"))
	}
	return list
}

// dynFig3 measures locality.
func dynFig3(ctx context.Context, o Options) (*Report, error) {
	variants := dynPairs()
	r := new(Report)
	better, worse, rows := make([]int, len(variants)/2), make([]int, len(variants)/2), 0
	for _, replicas := range []int{3, 1} {
		t := r.table(fmt.Sprintf("Maps that start where their data is, without and with PreScheduling, %d replicas; the paper's in a figure that is not at hand", replicas),
			dynColumns("jobs", variants)...)
		for _, n := range pick(o, []int{1, 5, 10}, []int{1, 5, 10, 20, 30}) {
			jobs, err := dynJobs(o, n)
			if err != nil {
				return nil, err
			}
			setups := dynRuns(jobs, variants...)
			for i := range setups {
				setups[i].model.Replicas = replicas
			}
			runs, err := play(ctx, o, setups)
			if err != nil {
				return nil, err
			}
			row := []string{fmt.Sprint(n)}
			for i := range runs {
				row = append(row, share(localShare(runs[i])))
				if i%2 == 1 {
					d := localShare(runs[i]) - localShare(runs[i-1])
					better[i/2] += btoi(d > 0)
					worse[i/2] += btoi(d < 0)
				}
			}
			rows++
			t.add(row...)
		}
	}
	for i, v := range []string{"PI", "PD"} {
		r.claim(ordered(better[i+1] > 0 && worse[i+1] == 0), "PreScheduling improves locality: "+v, "more in %d, less in %d of %d rows; with late reduces more in %d, less in %d",
			better[i+1], worse[i+1], rows, better[i+3], worse[i+3])
	}
	if r.failing(2) {
		return r, dynWhyLocality(ctx, o, r)
	}
	return r, nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// dynFig4 measures load balance and fairness for 1 to 10 jobs.
func dynFig4(ctx context.Context, o Options) (*Report, error) {
	variants := dynPairs()
	r := new(Report)
	var balance, fairness, maps, reduces [][]float64
	for n := 1; n <= pick(o, 4, 10); n++ {
		jobs, err := dynJobs(o, n)
		if err != nil {
			return nil, err
		}
		runs, err := play(ctx, o, dynRuns(jobs, variants...))
		if err != nil {
			return nil, err
		}
		var b, f, m, red []float64
		for _, run := range runs {
			w := run.watch
			b, f = append(b, w.unbalanced.Value()), append(f, w.unfair.Value())
			m, red = append(m, w.unfairBy[job.Map].Value()), append(red, w.unfairBy[job.Reduce].Value())
		}
		balance, fairness, maps, reduces = append(balance, b), append(fairness, f), append(maps, m), append(reduces, red)
	}
	const paper = ", without and with PreScheduling; the paper's in a figure that is not at hand"
	b := dynDegrees(r, "UnbalancedDegree"+paper, variants, balance)
	f := dynDegrees(r, "UnfairnessDegree"+paper, variants, fairness)
	m := dynDegrees(r, "UnfairnessDegree of maps alone", variants, maps)
	red := dynDegrees(r, "UnfairnessDegree of reduces alone", variants, reduces)
	for i, v := range []string{"PI", "PD"} {
		k := 2*i + 2
		r.claim(ordered(b[k+1] > b[k]), "PreScheduling makes the balance a bit worse: "+v, "mean of 1 to 10 jobs %.2f without, %.2f with; with late reduces %.2f, %.2f", b[k], b[k+1], b[k+4], b[k+5])
		r.claim(ordered(f[k+1] < f[k]), "it makes it fairer: "+v, "mean of 1 to 10 jobs %.1f without, %.1f with; with late reduces %.1f, %.1f; maps alone %.1f, %.1f; reduces alone %.1f, %.1f",
			f[k], f[k+1], f[k+4], f[k+5], m[k], m[k+1], red[k], red[k+1])
	}
	if r.failing(4) {
		return r, dynWhyFair(ctx, o, r)
	}
	return r, nil
}

// dynDegrees makes a table of a degree for 1 to 10 jobs and returns the means.
func dynDegrees(r *Report, title string, variants []variant, values [][]float64) []float64 {
	t := r.table(title, dynColumns("jobs", variants)...)
	means := make([]float64, len(variants))
	for n, row := range values {
		cells := []string{fmt.Sprint(n + 1)}
		for v, x := range row {
			cells = append(cells, number(x, 2))
			means[v] += x / float64(len(values))
		}
		t.add(cells...)
	}
	cells := []string{"mean"}
	for _, x := range means {
		cells = append(cells, number(x, 2))
	}
	t.add(cells...)
	return means
}

// dynCopies are policies by when they start copies.
func dynCopies() []variant {
	return []variant{
		{"no copies", "slots=dhsa-pi,order=fair,place=preschedule,speculate=none", nil},
		{"LATE", "slots=dhsa-pi,order=fair,place=preschedule,speculate=late", nil},
		{"SEPB, fraction 0", "dynamicmr-pi", []string{"sepb-fraction", "0", "sepb-cap", "1"}},
		{"SEPB, fraction 1", "dynamicmr-pi", []string{"sepb-cap", "1"}},
	}
}

// dynSEPB compares copies that wait for pending tasks with ones that do not.
func dynSEPB(ctx context.Context, o Options) (*Report, error) {
	variants := dynCopies()
	r := new(Report)
	t := r.table("Makespan with stragglers (s), mean over seeds, and copies started", "jobs", "no copies", "LATE", "copies", "SEPB, fraction 0", "copies", "SEPB, fraction 1", "copies")
	sums := map[string][4]float64{}
	names := []any{"wordcount", "invertedindex", 5, 10}
	for _, n := range names {
		jobs, err := dynJobs(o, n)
		if err != nil {
			return nil, err
		}
		seeds := pick(o, 5, 20)
		var setups []setup
		for range seeds {
			setups = append(setups, dynRuns(jobs, variants...)...)
		}
		for i := range setups {
			setups[i].model.Straggler = sim.Straggler{Probability: 0.02, Factor: 5}
			setups[i].seed = uint64(i / len(variants))
		}
		runs, err := play(ctx, o, setups)
		if err != nil {
			return nil, err
		}
		var spans, copies [4]float64
		for i, run := range runs {
			spans[i%4] += run.Makespan.Seconds() / float64(seeds)
			copies[i%4] += float64(run.watch.copies) / float64(seeds)
		}
		sums[fmt.Sprint(n)] = spans
		row := []string{fmt.Sprint(n), number(spans[0], 1)}
		for v := 1; v < 4; v++ {
			row = append(row, number(spans[v], 1), number(copies[v], 1))
		}
		t.add(row...)
	}
	five, ten, alone := sums["5"], sums["10"], sums["wordcount"]
	r.claim(ordered(five[3] <= five[1] && ten[3] <= ten[1]), "a batch under SEPB is no slower than under LATE alone", "5 jobs %.1f s, LATE %.1f s; 10 jobs %.1f s, LATE %.1f s",
		five[3], five[1], ten[3], ten[1])
	if r.failing(1) {
		if err := dynWhySEPB(ctx, o, r); err != nil {
			return nil, err
		}
	}
	r.claim(ordered(alone[3] < alone[0]), "a job alone keeps what copies gain it", "WordCount: none %.1f s, LATE %.1f s, SEPB %.1f s; while reduces are pending its last maps get no copies, and the reduces wait for them", alone[0], alone[1], alone[3])
	return r, nil
}
