package workload

import (
	"bufio"
	"bytes"
	"encoding/xml"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxHistoryLine bounds a line of a log. Lines with counters have some thousand bytes.
const maxHistoryLine = 4 << 20

// ReadHistory reads the logs that Hadoop keeps of its jobs. A JobTracker of Hadoop 0.20 to
// 1.2 writes records such as
//
//	MapAttempt TASKID="task_1_0001_m_000000" … START_TIME="1795315066264" .
//
// and Hadoop 2 and 3 write .jhist files, a JSON object for each event.
//
// A log becomes a job by the rules of ReadRumen. Set-up and clean-up attempts are left
// out, because the world of a simulation adds them. A job's configuration adds its pool,
// its priority and its slow start. Errors and warnings name the file and the line.
func ReadHistory(folder string, files []File, options RumenOptions) (*Trace, error) {
	im, err := newImporter(folder, options.TraceOptions)
	if err != nil {
		return nil, err
	}
	h := &history{im: im, options: &options, confs: map[string]historyConf{}}
	for _, f := range files {
		// Configurations first, whatever their names: the pool and the slow start are needed when the job
		// begins.
		if isConf(f.Name) {
			im.readFile(f, h.conf)
		}
	}
	im.readFiles(slices.DeleteFunc(slices.Clone(files), func(f File) bool { return isConf(f.Name) }), h.log)
	im.r.file = folder
	im.warnOf(h.left, "jobs that did not succeed are left out")
	return im.finish()
}

// isConf reports whether a file is the configuration of a job.
func isConf(name string) bool {
	return strings.HasSuffix(strings.TrimSuffix(name, ".gz"), "_conf.xml")
}

// history reads the files of a folder.
// Both forms of logs become a rumenJob, and Rumen's rules make the tasks: what the JobTracker wrote, what the
// history server wrote and what Rumen made of either agree for the same run. A log belongs to one job, but
// tools put logs together, so a submission ends the job before it.
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
	begins := 0 // line of the record; 0 between two records
	var record []byte
	for number := 1; lines.Scan() && !h.im.full(); number++ {
		text := bytes.TrimRight(lines.Bytes(), " \r")
		if number == 1 && string(text) == jhistMagic {
			h.jhist(lines)
			break
		}
		if number == 1 && string(text) == jhistBinary {
			return errBinary
		}
		if begins == 0 {
			// Such a line is before each of several logs that were put together for Rumen's analyzer.
			if len(text) == 0 || bytes.HasPrefix(text, []byte("!!FILE=")) {
				continue
			}
			begins, record = number, record[:0]
		} else {
			record = append(record, '\n')
		}
		// The text of an error may have several lines.
		if record = append(record, text...); len(record) > maxHistoryLine {
			break
		}
		if !bytes.HasSuffix(text, []byte(" .")) {
			continue
		}
		kind, fields, ok := historyRecord(string(record))
		if !ok {
			break
		}
		h.record(begins, kind, fields)
		begins = 0
	}
	if begins > 0 && lines.Err() == nil && !h.im.full() {
		h.im.fail(begins, `is no record such as Job JOBID="…" .`)
		return nil
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
			// Hadoop escapes quotes, backslashes and points, so " ." at the end of a line cannot be a part of
			// a value.
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
	switch t := f["TASK_TYPE"]; {
	// SETUP and CLEANUP: the world of a simulation adds their time.
	case t != "MAP" && t != "REDUCE":
	case kind == "Task":
		task := h.task(f["TASKID"], t)
		// Only the record of the start has them; the one of the end must not remove them.
		if hosts := f["SPLITS"]; hosts != "" {
			task.setHosts(hosts)
		}
	case kind == "MapAttempt" || kind == "ReduceAttempt":
		h.attempt(h.task(f["TASKID"], t), f)
	}
}

// setHosts takes the hosts of a map's split, such as "/rack/host1,/rack/host2".
func (r *rumenTask) setHosts(list string) {
	r.PreferredLocation = nil
	for location := range strings.SplitSeq(list, ",") {
		layers := strings.Split(strings.TrimPrefix(location, "/"), "/")
		r.PreferredLocation = append(r.PreferredLocation, struct {
			Layers []string `json:"layers"`
		}{layers})
	}
}

// jobRecord takes the fields of a job. A submission begins the next job.
func (h *history) jobRecord(line int, f map[string]string) {
	// A job has several Job records, one for each change. Only the first one has a time of submission, so it
	// also separates jobs in a file of several.
	if f["SUBMIT_TIME"] != "" {
		h.beginJob(line, &rumenJob{ID: f["JOBID"], Name: f["JOBNAME"], User: f["USER"], Queue: f["JOB_QUEUE"], Submit: historyTime(f, "SUBMIT_TIME")})
	}
	if h.job == nil {
		return
	}
	if p := f["JOB_PRIORITY"]; p != "" {
		h.job.Priority = p
	}
	h.counts(number32(f["TOTAL_MAPS"]), number32(f["TOTAL_REDUCES"]))
	switch s := f["JOB_STATUS"]; s {
	case "SUCCESS", "FAILED", "KILLED":
		h.job.Outcome, h.job.Finish = s, historyTime(f, "FINISH_TIME")
	}
}

// beginJob ends the job before, if there is one, and begins the next one.
func (h *history) beginJob(line int, j *rumenJob) {
	h.endJob()
	h.line, h.job = line, j
	h.maps, h.tasks = map[string]int{}, map[string]int{}
	c := h.confs[j.ID]
	if c.pool != "" {
		j.Queue = c.pool
	}
	if c.slowStart != "" {
		j.Properties.SlowStart1 = c.slowStart
	}
}

// counts takes the numbers of the job's tasks. nil and negative numbers change nothing.
func (h *history) counts(maps, reduces *int) {
	if maps != nil && *maps >= 0 {
		h.job.Maps = *maps
	}
	if reduces != nil && *reduces >= 0 {
		h.job.Reduces = *reduces
	}
}

// number32 returns the number that a text is, or nil.
func number32(text string) *int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return nil
	}
	return &n
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
	a := t.attempt(f["TASK_ATTEMPT_ID"])
	if at := historyTime(f, "START_TIME"); at != nil {
		a.Start = at
	}
	// The last status counts: a map whose output was lost succeeded first and failed later.
	if status := f["TASK_STATUS"]; status != "" {
		a.Result = status
		a.Finish, a.ShuffleFinished = historyTime(f, "FINISH_TIME"), historyTime(f, "SHUFFLE_FINISHED")
	}
	counters := f["COUNTERS"]
	for _, name := range historyCounters {
		if n, ok := historyCounter(counters, name); ok {
			a.count(name, n)
		}
	}
}

