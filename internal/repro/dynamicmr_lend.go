package repro

import (
	"context"
	"fmt"
	"time"

	"github.com/slotwise/slotwise/internal/workload"
)

// dynSort is the policy of the sweeps: DHSA alone.
const dynSort = "slots=dhsa-pd,order=fair,place=greedy,speculate=none"

// dynModels are what is known and what is not of Sort's tasks.
var dynModels = []struct {
	name string
	make func([]workload.Job, uint64) []workload.Job
}{
	{"given times", func(j []workload.Job, _ uint64) []workload.Job { return j }},
	{"maps hinder each other as Grep's do", contended},
	{"maps and reduces do", func(j []workload.Job, s uint64) []workload.Job { return reducesToo(contended(j, s)) }},
}

// dynFig5 sweeps the two percentages.
func dynFig5(ctx context.Context, o Options) (*Report, error) {
	r := new(Report)
	monotone, falls := true, 0.0
	var lentMaps [3][2]float64
	for m, model := range dynModels {
		t := r.table("Sort, 320 maps and 200 reduces: speed-up over no lending, "+model.name+"; the paper's curves are not at hand, only ≈ 29 % for Pec_M",
			"swept", "0 %", "25 %", "50 %", "75 %", "100 %")
		base := time.Duration(0)
		for s, sweep := range []string{"Pec_R at Pec_M = 0", "Pec_R at Pec_M = 100 %", "Pec_M at Pec_R = 0", "Pec_M at Pec_R = 100 %"} {
			spans, err := dynSweep(ctx, o, m, s)
			if err != nil {
				return nil, err
			}
			if s == 0 {
				base = spans[0]
			}
			row := []string{sweep}
			for i, span := range spans {
				row = append(row, number(base.Seconds()/span.Seconds(), 3))
				if i > 0 {
					drop := speedup(span, spans[i-1])
					monotone, falls = monotone && drop < 0.02, max(falls, drop)
				}
			}
			t.add(row...)
			if s >= 2 {
				lentMaps[m][s-2] = speedup(spans[0], spans[4])
			}
		}
	}
	r.claim(monotone, "performance rises with either percentage", "no step of any sweep loses more than %s", share(falls))
	low := min(lentMaps[2][0], lentMaps[2][1])
	r.claim(within(low, 0.2, 0.4), "≈ 29 % from Pec_M at a fixed Pec_R",
		"%s and %s with given times, since lent map slots make 4 waves of reduces of 12; %s and %s if maps hinder each other as Grep's were "+
			"measured to; %s and %s if reduces do so as well. The paper's is between the last two: its reduces hinder each other less than that. "+
			"Its cluster is not described", percent(lentMaps[0][0]), percent(lentMaps[0][1]), percent(lentMaps[1][0]), percent(lentMaps[1][1]),
		percent(lentMaps[2][0]), percent(lentMaps[2][1]))
	return r, nil
}

// dynSweep runs one series of Figure 5: 0, 25, 50, 75 and 100 % of Pec_R with
// Pec_M 0 and 1, then of Pec_M with Pec_R 0 and 1. Reduces start late: ones that
// wait for maps would hold all reduce slots from the first moment on, and there
// would be none to lend.
func dynSweep(ctx context.Context, o Options, model, series int) ([]time.Duration, error) {
	fixed := fmt.Sprint(series % 2)
	var setups []setup
	for _, part := range []string{"0", "0.25", "0.5", "0.75", "1"} {
		jobs, err := dynJobs(o, "sort")
		if err != nil {
			return nil, err
		}
		v := variant{policy: dynSort, settings: []string{"early-reduces", "off", "lend-map-slots", fixed, "lend-reduce-slots", part}}
		if series >= 2 {
			v.settings = []string{"early-reduces", "off", "lend-map-slots", part, "lend-reduce-slots", fixed}
		}
		s := dynRuns(dynModels[model].make(jobs, o.Seed), v)[0]
		s.cluster = withDisks(s.cluster)
		s.model.Replicas = -1
		setups = append(setups, s)
	}
	runs, err := play(ctx, o, setups)
	if err != nil {
		return nil, err
	}
	var spans []time.Duration
	for _, run := range runs {
		spans = append(spans, run.Makespan)
	}
	return spans, nil
}

// dynContention shows what early reduces do, and what tasks that hinder each
// other leave of the gains.
func dynContention(ctx context.Context, o Options) (*Report, error) {
	r := new(Report)
	variants := []variant{dynFair, dynPD, dynPD.with("PD, 18 map slots kept from early reduces", "keep-map-slots", "18"),
		{"PD, no waits for locality", "slots=dhsa-pd,order=fair,place=greedy,speculate=none", nil}, dynPDl}
	t := r.table("Early reduces: makespan (s), improvement on MRv1", dynColumns("jobs", variants)...)
	spans, err := dynCompare(ctx, o, t, dynBatchSizes, variants...)
	if err != nil {
		return nil, err
	}
	last := spans[len(spans)-1]
	r.claim(last[1] < last[0], "PD as printed, with Hadoop's slow start, improves on MRv1 for 30 jobs too",
		"%s: while a job waits for a node with its data, Case 4 gives map slots to reduces that have been started early (Case 4 is tried before "+
			"Case 5); these wait for maps that find no slot. Without waits for locality %s, with late reduces %s",
		percent(speedup(last[0], last[1])), percent(speedup(last[0], last[3])), percent(speedup(last[0], last[4])))
	c := r.table("Contention: improvement on MRv1", "workload", "given times: PI", "PD, late reduces",
		"maps as Grep's: PI", "PD, late reduces", "maps and reduces: PI", "PD, late reduces")
	for _, n := range []any{"wordcount", "sort", "invertedindex", 5, 10} {
		row := []string{fmt.Sprint(n)}
		for _, model := range dynModels {
			jobs, err := dynJobs(o, n)
			if err != nil {
				return nil, err
			}
			setups := dynRuns(model.make(jobs, o.Seed), dynFair, dynPI, dynPDl)
			for i := range setups {
				setups[i].cluster = withDisks(setups[i].cluster)
				setups[i].model.Replicas = -1
			}
			runs, err := play(ctx, o, setups)
			if err != nil {
				return nil, err
			}
			row = append(row, percent(speedup(runs[0].Makespan, runs[1].Makespan)), percent(speedup(runs[0].Makespan, runs[2].Makespan)))
		}
		c.add(row...)
	}
	return r, nil
}
