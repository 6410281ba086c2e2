package repro

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/workload"
)

// variant is a policy with settings, by a name for tables.
type variant struct {
	name, policy string
	settings     []string
}

// The policies of the DynamicMR experiments. The paper's baseline is the Fair
// scheduler on fixed slots; its YARN is one that knows no kinds of slots.
var (
	dynFair = variant{"MRv1 fair", "fair", nil}
	dynPI   = variant{"PI", "dynamicmr-pi", nil}
	dynPD   = variant{"PD", "dynamicmr-pd", nil}
	dynPIl  = variant{"PI, late reduces", "dynamicmr-pi", []string{"early-reduces", "off"}}
	dynPDl  = variant{"PD, late reduces", "dynamicmr-pd", []string{"early-reduces", "off"}}
	dynYARN = variant{"YARN-like", "slots=unified,order=fair,place=delay,speculate=late", nil}
	// dynFree is YARN without what keeps reduces from taking the slots of maps.
	dynFree = variant{"YARN-like, no limit on early reduces", dynYARN.policy, []string{"reduce-rampup-limit", "1"}}
)

var (
	dynSetup = []string{
		"18 reduce slots (App. F); jobs J1 to J30 of PUMA (Table 3), batches of 5, 10, 20 and 30",
		"improvement is T_base/T_new − 1 (115 % cannot be a cut of time)",
		"baselines: the Fair scheduler of Hadoop 1.2 on fixed slots, and YARN",
	}
	dynAssumptions = []string{
		"9 nodes with 4 map and 2 reduce slots each, heartbeats of Hadoop 1.2: only the 18 reduce slots are given",
		"Sort has 320 maps and 200 reduces (App. F). The sizes of the others are not at hand; they are TuMM's, which ran the same suite: 128 maps, 150 reduces for InvertedIndex and 80 for others",
		"task times are the middles of TuMM's Table 4, for apps not in it the mean of its five; HistogramMovies is as HistogramRatings",
		"tasks do not hinder each other; dynamicmr/contention shows what becomes of it if they do",
		"all jobs come at once, each in a pool of its own",
		"lent slots up to all of either kind (100 %), the delay scheduler's waits as measured",
		"\"late reduces\" is an addition of this project: reduces start when all maps of their job are done. The paper says nothing of slow start; Hadoop's default is 5 % of the maps, the rows without the words",
	}
)

func dynamicMR() []Experiment {
	list := []Experiment{
		{ID: "dynamicmr/single", Title: "Single jobs against MRv1", Run: dynSingle},
		{ID: "dynamicmr/batches", Title: "Batches against MRv1 and YARN", Run: dynBatches},
		{ID: "dynamicmr/fig2", Title: "Figure 2: DHSA under various slot configurations", Run: dynFig2},
		{ID: "dynamicmr/fig3", Title: "Figure 3: locality with and without PreScheduling", Run: dynFig3},
		{ID: "dynamicmr/fig4", Title: "Figure 4: load balance and fairness with and without PreScheduling", Run: dynFig4},
		{ID: "dynamicmr/fig5", Title: "Figure 5: the percentages of slots that may be lent", Run: dynFig5},
		{ID: "dynamicmr/sepb", Title: "Speculative execution: SEPB and LATE", Run: dynSEPB},
		{ID: "dynamicmr/contention", Title: "What matters: early reduces and contention", Run: dynContention},
	}
	for i := range list {
		list[i].Setup, list[i].Assumptions = dynSetup, dynAssumptions
	}
	list[3].Assumptions = append(slices.Clip(dynAssumptions), "3 replicas, and 1, where locality is harder to get")
	list[6].Assumptions = append(slices.Clip(dynAssumptions), "one attempt in 50 takes 5 times as long; the paper gives no stragglers")
	return list
}

// dynApps are the different apps of the suite.
var dynApps = []string{"wordcount", "sort", "grep", "invertedindex", "classification", "histogrammovies", "histogramratings",
	"sequencecount", "selfjoin"}

// dynJobs makes the jobs of a workload by its name after "dynamicmr-".
func dynJobs(o Options, name any) ([]workload.Job, error) {
	return paperJobs(fmt.Sprintf("dynamicmr-%v", name), o.Seed)
}

// dynRuns makes a run of each variant.
func dynRuns(jobs []workload.Job, variants ...variant) []setup {
	var list []setup
	for _, v := range variants {
		list = append(list, setup{cluster: paperCluster("dynamicmr"), jobs: jobs, policy: v.policy, settings: v.settings})
	}
	return list
}

