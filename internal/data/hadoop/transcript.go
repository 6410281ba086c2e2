package hadoop

import (
	"cmp"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/base/terminal"
)

// Log writes lines as Hadoop's client does: a date, a level, the name of the logger and the
// message. Tools parse them.
type Log struct {
	W   io.Writer
	Now func() time.Time
}

// Line writes one line. Control characters in args are escaped.
func (l *Log) Line(level, logger, format string, args ...any) {
	// A job's name with an LF could otherwise forge a line of the log, which a tool would believe.
	terminal.Fprintf(l.W, "%s %s %s: "+format+"\n", append([]any{l.Now().Format("2006-01-02 15:04:05,000"), level, logger}, args...)...)
}

// Info writes a line of level INFO.
func (l *Log) Info(logger, format string, args ...any) { l.Line("INFO", logger, format, args...) }

// Percent returns a share as a whole percentage, which is 100 only at the end.
func Percent(share float64, done bool) int {
	if done {
		return 100
	}
	// Rounded down, and 100 is withheld until the job has ended: the commit of its output follows the last
	// task.
	return min(99, int(share*100))
}

// Counter is a counter in a block of counters.
type Counter struct {
	Name  string
	Value int64
}

// Group is a group of counters.
type Group struct {
	Name     string
	Counters []Counter
}

// Stats are the numbers of an ended job, in slotwise's words.
type Stats struct {
	Maps, Reduces, Failures int
	Local, Rack             int // maps on the node or in the rack of their data
	MapMillis, ReduceMillis int64
	Counters                map[string]int64 // built-in counters, as map.input_records
	User                    map[string]int64 // GROUP.NAME
}

// Groups returns the counters in Hadoop's groups and words.
func (s *Stats) Groups() []Group {
	c := s.Counters
	read := c["map.input_bytes"]
	written := c["reduce.file_bytes"]
	// Without reduces the maps write the output files.
	if s.Reduces == 0 {
		written = c["map.file_bytes"]
	}
	jobs := []Counter{{"Launched map tasks", int64(s.Maps + s.Failures)}}
	// In Hadoop a job counter exists only once it has been counted.
	if s.Failures > 0 {
		jobs = append([]Counter{{"Failed map tasks", int64(s.Failures)}}, jobs...)
	}
	if s.Reduces > 0 {
		jobs = append(jobs, Counter{"Launched reduce tasks", int64(s.Reduces)})
	}
	if s.Local > 0 {
		jobs = append(jobs, Counter{"Data-local map tasks", int64(s.Local)})
	}
	if s.Rack > 0 {
		jobs = append(jobs, Counter{"Rack-local map tasks", int64(s.Rack)})
	}
	jobs = append(jobs, Counter{"Total time spent by all map tasks (ms)", s.MapMillis})
	if s.Reduces > 0 {
		jobs = append(jobs, Counter{"Total time spent by all reduce tasks (ms)", s.ReduceMillis})
	}
	// Names with a space at their end, here and in the groups, are Hadoop's own. Tools compare them with the
	// space.
	framework := []Counter{
		{"Map input records", c["map.input_records"]}, {"Map output records", c["map.output_records"]},
		{"Map output bytes", c["map.output_bytes"]},
	}
	if s.Reduces > 0 {
		framework = append(framework,
			Counter{"Reduce input groups", c["reduce.input_groups"]}, Counter{"Reduce shuffle bytes", c["reduce.input_bytes"]},
			Counter{"Reduce input records", c["reduce.input_records"]}, Counter{"Reduce output records", c["reduce.output_records"]},
			Counter{"Spilled Records", c["map.spilled_records"]}, Counter{"Shuffled Maps ", int64(s.Maps * s.Reduces)},
			Counter{"Failed Shuffles", 0}, Counter{"Merged Map outputs", int64(s.Maps * s.Reduces)})
	}
	framework = append(framework, Counter{"CPU time spent (ms)", c["map.cpu_ms"] + c["reduce.cpu_ms"]})
	// The first three groups keep this order, and only the others are sorted. So Hadoop prints them.
	groups := []Group{
		{"File System Counters", []Counter{{"FILE: Number of bytes read", read}, {"FILE: Number of bytes written", written}}},
		{"Job Counters ", jobs},
		{"Map-Reduce Framework", framework},
	}
	others := append(s.user(), Group{"File Input Format Counters ", []Counter{{"Bytes Read", read}}},
		Group{"File Output Format Counters ", []Counter{{"Bytes Written", written}}})
	slices.SortStableFunc(others, func(a, b Group) int { return cmp.Compare(a.Name, b.Name) })
	return append(groups, others...)
}

// user returns the counters of the job's own commands.
func (s *Stats) user() []Group {
	byGroup := map[string][]Counter{}
	for _, key := range slices.Sorted(maps.Keys(s.User)) {
		// GroupEnd first, since a group of a streaming command may contain dots. Counters of jobs in Go have
		// a dot. A name without either belongs to the group User.
		group, name, ok := strings.Cut(key, GroupEnd)
		if !ok {
			if group, name, ok = strings.Cut(key, "."); !ok {
				group, name = "User", key
			}
		}
		byGroup[group] = append(byGroup[group], Counter{name, s.User[key]})
	}
	var groups []Group
	for _, name := range slices.Sorted(maps.Keys(byGroup)) {
		groups = append(groups, Group{name, byGroup[name]})
	}
	return groups
}

// GroupEnd separates group and name in the names of counters that commands count under
// Hadoop's rules. A group may contain dots.
const GroupEnd = " / "

// WriteCounters writes the block of counters as one record of the log.
func (l *Log) WriteCounters(groups []Group) {
	n := 0
	var b strings.Builder
	for _, g := range groups {
		terminal.Fprintf(&b, "\t%s\n", g.Name)
		for _, c := range g.Counters {
			// Counted all the same: the number in the first line counts every counter.
			if n++; c.Value < 0 {
				continue // mrjob takes a line with a negative number for a group
			}
			terminal.Fprintf(&b, "\t\t%s=%d\n", c.Name, c.Value)
		}
	}
	l.Info("mapreduce.Job", "Counters: %d", n)
	// The errors of a terminal are dropped throughout: the job has ended, and its result does not depend on
	// the log.
	io.WriteString(l.W, b.String())
}
