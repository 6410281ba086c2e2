package repro

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/report"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/job"
)

// The schedulers of the DynamicMR experiments. The paper's baseline is the Fair
// scheduler on fixed slots; its YARN has slots without kinds.
var (
	dynFair     = scheduler{"MRv1 fair", "fair", hadoopGap}
	dynPI       = scheduler{"PI", "dynamicmr-pi", hadoopLATE}
	dynPD       = scheduler{"PD", "dynamicmr-pd", hadoopLATE}
	dynPILetter = dynPI.with("PI to the letter", "early-reduces", "on")
	dynPDLetter = dynPD.with("PD to the letter", "early-reduces", "on")
	dynPILate   = dynPI.with("PI, late reduces", "early-reduces", "off")
	dynPDLate   = dynPD.with("PD, late reduces", "early-reduces", "off")
	dynYARN     = scheduler{"YARN-like", "slots=unified,order=fair,place=delay,speculate=late", hadoopLATE}
	// dynYARNFree is YARN without the limit that keeps reduces from taking the slots
	// of maps.
	dynYARNFree = dynYARN.with("YARN-like, no limit on early reduces", "reduce-rampup-limit", "1")
	// dynNoDHSA is the Fair scheduler with DynamicMR's prescheduling alone.
	// With nothing to lend Algorithm 1 decides as the Fair scheduler with a balance line (reading 11), so the
	// pair without and with prescheduling differs in the prescheduling alone.
	dynNoDHSA = dynPI.with("fair", "lend-map-slots", "0", "lend-reduce-slots", "0")
)

// The speculative copies of the Hadoop versions that the paper changed and compared with.
// The defaults copy stragglers that these left alone, which hides what SEPB gains.
var (
	hadoopGap  = []string{"speculative-lag", "1m", "speculative-stall", "0s"}
	hadoopLATE = append(slices.Clip(hadoopGap), "late-compare", "running")
)

// dynamicMR returns the experiments of the DynamicMR paper by id.
// The supplement is all that is at hand: claims with printed numbers are about gains (single, batches, fig5),
// and those about figures have an order alone. "To the letter" are Algorithms 1 and 2 as printed, by default
// a reduce never waits in a lent map slot (reading 14 of policies/dynamicmr/README.md), and with late reduces
// none waits anywhere. The three differ by more than anything else here, so tables show them side by side and
// claims judge the first two.
func dynamicMR() map[string]func(*lab) {
	return map[string]func(*lab){"single": dynSingle, "batches": dynBatches, "fig2": dynFig2, "fig3": dynFig3, "fig4": dynFig4, "fig5": dynFig5,
		"sepb": dynSEPB, "contention": dynContention}
}

// dynApps are the apps of the suite.
var dynApps = []string{"wordcount", "sort", "grep", "invertedindex", "classification", "histogrammovies", "histogramratings", "sequencecount", "selfjoin"}

// dynRun returns a run of a workload, an app or a number of jobs, in which maps slow each
// other down.
func dynRun(x *lab, workload string, s scheduler) run { return dynChanged(x, workload, s, contended) }

// dynChanged returns a run of a workload whose tasks are changed. Nodes have disks that
// their tasks share. A map reads a distant block through a network card that is as fast as a
// disk.
func dynChanged(x *lab, workload string, s scheduler, change jobChange) run {
	cluster := eachGroup(withDisks(paperCluster("dynamicmr")), func(g *nodeGroup) { g.NICBandwidth = g.DiskBandwidth })
	// The jobs are drawn anew for each run, from one seed: change writes into its argument.
	return run{cluster: cluster, jobs: change(x.generate("dynamicmr-"+workload, x.Seed), x.Seed), scheduler: s}
}

// nodeGroup is workload.NodeGroup, where workload is the name of a parameter.
type nodeGroup = workload.NodeGroup

// givenTimes changes no tasks: they take their times whatever else runs.
func givenTimes(j []workload.Job, _ uint64) []workload.Job { return j }

// jobChange changes the tasks of jobs, with draws from a seed.
type jobChange func(jobs []workload.Job, seed uint64) []workload.Job

// dynModels are models of how tasks slow each other down.
var dynModels = []struct {
	name   string
	change jobChange
}{
	{"maps slow each other down as Grep's do", contended},
	{"given times", givenTimes},
	{"maps and reduces do", func(j []workload.Job, s uint64) []workload.Job {
		return contendedReduces(sharedPart(), contended(j, s))
	}},
}

// numbered returns integers as names.
func numbered(list ...int) []string {
	return cells(func(n int) string { return fmt.Sprint(n) }, list...)
}

// dynColumns returns the columns of a table that compares schedulers.
func dynColumns(first string, list []scheduler) []string {
	columns := []string{first}
	for _, s := range list {
		columns = append(columns, s.name)
	}
	return columns
}

