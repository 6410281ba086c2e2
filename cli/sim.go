package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/live/local"
	"github.com/slotwise/slotwise/internal/tracker/autoscale"
	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
	"github.com/slotwise/slotwise/internal/virtual/report"
	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/study"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/internal/virtual/world"
	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/sched"
)

// references are the values of --reference.
var references = []string{study.Alone, study.Ideal}

// simFlags are the flags of sim. study, tune, size, optimum, calibrate and whatif --since use parts
// of these fields, without flags for the rest, so check must accept what a caller leaves at its default.
type simFlags struct {
	setup             *setup
	workload, cluster string
	profiles          []string
	policies          []string
	policySet         []string
	seed              uint64
	// At least 1. Commands without the flag set it.
	seeds         int
	out, events   string
	overwrite     bool
	fairScheduler string
	capacityFile  string
	heartbeat     string
	world         string
	set           []string
	reference     string
	// 0 takes all jobs of a trace.
	limit    int
	traceSet []string
	// 1 changes nothing. 0 is refused, so commands without these flags set them.
	timeScale float64
	dataScale float64
	explain   bool
	// Empty is the default, which depends on --out.
	references  []string
	autoscale   string
	warmUp      string
	json, quiet bool
	workers     int // runs at the same time; 0 is one for each processor
}

