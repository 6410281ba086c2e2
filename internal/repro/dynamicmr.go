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
	dynPIp  = dynPI.with("PI to the letter", "early-reduces", "on")
	dynPDp  = dynPD.with("PD to the letter", "early-reduces", "on")
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
		"the paper says nothing of slow start. Reduces start when 5 % of the maps are done, Hadoop's default: \"to the letter\" in any slot that Alg 1 and 2 give them; in the rows " +
			"without words, which are the policies as they come, they wait for maps in reduce slots only; \"late reduces\" start when all maps of their job are done",
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
		{ID: "dynamicmr/contention", Title: "What matters: contention", Run: dynContention},
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

// dynGain judges the improvements of a variant on another by what the paper prints.
func dynGain(p printed, spans [][]time.Duration, base, v int) judgement {
	var gains []float64
	for _, row := range spans {
		gains = append(gains, speedup(row[base], row[v]))
	}
	return sized(p, gains...)
}

// dynSingle runs each app alone.
func dynSingle(ctx context.Context, o Options) (*Report, error) {
	variants := []variant{dynFair, dynPI, dynPD, dynPIp, dynPDp, dynPIl, dynPDl}
	r := new(Report)
	t := r.table("Makespan of a job alone (s), improvement on MRv1; the paper's are +46 % to +115 %, by app in a figure that is not at hand",
		dynColumns("job", variants)...)
	spans, err := dynCompare(ctx, o, t, dynApps, variants...)
	if err != nil {
		return nil, err
	}
	for v := 1; v <= 4; v++ {
		least, most := improvements(spans, 0, v)
		r.claim(dynGain(printed{46, 115, "%"}, spans, 0, v), "single jobs gain 46 to 115 % on MRv1: "+variants[v].name,
			"%s to %s; 1.5 + 1.5·r is what 54 slots for all give over 36 and 18 for one kind each, r being the reduces' part of the work, and +115 %% is r = 0.43", percent(least), percent(most))
	}
	pi, _ := improvements(spans, 1, 2)
	r.claim(ordered(pi >= 0), "PD does no worse than PI for a job alone", "%s at worst", percent(pi))
	dynDraw(r, "dynamicmr-single", "DynamicMR: single jobs, improvement on MRv1", dynApps, variants[1:5], spans, 46, 115)
	return r, nil
}

// dynDraw draws improvements on the first variant, with the range printed.
func dynDraw[T any](r *Report, name, title string, groups []T, variants []variant, spans [][]time.Duration, least, most float64) {
	series := make([]Series, len(variants))
	var names []string
	for i, g := range groups {
		names = append(names, fmt.Sprint(g))
		for v := range variants {
			series[v].Name = variants[v].name
			series[v].Y = append(series[v].Y, 100*speedup(spans[i][0], spans[i][v+1]))
		}
	}
	r.bars(name, title, "improvement [%]", names, series...).Limits = []Limit{{fmt.Sprintf("paper, least (%g %%)", least), least}, {fmt.Sprintf("paper, most (%g %%)", most), most}}
}

// dynBatchSizes are the paper's.
var dynBatchSizes = []int{5, 10, 20, 30}

// dynBatches runs the four batches.
func dynBatches(ctx context.Context, o Options) (*Report, error) {
	variants := []variant{dynFair, dynPI, dynPD, dynPIp, dynPDp, dynPIl, dynPDl, dynYARN, dynFree}
	sizes := pick(o, dynBatchSizes[:2], dynBatchSizes)
	r := new(Report)
	t := r.table("Makespan of a batch (s), improvement on MRv1; the paper's are +49 % to +112 %", dynColumns("jobs", variants)...)
	spans, err := dynCompare(ctx, o, t, sizes, variants...)
	if err != nil {
		return nil, err
	}
	for v := 1; v <= 4; v++ {
		least, most := improvements(spans, 0, v)
		r.claim(dynGain(printed{49, 112, "%"}, spans, 0, v), "batches gain 49 to 112 % on MRv1: "+variants[v].name, "%s to %s", percent(least), percent(most))
	}
	if r.failing(4) {
		if err := dynWhyEarly(ctx, o, r, sizes); err != nil {
			return nil, err
		}
	}
	dynDraw(r, "dynamicmr-batches", "DynamicMR: batches, improvement on MRv1", sizes, variants[1:], spans, 49, 112)
	if err := dynOnYARN(ctx, o, r, sizes); err != nil {
		return nil, err
	}
	return r, dynStarts(ctx, o, r, sizes)
}

// dynWhyEarly varies where reduces may wait, and for how long jobs wait for data.
func dynWhyEarly(ctx context.Context, o Options, r *Report, sizes []int) error {
	variants := []variant{dynFair, dynPDp, dynPDp.with("18 map slots kept from reduces that wait", "keep-map-slots", "18"),
		dynPDp.with("far maps wait", "far-at-once", "false"),
		{"no waits for data", "slots=dhsa-pd,order=fair,place=greedy,speculate=none", []string{"early-reduces", "on"}},
		dynPD.with("no reduce waits in a lent slot"), dynPDl}
	t := newTable("Makespan (s), improvement on MRv1, by where reduces may wait", dynColumns("jobs", variants)...)
	spans, err := dynCompare(ctx, o, t, sizes, variants...)
	if err != nil {
		return err
	}
	last := spans[len(spans)-1]
	r.explain(4, because("While a job lets turns pass for a node with its data, Case 4, which is tried before Case 5, gives map slots to reduces that have been started early; these wait for maps "+
		"that find no slot", []Table{*t}, "With %d jobs %s to the letter, %s without waits for data, %s if reduces wait in reduce slots only, %s if they wait nowhere: it holds if no "+
		"reduce waits in a lent slot, which is how the policy comes", sizes[len(sizes)-1], percent(speedup(last[0], last[1])), percent(speedup(last[0], last[4])),
		percent(speedup(last[0], last[5])), percent(speedup(last[0], last[6]))))
	return nil
}