// dynCompare makes a table of workloads and variants: makespans, then the
// improvement of all but the first on the first. It returns the makespans by
// workload.
func dynCompare[T any](ctx context.Context, o Options, t *Table, names []T, variants ...variant) ([][]time.Duration, error) {
	var setups []setup
	for _, n := range names {
		jobs, err := dynJobs(o, n)
		if err != nil {
			return nil, err
		}
		setups = append(setups, dynRuns(jobs, variants...)...)
	}
	runs, err := play(ctx, o, setups)
	if err != nil {
		return nil, err
	}
	out := make([][]time.Duration, len(names))
	for i, n := range names {
		row := []string{fmt.Sprint(n)}
		for v := range variants {
			span := runs[i*len(variants)+v].Makespan
			out[i] = append(out[i], span)
			cell := seconds(span)
			if v > 0 {
				cell += " (" + percent(speedup(out[i][0], span)) + ")"
			}
			row = append(row, cell)
		}
		t.add(row...)
	}
	return out, nil
}

// dynColumns are the columns of a table of dynCompare.
func dynColumns(first string, variants []variant) []string {
	columns := []string{first}
	for _, v := range variants {
		columns = append(columns, v.name)
	}
	return columns
}

// improvements are the least and the greatest of a variant on another, by the
// places of both.
func improvements(spans [][]time.Duration, base, v int) (low, high float64) {
	for i, row := range spans {
		x := speedup(row[base], row[v])
		if i == 0 {
			low, high = x, x
		}
		low, high = min(low, x), max(high, x)
	}
	return low, high
}

// dynSingle runs each app alone.
func dynSingle(ctx context.Context, o Options) (*Report, error) {
	variants := []variant{dynFair, dynPI, dynPD, dynPIl, dynPDl}
	r := new(Report)
	t := r.table("Makespan of a job alone (s), improvement on MRv1; the paper's are +46 % to +115 %, by app in a figure that is not at hand",
		dynColumns("job", variants)...)
	spans, err := dynCompare(ctx, o, t, dynApps, variants...)
	if err != nil {
		return nil, err
	}
	low, high := improvements(spans, 0, 2)
	above := ""
	outside := 0
	for i, row := range spans {
		if x := speedup(row[0], row[2]); !within(x, 0.46, 1.15) {
			outside++
			above += fmt.Sprintf("%s %s, ", dynApps[i], percent(x))
		}
	}
	r.claim(outside == 0, "single jobs gain 46 to 115 % on MRv1",
		"PD %s to %s; outside: %sof which the reduces are most of the work: 1.5 + 1.5·r is what 54 slots for all give over 36 and 18 "+
			"for one kind each, r being the reduces' part of the work, and +115 %% is r = 0.43", percent(low), percent(high), above)
	pi, _ := improvements(spans, 1, 2)
	r.claim(pi > -0.05, "PD does at least as well as PI for a job alone", "%s at worst", percent(pi))
	return r, nil
}

// dynBatchSizes are the paper's.
var dynBatchSizes = []int{5, 10, 20, 30}

// dynBatches runs the four batches.
func dynBatches(ctx context.Context, o Options) (*Report, error) {
	variants := []variant{dynFair, dynYARN, dynFree, dynPI, dynPIl, dynPDl, dynPD}
	r := new(Report)
	t := r.table("Makespan of a batch (s), improvement on MRv1; the paper's are +49 % to +112 %", dynColumns("jobs", variants)...)
	spans, err := dynCompare(ctx, o, t, dynBatchSizes, variants...)
	if err != nil {
		return nil, err
	}
	low, high := improvements(spans, 0, 5)
	piLow, piHigh := improvements(spans, 0, 3)
	pdLow, pdHigh := improvements(spans, 0, 6)
	r.claim(within(low, 0.49, 1.12) && within(high, 0.49, 1.12), "batches gain 49 to 112 % on MRv1",
		"PD with late reduces %s to %s, PI as the paper has it %s to %s; PD as printed %s to %s, see dynamicmr/contention", percent(low),
		percent(high), percent(piLow), percent(piHigh), percent(pdLow), percent(pdHigh))
	if err := dynOnYARN(ctx, o, r); err != nil {
		return nil, err
	}
	return r, dynStarts(ctx, o, r)
}

