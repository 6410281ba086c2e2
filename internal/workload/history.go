package workload

import (
	"bufio"
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// HistoryFile is one file of a folder of Hadoop's job history: the log of a job, or its
// configuration, whose name ends in _conf.xml. Open returns its decompressed text.
type HistoryFile struct {
	Name string
	Open func() (io.ReadCloser, error)
}

// maxHistoryLine bounds a line of a log. Lines with counters have some thousand bytes.
const maxHistoryLine = 4 << 20

// ReadHistory reads the logs that a JobTracker of Hadoop 0.20 to 1.2 keeps of its jobs:
// records such as
//
//	MapAttempt TASKID="task_1_0001_m_000000" … START_TIME="1795315066264" .
//
// A log becomes a job by the rules of ReadRumen. Set-up and clean-up attempts are left
// out, because the world of a simulation adds them. A job's configuration adds its pool,
// its priority and its slow start. Errors and warnings name the file and the line.
func ReadHistory(folder string, files []HistoryFile, options RumenOptions) (*Trace, error) {
	if err := options.check(); err != nil {
		return nil, fmt.Errorf("%s: options: %w", folder, err)
	}
	im := &importer{r: reader{file: folder}, options: options.TraceOptions}
	h := &history{im: im, options: &options, confs: map[string]historyConf{}}
	logs := slices.DeleteFunc(slices.Clone(files), func(f HistoryFile) bool { return isConf(f.Name) })
	for _, f := range files {
		if isConf(f.Name) {
			h.read(f, h.conf)
		}
	}
	slices.SortFunc(logs, func(a, b HistoryFile) int { return strings.Compare(a.Name, b.Name) })
	for _, f := range logs {
		if im.full() {
			break
		}
		h.read(f, h.log)
	}
	im.r.file = folder
	if h.left > 0 {
		im.warn(0, "%d jobs that did not succeed are left out", h.left)
	}
	return im.finish()
}

// isConf reports whether a file is the configuration of a job.
func isConf(name string) bool {
	return strings.HasSuffix(strings.TrimSuffix(name, ".gz"), "_conf.xml")
}

// history reads the files of a folder.
type history struct {
	im      *importer
	options *RumenOptions
	confs   map[string]historyConf // by the job's id
	left    int                    // jobs that are left out

	job   *rumenJob
	maps  map[string]int // index in job.MapTasks by the task's id
	tasks map[string]int // index in job.ReduceTasks
	line  int            // of the job's first record
}

// historyConf holds the used properties of a job's configuration.
type historyConf struct {
	pool      string
	slowStart string
}

// read opens a file and passes it on.
func (h *history) read(f HistoryFile, do func(in io.Reader) error) {
	h.im.r.file = f.Name
	in, err := f.Open()
	if err == nil {
		err = errors.Join(do(in), in.Close())
	}
	if err != nil && len(h.im.r.errs) < maxErrors {
		h.im.r.errs = append(h.im.r.errs, fmt.Errorf("%s: %w", f.Name, err))
	}
}

// conf reads the configuration of a job.
func (h *history) conf(in io.Reader) error {
	var x struct {
		Properties []struct {
			Name  string `xml:"name"`
			Value string `xml:"value"`
		} `xml:"property"`
	}
	if err := xml.NewDecoder(in).Decode(&x); err != nil {
		return err
	}
	var c historyConf
	for _, p := range x.Properties {
		switch p.Name {
		case "mapred.fairscheduler.pool":
			c.pool = p.Value
		case "mapred.reduce.slowstart.completed.maps", "mapreduce.job.reduce.slowstart.completedmaps":
			c.slowStart = p.Value
		}
	}
	id, _, _ := strings.Cut(path.Base(h.im.r.file), "_conf.xml")
	h.confs[id] = c
	return nil
}

// log reads the log of a job, or of several one after another.
func (h *history) log(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxHistoryLine)
	h.job = nil
	number := 0
	for lines.Scan() && !h.im.full() {
		number++
		text := bytes.TrimRight(lines.Bytes(), " \r")
		if number == 1 && string(text) == "Avro-Json" {
			return errors.New("is a history of Hadoop 2, which this importer does not read; convert it with Rumen's TraceBuilder")
		}
		if len(text) == 0 || bytes.HasPrefix(text, []byte("!!FILE=")) {
			continue
		}
		kind, fields, ok := historyRecord(string(text))
		if !ok {
			h.im.fail(number, `is no record such as Job JOBID="…" .`)
			return nil
		}
		h.record(number, kind, fields)
	}
	h.endJob()
	return lines.Err()
}

// historyRecord splits a line into its type and its fields.
func historyRecord(line string) (kind string, fields map[string]string, ok bool) {
	kind, rest, ok := strings.Cut(line, " ")
	fields = map[string]string{}
	for ok {
		rest = strings.TrimLeft(rest, " ")
		if rest == "." {
			return kind, fields, true
		}
		key, value, found := strings.Cut(rest, `="`)
		if !found {
			break
		}
		var b strings.Builder
		i := 0
		for ; i < len(value) && value[i] != '"'; i++ {
			if value[i] == '\\' && i+1 < len(value) {
				i++
			}
			b.WriteByte(value[i])
		}
		if i == len(value) {
			break
		}
		fields[key], rest = b.String(), value[i+1:]
	}
	return kind, nil, false
}

