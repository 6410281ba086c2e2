package repro

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/metrics"
	"github.com/slotwise/slotwise/internal/sched/learning"
	"github.com/slotwise/slotwise/internal/sim"
	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/workload"
	"github.com/slotwise/slotwise/sched"
)

// learningExperiments are those of the learning scheduler, in the order of the
// paper.
func learningExperiments() []Experiment {
	exp := func(id, title string, run func(context.Context, Options) (*Report, error), setup ...string) Experiment {
		return Experiment{ID: "learning/" + id, Title: title, Setup: append(lnSetup(), setup...), Assumptions: lnAssumptions(), Run: run}
	}
	return []Experiment{
		exp("fig8", "Learning: WordCount, run after run", runLearningRuns, "WordCount on 70 GB, 1120 maps, six times in a row; target 1"),
		exp("fig9", "Targets from 1 to 4", runLearningTargets, "TextWriter, then WordCount and Grep, 160 maps each; the learning phase is counted in"),
		exp("fig10", "Accuracy of decisions", runLearningAccuracy, "URLGet and CPUActivity, each alone; the share of accurate ones in each 250 decisions"),
		exp("fig11", "Tasks per node and run times against five slots", runLearningNative,
			"Each job alone, 160 maps of 60 s, ten times in a row; Hadoop's FIFO scheduler with 5 map slots a node"),
	}
}

func lnSetup() []string {
	return []string{"7 workers of 4 processors; heartbeats every 5 s; Hadoop 0.20",
		"Naive Bayes, one task a heartbeat, constant utility; a node is overloaded when its one-minute load average is above target times 4",
		"Job hints are those of Fig. 7"}
}

func lnAssumptions() []string {
	return []string{
		"What a task adds to the load average is 4/m, m being the mean tasks per node that the paper's scheduler came to at target 1 (Fig. 11). " +
			"The scheduler is not told: the experiments show whether it finds m, and what follows from it",
		"Tasks of all jobs but CPUActivity, which only computes, differ: each adds between nothing and twice the mean (uniform), since they block on disk or network",
		"Tasks last as long beside others as alone: the paper's were made to last 60 s. In Fig. 8 they last 31.2 s: what 1120 maps at 2.31 a node on 7 nodes need to end in the 36 minutes stated",
		"The load average follows what runs as Unix's does: it forgets over a minute. Memory is not modelled and left out of the features",
		"Refused decisions are learned from as well (specification Q5); Laplace's smoothing. \"slow\" is the cautious reading: histogram, finer load, only wrong refusals",
		"Grep's hints and load are not given: hints 3, 5, 5, 3, and a core for each task",
	}
}

// lnJob is a row of Figs. 7 and 11.
type lnJob struct {
	name   string
	hints  job.Profile // CPU, memory, disk, network
	tasks  float64     // mean per node under the paper's scheduler; 0 is unknown
	ratio  string      // of run times to those of five slots, as printed
	steady bool        // tasks do not differ
}

var lnJobs = []lnJob{
	{"TextWriter", job.Profile{CPU: 3, Memory: 5, Disk: 5, Network: 3}, 2.03, "2.5", false},
	{"WordCount", job.Profile{CPU: 5, Memory: 6, Disk: 8, Network: 5}, 2.31, "2", false},
	{"WordCount+10ms", job.Profile{CPU: 1, Memory: 6, Disk: 6, Network: 4}, 10.52, "0.4", false},
	{"URLGet", job.Profile{CPU: 3, Memory: 4, Disk: 6, Network: 7}, 8.35, "0.6", false},
	{"URLToDisk", job.Profile{CPU: 3, Memory: 5, Disk: 7, Network: 8}, 5.09, "1", false},
	{"CPUActivity", job.Profile{CPU: 10, Memory: 5, Disk: 5, Network: 3}, 3.17, "1.5", true},
	{"Grep", job.Profile{CPU: 3, Memory: 5, Disk: 5, Network: 3}, 4, "", false},
}

// lnFig11 are the jobs of Fig. 11.
var lnFig11 = lnJobs[:6]

func lnFind(name string) *lnJob {
	return &lnJobs[slices.IndexFunc(lnJobs, func(j lnJob) bool { return j.name == name })]
}

const (
	lnNodes = 7
	lnCores = 4
	lnSlots = 5 // of the native scheduler
)

// run is one run of the job with so many maps.
func (x *lnJob) run(seed uint64, index, maps int, each time.Duration) workload.Job {
	g := rand.New(rand.NewPCG(seed, 0x6c6561726e0a+uint64(index)))
	j := workload.Job{Name: fmt.Sprint(x.name, index+1), App: x.name, Maps: make([]workload.Task, maps),
		Profile: [job.Kinds]job.Profile{x.hints, x.hints}}
	for i := range j.Maps {
		load := lnCores / x.tasks
		if !x.steady {
			load *= 2 * g.Float64()
		}
		j.Maps[i] = workload.Task{Duration: each, CPU: max(1, time.Duration(load*float64(each)))}
	}
	return j
}

