package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/virtual/calibrate"
	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/study"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched"
)

// calibrateFlags are the flags of calibrate. It has no --cluster and no --world: it finds them.
type calibrateFlags struct {
	setup    *setup
	workload string
	// 0 is fitted, too.
	nodes  int
	policy string
	// "" follows from the system that has recorded the trace.
	heartbeat string
	limit     int
	output    string
	overwrite bool
	seed      uint64
	json      bool
	// scheduler has the files and parameters of the traced cluster's scheduler.
	scheduler simFlags
}

// newCalibrate returns the command that fits a cluster to a trace.
func newCalibrate(setup *setup) *cobra.Command {
	f := &calibrateFlags{setup: setup}
	c := &cobra.Command{
		Use:   "calibrate --workload TRACE [--output world.yaml]",
		Short: "Fit slots and overheads to a trace that states when its jobs ended",
		Long: `Finds the number of nodes, their slots, and the times of set-up and clean-up for which
a simulation of the trace comes closest to the recorded response times. rumen:FILE,
hadoop:DIR and history:DIR have such times.

The fit uses the first 70 % of the jobs. The errors on the others, which it has not used,
say how far a simulation of this cluster can be trusted. Several clusters may explain a
trace equally well: without --nodes the result lists other numbers of nodes that do, and says
whether the trace tells the number. State what you know. A fit takes several hundred
simulations, so take a part of a large trace with --limit.

--output writes a world for slotwise sim --world, with the cluster and the errors in comments.`,
		Example: `  slotwise calibrate --workload rumen:jobs.json --nodes 20 --output world.yaml
  slotwise calibrate --workload hadoop:history --policy fair --heartbeat hadoop-1.2
  slotwise calibrate --workload history:/var/lib/slotwise --limit 500 -o json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	s := c.Flags()
	s.SortFlags = false
	s.StringVar(&f.workload, "workload", "", "`trace`: rumen:FILE, hadoop:DIR or history:DIR")
	s.IntVar(&f.nodes, "nodes", 0, "`number` of nodes of the traced cluster, if it is known (default: fitted)")
	s.StringVar(&f.policy, "policy", "fifo", "`policy` of the traced cluster")
	// The flags of files and parameters are sim's, for a cluster with the one policy of --policy.
	f.scheduler.setup = setup
	f.scheduler.registerScheduler(c)
	s.StringVar(&f.heartbeat, "heartbeat", "", "`profile` of its heartbeats: slotwise, hadoop-0.20.2, hadoop-1.0, hadoop-1.2 or fixed:TIME (default: slotwise for history:DIR, else hadoop-0.20.2)")
	s.IntVar(&f.limit, "limit", 0, "take the first `number` of jobs of the trace")
	s.StringVar(&f.output, "output", "", "`file` of the world to write")
	s.BoolVar(&f.overwrite, "overwrite", false, "replace the file of --output if it exists")
	s.Uint64Var(&f.seed, "seed", 1, "`seed` of all random numbers")
	addPrint(c, &f.json)
	completeWith(c, "policy", setup.completePolicies)
	completeWords(c, "heartbeat", sim.Profiles())
	return c
}

// check rejects flags whose values make no sense by themselves.
func (f *calibrateFlags) check() error {
	switch {
	case f.workload == "":
		return misuse("--workload is missing: a trace with response times, such as rumen:FILE, hadoop:DIR or history:DIR")
	case f.nodes < 0 || f.nodes > 1<<20:
		return misuse("--nodes %d: must be from 1 to %d, or 0 to fit it", f.nodes, 1<<20)
	case f.limit < 0:
		return misuse("--limit %d: must be positive", f.limit)
	case f.overwrite && f.output == "":
		return misuse("--overwrite: there is nothing to replace without --output")
	}
	if f.output != "" {
		if err := checkResult("--output", f.output, f.overwrite); err != nil {
			return err
		}
	}
	// "" is the default, which depends on the trace and is found later.
	if err := sim.CheckProfile(f.heartbeat); err != nil {
		return misuse("--heartbeat: %w", err)
	}
	return nil
}

// run is the command.
func (f *calibrateFlags) run(c *cobra.Command) error {
	if err := f.check(); err != nil {
		return err
	}
	// Before the trace is read, which may take minutes: a mistyped policy or file should be reported
	// at once.
	show := newSimProgress(c.ErrOrStderr(), true)
	defer show.close()
	policies, err := f.scheduler.choosePolicies([]string{f.policy}, show)
	if err != nil {
		return err
	}
	// A history was recorded by slotwise itself; the other traces are Hadoop's.
	if f.heartbeat == "" {
		f.heartbeat = heartbeatOf(f.workload)
	}
	trace, err := f.read(c.Context(), c.ErrOrStderr())
	if err != nil {
		return err
	}
	ctx := c.Context()
	r, err := calibrate.Fit(calibrate.Config{
		Jobs: trace.List, Recorded: trace.Recorded, KeepNodes: f.nodes > 0, Seed: f.seed,
		// Where the fit begins: 20 nodes if nothing is known, with the slots that Hadoop 1 has by
		// default.
		Cluster: workload.Cluster{Racks: 1, Groups: []workload.NodeGroup{{Name: "node", Count: cmp.Or(f.nodes, 20), MapSlots: 2, ReduceSlots: 2}}},
		Model:   sim.ModelConfig{Heartbeat: f.heartbeat, EndsByRule: true, ShuffleShare: -1},
		Policy:  func() (sched.Policy, error) { return policies.Build(f.policy, f.seed) },
		Stop:    func() error { return context.Cause(ctx) },
	})
	if err != nil {
		return fmt.Errorf("%s: %w", f.workload, err)
	}
	// The world is written before the result is printed: a user who sees the result can use
	// the file.
	if f.output != "" {
		if err := writeFile(f.output, 0o644, f.overwrite, func(w io.Writer) error { return f.writeWorld(w, r) }); err != nil {
			return misuse("--output %w", pathLast(f.output, err))
		}
	}
	return f.print(c.OutOrStdout(), r)
}

// read reads the trace and prints its warnings.
func (f *calibrateFlags) read(ctx context.Context, stderr io.Writer) (*workload.Trace, error) {
	o := study.WorkloadOptions{Inputs: studyInputs()}
	o.Trace.Limit = f.limit
	w, err := study.ReadWorkload(ctx, f.workload, &workload.Cluster{}, o)
	if err != nil {
		return nil, misuse("--workload: %w", err)
	}
	// A mix is drawn and has no recorded ends; of traces only some formats have them.
	trace, ok := w.Source.(*workload.Trace)
	if !ok || trace.Recorded == nil {
		return nil, misuse("--workload %s: does not state when its jobs ended; rumen:FILE, hadoop:DIR and history:DIR do", f.workload)
	}
	for _, text := range w.Warnings {
		terminal.Fprintf(stderr, "warning: %s\n", text)
	}
	return trace, nil
}

// heartbeatOf returns the rule of heartbeats of the system that recorded a trace.
func heartbeatOf(spec string) string {
	if format, _ := workload.SplitSpec(spec); format == workload.PastFormat {
		return "slotwise"
	}
	return "hadoop-0.20.2"
}

// clusterSpec returns the fitted cluster in the short form.
func (f *calibrateFlags) clusterSpec(c *workload.Cluster) string {
	g := &c.Groups[0]
	return fmt.Sprintf("nodes=%d,maps=%d,reduces=%d,heartbeat=%s", g.Count, g.MapSlots, g.ReduceSlots, f.heartbeat)
}

// errorText describes the errors on some jobs. The bias shows whether a simulation is too fast or
// too slow on the whole, which the median of absolute errors hides.
func errorText(e calibrate.Error) string {
	within := "nine of ten within"
	if e.Jobs < 10 { // P90 is the largest one then
		within = "all within"
	}
	return fmt.Sprintf("%d jobs: median %.1f %%, %s %.1f %%, bias %+.1f %%", e.Jobs, 100*e.Median, within, 100*e.P90, 100*e.Bias)
}

// nodesText says whether the trace tells the number of nodes. It returns "" if the number was
// given. Half the nodes with twice the slots often fit as well, and a user must not take one for
// the other.
func (f *calibrateFlags) nodesText(r *calibrate.Result) string {
	switch list := strings.Join(f.specs(r.Equals), "; "); {
	case f.nodes > 0:
		return ""
	case r.NodesKnown && list == "":
		return "the trace tells their number"
	case r.NodesKnown:
		return "the trace tells their number within a quarter; as good: " + list
	default:
		return "the trace does not tell their number: state it with --nodes. As good: " + list
	}
}

// specs returns clusters in the short form.
func (f *calibrateFlags) specs(list []calibrate.Fitting) []string {
	out := []string{}
	for _, x := range list {
		out = append(out, fmt.Sprintf("nodes=%d,maps=%d,reduces=%d", x.Nodes, x.Maps, x.Reduces))
	}
	return out
}

// print prints the result.
func (f *calibrateFlags) print(w io.Writer, r *calibrate.Result) error {
	if f.json {
		return encode(w, map[string]any{"workload": f.workload, "cluster": f.clusterSpec(&r.Cluster), "setup_s": r.Model.Overheads.Setup.Seconds(),
			"cleanup_s": r.Model.Overheads.Cleanup.Seconds(), "fitted": r.Fitted, "held_out": r.HeldOut, "runs": r.Runs, "nodes_known": f.nodes > 0 || r.NodesKnown, "as_good": f.specs(r.Equals)})
	}
	_, err := terminal.Fprintf(w, `cluster     %s
overheads   set-up %v, clean-up %v
`, f.clusterSpec(&r.Cluster), r.Model.Overheads.Setup, r.Model.Overheads.Cleanup)
	if text := f.nodesText(r); err == nil && text != "" {
		_, err = terminal.Fprintf(w, "nodes       %s\n", text)
	}
	if err == nil {
		_, err = terminal.Fprintf(w, `error on the jobs that the fit used      %s
error on the jobs that it did not use    %s
%d simulations
`, errorText(r.Fitted), errorText(r.HeldOut), r.Runs)
	}
	return err
}

// writeWorld writes a world file. A world has no nodes, so a comment has the cluster, with
// the errors, which a reader of the file should see before it is used.
func (f *calibrateFlags) writeWorld(w io.Writer, r *calibrate.Result) error {
	// A line end in the name of a file would end the comment, and the rest would be read as YAML.
	name := strings.NewReplacer("\n", " ", "\r", " ").Replace(f.workload)
	_, err := terminal.Fprintf(w, `# Fitted to %s by slotwise calibrate, under the policy %s.
# Use it with --cluster %s.
# Error on the jobs that the fit used: %s.
# Error on the jobs that it did not use: %s.
`, name, f.policy, f.clusterSpec(&r.Cluster), errorText(r.Fitted), errorText(r.HeldOut))
	if text := f.nodesText(r); err == nil && text != "" {
		_, err = terminal.Fprintf(w, "# Nodes: %s\n", text)
	}
	if err == nil {
		_, err = terminal.Fprintf(w, "heartbeat: %s\n", f.heartbeat)
	}
	if err == nil {
		_, err = terminal.Fprintf(w, "overheads:\n  setup: %v\n  cleanup: %v\n", r.Model.Overheads.Setup, r.Model.Overheads.Cleanup)
	}
	return err
}
