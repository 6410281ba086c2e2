package workload

import (
	"errors"
	"fmt"
	"strings"

	"github.com/slotwise/slotwise/sched/job"
)

// Naming gives a pool or a user to the jobs of a trace that have none, so that policies
// with pools can be tried on it. The zero value gives none.
type Naming struct {
	// Turn is given to the jobs in turn.
	Turn []string
	// Hash, if above 0, is a number of names, "1" to Hash. The hash of the job's name
	// chooses one. The same job has the same name in every part of a trace.
	Hash int
	// BySize names the job by its number of tasks: "small" up to 10, "medium" up to 100,
	// "large" above.
	BySize bool
}

// maxNames bounds the names of a Naming.
const maxNames = 10_000

// ParseNaming reads a naming as command lines spell it: "a,b,c" for names in turn, "hash:8"
// or "size".
func ParseNaming(text string) (Naming, error) {
	if text == "size" {
		return Naming{BySize: true}, nil
	}
	if number, ok := strings.CutPrefix(text, "hash:"); ok {
		n, err := whole(1, maxNames)(number)
		return Naming{Hash: n}, err
	}
	names := strings.Split(text, ",")
	for i, name := range names {
		if names[i] = strings.TrimSpace(name); names[i] == "" {
			return Naming{}, errors.New("has an empty name; write a,b,c or hash:8 or size")
		}
	}
	if len(names) > maxNames {
		return Naming{}, fmt.Errorf("has %d names, at most %d", len(names), maxNames)
	}
	return Naming{Turn: names}, nil
}

// name returns the name for the i-th job, whose own one goes first.
func (n *Naming) name(own string, j *Job, i int) string {
	switch {
	case own != "":
		return own
	// The job's name and not its position: the first half of a trace has the pools that it has in the whole.
	case n.Hash > 0:
		return fmt.Sprint(hash(j.Name)%uint64(n.Hash) + 1)
	case n.BySize:
		switch tasks := j.Count(job.Map) + j.Count(job.Reduce); {
		case tasks <= 10:
			return "small"
		case tasks <= 100:
			return "medium"
		}
		return "large"
	}
	return turn(own, n.Turn, i)
}

// traceOption is an option of a trace by name, for command lines.
type traceOption struct {
	name, help string
	set        func(o *Options, value string) error
}

// traceOptions lists the options in the order of help texts.
var traceOptions = []traceOption{
	{"pools", "pools of jobs without one: names in turn (a,b,c), hash:N by the job's name, or size (small, medium, large by tasks)",
		func(o *Options, v string) (err error) { o.Trace.Pools, err = ParseNaming(v); return err }},
	{"users", "users of jobs without one, in the same way",
		func(o *Options, v string) (err error) { o.Trace.Users, err = ParseNaming(v); return err }},
	{"slow-start", "share of the maps of a job, 0 to 1, after which its reduces start, where the trace states none (0.05)",
		func(o *Options, v string) (err error) { o.Trace.SlowStart, err = slowStart(v); return err }},
	{"all", "true: also jobs that failed or were killed, which used slots, too",
		func(o *Options, v string) (err error) { o.Trace.All, err = yes(v); return err }},
	{"keep-hosts", "true: maps read on the hosts of the trace, whose names the cluster's nodes must have",
		func(o *Options, v string) (err error) { o.Trace.KeepHosts, err = yes(v); return err }},
	{"stages", "true: rumen tasks with CPU times share the resources of their node instead of taking their recorded time",
		func(o *Options, v string) (err error) { o.Stages, err = yes(v); return err }},
	{"batch", "google: true: only jobs of the batch scheduler, which collection_events tells",
		func(o *Options, v string) (err error) { o.Batch, err = yes(v); return err }},
	{"block", "swim: bytes of input for each map (64MiB)",
		func(o *Options, v string) (err error) { o.SWIM.Block, err = positiveBytes(v); return err }},
	{"reduce-bytes", "swim: bytes of shuffle or output, whichever is larger, for each reduce (1GiB)",
		func(o *Options, v string) (err error) { o.SWIM.ReduceBytes, err = positiveBytes(v); return err }},
	{"reduces-per-map", "swim: reduces for each map, instead of reduce-bytes",
		func(o *Options, v string) (err error) { o.SWIM.ReducesPerMap, err = positiveTo(1e6)(v); return err }},
	{"max-reduces", "swim: the most reduces of a job",
		func(o *Options, v string) (err error) { o.SWIM.MaxReduces, err = whole(1, MaxTasks)(v); return err }},
	{"map-output", "swim: the most bytes that a map of a map-only job writes (1GiB)",
		func(o *Options, v string) (err error) { o.SWIM.MapOutput, err = positiveBytes(v); return err }},
	{"rate", "swim: bytes a second that a task processes (3.46MiB/s)",
		func(o *Options, v string) (err error) {
			if o.SWIM.Rate, err = ParseRate(v); err == nil && o.SWIM.Rate <= 0 {
				err = errors.New("must be above 0")
			}
			return err
		}},
	{"startup", "swim: time that each task takes in addition (1s)",
		func(o *Options, v string) (err error) {
			if o.SWIM.Startup, err = parseTime(v); err == nil && o.SWIM.Startup == 0 {
				o.SWIM.Startup = -1 // 0 is the default of SWIMOptions
			}
			return err
		}},
}

// yes reads a truth value.
func yes(v string) (bool, error) {
	if v != "true" && v != "false" {
		return false, errors.New("must be true or false")
	}
	return v == "true", nil
}

// positiveBytes reads a size above 0.
func positiveBytes(v string) (int64, error) {
	n, err := ParseBytes(v)
	if err == nil && n == 0 {
		err = errors.New("must be above 0")
	}
	return n, err
}

// TraceOptionNames returns the names that Options.SetTrace knows, each with a description.
func TraceOptionNames() [][2]string {
	var list [][2]string
	for _, o := range traceOptions {
		list = append(list, [2]string{o.name, o.help})
	}
	return list
}

// SetTrace sets an option of a trace by its name.
func (o *Options) SetTrace(name, value string) error {
	var names []string
	for _, x := range traceOptions {
		if x.name == name {
			if err := x.set(o, value); err != nil {
				return fmt.Errorf("%s: %q: %w", name, value, err)
			}
			return nil
		}
		names = append(names, x.name)
	}
	return fmt.Errorf("%s: unknown option of a trace; there are %s", name, strings.Join(names, ", "))
}
