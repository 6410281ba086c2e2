package workload

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/slotwise/slotwise/sched/job"
)

// RumenOptions say how a Rumen trace becomes jobs.
// A replay must not copy the time in which a reduce waited for maps: in the trace it follows from the traced
// cluster, in the simulation from the simulated one.
type RumenOptions struct {
	TraceOptions
	// Stages makes tasks with recorded CPU time go through stages, with the
	// recorded bytes, instead of taking their recorded time. The result does
	// not include the waiting times of the old cluster.
	Stages bool
}

// rumenJob holds the used fields of Rumen's LoggedJob. Times are in ms since
// the epoch; -1 means unknown, as does an absent field.
type rumenJob struct {
	ID         string `json:"jobID"`
	Name       string `json:"jobName"`
	User       string `json:"user"`
	Queue      string `json:"queue"`
	Priority   string `json:"priority"`
	Outcome    string `json:"outcome"`
	Submit     *int64 `json:"submitTime"`
	Finish     *int64 `json:"finishTime"`
	Maps       int    `json:"totalMaps"`
	Reduces    int    `json:"totalReduces"`
	Properties struct {
		SlowStart1 any `json:"mapred.reduce.slowstart.completed.maps"`
		SlowStart2 any `json:"mapreduce.job.reduce.slowstart.completedmaps"`
	} `json:"jobProperties" unused:"-"`
	MapTasks    []rumenTask `json:"mapTasks"`
	ReduceTasks []rumenTask `json:"reduceTasks"`
}

// rumenRedundant lists fields that a replay does not need: times and outcomes of the
// traced run, statistics of other fields, and counters that no model uses.
var rumenRedundant = []string{
	"finishTime", "launchTime", "heapMegabytes", "jobtype", "relativeTime", "mapperTriesToSucceed", "failedMapperFraction",
	"computonsPerMapInputByte", "computonsPerMapOutputByte", "computonsPerReduceInputByte", "computonsPerReduceOutputByte",
	"successfulMapAttemptCDFs", "failedMapAttemptCDFs", "successfulReduceAttemptCDF", "failedReduceAttemptCDF",
	"otherTasks", "clusterMapMB", "clusterReduceMB", "taskType", "taskStatus", "inputRecords", "outputRecords", "numberMaps", "numberReduces",
	"attemptID", "hostName", "location", "fileBytesRead", "fileBytesWritten", "mapInputRecords", "mapOutputRecords",
	"combineInputRecords", "reduceInputGroups", "reduceInputRecords", "reduceOutputRecords", "spilledRecords", "sortFinished",
	"clockSplits", "cpuUsages", "vmemKbytes", "physMemKbytes", "virtualMemoryUsage", "physicalMemoryUsage", "heapUsage",
}

// rumenTask holds the used fields of Rumen's LoggedTask.
type rumenTask struct {
	ID                string         `json:"taskID"`
	Start             *int64         `json:"startTime"`
	Finish            *int64         `json:"finishTime"`
	Input             int64          `json:"inputBytes"`
	Output            int64          `json:"outputBytes"`
	Attempts          []rumenAttempt `json:"attempts"`
	PreferredLocation []struct {
		Layers []string `json:"layers"`
	} `json:"preferredLocations"`
}

// rumenAttempt holds the used fields of Rumen's LoggedTaskAttempt.
type rumenAttempt struct {
	id     string // only in logs of a JobTracker
	Result string `json:"result"`
	Start  *int64 `json:"startTime"`
	Finish *int64 `json:"finishTime"`
	// ShuffleFinished is the end of a reduce's shuffle; -1 or absent means unknown.
	ShuffleFinished *int64 `json:"shuffleFinished"`

	Read          int64 `json:"hdfsBytesRead"`
	Written       int64 `json:"hdfsBytesWritten"`
	MapInput      int64 `json:"mapInputBytes"`
	MapOutput     int64 `json:"mapOutputBytes"`
	Shuffle       int64 `json:"reduceShuffleBytes"`
	ResourceUsage struct {
		CPU int64 `json:"cumulativeCpuUsage"`
	} `json:"resourceUsageMetrics"`
}

