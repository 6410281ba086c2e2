package sweep

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/slotwise/slotwise/internal/base/durable"
	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
	"github.com/slotwise/slotwise/internal/virtual/report"
	"github.com/slotwise/slotwise/internal/virtual/study"
	"github.com/slotwise/slotwise/internal/virtual/workload"
)

// Row is a row of the table of runs: one cell with its measures. Measures that a
// reference does not have are NaN.
type Row struct {
	Policy     string `parquet:"policy,dict" csv:"policy" json:"policy"`
	Parameters string `parquet:"parameters,dict" csv:"parameters" json:"parameters,omitempty"`
	// Kind is policy or reference.
	Kind    string `parquet:"kind,dict" csv:"kind" json:"kind"`
	Cluster string `parquet:"cluster,dict" csv:"cluster" json:"cluster"`
	Nodes   int64  `parquet:"nodes" csv:"nodes" json:"nodes"`
	Maps    int64  `parquet:"map_slots" csv:"map_slots" json:"map_slots"`
	Reduces int64  `parquet:"reduce_slots" csv:"reduce_slots" json:"reduce_slots"`
	World   string `parquet:"world,dict" csv:"world" json:"world"`
	// Autoscale is none for a cluster of fixed size.
	Autoscale string `parquet:"autoscale,dict" csv:"autoscale" json:"autoscale"`
	// Import has the rules of the import that the study varies; "" without any.
	Import string  `parquet:"import,dict" csv:"import" json:"import,omitempty"`
	Load   float64 `parquet:"load" csv:"load" json:"load"`
	Seed   uint64  `parquet:"seed" csv:"seed" json:"seed"`
	// State is ok or failed, Error why it failed.
	State     string `parquet:"state,dict" csv:"state" json:"state"`
	Error     string `parquet:"error,dict" csv:"error" json:"error,omitempty"`
	Jobs      int64  `parquet:"jobs" csv:"jobs" json:"jobs"`
	Succeeded int64  `parquet:"succeeded" csv:"succeeded" json:"succeeded"`
	// WarmUp is the time from the first submission on before which jobs are left out of numbers
	// about jobs.
	WarmUp float64 `parquet:"warm_up_s" csv:"warm_up_s" json:"warm_up_s"`

	Makespan       float64 `parquet:"makespan_s" csv:"makespan_s" json:"-"`
	Bound          float64 `parquet:"makespan_bound_s" csv:"makespan_bound_s" json:"-"`
	ResponseMean   float64 `parquet:"response_mean_s" csv:"response_mean_s" json:"-"`
	ResponseMedian float64 `parquet:"response_median_s" csv:"response_median_s" json:"-"`
	ResponseP95    float64 `parquet:"response_p95_s" csv:"response_p95_s" json:"-"`
	ResponseP99    float64 `parquet:"response_p99_s" csv:"response_p99_s" json:"-"`
	WaitingMean    float64 `parquet:"waiting_mean_s" csv:"waiting_mean_s" json:"-"`
	WaitingLongest float64 `parquet:"waiting_longest" csv:"waiting_longest" json:"-"`
	SlowdownMean   float64 `parquet:"slowdown_mean" csv:"slowdown_mean" json:"-"`
	SlowdownMedian float64 `parquet:"slowdown_median" csv:"slowdown_median" json:"-"`
	SlowdownP95    float64 `parquet:"slowdown_p95" csv:"slowdown_p95" json:"-"`
	SlowdownP99    float64 `parquet:"slowdown_p99" csv:"slowdown_p99" json:"-"`
	SlowdownV95    float64 `parquet:"slowdown_v95" csv:"slowdown_v95" json:"-"`
	Jain           float64 `parquet:"slowdown_jain" csv:"slowdown_jain" json:"-"`
	Local          float64 `parquet:"maps_local" csv:"maps_local" json:"-"`
	Use            float64 `parquet:"slots_use" csv:"slots_use" json:"-"`
	MapsIdle       float64 `parquet:"maps_idle" csv:"maps_idle" json:"-"`
	ReducesIdle    float64 `parquet:"reduces_idle" csv:"reduces_idle" json:"-"`
	Unbalanced     float64 `parquet:"nodes_unbalanced" csv:"nodes_unbalanced" json:"-"`
	Unfairness     float64 `parquet:"pools_unfairness" csv:"pools_unfairness" json:"-"`
	Overload       float64 `parquet:"nodes_overload" csv:"nodes_overload" json:"-"`
	Copies         float64 `parquet:"copies_wasted_s" csv:"copies_wasted_s" json:"-"`
	DeadlinesMet   float64 `parquet:"deadlines_met" csv:"deadlines_met" json:"-"`
	DeadlinesLate  float64 `parquet:"deadlines_late_s" csv:"deadlines_late_s" json:"-"`
	MachineHours   float64 `parquet:"machines_hours" csv:"machines_hours" json:"-"`
	MachineIdle    float64 `parquet:"machines_idle_hours" csv:"machines_idle_hours" json:"-"`

	// Program is the version that made the run. Record is the digest of Result.Record without its
	// Result.
	Program string `parquet:"program,dict" csv:"program" json:"-"`
	Record  string `parquet:"record,dict" csv:"record" json:"-"`
}