// newSim returns the command that simulates workloads. The lists in its help, of formats and
// worlds, come from the tables of the packages that read them.
func newSim(setup *setup) *cobra.Command {
	f := &simFlags{setup: setup}
	c := &cobra.Command{
		Use:   "sim --workload W --cluster C [--policy P,P...]",
		Short: "Simulate a workload on a virtual cluster",
		Long: `Runs a workload on a virtual cluster under one or more scheduling policies, with
the very code that schedules real jobs, and prints how the policies compare.

A workload is a job mix in YAML, the file of slotwise run --jobs, or a trace. Where a mix
names programs and states no tasks or times, these are found from the input files and
from cost profiles, which slotwise profile measures; each assumption is printed. The
forms of a workload are

` + formatList() + `
A cluster is a YAML file, what slotwise nodes -o json prints, nodes.json of Hadoop's
scheduler load simulator (nodes.json,maps=4,reduces=2, since it has no slots), or short:
nodes=600,maps=4,reduces=2,racks=20. A policy
is a name or a composition; parts with = belong to the policy before them, so
fifo,fair,place=greedy is two policies.

A world says what the cluster does besides running tasks: heartbeats, failures, slow
attempts, overheads of daemons. It is a YAML file or one of these:

  ` + strings.Join(worldNames(), ", ") + `

slotwise formats describes job mixes, traces with the options of --trace-set, clusters, and
worlds with their parameters.

References show how much a policy leaves to gain: a lower bound of the makespan and of each
response time, which no schedule beats (bound); with known sizes of jobs, the shortest
remaining work first (srpt), the smallest job first (psjf), and each job in the partition of
its size from the start (sita); size partitions that start a moved job again, which no
running cluster can do (classictags); fifo with the division of slots that is best for these
jobs if it never changes (static-split). Each but the bound costs one more run for each seed.

The same seed gives the same run, on any machine.`,
		Example: `  slotwise sim --workload mix.yaml --cluster nodes=20,maps=4,reduces=2 --policy fifo,fair
  slotwise sim --workload swim:trace.tsv --cluster nodes=600,maps=4,reduces=2,racks=20 --policy fifo,fair --out result
  slotwise sim --workload rumen:jobs.json --cluster cluster.yaml --policy fair,tumm --fair-scheduler fair-scheduler.xml
  slotwise sim --workload mix.yaml --cluster nodes=20,maps=4,reduces=2 --policy fair --seeds 10
  slotwise sim --workload mix.yaml --cluster nodes=50,maps=4,reduces=2 --autoscale min=2,max=50,start-up=30s
  slotwise sim --workload mix.yaml --cluster nodes=20,maps=4,reduces=2 --world hadoop-1.2 --set model.failure-rate=0.02
  slotwise sim --workload jobs.yaml --profiles wordcount.yaml --cluster nodes=20,maps=4,reduces=2 --policy fifo,fair`,
		Args: noArgs,
		// No addSettings: a variable that sets --seed or --policy unseen would change a published
		// result.
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	f.register(c)
	return c
}

// register declares the flags: the workload, the cluster, the policies, and the
// output.
func (f *simFlags) register(c *cobra.Command) {
	f.registerInputs(c)
	s := c.Flags()
	s.StringArrayVar(&f.policies, "policy", []string{"fifo"}, "`policies` to compare, with commas between them (repeatable)")
	f.registerScheduler(c)
	// The same settings as slotwise master has, so that a rule is tried here first.
	s.StringVar(&f.autoscale, "autoscale", "", "start and stop nodes with the work, as slotwise master --autoscale does: `settings` such as min=2,max=50,start-up=30s; max must be the nodes of --cluster")
	s.IntVar(&f.seeds, "seeds", 1, "`number` of seeds, from --seed on; more than one gives confidence intervals, and the range of each job's response time")
	s.StringVar(&f.out, "out", "", "`directory` for tables (CSV, Parquet, JSON), plots (SVG) and report.html, one page with all of them; it must not exist or be empty")
	s.BoolVar(&f.overwrite, "overwrite", false, "replace an earlier result in the directory of --out, and the file of --events, once all runs have ended")
	s.StringVar(&f.events, "events", "", "write each scheduling event to this `file`, of a single run: text, or a table if it ends in .parquet. One that is not empty needs --overwrite")
	s.StringSliceVar(&f.references, "references", nil, "`schedules` with knowledge that no policy has, beside the policies: bound,srpt,psjf,sita,classictags,static-split or none (default: bound,srpt,static-split with --out, else none)")
	// An empty cluster at the beginning makes the first jobs fast, which would flatter every policy.
	s.StringVar(&f.warmUp, "warm-up", collect.WarmUpAuto, "`rule` by which the first jobs, which meet an empty cluster, are left out of numbers about jobs: none, mser (MSER-5), a share of the time such as 0.1, or auto, which is 0.1 for traces of 1,000 jobs or more, else none")
	s.BoolVar(&f.explain, "explain", false, "print at the end why each job waited longest")
	addPrint(c, &f.json)
	groupFlags(c, []string{"workload", "cluster", "policy", "seed", "seeds", "world", "out", "overwrite", "explain", "print", "quiet"},
		group{"Workload", []string{"profiles", "limit", "time-scale", "data-scale", "trace-set"}},
		group{"Cluster", []string{"set", "heartbeat", "autoscale"}},
		group{"Policies", []string{"policy-set", "fair-scheduler", "capacity-scheduler"}},
		group{"Comparison", []string{"reference", "references", "warm-up", "events"}})
	completeWith(c, "policy", f.setup.completePolicies)
	completeWords(c, "references", append(study.References(), study.RefNone))
}

// registerScheduler declares the flags about the parameters and files of policies. calibrate has
// them, too, for the one policy of the traced cluster.
func (f *simFlags) registerScheduler(c *cobra.Command) {
	s := c.Flags()
	s.StringArrayVar(&f.policySet, "policy-set", nil, "one parameter, `name=value`, of the policies that have it (repeatable)")
	s.StringVar(&f.fairScheduler, "fair-scheduler", "", "Hadoop's allocation `file` of pools, for policies with fair pools")
	s.StringVar(&f.capacityFile, "capacity-scheduler", "", "Hadoop's `file` of queues, for policies with queues")
}

// registerInputs declares the flags about the workload, the cluster and the world, which tune and
// size have, too. --cluster may be given once only: in other tools a repeated flag makes a list.
func (f *simFlags) registerInputs(c *cobra.Command) {
	s := c.Flags()
	s.SortFlags = false
	s.StringVar(&f.workload, "workload", "", "`what` to run: a job mix (the file of run --jobs), or a trace, FORM:FILE (slotwise sim --help has the forms)")
	s.Var(&onceValue{text: &f.cluster}, "cluster", "`where`: a YAML file, or nodes=N,maps=N,reduces=N,racks=N,cores=N,...")
	s.StringArrayVar(&f.profiles, "profiles", nil, "`file` of cost profiles, as slotwise profile writes it, for a job mix (repeatable)")
	s.StringVar(&f.world, "world", world.Default, "`what` the cluster does besides running tasks: a YAML file, or a named world (slotwise formats world)")
	s.StringArrayVar(&f.set, "set", nil, "one parameter of the world, `name=value`, such as model.failure-rate=0.02 (repeatable)")
	s.StringVar(&f.heartbeat, "heartbeat", "", "`profile` of heartbeats: slotwise, hadoop-0.20.2, hadoop-1.0, hadoop-1.2 or fixed:TIME (default: the world's, else the cluster's)")
	s.Uint64Var(&f.seed, "seed", 1, "`seed` of all random numbers")
	s.IntVar(&f.limit, "limit", 0, "take the first `number` of jobs of a trace")
	s.Float64Var(&f.timeScale, "time-scale", 1, "multiply the times of submission of a trace by this `factor`; 0.5 is twice the load")
	s.Float64Var(&f.dataScale, "data-scale", 1, "multiply all bytes of a SWIM trace by this `factor`, for a smaller cluster than its own")
	s.StringArrayVar(&f.traceSet, "trace-set", nil, "one rule by which a trace becomes tasks, `name=value`, such as pools=hash:8 (repeatable)")
	s.StringVar(&f.reference, "reference", "alone", "slowdowns are relative to each job run `alone`, or to its ideal, which is faster to compute")
	s.BoolVarP(&f.quiet, "quiet", "q", false, "show no progress")
	completeWords(c, "reference", references)
	completeWords(c, "heartbeat", sim.Profiles())
	completeWords(c, "world", worldNames())
}

// check rejects flags whose values make no sense by themselves.
func (f *simFlags) check() error {
	switch {
	case f.workload == "":
		return misuse("--workload is missing: a job mix (YAML), or a trace such as swim:FILE or hadoop:DIR; slotwise sim --help lists all")
	case f.cluster == "":
		return misuse("--cluster is missing: a YAML file, or nodes=20,maps=4,reduces=2,racks=2")
	case f.seeds < 1 || f.seeds > study.MaxSeeds:
		return misuse("--seeds %d: must be from 1 to %d", f.seeds, study.MaxSeeds)
	case f.limit < 0:
		return misuse("--limit %d: must be positive", f.limit)
	case !(f.timeScale > 0 && f.timeScale < workload.MaxScale):
		return misuse("--time-scale %g: must be above 0 and below %g", f.timeScale, workload.MaxScale)
	case !(f.dataScale > 0 && f.dataScale < workload.MaxScale):
		return misuse("--data-scale %g: must be above 0 and below %g", f.dataScale, workload.MaxScale)
	case f.overwrite && f.out == "" && f.events == "":
		return misuse("--overwrite: there is nothing to replace without --out or --events")
	}
	if err := study.CheckReferences(f.references); err != nil {
		return misuse("--references: %w", err)
	}
	// References cost further runs; with --out somebody keeps the result and looks closely.
	if len(f.references) == 0 && f.out != "" {
		f.references = study.DefaultReferences()
	}
	if err := f.checkScales(); err != nil {
		return err
	}
	return oneOf("reference", f.reference, references)
}

// checkScales rejects flags that the format of --workload has no use for. They would be ignored,
// and the numbers would pass for results of another load.
func (f *simFlags) checkScales() error {
	format, _ := workload.SplitSpec(f.workload)
	drawn := format == "mix" || format == "synth"
	switch {
	case drawn && f.limit > 0:
		return misuse("--limit: is for traces, and a %s says itself how many jobs there are", format)
	case drawn && f.timeScale != 1:
		return misuse("--time-scale: is for traces, and a %s says itself when jobs come", format)
	case format != "swim" && f.dataScale != 1:
		return misuse("--data-scale: is for swim traces")
	case drawn && len(f.traceSet) > 0:
		return misuse("--trace-set applies to traces only: a %s defines its own tasks", format)
	case format != "mix" && len(f.profiles) > 0:
		return misuse("--profiles: is for job mixes")
	}
	return nil
}

// run is the command.
func (f *simFlags) run(c *cobra.Command) error {
	if err := f.check(); err != nil {
		return err
	}
	show := newSimProgress(c.ErrOrStderr(), f.quiet)
	defer show.close()
	// Before the inputs are read: the record has the present hashes of the files.
	made, err := f.record(c)
	if err != nil {
		return err
	}
	s, err := f.study(c.Context(), show, made)
	if err != nil {
		return err
	}
	// All files are checked before the simulation, which may take hours.
	if f.out != "" {
		if err := study.CheckOut(f.out, f.overwrite); err != nil {
			return misuse("--out %w", pathLast(f.out, err))
		}
		// CheckOut has looked at the content; this protects mount points and the user's own
		// directories.
		if err := storage.CheckErasable(f.out); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return misuse("--out %s: %w", f.out, reason(err))
		}
	}
	if err := checkEvents(f.events, f.overwrite, true); err != nil {
		return err
	}
	files, err := study.OpenFiles(s, f.out, f.events, f.overwrite)
	if wrong := new(study.FileError); errors.As(err, &wrong) {
		return misuse("--%s %w", wrong.File, wrong.Err)
	}
	if err != nil {
		return err
	}
	// Files appear under their names only when all runs have ended.
	defer files.Discard()
	if err := s.Run(c.Context()); err != nil {
		return err
	}
	show.close()
	failed := failedRuns(s.Failed())
	if len(s.Failed()) < s.Runs() {
		if err := files.Publish(c.Context()); err != nil {
			return err
		}
	} else if !f.json {
		return failed // there is nothing to compare
	}
	return errors.Join(f.print(c.OutOrStdout(), s.Comparison()), failed)
}