// ReadRumen reads the JSON of Hadoop's Rumen: LoggedJob objects one after
// another. A task takes the time of its successful attempt. If a reduce started before
// the end of the job's last map, its time counts from that end, because it only waited
// until then: Task.Fetch is negative. The time of a reduce that started later includes
// its shuffle: Task.Fetch is the recorded length of the shuffle, or 0 if the trace does
// not state it. Tasks without times get the median of their kind. Jobs that did not succeed are left out unless options.All is set.
// Errors and warnings name the file and the line of the job.
func ReadRumen(file string, in io.Reader, options RumenOptions) (*Trace, error) {
	im, err := newImporter(file, options.TraceOptions)
	if err != nil {
		return nil, err
	}
	im.unused.redundant = rumenRedundant
	failed := 0
	eachObject(im, in, func(line int, r *rumenJob) bool {
		// A missing outcome is no failure: traces that were written by hand leave it out.
		if r.Outcome != "" && r.Outcome != "SUCCESS" && !options.All {
			failed++
			return true
		}
		im.addRumen(line, &options, r)
		return !im.full()
	})
	im.warnOf(failed, "jobs that did not succeed are left out")
	return im.finish()
}

// addRumen adds a job of Rumen's form, or an error.
func (im *importer) addRumen(line int, o *RumenOptions, r *rumenJob) {
	if j, ok, err := im.rumen(line, o, r); err != nil {
		im.fail(line, "%s", err)
	} else if ok {
		im.addRecorded(line, j, r.Submit, r.Finish)
	}
}

// rumen converts a job of Rumen's form and warns of what it guesses or leaves out. It returns false
// for a job without tasks.
func (im *importer) rumen(line int, o *RumenOptions, r *rumenJob) (Job, bool, error) {
	j, guessed, err := o.job(r)
	if err != nil {
		return j, false, fmt.Errorf("job %q: %w", r.ID, err)
	}
	if guessed > 0 {
		im.warn(line, "job %q: %d tasks have no times and get the median", r.ID, guessed)
	}
	if len(j.Maps)+len(j.Reduces) == 0 {
		im.warn(line, "job %q has no tasks and is left out", r.ID)
		return j, false, nil
	}
	if n := max(r.Maps, len(r.MapTasks)) + max(r.Reduces, len(r.ReduceTasks)) - len(j.Maps) - len(j.Reduces); n > 0 {
		im.warn(line, "job %q did not succeed, and %d tasks of which none has run are left out", r.ID, n)
	}
	return j, true, nil
}

// job converts one job. It returns the number of tasks without times.
func (o *RumenOptions) job(r *rumenJob) (Job, int, error) {
	j := Job{Name: r.Name, App: r.Name, Request: job.Request{User: r.User, Pool: r.Queue}}
	if j.Name == "" {
		j.Name = r.ID
	}
	var err error
	if r.Priority != "" {
		if j.Priority, err = parsePriority(r.Priority); err != nil {
			return j, 0, err
		}
	}
	if r.Submit == nil || *r.Submit < 0 {
		return j, 0, fmt.Errorf("submitTime is missing or negative")
	}
	// The importer makes times relative later, so this is any time since the
	// epoch.
	j.Submit = time.Duration(min(*r.Submit, int64(time.Duration(1<<62)/time.Millisecond))) * time.Millisecond
	// The newer name last, so it wins where a file has both. Rumen writes a text or a number; other types are
	// no share and are ignored.
	for _, s := range []any{r.Properties.SlowStart1, r.Properties.SlowStart2} {
		if v, err := strconv.ParseFloat(fmt.Sprint(s), 64); s != nil && err == nil && v >= 0 && v <= 1 {
			j.SlowStart = job.StartAfter(v)
		}
	}
	var mapsEnd int64
	for i := range r.MapTasks {
		// A reduce that started before this moment waited for the maps.
		if a := r.MapTasks[i].best(); a.Finish != nil {
			mapsEnd = max(mapsEnd, *a.Finish)
		}
	}
	var guessed [job.Kinds]int
	failed := r.Outcome != "" && r.Outcome != "SUCCESS"
	if j.Maps, guessed[0], err = o.tasks(r.MapTasks, r.Maps, job.Map, 0, failed); err != nil {
		return j, 0, err
	}
	j.Reduces, guessed[1], err = o.tasks(r.ReduceTasks, r.Reduces, job.Reduce, mapsEnd, failed)
	return j, guessed[0] + guessed[1], err
}

