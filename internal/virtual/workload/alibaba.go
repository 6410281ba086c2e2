package workload

import (
	"cmp"
	"hash/fnv"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// The numbers of columns of Alibaba's tables.
const (
	batchTaskColumns     = 9
	batchInstanceColumns = 14
)

// alibabaJob collects the tasks of a job. Each becomes a stage.
type alibabaJob struct {
	name   string
	line   int
	file   string
	first  int64 // the earliest start, in s; -1 is unknown
	failed bool  // a task or an instance did not end well
	tasks  []alibabaTask
	index  map[string]int // by name
}

// alibabaTask is a task of Alibaba's trace: a number of instances with the same program.
type alibabaTask struct {
	name       string
	instances  int        // as batch_task states it, 0 if unknown
	start, end int64      // of the whole task, as batch_task states it; end 0 is unknown
	runs       []run      // of batch_instance
	named      []namedRun // of runs, in the same order
}

// namedRun identifies a run of an instance, which may have several rows.
type namedRun struct {
	name uint64 // hash of the instance's name
	end  int64
}

// firstRuns drops all runs of an instance but the one that ended first, and returns how many. The
// traced cluster ran copies of slow instances; as in Spark's logs, the copy that came second did no work
// that a replay needs.
func (t *alibabaTask) firstRuns() int {
	best := make(map[uint64]int, len(t.named))
	for i, r := range t.named {
		// On a tie the earlier row, so the result is the same on every run.
		if k, ok := best[r.name]; !ok || r.end < t.named[k].end {
			best[r.name] = i
		}
	}
	dropped := len(t.runs) - len(best)
	if dropped > 0 {
		// Over the slice and not over the map, whose order changes: median and order of tasks follow the
		// file.
		kept := t.runs[:0]
		for i, r := range t.named {
			if best[r.name] == i {
				kept = append(kept, t.runs[i])
			}
		}
		t.runs = kept
	}
	// A trace has millions of instances, and 16 bytes each are of no use after this.
	t.named = nil
	return dropped
}

// alibaba reads the tables of a trace.
// Times are whole seconds, so a run that starts and ends in one second takes 1 ms (span), and an instance of
// 1.9 s may have 1 or 2. The tables have no submissions and no order of rows. A task's name is the only place
// that says which tasks it waits for, and names are unique within a job alone; so jobs are collected by name,
// tasks by name within them, and both are translated after the last row.
type alibaba struct {
	im    *importer
	jobs  []*alibabaJob
	names map[string]int // indexes in jobs
	runs  int            // instances and tasks kept so far

	failed  int // omitted jobs with a failed part
	empty   int // omitted jobs whose tasks all lack usable times
	undated int // instances that terminated without usable times
	timeless,
	orphans, guessed, spanned, again, copies int
}

// ReadAlibaba reads the tables batch_task and batch_instance of Alibaba's
// cluster-trace-v2018, which have no header: the number of columns, 9 or 14, distinguishes
// them. Rows may have any order. docs/formats/traces.md defines what a duration contains.
// Errors and warnings name the file and the line.
func ReadAlibaba(folder string, files []File, options TraceOptions) (*Trace, error) {
	im, err := newImporter(folder, options)
	if err != nil {
		return nil, err
	}
	a := &alibaba{im: im, names: map[string]int{}}
	im.readFiles(files, func(in io.Reader) error { return eachRow(im, in, a.row) })
	// Only now: the rows of a job may be anywhere in both tables, so no job is complete before the
	// last row.
	if len(im.r.errs) == 0 {
		for _, j := range a.jobs {
			a.add(j)
		}
	}
	im.r.file = folder
	im.warnOf(a.failed, "jobs with parts that did not terminate are left out")
	im.warnOf(a.again, "instances that did not terminate are left out")
	im.warnOf(a.copies, "further runs of instances that terminated earlier are left out")
	im.warnOf(a.empty, "jobs in which no task has usable times are left out")
	im.warnOf(a.undated, "instances that terminated without usable times are left out")
	im.warnOf(a.timeless, "tasks without usable times are left out")
	im.warnOf(a.orphans, "dependencies on tasks that are not in the trace are left out")
	im.warnOf(a.spanned, "tasks have no rows of batch_instance: each of their instances takes the time from the first start to the last end")
	im.warnOf(a.guessed, "instances have no row and get the median of their task")
	return im.finish()
}

// row takes a row of either table.
func (a *alibaba) row(line int, row []string) bool {
	switch len(row) {
	case batchTaskColumns:
		a.im.noteUnused(line, "plan_cpu")
		a.im.noteUnused(line, "plan_mem")
		a.taskRow(line, row)
	case batchInstanceColumns:
		a.im.noteUnused(line, "mem_avg")
		a.instanceRow(line, row)
	default:
		a.im.fail(line, "has %d columns; a row of batch_task has %d and one of batch_instance %d", len(row), batchTaskColumns, batchInstanceColumns)
		return false
	}
	return a.im.r.more == 0
}

// taskRow takes a row of batch_task: task_name, instance_num, job_name, task_type, status,
// start_time, end_time, plan_cpu, plan_mem.
func (a *alibaba) taskRow(line int, row []string) {
	j, t := a.task(line, row[2], row[0])
	if t == nil {
		return
	}
	n, err := strconv.ParseFloat(row[1], 64)
	if err != nil || !(n >= 0 && n <= MaxTasks) {
		a.im.fail(line, "instance_num %q, must be a number from 0 to %d", row[1], MaxTasks)
		return
	}
	start, end, ok := a.times(line, row[5], row[6])
	if !ok {
		return
	}
	// The trace writes 1.0 for 1. A task that has a row has an instance, also if the row says 0.
	t.instances = max(1, int(math.Round(n)))
	// The task has no usable time, and its job is left out unless TraceOptions.All keeps it.
	if row[4] != "Terminated" {
		j.failed = true
		return
	}
	if start > 0 && end >= start {
		t.start, t.end = start, end
		j.starts(start)
	}
}

// instanceRow takes a row of batch_instance: instance_name, task_name, job_name, task_type,
// status, start_time, end_time, machine_id, seq_no, total_seq_no, cpu_avg, cpu_max, mem_avg,
// mem_max.
func (a *alibaba) instanceRow(line int, row []string) {
	j, t := a.task(line, row[2], row[1])
	if t == nil {
		return
	}
	start, end, ok := a.times(line, row[5], row[6])
	if !ok {
		return
	}
	// Another instance repeats its work. A part of a run is no time of a task.
	if row[4] != "Terminated" {
		a.again++
		return
	}
	if start == 0 || end < start {
		a.undated++
		return
	}
	// 100 is a core; -1 and 101 mark invalid values, and an empty one is unknown.
	cores, err := strconv.ParseFloat(row[10], 64)
	if err != nil || !(cores > 0 && cores < 1e5) || cores == 101 {
		cores = 0
	}
	r, err := newRun(int32(len(t.runs)), 1000*start, 1000*end, float32(cores/100))
	switch {
	case err != nil:
		a.im.fail(line, "instance %q: %s", row[0], err)
		return
	case len(t.runs) == MaxTasks:
		a.im.fail(line, "task %q of job %q has more than %d instances", t.name, j.name, MaxTasks)
		return
	}
	a.count(line)
	name := fnv.New64a()
	io.WriteString(name, cmp.Or(row[0], strconv.Itoa(line))) // a hash returns no error
	t.runs, t.named = append(t.runs, r), append(t.named, namedRun{name.Sum64(), end})
	j.starts(start)
}

// times parses the start and the end of a row, in seconds. Empty values are 0.
func (a *alibaba) times(line int, from, to string) (start, end int64, ok bool) {
	for i, text := range []string{from, to} {
		v, err := int64(0), error(nil)
		if text != "" {
			v, err = strconv.ParseInt(text, 10, 64)
		}
		if err != nil || v < -1 || v > 1e12 {
			a.im.fail(line, "%s %q, must be a number of seconds", []string{"start_time", "end_time"}[i], text)
			return 0, 0, false
		}
		// -1 and 0 both mean unknown in this trace, also a start: the run would last since the trace began.
		if i == 0 {
			start = max(0, v)
		} else {
			end = max(0, v)
		}
	}
	return start, end, true
}

// starts records that a part of the job started.
func (j *alibabaJob) starts(at int64) {
	if j.first < 0 || at < j.first {
		j.first = at
	}
}

// task returns a task and its job, which it adds if they are new. It returns nil if
// TraceOptions.Limit leaves the job out, or after an error.
func (a *alibaba) task(line int, jobName, name string) (*alibabaJob, *alibabaTask) {
	i, ok := a.names[jobName]
	if !ok {
		switch {
		case a.im.options.Limit > 0 && len(a.jobs) >= a.im.options.Limit:
			return nil, nil
		case jobName == "" || name == "":
			a.im.fail(line, "has no job_name or no task_name")
			return nil, nil
		case len(a.jobs) == MaxJobs:
			a.im.fail(line, "more than %d jobs; take fewer with --limit", MaxJobs)
			return nil, nil
		}
		i = len(a.jobs)
		jobName = strings.Clone(jobName)
		a.names[jobName] = i
		a.jobs = append(a.jobs, &alibabaJob{name: jobName, line: line, file: a.im.r.file, first: -1, index: map[string]int{}})
	}
	j := a.jobs[i]
	t, ok := j.index[name]
	if !ok {
		a.count(line)
		t = len(j.tasks)
		name = strings.Clone(name)
		j.index[name] = t
		j.tasks = append(j.tasks, alibabaTask{name: name})
	}
	return j, &j.tasks[t]
}

// count bounds the tasks and instances that are kept.
func (a *alibaba) count(line int) {
	if a.runs++; a.runs == MaxTotal+1 {
		a.im.fail(line, "more than %d tasks so far; take fewer jobs with --limit", MaxTotal)
		a.im.r.more++ // no row after it is of use
	}
}

// add translates a job.
func (a *alibaba) add(j *alibabaJob) {
	if j.failed && !a.im.options.All {
		a.failed++
		return
	}
	var stages []stage
	numbers := map[int]int{} // index in stages by a task's number
	var deps [][]int
	for i := range j.tasks {
		t := &j.tasks[i]
		n := t.instances
		a.copies += t.firstRuns()
		// Some copies of the trace lack rows of batch_instance.
		if len(t.runs) == 0 {
			if t.end == 0 {
				a.timeless++
				continue
			}
			r, err := newRun(0, 1000*t.start, 1000*t.end, 0)
			if err != nil {
				a.failAt(j, "job %q, task %q: %s", j.name, t.name, err)
				return
			}
			t.runs = slices.Repeat([]run{r}, n)
			a.spanned++
		}
		tasks, guessed := runTasks(t.runs, n)
		a.guessed += guessed
		t.runs = nil
		number, parents := alibabaDAG(t.name)
		// Tasks without a number depend on nothing, and nothing can name them.
		if number >= 0 {
			numbers[number] = len(stages)
		}
		stages, deps = append(stages, stage{name: t.name, tasks: tasks}), append(deps, parents)
	}
	if len(stages) == 0 {
		a.empty++
		return
	}
	for i := range stages {
		for _, number := range deps[i] {
			// Its rows are missing, or its instances had no usable times. A task that names itself would be a
			// circle of one.
			if p, ok := numbers[number]; !ok || p == i {
				a.orphans++
			} else if !slices.Contains(stages[i].parents, p) {
				stages[i].parents = append(stages[i].parents, p)
			}
		}
	}
	a.im.r.file = j.file
	if _, ok := a.im.addStages(j.line, Job{Name: j.name, Submit: epoch(1000 * max(0, j.first))}, stages); !ok {
		a.im.fail(j.line, "job %q: its tasks wait for each other in a circle", j.name)
	}
}

// failAt adds an error at the first row of a job.
func (a *alibaba) failAt(j *alibabaJob, format string, args ...any) {
	a.im.r.file = j.file
	a.im.fail(j.line, format, args...)
}

// alibabaDAG reads the number of a task and the numbers of the tasks before it out of its
// name: J8_6_7 is task 8 after 6 and 7. The letters say nothing. A name of another form,
// such as task_Nzg3, has the number -1. Words after the numbers, such as _Stg1, are not
// read.
func alibabaDAG(name string) (number int, parents []int) {
	parts := strings.Split(strings.TrimLeft(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"), "_")
	number, err := strconv.Atoi(parts[0])
	if err != nil || number < 0 || parts[0] == name {
		return -1, nil
	}
	for _, p := range parts[1:] {
		if p == "" {
			continue
		}
		n, err := strconv.Atoi(p)
		if err != nil || n < 0 {
			break
		}
		parents = append(parents, n)
	}
	return number, parents
}
