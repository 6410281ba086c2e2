// Package study runs a workload on a virtual cluster under several policies, each
// with several seeds, and compares them.
//
//	c, err := study.ReadCluster("nodes=20,maps=4,reduces=2")
//	w, err := study.ReadWorkload(ctx, "mix.yaml", &c, study.WorkloadOptions{})
//	p, err := study.NewPolicies(registry, []string{"fifo", "fair"})
//	s, err := study.New(study.Config{Cluster: c, Workload: w, Policies: p, Seed: 1, Seeds: 1})
//	err = s.Run(ctx)
//	all := s.Comparison()
//
// Results are values. Files holds the tables and plots of a study; the command
// line prints its comparison.
// A study lives in three steps. New draws the jobs of each seed once (draft) and builds a policy for every
// run, so all mistakes of the user are errors before the first simulation. Run finds how long each job takes
// alone, simulates, and leaves out the warm-up. Comparison and Files read what the runs have left.
//
// Every policy meets the same drafts, and the simulator's draws follow from the seed and the subject alone,
// so all comparisons are paired: job by job within a seed for a trace, seed by seed for drawn jobs
// (collect.CompareAll). To add a number to the comparison, add a measure to metrics/collect; the tables here
// and the studies of sweep list those.
package study

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/tracker/autoscale"
	"github.com/slotwise/slotwise/internal/virtual/forecast"
	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
	"github.com/slotwise/slotwise/internal/virtual/report"
	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/internal/virtual/world"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
)

// The references of slowdowns: the time that a job takes when it runs alone, and
// the time that it would take on a cluster without any waiting.
const (
	Alone = "alone"
	Ideal = "ideal"
)

// MaxSeeds bounds the seeds of a study. Each run takes memory before the first one starts, so a typing error would
// use up the machine's.
const MaxSeeds = 10_000

// Config describes a study. Every policy runs with every seed.
type Config struct {
	Cluster workload.Cluster
	// ClusterName is the user's spelling of the cluster, for the report.
	ClusterName string
	Workload    *Workload
	Policies    *Policies
	// Seed is the first of Seeds seeds.
	Seed  uint64
	Seeds int
	// Model is the world, and World its name for the report; empty is world.Default.
	Model sim.ModelConfig
	World string
	// Autoscale, unless it is nil, starts and stops nodes with the work. Its Max must be the
	// number of the cluster's nodes. Each job alone has them all.
	Autoscale *autoscale.Config
	// Reference is Alone or Ideal; empty means Alone, which runs each job by
	// itself and so takes longer.
	Reference string
	// References are the references that run beside the policies; see References.
	References []string
	// WarmUp is the rule by which the first jobs are left out of numbers about jobs. The zero
	// value leaves out none.
	WarmUp collect.WarmUp
	// Details keeps the observations that tables and plots need.
	Details bool
	// Explain collects why each job waited.
	Explain bool
	// Warn, if set, receives a sentence about each thing that is not as asked.
	Warn func(text string)
	// Workers bounds the runs that are made at the same time; 0 is one for each processor.
	Workers int
	// Progress, if set, follows the runs.
	Progress Progress
	// Record, if set, says which program, command and files make the study. The study adds
	// digests of its inputs and of its result.
	Record *report.Record
}

// Progress follows the runs of a study. Observe is called from several
// goroutines.
type Progress interface {
	sim.Observer
	// Phase says that a phase of the study begins, and how many jobs it
	// simulates.
	Phase(what string, jobs int)
}

// Study is a prepared set of runs.
type Study struct {
	cfg    Config
	model  sim.ModelConfig
	drafts []*draft // by seed
	runs   []*run
	// references are the runs of Config.References, by reference and then by seed.
	references []*run
	// warnings holds the warnings of the study itself, beside the workload's.
	warnings []string
	origin   *report.Record  // nil without Config.Record
	warmed   *collect.Warmed // nil for no warm-up
}

