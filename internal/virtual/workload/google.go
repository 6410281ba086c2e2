package workload

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slotwise/slotwise/sched/job"
)

// googleRow holds the used columns of collection_events and instance_events of Google's
// ClusterData 2019. A column that is absent or null is nil.
type googleRow struct {
	// Pointers, because 0 has a meaning in each: a time of 0 is before the trace, type 0 is SUBMIT.
	Time       *googleInt  `json:"time"` // µs; 0 is before the trace
	Type       *googleInt  `json:"type"`
	Collection *googleInt  `json:"collection_id"`
	Kind       *googleInt  `json:"collection_type"`
	Priority   *googleInt  `json:"priority"`
	Scheduler  *googleInt  `json:"scheduler"`
	User       string      `json:"user"`
	Logical    string      `json:"collection_logical_name"`
	After      []googleInt `json:"start_after_collection_ids"`
	// The others are columns of instance_events alone.
	Index   *googleInt `json:"instance_index"`
	Machine *googleInt `json:"machine_id"`
	Alloc   *googleInt `json:"alloc_instance_index"`
}

// googleRedundant lists columns that a replay does not need.
var googleRedundant = []string{"missing_type", "alloc_collection_id", "collection_name"}

// googleNames are the names of values, which exports write instead of their numbers.
var googleNames = map[string]googleInt{
	"SUBMIT": googleSubmit, "QUEUE": 1, "ENABLE": 2, "SCHEDULE": googleSchedule, "EVICT": googleEvict, "FAIL": googleFail, "FINISH": googleFinish,
	"KILL": googleKill, "LOST": googleLost, "UPDATE_PENDING": 9, "UPDATE_RUNNING": 10,
	"JOB": 0, "ALLOC_SET": 1, "SCHEDULER_DEFAULT": 0, "SCHEDULER_BATCH": 1, "DEFAULT": 0, "BATCH": 1,
}

// The used types of events.
const (
	googleSubmit   googleInt = 0
	googleSchedule googleInt = 3
	googleEvict    googleInt = 4
	googleFail     googleInt = 5
	googleFinish   googleInt = 6
	googleKill     googleInt = 7
	googleLost     googleInt = 8
)

// googleInt is a number, a number in quotes, or the name of a value.
type googleInt int64

// UnmarshalJSON implements json.Unmarshaler.
func (n *googleInt) UnmarshalJSON(b []byte) (err error) {
	*n, err = parseGoogle(strings.Trim(string(b), `"`))
	return err
}

// parseGoogle parses a number or the name of a value. Copies of the traces have either.
// BigQuery writes 64-bit numbers in quotes, and exports by others replace numbers by names.
func parseGoogle(text string) (googleInt, error) {
	if v, ok := googleNames[text]; ok {
		return v, nil
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%.40q is neither a number nor the name of a value", text)
	}
	return googleInt(v), nil
}

// or returns the number, or another one if it is absent.
func (n *googleInt) or(other googleInt) googleInt {
	if n == nil {
		return other
	}
	return *n
}

// googleJob collects the events of a collection.
type googleJob struct {
	id        googleInt
	line      int
	file      string
	submit    int64 // µs, as collection_events states it; -1 unknown
	first     int64 // µs, the earliest row of an instance
	user, app string
	priority  googleInt
	after     []googleInt
	outcome   googleInt              // the type of its last event; googleSubmit while unknown
	running   map[googleInt]googleAt // by instance
	runs      []run
	leftOut   bool // it is an alloc set, or not of the batch scheduler
}

// googleAt is the time at which an instance was scheduled.
type googleAt struct{ start googleInt }

// google reads the tables of a trace.
// An instance is SUBMITted, SCHEDULEd, and then FINISHes, or is EVICTed, FAILs, is KILLed or LOST and may be
// SCHEDULEd again. A run is a SCHEDULE with the FINISH that follows; running holds the SCHEDULEs without an
// end, runs the rest in 12 bytes each. Rows of one instance are in the order of time, but rows of different
// instances and the two tables are mixed as BigQuery's shards happen to have them. So nothing about a job is
// decided before the last row: whether it is an alloc set, whether it ended well, which jobs it waits for.
type google struct {
	im    *importer
	batch bool
	jobs  []*googleJob
	index map[googleInt]int
	runs  int

	failed, empty, again, timeless, allocs int
}