// MarshalJSON adds the measures by their names, except values of NaN.
func (r *Row) MarshalJSON() ([]byte, error) {
	// Without MarshalJSON, which would call itself.
	type plain Row
	measures := make(map[string]float64)
	for i, v := range r.fields() {
		if !math.IsNaN(*v) {
			measures[collect.Measures[i].Name] = *v
		}
	}
	return json.Marshal(struct {
		*plain
		Measures map[string]float64 `json:"measures"`
	}{(*plain)(r), measures})
}

// measure returns the value of a measure, NaN if there is none.
func (r *Row) measure(name string) float64 {
	for i, v := range r.fields() {
		if collect.Measures[i].Name == name {
			return *v
		}
	}
	return math.NaN()
}

// fields returns where the measures of a row are, in the order of collect.Measures.
// A new measure is a field of Row and an entry here, in the place that it has in collect.Measures.
func (r *Row) fields() []*float64 {
	return []*float64{&r.Makespan, &r.Bound, &r.ResponseMean, &r.ResponseMedian, &r.ResponseP95, &r.ResponseP99, &r.WaitingMean, &r.WaitingLongest,
		&r.SlowdownMean, &r.SlowdownMedian, &r.SlowdownP95, &r.SlowdownP99, &r.SlowdownV95, &r.Jain, &r.Local, &r.Use,
		&r.MapsIdle, &r.ReducesIdle, &r.Unbalanced, &r.Unfairness, &r.Overload, &r.Copies, &r.DeadlinesMet, &r.DeadlinesLate, &r.MachineHours, &r.MachineIdle}
}

// Comparison is a paired comparison at one point of the grid.
type Comparison struct {
	Cluster   string  `json:"cluster"`
	World     string  `json:"world"`
	Autoscale string  `json:"autoscale"`
	Import    string  `json:"import,omitempty"`
	Load      float64 `json:"load"`
	collect.Pair
}

// Result is a study after its runs. It is the object that "study -o json" prints and
// study.json holds.
type Result struct {
	Workload string       `json:"workload"`
	Jobs     int          `json:"jobs"`
	Seeds    int          `json:"seeds"`
	Slowdown string       `json:"slowdown_reference"`
	Rows     []*Row       `json:"runs"`
	Pairs    []Comparison `json:"comparisons"`
	Warnings []string     `json:"warnings,omitempty"`
	Assumed  []string     `json:"assumed,omitempty"`
	// Sensitivity shows how the policies compare under each rule of import and in each world, if
	// there are several.
	Sensitivity []Sensitivity `json:"sensitivity,omitempty"`
	// Record holds the program, settings and inputs of the study. It is nil without Options.Record.
	Record *report.Record `json:"record,omitempty"`

	plan   *Plan
	warmed map[point]*collect.Warmed
}

