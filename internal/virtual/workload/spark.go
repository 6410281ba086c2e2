package workload

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slotwise/slotwise/sched/job"
)

// sparkEvent holds the used fields of the events in a Spark log.
type sparkEvent struct {
	Event   string      `json:"Event"`
	AppName string      `json:"App Name"`
	AppID   string      `json:"App ID"`
	User    string      `json:"User"`
	JobID   int         `json:"Job ID"`
	Submit  int64       `json:"Submission Time"`
	End     int64       `json:"Completion Time"`
	Stages  []sparkInfo `json:"Stage Infos"`
	Result  struct {
		Result string `json:"Result"`
	} `json:"Job Result"`
	Properties struct {
		Pool string `json:"spark.scheduler.pool"`
		CPUs string `json:"spark.task.cpus"`
	} `json:"Properties"`
	StageID int `json:"Stage ID"`
	Reason  struct {
		Reason string `json:"Reason"`
	} `json:"Task End Reason"`
	Task struct {
		Index    int    `json:"Index"`
		Launch   int64  `json:"Launch Time"`
		Finish   int64  `json:"Finish Time"`
		Locality string `json:"Locality"`
	} `json:"Task Info"`
	Metrics struct {
		CPU            int64 `json:"Executor CPU Time"` // ns
		DeserializeCPU int64 `json:"Executor Deserialize CPU Time"`
		Input          struct {
			Bytes int64 `json:"Bytes Read"`
		} `json:"Input Metrics"`
		Output struct {
			Bytes int64 `json:"Bytes Written"`
		} `json:"Output Metrics"`
		Read struct {
			Remote int64 `json:"Remote Bytes Read"`
			Local  int64 `json:"Local Bytes Read"`
		} `json:"Shuffle Read Metrics"`
		Write struct {
			Bytes int64 `json:"Shuffle Bytes Written"`
		} `json:"Shuffle Write Metrics"`
	} `json:"Task Metrics"`
}

// sparkInfo describes a stage in a job's start.
type sparkInfo struct {
	ID      int   `json:"Stage ID"`
	Tasks   int   `json:"Number of Tasks"`
	Parents []int `json:"Parent IDs"`
}

// sparkJob is a job of an application that has not ended yet.
type sparkJob struct {
	id     int
	line   int
	submit int64
	pool   string
	stages map[int]*sparkStage // by stage id; the stages that it is the first to list
}

// sparkStage collects the tasks of a stage.
type sparkStage struct {
	info  sparkInfo
	tasks map[int]Task // by index: the first success of each
}

// spark reads the logs of applications.
// Events of a log are in the order of time, and jobs of an application may overlap. A job is translated when
// it ends, so memory holds the live jobs of one application and not the log. What a stage hands to the next
// one is on the disks of the executors, which the simulator's reduces read as map outputs; cached data has no
// model, and its effect is in the recorded times.
type spark struct {
	im       *importer
	app, id  string
	user     string
	jobs     map[int]*sparkJob
	owner    map[int]*sparkStage // by stage id
	follower follower
	count    int // jobs taken
	failed   int // jobs left out because they failed or did not end
	lost     int // task attempts left out
	unknown  int // tasks that get the median time of their stage
}

// ReadSpark reads the event logs of Spark applications: JSON objects, one for each event.
// A stage becomes maps or reduces by the rule of addStages, as docs/formats/traces.md
// explains. Errors and warnings name the file and the line.
func ReadSpark(folder string, files []File, options TraceOptions) (*Trace, error) {
	im, err := newImporter(folder, options)
	if err != nil {
		return nil, err
	}
	im.unused.noted = true
	s := &spark{im: im}
	// A log that was cut off at its beginning has no ApplicationStart; its jobs get the name app.
	s.begin(&sparkEvent{})
	files = slices.SortedFunc(slices.Values(files), func(a, b File) int {
		// events_10 comes after events_9, which the order of names would exchange.
		return cmp.Or(strings.Compare(path.Dir(a.Name), path.Dir(b.Name)), cmp.Compare(sparkPart(a.Name), sparkPart(b.Name)), strings.Compare(a.Name, b.Name))
	})
	for _, f := range files {
		if s.full() {
			break
		}
		im.readFile(f, s.log)
	}
	s.endApp()
	im.r.file = folder
	im.warnOf(s.failed, "Spark jobs that did not succeed are left out")
	im.warnOf(s.lost, "task attempts that failed, were killed or came second are left out")
	im.warnOf(s.unknown, "tasks have no times and get the median of their stage")
	return im.finish()
}