// attempt returns the attempt of an id, which it adds if it is new.
func (r *rumenTask) attempt(id string) *rumenAttempt {
	i := slices.IndexFunc(r.Attempts, func(a rumenAttempt) bool { return a.id == id })
	if i < 0 {
		i = len(r.Attempts)
		r.Attempts = append(r.Attempts, rumenAttempt{id: id})
	}
	return &r.Attempts[i]
}

// historyCounters are the counters that count uses.
var historyCounters = []string{"HDFS_BYTES_READ", "HDFS_BYTES_WRITTEN", "MAP_INPUT_BYTES", "MAP_OUTPUT_BYTES", "REDUCE_SHUFFLE_BYTES", "CPU_MILLISECONDS"}

// count takes the value of a counter of Hadoop, unless the counter is not used.
func (a *rumenAttempt) count(name string, n int64) {
	n = max(0, n)
	switch name {
	case "HDFS_BYTES_READ":
		a.Read = n
	case "HDFS_BYTES_WRITTEN":
		a.Written = n
	case "MAP_INPUT_BYTES":
		a.MapInput = n
	case "MAP_OUTPUT_BYTES":
		a.MapOutput = n
	case "REDUCE_SHUFFLE_BYTES":
		a.Shuffle = n
	case "CPU_MILLISECONDS":
		a.ResourceUsage.CPU = n
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
	// A killed job has fewer records than tasks; the tasks without records get the median. A log whose
	// totals are missing has more.
	r.Maps, r.Reduces = max(r.Maps, len(r.MapTasks)), max(r.Reduces, len(r.ReduceTasks))
	byID := func(a, b rumenTask) int { return strings.Compare(a.ID, b.ID) }
	// Records come in the order of starts, which the traced scheduler chose. Ids are in the order of splits.
	slices.SortFunc(r.MapTasks, byID)
	slices.SortFunc(r.ReduceTasks, byID)
	h.im.addRumen(h.line, h.options, r)
}
