// Package calibrate fits a cluster and the overheads of its daemons to a trace that states
// when its jobs ended. A trace rarely says how many slots its cluster had, and a replay on
// other slots says little about that cluster.
//
// The fit changes one or two parameters at a time and keeps the values with the least
// error, until no change helps. It uses the first jobs of the trace only. The later ones
// judge it.
// The search is a coordinate descent over lists of values, because a run is a step function of whole slots:
// it has no gradient, and its error has plateaus. A trace of jobs that never waited is explained by every
// large cluster, which is why a fit also reports the clusters with about the same error (Result.Equals).
package calibrate

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched"
)

// Config describes a fit.
type Config struct {
	// Jobs are the jobs of the trace by time of submission. Recorded are their response
	// times in the traced run; a job with 0 has none and judges nothing.
	Jobs     []workload.Job
	Recorded []time.Duration
	// Cluster is where the fit starts: one group. Its number of nodes is kept if KeepNodes is set.
	Cluster   workload.Cluster
	KeepNodes bool
	// Model is where the fit starts. Its overheads of set-up and clean-up are fitted, as one
	// value for both, because response times show only their sum.
	Model sim.ModelConfig
	// Policy makes a fresh policy for each run.
	Policy func() (sched.Policy, error)
	Seed   uint64
	// Stop ends the fit when it returns an error, as sim.Config.Stop.
	Stop func() error
	// Step is called after each run with the number of runs so far, unless it is nil.
	Step func(runs int)
}

// Result is a fit.
type Result struct {
	Cluster workload.Cluster
	Model   sim.ModelConfig
	// Fitted are the errors on the jobs that the fit used, HeldOut on the others.
	Fitted, HeldOut Error
	// Equals are fits with other numbers of nodes that explain the trace as well: their errors on
	// the jobs that the fit used are within sameScore of the best. It is empty with Config.KeepNodes.
	Equals []Fitting
	// NodesKnown says that the trace tells the number of nodes: Equals has none that is more
	// than a quarter away. It is false with Config.KeepNodes.
	NodesKnown bool
	// Runs is the number of simulations.
	Runs int
}

// Fitting is a cluster that was tried, with its overheads of set-up and clean-up each.
type Fitting struct {
	Nodes, Maps, Reduces int
	Overhead             time.Duration
}

// Error summarizes relative errors of response times.
type Error struct {
	// Jobs is the number of jobs with a recorded response time.
	Jobs int `json:"jobs"`
	// Median and P90 are quantiles of the absolute relative errors. Bias is the median of
	// the relative errors: below 0 the simulated jobs are too fast.
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
	Bias   float64 `json:"bias"`
}

// heldOut is the fraction of the jobs that the fit does not use.
const heldOut = 0.3

// leastJobs is the least number of recorded jobs in each part of the trace.
const leastJobs = 3

// sameScore is the difference of scores that two clusters must have for the trace to distinguish them
// from each other. A score is a sum of two relative errors.
const sameScore = 0.02

// mostApart is the largest factor between the numbers of nodes that are compared.
const mostApart = 4

// farNodes is the factor between two numbers of nodes that count as different.
const farNodes = 1.25

// maxPasses bounds how often the fit goes through the parameters.
const maxPasses = 4

// The values that the fit tries.
var (
	nodeCounts = []int{1, 2, 3, 5, 8, 12, 20, 30, 50, 80, 120, 200, 300, 500, 800, 1200, 2000}
	slotCounts = []int{1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24}
	overheads  = []time.Duration{0, 500 * time.Millisecond, time.Second, 1500 * time.Millisecond, 2 * time.Second, 3 * time.Second,
		4 * time.Second, 6 * time.Second, 8 * time.Second, 12 * time.Second, 16 * time.Second, 20 * time.Second}
)

