package workload

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/slotwise/slotwise/sched/job"
)

// slsJob holds the used fields of a job of Hadoop's scheduler load simulator.
type slsJob struct {
	ID    string    `json:"job.id"`
	User  string    `json:"job.user"`
	Queue string    `json:"job.queue.name"`
	Type  string    `json:"am.type"`
	Start *int64    `json:"job.start.ms"`
	End   *int64    `json:"job.end.ms"`
	Count *int      `json:"job.count"`
	Tasks []slsTask `json:"job.tasks"`
}

// slsTask holds the used fields of a container.
type slsTask struct {
	Host     string `json:"container.host"`
	Start    *int64 `json:"container.start.ms"`
	End      *int64 `json:"container.end.ms"`
	Type     string `json:"container.type"`
	Duration *int64 `json:"duration.ms"`
	Count    *int   `json:"count"`
}

// ReadSLS reads the JSON of Hadoop's scheduler load simulator: jobs one after
// another, each with its containers. A container becomes a task with the
// container's lifetime. If the container of a reduce started before the end of the
// job's last map, its time counts from that end: Task.Fetch is negative. A container that
// started later, or whose duration.ms is given, includes the shuffle. The container of the application master is left out. job.count and a
// container's count repeat a job or a task. Errors name the file and the line
// of the job.
func ReadSLS(file string, in io.Reader, options TraceOptions) (*Trace, error) {
	im, err := newImporter(file, options)
	if err != nil {
		return nil, err
	}
	im.unused.redundant = []string{"container.priority"} // follows from the type
	number := 0
	eachObject(im, in, func(line int, s *slsJob) bool {
		number++
		if s.ID == "" {
			s.ID = fmt.Sprintf("job%d", number)
		}
		j, err := s.job(&options)
		if err != nil {
			im.fail(line, "job %q: %s", s.ID, err)
			return true
		}
		// job.count repeats a job with all its containers, at the same time; SLS uses it to scale a load.
		for i := range many(s.Count) {
			// A count of a million beyond the bound of tasks would report the same error a million times.
			if im.full() || len(im.r.errs) > 0 {
				break
			}
			c := j
			if i > 0 {
				// Results are listed by name. The copies share their tasks, which callers of a Source must not change.
				c.Name = fmt.Sprintf("%s-%d", j.Name, i+1)
			}
			im.add(line, c)
		}
		return !im.full()
	})
	return im.finish()
}

// many returns a count, or 1 if it is absent.
func many(n *int) int {
	if n == nil {
		return 1
	}
	return *n
}

// job converts one job.
func (s *slsJob) job(o *TraceOptions) (Job, error) {
	j := Job{Name: s.ID, App: s.Type, Request: job.Request{User: s.User, Pool: s.Queue}}
	switch {
	case s.Start != nil && *s.Start < 0:
		return j, fmt.Errorf("job.start.ms: %d, must not be negative", *s.Start)
	case many(s.Count) < 1 || many(s.Count) > MaxTasks:
		return j, fmt.Errorf("job.count: %d, must be from 1 to %d", *s.Count, MaxTasks)
	case len(s.Tasks) == 0:
		return j, errors.New("has no tasks")
	}
	if s.Start != nil {
		j.Submit = time.Duration(min(*s.Start, int64(time.Duration(1<<62)/time.Millisecond))) * time.Millisecond
	}
	// Times are relative and may be negative, so 0 is no mark for "no map".
	mapsEnd := int64(math.MinInt64)
	for i := range s.Tasks {
		if c := &s.Tasks[i]; c.Type == "map" && c.End != nil {
			mapsEnd = max(mapsEnd, *c.End)
		}
	}
	for i := range s.Tasks {
		c := &s.Tasks[i]
		d, overlaps, err := c.duration(mapsEnd)
		if err != nil {
			return j, fmt.Errorf("task %d: %w", i, err)
		}
		kind, list := job.Map, &j.Maps
		switch c.Type {
		case "map":
		case "reduce":
			kind, list = job.Reduce, &j.Reduces
		default:
			return j, fmt.Errorf("task %d: container.type %q, must be map or reduce", i, c.Type)
		}
		n := many(c.Count)
		if n < 1 {
			return j, fmt.Errorf("task %d: count %d, must be at least 1", i, n)
		}
		// Before the tasks are made: a count of a few digits may ask for billions.
		if err := checkTasks(kind, float64(len(*list)+n)); err != nil {
			return j, err
		}
		t := Task{Duration: d}
		if overlaps {
			t.Fetch = -1
		}
		if o.KeepHosts && kind == job.Map && c.Host != "" {
			t.Hosts = []string{c.Host[strings.LastIndex(c.Host, "/")+1:]}
		}
		for range n {
			*list = append(*list, t)
		}
	}
	return j, nil
}

// duration returns the lifetime of a container, at least 1 ms. overlaps reports that a
// reduce started before the job's maps had ended, and that its lifetime counts from that
// end.
func (c *slsTask) duration(mapsEnd int64) (d time.Duration, overlaps bool, err error) {
	var ms int64
	switch {
	// SLS runs a container for duration.ms where it is there, and asks for the two times otherwise.
	case c.Duration != nil:
		ms = *c.Duration
	case c.Start == nil || c.End == nil:
		return 0, false, errors.New("neither duration.ms nor container.start.ms and container.end.ms")
	default:
		ms = *c.End - *c.Start
		if overlaps = c.Type == "reduce" && *c.Start < mapsEnd && ms > 0; overlaps {
			ms = *c.End - min(mapsEnd, *c.End)
		}
	}
	if ms < 0 || ms > int64(maxTime/time.Millisecond) {
		return 0, false, fmt.Errorf("it takes %d ms, must be from 0 to 10 years", ms)
	}
	return time.Duration(max(1, ms)) * time.Millisecond, overlaps, nil
}