// draft is the workload of a seed.
type draft struct {
	seed   uint64
	jobs   []workload.Job
	bounds collect.Bounds
	alone  []time.Duration // what slowdowns are measured against, by job
}

// run is one policy with one seed. prepare fills in the first part, Files may add
// observers, and Study.Run fills in the rest.
type run struct {
	report.RunRow
	draft   *draft
	cluster workload.Cluster
	policy  sched.Policy
	swaps   []sim.Swap

	more  sim.Observers   // tables and plots
	trace report.EventLog // nil for none
	lanes *report.Lanes   // nil for no plot

	collector *collect.Collector
	outcomes  *collect.Outcomes
	result    *sim.Result // nil if err is set
	report    *collect.Report
	err       error // why the simulation failed
}

// New draws the jobs of every seed and builds a policy for every run. An error
// wraps ErrCluster, ErrWorkload or ErrAutoscale if one of these is at fault.
func New(cfg Config) (*Study, error) {
	if cfg.Warn == nil {
		cfg.Warn = func(string) {}
	}
	cfg.World = cmp.Or(cfg.World, world.Default)
	if cfg.Reference == "" {
		cfg.Reference = Alone
	}
	s := &Study{cfg: cfg, model: cfg.Model}
	if err := s.checkCluster(); err != nil {
		return nil, err
	}
	if a := cfg.Autoscale; a != nil {
		// The simulator makes all nodes before the run and starts and stops them, so it must know
		// the most.
		if n := cfg.Cluster.Nodes(); a.Max != n {
			return nil, &InputError{ErrAutoscale, fmt.Errorf("max=%d: must be the number of nodes of the cluster, which is %d", a.Max, n)}
		}
	}
	for i := range cfg.Seeds {
		d := &draft{seed: cfg.Seed + uint64(i)}
		var err error
		if d.jobs, err = cfg.Workload.Source.Jobs(d.seed); err != nil {
			return nil, &InputError{ErrWorkload, err}
		}
		d.bounds = collect.BoundsOf(&s.cfg.Cluster, d.jobs, s.model)
		s.drafts = append(s.drafts, d)
	}
	origin := report.RunRow{}
	if cfg.Record != nil {
		s.origin = s.record()
		// Rows of tables carry both, because files are moved and joined without report.json.
		origin.Program, origin.Record = s.origin.Program, RecordID(s.origin)
	}
	for _, spec := range cfg.Policies.Specs() {
		// By policy, then by seed: tables, and the lines of plots, rely on this order.
		for _, d := range s.drafts {
			r := &run{RunRow: origin, draft: d, cluster: s.cfg.Cluster}
			r.Policy, r.Seed = spec, d.seed
			if err := s.prepare(r, spec); err != nil {
				return nil, err
			}
			s.runs = append(s.runs, r)
		}
	}
	s.addReferences()
	return s, nil
}

// prepare builds the policies of a run: they keep state, so that each run needs
// its own.
func (s *Study) prepare(r *run, spec string) (err error) {
	if r.policy, err = s.cfg.Policies.Build(spec, r.Seed); err != nil {
		return err
	}
	for i, x := range s.cfg.Workload.Swaps {
		// A swap's policy comes from the file alone: the parameters of the command line are for the policies
		// that it names.
		p, err := s.cfg.Policies.registry.Build(x.Policy, sched.Options{Seed: r.Seed, Set: x.Set})
		if err != nil {
			return &InputError{ErrWorkload, fmt.Errorf("%s: swap %d: %w", s.cfg.Workload.Name, i+1, err)}
		}
		r.swaps = append(r.swaps, sim.Swap{At: x.At, Policy: p})
	}
	return nil
}

// ErrCluster, ErrWorkload and ErrAutoscale say which input of a study is at fault.
var (
	ErrCluster   = errors.New("cluster")
	ErrWorkload  = errors.New("workload")
	ErrAutoscale = errors.New("autoscale")
)