// pathLast returns an error about a path as "path: reason", however the error
// spells it.
func pathLast(path string, err error) error {
	if r := reason(err); r != err {
		return fmt.Errorf("%s: %w", path, r)
	}
	return err
}

// mostFaults bounds the failed runs that an error lists.
const mostFaults = 3

// failedRuns returns the error of a study some of whose runs have failed, or nil.
func failedRuns(faults []report.Fault) error {
	var errs []error
	for _, f := range faults[:min(mostFaults, len(faults))] {
		errs = append(errs, fmt.Errorf("policy %s, seed %d: %s", f.Policy, f.Seed, f.Error))
	}
	return errors.Join(errs...)
}

// study reads the files that the flags name and prepares the runs. made is the record of the
// command, or nil if no command makes the result again. Errors name the flag.
func (f *simFlags) study(ctx context.Context, show *simProgress, made *report.Record) (*study.Study, error) {
	specs, err := sched.SplitSpecs(f.policies...)
	if err != nil {
		return nil, misuse("--policy %w", err)
	}
	model, cluster, w, err := f.inputs(ctx, show)
	if err != nil {
		return nil, err
	}
	policies, err := f.choosePolicies(specs, show)
	if err != nil {
		return nil, err
	}
	var scale *autoscale.Config
	if f.autoscale != "" {
		c, err := autoscale.Parse(f.autoscale)
		if err != nil {
			return nil, misuse("--autoscale: %w", err)
		}
		scale = &c
	}
	warm, err := collect.ParseWarmUp(cmp.Or(f.warmUp, collect.WarmUpNone))
	if err != nil {
		return nil, misuse("--warm-up: %w", err)
	}
	s, err := study.New(study.Config{Record: made, WarmUp: warm, Cluster: cluster, ClusterName: f.cluster, Workload: w, Policies: policies, Seed: f.seed, Seeds: f.seeds,
		Model: model, World: f.world, Autoscale: scale, Reference: f.reference, References: f.references, Details: f.out != "", Explain: f.explain, Workers: f.workers, Warn: func(text string) { show.warn(text) }, Progress: show})
	// study.New does not know flags, so its kinds of errors are translated here.
	switch {
	case errors.Is(err, study.ErrCluster):
		return nil, misuse("--cluster %s: %w", f.cluster, err)
	case errors.Is(err, study.ErrWorkload):
		return nil, misuse("--workload: %w", err)
	case errors.Is(err, study.ErrAutoscale):
		return nil, misuse("--autoscale: %w", err)
	case err != nil:
		return nil, misuse("--policy %w", err)
	}
	return s, nil
}

