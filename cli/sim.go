package cli

import (
	"encoding/json"
	"errors"
	"io"

	"github.com/spf13/cobra"

	simreport "github.com/slotwise/slotwise/internal/report"
	"github.com/slotwise/slotwise/internal/sim"
	"github.com/slotwise/slotwise/internal/workload"
)

// references are what slowdowns are measured against.
var references = []string{"alone", "ideal"}

// simFlags are the flags of sim.
type simFlags struct {
	setup             *setup
	workload, cluster string
	policies          []string
	policySet         []string
	seed              uint64
	seeds             int
	out, events       string
	overwrite         bool
	fairScheduler     string
	capacityFile      string
	heartbeat         string
	reference         string
	limit             int
	timeScale         float64
	dataScale         float64
	explain           bool
	json, quiet       bool
}

func newSim(setup *setup) *cobra.Command {
	f := &simFlags{setup: setup}
	c := &cobra.Command{
		Use:   "sim --workload W --cluster C [--policy P,P...]",
		Short: "Ask what if: run a workload on a virtual cluster",
		Long: `Runs a workload on a virtual cluster under one or more scheduling policies, with
the very code that schedules real jobs, and prints how the policies compare.

A workload is a job mix in YAML, or a trace: swim:FILE, rumen:FILE, sls:FILE or
synth:FILE. A cluster is a YAML file, or short: nodes=600,maps=4,reduces=2,racks=20.
A policy is a name or a composition; parts with = belong to the policy before
them, so fifo,fair,place=greedy is two policies.

The same seed gives the same run, on any machine.`,
		Example: `  slotwise sim --workload mix.yaml --cluster nodes=20,maps=4,reduces=2 --policy fifo,fair
  slotwise sim --workload swim:trace.tsv --cluster nodes=600,maps=4,reduces=2,racks=20 --policy fifo,fair --out result
  slotwise sim --workload rumen:jobs.json --cluster cluster.yaml --policy fair,tumm --fair-scheduler fair-scheduler.xml
  slotwise sim --workload mix.yaml --cluster nodes=20,maps=4,reduces=2 --policy fair --seeds 10`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	f.register(c)
	return c
}

// register declares the flags: what runs where, how, and what is said of it.
func (f *simFlags) register(c *cobra.Command) {
	s := c.Flags()
	s.SortFlags = false
	s.StringVar(&f.workload, "workload", "", "`what` to run: a job mix, or swim:FILE, rumen:FILE, sls:FILE, synth:FILE")
	s.StringVar(&f.cluster, "cluster", "", "`where`: a YAML file, or nodes=N,maps=N,reduces=N,racks=N,cores=N,...")
	s.StringArrayVar(&f.policies, "policy", []string{"fifo"}, "`policies` to compare, with commas between them (repeatable)")
	s.StringArrayVar(&f.policySet, "policy-set", nil, "one setting, `name=value`, of the policies that have it (repeatable)")
	s.StringVar(&f.fairScheduler, "fair-scheduler", "", "Hadoop's allocation `file` of pools, for policies with fair pools")
	s.StringVar(&f.capacityFile, "capacity-scheduler", "", "Hadoop's `file` of queues, for policies with queues")
	s.StringVar(&f.heartbeat, "heartbeat", "", "`profile` of heartbeats: hadoop-0.20.2, hadoop-1.0, hadoop-1.2 or fixed:TIME (default: the cluster's)")
	s.Uint64Var(&f.seed, "seed", 1, "`seed` of all that is drawn")
	s.IntVar(&f.seeds, "seeds", 1, "`number` of seeds, from --seed on; more than one gives confidence intervals")
	s.IntVar(&f.limit, "limit", 0, "take the first `number` of jobs of a trace")
	s.Float64Var(&f.timeScale, "time-scale", 1, "multiply the times of submission of a trace by this `factor`; 0.5 is twice the load")
	s.Float64Var(&f.dataScale, "data-scale", 1, "multiply all bytes of a SWIM trace by this `factor`, for a smaller cluster than its own")
	s.StringVar(&f.reference, "reference", "alone", "slowdowns are against each job run `alone`, or its ideal, which is quicker to find")
	s.StringVar(&f.out, "out", "", "`directory` for tables (CSV, Parquet, JSON) and plots (SVG, PNG); it must not exist or be empty")
	s.BoolVar(&f.overwrite, "overwrite", false, "replace an earlier result in the directory of --out, once all runs have ended")
	s.StringVar(&f.events, "events", "", "write a line for each scheduling event to this `file`, of a single run")
	s.BoolVar(&f.explain, "explain", false, "say at the end what held each job back longest")
	s.BoolVar(&f.json, "json", false, "print the comparison as one JSON object on standard output")
	s.BoolVarP(&f.quiet, "quiet", "q", false, "show no progress")
	completeWith(c, "policy", f.setup.completePolicies)
	completeWords(c, "reference", references)
	completeWords(c, "heartbeat", sim.Profiles())
}

// check refuses flags that make no sense by themselves.
func (f *simFlags) check() error {
	switch {
	case f.workload == "":
		return misuse("--workload is missing: a job mix (YAML), or swim:FILE, rumen:FILE, sls:FILE or synth:FILE")
	case f.cluster == "":
		return misuse("--cluster is missing: a YAML file, or nodes=20,maps=4,reduces=2,racks=2")
	case f.seeds < 1:
		return misuse("--seeds %d: must be at least 1", f.seeds)
	case f.limit < 0:
		return misuse("--limit %d: must be positive", f.limit)
	case !(f.timeScale > 0 && f.timeScale < workload.MaxScale):
		return misuse("--time-scale %g: must be above 0 and below %g", f.timeScale, workload.MaxScale)
	case !(f.dataScale > 0 && f.dataScale < workload.MaxScale):
		return misuse("--data-scale %g: must be above 0 and below %g", f.dataScale, workload.MaxScale)
	case f.overwrite && f.out == "":
		return misuse("--overwrite: there is nothing to replace without --out")
	}
	if err := sim.CheckProfile(f.heartbeat); err != nil {
		return misuse("--heartbeat: %w", err)
	}
	return oneOf("reference", f.reference, references)
}

// run is the command.
func (f *simFlags) run(c *cobra.Command) error {
	if err := f.check(); err != nil {
		return err
	}
	study, err := f.study(c.Context(), c.ErrOrStderr())
	if err != nil {
		return err
	}
	files, err := f.openFiles(study)
	if err != nil {
		return err
	}
	defer files.discard()
	show := newSimProgress(c.ErrOrStderr(), f.quiet, study)
	err = study.run(c.Context(), show)
	show.close()
	if err != nil {
		return err
	}
	failed := study.failure()
	if len(study.failed()) < len(study.runs) {
		if err := files.publish(c.Context(), study); err != nil {
			return err
		}
	} else if !f.json {
		return failed // there is nothing to compare
	}
	return errors.Join(f.print(c.OutOrStdout(), study.comparison()), failed)
}

// print prints the comparison.
func (f *simFlags) print(w io.Writer, all comparison) error {
	if f.json {
		return json.NewEncoder(w).Encode(all)
	}
	if err := simreport.Comparison(w, all.Study); err != nil {
		return err
	}
	for i := range all.Waits {
		all.Waits[i].printHeld(w)
	}
	return nil
}