// InputError is an error in an input of a study.
type InputError struct {
	Input error // ErrCluster, ErrWorkload or ErrAutoscale
	Err   error
}

// Error returns the text of Err.
func (e *InputError) Error() string { return e.Err.Error() }

// Unwrap returns both errors.
func (e *InputError) Unwrap() []error { return []error{e.Input, e.Err} }

// checkCluster simulates the cluster without jobs, which finds its errors.
func (s *Study) checkCluster() error {
	p, err := policies.Parse(policies.Default)
	if err != nil {
		return err
	}
	// Without jobs it costs the nodes alone, and finds what would otherwise be the same error of every run.
	if _, err := sim.Run(sim.Config{Cluster: s.cfg.Cluster, Model: s.model, Policy: p}); err != nil {
		return &InputError{ErrCluster, err}
	}
	return nil
}

// Run makes all runs, one per processor at a time. It keeps the error of a
// failed run, which does not stop the others; see Failed. Run returns an error
// only if ctx ends before the last run.
func (s *Study) Run(ctx context.Context) error {
	stop := func() error { return context.Cause(ctx) }
	// Before the runs: their collectors need the times for slowdowns.
	if err := s.findAlone(stop); err != nil {
		return err
	}
	all := slices.Concat(s.runs, s.references)
	configs := make([]sim.Config, len(all))
	for i, r := range all {
		r.collector = collect.New(&r.cluster, r.draft.jobs, r.draft.alone, s.cfg.Details)
		observers := append(sim.Observers{r.collector}, r.more...)
		r.outcomes = collect.NewOutcomes(r.draft.alone)
		observers = append(observers, r.outcomes)
		if s.cfg.Progress != nil {
			observers = append(observers, s.cfg.Progress)
		}
		configs[i] = sim.Config{Cluster: r.cluster, Policy: r.policy, Swaps: r.swaps, Jobs: r.draft.jobs, Seed: r.Seed,
			Model: s.model, Autoscale: s.cfg.Autoscale, Details: s.cfg.Details || s.cfg.Explain, Explain: s.cfg.Explain, Stop: stop, Observer: observers}
		if r.trace != nil {
			configs[i].Trace = r.trace.Write
		}
		// Policy auto simulates futures with package forecast, which sim cannot import.
		forecast.Choosing(&configs[i])
	}
	s.phase("simulating", len(all)/len(s.drafts))
	results, errs := sim.RunEach(configs, s.cfg.Workers)
	for i, r := range all {
		if r.result, r.err = results[i], errs[i]; r.err != nil {
			continue
		}
		r.report = r.collector.Report(r.result, r.draft.bounds)
		r.report.Policy, r.report.Seed = r.Policy, r.Seed
		// A report that contradicts itself counts as a failed run: its numbers must not be in a mean.
		r.err = r.report.Check()
	}
	// After all runs: the rule must leave out the same jobs for every policy, or it would favour the one that
	// becomes steady sooner.
	s.leaveOutWarmUp()
	s.warnStarved()
	s.warnFree()
	return stop()
}

// leaveOutWarmUp applies Config.WarmUp to all runs.
func (s *Study) leaveOutWarmUp() {
	fixed := WorkloadOf(s.cfg.Workload, nil).Fixed
	s.warmed = s.cfg.WarmUp.LeaveOut(fixed, observed(s.runs), observed(s.references), func(seed uint64) []workload.Job {
		return s.drafts[seed-s.cfg.Seed].jobs
	})
	if text := s.warmed.Warning(); text != "" {
		s.warn(text)
	}
}

// observed returns the runs that did not fail.
func observed(runs []*run) (list []collect.Observed) {
	for _, r := range runs {
		if r.err == nil {
			list = append(list, collect.Observed{Report: r.report, Outcomes: r.outcomes})
		}
	}
	return list
}