// record says how to make the result again: the command, its settings, and the files that it reads.
func (f *simFlags) record(c *cobra.Command) (*report.Record, error) {
	r := recordOf(c, nil)
	_, path := workload.SplitSpec(f.workload)
	cluster, _, _ := strings.Cut(f.cluster, ",") // a file with changes, such as nodes.json,maps=4
	return r, errors.Join(addFiles(r, "workload", path), addFiles(r, "cluster", cluster), addFiles(r, "world", f.world),
		addFiles(r, "profiles", f.profiles...), addFiles(r, "fair-scheduler", f.fairScheduler), addFiles(r, "capacity-scheduler", f.capacityFile))
}

// formatList describes the forms of a workload, a line each.
func formatList() string {
	var b strings.Builder
	for _, f := range workload.Formats() {
		fmt.Fprintf(&b, "  %-16s %s\n", f[0]+":FILE", f[1])
	}
	return b.String()
}

// inputs reads the world, the cluster and the workload. Its errors name the flag.
func (f *simFlags) inputs(ctx context.Context, show *simProgress) (model sim.ModelConfig, cluster workload.Cluster, w *study.Workload, err error) {
	if model, err = f.readWorld(); err != nil {
		return model, cluster, nil, err
	}
	if cluster, err = study.ReadCluster(f.cluster); err != nil {
		return model, cluster, nil, misuse("--%w", err)
	}
	o := study.WorkloadOptions{Inputs: studyInputs()}
	o.Trace.TimeScale, o.Trace.Limit, o.SWIM.DataScale = f.timeScale, f.limit, f.dataScale
	for _, given := range f.traceSet {
		name, value, _ := strings.Cut(given, "=")
		if err := o.SetTrace(name, value); err != nil {
			return model, cluster, nil, misuse("--trace-set %w", err)
		}
	}
	if o.Profiles, err = f.readProfiles(); err != nil {
		return model, cluster, nil, err
	}
	w, err = study.ReadWorkload(ctx, f.workload, &cluster, o)
	if _, file := workload.SplitSpec(f.workload); err != nil {
		// Errors of the file itself; errors of a job's inputs name the job.
		if path := (*fs.PathError)(nil); errors.As(err, &path) && path.Path == file {
			return model, cluster, nil, misuse("--workload %s: %w", f.workload, path.Err)
		}
		return model, cluster, nil, misuse("--workload: %w", err)
	}
	for _, text := range w.Warnings {
		show.warn(text)
	}
	return model, cluster, w, nil
}

