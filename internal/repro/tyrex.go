package repro

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/workload"
)

// tyrexExperiments are those of Tyrex, in the order of the paper.
func tyrexExperiments() []Experiment {
	load := "Poisson arrivals; the load is 0.7 of all 160 slots"
	exp := func(id, title string, run func(context.Context, Options) (*Report, error), setup ...string) Experiment {
		return Experiment{ID: "tyrex/" + id, Title: title, Setup: append(tySetup(), setup...), Assumptions: tyAssumptions(), Run: run}
	}
	return []Experiment{
		exp("fig3", "The cost of moving a job", runTyrexOverhead, "One job of 600 maps and 60 reduces alone; two partitions of half the slots; "+
			"a timer never reached against one of half the job's size"),
		exp("table2-fig5", "The three workloads, and the cut of their sizes", runTyrexWorkloads),
		exp("fig6-9", "STATICTAGS: the best timer for each capacity, use of partitions, slowdowns", runTyrexStatic, load),
		exp("fig10-13", "DYNAMICTAGS: the timer that it finds, use of partitions, slowdowns", runTyrexDynamic, load),
		exp("fig14-15", "Against FIFO and fair sharing", runTyrexCompare, load, "P_1 has 30 % of the slots"),
		exp("fig16", "HVW under a load of 0.9", runTyrexStress, "Poisson arrivals; the load is 0.9 of all 160 slots", "P_1 has 30 % of the slots"),
	}
}

func tySetup() []string {
	return []string{"20 nodes of 8 cores with 6 map and 2 reduce slots each; Hadoop 1.0.0",
		"Workloads of 300 jobs with the totals, counts and CV² of Table II; tiny jobs below a minute of total work, large ones above 100 minutes",
		"Slowdown is response time over the time of the same job alone on all slots, measured by 300 runs of one job each"}
}

func tyAssumptions() []string {
	return []string{
		"The sizes of single jobs are lost with the figures. Three log-normal classes stand for them: HVW 222 jobs of 28 s, 60 of 100 s and 18 " +
			"large ones; MVW 165 of 28 s, 90 of 150 s, 45 large; LVW 90 of 30 s, 96 of 180 s, 114 large. Small classes have CV² 1; mean and " +
			"CV² of the large class follow from Table II. So more than 60 % of jobs are below 10 minutes and the 10-minute cut leaves about 10 % of the load of HVW, as stated",
		"Maps take 34 s and reduces 29 s in the mean, the numbers of Table II if reduces have a tenth of the work: of the parts tried the one with which jobs alone take the times most like those of Table II (tyrex/table2-fig5); the tasks of a job are equal; a job has a reduce at least",
		"Reduces start after all maps (1.0), unless said otherwise; heartbeats every 3 s, Hadoop 1.0's; no speculation",
		"DYNAMICTAGS judges by jobs in the partition and those that have left it (reading C0 of the specification), without a window",
		"A job is done in the partition that its last task was launched in. Use of a partition is the work done there over its slots and the span of submissions",
		"FAIR shares by number of tasks, as the paper says: each job is a pool whose weight is its tasks. Hadoop's equal weights are beside it",
	}
}

// tyWorkload is a row of Table II and our classes for it.
type tyWorkload struct {
	name                string
	cv2                 float64
	maps, reduces       int     // in total
	cpu, alone          float64 // total processor time and total time of jobs alone, hours
	tiny, short         workload.Class
	large               int
	timerLow, timerHigh float64 // of DYNAMICTAGS in Fig. 10, s
	tyWorld
}

// tyWorld is what had to be assumed of a workload's tasks.
type tyWorld struct {
	// shorter divides the times of tasks, and multiplies their number.
	shorter float64
	// inReduces is the part of the work that is in reduces.
	inReduces float64
}

func tyClass(name string, count int, mean float64) workload.Class {
	return workload.Class{Name: name, Count: count, Work: workload.LogNormalCV2(mean, 1), TaskTime: 33, ReduceShare: tyReduceShare}
}

const (
	tyJobs        = 300
	tySlots       = 160
	tyReduceShare = workload.TyrexReduceShare
)

// tyAssumed is the world of all experiments but those that explain.
var tyAssumed = tyWorld{1, tyReduceShare}

func tyWorkloads() []tyWorkload {
	return []tyWorkload{
		{"HVW", 20, 6139, 788, 63.6, 3.51, tyClass("tiny", 222, 28), tyClass("short", 60, 100), 18, 50, 300, tyAssumed},
		{"MVW", 10, 11866, 1368, 124.6, 3.98, tyClass("tiny", 165, 28), tyClass("short", 90, 150), 45, 100, 500, tyAssumed},
		{"LVW", 4, 30576, 3089, 306.9, 5.31, tyClass("tiny", 90, 30), tyClass("short", 96, 180), 114, 500, 2500, tyAssumed},
	}
}