// dynCompare simulates workloads under schedulers. It adds rows to the table with
// the makespans and the improvements on the first scheduler, and returns the
// makespans by workload and scheduler.
func dynCompare(x *lab, t *Table, workloads []string, list []scheduler) [][]time.Duration {
	out := make([][]time.Duration, len(workloads))
	// One run of each: tasks' times vary by the seed of the experiment and are the same for all schedulers,
	// and the claims are about all workloads of a table, not about a mean.
	for i, row := range grid(x, workloads, list, 1, func(w string, s scheduler, _ uint64) run { return dynRun(x, w, s) }) {
		cells := []string{workloads[i]}
		for v, r := range row {
			span := r[0].Makespan
			out[i] = append(out[i], span)
			if v == 0 {
				cells = append(cells, seconds(span))
			} else {
				cells = append(cells, improved(out[i][0], span))
			}
		}
		t.add(cells...)
	}
	return out
}

// improved formats a makespan with its improvement on another.
func improved(base, span time.Duration) string {
	return fmt.Sprintf("%s (%s)", seconds(span), percent(speedup(base, span)))
}

// improvements returns the improvements of a scheduler on another by workload. base
// and v are their positions.
func improvements(spans [][]time.Duration, base, v int) (list []float64) {
	for _, row := range spans {
		list = append(list, speedup(row[base], row[v]))
	}
	return list
}

// dynDraw draws improvements on the first scheduler, with the range that the paper
// prints for a claim. The other schedulers are list.
func dynDraw(x *lab, name, title, claim string, groups []string, list []scheduler, spans [][]time.Duration) {
	var series []Series
	for v, s := range list {
		series = append(series, inPercent(s.name, improvements(spans, 0, v+1)))
	}
	_, printed := x.statement(claim)
	p := parsePrinted(printed)
	x.bars(name, title, "improvement [%]", groups, series...).Limits = []report.Limit{{Name: fmt.Sprintf("paper, least (%g %%)", p.least), At: p.least},
		{Name: fmt.Sprintf("paper, most (%g %%)", p.greatest), At: p.greatest}}
}

// dynSingle runs each app alone.
func dynSingle(x *lab) {
	list := []scheduler{dynFair, dynPI, dynPD, dynPILetter, dynPDLetter, dynPILate, dynPDLate}
	t := x.table("Makespan of a job alone (s), improvement on MRv1; the paper's are +46 % to +115 %, by app in a figure that is not at hand", dynColumns("job", list)...)
	spans := dynCompare(x, t, dynApps, list)
	// PI and PD by default and to the letter. The variants with late reduces are shown and not judged: the
	// paper has no such setting.
	for v := 1; v <= 4; v++ {
		g := improvements(spans, 0, v)
		// The bound of what lending can gain, by arithmetic: fixed slots take m/36 + r/18 of the work, one
		// phase after the other, and 54 common slots (m + r)/54.
		x.size("gain:"+list[v].name, g, "%s to %s. 54 slots for all tasks give 1.5 + 1.5·r over 36 and 18 for one kind each, where r is the reduces' share of the work; +115 %% is r = 0.43",
			percent(slices.Min(g)), percent(slices.Max(g)))
	}
	// PD relative to PI: positions in the list above.
	worst := slices.Min(improvements(spans, 1, 2))
	x.holds("no-worse", worst >= 0, "%s at worst", percent(worst))
	if x.failing(5) {
		dynWhySingle(x, list[:5])
	}
	dynDraw(x, "dynamicmr-single", "DynamicMR: single jobs, improvement on MRv1", "gain", dynApps, list[1:5], spans)
}

// dynWhySingle repeats the runs with other models of how tasks slow each other down.
func dynWhySingle(x *lab, list []scheduler) {
	t := newTable("Jobs alone by how tasks slow each other down: least and greatest improvement on MRv1", append(dynColumns("tasks", list[1:]), "PD to PI at worst")...)
	found := ""
	for _, model := range dynModels {
		row, spans := []string{model.name}, make([][]time.Duration, len(dynApps))
		for i, r := range grid(x, dynApps, list, 1, func(w string, s scheduler, _ uint64) run { return dynChanged(x, w, s, model.change) }) {
			for _, o := range r {
				spans[i] = append(spans[i], o[0].Makespan)
			}
		}
		for v := 1; v < len(list); v++ {
			g := improvements(spans, 0, v)
			row = append(row, percent(slices.Min(g))+" to "+percent(slices.Max(g)))
			if x.sized("gain", g...) != Fails {
				found = joined(found, list[v].name+", "+model.name)
			}
		}
		t.add(append(row, percent(slices.Min(improvements(spans, 1, 2))))...)
	}
	x.explain(5, "alone", []*Table{t}, "The gain is in size with: %s", orNone(found))
}

// dynBatches runs the paper's four batches.
func dynBatches(x *lab) {
	list := []scheduler{dynFair, dynPI, dynPD, dynPILetter, dynPDLetter, dynPILate, dynPDLate, dynYARN, dynYARNFree}
	sizes := pick(x, numbered(5, 10), numbered(5, 10, 20, 30))
	t := x.table("Makespan of a batch (s), improvement on MRv1; the paper's are +49 % to +112 %", dynColumns("jobs", list)...)
	spans := dynCompare(x, t, sizes, list)
	for v := 1; v <= 4; v++ {
		g := improvements(spans, 0, v)
		x.size("gain:"+list[v].name, g, "%s to %s", percent(slices.Min(g)), percent(slices.Max(g)))
	}
	if x.failing(4) {
		dynWhyEarly(x, sizes)
	}
	dynDraw(x, "dynamicmr-batches", "DynamicMR: batches, improvement on MRv1", "gain", sizes, list[1:], spans)
	dynOnYARN(x, sizes)
	dynLent(x, sizes)
}