// Result reads the results of all cells and compares the policies. Run must have ended
// without an error.
func (p *Plan) Result(store *Store) (*Result, error) {
	out := &Result{Workload: p.Workload.Name, Jobs: p.Cells[0].draw().jobs, Seeds: p.Spec.Seeds.Count,
		Slowdown: p.Spec.Reference, Warnings: slices.Clone(p.Warnings), Assumed: p.Workload.Assumed, Rows: make([]*Row, len(p.Cells)),
		Pairs: []Comparison{}, plan: p, warmed: make(map[point]*collect.Warmed)}
	if out.Slowdown == "" {
		out.Slowdown = "alone"
	}
	points := make(map[point][]int) // cells by point of the grid, all seeds together
	var order []point
	for i, c := range p.Cells {
		at := c.point()
		if points[at] == nil {
			order = append(order, at)
		}
		points[at] = append(points[at], i)
	}
	// A point at a time: the response times of all jobs of all cells would not fit into memory.
	for _, at := range order {
		if err := out.point(store, points[at]); err != nil {
			return nil, err
		}
	}
	out.Sensitivity = out.sensitivity()
	if p.record != nil {
		r := *p.record
		id := study.RecordID(&r)
		// Before the rows get Program and Record: the digest is of numbers, and another build that computes
		// the same ones must give the same digest.
		r.Result = study.DigestOf([]any{out.Rows, out.Pairs})
		out.Record = &r
		for _, row := range out.Rows {
			row.Program, row.Record = r.Program, id
		}
	}
	return out, nil
}

// point reads the cells of a point of the grid and compares their policies. It keeps the
// values of jobs of one point at a time in memory.
func (r *Result) point(store *Store, cells []int) error {
	x := &pointRuns{result: r, alone: make(map[uint64][]time.Duration), jobs: make(map[uint64][]workload.Job)}
	for _, i := range cells {
		if err := x.read(store, i); err != nil {
			return err
		}
	}
	c := r.plan.Cells[cells[0]]
	rule, err := collect.ParseWarmUp(r.plan.Spec.WarmUp)
	if err != nil {
		return err // Read has checked the rule
	}
	jobs := func(seed uint64) []workload.Job { return x.jobs[seed] }
	// One warm-up for all policies of the point, so they are compared on the same jobs.
	warmed := rule.LeaveOut(r.plan.fixed(), x.policies, x.references, jobs)
	if warmed != nil {
		r.warmed[c.point()] = warmed
	}
	for _, b := range x.bounds {
		warmed.Apply(b, x.jobs[b.Seed])
	}
	// After the warm-up, which changes the reports.
	for k, i := range x.rows {
		r.Rows[i] = r.plan.Cells[i].row(x.outcomes[k])
		if warmed != nil {
			r.Rows[i].WarmUp = warmed.Until
		}
	}
	x.warn(c.point().title(), warmed)
	for _, pair := range collect.CompareAll(slices.Concat(x.policies, x.references), func(seed uint64) collect.Workload {
		return study.WorkloadOf(r.plan.Workload, x.jobs[seed])
	}) {
		r.Pairs = append(r.Pairs, Comparison{c.Cluster(), c.World(), c.Autoscale, c.Import(), c.Load, pair})
	}
	return nil
}

// pointRuns are the runs of a point of the grid.
type pointRuns struct {
	result *Result
	// rows are the indices of the cells, outcomes their results.
	rows     []int
	outcomes []*Outcome
	// policies and references are the runs that did not fail.
	policies, references []collect.Observed
	bounds               []collect.Observed         // of the reference bound
	alone                map[uint64][]time.Duration // by seed
	jobs                 map[uint64][]workload.Job  // by seed
}

// read reads the result of a cell.
func (x *pointRuns) read(store *Store, i int) error {
	c, o := x.result.plan.Cells[i], new(Outcome)
	if ok, err := store.load(c.Key, o); err != nil || !ok {
		// Run has ended without an error, so somebody has removed or changed the file meanwhile.
		return fmt.Errorf("%s: the result is missing: %w", c.Describe(), err)
	}
	x.rows, x.outcomes = append(x.rows, i), append(x.outcomes, o)
	if o.Error != "" {
		return nil
	}
	if x.alone[c.Seed] == nil {
		if err := x.lookUp(store, c); err != nil {
			return err
		}
	}
	run := collect.Observed{Report: o.Report, Outcomes: collect.OutcomesOf(unknown(o.Response), unknown(o.Waiting), x.alone[c.Seed])}
	switch {
	case !c.Reference():
		x.policies = append(x.policies, run)
	case c.policy.reference != study.RefBound:
		x.references = append(x.references, run)
	default:
		// The bound is no run that a comparison could pair, but it bounds the same jobs.
		x.bounds = append(x.bounds, run)
	}
	return nil
}

// lookUp finds the times alone and the jobs of the cell's seed.
// The jobs are drawn again for each seed of a point and released at once: Result needs their submissions and
// times alone, and a study may have thousands of points.
func (x *pointRuns) lookUp(store *Store, c *Cell) error {
	d := c.draw()
	base, err := d.hold()
	if err != nil {
		return err
	}
	defer d.release()
	x.jobs[c.Seed] = scaled(base, c.Load)
	// The store has them unless somebody has removed files; then they are computed again.
	x.alone[c.Seed], err = c.alone(x.jobs[c.Seed], store, func() error { return nil })
	return err
}

