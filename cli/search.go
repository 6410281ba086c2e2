package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/virtual/study"
	"github.com/slotwise/slotwise/internal/virtual/study/search"
)

// searchFlags are the flags that tune and size share: sim's without the flags of a comparison, and one
// policy. The fields of simFlags that have no flag here keep the values that the constructors set.
type searchFlags struct {
	simFlags
	policy string
}

// register declares the shared flags.
func (f *searchFlags) register(c *cobra.Command) {
	s := c.Flags()
	s.SortFlags = false
	s.StringVar(&f.policy, "policy", "", "`policy`: a name or composition")
	f.registerInputs(c)
	s.StringArrayVar(&f.policySet, "policy-set", nil, "one parameter of the policy, `name=value`, that is fixed (repeatable)")
	addPrint(c, &f.json)
	completeWith(c, "policy", f.setup.completePolicies)
}

// problem reads the inputs that the flags name. It builds the policy once, so that a wrong
// parameter is reported before hundreds of simulations.
func (f *searchFlags) problem(c *cobra.Command, show *simProgress) (*search.Problem, error) {
	if f.policy == "" {
		return nil, misuse("--policy is missing: a name such as dynamictags")
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	model, cluster, w, err := f.inputs(c.Context(), show)
	if err != nil {
		return nil, err
	}
	set, err := parseAssignments("policy-set", f.policySet)
	if err != nil {
		return nil, err
	}
	policies := study.NewPolicies(f.setup.policies(), []string{f.policy})
	// One by one, so that the error names the parameter.
	for name, value := range set {
		if err := policies.Set(map[string]string{name: value}); err != nil {
			return nil, misuse("--policy-set %s: %w", name, err)
		}
	}
	if err := policies.Check(); err != nil {
		return nil, misuse("--policy %w", err)
	}
	if len(w.Swaps) > 0 {
		return nil, misuse("--workload: changes the policy by itself (swap), which leaves nothing to search")
	}
	made, err := f.record(c)
	if err != nil {
		return nil, err
	}
	return &search.Problem{Record: made, ClusterName: f.cluster, World: f.world, Cluster: cluster, Workload: w, Model: model, Policy: f.policy, Set: set, Registry: f.setup.policies(),
		Seed: f.seed, Ideal: f.reference == study.Ideal}, nil
}

// newTune returns the command that tunes a policy. The budget counts runs and not seconds: the same
// command line then gives the same result on every machine.
func newTune(setup *setup) *cobra.Command {
	f := &searchFlags{simFlags: simFlags{setup: setup, seeds: 1}}
	var objective string
	var o search.TuneOptions
	c := &cobra.Command{
		Use:   "tune --policy P --minimise OBJECTIVE --workload W --cluster C",
		Short: "Search the parts and parameters of a policy for a workload",
		Long: `Searches by successive halving: many candidates run on a ninth of the workload, the best
third of them on a third of it, and the best third of these on all of it. The parameters
and values are those that the policy's table lists for tuning. With --parts the search also
replaces parts, and tries the named policies. The objective is a measure, or a weighted sum
such as makespan+2*response.mean, whose terms count relative to the policy as it is. The
last part of a trace is held out; on it the result is compared with the policy as it is,
with an interval. A drawn workload is compared on other seeds.`,
		Example: `  slotwise tune --minimise slowdown.p95 --policy dynamictags --budget 200 --workload swim:trace.tsv --cluster nodes=100,maps=4,reduces=2
  slotwise tune --parts all --minimise response.mean+makespan --policy fifo --workload mix.yaml --cluster nodes=20,maps=4,reduces=2`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var err error
			if o.Objective, err = search.ParseObjective(objective); err != nil {
				return misuse("--minimise %w", err)
			}
			if len(o.Parts) == 1 && o.Parts[0] == "all" {
				o.Parts = search.PartNames
			}
			for _, part := range o.Parts {
				if err := oneOf("parts", part, append([]string{"all"}, search.PartNames...)); err != nil {
					return err
				}
			}
			switch {
			case o.Budget < search.LeastBudget || o.Budget > mostBudget:
				return misuse("--budget %d: must be from %d to %d", o.Budget, search.LeastBudget, mostBudget)
			// Written so that NaN is refused, too.
			case !(o.HeldOut > 0 && o.HeldOut < 1):
				return misuse("--held-out %g: must be between 0 and 1", o.HeldOut)
			}
			// Quiet: the search reports its own progress, in rounds, and this display would count jobs.
			show := newSimProgress(c.ErrOrStderr(), true)
			p, err := f.problem(c, show)
			if err != nil {
				return err
			}
			o.Progress = f.report(c.ErrOrStderr())
			t, err := search.Tune(c.Context(), p, o)
			if err != nil {
				return err
			}
			if f.json {
				return encode(c.OutOrStdout(), t)
			}
			return printTuning(c.OutOrStdout(), t)
		},
	}
	f.register(c)
	s := c.Flags()
	s.StringVar(&objective, "minimise", "slowdown.p95", "`objective`: a measure, or a sum such as makespan+2*response.mean; what is better large is maximised")
	s.StringSliceVar(&o.Parts, "parts", nil, "`parts` that the search may replace, of slots, order, place and speculate, or all (default: none)")
	s.IntVar(&o.Budget, "budget", 200, "`number` of runs, the comparison on the held-out part included")
	s.Float64Var(&o.HeldOut, "held-out", 1./3, "last `part` of a trace, by time, that only the final comparison uses")
	return c
}

