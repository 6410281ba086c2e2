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
	var lines []Series
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
					monotone, falls = monotone && (drop <= 0 || m > 0), max(falls, drop)
				}
			}
			t.add(row...)
			if m == 0 {
				line := Series{Name: sweep}
				for i, span := range spans {
					line.X, line.Y = append(line.X, float64(25*i)), append(line.Y, base.Seconds()/span.Seconds())
				}
				lines = append(lines, line)
			}
			if s >= 2 {
				lentMaps[m][s-2] = speedup(spans[0], spans[4])
			}
		}
	}
	r.lines("dynamicmr-fig5", "DynamicMR, Figure 5: Sort by the slots that may be lent, given times", "swept percentage", "speed-up on no lending", lines...).Limits =
		[]Limit{{"paper: ≈ 29 % from Pec_M", 1.29}}
	r.claim(ordered(monotone), "performance does not fall with either percentage", "no step of any sweep loses more than %s", share(falls))
	if r.failing(1) {
		if err := dynWhyFalls(ctx, o, r); err != nil {
			return nil, err
		}
	}
	r.claim(sized(number1(29, "%"), lentMaps[0][0]), "≈ 29 % from Pec_M at a fixed Pec_R: Pec_R = 0", "%s with given times", percent(lentMaps[0][0]))
	r.claim(sized(number1(29, "%"), lentMaps[0][1]), "≈ 29 % from Pec_M at a fixed Pec_R: Pec_R = 100 %", "%s with given times", percent(lentMaps[0][1]))
	if r.failing(2) {
		if err := dynWhyLent(ctx, o, r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// dynParts are the five percentages of a sweep.
var dynParts = []string{"0", "0.25", "0.5", "0.75", "1"}

// dynSweep runs one series of Figure 5: 0, 25, 50, 75 and 100 % of Pec_R with
// Pec_M 0 and 1, then of Pec_M with Pec_R 0 and 1. Reduces start late: ones that
// wait for maps would hold all reduce slots from the first moment on, and there
// would be none to lend.
func dynSweep(ctx context.Context, o Options, model, series int) ([]time.Duration, error) {
	return dynSwept(ctx, o, dynModels[model].make, series, dynParts)
}

// dynSwept does so with jobs changed and with some of the percentages.
func dynSwept(ctx context.Context, o Options, change func([]workload.Job, uint64) []workload.Job, series int, parts []string) ([]time.Duration, error) {
	fixed := fmt.Sprint(series % 2)
	var setups []setup
	for _, part := range parts {
		jobs, err := dynJobs(o, "sort")
		if err != nil {
			return nil, err
		}
		v := variant{policy: dynSort, settings: []string{"early-reduces", "off", "lend-map-slots", fixed, "lend-reduce-slots", part}}
		if series >= 2 {
			v.settings = []string{"early-reduces", "off", "lend-map-slots", part, "lend-reduce-slots", fixed}
		}
		s := dynRuns(change(jobs, o.Seed), v)[0]
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

// dynWhyLent varies how much tasks hinder each other, and how long reduces take
// beside maps.
func dynWhyLent(ctx context.Context, o Options, r *Report) error {
	ends := []string{"0", "1"}
	gains := func(change func([]workload.Job, uint64) []workload.Job) (out [2]float64, err error) {
		for i := range out {
			spans, err := dynSwept(ctx, o, change, 2+i, ends)
			if err != nil {
				return out, err
			}
			out[i] = speedup(spans[0], spans[1])
		}
		return out, nil
	}
	c := newTable("Gain from Pec_M by how much tasks hinder each other", "maps: part of the time on the node's shared resource", "reduces", "Pec_R = 0", "Pec_R = 100 %")
	l := newTable("Gain from Pec_M by how long reduces take, given times", "reduces' times, of those assumed", "Pec_R = 0", "Pec_R = 100 %")
	with := ""
	note := func(what string, g [2]float64) {
		if sized(number1(29, "%"), g[:]...).verdict != Fails {
			with = joined(with, what)
		}
	}
	for _, part := range pick(o, []float64{0, 0.25, 0.5}, []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5}) {
		for _, maps := range []float64{0, sharedPart()} {
			g, err := gains(func(j []workload.Job, seed uint64) []workload.Job { return reducesBy(part, contendedBy(maps, j, seed)) })
			if err != nil {
				return err
			}
			c.add(number(maps, 1), number(part, 1), percent(g[0]), percent(g[1]))
			note(fmt.Sprintf("parts of %.1f and %.1f", maps, part), g)
		}
	}
	for _, factor := range []float64{1, 0.75, 0.5, 0.3, 0.2, 0.1} {
		g, err := gains(func(j []workload.Job, _ uint64) []workload.Job { return reducesTimes(factor, j) })
		if err != nil {
			return err
		}
		l.add(number(factor, 2), percent(g[0]), percent(g[1]))
		note(fmt.Sprintf("reduces of %.2f times the length", factor), g)
	}
	r.explain(2, because("Lent map slots make 4 waves of reduces of 12: the gain is the part of the time that is left for reduces, and what they keep of it when three times as many run on a node. Neither "+
		"the times of Sort's tasks nor its cluster are at hand", []Table{*c, *l}, "In size with: %s. So it needs reduces that hinder each other some, or ones that are short beside maps", orNone(with)))
	return nil
}

// dynWhyFalls looks at the sweeps with reduces of unequal length, since steps that
// lose may be those of waves.
func dynWhyFalls(ctx context.Context, o Options, r *Report) error {
	t := newTable("Sweeps with tasks of unlike times: greatest loss of a step", "times vary to either side by", "Pec_R at Pec_M = 0", "Pec_R at Pec_M = 100 %", "Pec_M at Pec_R = 0", "Pec_M at Pec_R = 100 %")
	most := 0.0
	for _, spread := range []float64{0, 0.1, 0.3} {
		row := []string{share(spread)}
		for series := range 4 {
			spans, err := dynSwept(ctx, o, func(j []workload.Job, seed uint64) []workload.Job { return unlikeTimes(spread, j, seed) }, series, dynParts)
			if err != nil {
				return err
			}
			worst := 0.0
			for i := 1; i < len(spans); i++ {
				worst = max(worst, speedup(spans[i], spans[i-1]))
			}
			row, most = append(row, share(worst)), max(most, worst)
		}
		t.add(row...)
	}
	r.explain(1, because("Tasks end in waves, and a slot more can make the last wave begin later than before", []Table{*t},
		"Steps lose %s at most: rises but for the ends of waves", share(most)))
	return nil
}

// dynContention shows what tasks that hinder each other leave of the gains.
func dynContention(ctx context.Context, o Options) (*Report, error) {
	r := new(Report)
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