// warn adds warnings about policies of the point to the result.
func (x *pointRuns) warn(title string, warmed *collect.Warmed) {
	r := x.result
	worst := make(map[string]collect.Starved) // by policy, over all seeds
	free := make(map[string]bool)             // policies that are warned of
	for _, o := range x.policies {
		if o.Starved.Time > worst[o.Policy].Time {
			worst[o.Policy] = o.Starved
		}
	}
	for _, o := range slices.Concat(x.policies, x.references) {
		// One warning for each policy, also of many seeds.
		if text := o.FreeWarning(); text != "" && !free[o.Policy] {
			free[o.Policy] = true
			r.Warnings = append(r.Warnings, title+": "+text)
		}
	}
	for _, label := range slices.Sorted(maps.Keys(worst)) {
		if text := worst[label].Warning(label); text != "" {
			r.Warnings = append(r.Warnings, title+": "+text)
		}
	}
	if text := warmed.Warning(); text != "" {
		r.Warnings = append(r.Warnings, title+": "+text)
	}
}

// unknown undoes known.
func unknown(values []float64) []float64 {
	for i, v := range values {
		if v < 0 {
			values[i] = math.NaN()
		}
	}
	return values
}

// row returns the row of a cell.
func (c *Cell) row(o *Outcome) *Row {
	r := &Row{Policy: c.name(), Parameters: c.parameters(), Kind: "policy", Cluster: c.Cluster(), World: c.World(), Autoscale: c.Autoscale, Import: c.Import(), Load: c.Load,
		Seed: c.Seed, State: "ok", Error: o.Error}
	if c.Reference() {
		r.Kind = "reference"
	}
	for _, g := range c.cluster.cluster.Groups {
		r.Nodes += int64(g.Count)
		r.Maps += int64(g.Count * g.MapSlots)
		r.Reduces += int64(g.Count * g.ReduceSlots)
	}
	// A table must have the same columns in all rows: an unknown value is an empty cell and not a missing
	// one.
	for i, to := range r.fields() {
		m := collect.Measures[i]
		// A bound has no value for most measures, and 0 would be a very good one.
		if *to = math.NaN(); o.Report != nil && m.Known(o.Report) && (c.policy.reference != study.RefBound || study.Bounded(m)) {
			*to = m.Of(o.Report)
		}
	}
	if o.Report == nil {
		r.State = "failed"
		return r
	}
	r.Jobs, r.Succeeded = int64(o.Report.Jobs.All), int64(o.Report.Jobs.Succeeded)
	return r
}

// Label returns the policy of a row with its parameters.
func (r *Row) Label() string {
	if r.Parameters == "" {
		return r.Policy
	}
	return r.Policy + " " + strings.ReplaceAll(r.Parameters, ",", " ")
}

// Failed returns the rows of failed policies. A reference that is not possible is no
// failure of the study.
func (r *Result) Failed() []*Row {
	var list []*Row
	for _, row := range r.Rows {
		if row.State == "failed" && row.Kind == "policy" {
			list = append(list, row)
		}
	}
	return list
}

// Write writes the tables, plots and report into the directory of the study.
func (r *Result) Write(store *Store) error {
	file := func(name string, fill func(io.Writer) error) error {
		if err := durable.WriteFile(durable.OS(), filepath.Join(store.dir, name), 0o666, fill); err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(store.dir, name), err)
		}
		return nil
	}
	// study.json after the tables, and the page last: a reader who finds the page finds all that it shows.
	if err := r.tables(store); err != nil {
		return err
	}
	if err := file(resultName, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}); err != nil {
		return err
	}
	plots := r.Plots()
	for _, p := range plots {
		if err := file(p.Name+".svg", p.Figure.SVG); err != nil {
			return err
		}
	}
	return file("report.html", func(w io.Writer) error { return r.HTML(w, plots) })
}