// ReadGoogle reads the tables collection_events and instance_events of Google's ClusterData
// 2019, as BigQuery exports them: JSON objects, or values with commas between them below a
// header. The rows of an instance must be in the order of time. docs/formats/traces.md says
// what a duration contains. Errors and warnings name the file and the line.
func ReadGoogle(folder string, files []File, options GoogleOptions) (*Trace, error) {
	im, err := newImporter(folder, options.TraceOptions)
	if err != nil {
		return nil, err
	}
	im.unused.redundant = googleRedundant
	g := &google{im: im, batch: options.Batch, index: map[googleInt]int{}}
	im.readFiles(files, g.table)
	if len(im.r.errs) == 0 {
		g.finish()
	}
	im.r.file = folder
	im.warnOf(g.allocs, "collections are alloc sets, or not of the batch scheduler if that was asked for, and are left out")
	im.warnOf(g.failed, "jobs that did not finish are left out")
	im.warnOf(g.empty, "jobs without an instance that ran and finished within the trace are left out")
	im.warnOf(g.again, "runs that were evicted, killed or lost, or failed, are left out")
	im.warnOf(g.timeless, "instances that were scheduled before the trace began, or without a row, are left out")
	return im.finish()
}

// GoogleOptions say how a trace of Google becomes jobs.
type GoogleOptions struct {
	TraceOptions
	// Batch takes only the jobs of the batch scheduler, which collection_events tells.
	Batch bool
}

// table reads a file of either form.
func (g *google) table(in io.Reader) error {
	buffered := bufio.NewReader(in)
	first, err := buffered.Peek(1)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil && first[0] != '{' {
		return g.csv(buffered)
	}
	eachObject(g.im, buffered, g.row)
	return nil
}

// csv reads a table with a header.
func (g *google) csv(in io.Reader) error {
	var header []string
	return eachRow(g.im, in, func(line int, row []string) bool {
		if header == nil {
			header = slices.Clone(row)
			if !slices.Contains(header, "collection_id") || !slices.Contains(header, "time") || !slices.Contains(header, "type") {
				g.im.fail(line, "should be a header with time, type and collection_id")
				return false
			}
			return true
		}
		if len(row) != len(header) {
			g.im.fail(line, "has %d values, the header %d", len(row), len(header))
			return false
		}
		r, err := g.parse(line, header, row)
		if err != nil {
			g.im.fail(line, "%s", err)
			return g.im.r.more == 0
		}
		return g.row(line, r)
	})
}

// parse returns the row of a table as an object.
func (g *google) parse(line int, header, row []string) (*googleRow, error) {
	r := &googleRow{}
	for i, name := range header {
		text := row[i]
		if text == "" {
			continue
		}
		switch field := r.number(name); {
		case field != nil:
			n, err := parseGoogle(text)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			*field = &n
		case name == "user":
			r.User = strings.Clone(text)
		case name == "collection_logical_name":
			r.Logical = strings.Clone(text)
		case name == "start_after_collection_ids":
			if err := json.Unmarshal([]byte(text), &r.After); err != nil {
				return nil, fmt.Errorf("%s: %.40q is no list such as [1,2]", name, text)
			}
		default:
			g.im.noteUnused(line, name)
		}
	}
	return r, nil
}

// number returns the field of a numeric column, or nil.
func (r *googleRow) number(name string) **googleInt {
	switch name {
	case "time":
		return &r.Time
	case "type":
		return &r.Type
	case "collection_id":
		return &r.Collection
	case "collection_type":
		return &r.Kind
	case "priority":
		return &r.Priority
	case "scheduler":
		return &r.Scheduler
	case "instance_index":
		return &r.Index
	case "machine_id":
		return &r.Machine
	case "alloc_instance_index":
		return &r.Alloc
	}
	return nil
}

// row takes a row of either table.
func (g *google) row(line int, r *googleRow) bool {
	if r.Time == nil || r.Type == nil || r.Collection == nil || *r.Time < 0 {
		g.im.fail(line, "has no time, no type or no collection_id")
		return g.im.r.more == 0
	}
	j := g.job(line, r)
	switch {
	case j == nil:
	// Any of the three: exports leave out columns, and null in an instance's row is an absent value. Rows of
	// collection_events have none of the columns.
	case r.Index != nil || r.Machine != nil || r.Alloc != nil:
		g.instance(line, j, r)
	default:
		g.collection(j, r)
	}
	return g.im.r.more == 0
}

// job returns the job of a row, which it adds if it is new. It returns nil if the job is
// left out.
func (g *google) job(line int, r *googleRow) *googleJob {
	i, ok := g.index[*r.Collection]
	if !ok {
		// Alloc sets do not count: the limit is a number of jobs.
		if g.im.options.Limit > 0 && len(g.jobs)-g.allocs >= g.im.options.Limit {
			return nil
		}
		if len(g.jobs) == MaxJobs {
			g.im.fail(line, "more than %d jobs; take fewer with --limit", MaxJobs)
			g.im.r.more++
			return nil
		}
		i = len(g.jobs)
		g.index[*r.Collection] = i
		g.jobs = append(g.jobs, &googleJob{id: *r.Collection, line: line, file: g.im.r.file, submit: -1, first: math.MaxInt64})
	}
	j := g.jobs[i]
	if other := r.Kind.or(0) == 1 || g.batch && r.Scheduler != nil && *r.Scheduler != 1; other && !j.leftOut {
		// The events collected so far are freed: instance_events may come before the row that says that it is
		// an alloc set, and a service has many rows.
		*j = googleJob{id: j.id, leftOut: true}
		g.allocs++
	}
	if j.leftOut {
		return nil
	}
	// Both tables state it, so a folder of instance_events alone has priorities, too.
	if r.Priority != nil {
		j.priority = *r.Priority
	}
	return j
}