// sparkPart returns the number in the name of a part of a rolling log, events_2_app, or 0.
func sparkPart(name string) int {
	text, ok := strings.CutPrefix(path.Base(name), "events_")
	text, _, _ = strings.Cut(text, "_")
	n, err := strconv.Atoi(text)
	if !ok || err != nil {
		return 0
	}
	return n
}

// full reports whether TraceOptions.Limit is reached. It counts Spark's jobs.
func (s *spark) full() bool { return s.im.options.Limit > 0 && s.count >= s.im.options.Limit }

// log reads a file, which may hold a part of an application's log or several logs.
func (s *spark) log(in io.Reader) error {
	for _, codec := range []string{".lz4", ".zstd", ".snappy", ".lzf"} {
		if strings.HasSuffix(s.im.r.file, codec) {
			return errors.New("is compressed; decompress it first")
		}
	}
	eachObject(s.im, in, func(line int, e *sparkEvent) bool {
		switch strings.TrimPrefix(e.Event, "SparkListener") {
		case "ApplicationStart":
			s.endApp()
			s.begin(e)
		case "JobStart":
			s.startJob(line, e)
		case "TaskEnd":
			s.endTask(line, e)
		case "JobEnd":
			s.endJob(e)
		}
		return !s.full()
	})
	return nil
}

// begin starts an application.
func (s *spark) begin(e *sparkEvent) {
	s.app, s.id, s.user = e.AppName, cmp.Or(e.AppID, e.AppName, "app"), e.User
	s.jobs, s.owner, s.follower = map[int]*sparkJob{}, map[int]*sparkStage{}, follower{}
}

// endApp drops the jobs that did not end.
func (s *spark) endApp() {
	s.failed += len(s.jobs)
	clear(s.jobs)
}

// startJob notes a job and the stages that no job before it has.
func (s *spark) startJob(line int, e *sparkEvent) {
	if e.Submit < 0 || e.JobID < 0 {
		s.im.fail(line, "job %d: Submission Time %d, must not be negative", e.JobID, e.Submit)
		return
	}
	j := &sparkJob{id: e.JobID, line: line, submit: e.Submit, pool: e.Properties.Pool, stages: map[int]*sparkStage{}}
	// Jobs that run at the same time may list the same stage. Its tasks belong to the job that lists it
	// first, or they would be replayed twice.
	for _, info := range e.Stages {
		if s.owner[info.ID] == nil {
			st := &sparkStage{info: info, tasks: map[int]Task{}}
			s.owner[info.ID], j.stages[info.ID] = st, st
		}
	}
	if cpus := e.Properties.CPUs; cpus != "" && cpus != "1" {
		s.im.noteUnused(line, "spark.task.cpus")
	}
	s.jobs[e.JobID] = j
}

// endTask takes the times of a successful attempt.
func (s *spark) endTask(line int, e *sparkEvent) {
	st := s.owner[e.StageID]
	if st == nil {
		return // its job began before the log, or has ended
	}
	// The first success is the one whose output Spark used. Later ones are speculative copies, or the stage
	// ran again after a fetch had failed.
	if _, done := st.tasks[e.Task.Index]; e.Reason.Reason != "Success" || done {
		s.lost++
		return
	}
	if e.Task.Index < 0 || e.Task.Index >= MaxTasks {
		s.im.fail(line, "stage %d: task index %d, must be from 0 to %d", e.StageID, e.Task.Index, MaxTasks-1)
		return
	}
	d, err := span(e.Task.Launch, e.Task.Finish)
	if err != nil {
		s.im.fail(line, "stage %d, task %d: %s", e.StageID, e.Task.Index, err)
		return
	}
	// PROCESS_LOCAL is memory of the executor, and ANY no wish: neither says where data was.
	if e.Task.Locality == "NODE_LOCAL" || e.Task.Locality == "RACK_LOCAL" {
		s.im.noteUnused(line, "Locality")
	}
	m := &e.Metrics
	st.tasks[e.Task.Index] = Task{Duration: d,
		CPU:    min(d, clamp(m.CPU, d)+clamp(m.DeserializeCPU, d)),
		Input:  size(m.Input.Bytes) + size(m.Read.Remote) + size(m.Read.Local),
		Output: size(m.Write.Bytes) + size(m.Output.Bytes)}
}