// pairRow is a row of the table of comparisons.
type pairRow struct {
	Cluster   string  `parquet:"cluster,dict" csv:"cluster"`
	World     string  `parquet:"world,dict" csv:"world"`
	Autoscale string  `parquet:"autoscale,dict" csv:"autoscale"`
	Import    string  `parquet:"import,dict" csv:"import"`
	Load      float64 `parquet:"load" csv:"load"`
	Policy    string  `parquet:"policy,dict" csv:"policy"`
	Baseline  string  `parquet:"baseline,dict" csv:"baseline"`
	Measure   string  `parquet:"measure,dict" csv:"measure"`
	Over      string  `parquet:"over,dict" csv:"over"`
	N         int64   `parquet:"n" csv:"n"`
	Ratio     float64 `parquet:"ratio" csv:"ratio"`
	Low       float64 `parquet:"low" csv:"low"`
	High      float64 `parquet:"high" csv:"high"`
	P         float64 `parquet:"p" csv:"p"`
	Holm      float64 `parquet:"p_holm" csv:"p_holm"`
	Verdict   string  `parquet:"verdict" csv:"verdict"`
	Program   string  `parquet:"program,dict" csv:"program"`
	Record    string  `parquet:"record,dict" csv:"record"`
}

// tables writes runs and comparisons as CSV and Parquet.
func (r *Result) tables(store *Store) error {
	err := writeTable(store.dir, "runs", func(t *report.Table[Row]) {
		for _, row := range r.Rows {
			t.Add(*row)
		}
	})
	if err != nil {
		return err
	}
	return writeTable(store.dir, "comparisons", func(t *report.Table[pairRow]) {
		for _, p := range r.Pairs {
			row := pairRow{p.Cluster, p.World, p.Autoscale, p.Import, p.Load, p.Policy, p.Baseline, p.Measure, p.Over, int64(p.N), p.Ratio.Ratio, p.Low, p.High, p.P, p.Holm, p.Verdict, r.Rows[0].Program, r.Rows[0].Record}
			if !p.Known {
				row.Low, row.High, row.P, row.Holm = math.NaN(), math.NaN(), math.NaN(), math.NaN()
			}
			t.Add(row)
		}
	})
}

// writeTable writes a table to temporary files and renames them.
func writeTable[T any](dir, name string, fill func(*report.Table[T])) error {
	// Two processes may write the same study at once: each has its own temporary files, and the last rename
	// wins.
	csv, err := os.CreateTemp(dir, name+"-*.csv.new")
	if err != nil {
		return err
	}
	defer os.Remove(csv.Name()) // fails after the rename
	parquet, err := os.CreateTemp(dir, name+"-*.parquet.new")
	if err != nil {
		return err
	}
	defer os.Remove(parquet.Name())
	t := report.NewTable[T](csv, parquet)
	fill(t)
	for _, f := range []func() error{t.Close, csv.Close, parquet.Close,
		func() error { return publish(csv.Name(), filepath.Join(dir, name+".csv")) },
		func() error { return publish(parquet.Name(), filepath.Join(dir, name+".parquet")) }} {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// publish gives a temporary file its name and usual permissions.
func publish(from, to string) error {
	if err := os.Chmod(from, 0o644); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// Print writes a table of the means over seeds and the comparisons, for people.
func (r *Result) Print(out io.Writer) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "%d jobs, %d seeds; slowdowns against each job %s; times in seconds\n", r.Jobs, r.Seeds, map[string]string{"alone": "alone", "ideal": "at its lower bound"}[r.Slowdown])
	for _, at := range r.points() {
		fmt.Fprintf(w, "\n%s\n", at.title())
		if text := r.warmed[at].String(); text != "" {
			fmt.Fprintln(w, text)
		}
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(t, "policy\t%s\t\n", strings.Join(r.plan.Spec.Measures, "\t"))
		for _, m := range r.means(at) {
			fmt.Fprintf(t, "%s", m.label)
			for _, v := range m.values {
				fmt.Fprintf(t, "\t%s", number(v))
			}
			// The last cell of a line belongs to no column unless a tab ends it (text/tabwriter).
			fmt.Fprintln(t, "\t")
		}
		t.Flush()
		var pairs []collect.Pair
		for _, c := range r.Pairs {
			if c.point() == at {
				pairs = append(pairs, c.Pair)
			}
		}
		report.Pairs(w, pairs)
	}
	r.printSensitivity(w)
	r.Record.Print(w)
	return w.Flush()
}

// number formats a measure with about four digits.
func number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "-"
	case a >= 1000:
		return fmt.Sprintf("%.0f", v)
	case a >= 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