// dynWhyEarly varies in which slots reduces may wait for maps, and for how long jobs
// wait for data.
func dynWhyEarly(x *lab, sizes []string) {
	list := []scheduler{dynFair, dynPDLetter, dynPDLetter.with("18 map slots kept from reduces that wait", "keep-map-slots", "18"),
		dynPDLetter.with("far maps wait", "far-at-once", "false"),
		{"no waits for data", "slots=dhsa-pd,order=fair,place=greedy,speculate=none", []string{"early-reduces", "on"}},
		dynPD.with("no reduce waits in a lent slot"), dynPDLate}
	t := newTable("Makespan (s), improvement on MRv1, by where reduces may wait", dynColumns("jobs", list)...)
	spans := dynCompare(x, t, sizes, list)
	// The largest batch, where reduces that wait have most to take.
	last := spans[len(spans)-1:]
	of := func(v int) string { return percent(improvements(last, 0, v)[0]) }
	x.explain(4, "early", []*Table{t}, "With %s jobs %s to the letter, %s without waits for data, %s if reduces wait in reduce slots only, %s if they wait nowhere",
		sizes[len(sizes)-1], of(1), of(4), of(5), of(6))
}

// dynOnYARN compares with YARN: by the claims where maps slow each other down, and in the
// explanation with other models.
func dynOnYARN(x *lab, sizes []string) {
	modes := []scheduler{dynPI, dynPD, dynPILate, dynPDLate}
	why := newTable("Improvement on YARN-like slots with other times of tasks", append([]string{"tasks"}, dynColumns("jobs", modes)...)...)
	found := ""
	for m, model := range dynModels {
		runs := grid(x, sizes, append([]scheduler{dynYARN}, modes...), 1, func(n string, s scheduler, _ uint64) run { return dynChanged(x, n, s, model.change) })
		t := why
		// The model that all other experiments assume. Its table is in the report; the others belong to the
		// explanation.
		if m == 0 {
			t = x.table("Improvement of DynamicMR on YARN-like slots; the paper's is +2 % to +9 %", why.Columns...)
		}
		gains := make([][]float64, len(modes)) // by mode and batch
		for i, n := range sizes {
			row := []string{model.name, n}
			for v := range modes {
				g := speedup(runs[i][0][0].Makespan, runs[i][v+1][0].Makespan)
				gains[v], row = append(gains[v], g), append(row, percent(g))
			}
			t.add(row...)
		}
		for v, s := range modes {
			if m == 0 {
				x.size("yarn:"+s.name, gains[v], "%s to %s", percent(slices.Min(gains[v])), percent(slices.Max(gains[v])))
			} else if x.sized("yarn", gains[v]...) != Fails {
				found = joined(found, s.name+", "+model.name)
			}
		}
	}
	if !x.failing(len(modes)) {
		return
	}
	masters, held := dynMasters(x, sizes, modes)
	x.explain(len(modes), "ratio", []*Table{why, masters}, "The improvement is in size with: %s. It is in size, by mode and slots that application masters hold, with: %s", cmp.Or(found, "none"), orNone(held))
}

// dynMasters compares with YARN-like slots some of which hold no tasks: each job of a real YARN
// has an application master, which occupies a container for as long as the job runs. It also
// returns the cases in which the improvement is in size.
func dynMasters(x *lab, sizes []string, modes []scheduler) (t *Table, held string) {
	t = newTable("Improvement on YARN-like slots some of which hold application masters", append([]string{"slots held"}, dynColumns("jobs", modes)...)...)
	// DynamicMR changes Hadoop 1, whose JobTracker holds no slots: its runs have all slots.
	base := grid(x, sizes, modes, 1, func(n string, s scheduler, _ uint64) run { return dynRun(x, n, s) })
	masters := pick(x, []int{1, 3}, []int{1, 2, 3, 4, 5, 9})
	yarn := grid(x, sizes, masters, 1, func(n string, held int, _ uint64) run {
		r := dynRun(x, n, dynYARN)
		all := r.cluster.Groups[0] // nodes of one kind; each master has its own node
		fewer := all
		// Fixed numbers of masters for the whole run, from 1 to 9: how many of a batch's jobs run at once
		// changes in the run, and YARN's scheduler decides it. Nine, one on each node, are the most that fit
		// this way.
		fewer.Name, fewer.Count, fewer.MapSlots, all.Count = "master", held, all.MapSlots-1, all.Count-held
		if r.cluster.Groups = []nodeGroup{fewer}; all.Count > 0 {
			r.cluster.Groups = append(r.cluster.Groups, all)
		}
		return r
	})
	for m, slots := range masters {
		gains := make([][]float64, len(modes))
		for i, n := range sizes {
			row := []string{fmt.Sprint(slots), n}
			for v := range modes {
				g := speedup(yarn[i][m][0].Makespan, base[i][v][0].Makespan)
				gains[v], row = append(gains[v], g), append(row, percent(g))
			}
			t.add(row...)
		}
		for v, s := range modes {
			if x.sized("yarn", gains[v]...) != Fails {
				held = joined(held, fmt.Sprintf("%s, %d", s.name, slots))
			}
		}
	}
	return t, held
}