// largeClass solves mean and CV² of the large jobs, so that all jobs together have
// those of Table II.
func (w *tyWorkload) largeClass() workload.Class {
	all := w.cpu * 3600 / tyJobs
	sum, squares := tyJobs*all, tyJobs*(w.cv2+1)*all*all
	for _, c := range []workload.Class{w.tiny, w.short} {
		m := c.Work.Mean()
		sum -= float64(float64(c.Count) * m)
		squares -= float64(float64(c.Count) * 2 * m * m) // E[X²] = (1 + CV²)·m²
	}
	n := float64(w.large)
	m := sum / n
	c := tyClass("large", w.large, m)
	c.Work = workload.LogNormalCV2(m, squares/n/(m*m)-1)
	return c
}

// jobs draws the workload at a load; gate is the slow start of reduces.
func (w *tyWorkload) jobs(seed uint64, load, gate float64) ([]workload.Job, error) {
	mix := workload.Mix{Order: workload.Shuffled, Classes: []workload.Class{w.tiny, w.short, w.largeClass()},
		Arrivals: workload.Arrivals{Kind: workload.AtLoad, Load: load, Slots: tySlots}}
	jobs, err := mix.Jobs(seed)
	if err != nil {
		return nil, err
	}
	work := w.cpu * 3600
	mapTime := (1 - w.inReduces) * work / float64(w.maps) / w.shorter
	reduceTime := w.inReduces * work / float64(w.reduces) / w.shorter
	for i := range jobs {
		j := &jobs[i]
		size := tySize(j)
		j.SlowStart = gate
		j.Maps = tyTasks((1-w.inReduces)*size, mapTime)
		j.Reduces = tyTasks(w.inReduces*size, reduceTime)
	}
	return jobs, nil
}

// tyTasks shares work out to as many equal tasks as last about so long, one at
// least.
func tyTasks(work, each float64) []workload.Task {
	tasks := make([]workload.Task, int(max(1, math.Round(work/each))))
	for i := range tasks {
		tasks[i].Duration = time.Duration(work / float64(len(tasks)) * 1e9).Round(time.Millisecond)
	}
	return tasks
}

// tySize is the work of a job's tasks, in seconds.
func tySize(j *workload.Job) float64 {
	sum := time.Duration(0)
	for _, tasks := range [job.Kinds][]workload.Task{j.Maps, j.Reduces} {
		for _, t := range tasks {
			sum += t.Duration
		}
	}
	return sum.Seconds()
}

func tySizes(jobs []workload.Job) []float64 {
	sizes := make([]float64, len(jobs))
	for i := range jobs {
		sizes[i] = tySize(&jobs[i])
	}
	return sizes
}

func tyCluster() workload.Cluster {
	return workload.Cluster{Heartbeat: "hadoop-1.0", Groups: []workload.NodeGroup{
		{Name: "node", Count: 20, Cores: 8, MapSlots: 6, ReduceSlots: 2}}}
}

// tyScheduler is a policy of the comparison; set returns its settings, which may
// depend on the jobs.
type tyScheduler struct {
	name, spec string
	set        func(jobs []workload.Job) []string
}

func tyPlain(name, spec string, set ...string) tyScheduler {
	return tyScheduler{name, spec, func([]workload.Job) []string { return set }}
}

func tyFIFO() tyScheduler { return tyPlain("FIFO", "fifo,speculate=none") }

func tyFair() tyScheduler {
	return tyPlain("FAIR, equal weights", "fair,speculate=none,place=greedy")
}

// tyFairTasks weighs jobs by their number of tasks. runTyrex gives each job a pool
// of its own.
func tyFairTasks() tyScheduler {
	return tyScheduler{"FAIR, by tasks", "fair,speculate=none,place=greedy", func(jobs []workload.Job) []string {
		pools := ""
		for i := range jobs {
			pools += fmt.Sprintf("pool %s weight=%d;", tyPool(i), len(jobs[i].Maps)+len(jobs[i].Reduces))
		}
		return []string{"pools", pools}
	}}
}

func tyPool(i int) string { return fmt.Sprint("job", i+1) }

// tyShares are the capacities of two partitions, the first having so many percent.
func tyShares(first int) string { return fmt.Sprintf("0.%02d,0.%02d", first, 100-first) }

func tyStatic(first int, timer time.Duration) tyScheduler {
	return tyPlain("STATICTAGS", "statictags,speculate=none", "capacities", tyShares(first), "timers", timer.String(), "reduce-gate", "0", "lend", "false")
}

func tyDynamic(first int, set ...string) tyScheduler {
	return tyPlain("DYNAMICTAGS", "dynamictags,speculate=none", append([]string{"capacities", tyShares(first), "window", "0", "lend", "false",
		"reduce-gate", "0"}, set...)...)
}