// worldNames returns the names of the named worlds.
func worldNames() []string {
	var names []string
	for _, w := range world.Worlds() {
		names = append(names, w.Name)
	}
	return names
}

// readWorld reads the world and sets its single parameters. Its errors name the flag.
func (f *simFlags) readWorld() (sim.ModelConfig, error) {
	model, err := study.ReadWorld(f.world)
	if err != nil {
		return model, misuse("--world %w", err)
	}
	for _, given := range f.set {
		// model. is required, although there is no other kind: without it a parameter of a policy would
		// be sought here.
		name, value, ok := strings.Cut(given, "=")
		key, isModel := strings.CutPrefix(name, "model.")
		if !ok || !isModel {
			return model, misuse("--set %s: write model.PARAMETER=VALUE, such as model.failure-rate=0.02; --policy-set sets a parameter of a policy", given)
		}
		if err := world.Set(&model, key, value); err != nil {
			return model, misuse("--set model.%w", err)
		}
	}
	// After the world and its single parameters, because it is the most specific of the three.
	if f.heartbeat != "" {
		model.Heartbeat = f.heartbeat
		if err := sim.CheckProfile(f.heartbeat); err != nil {
			return model, misuse("--heartbeat: %w", err)
		}
	}
	return model, nil
}

// readProfiles reads the files of --profiles. An app's profile in an earlier file
// goes first.
func (f *simFlags) readProfiles() ([]workload.Profile, error) {
	var all []workload.Profile
	for _, name := range f.profiles {
		file, err := os.Open(name)
		if err != nil {
			return nil, misuse("--profiles %s: %w", name, reason(err))
		}
		list, err := workload.ReadProfiles(name, file)
		file.Close() // it was only read
		if err != nil {
			return nil, misuse("--profiles: %w", err)
		}
		// An earlier profile of an app is found first, so a file of changes goes before the file that it
		// changes.
		all = append(all, list...)
	}
	return all, nil
}