// dynLent counts the attempts on lent slots.
func dynLent(x *lab, sizes []string) {
	t := x.table("Attempts started on lent slots, late reduces, no PreScheduling", "jobs", "PI: maps on reduce slots", "reduces on map slots", "PD: maps on reduce slots", "reduces on map slots")
	more := 0
	// Prescheduling lends slots, too (P2, P3). The claim is about the two algorithms.
	late := []scheduler{dynPILate.with("", "preschedule", "false"), dynPDLate.with("", "preschedule", "false")}
	for i, r := range grid(x, sizes, late, 1, func(n string, s scheduler, _ uint64) run { return dynRun(x, n, s) }) {
		pi, pd := r[0][0].watch.starts, r[1][0].watch.starts
		t.add(slices.Concat(sizes[i:i+1], numbered(pi[0][1], pi[1][0], pd[0][1], pd[1][0]))...)
		// starts[kind][slot]: maps in reduce slots, and reduces in map slots.
		more += count(pd[0][1]+pd[1][0] > pi[0][1]+pi[1][0])
	}
	x.holds("moves", more == len(sizes), "in %d of %d batches, both with late reduces and without PreScheduling, which lends too", more, len(sizes))
}

// dynFig2 varies the fixed slots of a node.
func dynFig2(x *lab) {
	list := []scheduler{dynFair, dynPI, dynPD, dynPDLate}
	t := x.table("Makespan of ten jobs (s), improvement on MRv1 with the same slots; the paper's in a figure that is not at hand", dynColumns("map:reduce slots a node", list)...)
	// Six slots a node in all, as assumed; each kind keeps one.
	splits := []int{1, 2, 3, 4, 5}
	runs := grid(x, splits, list, 1, func(maps int, s scheduler, _ uint64) run {
		r := dynRun(x, "10", s)
		r.cluster = withSlots(r.cluster, maps, 6-maps)
		return r
	})
	var groups []string
	drawn := make([]Series, len(list))
	least := 1.0
	for i, maps := range splits {
		// Each configuration against fixed slots of the same one.
		row, base := []string{fmt.Sprintf("%d:%d", maps, 6-maps)}, runs[i][0][0].Makespan
		for v, s := range list {
			span := runs[i][v][0].Makespan
			row = append(row, improved(base, span))
			drawn[v].Name, drawn[v].Y = s.name, append(drawn[v].Y, span.Seconds())
			// The paper's two modes. Late reduces, the last of the list, are ours.
			if v == 1 || v == 2 {
				least = min(least, speedup(base, span))
			}
		}
		groups = append(groups, row[0])
		t.add(row...)
	}
	x.holds("improves", least > 0, "PI and PD at least %s", percent(least))
	// The paper's figure has no numbers at hand. "Depends less" is read as a smaller ratio of the longest to
	// the shortest makespan over the five configurations.
	spread := func(v int) float64 { return slices.Max(drawn[v].Y)/slices.Min(drawn[v].Y) - 1 }
	x.holds("depends", max(spread(1), spread(2)) < spread(0), "longest to shortest: fixed %s, PI %s, PD %s", percent(spread(0)), percent(spread(1)), percent(spread(2)))
	x.bars("dynamicmr-fig2", "DynamicMR, Figure 2: ten jobs by map:reduce slots of a node", "makespan [s]", groups, drawn...)
}

// The sweeps of Figure 5: first of Pec_R, then of Pec_M, with the other at 0 and 1.
var (
	dynSweeps = []string{"Pec_R at Pec_M = 0", "Pec_R at Pec_M = 100 %", "Pec_M at Pec_R = 0", "Pec_M at Pec_R = 100 %"}
	dynParts  = []string{"0", "0.25", "0.5", "0.75", "1"}
)

// dynSweep runs Sort with the given percentages of a sweep and returns the
// makespans. Reduces start late: ones that wait for maps would hold all reduce slots
// from the beginning, and none could be lent.
func dynSweep(x *lab, change jobChange, sweep int, parts []string) []time.Duration {
	var runs []run
	for _, part := range parts {
		// The two sweeps of a percentage have the other one at 0 and at 1.
		maps, reduces := fmt.Sprint(sweep%2), part
		if sweep >= 2 {
			maps, reduces = reduces, maps
		}
		// Greedy and without copies: one job, whose waits for data and stragglers would only blur the sweep.
		s := scheduler{"", "slots=dhsa-pd,order=fair,place=greedy,speculate=none", []string{"early-reduces", "off", "lend-map-slots", maps, "lend-reduce-slots", reduces}}
		runs = append(runs, dynChanged(x, "sort", s, change))
	}
	var list []time.Duration
	for _, r := range x.play(runs...) {
		list = append(list, r.Makespan)
	}
	return list
}