// dynYARNs are the modes that are held against YARN.
var dynYARNs = []variant{dynPI, dynPD, dynPIl, dynPDl}

// dynOnYARN compares with YARN: with the times as given, which is what is judged,
// and in the explanation with contention.
func dynOnYARN(ctx context.Context, o Options, r *Report, sizes []int) error {
	print := printed{2, 9, "%"}
	why := newTable("Improvement on YARN-like slots where tasks hinder each other", dynColumns("tasks", append([]variant{{name: "jobs"}}, dynYARNs...))...)
	found := ""
	for m, model := range dynModels {
		gains, err := dynToYARN(ctx, o, model.make, sizes)
		if err != nil {
			return err
		}
		t := why
		if m == 0 {
			t = r.table("Improvement of DynamicMR on YARN-like slots; the paper's is +2 % to +9 %", why.Columns...)
		}
		for i, n := range sizes {
			row := []string{model.name, fmt.Sprint(n)}
			for v := range dynYARNs {
				row = append(row, percent(gains[v][i]))
			}
			t.add(row...)
		}
		for v, x := range dynYARNs {
			if m == 0 {
				r.claim(sized(print, gains[v]...), "batches gain about 2 to 9 % on YARN: "+x.name, "%s to %s", percent(slices.Min(gains[v])), percent(slices.Max(gains[v])))
			} else if sized(print, gains[v]...).verdict != Fails {
				found = joined(found, x.name+", "+model.name)
			}
		}
	}
	r.explain(len(dynYARNs), because("The paper credits the control of the ratio of running maps and reduces. That can matter only where tasks hinder each other: with given times 54 slots are 54 slots, and "+
		"reduces that wait for maps in reduce slots are slots lost, which YARN's limit on early reduces keeps few", []Table{*why},
		"In size with: %s. YARN-like slots fill up with maps that slow each other down; DynamicMR's reduces beside them do not", orNone(found)))
	return nil
}

// dynToYARN are the improvements on YARN by variant and batch.
func dynToYARN(ctx context.Context, o Options, change func([]workload.Job, uint64) []workload.Job, sizes []int) ([][]float64, error) {
	gains := make([][]float64, len(dynYARNs))
	for _, n := range sizes {
		jobs, err := dynJobs(o, n)
		if err != nil {
			return nil, err
		}
		setups := dynRuns(change(jobs, o.Seed), append([]variant{dynYARN}, dynYARNs...)...)
		for i := range setups {
			setups[i].cluster = withDisks(setups[i].cluster)
			setups[i].model.Replicas = -1
		}
		runs, err := play(ctx, o, setups)
		if err != nil {
			return nil, err
		}
		for v := range gains {
			gains[v] = append(gains[v], speedup(runs[0].Makespan, runs[v+1].Makespan))
		}
	}
	return gains, nil
}

// dynStarts counts the attempts on lent slots.
func dynStarts(ctx context.Context, o Options, r *Report, sizes []int) error {
	t := r.table("Attempts started on lent slots, late reduces, no PreScheduling", "jobs", "PI: maps on reduce slots", "reduces on map slots", "PD: maps on reduce slots", "reduces on map slots")
	more := 0
	for _, n := range sizes {
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
		more += btoi(pd[0][1]+pd[1][0] > pi[0][1]+pi[1][0])
	}
	r.claim(ordered(more == len(sizes)), "PD moves slots between the phases more often than PI", "in %d of %d batches, both with late reduces and without PreScheduling, which lends too", more, len(sizes))
	return nil
}

// dynFig2 varies the fixed slots of a node.
func dynFig2(ctx context.Context, o Options) (*Report, error) {
	variants := []variant{dynFair, dynPI, dynPD, dynPDl}
	r := new(Report)
	t := r.table("Makespan of ten jobs (s), improvement on MRv1 with the same slots; the paper's in a figure that is not at hand",
		dynColumns("map:reduce slots a node", variants)...)
	jobs, err := dynJobs(o, 10)
	if err != nil {
		return nil, err
	}
	var low, high [4]time.Duration
	var groups []string
	var drawn [4]Series
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
		least = min(least, speedup(runs[0].Makespan, runs[1].Makespan), speedup(runs[0].Makespan, runs[2].Makespan))
		groups = append(groups, row[0])
		for v, run := range runs {
			drawn[v].Name, drawn[v].Y = variants[v].name, append(drawn[v].Y, run.Makespan.Seconds())
		}
		t.add(row...)
	}
	r.claim(ordered(least > 0), "DHSA improves on fixed slots whatever their configuration", "PI and PD at least %s", percent(least))
	of := func(v int) float64 { return speedup(high[v], low[v]) }
	r.claim(ordered(max(of(1), of(2)) < of(0)), "it depends less on the configuration than fixed slots do", "longest to shortest: fixed %s, PI %s, PD %s",
		percent(of(0)), percent(of(1)), percent(of(2)))
	r.bars("dynamicmr-fig2", "DynamicMR, Figure 2: ten jobs by map:reduce slots of a node", "makespan [s]", groups, drawn[:]...)
	return r, nil
}
