package feature

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/base/suggest"
	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/sched/job"
)

// Priorities are the values of --priority.
var Priorities = []string{"very-low", "low", "normal", "high", "very-high"}

// FlagSet declares flags: for the slotwise command in package pflag, for programs of
// mapreduce.Main in package flag, which links less.
type FlagSet interface {
	StringVar(to *string, name, value, usage string)
	BoolVar(to *bool, name string, value bool, usage string)
	IntVar(to *int, name string, value int, usage string)
	DurationVar(to *time.Duration, name string, value time.Duration, usage string)
	// StringArrayVar declares a flag that may be repeated, and StringSliceVar one whose values are
	// also separated by commas.
	StringArrayVar(to *[]string, name string, value []string, usage string)
	StringSliceVar(to *[]string, name string, value []string, usage string)
	Value(v FlagValue, name, usage string)
}

// FlagValue is the value of a flag in both packages. The help shows Type as the name of a value
// that the usage does not name.
type FlagValue interface {
	String() string
	Set(text string) error
	Type() string
}

// DataFlags are the flags about a job's data. Each field is where a flag's value goes. To add such
// a flag: a field here, a line in Declare, and the field of the value in cli's runFlags and in
// mapreduce.Options.
type DataFlags struct {
	Name                         *string
	Inputs, Include, Exclude     *[]string
	Format, Missing              *string
	Columns, Where               *[]string
	Output                       *string
	Overwrite, Force             *bool
	OutputFormat, OutputCompress *string
	OutputColumns                *[]string
	Reduces                      *int
	SplitSize                    *terminal.Size
	Compress                     *string
	StorageRetry                 *time.Duration
}

// Declare declares the flags.
func (d *DataFlags) Declare(s FlagSet) {
	s.StringVar(d.Name, "name", "", "`name` of the job for people, in lists, logs and history (default: the name of its program)")
	s.StringArrayVar(d.Inputs, "input", nil, "`file`, directory or glob to read (repeatable)")
	s.StringArrayVar(d.Include, "include", nil, "read only files whose names match this `glob` (repeatable)")
	s.StringArrayVar(d.Exclude, "exclude", nil, "skip files whose names match this `glob` (repeatable)")
	s.StringVar(d.Format, "format", "", "`format` of the input: auto (default; by the first bytes), text, csv, json, parquet, avro or sequence; records become lines (slotwise formats input)")
	s.StringSliceVar(d.Columns, "columns", nil, "`names` of the columns to read, in this order, as a,b (default: all)")
	s.StringArrayVar(d.Where, "where", nil, "read only records that meet this `condition` on a column, as part=0, 'fare>=2.5' or \"city!='Rome'\" (repeatable); one on a directory part=0/ skips files")
	s.StringVar(d.Missing, "missing", "", "what a column is that a file lacks: null, or `error` (default: null in JSON lines, else an error)")
	s.StringVar(d.Output, "output", "", "`directory` to write; it must not exist or be empty")
	s.BoolVar(d.Overwrite, "overwrite", false, "replace an earlier job's output in the output directory, once the job has succeeded")
	s.BoolVar(d.Force, "force", false, "like --overwrite, and replace the directory even if it contains other files")
	s.StringVar(d.OutputFormat, "output-format", "", "`format` of the output files: text (default), csv, json, parquet, avro or sequence (slotwise formats output)")
	s.StringSliceVar(d.OutputColumns, "output-columns", nil, "`names` of the output's columns, as word,count:int; types are string (default), bytes, int, float, bool (default: key,value)")

	s.IntVar(d.Reduces, "reduces", 0, "`number` of reduce tasks (default: the job's choice)")
	s.Value(d.SplitSize, "split-size", "bytes of input of one map task (default: chosen by the input's size)")
	s.StringVar(d.Compress, "compress", "none", "`codec` of intermediate data: none, lz4, s2 or zstd")
	s.DurationVar(d.StorageRetry, "storage-retry", DefaultStorageWait, "`time` for which the start of a job waits for a storage that is away; 0 fails at once")
	s.StringVar(d.OutputCompress, "output-compress", "none", "`codec` of the output: none, gzip, zstd, deflate, snappy, lz4 or lz4-hadoop (slotwise formats output)")
}

// LocalFlags are the flags about the cluster in one process.
type LocalFlags struct {
	Memory  *terminal.Size
	TempDir *string
	Workers *int
}

// Declare declares the flags.
func (l *LocalFlags) Declare(s FlagSet) {
	s.Value(l.Memory, "memory", "memory for all tasks together (default: a quarter of RAM)")
	s.StringVar(l.TempDir, "temp-dir", "", "`directory` for spills (default: the system's)")
	s.IntVar(l.Workers, "workers", 0, "`number` of workers (default: one for each core)")
}

// DeclareRequest declares the flags about what a job asks of the scheduler. They write into r. A
// flag that is not given leaves its field at 0, the default of job.Request. Where 0 is a value that
// a user may want, such as a slow start of 0, the parser stores another number.
func DeclareRequest(s FlagSet, r *job.Request) {
	s.Value(newValue(&r.TaskTimeout, parseTaskTimeout, durationText), "task-timeout", "kill a task attempt without progress for this `time`; 0 never does (default 10m)")
	s.Value(newValue(&r.MaxAttempts, parsePositive, strconv.Itoa), "max-attempts", "`number` of failures of one task that fail the job (default 4)")
	s.Value(newValue(&r.SlowStart, parseSlowStart, slowStartText), "slow-start", "`share` of the maps, from 0 to 1, that must have succeeded before reduces start (default 0.05, or 0 if all maps can run at once)")
	s.Value(newValue(&r.TaskMemory, parseTaskMemory, taskMemoryText), "task-memory", "memory that one task needs, as 2GiB; it may occupy several slots (default: one slot's share)")
	s.Value(newValue(&r.TaskCPUs, parseTaskCPUs, strconv.Itoa), "task-cpus", "`number` of processors that one task needs (default: one slot's share)")

	s.Value(newValue(&r.Deadline, ParseDeadline, durationText), "deadline", "`time` from the submission within which the job should end, as 45m; the policy deadline orders jobs by it")
	s.StringVar(&r.User, "user", "", "`name` of the job's user (default: the login name)")
	s.StringVar(&r.Pool, "pool", "", "`name` of the pool or queue of the job")
	s.Value(newValue(&r.Priority, parsePriority, priorityText), "priority", "`level`: very-low, low, normal, high or very-high")
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

// parseTaskTimeout reads the time without progress after which an attempt is killed. 0 means never, as in
// Hadoop, and never is a negative time in job.Request.
func parseTaskTimeout(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, errors.New("must be a time (90s, 10m)")
	}
	return cmp.Or(d, -1), nil
}

// ParseDeadline reads a time above 0; durationText is its inverse.
func ParseDeadline(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, errors.New("must be a time such as 45m or 2h30m, of at most ten years")
	}
	return d, (&job.Request{Deadline: d}).Check()
}

func durationText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// parsePriority reads the name of a priority; priorityText is its inverse.
func parsePriority(s string) (job.Priority, error) {
	p, ok := job.ParsePriority(s)
	if !ok {
		if best := suggest.Nearest(s, Priorities); best != "" {
			return 0, fmt.Errorf("did you mean %q?", best)
		}
		return 0, fmt.Errorf("must be one of %s", strings.Join(Priorities, ", "))
	}
	return p, nil
}

func priorityText(p job.Priority) string {
	return strings.ToLower(strings.ReplaceAll(p.String(), "_", "-"))
}