// clamp returns a recorded time in ns, from 0 to most.
func clamp(ns int64, most time.Duration) time.Duration {
	return min(time.Duration(max(0, ns)), most)
}

// size bounds a recorded number of bytes, so that sums of a few cannot overflow.
func size(n int64) int64 { return min(max(0, n), maxBytes/4) }

// endJob adds the job that has ended.
func (s *spark) endJob(e *sparkEvent) {
	j := s.jobs[e.JobID]
	if j == nil {
		return
	}
	delete(s.jobs, e.JobID)
	stages, err := s.stages(j)
	for _, st := range j.stages { //house:sorted each stage is cleared
		st.tasks = nil
		// So that events that come late, such as the kill of a copy, find no stage.
		delete(s.owner, st.info.ID)
	}
	switch {
	case err != nil:
		s.im.fail(j.line, "job %d: %s", j.id, err)
		return
	// A job without tasks found all its output in the cache or the shuffle files; there is nothing to replay.
	case e.Result.Result != "JobSucceeded" && !s.im.options.All || len(stages) == 0:
		s.failed++
		return
	}
	s.count++
	base := Job{Name: fmt.Sprintf("%s/job%d", s.id, j.id), App: s.app, Request: job.Request{User: s.user, Pool: j.pool},
		Submit: epoch(j.submit), After: s.follower.after(epoch(j.submit))}
	last, ok := s.im.addStages(j.line, base, stages)
	if !ok {
		s.im.fail(j.line, "job %d: its stages wait for each other in a circle", j.id)
	}
	// A log without the time of the end must not make the job end before it began.
	s.follower.add(epoch(max(e.End, j.submit)), last)
}

// stages returns the stages of a job that ran tasks, by id. A stage that was skipped,
// because its output existed already, is not among them.
func (s *spark) stages(j *sparkJob) ([]stage, error) {
	var list []stage
	index := map[int]int{}
	for _, id := range slices.Sorted(maps.Keys(j.stages)) {
		st := j.stages[id]
		// Skipped stages are not parents either: their output was there already.
		if len(st.tasks) == 0 {
			continue
		}
		indexes := slices.Sorted(maps.Keys(st.tasks))
		// An index beyond the stated number is a task all the same: it has run.
		n := max(st.info.Tasks, indexes[len(indexes)-1]+1)
		if err := checkTasks(job.Map, float64(n)); err != nil {
			return nil, fmt.Errorf("stage %d: %w", id, err)
		}
		var known []time.Duration
		for _, i := range indexes {
			known = append(known, st.tasks[i].Duration)
		}
		middle := median(known)
		tasks := make([]Task, n)
		for i := range tasks {
			t, ok := st.tasks[i]
			if !ok {
				t.Duration = middle
				s.unknown++
			}
			tasks[i] = t
		}
		index[id] = len(list)
		list = append(list, stage{name: fmt.Sprintf("stage%d", id), tasks: tasks})
	}
	for id, i := range index { //house:sorted each stage has its own list
		for _, p := range j.stages[id].info.Parents {
			// A parent counts once, however often a log names it: addStages asks whether a parent has one
			// child.
			if at, ok := index[p]; ok && !slices.Contains(list[i].parents, at) {
				list[i].parents = append(list[i].parents, at)
			}
		}
		slices.Sort(list[i].parents)
	}
	return list, nil
}