// report returns a function that prints lines of progress, or nil if there are none. A search
// reports a line for each round, in logs and terminals alike.
func (f *searchFlags) report(w io.Writer) func(string) {
	if f.quiet {
		return nil
	}
	return func(text string) { terminal.Fprintf(w, "%s\n", text) }
}

// printTuning prints a result for people.
func printTuning(w io.Writer, t *search.Tuning) error {
	best := "as it is: no candidate was better"
	if t.Training.Best != t.Training.Default {
		best = strings.TrimSpace(search.Describe(t.Best.Set))
		// Another policy has a name to state; with the same one the changed parameters say all.
		if t.Best.Policy != t.Policy {
			best = t.Best.String()
		}
	}
	// Both values of the objective, since a best candidate may be better by a hair. The held-out
	// comparison below has the interval that decides.
	terminal.Fprintf(w, "%s after %d runs: %s\ntraining: %s %.4g, as it is %.4g\n", t.Policy, t.Runs, best, t.Measure, t.Training.Best, t.Training.Default)
	for _, p := range t.HeldOut {
		terminal.Fprintf(w, "held out: %s: %s\n", p.Measure, p.Verdict)
	}
	t.Record.Print(w)
	return nil
}

// newSize returns the command that finds the smallest cluster. It does not tune: how many nodes a
// goal takes depends on the parameters of the policy, which tune may have found before.
func newSize(setup *setup) *cobra.Command {
	f := &searchFlags{simFlags: simFlags{setup: setup}}
	var goal string
	var most int
	c := &cobra.Command{
		Use:   "size --policy P --goal 'MEASURE<NUMBER' --workload W --cluster C",
		Short: "Find the smallest cluster that meets a goal",
		Long: `Doubles the number of nodes until the goal is met, then halves the interval. That
supposes that more nodes never hurt; the neighbouring sizes are simulated as a check,
and a warning says if they contradict it. Nodes are as --cluster describes them.
Slowdowns are relative to each job on the cluster of the same size.`,
		Example: `  slotwise size --policy fair --goal 'slowdown.p95<3' --workload swim:trace.tsv --cluster nodes=1,maps=4,reduces=2
  slotwise size --policy fair --goal 'response.mean<120' --workload mix.yaml --cluster nodes=1,maps=4,reduces=2 --seeds 5`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			g, err := search.ParseGoal(goal)
			switch {
			case goal == "":
				return misuse("--goal is missing: such as 'slowdown.p95<3'")
			case err != nil:
				return misuse("--goal: %w", err)
			case most < 1 || most > 100_000:
				return misuse("--max-nodes %d: must be from 1 to 100000", most)
			}
			p, err := f.problem(c, newSimProgress(c.ErrOrStderr(), true))
			if err != nil {
				return err
			}
			s, err := search.Size(c.Context(), p, g, f.seeds, most, f.report(c.ErrOrStderr()))
			if err != nil {
				return err
			}
			if f.json {
				err = encode(c.OutOrStdout(), s)
			} else {
				err = printSizing(c.OutOrStdout(), s, goal)
			}
			// The result is printed all the same: it shows how far the largest cluster was from the
			// goal.
			if err == nil && s.Nodes == 0 {
				err = fmt.Errorf("the goal %s cannot be met with at most %d nodes; --max-nodes allows more, or another policy or goal may help", goal, most)
			}
			return err
		},
	}
	f.register(c)
	s := c.Flags()
	s.IntVar(&f.seeds, "seeds", 1, "`number` of seeds whose mean must meet the goal")
	s.StringVar(&goal, "goal", "", "`goal`: a measure, < or >, and a number, such as 'slowdown.p95<3'")
	s.IntVar(&most, "max-nodes", 4096, "largest `number` of nodes to try")
	return c
}

// printSizing prints a result for people: every size that was tried, in the order of the search,
// because a user may prefer a smaller cluster that misses the goal by little.
func printSizing(w io.Writer, s *search.Sizing, goal string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	terminal.Fprintf(t, "nodes\tvalue\tgoal\t\n")
	for _, x := range s.Tried {
		value, met := fmt.Sprintf("%.4g", x.Value), "missed"
		if x.Met {
			met = "met"
		}
		// A size that fails is shown and does not end the search.
		if x.Error != "" {
			value, met = "-", "failed"
		}
		terminal.Fprintf(t, "%d\t%s\t%s\t\n", x.Nodes, value, met)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if s.Nodes > 0 {
		terminal.Fprintf(w, "%s meets %s from %d nodes on\n", s.Policy, goal, s.Nodes)
	}
	if s.Warning != "" {
		terminal.Fprintf(w, "warning: %s\n", s.Warning)
	}
	s.Record.Print(w)
	return nil
}