// Fit fits the number of nodes, their slots and the times of set-up and clean-up.
func Fit(c Config) (*Result, error) {
	if len(c.Jobs) != len(c.Recorded) {
		return nil, fmt.Errorf("%d jobs and %d recorded response times", len(c.Jobs), len(c.Recorded))
	}
	// The last jobs are held out. They show whether the fit predicts, or has only learned the jobs
	// by heart.
	// By time and not at random: jobs that overlap would otherwise be on both sides.
	cut := len(c.Jobs) - int(heldOut*float64(len(c.Jobs)))
	if recorded(c.Recorded[:cut]) < leastJobs || recorded(c.Recorded[cut:]) < leastJobs {
		return nil, fmt.Errorf("of %d jobs, %d of the first %d and %d of the others state when they ended; a fit needs %d of each", len(c.Jobs),
			recorded(c.Recorded[:cut]), cut, recorded(c.Recorded[cut:]), leastJobs)
	}
	if len(c.Cluster.Groups) != 1 {
		return nil, errors.New("the cluster must be one group of equal nodes")
	}
	f := &fit{c: c, cut: cut, best: candidate{c.Cluster, c.Model}}
	f.best.cluster.Groups = slices.Clone(c.Cluster.Groups)
	var err error
	// The starting point is a candidate, so the fit is never worse than the user's guess.
	if f.least, err = f.score(f.best); err != nil {
		return nil, err
	}
	for range maxPasses {
		before := f.least
		if err := f.pass(); err != nil {
			return nil, err
		}
		// A pass that changes nothing would be repeated exactly: runs depend on the candidate alone.
		if f.least >= before {
			break
		}
	}
	if math.IsInf(f.least, 1) {
		return nil, fmt.Errorf("the trace runs on none of the clusters that were tried: %w", f.failed)
	}
	var equals []Fitting
	if !c.KeepNodes {
		if equals, err = f.compareNodes(); err != nil {
			return nil, err
		}
	}
	r := &Result{Cluster: f.best.cluster, Model: f.best.model, Equals: equals, Runs: f.runs + 1}
	r.NodesKnown = !c.KeepNodes && nodesKnown(f.best.cluster.Groups[0].Count, equals)
	// The whole trace: the held-out jobs meet the load of the fitted ones.
	errs, err := f.run(f.best, len(c.Jobs))
	if err != nil {
		return nil, err
	}
	r.Fitted, r.HeldOut = summarize(errs[:cut]), summarize(errs[cut:])
	return r, nil
}

// recorded counts the jobs with a recorded response time.
func recorded(list []time.Duration) int {
	n := 0
	for _, d := range list {
		if d > 0 {
			n++
		}
	}
	return n
}

// candidate is a cluster with its overheads.
type candidate struct {
	cluster workload.Cluster
	model   sim.ModelConfig
}

// with returns a copy with another group of nodes. Names of hosts are of the number of nodes in the user's file.
func (x candidate) with(set func(g *workload.NodeGroup)) candidate {
	x.cluster.Groups = slices.Clone(x.cluster.Groups)
	set(&x.cluster.Groups[0])
	x.cluster.Resize(x.cluster.Groups[0].Count, x.cluster.Racks)
	return x
}

// fit is a fit in progress.
type fit struct {
	c      Config
	cut    int // jobs that the fit uses
	best   candidate
	least  float64 // score of best
	runs   int
	failed error // of the last run that could not end
}