// dynOnYARN compares with YARN, with and without contention.
func dynOnYARN(ctx context.Context, o Options, r *Report) error {
	t := r.table("Improvement of DynamicMR on YARN-like slots", "tasks", "jobs", "PI", "PI, late reduces", "PD, late reduces", "paper")
	var low, high [3][2]float64 // of each model: PI, PD with late reduces
	for m, model := range dynModels {
		low[m], high[m] = [2]float64{1, 1}, [2]float64{-1, -1}
		for _, n := range dynBatchSizes {
			jobs, err := dynJobs(o, n)
			if err != nil {
				return err
			}
			setups := dynRuns(model.make(jobs, o.Seed), dynYARN, dynPI, dynPIl, dynPDl)
			for i := range setups {
				setups[i].cluster = withDisks(setups[i].cluster)
				setups[i].model.Replicas = -1
			}
			runs, err := play(ctx, o, setups)
			if err != nil {
				return err
			}
			row := []string{model.name, fmt.Sprint(n)}
			for _, run := range runs[1:] {
				row = append(row, percent(speedup(runs[0].Makespan, run.Makespan)))
			}
			for i, v := range []int{1, 3} {
				g := speedup(runs[0].Makespan, runs[v].Makespan)
				low[m][i], high[m][i] = min(low[m][i], g), max(high[m][i], g)
			}
			t.add(append(row, "+2 % to +9 %")...)
		}
	}
	r.claim(within(low[1][0], 0.02, 0.09) && within(high[1][0], 0.02, 0.09),
		"batches gain about 2 to 9 % on YARN, since the ratio of running maps and reduces is controlled",
		"where maps hinder each other as was measured for Grep, PI %s to %s and PD with late reduces %s to %s: YARN-like slots fill up with maps "+
			"that slow each other down. With given times the ratio does not matter, and PI, some of whose slots hold reduces that wait, is at %s to %s, "+
			"PD with late reduces at %s to %s", percent(low[1][0]), percent(high[1][0]), percent(low[1][1]), percent(high[1][1]),
		percent(low[0][0]), percent(high[0][0]), percent(low[0][1]), percent(high[0][1]))
	return nil
}

// dynStarts counts the attempts on lent slots.
func dynStarts(ctx context.Context, o Options, r *Report) error {
	t := r.table("Attempts started on lent slots, late reduces, no PreScheduling", "jobs", "PI: maps on reduce slots", "reduces on map slots", "PD: maps on reduce slots", "reduces on map slots")
	more := 0
	for _, n := range dynBatchSizes {
		jobs, err := dynJobs(o, n)
		if err != nil {
			return err
		}
		runs, err := play(ctx, o, dynRuns(jobs, dynPIl.with("", "preschedule", "false"), dynPDl.with("", "preschedule", "false")))
		if err != nil {
			return err
		}
		pi, pd := runs[0].watch.starts, runs[1].watch.starts
		t.add(fmt.Sprint(n), fmt.Sprint(pi[0][1]), fmt.Sprint(pi[1][0]), fmt.Sprint(pd[0][1]), fmt.Sprint(pd[1][0]))
		if pd[0][1]+pd[1][0] >= pi[0][1]+pi[1][0] {
			more++
		}
	}
	r.claim(more >= 3, "PD moves slots between the phases more often than PI", "in %d of 4 batches, both with late reduces and without PreScheduling, which lends too", more)
	return nil
}

// dynFig2 varies the fixed slots of a node.
func dynFig2(ctx context.Context, o Options) (*Report, error) {
	variants := []variant{dynFair, dynPI, dynPIl, dynPDl}
	r := new(Report)
	t := r.table("Makespan of ten jobs (s), improvement on MRv1 with the same slots; the paper's in a figure that is not at hand",
		dynColumns("map:reduce slots a node", variants)...)
	jobs, err := dynJobs(o, 10)
	if err != nil {
		return nil, err
	}
	var low, high [4]time.Duration
	least := 1.0
	for maps := 1; maps <= 5; maps++ {
		setups := dynRuns(jobs, variants...)
		for i := range setups {
			setups[i].cluster = withSlots(setups[i].cluster, maps, 6-maps)
		}
		runs, err := play(ctx, o, setups)
		if err != nil {
			return nil, err
		}
		row := []string{fmt.Sprintf("%d:%d", maps, 6-maps)}
		for v, run := range runs {
			if maps == 1 {
				low[v], high[v] = run.Makespan, run.Makespan
			}
			low[v], high[v] = min(low[v], run.Makespan), max(high[v], run.Makespan)
			row = append(row, fmt.Sprintf("%s (%s)", seconds(run.Makespan), percent(speedup(runs[0].Makespan, run.Makespan))))
		}
		least = min(least, speedup(runs[0].Makespan, runs[3].Makespan))
		t.add(row...)
	}
	r.claim(least > 0, "DHSA improves on fixed slots whatever their configuration", "PD with late reduces at least %s", percent(least))
	fixed, own := speedup(high[0], low[0]), speedup(high[3], low[3])
	r.claim(own < fixed, "it depends less on the configuration than fixed slots do", "longest to shortest: fixed %s, PI %s, PD with late reduces %s",
		percent(fixed), percent(speedup(high[1], low[1])), percent(own))
	return r, nil
}