// choosePolicies gives the policies their parameters and Hadoop's files of
// pools and queues. A parameter or file that no policy accepts is an error.
func (f *simFlags) choosePolicies(specs []string, show *simProgress) (*study.Policies, error) {
	list := study.NewPolicies(f.setup.policies(), specs)
	// Queues first: --policy-set may then change a single one of the file's values.
	if f.capacityFile != "" {
		warnings, err := list.UseQueues(f.capacityFile)
		if err != nil {
			return nil, misuse("--capacity-scheduler %w", err)
		}
		show.warn(warnings...)
	}
	set, err := parseAssignments("policy-set", f.policySet)
	if err != nil {
		return nil, err
	}
	// In the order of the command line, so that the error names the first wrong one.
	for _, given := range f.policySet {
		name, _, _ := strings.Cut(given, "=")
		if err := list.Set(map[string]string{name: set[name]}); err != nil {
			return nil, misuse("--policy-set %s: %w", name, err)
		}
	}
	if f.fairScheduler != "" {
		warnings, err := list.UsePools(f.fairScheduler)
		if err != nil {
			return nil, misuse("--fair-scheduler %w", err)
		}
		show.warn(warnings...)
	}
	if err := list.Check(); err != nil {
		return nil, misuse("--policy %w", err)
	}
	return list, nil
}

// print prints the comparison.
func (f *simFlags) print(w io.Writer, all study.Comparison) error {
	if f.json {
		return encode(w, all)
	}
	if err := report.Comparison(w, all.Study); err != nil {
		return err
	}
	for i := range all.Waits {
		printLongestWaits(w, &all.Waits[i])
	}
	return nil
}

// waitsShown is the number of jobs of a run whose wait reasons are printed.
const waitsShown = 10

// printLongestWaits prints the wait reasons of the jobs of a run that waited
// longest.
func printLongestWaits(out io.Writer, w *study.RunWaits) {
	jobs := slices.SortedStableFunc(slices.Values(w.Jobs), func(a, b study.JobWait) int { return cmp.Compare(b.Total(), a.Total()) })
	terminal.Fprintf(out, "\npolicy %s, seed %d: why jobs waited longest\n", w.Policy, w.Seed)
	for _, j := range jobs[:min(waitsShown, len(jobs))] {
		waits := make([]mapreduce.Wait, len(j.Waits))
		for i, x := range j.Waits {
			waits[i] = mapreduce.Wait(x)
		}
		printWait(out, j.Name, j.ID, waits)
	}
	if more := len(jobs) - waitsShown; more > 0 {
		terminal.Fprintf(out, "and %s less; -o json lists all\n", terminal.Plural(more, "job"))
	}
}