// dynFig5 sweeps the two percentages.
func dynFig5(x *lab) {
	monotone, falls := true, 0.0
	var lent [2]float64 // the gain from Pec_M
	var lines []Series
	for m, model := range dynModels {
		t := x.table("Sort, 320 maps and 200 reduces: speed-up over no lending, "+model.name+"; the paper's curves are not at hand, only ≈ 29 % for Pec_M",
			"swept", "0 %", "25 %", "50 %", "75 %", "100 %")
		base := time.Duration(0)
		for s, sweep := range dynSweeps {
			spans := dynSweep(x, model.change, s, dynParts)
			// The first sweep begins with both at 0, which is the paper's base for all four.
			if s == 0 {
				base = spans[0]
			}
			row, line := []string{sweep}, Series{Name: sweep}
			for i, span := range spans {
				up := base.Seconds() / span.Seconds()
				row, line.X, line.Y = append(row, number(up, 3)), append(line.X, float64(25*i)), append(line.Y, up)
				if i > 0 {
					drop := speedup(span, spans[i-1])
					// Judged by the assumed model alone, but the evidence names the greatest loss under any.
					monotone, falls = monotone && (drop <= 0 || m > 0), max(falls, drop)
				}
			}
			t.add(row...)
			if m == 0 {
				lines = append(lines, line)
				// The sweeps of Pec_M. Which of the two the printed 29 % is of, the text does not say, so
				// both are judged.
				if s >= 2 {
					// From 0 to 100 %.
					lent[s-2] = speedup(spans[0], spans[4])
				}
			}
		}
	}
	x.lines("dynamicmr-fig5", "DynamicMR, Figure 5: Sort by the slots that may be lent", "swept percentage", "speed-up on no lending", lines...).Limits =
		[]report.Limit{{Name: "paper: ≈ 29 % from Pec_M", At: 1.29}}
	x.holds("falls", monotone, "no step of any sweep loses more than %s", share(falls))
	if x.failing(1) {
		dynWhyFalls(x)
	}
	x.size("lent:0", lent[:1], "%s", percent(lent[0]))
	x.size("lent:100 %", lent[1:], "%s", percent(lent[1]))
	if x.failing(2) {
		dynWhyLent(x)
	}
}

// dynWhyLent varies how much tasks slow each other down, and how long reduces take
// in proportion to maps.
func dynWhyLent(x *lab) {
	with := ""
	note := func(t *Table, change jobChange, what string, row ...string) {
		var g []float64
		for sweep := 2; sweep < 4; sweep++ {
			spans := dynSweep(x, change, sweep, []string{"0", "1"})
			g = append(g, speedup(spans[0], spans[1]))
		}
		t.add(append(row, percent(g[0]), percent(g[1]))...)
		if x.sized("lent", g...) != Fails {
			with = joined(with, what)
		}
	}
	c := newTable("Gain from Pec_M by how much tasks slow each other down", "maps: part of the time on the node's shared resource", "reduces", "Pec_R = 0", "Pec_R = 100 %")
	for _, part := range pick(x, []float64{0, 0.25, 0.5}, []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5}) {
		for _, maps := range []float64{0, sharedPart()} {
			note(c, func(j []workload.Job, seed uint64) []workload.Job {
				return contendedReduces(part, contendedBy(maps, j, seed))
			},
				fmt.Sprintf("shares of %.1f and %.1f", maps, part), number(maps, 1), number(part, 1))
		}
	}
	l := newTable("Gain from Pec_M by how long reduces take, given times", "reduces' times, of those assumed", "Pec_R = 0", "Pec_R = 100 %")
	for _, factor := range []float64{1, 0.75, 0.5, 0.3, 0.2, 0.1} {
		note(l, func(j []workload.Job, _ uint64) []workload.Job { return stretchedReduces(factor, j) },
			fmt.Sprintf("reduces of %.2f times the length", factor), number(factor, 2))
	}
	x.explain(2, "times", []*Table{c, l}, "The gain is in size with: %s.", orNone(with))
}

// dynWhyFalls repeats the sweeps with unequal tasks, because steps that lose may be
// an effect of waves.
func dynWhyFalls(x *lab) {
	t := newTable("Sweeps with tasks of unequal times: greatest loss of a step", append([]string{"times vary to either side by"}, dynSweeps...)...)
	most := 0.0
	for _, spread := range []float64{0, 0.1, 0.3} {
		row := []string{share(spread)}
		for sweep := range dynSweeps {
			spans := dynSweep(x, func(j []workload.Job, seed uint64) []workload.Job { return varied(spread, j, seed) }, sweep, dynParts)
			worst := 0.0
			for i := 1; i < len(spans); i++ {
				worst = max(worst, speedup(spans[i], spans[i-1]))
			}
			row, most = append(row, share(worst)), max(most, worst)
		}
		t.add(row...)
	}
	x.explain(1, "waves", []*Table{t}, "Steps lose %s at most", share(most))
}