// phase reports the begin of a phase that simulates the jobs of every seed a
// number of times.
func (s *Study) phase(what string, times int) {
	if s.cfg.Progress == nil {
		return
	}
	jobs := 0
	for _, d := range s.drafts {
		jobs += times * len(d.jobs)
	}
	s.cfg.Progress.Phase(what, jobs)
}

// findAlone finds the reference of each job's slowdown. If some job cannot run
// alone under fifo, the ideal becomes the reference of all.
func (s *Study) findAlone(stop func() error) error {
	s.phase("running each job alone", 1)
	fifo := func() (sched.Policy, error) { return policies.Parse("fifo") }
	for _, d := range s.drafts {
		if s.cfg.Reference == Ideal {
			break
		}
		var observer sim.Observer
		if s.cfg.Progress != nil {
			observer = s.cfg.Progress
		}
		var err error
		d.alone, err = collect.Alone(sim.Config{Cluster: s.cfg.Cluster, Jobs: d.jobs, Seed: d.seed, Model: s.model,
			Stop: stop, Observer: observer}, fifo)
		// Asked before err: a run that was stopped has an error, too, which says nothing about the job.
		if stopped := stop(); stopped != nil {
			return stopped
		}
		if err != nil {
			s.warn(fmt.Sprintf("slowdowns are against the ideal of each job, since not all can run alone: %v", err))
			// For all seeds, also the ones that had a time alone: one study has one reference.
			s.cfg.Reference = Ideal
		}
	}
	if s.cfg.Reference == Ideal {
		for _, d := range s.drafts {
			d.alone = collect.Ideal(&s.cfg.Cluster, d.jobs, s.model)
		}
	}
	return nil
}

// Runs returns the number of runs of the study.
func (s *Study) Runs() int { return len(s.runs) }

// Failed lists the runs that ended with an error, in order.
func (s *Study) Failed() []report.Fault {
	var list []report.Fault
	for _, r := range s.runs {
		if r.err != nil {
			list = append(list, report.Fault{Policy: r.Policy, Seed: r.Seed, Error: r.err.Error()})
		}
	}
	return list
}

// Comparison is the result of a study. It is the object that "sim -o json" prints
// and report.json holds.
type Comparison struct {
	*report.Study
	// Waits says why the jobs of each run waited, with Config.Explain.
	Waits []RunWaits `json:"waits,omitempty"`
}

// RunWaits says why the jobs of a run waited.
type RunWaits struct {
	Policy string    `json:"policy"`
	Seed   uint64    `json:"seed"`
	Jobs   []JobWait `json:"jobs"`
}

// JobWait says why a job waited, longest first.
type JobWait struct {
	Job   int    `json:"job"` // position in the workload, from 0
	Name  string `json:"name"`
	ID    string `json:"id"`
	Waits []Wait `json:"waits"`
}

// Wait says how long the tasks of a kind waited for one reason. It has the keys of
// mapreduce.Wait, so that the JSON of sim and run is read alike.
type Wait struct {
	Tasks  string        `json:"tasks"` // map or reduce
	For    time.Duration `json:"for_ns"`
	Reason string        `json:"reason"`
}

// Total returns how long the job waited, maps and reduces together.
func (j *JobWait) Total() time.Duration {
	sum := time.Duration(0)
	for _, x := range j.Waits {
		sum += x.For
	}
	return sum
}

