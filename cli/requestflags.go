package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/slotwise/slotwise/internal/base/suggest"
	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/sched/job"
)

// registerRequest declares the flags about what a job asks of the scheduler. They write into r.
func registerRequest(s *pflag.FlagSet, r *job.Request) {
	s.DurationVar(&r.TaskTimeout, "task-timeout", 0, "kill a task attempt without progress for this `time` (default 10m)")
	s.Var(newValue(&r.MaxAttempts, parsePositive, strconv.Itoa), "max-attempts", "`number` of failures of one task that fail the job (default 4)")
	s.Var(newValue(&r.SlowStart, parseSlowStart, slowStartText), "slow-start", "`share` of the maps, from 0 to 1, that must have succeeded before reduces start (default 0.05, or 0 if all maps can run at once)")
	s.Var(newValue(&r.TaskMemory, parseTaskMemory, taskMemoryText), "task-memory", "memory that one task needs, as 2GiB; it may occupy several slots (default: one slot's share)")
	s.Var(newValue(&r.TaskCPUs, parseTaskCPUs, strconv.Itoa), "task-cpus", "`number` of processors that one task needs (default: one slot's share)")

	s.Var(newValue(&r.Deadline, parseDeadline, deadlineText), "deadline", "`time` from the submission within which the job should end, as 45m; the policy deadline orders jobs by it")
	s.StringVar(&r.User, "user", "", "`name` of the job's user (default: the login name)")
	s.StringVar(&r.Pool, "pool", "", "`name` of the pool or queue of the job")
	s.Var(newValue(&r.Priority, parsePriority, priorityText), "priority", "`level`: very-low, low, normal, high or very-high")
}

// parsedValue is a flag whose text is parsed when it is set, so that a wrong one is reported
// with the flag's name. It implements pflag.Value.
type parsedValue[T any] struct {
	to    *T
	parse func(string) (T, error)
	text  func(T) string
}

func newValue[T any](to *T, parse func(string) (T, error), text func(T) string) *parsedValue[T] {
	return &parsedValue[T]{to, parse, text}
}

// Set implements pflag.Value. The error begins with the text.
func (v *parsedValue[T]) Set(s string) error {
	x, err := v.parse(s)
	if err != nil {
		return fmt.Errorf("%q: %w", s, err)
	}
	*v.to = x
	return nil
}

// String implements pflag.Value. pflag calls it for a value that points nowhere, too.
func (v *parsedValue[T]) String() string {
	if v.to == nil {
		return ""
	}
	return v.text(*v.to)
}

// Type implements pflag.Value. The help shows it as the name of a value that the usage does
// not name, and quotes the default of a string.
func (v *parsedValue[T]) Type() string {
	if _, ok := any(v.to).(*int64); ok {
		return terminal.Size(0).Type()
	}
	return "string"
}

// parsePositive reads a whole number above 0. The zero value of a flag is its default.
func parsePositive(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n <= 0 {
		return 0, errors.New("must be a positive whole number")
	}
	return n, nil
}

// parseSlowStart reads the share of maps after which reduces start; slowStartText is its
// inverse.
func parseSlowStart(s string) (float64, error) {
	share, err := strconv.ParseFloat(s, 64)
	if err != nil || !(share >= 0 && share <= 1) { // the second is false for NaN
		return 0, errors.New("must be from 0 to 1")
	}
	return job.StartAfter(share), nil
}

func slowStartText(start float64) string {
	share, stated := (&job.Request{SlowStart: start}).StartsAfter()
	if !stated {
		return "" // the usage states the default
	}
	return strconv.FormatFloat(share, 'g', -1, 64)
}

// parseTaskMemory reads a size that a task may ask for; taskMemoryText is its inverse.
func parseTaskMemory(s string) (int64, error) {
	var z terminal.Size
	if err := z.Set(s); err != nil {
		return 0, err
	}
	if z == 0 {
		return 0, errors.New("must be from 1MiB to 1PiB")
	}
	return int64(z), (&job.Request{TaskMemory: int64(z)}).Check()
}

func taskMemoryText(n int64) string { return terminal.Size(n).String() }

// parseTaskCPUs reads a number of processors that a task may ask for.
func parseTaskCPUs(s string) (int, error) {
	n, err := parsePositive(s)
	if err == nil {
		err = (&job.Request{TaskCPUs: n}).Check()
	}
	return n, err
}

// parseDeadline reads a time above 0; deadlineText is its inverse.
func parseDeadline(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, errors.New("must be a time such as 45m or 2h30m, of at most ten years")
	}
	return d, (&job.Request{Deadline: d}).Check()
}

func deadlineText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// parsePriority reads the name of a priority; priorityText is its inverse.
func parsePriority(s string) (job.Priority, error) {
	p, ok := job.ParsePriority(s)
	if !ok {
		if best := suggest.Nearest(s, priorities); best != "" {
			return 0, fmt.Errorf("did you mean %q?", best)
		}
		return 0, fmt.Errorf("must be one of %s", strings.Join(priorities, ", "))
	}
	return p, nil
}

func priorityText(p job.Priority) string {
	return strings.ToLower(strings.ReplaceAll(p.String(), "_", "-"))
}