// lnFeatures leaves memory out.
const lnFeatures = "cpu,memory,disk,network,load,busy,tasks"

// lnScheduler is a learning scheduler by the name of the reports.
type lnScheduler struct {
	name, spec string
	set        []string
}

func lnBayes() lnScheduler {
	return lnScheduler{"naive Bayes", "learning-nb", []string{"features", lnFeatures, "utility", "constant"}}
}

func (x lnScheduler) with(name string, set ...string) lnScheduler {
	return lnScheduler{name, x.spec, slices.Concat(x.set, set)}
}

func lnSlow() lnScheduler {
	return lnScheduler{"slow", "learning-nb", []string{"profile", "slow", "features", "cpu,memory,disk,network,load_fine,busy,tasks", "utility", "constant"}}
}

func lnPerceptron() lnScheduler {
	return lnScheduler{"perceptron", "learning-perceptron", []string{"features", lnFeatures, "utility", "constant"}}
}

// lnNative is Hadoop's scheduler with a fixed number of slots.
func lnNative() lnScheduler { return lnScheduler{"five slots", "fifo,speculate=none", nil} }

// lnWatch takes the load average of nodes with each heartbeat, and how many tasks
// run.
type lnWatch struct {
	policy  sched.Policy
	samples []lnSample
	running metrics.Level
	// half is the area of running up to the time middle.
	middle time.Duration
	half   float64
	passed bool
}

// lnSample is the load of a node, per processor.
type lnSample struct {
	at time.Duration
	r  float64
}

func (w *lnWatch) trace(now time.Duration, ev tracker.Event, _ []tracker.Effect) {
	if b, ok := ev.(*tracker.Heartbeat); ok {
		w.samples = append(w.samples, lnSample{now, b.Load.LoadAverage / lnCores})
	}
}

// Observe implements sim.Observer.
func (w *lnWatch) Observe(e *sim.Event) {
	if !w.passed && e.At >= w.middle {
		w.passed, w.half = true, w.running.Area(w.middle)
	}
	switch e.Kind {
	case sim.AttemptStarted:
		w.running.Add(e.At, 1)
	case sim.AttemptEnded:
		w.running.Add(e.At, -1)
	}
}

// accuracy is the share of accurate decisions in each block of 250.
func (w *lnWatch) accuracy() []float64 {
	s := w.policy.(*sched.Composition).Slots.(interface{ Learner() *learning.Learner })
	return s.Learner().Accuracy().Blocks
}

// over describes the load between two times: its mean, the greatest, and the share
// of samples above a target.
func (w *lnWatch) over(from, to time.Duration, target float64) (mean, peak, above float64) {
	n := 0.0
	for _, s := range w.samples {
		if s.at < from || s.at >= to {
			continue
		}
		n++
		mean, peak = mean+s.r, max(peak, s.r)
		if s.r > target {
			above++
		}
	}
	if n == 0 {
		return 0, 0, 0
	}
	return mean / n, peak, above / n
}

// lnConfig is a run, which ends at a time unless that is 0.
func lnConfig(x lnScheduler, jobs []workload.Job, seed uint64, until time.Duration) (sim.Config, *lnWatch) {
	p := policy(x.spec, seed, x.set...)
	w := &lnWatch{policy: p, middle: until / 2}
	return sim.Config{Cluster: workload.Cluster{Heartbeat: "fixed:5s", Groups: []workload.NodeGroup{
		{Name: "node", Count: lnNodes, Cores: lnCores, MapSlots: lnSlots}}}, Policy: p, Jobs: jobs, Seed: seed, Details: true,
		Until: until, Observer: w, Trace: w.trace}, w
}

// lnBatch collects runs.
type lnBatch struct {
	configs []sim.Config
	watches []*lnWatch
}

func (b *lnBatch) add(x lnScheduler, jobs []workload.Job, seed uint64, until time.Duration) {
	c, w := lnConfig(x, jobs, seed, until)
	b.configs, b.watches = append(b.configs, c), append(b.watches, w)
}

// chained makes each job come after the one before it.
func chained(jobs []workload.Job) []workload.Job {
	for i := range jobs {
		if i > 0 {
			jobs[i].After = []int{i - 1}
		}
	}
	return jobs
}

// endless is one run of a job with more maps than nodes can do in a time.
func (x *lnJob) endless(seed uint64, until, each time.Duration) []workload.Job {
	most := lnNodes * int(until/(5*time.Second)) // one a heartbeat
	return []workload.Job{x.run(seed, 0, most, each)}
}