// dynContention shows how much of the gains remains if tasks slow each other down.
func dynContention(x *lab) {
	t := x.table("Contention: improvement on MRv1", "workload", "maps as Grep's: PI", "PD, late reduces", "given times: PI", "PD, late reduces", "maps and reduces: PI", "PD, late reduces")
	for _, n := range []string{"wordcount", "sort", "invertedindex", "5", "10"} {
		row := []string{n}
		for _, model := range dynModels {
			r := grid(x, []string{n}, []scheduler{dynFair, dynPI, dynPDLate}, 1, func(n string, s scheduler, _ uint64) run { return dynChanged(x, n, s, model.change) })[0]
			row = append(row, percent(speedup(r[0][0].Makespan, r[1][0].Makespan)), percent(speedup(r[0][0].Makespan, r[2][0].Makespan)))
		}
		t.add(row...)
	}
}

// dynPairs are the schedulers of Figures 3 and 4, each without and with
// prescheduling.
func dynPairs() []scheduler {
	var list []scheduler
	for _, s := range []scheduler{dynNoDHSA, dynPI, dynPD, dynPILate, dynPDLate} {
		list = append(list, s.with(s.name+", without", "preschedule", "false"), s.with(s.name+", with", "preschedule", "true"))
	}
	return list
}

// dynFig3 measures locality.
func dynFig3(x *lab) {
	pairs := dynPairs()
	sizes := pick(x, numbered(1, 5, 10), numbered(1, 5, 10, 20, 30))
	better, worse, rows := make([]int, len(pairs)/2), make([]int, len(pairs)/2), 0
	// HDFS's default, and one, where local maps are scarce and prescheduling has most to win.
	for _, replicas := range []int{3, 1} {
		t := x.table(fmt.Sprintf("Maps that start where their data is, without and with PreScheduling, %d replicas; the paper's in a figure that is not at hand", replicas), dynColumns("jobs", pairs)...)
		runs := grid(x, sizes, pairs, 1, func(n string, s scheduler, _ uint64) run {
			r := dynRun(x, n, s)
			r.config.Model.Replicas = replicas
			return r
		})
		for i := range runs {
			var local []float64
			for v := range pairs {
				local = append(local, runs[i][v][0].localShare())
				// Schedulers come in pairs, without and with prescheduling.
				if v%2 == 1 {
					better[v/2] += count(local[v] > local[v-1])
					worse[v/2] += count(local[v] < local[v-1])
				}
			}
			rows++
			t.add(append(sizes[i:i+1:i+1], cells(share, local...)...)...)
		}
	}
	for i, v := range []string{"PI", "PD"} {
		// The first pair lends nothing, so the paper's two modes follow it, and their variants with
		// late reduces two places later.
		x.holds("locality:"+v, better[i+1] > 0 && worse[i+1] == 0, "more in %d, less in %d of %d rows; with late reduces more in %d, less in %d",
			better[i+1], worse[i+1], rows, better[i+3], worse[i+3])
	}
	if x.failing(2) {
		dynWhyLocality(x)
	}
}

// dynFig4 measures load balance and fairness for 1 to 10 jobs.
func dynFig4(x *lab) {
	pairs := dynPairs()
	var sizes []int
	for n := 1; n <= pick(x, 4, 10); n++ {
		sizes = append(sizes, n)
	}
	names := numbered(sizes...)
	runs := grid(x, names, pairs, 1, func(n string, s scheduler, _ uint64) run { return dynRun(x, n, s) })
	// degrees makes a table of a degree by number of jobs and returns the means.
	degrees := func(title string, of func(*watch) float64) []float64 {
		t := x.table(title, dynColumns("jobs", pairs)...)
		means := make([]float64, len(pairs))
		for i := range runs {
			row := names[i : i+1 : i+1]
			for v := range pairs {
				d := of(runs[i][v][0].watch)
				row, means[v] = append(row, number(d, 2)), means[v]+d/float64(len(runs))
			}
			t.add(row...)
		}
		t.add(append([]string{"mean"}, cells(fixed(2), means...)...)...)
		return means
	}
	const paper = ", without and with PreScheduling; the paper's in a figure that is not at hand"
	// The definitions of App. E: a sum of squares over nodes or pools, not divided by their number, averaged
	// over time (metrics.Balance).
	b := degrees("UnbalancedDegree"+paper, func(w *watch) float64 { return w.unbalanced.Value() })
	f := degrees("UnfairnessDegree"+paper, func(w *watch) float64 { return w.unfair.Value() })
	m := degrees("UnfairnessDegree of maps alone", func(w *watch) float64 { return w.unfairBy[job.Map].Value() })
	red := degrees("UnfairnessDegree of reduces alone", func(w *watch) float64 { return w.unfairBy[job.Reduce].Value() })
	for i, v := range []string{"PI", "PD"} {
		// The pair of the mode: without prescheduling at k, with it at k+1, the same with late reduces at
		// k+4.
		k := 2*i + 2
		x.holds("balance:"+v, b[k+1] > b[k], "mean of 1 to 10 jobs %.2f without, %.2f with; with late reduces %.2f, %.2f", b[k], b[k+1], b[k+4], b[k+5])
		x.holds("fair:"+v, f[k+1] < f[k], "mean of 1 to 10 jobs %.1f without, %.1f with; with late reduces %.1f, %.1f; maps alone %.1f, %.1f; reduces alone %.1f, %.1f",
			f[k], f[k+1], f[k+4], f[k+5], m[k], m[k+1], red[k], red[k+1])
	}
	if x.failing(4) {
		dynWhyFair(x)
	}
}