// collection takes an event of a whole job.
func (g *google) collection(j *googleJob, r *googleRow) {
	if r.User != "" {
		j.user = r.User
	}
	if r.Logical != "" {
		j.app = r.Logical
	}
	// A row without the list does not remove it. The bound keeps damaged rows from filling the memory.
	if len(r.After) > 0 && len(r.After) <= 1000 {
		j.after = r.After
	}
	switch *r.Type {
	case googleSubmit:
		j.submit = int64(*r.Time)
	case googleEvict, googleFail, googleFinish, googleKill, googleLost:
		j.outcome = *r.Type
	}
}

// instance takes an event of an instance. The earliest one of a job is its submission, unless
// collection_events states it.
func (g *google) instance(line int, j *googleJob, r *googleRow) {
	at, i := *r.Time, r.Index.or(0)
	if i < 0 || i >= MaxTasks {
		g.im.fail(line, "instance_index %d, must be from 0 to %d", i, MaxTasks-1)
		return
	}
	j.first = min(j.first, int64(at))
	started, isRunning := j.running[i]
	switch *r.Type {
	case googleSchedule:
		if j.running == nil {
			j.running = map[googleInt]googleAt{}
		}
		// A second SCHEDULE without an end between them means that the row of the end is missing.
		// The later start counts.
		if !isRunning {
			g.count(line)
		}
		j.running[i] = googleAt{at}
	// The instance runs again from its beginning, so this run is no time of a task.
	case googleEvict, googleFail, googleKill, googleLost:
		delete(j.running, i)
		g.again++
	case googleFinish:
		delete(j.running, i)
		// A time of 0 is before the trace and 2⁶³−1 after it: the run is known only in part.
		if !isRunning || started.start == 0 || at == 1<<63-1 {
			g.timeless++
			return
		}
		x, err := newRun(int32(i), int64(started.start)/1000, int64(at)/1000, 0)
		if err != nil {
			g.im.fail(line, "collection %d, instance %d: %s; the rows of an instance must be in the order of time", j.id, i, err)
			return
		}
		if len(j.runs) == MaxTasks {
			g.im.fail(line, "collection %d has more than %d instances", j.id, MaxTasks)
			return
		}
		j.runs = append(j.runs, x)
	}
}

// count bounds the instances that are kept.
func (g *google) count(line int) {
	if g.runs++; g.runs == MaxTotal+1 {
		g.im.fail(line, "more than %d runs so far; take fewer jobs with --limit", MaxTotal)
		g.im.r.more++ // no row after it is of use
	}
}

// finish adds the jobs, then the order among them.
func (g *google) finish() {
	added := map[googleInt]int{}
	for _, j := range g.jobs {
		switch {
		case j.leftOut:
			continue
		// Without a row about its end the job still ran when the trace ended. Its finished
		// instances count.
		case j.outcome != googleFinish && j.outcome != googleSubmit && !g.im.options.All:
			g.failed++
			continue
		// A job all of whose instances were evicted, or that began before the trace, has no time to replay.
		case len(j.runs) == 0:
			g.empty++
			continue
		}
		tasks, _ := runTasks(j.runs, 0)
		j.runs = nil
		g.im.r.file = j.file
		if j.submit < 0 {
			j.submit = j.first
		}
		added[j.id] = len(g.im.jobs)
		g.im.add(j.line, Job{Name: strconv.FormatInt(int64(j.id), 10), App: j.app, Request: job.Request{User: j.user, Priority: googlePriority(j.priority)},
			Submit: time.Duration(min(j.submit, 1<<62/1000)) * time.Microsecond, Maps: tasks})
	}
	for _, j := range g.jobs {
		// A second pass: a job may name one whose rows come later.
		at, ok := added[j.id]
		if !ok {
			continue
		}
		for _, id := range j.after {
			// A predecessor that was left out delays no job: its work is not in the replay.
			if p, ok := added[id]; ok && p != at {
				g.im.jobs[at].After = append(g.im.jobs[at].After, p)
			}
		}
	}
}

// googlePriority translates Google's tiers: free, best-effort batch, mid, production and
// monitoring.
func googlePriority(p googleInt) job.Priority {
	switch {
	case p < 100:
		return job.VeryLow
	case p <= 115:
		return job.Low
	case p < 120:
		return job.Normal
	case p < 360:
		return job.High
	}
	return job.VeryHigh
}
