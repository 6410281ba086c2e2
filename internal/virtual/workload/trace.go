package workload

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/slotwise/slotwise/sched/job"
)

// Trace holds the jobs of a trace. It is a Source that ignores the seed.
type Trace struct {
	// List holds the jobs by time of submission, the first at 0.
	List []Job
	// Recorded holds the response time of each job in the traced run, 0 where the trace
	// does not state it. It is nil for forms that never do.
	Recorded []time.Duration
	// Warnings describe, in a sentence each, parts of the trace that were left
	// out, repaired or guessed.
	Warnings []string
}

// Jobs returns the jobs of the trace.
func (t *Trace) Jobs(uint64) ([]Job, error) { return append([]Job(nil), t.List...), nil }

// TraceOptions apply to all kinds of traces. The zero value leaves a trace
// unchanged.
type TraceOptions struct {
	// TimeScale multiplies the times of submission: 0.5 doubles the load. 0
	// means 1. Task times do not change.
	TimeScale float64
	// Limit takes only the first jobs of the file; 0 takes all.
	Limit int
	// Pools and Users name the pools and users of jobs that have none.
	Pools, Users Naming
	// SlowStart is the job.Request.SlowStart of jobs whose trace states none; 0 leaves them
	// the default.
	SlowStart float64
	// KeepHosts places maps on the hosts of the trace. Without it the simulator
	// chooses, because the nodes of a simulated cluster have other names.
	KeepHosts bool
	// All takes failed and killed jobs too, as if they had succeeded.
	All bool
	// Pack keeps the tasks of each job in a few bytes and gives the job an Outline, unless its
	// tasks name hosts.
	Pack bool
}

// MaxScale bounds the factors of times and sizes.
const MaxScale = 1e9

func (o *TraceOptions) check() error {
	if !(o.TimeScale >= 0 && o.TimeScale < MaxScale) {
		return fmt.Errorf("time scale %g, must be from 0 to below %g", o.TimeScale, MaxScale)
	}
	if o.Limit < 0 {
		return fmt.Errorf("limit %d, must not be negative", o.Limit)
	}
	return nil
}

// importer collects the jobs of a trace and its errors.
// An importer's life: newImporter; one call of add or addRecorded for each job, in any order, with job.After
// as indexes of the jobs added so far; finish. Between, fail collects errors and the format continues where
// it can, so that a user sees up to maxErrors mistakes at once; with an error there is no trace. Each reason
// for leaving out or guessing something is one warning with a number, and not a warning for each row.
type importer struct {
	r       reader
	options TraceOptions
	// In the order of the file until finish; Job.After holds indexes of this slice until then.
	jobs  []Job
	ended []time.Duration // recorded response times, parallel to jobs as far as it goes
	lines []int           // of the jobs
	tasks int
	trace Trace
	// firstBack is the line of the first job that is submitted before the
	// previous one, back the number of such jobs.
	firstBack, back int
	unused          unusedFields
}

// newImporter returns an importer of a file or folder, or an error about the options.
func newImporter(file string, o TraceOptions) (*importer, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("%s: options: %w", file, err)
	}
	return &importer{r: reader{file: file}, options: o}, nil
}

// fail adds an error at a line.
func (im *importer) fail(line int, format string, args ...any) {
	// A file of another kind has an error in each line. Readers of long tables stop when more is above 0.
	if len(im.r.errs) == maxErrors {
		im.r.more++
		return
	}
	im.r.errs = append(im.r.errs, fmt.Errorf("%s:%d: %s", im.r.file, line, fmt.Sprintf(format, args...)))
}

// warn adds a sentence about a line, or about the whole file if line is 0.
func (im *importer) warn(line int, format string, args ...any) {
	at := im.r.file
	if line > 0 {
		at = fmt.Sprintf("%s:%d", at, line)
	}
	im.trace.Warnings = append(im.trace.Warnings, at+": "+fmt.Sprintf(format, args...))
}

// warnOf adds a sentence about the whole file that begins with a number of things, unless there are none.
func (im *importer) warnOf(n int, things string) {
	if n > 0 {
		im.warn(0, "%d %s", n, things)
	}
}

// full reports whether options.Limit is reached.
func (im *importer) full() bool { return im.options.Limit > 0 && len(im.jobs) >= im.options.Limit }