// dynWorld is a set of assumptions about the cluster and the location of its data.
type dynWorld struct {
	name     string
	replicas int
	maps     int      // map slots per node
	set      []string // settings of the policies
	given    bool     // tasks take their times whatever else runs
}

// dynWorlds vary one assumption after the other.
var dynWorlds = []dynWorld{
	{"as assumed: 3 replicas, 4 map slots a node, waits as measured", 3, 4, nil, false},
	{"1 replica", 1, 4, nil, false},
	{"waits of 5 s", 3, 4, []string{"node-wait", "5s", "rack-wait", "5s"}, false},
	{"waits of 20 s", 3, 4, []string{"node-wait", "20s", "rack-wait", "20s"}, false},
	{"1 replica, waits of 20 s", 1, 4, []string{"node-wait", "20s", "rack-wait", "20s"}, false},
	{"12 map slots a node", 3, 12, nil, false},
	{"tasks take their times whatever else runs", 3, 4, nil, true},
	{"only slots above the line (P1), no reduce slots (P2)", 3, 4, []string{"preschedule-max", "0"}, false},
	{"so, and 12 map slots a node", 3, 12, []string{"preschedule-max", "0"}, false},
	{"at most 4 reduce slots held by P2", 3, 4, []string{"preschedule-max", "4"}, false},
}

// dynDegrees has means over batches, without and with prescheduling.
type dynDegrees struct{ local, unbalanced, unfair, unfairAll [2]float64 }

// degrees simulates batches in the world, without and with prescheduling.
func (w *dynWorld) degrees(x *lab, s scheduler, sizes []string) (d dynDegrees) {
	s = s.with(s.name, w.set...)
	runs := grid(x, sizes, []scheduler{s.with("", "preschedule", "false"), s.with("", "preschedule", "true")}, 1, func(n string, s scheduler, _ uint64) run {
		r := dynRun(x, n, s)
		if w.given {
			r = dynChanged(x, n, s, givenTimes)
		}
		r.cluster = withSlots(r.cluster, w.maps, 2)
		r.config.Model.Replicas = w.replicas
		return r
	})
	part := 1 / float64(len(sizes))
	for _, row := range runs {
		for i := range row {
			o := row[i][0]
			d.local[i] += part * o.localShare()
			d.unbalanced[i] += part * o.watch.unbalanced.Value()
			d.unfair[i] += part * o.watch.unfair.Value()
			d.unfairAll[i] += part * o.watch.unfairAll.Value()
		}
	}
	return d
}

// dynWhyFair re-makes Figure 4 in other worlds, and counts pools that have ended.
func dynWhyFair(x *lab) {
	t := newTable("PreScheduling in other worlds, means over batches: without and with", "world", "policy", "UnbalancedDegree", "with", "UnfairnessDegree, pools with work", "with",
		"all pools of the batch", "with")
	fairer, worse, changes := "", "", ""
	for _, w := range dynWorlds[:pick(x, 2, len(dynWorlds))] {
		// Also without lending: if prescheduling helps there, the slots that are lent undo it.
		for _, s := range []scheduler{dynNoDHSA, dynPI, dynPD} {
			d := w.degrees(x, s, pick(x, numbered(2, 5), numbered(2, 3, 4, 5, 6, 7, 8, 9, 10)))
			t.add(w.name, s.name, number(d.unbalanced[0], 2), number(d.unbalanced[1], 2), number(d.unfair[0], 1), number(d.unfair[1], 1), number(d.unfairAll[0], 1), number(d.unfairAll[1], 1))
			if s.name == dynPI.name {
				changes = joined(changes, fmt.Sprintf("%s %.0f to %.0f", w.name, d.unfair[0], d.unfair[1]))
			}
			if d.unfair[1] < d.unfair[0] {
				fairer = joined(fairer, w.name+" ("+s.name+")")
			}
			if d.unbalanced[1] > d.unbalanced[0] {
				worse = joined(worse, w.name+" ("+s.name+")")
			}
		}
	}
	x.explain(4, "line", []*Table{t}, "Fairer with PreScheduling in: %s. Balance worse with it in: %s. Under PI the UnfairnessDegree changes as follows, by world: %s.",
		orNone(fairer), orNone(worse), changes)
}

// dynWhyLocality re-makes Figure 3 in other worlds.
func dynWhyLocality(x *lab) {
	t := newTable("Maps that start where their data is, means over batches: without and with PreScheduling", "world", "fair", "with", "PI", "with", "PD", "with")
	better := ""
	for _, w := range dynWorlds[:pick(x, 2, len(dynWorlds))] {
		row := []string{w.name}
		for _, s := range []scheduler{dynNoDHSA, dynPI, dynPD} {
			d := w.degrees(x, s, pick(x, numbered(5), numbered(5, 10, 20)))
			row = append(row, share(d.local[0]), share(d.local[1]))
			if d.local[1] > d.local[0] {
				better = joined(better, w.name+" ("+s.name+")")
			}
		}
		t.add(row...)
	}
	x.explain(2, "waits", []*Table{t}, "More local maps with PreScheduling in: %s", orNone(better))
}