// record adds a record to the current job.
func (h *history) record(line int, kind string, f map[string]string) {
	if kind == "Job" {
		h.jobRecord(line, f)
		return
	}
	if h.job == nil {
		return // Meta, Jobtracker, or a task of a job whose beginning is missing
	}
	r := h.job
	switch t := f["TASK_TYPE"]; {
	case t != "MAP" && t != "REDUCE":
	case kind == "Task":
		task := h.task(f["TASKID"], t)
		if hosts := f["SPLITS"]; hosts != "" {
			task.PreferredLocation = nil
			for place := range strings.SplitSeq(hosts, ",") {
				layers := strings.Split(strings.TrimPrefix(place, "/"), "/")
				task.PreferredLocation = append(task.PreferredLocation, struct {
					Layers []string `json:"layers"`
				}{layers})
			}
		}
	case kind == "MapAttempt" || kind == "ReduceAttempt":
		h.attempt(h.task(f["TASKID"], t), f)
	}
	r.Maps, r.Reduces = max(r.Maps, len(r.MapTasks)), max(r.Reduces, len(r.ReduceTasks))
}

// jobRecord takes the fields of a job. A submission begins the next job.
func (h *history) jobRecord(line int, f map[string]string) {
	if f["SUBMIT_TIME"] != "" {
		h.endJob()
		h.line = line
		h.job = &rumenJob{ID: f["JOBID"], Name: f["JOBNAME"], User: f["USER"], Queue: f["JOB_QUEUE"], Submit: historyTime(f, "SUBMIT_TIME")}
		h.maps, h.tasks = map[string]int{}, map[string]int{}
		c := h.confs[f["JOBID"]]
		if c.pool != "" {
			h.job.Queue = c.pool
		}
		if c.slowStart != "" {
			h.job.Properties.SlowStart1 = c.slowStart
		}
	}
	if h.job == nil {
		return
	}
	if p := f["JOB_PRIORITY"]; p != "" {
		h.job.Priority = p
	}
	if n, err := strconv.Atoi(f["TOTAL_MAPS"]); err == nil && n >= 0 {
		h.job.Maps = n
	}
	if n, err := strconv.Atoi(f["TOTAL_REDUCES"]); err == nil && n >= 0 {
		h.job.Reduces = n
	}
	switch s := f["JOB_STATUS"]; s {
	case "SUCCESS", "FAILED", "KILLED":
		h.job.Outcome = s
	}
}

// task returns the task of an id, which it adds if it is new.
func (h *history) task(id, kind string) *rumenTask {
	list, index := &h.job.MapTasks, h.maps
	if kind == "REDUCE" {
		list, index = &h.job.ReduceTasks, h.tasks
	}
	i, ok := index[id]
	if !ok {
		i = len(*list)
		index[id] = i
		*list = append(*list, rumenTask{ID: id})
	}
	return &(*list)[i]
}

// attempt takes the fields of an attempt, which has a record for its start and one for
// its end.
func (h *history) attempt(t *rumenTask, f map[string]string) {
	id := f["TASK_ATTEMPT_ID"]
	i := slices.IndexFunc(t.Attempts, func(a rumenAttempt) bool { return a.id == id })
	if i < 0 {
		i = len(t.Attempts)
		t.Attempts = append(t.Attempts, rumenAttempt{id: id})
	}
	a := &t.Attempts[i]
	if at := historyTime(f, "START_TIME"); at != nil {
		a.Start = at
	}
	if status := f["TASK_STATUS"]; status != "" {
		a.Result = status
		a.Finish, a.ShuffleFinished = historyTime(f, "FINISH_TIME"), historyTime(f, "SHUFFLE_FINISHED")
	}
	counters := f["COUNTERS"]
	for name, field := range map[string]*int64{"HDFS_BYTES_READ": &a.Read, "HDFS_BYTES_WRITTEN": &a.Written, "MAP_INPUT_BYTES": &a.MapInput, //house:sorted each counter has its own field
		"MAP_OUTPUT_BYTES": &a.MapOutput, "REDUCE_SHUFFLE_BYTES": &a.Shuffle, "CPU_MILLISECONDS": &a.ResourceUsage.CPU} {
		if n, ok := historyCounter(counters, name); ok {
			*field = n
		}
	}
}

// historyTime returns a time in ms since the epoch, or nil.
func historyTime(f map[string]string, key string) *int64 {
	n, err := strconv.ParseInt(f[key], 10, 64)
	if err != nil || n < 0 || n > int64(time.Duration(1<<62)/time.Millisecond) {
		return nil
	}
	return &n
}

// historyCounter finds [(NAME)(its title)(value)] in the text of counters.
func historyCounter(text, name string) (int64, bool) {
	_, rest, ok := strings.Cut(text, "[("+name+")(")
	if !ok {
		return 0, false
	}
	entry, _, ok := strings.Cut(rest, ")]")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(entry[strings.LastIndexByte(entry, '(')+1:], 10, 64)
	return n, err == nil && n >= 0
}

// endJob converts the job whose records have ended.
func (h *history) endJob() {
	r := h.job
	h.job = nil
	if r == nil {
		return
	}
	if r.Outcome != "SUCCESS" && !h.options.All {
		h.left++
		return
	}
	byID := func(a, b rumenTask) int { return strings.Compare(a.ID, b.ID) }
	slices.SortFunc(r.MapTasks, byID)
	slices.SortFunc(r.ReduceTasks, byID)
	j, guessed, err := h.options.job(r)
	switch {
	case err != nil:
		h.im.fail(h.line, "job %q: %s", r.ID, err)
		return
	case len(j.Maps)+len(j.Reduces) == 0:
		h.im.warn(h.line, "job %q has no tasks and is left out", r.ID)
		return
	case guessed > 0:
		h.im.warn(h.line, "job %q: %d tasks have no times and get the median", r.ID, guessed)
	}
	h.im.add(h.line, j)
}