// Comparison puts the reports of all runs together. Call it after Run.
func (s *Study) Comparison() Comparison {
	out := &report.Study{Workload: s.cfg.Workload.Name, Cluster: s.cfg.ClusterName, World: s.cfg.World, Heartbeat: s.heartbeat(),
		Slowdown: s.cfg.Reference, Policies: []collect.Across{}, Runs: []*collect.Report{}, Failed: s.Failed(),
		Assumed: s.cfg.Workload.Assumed, Warnings: slices.Concat(s.cfg.Workload.Warnings, s.warnings)}
	for _, r := range s.runs {
		if r.err == nil {
			out.Runs = append(out.Runs, r.report)
		}
	}
	out.Policies = append(out.Policies, collect.Over(out.Runs)...)
	out.WarmUp = s.warmed
	out.Bound, _ = s.bounded()
	for _, r := range s.references {
		if r.err == nil {
			out.References = append(out.References, r.report)
		}
	}
	out.Pairs = s.pairs()
	out.Jobs = s.spread()
	if s.origin != nil {
		r := *s.origin
		// The result is no part of what RecordID digests, so the same command has one id before and after its
		// runs.
		r.Result = digestRuns(out.Runs)
		out.Record = &r
	}
	return Comparison{out, s.waits()}
}

// pairs compares each policy with the first one.
func (s *Study) pairs() []collect.Pair {
	w := WorkloadOf(s.cfg.Workload, s.drafts[0].jobs)
	return collect.CompareAll(observed(s.runs), func(uint64) collect.Workload { return w })
}

// WorkloadOf describes a workload for comparisons. The jobs of a trace are one sample,
// whatever the seed; the jobs of a mix are drawn or, if listed, chosen by the user.
func WorkloadOf(w *Workload, jobs []workload.Job) collect.Workload {
	if _, recorded := w.Source.(*workload.Trace); !recorded {
		return collect.Workload{}
	}
	out := collect.Workload{Fixed: true}
	for i := range jobs {
		out.Submitted = append(out.Submitted, jobs[i].Submit.Seconds())
	}
	return out
}

// heartbeat describes the interval between the heartbeats of a node when all nodes are up.
func (s *Study) heartbeat() string {
	nodes := 0
	for _, g := range s.cfg.Cluster.Groups {
		nodes += g.Count
	}
	rule, interval, err := sim.HeartbeatOf(cmp.Or(s.model.Heartbeat, s.cfg.Cluster.Heartbeat), nodes)
	if err != nil { // checkCluster has parsed it
		return ""
	}
	return fmt.Sprintf("%v (%s)", interval, rule)
}

// warn passes a warning on and keeps it for the report.
func (s *Study) warn(text string) {
	s.warnings = append(s.warnings, text)
	s.cfg.Warn(text)
}

// warnStarved warns of each policy that leaves slots idle while maps wait, with the
// numbers of its worst seed.
func (s *Study) warnStarved() {
	// New lists runs by policy and then by seed.
	for runs := range slices.Chunk(s.runs, len(s.drafts)) {
		var worst collect.Starved
		for _, r := range runs {
			if r.err == nil && r.report.Starved.Time > worst.Time {
				worst = r.report.Starved
			}
		}
		if text := worst.Warning(runs[0].Policy); text != "" {
			s.warn(text)
		}
	}
}

// warnFree warns of each policy whose attempts cost nothing, with the numbers of its first
// such seed.
func (s *Study) warnFree() {
	for runs := range slices.Chunk(s.runs, len(s.drafts)) {
		for _, r := range runs {
			if r.err == nil && r.report.Free > 0 {
				s.warn(r.report.FreeWarning())
				break
			}
		}
	}
}

// waits collects why the jobs of each run waited, if Config.Explain is set.
func (s *Study) waits() []RunWaits {
	if !s.cfg.Explain {
		return nil
	}
	var all []RunWaits
	for _, r := range s.runs {
		if r.err != nil {
			continue
		}
		w := RunWaits{Policy: r.Policy, Seed: r.Seed, Jobs: []JobWait{}}
		for i := range r.result.Jobs {
			j := &r.result.Jobs[i]
			x := JobWait{Job: i, Name: r.draft.jobs[i].Name, ID: j.ID.String(), Waits: []Wait{}}
			for _, h := range j.Waits {
				x.Waits = append(x.Waits, Wait{Tasks: h.Kind.String(), For: h.For, Reason: h.Words})
			}
			w.Jobs = append(w.Jobs, x)
		}
		all = append(all, w)
	}
	return all
}