// add adds the job that a line describes.
func (im *importer) add(line int, j Job) {
	if n := len(im.jobs); n > 0 && j.Submit < im.jobs[n-1].Submit {
		if im.back++; im.back == 1 {
			im.firstBack = line
		}
	}
	if im.tasks += j.Count(job.Map) + j.Count(job.Reduce); im.tasks > MaxTotal {
		// The job stays, without its tasks: the errors of later rows are still found, and memory stays
		// bounded.
		im.fail(line, "more than %d tasks so far; take fewer jobs, or larger blocks", MaxTotal)
		j.Maps, j.Reduces, j.Outline = nil, nil, nil
	}
	if len(im.jobs) == MaxJobs {
		im.fail(line, "more than %d jobs", MaxJobs)
		return
	}
	// After the count: a packed job still counts its tasks, but a refused one must not be packed.
	if im.options.Pack {
		j.pack()
	}
	im.jobs, im.lines = append(im.jobs, j), append(im.lines, line)
}

// addRecorded adds a job that was submitted and ended at some times in ms; nil is unknown.
func (im *importer) addRecorded(line int, j Job, submit, end *int64) {
	n := len(im.jobs)
	im.add(line, j)
	// If add has refused the job, its response time must not become the next one's.
	if submit == nil || end == nil || len(im.jobs) == n {
		return
	}
	if d, err := span(*submit, *end); err == nil {
		// The jobs before without a response time get 0, which means unknown. A form that never states one
		// leaves ended empty, and Trace.Recorded nil.
		im.ended = append(im.ended, make([]time.Duration, n-len(im.ended))...)
		im.ended = append(im.ended, d)
	}
}

// finish sorts the jobs and makes their times relative to the first one. Merged
// traces have jobs out of order, so that this is a warning and not an error.
func (im *importer) finish() (*Trace, error) {
	first := im.first()
	if len(im.r.errs) > 0 {
		return nil, im.r.err()
	}
	if len(im.jobs) == 0 {
		// The warnings say why nothing is left, such as "5 jobs that did not succeed are left out". The
		// caller prints no warnings of a trace that it does not get.
		for _, w := range im.trace.Warnings {
			im.r.errs = append(im.r.errs, fmt.Errorf("%s", w))
		}
		im.r.errs = append(im.r.errs, fmt.Errorf("%s: no jobs", im.r.file))
		return nil, im.r.err()
	}
	if im.back > 0 {
		im.warn(im.firstBack, "submitted before the job before it; %d such jobs, sorted by time", im.back)
	}
	im.warnUnused()
	jobs := im.sorted()
	for i := range jobs {
		j := &jobs[i]
		j.Submit = scaleTime(j.Submit-first, im.options.TimeScale)
		// What the trace states has priority, also over an option.
		if j.SlowStart == 0 {
			j.SlowStart = im.options.SlowStart
		}
		// Importers that compute durations or read slotwise's own have set it. Left at Stated, a map would
		// pay nothing for data on another node, like one of a mix (readsFar in the simulator).
		if j.Origin == Stated {
			j.Origin = Recorded
		}
		// By position after the sort: names in turn follow the order of submission, whatever order the files
		// have.
		j.Pool, j.User = im.options.Pools.name(j.Pool, j, i), im.options.Users.name(j.User, j, i)
	}
	im.trace.List = jobs
	return &im.trace, nil
}

// readFiles reads files in the order of their names, until there are enough jobs.
// Names decide the order because the caller's list may come from a directory or an archive, and the first
// jobs of a limited trace must be the same everywhere.
func (im *importer) readFiles(files []File, do func(in io.Reader) error) {
	for _, f := range slices.SortedFunc(slices.Values(files), func(x, y File) int { return strings.Compare(x.Name, y.Name) }) {
		if im.full() {
			return
		}
		im.readFile(f, do)
	}
}

// readFile opens a file, whose name errors and warnings then have, and passes it to do.
func (im *importer) readFile(f File, do func(in io.Reader) error) {
	im.r.file = f.Name
	in, err := f.Open()
	if err == nil {
		err = errors.Join(do(in), in.Close())
	}
	if err != nil && len(im.r.errs) < maxErrors {
		im.r.errs = append(im.r.errs, fmt.Errorf("%s: %w", f.Name, err))
	}
}

