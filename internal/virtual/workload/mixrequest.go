package workload

import (
	"bufio"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/slotwise/slotwise/sched/job"
)

// request reads the keys of an entry that are its jobs' request to the scheduler. writeRequest
// is its inverse.
func (o *object) request() job.Request {
	return job.Request{
		User: o.text("user"), Pool: o.text("pool"),
		Priority:   field(o, "priority", job.Normal, parsePriority),
		Deadline:   field(o, "deadline", 0, deadline),
		SlowStart:  field(o, "slow-start", 0, slowStart),
		TaskMemory: field(o, "task-memory", 0, taskMemory),
		TaskCPUs:   field(o, "task-cpus", 0, whole(1, job.MaxTaskCPUs)),
		Hints:      o.hints(),
	}
}

// writeRequest writes what a job asks of the scheduler, without the defaults.
func writeRequest(w *bufio.Writer, r *job.Request) {
	write := func(key, text string, stated bool) {
		if stated {
			fmt.Fprintf(w, "    %s: %s\n", key, text)
		}
	}
	// 0 is stated, too (reduces start at once), so the field itself cannot say that it is absent.
	share, stated := r.StartsAfter()
	write("user", quote(r.User), r.User != "")
	write("pool", quote(r.Pool), r.Pool != "")
	write("priority", strings.ToLower(strings.ReplaceAll(r.Priority.String(), "_", "-")), r.Priority != job.Normal)
	write("deadline", r.Deadline.String(), r.Deadline != 0)
	write("slow-start", strconv.FormatFloat(share, 'g', -1, 64), stated)
	write("task-memory", strconv.FormatInt(r.TaskMemory, 10), r.TaskMemory != 0)
	write("task-cpus", strconv.Itoa(r.TaskCPUs), r.TaskCPUs != 0)
	text := hintsText(&r.Hints)
	write("hints", text, text != "")
}

// parsePriority reads a priority as this project writes it (very-low) or as Hadoop does
// (VERY_LOW).
func parsePriority(s string) (job.Priority, error) {
	p, ok := job.ParsePriority(s)
	if !ok {
		return 0, fmt.Errorf("unknown priority %q; there are very-low, low, normal, high, very-high", s)
	}
	return p, nil
}

// deadline reads the time from its submission within which a job should end.
func deadline(text string) (time.Duration, error) {
	d, err := parseTime(text)
	if err == nil && d == 0 {
		err = errors.New("must be above 0")
	}
	if err == nil {
		err = (&job.Request{Deadline: d}).Check()
	}
	return d, err
}

// slowStart reads the share of a job's maps after which its reduces start.
func slowStart(text string) (float64, error) {
	share, err := number(0, 1)(text)
	return job.StartAfter(share), err
}

// taskMemory reads the memory that one task asks for.
func taskMemory(text string) (int64, error) {
	n, err := ParseBytes(text)
	if err == nil && n == 0 {
		err = errors.New("must be at least 1 MiB")
	}
	if err == nil {
		err = (&job.Request{TaskMemory: n}).Check()
	}
	return n, err
}