// pass tries the numbers of nodes, then the slots of each kind together with the
// overheads. Slots and overheads cannot be fitted one after the other: more slots with more
// overhead explain the same response times almost as well.
func (f *fit) pass() error {
	if !f.c.KeepNodes {
		for _, n := range nodeCounts {
			if err := f.try(f.best.with(func(g *workload.NodeGroup) { g.Count = n })); err != nil {
				return err
			}
		}
	}
	for _, set := range []func(g *workload.NodeGroup, n int){
		func(g *workload.NodeGroup, n int) { g.MapSlots = n },
		func(g *workload.NodeGroup, n int) { g.ReduceSlots = n },
	} {
		// The other kind's slots stay while this kind's are tried; best may change on the way.
		from := f.best
		for _, n := range slotCounts {
			x := from.with(func(g *workload.NodeGroup) { set(g, n) })
			for _, d := range overheads {
				x.model.Overheads.Setup, x.model.Overheads.Cleanup = d, d
				if err := f.try(x); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// nodesKnown reports whether all fits that are as good have about n nodes.
func nodesKnown(n int, equals []Fitting) bool {
	return !slices.ContainsFunc(equals, func(x Fitting) bool {
		return max(float64(n)/float64(x.Nodes), float64(x.Nodes)/float64(n)) > farNodes
	})
}

// compareNodes refines the number of nodes and returns the fits with other numbers that are as
// good. A number of nodes is compared with the slots of which the cluster has about as
// many in all, because more nodes with fewer slots each explain the waits as well.
func (f *fit) compareNodes() ([]Fitting, error) {
	g := f.best.cluster.Groups[0]
	maps, reduces := g.Count*g.MapSlots, g.Count*g.ReduceSlots
	type tried struct {
		candidate
		score float64
	}
	var all []tried
	var counts []int
	for _, n := range nodeCounts {
		if n*mostApart >= g.Count && n <= g.Count*mostApart {
			counts = append(counts, n)
		}
	}
	// The list of counts rises by about a half each time. Around the best one the steps are an
	// eighth.
	for n := max(1, g.Count*3/4); n <= g.Count*5/4; n += max(1, g.Count/8) {
		counts = append(counts, n)
	}
	slices.Sort(counts)
	for _, n := range slices.Compact(counts) {
		perMap, perReduce := slotsOf(maps, n), slotsOf(reduces, n)
		for _, x := range [...]struct{ maps, reduces int }{{perMap, perReduce}, {g.MapSlots, g.ReduceSlots}} {
			if x.maps > slotCounts[len(slotCounts)-1] || x.reduces > slotCounts[len(slotCounts)-1] {
				continue
			}
			y := f.best.with(func(g *workload.NodeGroup) { g.Count, g.MapSlots, g.ReduceSlots = n, x.maps, x.reduces })
			score, err := f.score(y)
			if err != nil {
				return nil, err
			}
			all = append(all, tried{y, score})
		}
	}
	for _, x := range all {
		// All are scored before one is kept: the comparison below must be with the best one.
		if x.score < f.least {
			f.best, f.least = x.candidate, x.score
		}
	}
	var equals []Fitting
	for _, x := range all {
		g := x.cluster.Groups[0]
		y := Fitting{g.Count, g.MapSlots, g.ReduceSlots, x.model.Overheads.Setup}
		if x.score <= f.least+sameScore && g.Count != f.best.cluster.Groups[0].Count && !slices.Contains(equals, y) {
			equals = append(equals, y)
		}
	}
	return equals, nil
}

// slotsOf returns the slots of each of n nodes that have about as many in all.
func slotsOf(all, n int) int {
	if all == 0 {
		return 0
	}
	return max(1, (all+n/2)/n)
}

// try keeps a candidate if it is the best one so far.
func (f *fit) try(x candidate) error {
	score, err := f.score(x)
	// Strictly better: of equal candidates the first one tried stays, and lists begin with small clusters.
	if err == nil && score < f.least {
		f.best, f.least = x, score
	}
	return err
}

// score returns the error that the fit makes as small as possible: the sum of the median
// and the mean of the absolute relative errors. The median alone would not see the few jobs
// that waited for a slot. An error counts as 1 at most. A run that cannot end is infinitely
// bad.
func (f *fit) score(x candidate) (float64, error) {
	errs, err := f.run(x, f.cut)
	f.runs++
	if f.c.Step != nil {
		f.c.Step(f.runs)
	}
	if err != nil {
		// A stopped run is no bad candidate.
		if f.c.Stop != nil && f.c.Stop() != nil {
			return 0, err
		}
		f.failed = err
		return math.Inf(1), nil
	}
	sum, n := 0., 0
	for _, e := range errs {
		if !math.IsNaN(e) {
			sum += min(math.Abs(e), 1)
			n++
		}
	}
	return summarize(errs).Median + sum/float64(max(1, n)), nil
}

// run replays the first jobs and returns the relative error of each response time; NaN
// where none is recorded.
func (f *fit) run(x candidate, jobs int) ([]float64, error) {
	p, err := f.c.Policy()
	if err != nil {
		return nil, err
	}
	// One seed for all candidates: placement and overheads have the same luck, so scores differ by the
	// cluster alone. The first jobs alone: the later ones judge the fit. The last of the first meet a little
	// less load than in the trace.
	r, err := sim.Run(sim.Config{Cluster: x.cluster, Policy: p, Jobs: f.c.Jobs[:jobs], Seed: f.c.Seed, Model: x.model, Details: true, Stop: f.c.Stop})
	if err != nil {
		return nil, err
	}
	errs := make([]float64, jobs)
	for i := range errs {
		errs[i] = math.NaN()
		if was := f.c.Recorded[i]; was > 0 && r.Jobs[i].Ended >= 0 {
			errs[i] = (r.Jobs[i].Ended-r.Jobs[i].Submitted).Seconds()/was.Seconds() - 1
		}
	}
	return errs, nil
}

// summarize returns the quantiles of the errors that are numbers.
func summarize(errs []float64) Error {
	var bias, abs []float64
	for _, e := range errs {
		if !math.IsNaN(e) {
			bias, abs = append(bias, e), append(abs, math.Abs(e))
		}
	}
	if len(abs) == 0 {
		return Error{}
	}
	slices.Sort(bias)
	slices.Sort(abs)
	// The nearest rank, an error that a job really had.
	at := func(list []float64, q float64) float64 { return list[min(len(list)-1, int(q*float64(len(list))))] }
	return Error{Jobs: len(abs), Median: at(abs, 0.5), P90: at(abs, 0.9), Bias: at(bias, 0.5)}
}