// dynCopies are policies that differ in when they start speculative copies.
var dynCopies = []scheduler{
	{"no copies", "slots=dhsa-pi,order=fair,place=preschedule,speculate=none", nil},
	{"LATE", "slots=dhsa-pi,order=fair,place=preschedule,speculate=late", hadoopLATE},
	dynPI.with("SEPB, fraction 0", "sepb-fraction", "0", "sepb-cap", "1"),
	dynPI.with("SEPB, fraction 1", "sepb-cap", "1"),
}

// straggler says that a share of the attempts takes a multiple of the time.
type straggler struct{ share, times float64 }

// dynStraggling simulates a workload with stragglers and returns the mean makespan
// in seconds and the mean number of copies, by scheduler.
func dynStraggling(x *lab, workload string, seeds int, s straggler, list []scheduler) (times, copies []float64) {
	runs := grid(x, []string{workload}, list, seeds, func(n string, v scheduler, _ uint64) run {
		r := dynRun(x, n, v)
		// Which attempts straggle follows from the seed and the attempt's name, so a task that straggles does
		// so under every scheduler, and its copy has a separate draw.
		r.config.Model.Straggler.Probability, r.config.Model.Straggler.Factor = s.share, s.times
		return r
	})[0]
	for v := range list {
		time, n := 0.0, 0.0
		for _, r := range runs[v] {
			time += r.Makespan.Seconds() / float64(seeds)
			n += float64(r.watch.copies) / float64(seeds)
		}
		times, copies = append(times, time), append(copies, n)
	}
	return times, copies
}

// dynSEPB compares copies that wait for pending tasks with ones that do not.
func dynSEPB(x *lab) {
	t := x.table("Makespan with stragglers (s), mean over seeds, and copies started", "jobs", "no copies", "LATE", "copies", "SEPB, fraction 0", "copies", "SEPB, fraction 1", "copies")
	all := map[string][]float64{}
	for _, n := range []string{"wordcount", "invertedindex", "5", "10"} {
		// One attempt in fifty takes five times as long: enough for each batch to have some, and few enough
		// that copies are not the main work.
		times, copies := dynStraggling(x, n, pick(x, 2, 20), straggler{0.02, 5}, dynCopies)
		row := []string{n, number(times[0], 1)}
		for v := 1; v < len(times); v++ {
			row = append(row, number(times[v], 1), number(copies[v], 1))
		}
		t.add(row...)
		all[n] = times
	}
	five, ten, alone := all["5"], all["10"], all["wordcount"]
	// Not slower: "no worse" in the paper's words, so equal is enough.
	x.holds("batch", five[3] <= five[1] && ten[3] <= ten[1], "5 jobs %.1f s, LATE %.1f s; 10 jobs %.1f s, LATE %.1f s", five[3], five[1], ten[3], ten[1])
	if x.failing(1) {
		dynWhySEPB(x)
	}
	x.holds("alone", alone[3] < alone[0], "WordCount: none %.1f s, LATE %.1f s, SEPB %.1f s. While reduces are pending its last maps get no copies, and the reduces wait for them",
		alone[0], alone[1], alone[3])
}

// dynWhySEPB varies the stragglers, the share of jobs that SEPB checks, and the
// batch.
func dynWhySEPB(x *lab) {
	late, sepb := dynCopies[1], dynCopies[3]
	list := []scheduler{late, sepb.with("SEPB, a tenth of the jobs checked", "sepb-fraction", "0.1"), sepb,
		late.with("LATE, late reduces", "early-reduces", "off"), sepb.with("SEPB, late reduces", "early-reduces", "off")}
	t := newTable("Mean makespan (s) by stragglers", append([]string{"attempts that straggle", "times as long"}, dynColumns("jobs", list)...)...)
	ahead, toLATE := "", []float64(nil)
	for _, s := range pick(x, []straggler{{0.02, 5}}, []straggler{{0.02, 5}, {0.1, 5}, {0.02, 20}, {0.1, 20}, {0.3, 5}}) {
		for _, n := range numbered(5, 10) {
			times, _ := dynStraggling(x, n, pick(x, 1, 20), s, list)
			t.add(slices.Concat([]string{share(s.share), number(s.times, 0), n}, cells(fixed(1), times...))...)
			if toLATE = append(toLATE, times[2]/times[0]-1); times[2] <= times[0] {
				ahead = joined(ahead, fmt.Sprintf("%s of %g times, %s jobs", share(s.share), s.times, n))
			}
		}
	}
	x.explain(1, "stragglers", []*Table{t}, "SEPB takes %s to %s of LATE's time more; it is no slower with: %s", percent(slices.Min(toLATE)), percent(slices.Max(toLATE)), orNone(ahead))
}