// sorted returns the jobs by time of submission. It translates Job.After, which importers
// fill in with indexes of im.jobs, and drops a predecessor that is submitted later.
func (im *importer) sorted() []Job {
	order := make([]int, len(im.jobs))
	for i := range order {
		order[i] = i
	}
	// Stable: jobs of the same millisecond keep the order of the file, which FIFO then follows.
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(im.jobs[a].Submit, im.jobs[b].Submit) })
	if len(im.ended) > 0 {
		im.trace.Recorded = make([]time.Duration, len(order))
		for to, from := range order {
			if from < len(im.ended) {
				im.trace.Recorded[to] = im.ended[from]
			}
		}
	}
	position := make([]int, len(order))
	jobs := make([]Job, len(order))
	dropped := 0
	for to, from := range order {
		position[from], jobs[to] = to, im.jobs[from]
	}
	for i := range jobs {
		// In place: each job owns its list.
		after := jobs[i].After[:0]
		for _, p := range jobs[i].After {
			// The simulator needs predecessors first, which also excludes circles. Google's traces
			// have jobs that name a later one.
			if position[p] < i {
				after = append(after, position[p])
			} else {
				dropped++
			}
		}
		jobs[i].After = after
		// Not an empty slice: a job without predecessors is the same whether some were dropped or not.
		if len(after) == 0 {
			jobs[i].After = nil
		}
	}
	if dropped > 0 {
		im.warn(0, "%d dependencies on jobs that are submitted later are left out", dropped)
	}
	return jobs
}

// first returns the time of the first job. A job more than maxTime later is an
// error.
// A single wrong time, such as one in µs among ms, would otherwise make a simulation of centuries.
func (im *importer) first() time.Duration {
	if len(im.jobs) == 0 {
		return 0
	}
	first := slices.MinFunc(im.jobs, func(a, b Job) int { return cmp.Compare(a.Submit, b.Submit) }).Submit
	for i := range im.jobs {
		if im.jobs[i].Submit-first > maxTime {
			im.fail(im.lines[i], "job %q comes %v after the first, more than 10 years", im.jobs[i].Name, im.jobs[i].Submit-first)
		}
	}
	return first
}

// scaleTime multiplies a time by a factor; 0 means 1.
func scaleTime(d time.Duration, factor float64) time.Duration {
	if factor == 0 || factor == 1 {
		return d
	}
	return time.Duration(min(math.Round(float64(d)*factor), float64(maxTime)))
}

// median returns the median of durations, 0 of none.
func median(list []time.Duration) time.Duration {
	if len(list) == 0 {
		return 0
	}
	list = slices.Sorted(slices.Values(list))
	// The lower middle: a time that a task really had, in whole ms as pack wants it, and not a mean of two.
	return list[(len(list)-1)/2]
}

// lineCounter is a reader that records where lines begin.
type lineCounter struct {
	in    io.Reader
	read  int64
	ends  []int64 // offsets of newlines, in order
	first int     // number of lines forgotten
	kept  int64   // the offset before which nothing is needed any more
	most  int64   // bytes from kept on; 0 is no bound
}

// errObjectSize is the error of a lineCounter beyond its bound.
var errObjectSize = errors.New("an object is larger than any that Hadoop's tools write")

// Read implements io.Reader.
func (l *lineCounter) Read(p []byte) (int, error) {
	// Before reading: the decoder's buffer holds all bytes since kept, and only a failing Read stops it.
	if l.most > 0 && l.read-l.kept > l.most {
		return 0, errObjectSize
	}
	n, err := l.in.Read(p)
	for i, c := range p[:n] {
		if c == '\n' {
			l.ends = append(l.ends, l.read+int64(i))
		}
	}
	l.read += int64(n)
	return n, err
}

// line returns the number, from 1, of the line that contains an offset.
func (l *lineCounter) line(offset int64) int {
	return 1 + l.first + sort.Search(len(l.ends), func(i int) bool { return l.ends[i] >= offset })
}

// forget drops the records of lines before an offset.
func (l *lineCounter) forget(offset int64) {
	n := l.line(offset) - 1 - l.first
	l.first += n
	l.kept = offset
	// The same array again, so a trace of any length keeps the lines of one object.
	l.ends = append(l.ends[:0], l.ends[n:]...)
}