// lineStart moves the cursor of a terminal to the beginning of its line and clears the line.
const lineStart = "\r\x1b[K"

// simProgress shows the progress of the runs of a study: one line that is overwritten on a
// terminal, else an occasional line. It implements study.Progress; a separate goroutine prints the
// lines, so that a run only adds to a counter for each job that ends.
//
// Counting and printing do not wait for each other: ended is added to by all runs without a lock,
// and the printer alone reads it. mu guards the phase, which the runs do not look at. close may be
// called twice, because commands print their result in between.
type simProgress struct {
	out      io.Writer
	quiet    bool
	terminal bool
	ended    atomic.Int64 // jobs of the current phase
	printed  int64        // value of ended in the last line; only the printer uses it
	mu       struct {
		sync.Mutex
		what  string // the current phase; empty before the first
		total int    // its jobs
		start time.Time
	}
	stop    chan struct{}
	stopped sync.WaitGroup
	once    sync.Once // of close
}

// newSimProgress returns a display that shows nothing until the first phase, or
// ever if quiet.
func newSimProgress(out io.Writer, quiet bool) *simProgress {
	p := &simProgress{out: out, quiet: quiet, terminal: isTerminal(out), stop: make(chan struct{})}
	if quiet {
		return p
	}
	every := local.LineEvery
	// One line without an end, which the next one overwrites. It contains this program's own text only.
	if p.terminal {
		every = showAfter
	}
	p.stopped.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				p.line()
			case <-p.stop:
				return
			}
		}
	})
	return p
}

// warn prints a warning, even with --quiet, because it may change the meaning of a result.
func (p *simProgress) warn(texts ...string) {
	for _, text := range texts {
		if p.terminal && !p.quiet {
			io.WriteString(raw(p.out), lineStart) // else the warning would stand behind the progress
		}
		terminal.Fprintf(p.out, "warning: %s\n", text)
	}
}

// Observe counts the jobs that have ended. Runs call it from their goroutines.
func (p *simProgress) Observe(e *sim.Event) {
	if e.Kind == sim.JobEnded {
		p.ended.Add(1)
	}
}

// Phase begins a phase.
func (p *simProgress) Phase(what string, jobs int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended.Store(0)
	p.mu.what, p.mu.start, p.mu.total = what, time.Now(), jobs
}

// line prints how far the phase has come, unless nothing has changed.
func (p *simProgress) line() {
	p.mu.Lock()
	what, total, took := p.mu.what, p.mu.total, time.Since(p.mu.start)
	p.mu.Unlock()
	// Read once: runs add to it meanwhile, and the text and the comparison must mean one number.
	ended := p.ended.Load()
	if what == "" || ended == p.printed {
		return
	}
	p.printed = ended
	done := float64(ended) / float64(max(1, total))
	text := fmt.Sprintf("%s: %.0f %% of %s", what, 100*done, terminal.Plural(total, "job"))
	if rest := terminal.Left(took, done); rest != "" {
		text += ", " + rest
	}
	if p.terminal {
		terminal.Fprintf(raw(p.out), lineStart+"%s", text)
	} else {
		terminal.Fprintf(p.out, "%s\n", text)
	}
}

// note prints a line, unless nothing but warnings is shown.
func (p *simProgress) note(text string) {
	if !p.quiet {
		terminal.Fprintf(p.out, "%s\n", text)
	}
}

// close stops the display and removes its line. Further calls do nothing.
func (p *simProgress) close() {
	p.once.Do(func() {
		close(p.stop)
		p.stopped.Wait()
		if p.terminal && !p.quiet {
			io.WriteString(raw(p.out), lineStart)
		}
	})
}
