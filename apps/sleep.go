package apps

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/slotwise/slotwise/mapreduce"
)

// sleep runs tasks that wait, as SleepJob of Hadoop's examples does. It shows how
// a cluster schedules jobs of known task times, and it replaces the jobs of
// a job mix that state their task times and name no program.
//
//	parameters  maps, reduces: the times of the tasks
//	output      empty files
//
// Times are a list such as 3x20s,5s: three tasks of 20 seconds, one of 5.
var sleep = &mapreduce.App{
	Name:    "sleep",
	Summary: "runs tasks that sleep for stated times",
	Writes:  "nothing",
	Small:   true,

	NoOutput: true,
	Params: []mapreduce.Param{
		{Name: "maps", Default: "2x1s", Help: "times of the map tasks: 3x20s,5s is three of 20 seconds and one of 5"},
		{Name: "reduces", Default: "", Help: "times of the reduce tasks"},
	},
	Job: func(p mapreduce.Params) (*mapreduce.Job, error) {
		maps, err := parseTimes("maps", p.Get("maps"))
		if err != nil {
			return nil, err
		}
		reduces, err := parseTimes("reduces", p.Get("reduces"))
		if err != nil {
			return nil, err
		}
		if len(maps) == 0 {
			return nil, errors.New("parameter maps: a job needs at least one map task")
		}
		j := &mapreduce.Job{
			Name:      "sleep",
			Synthetic: len(maps),
			Mapper: func() mapreduce.Mapper {
				return mapreduce.MapperFunc(func(_, _ []byte, out *mapreduce.Emitter) error {
					return sleepFor(out.Task(), maps)
				})
			},
		}
		if len(reduces) > 0 {
			j.Reduces = len(reduces)
			j.Reducer = func() mapreduce.Reducer { return sleeper(reduces) }
		}
		return j, nil
	},
}

// maxSleepTasks bounds a list of times, against a slip of the finger.
const maxSleepTasks = 1_000_000

// parseTimes reads the times of tasks.
func parseTimes(param, text string) ([]time.Duration, error) {
	var list []time.Duration
	if text == "" {
		return nil, nil
	}
	for _, group := range strings.Split(text, ",") {
		count, each, many := strings.Cut(group, "x")
		n := 1
		if !many {
			each = count
		} else if i, err := strconv.Atoi(count); err == nil {
			n = i
		} else {
			// is refused below
			n = 0
		}
		d, err := time.ParseDuration(each)
		if err != nil || d < 0 || n < 1 || n > maxSleepTasks-len(list) {
			return nil, fmt.Errorf("parameter %s: %q is not a list of times such as 3x20s,5s, of at most %d tasks", param, group, maxSleepTasks)
		}
		for range n {
			list = append(list, d)
		}
	}
	return list, nil
}

// sleepFor waits for the time of the task, and states its progress meanwhile. It
// returns early, with the cause, if the task is to stop. A job may have more
// reduces than times, if its user says so; these end at once.
func sleepFor(t *mapreduce.Task, times []time.Duration) error {
	if t.Index() >= len(times) {
		return nil
	}
	whole, began := times[t.Index()], time.Now()
	end := time.NewTimer(whole)
	defer end.Stop()
	tick := time.NewTicker(time.Second / 4)
	defer tick.Stop()
	for {
		select {
		case <-end.C:
			return nil
		case <-tick.C:
			t.Progress(float64(time.Since(began)) / float64(whole))
		case <-t.Context().Done():
			return context.Cause(t.Context())
		}
	}
}

// sleeper is a reducer that waits at its end, because it has no records.
type sleeper []time.Duration

// Reduce implements mapreduce.Reducer. It is never called.
func (sleeper) Reduce([]byte, iter.Seq[[]byte], *mapreduce.Emitter) error { return nil }

// Finish sleeps.
func (s sleeper) Finish(out *mapreduce.Emitter) error { return sleepFor(out.Task(), s) }
