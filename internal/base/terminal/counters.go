package terminal

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/slotwise/slotwise/internal/base/counters"
)

// userGroup is the heading of counters that the job's own code counts.
const userGroup = "job's own"

// counterLine is a formatted counter.
type counterLine struct{ group, name, value string }

// Outcome describes an ended job for its summary.
type Outcome struct {
	Job           string
	State         string
	Took          time.Duration
	Maps, Reduces int
	Counters      map[string]int64 // the engine's, as kind.name
	User          map[string]int64 // the job's own
}

// Summary prints one line with the job's outcome, and then its counters.
func Summary(w io.Writer, o *Outcome) {
	Fprintf(w, "%s: %s in %s; %s, %s\n", o.Job, o.State, Duration(o.Took), Plural(o.Maps, "map"), Plural(o.Reduces, "reduce"))
	Counters(w, o)
}

// Counters prints a job's counters in groups: names in one column, numbers with
// commas and units in another.
func Counters(w io.Writer, o *Outcome) {
	lines := counterLines(o)
	// Measured first, in characters: the columns are as wide as the longest name and value of all
	// groups, so that numbers of maps and reduces can be compared.
	names, values := 0, 0
	for _, l := range lines {
		names = max(names, utf8.RuneCountInString(l.name))
		values = max(values, utf8.RuneCountInString(l.value))
	}
	group := ""
	for _, l := range lines {
		if l.group != group {
			group = l.group
			Fprintf(w, "  %s\n", group)
		}
		Fprintf(w, "    %-*s  %*s\n", names, l.name, values, l.value)
	}
	for _, text := range Warnings(o.Job, o.User) {
		Fprintf(w, "warning: %s\n", text)
	}
}

// Warnings returns a sentence for each of a job's own counters that says that its results are
// not what its author expects, although it has succeeded.
func Warnings(job string, user map[string]int64) (texts []string) {
	if n := user[counters.BinaryMatches]; n > 0 {
		texts = append(texts, fmt.Sprintf("job %s: in %s a command such as grep met binary data and left out lines that match; "+
			"choose its input files (--include, include: in a jobs file), or let the command read binary data as text (grep -a)", job, Plural(int(n), "task")))
	}
	return texts
}

// counterLines returns the engine's counters by group, map before reduce, then
// the user's.
func counterLines(o *Outcome) []counterLine {
	keys := make([]string, 0, len(o.Counters))
	for key := range o.Counters {
		keys = append(keys, key)
	}
	// Maps have no order, and two runs of a job must print the same.
	slices.SortFunc(keys, func(a, b string) int {
		groupA, nameA, _ := strings.Cut(a, ".")
		groupB, nameB, _ := strings.Cut(b, ".")
		return cmp.Or(cmp.Compare(groupA, groupB), cmp.Compare(counterRank(nameA), counterRank(nameB)), cmp.Compare(nameA, nameB))
	})
	var lines []counterLine
	for _, key := range keys {
		group, name, _ := strings.Cut(key, ".")
		lines = append(lines, builtinLine(group, name, o.Counters[key]))
	}
	var own []counterLine
	for name, n := range o.User {
		own = append(own, counterLine{userGroup, name, Count(n)})
	}
	slices.SortFunc(own, func(a, b counterLine) int { return cmp.Compare(a.name, b.name) })
	return append(lines, own...)
}

// counterRank returns a counter's position in the table of built-in counters. Unknown
// counters sort after them, by name.
func counterRank(name string) int {
	if c := counters.ByJSON(name); c != nil {
		return int(c.ID)
	}
	return int(counters.NumIDs)
}

// builtinLine formats a built-in counter in its unit. n is the value in JSON output.
func builtinLine(group, name string, n int64) counterLine {
	c := counters.ByJSON(name)
	// A master of a newer version may have counters that this program does not know.
	if c == nil {
		return counterLine{group, strings.ReplaceAll(name, "_", " "), Count(n)}
	}
	l := counterLine{group, c.Label, Count(n)}
	switch c.Unit {
	case counters.Bytes:
		l.value = Bytes(n)
	case counters.Nanoseconds:
		// JSON has milliseconds.
		l.value = Duration(time.Duration(n) * time.Millisecond)
	}
	return l
}
