package workload

import (
	"time"

	"github.com/slotwise/slotwise/sched/job"
)

// learningJob is a job of the learning scheduler's Figures 7 and 11.
type learningJob struct {
	app   string
	hints job.Ratings // Figure 7
	// tasks is the mean number of tasks that the scheduler ran on a node at a
	// target load of 4 (Figure 11). A task therefore weighs 4/tasks.
	tasks float64
}

// learningJobs lists the jobs of the figures.
var learningJobs = []learningJob{
	{"textwriter", job.Ratings{CPU: 3, Memory: 5, Disk: 5, Network: 3}, 2.03},
	{"wordcount", job.Ratings{CPU: 5, Memory: 6, Disk: 8, Network: 5}, 2.31},
	{"wordcount-delay", job.Ratings{CPU: 1, Memory: 6, Disk: 6, Network: 4}, 10.52},
	{"urlget", job.Ratings{CPU: 3, Memory: 4, Disk: 6, Network: 7}, 8.35},
	{"urltodisk", job.Ratings{CPU: 3, Memory: 5, Disk: 7, Network: 8}, 5.09},
	{"cpuactivity", job.Ratings{CPU: 10, Memory: 5, Disk: 5, Network: 3}, 3.17},
	// The paper says nothing about Grep: its hints are the middle of the
	// others' scale, and its weight is WordCount's.
	{"grep", job.Ratings{CPU: 3, Memory: 5, Disk: 5, Network: 3}, 2.31},
}

const (
	learningTarget = 4.
	learningTask   = time.Minute // what the comparison's tasks are made to last
	learningMaps   = 160         // 10 GB in blocks of 64 MB
)

// learningAssumed are the assumptions of all these workloads.
var learningAssumed = []string{
	"a task weighs 4/m on the load average, m being the tasks on a node of Figure 11: what the paper measured, so this workload cannot be used to show that figure",
	"map tasks of 60 s (as stated for the comparison), without reduces",
	"hints of Figure 7; for Grep, of which nothing is said, 3, 5, 5, 3 and the weight of WordCount"}

// learningGenerators returns the jobs of the learning scheduler's paper.
func learningGenerators() []Generator {
	var list []Generator
	for i := range learningJobs {
		l := &learningJobs[i]
		list = append(list, Generator{Name: "learning-" + l.app, Cluster: "learning", Assumptions: learningAssumed,
			Summary: "learning scheduler, Figure 11: " + l.app + " alone, 160 maps of a minute (10 GB)",
			Source:  JobList{l.job(learningMaps)}})
	}
	text, word, grep := learningJobs[0].job(learningMaps), learningJobs[1].job(learningMaps), learningJobs[6].job(learningMaps)
	// Figure 9's jobs read what TextWriter wrote, so they cannot start earlier.
	word.After, grep.After = []int{0}, []int{0}
	return append(list,
		Generator{Name: "learning-behaviour", Cluster: "learning", Assumptions: learningAssumed,
			Summary: "learning scheduler, Figure 8: WordCount over 70 GB, 1,120 maps",
			Source:  JobList{learningJobs[1].job(7 * learningMaps)}},
		Generator{Name: "learning-target", Cluster: "learning", Assumptions: learningAssumed,
			Summary: "learning scheduler, Figure 9: TextWriter, then WordCount and Grep over what it wrote",
			Source:  JobList{text, word, grep}})
}

// job makes a job with a number of maps.
func (l *learningJob) job(maps int) Job {
	j := Job{Name: l.app, App: l.app, Class: l.app}
	j.Hints[job.Map], j.Hints[job.Reduce] = l.hints, l.hints
	j.Maps = equal(maps, Task{Duration: learningTask, Input: DefaultBlock,
		// Beside a Duration the CPU time is a weight on the load average: tasks · 4/tasks = 4, the target.
		CPU: time.Duration(float64(learningTask) * learningTarget / l.tasks).Round(time.Millisecond)})
	return j
}
