package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/virtual/study"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/internal/virtual/world"
	"github.com/slotwise/slotwise/policies/reference/optimum"
	"github.com/slotwise/slotwise/sched/job"
)

// optimumFlags are the flags of optimum.
type optimumFlags struct {
	simFlags
	by   string
	json bool
}

// byEach selects a division for each node by itself, beside optimum.BySlot and ByNode.
const byEach = "each"

// newOptimum returns the command that divides slots for known jobs. Its flags are a part of sim's,
// so it declares them itself, and sets the values that simFlags.check wants from the others.
func newOptimum(setup *setup) *cobra.Command {
	f := &optimumFlags{simFlags: simFlags{setup: setup, world: world.Default, reference: study.Alone, seeds: 1, timeScale: 1}}
	c := &cobra.Command{
		Use:   "optimum --workload W --cluster C",
		Short: "Find the best fixed division into map and reduce slots for known jobs",
		Long: `Computes the division of a cluster's slots into map and reduce slots with which the jobs
of a workload end first, if the division never changes and all work is known: Algorithm 1
of Yao et al., Self-Adjusting Slot Configurations for Homogeneous and Heterogeneous Hadoop
Clusters, 2015. Nothing is simulated. In its model all jobs are there at the beginning, a
phase takes its work divided by its slots, and the reduces of a job follow its maps and the
reduces of the job before.

It prints the result for the order of submission and for the order of Johnson's rule, which
is the best one, beside the division that the cluster has. slotwise sim --references
static-split simulates the result, with heartbeats and whole tasks.

--by says which divisions to try: node, the same on every node; slot, any division of all
slots, as a policy that changes slots can have; each, the best division of each node by
itself (Eq. 8-17), for the remaining maps and reduces of one moment, up to 3 nodes and 12
tasks of a kind.`,
		Example: `  slotwise optimum --workload mix.yaml --cluster nodes=4,maps=2,reduces=2
  slotwise optimum --workload swim:trace.tsv --limit 100 --cluster nodes=60,maps=4,reduces=2 --by slot
  slotwise optimum --workload mix.yaml --cluster cluster.yaml -o json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	s := c.Flags()
	s.SortFlags = false
	s.StringVar(&f.workload, "workload", "", "`what` to run: a job mix, or a trace, FORM:FILE (slotwise sim --help has the forms)")
	s.Var(&onceValue{text: &f.cluster}, "cluster", "`where`: a YAML file, or nodes=N,maps=N,reduces=N,...")
	// By node as the default, because it is the division that a running Hadoop can have.
	s.StringVar(&f.by, "by", optimum.ByNode, "the divisions to try: `node`, slot or each")
	s.StringArrayVar(&f.profiles, "profiles", nil, "`file` of cost profiles, as slotwise profile writes it, for a job mix (repeatable)")
	s.Uint64Var(&f.seed, "seed", 1, "`seed` with which a mix draws its jobs")
	s.IntVar(&f.limit, "limit", 0, "take the first `number` of jobs of a trace")
	// No --time-scale: in the model all jobs are there at the beginning.
	s.Float64Var(&f.dataScale, "data-scale", 1, "multiply all bytes of a SWIM trace by this `factor`")
	s.StringArrayVar(&f.traceSet, "trace-set", nil, "one rule by which a trace becomes tasks, `name=value` (repeatable)")
	addPrint(c, &f.json)
	completeWords(c, "by", []string{optimum.ByNode, optimum.BySlot, byEach})
	return c
}

// optimumResult is the output of optimum. Times are in seconds, work is in slot-seconds. With --by
// each only Each and Ends are set, else Submission, Johnson and Order: the two models have no
// number in common that could be compared.
type optimumResult struct {
	Workload   string  `json:"workload"`
	Cluster    string  `json:"cluster"`
	Jobs       int     `json:"jobs"`
	Nodes      int     `json:"nodes"`
	Slots      int     `json:"slots"`
	By         string  `json:"by"`
	MapWork    float64 `json:"map_work_s"`
	ReduceWork float64 `json:"reduce_work_s"`

	// Submission and Johnson are the results for both orders of the jobs.
	Submission *orderResult `json:"submission,omitempty"`
	Johnson    *orderResult `json:"johnson,omitempty"`
	// Order lists the jobs in Johnson's order for the best split.
	Order []orderedJob `json:"johnson_order,omitempty"`
	// Each holds the split of each node, and Ends when the slowest node ends its maps, for
	// --by each.
	Each []nodeSplit `json:"each,omitempty"`
	Ends float64     `json:"maps_end_s,omitempty"`
}

// orderResult compares the division that the cluster has with the best one.
type orderResult struct {
	Configured slotSplit `json:"configured"`
	Best       slotSplit `json:"best"`
}

// slotSplit is a division of all slots and the makespan that the model predicts.
type slotSplit struct {
	MapSlots    int     `json:"map_slots"`
	ReduceSlots int     `json:"reduce_slots"`
	Makespan    float64 `json:"makespan_s"`
}

// orderedJob is a job with its work by kind.
type orderedJob struct {
	Job        int     `json:"job"` // position in the workload, from 0
	Name       string  `json:"name"`
	MapWork    float64 `json:"map_work_s"`
	ReduceWork float64 `json:"reduce_work_s"`
}

// nodeSplit is the division of one node, with the waves of tasks that it runs.
type nodeSplit struct {
	MapSlots    int `json:"map_slots"`
	ReduceSlots int `json:"reduce_slots"`
	MapWaves    int `json:"map_waves"`
	ReduceWaves int `json:"reduce_waves"`
}

// run is the command.
func (f *optimumFlags) run(c *cobra.Command) error {
	if err := f.check(); err != nil {
		return err
	}
	if err := oneOf("by", f.by, []string{optimum.ByNode, optimum.BySlot, byEach}); err != nil {
		return err
	}
	show := newSimProgress(c.ErrOrStderr(), true)
	defer show.close()
	_, cluster, w, err := f.inputs(c.Context(), show)
	if err != nil {
		return err
	}
	jobs, err := w.Source.Jobs(f.seed)
	if err != nil {
		return misuse("--workload: %w", err)
	}
	out := &optimumResult{Workload: w.Name, Cluster: f.cluster, Jobs: len(jobs), By: f.by}
	// Algorithm 1 divides equal nodes in one way. Each solves Eq. 8 to 17, for nodes that
	// differ.
	if f.by == byEach {
		err = out.splitEach(&cluster, jobs)
	} else {
		err = out.splitAll(&cluster, jobs)
	}
	if err != nil {
		return misuse("--by %s: %w", f.by, err)
	}
	if f.json {
		return encode(c.OutOrStdout(), out)
	}
	return out.print(c.OutOrStdout())
}

// splitAll finds one division for all nodes, by Algorithm 1.
func (o *optimumResult) splitAll(c *workload.Cluster, jobs []workload.Job) error {
	if len(c.Groups) != 1 {
		return fmt.Errorf("the nodes must be equal, and --cluster has %d groups; each divides unequal nodes", len(c.Groups))
	}
	g := &c.Groups[0]
	o.Nodes, o.Slots = g.Count, g.Count*(g.MapSlots+g.ReduceSlots)
	work := make([]optimum.Work, len(jobs))
	for i := range jobs {
		work[i] = study.WorkOf(&jobs[i])
		// Work is in seconds of a node of speed 1.
		if g.Speed > 0 {
			work[i].Maps, work[i].Reduces = work[i].Maps/g.Speed, work[i].Reduces/g.Speed
		}
		o.MapWork, o.ReduceWork = o.MapWork+work[i].Maps, o.ReduceWork+work[i].Reduces
	}
	maps, reduces := g.Count*g.MapSlots, g.Count*g.ReduceSlots
	split, err := optimum.Static(work, o.Slots, o.Nodes, o.By)
	if err != nil {
		return err
	}
	// The configured division would never end, so it cannot be compared.
	if o.ReduceWork > 0 && reduces == 0 || o.MapWork > 0 && maps == 0 {
		return errors.New("the cluster's own division has no slot for some tasks; give it map and reduce slots")
	}
	o.Submission = &orderResult{slotSplit{maps, reduces, optimum.Makespan(work, maps, reduces)},
		slotSplit{split.Maps, split.Reduces, split.Makespan}}
	split, order, err := optimum.StaticJohnson(work, o.Slots, o.Nodes, o.By)
	if err != nil {
		return err
	}
	for _, i := range order {
		o.Order = append(o.Order, orderedJob{i, jobs[i].Name, work[i].Maps, work[i].Reduces})
	}
	var batch []optimum.Work
	for _, i := range optimum.Johnson(work, maps, reduces) {
		batch = append(batch, work[i])
	}
	o.Johnson = &orderResult{slotSplit{maps, reduces, optimum.Makespan(batch, maps, reduces)},
		slotSplit{split.Maps, split.Reduces, split.Makespan}}
	return nil
}

// The largest problem for --by each, whose search is exhaustive.
const (
	mostEachNodes = 3
	mostEachTasks = 12
	mostEachSlots = 8
)

// splitEach divides each node by itself, by Eq. 8–17. A node's task times are the means over
// all tasks of a kind, divided by its speed.
func (o *optimumResult) splitEach(c *workload.Cluster, jobs []workload.Job) error {
	p := optimum.Problem{}
	for i := range jobs {
		w := study.WorkOf(&jobs[i])
		o.MapWork, o.ReduceWork = o.MapWork+w.Maps, o.ReduceWork+w.Reduces
		p.Maps, p.Reduces = p.Maps+jobs[i].Count(job.Map), p.Reduces+jobs[i].Count(job.Reduce)
	}
	// The time of the search grows with tasks, nodes and slots.
	if p.Maps == 0 || p.Reduces == 0 || p.Maps > mostEachTasks || p.Reduces > mostEachTasks {
		return fmt.Errorf("the workload has %d maps and %d reduces; the search takes 1 to %d of each", p.Maps, p.Reduces, mostEachTasks)
	}
	for i := range c.Groups {
		g := &c.Groups[i]
		speed := g.Speed
		if speed == 0 {
			speed = 1
		}
		if o.Nodes += g.Count; o.Nodes > mostEachNodes || g.MapSlots+g.ReduceSlots > mostEachSlots {
			return fmt.Errorf("the search takes up to %d nodes of up to %d slots", mostEachNodes, mostEachSlots)
		}
		o.Slots += g.Count * (g.MapSlots + g.ReduceSlots)
		for range g.Count {
			p.Nodes = append(p.Nodes, optimum.Node{Slots: g.MapSlots + g.ReduceSlots,
				Maps: o.MapWork / float64(p.Maps) / speed, Reduces: o.ReduceWork / float64(p.Reduces) / speed})
		}
	}
	plans, ends, ok := p.Solve()
	if !ok {
		return errors.New("no division satisfies the constraints, such as map and reduce phases that end together")
	}
	o.Ends = ends
	for _, x := range plans {
		o.Each = append(o.Each, nodeSplit(x))
	}
	return nil
}

// jobsShown is the number of jobs of Johnson's order that are printed.
const jobsShown = 20

// print writes the result as text.
func (o *optimumResult) print(out io.Writer) error {
	w := table(out)
	terminal.Fprintf(w, "%s, %s, %s: %.0f s of map work, %.0f s of reduce work\n\n", terminal.Plural(o.Jobs, "job"), terminal.Plural(o.Nodes, "node"),
		terminal.Plural(o.Slots, "slot"), o.MapWork, o.ReduceWork)
	if o.Each != nil {
		fmt.Fprint(w, "node\tmap slots\treduce slots\tmap waves\treduce waves\n")
		for i, x := range o.Each {
			terminal.Fprintf(w, "%d\t%d\t%d\t%d\t%d\n", i+1, x.MapSlots, x.ReduceSlots, x.MapWaves, x.ReduceWaves)
		}
		terminal.Fprintf(w, "\nthe maps end after %.1f s on the slowest node\n", o.Ends)
		return w.Flush()
	}
	fmt.Fprint(w, "order of jobs\tdivision\tmap slots\treduce slots\tmakespan (s)\n")
	// Configured before best, so that the gain is read downwards.
	for _, x := range []struct {
		order string
		*orderResult
	}{{"submission", o.Submission}, {"Johnson", o.Johnson}} {
		terminal.Fprintf(w, "%s\tconfigured\t%d\t%d\t%.1f\n", x.order, x.Configured.MapSlots, x.Configured.ReduceSlots, x.Configured.Makespan)
		terminal.Fprintf(w, "%s\tbest\t%d\t%d\t%.1f\n", x.order, x.Best.MapSlots, x.Best.ReduceSlots, x.Best.Makespan)
	}
	var names []string
	for _, j := range o.Order[:min(jobsShown, len(o.Order))] {
		names = append(names, j.Name)
	}
	terminal.Fprintf(w, "\nJohnson's order: %s", strings.Join(names, ", "))
	if more := len(o.Order) - len(names); more > 0 {
		terminal.Fprintf(w, " and %d more (-o json lists all)", more)
	}
	fmt.Fprintln(w)
	return w.Flush()
}