// tasks converts the tasks of a kind. It returns total tasks, or more if the
// list is longer, and the number of tasks without times. Of a failed job it returns none if no task has
// a time.
func (o *RumenOptions) tasks(list []rumenTask, total int, kind job.Kind, from int64, failed bool) ([]Task, int, error) {
	// The file states the total, so it is checked before memory is allocated.
	if err := checkTasks(kind, float64(max(total, len(list)))); err != nil {
		return nil, 0, err
	}
	tasks := make([]Task, max(total, len(list)))
	var known []time.Duration
	for i := range list {
		t, err := list[i].task(kind, from)
		if err != nil {
			return nil, 0, fmt.Errorf("task %q: %w", list[i].ID, err)
		}
		if o.KeepHosts && kind == job.Map {
			t.Hosts = list[i].hosts()
		}
		if t.Duration > 0 {
			known = append(known, t.Duration)
		}
		tasks[i] = t
	}
	guessed, middle := 0, median(known)
	for i := range tasks {
		t := &tasks[i]
		if t.Duration == 0 {
			// The median and not the mean: one straggler among few known tasks would make all the others
			// slow.
			t.Duration = middle
			guessed++
		}
		// A duration takes precedence over the stages in the simulator.
		if o.Stages && t.CPU > 0 {
			t.Duration = 0
		}
	}
	// There is no time from which to guess, and a job of instant tasks would look like a fast cluster.
	if len(tasks) > 0 && middle == 0 {
		// A job that was killed in the queue, or failed before its reduces: they used no slots.
		if failed {
			return nil, 0, nil
		}
		return nil, 0, fmt.Errorf("%d %ss and the time of none of them", len(tasks), kind)
	}
	return tasks, guessed, nil
}

// best returns the attempt that represents the task: the successful one, else
// the last one with times, else one with the task's times.
func (r *rumenTask) best() rumenAttempt {
	best := rumenAttempt{Start: r.Start, Finish: r.Finish}
	for _, a := range r.Attempts {
		if a.Result == "SUCCESS" {
			best = a
			break
		}
		if a.Start != nil && a.Finish != nil {
			best = a
		}
	}
	// -1 is Rumen's "unknown". The end alone is worth keeping: it bounds the reduces' start.
	if best.Start != nil && *best.Start < 0 {
		best.Start = nil
	}
	if best.Finish != nil && *best.Finish < 0 {
		best.Finish = nil
	}
	return best
}

// task converts a task; its duration is 0 if its times are unknown. from is the
// earliest time at which its work can have begun.
func (r *rumenTask) task(kind job.Kind, from int64) (Task, error) {
	a := r.best()
	// What the map function read, not what the file system did: a compressed split is smaller on disk. Hadoop
	// 2 has no such counter, and some traces have only the bytes of the task.
	in, out := first(a.MapInput, a.Read, r.Input), first(a.MapOutput, a.Written, r.Output)
	if kind == job.Reduce {
		in, out = first(a.Shuffle, r.Input), first(a.Written, r.Output)
	}
	t := Task{Input: in, Output: out}
	if cpu := a.ResourceUsage.CPU; cpu > 0 {
		t.CPU = min(time.Duration(min(cpu, int64(maxTime/time.Millisecond)))*time.Millisecond, maxTime)
	}
	if in > maxBytes || out > maxBytes {
		return t, fmt.Errorf("%d bytes, must be at most 2⁶⁰", max(in, out))
	}
	if a.Start == nil || a.Finish == nil {
		return t, nil
	}
	if *a.Finish < *a.Start {
		return t, fmt.Errorf("it finished at %d, before it started at %d", *a.Finish, *a.Start)
	}
	// Clock skew and lost maps can put the last map's end after the reduce's: then nothing is left
	// but the least time.
	began := max(*a.Start, min(from, *a.Finish))
	ms := *a.Finish - began
	if ms > int64(maxTime/time.Millisecond) {
		return t, fmt.Errorf("it took %d ms, more than 10 years", ms)
	}
	t.Duration = time.Duration(max(1, ms)) * time.Millisecond
	switch fetched := a.ShuffleFinished; {
	case kind == job.Map:
	// The trace does not separate its fetching after the last map from its waiting.
	case began > *a.Start:
		t.Fetch = -1
	// Outside of these bounds the mark is of another clock; 0 leaves the share to the world.
	case fetched != nil && *fetched > began && *fetched <= *a.Finish:
		t.Fetch = time.Duration(*fetched-began) * time.Millisecond
	}
	return t, nil
}

// first returns the first number above 0, or 0.
func first(list ...int64) int64 {
	i := slices.IndexFunc(list, func(v int64) bool { return v > 0 })
	if i < 0 {
		return 0
	}
	return list[i]
}

// hosts returns the hosts of the preferred locations: the last layer of each.
func (r *rumenTask) hosts() []string {
	var list []string
	for _, p := range r.PreferredLocation {
		if n := len(p.Layers); n > 0 && p.Layers[n-1] != "" {
			list = append(list, p.Layers[n-1])
		}
	}
	return list
}
