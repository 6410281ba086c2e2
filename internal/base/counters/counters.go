// Package counters defines what a job counts while it runs.
//
// A counter is a named number that the attempts of a job add up. The built-in
// counters are the rows of one table, [Table]; the job's own code adds user
// counters under names of its choice. A [Set] holds both kinds for one attempt,
// or the sum over all succeeded attempts of one kind.
//
// To add a built-in counter, add its ID and its row here, a field of the same
// name to the message Counters in common.proto, and the line that counts it.
// Run proto/generate.sh after a change of common.proto. Many mappers take whole
// blocks, so what maps read is counted by block or in both paths of
// internal/data/engine/map.go.
// Everything else (progress over the wire, the journal, job summaries, JSON)
// follows from the table.
//
// The package is pure: it has no clock and does no I/O, so the tracker may keep
// Sets in its state.
package counters

import (
	"iter"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/slotwise/slotwise/internal/base/bounds"
)

// ID identifies a built-in counter. It is an index into [Table]. IDs are not
// stored anywhere, so their order may change; it is the order in which
// counters are shown.
type ID uint8

// The built-in counters, in the order in which a record passes through a task.
const (
	InputRecords ID = iota
	InputGroups
	InputBytes
	OutputRecords
	OutputBytes
	Spills
	SpilledRecords
	SpilledBytes
	FileBytes
	CPU
	BytesRead
	NumIDs // number of built-in counters, not an ID
)

// Unit is the unit of a counter, by which its number is formatted.
type Unit uint8

// The units. A number of nanoseconds is given as milliseconds in JSON.
const (
	Number Unit = iota
	Bytes
	Nanoseconds
)

// Kinds is a set of task kinds.
type Kinds uint8

// The kinds of tasks that can count.
const (
	Maps Kinds = 1 << iota
	Reduces
	Both = Maps | Reduces
)

// Counter describes a built-in counter.
type Counter struct {
	ID    ID
	Label string // shown to people
	JSON  string // key in JSON output; "" if the counter is internal and not shown
	Field string // field of the message Counters in common.proto
	Unit  Unit
	Kinds Kinds // the kinds of tasks that count it
}

// Table has one row per built-in counter, indexed by ID. It must not be
// changed.
var Table = [NumIDs]Counter{
	// Lines, fixed-size records or files that a map read; 0 if its mapper takes
	// whole blocks. For a reduce, the records of all its groups.
	{InputRecords, "input records", "input_records", "input_records", Number, Both},
	// Distinct keys, that is, calls of the reduce function.
	{InputGroups, "input groups", "input_groups", "input_groups", Number, Reduces},
	// A map's share of the stored input, compressed if the input is. For a
	// reduce, the keys and values that it fetched.
	{InputBytes, "input bytes", "input_bytes", "input_bytes", Bytes, Both},
	// Records that the map or reduce function emitted.
	{OutputRecords, "output records", "output_records", "output_records", Number, Both},
	// Keys and values of the emitted records. Maps that fold values do not count
	// it, since they store each key once.
	{OutputBytes, "output bytes", "output_bytes", "output_bytes", Bytes, Both},
	// Times that a full buffer was written to disk.
	{Spills, "spills", "spills", "spills", Number, Maps},
	{SpilledRecords, "spilled records", "spilled_records", "spilled_records", Number, Maps},
	{SpilledBytes, "spilled bytes", "spilled_bytes", "spilled_bytes", Bytes, Maps},
	// Committed output files, as stored.
	{FileBytes, "file bytes", "file_bytes", "file_bytes", Bytes, Both},
	// Processor time of the attempt's thread and of its child processes.
	{CPU, "cpu time", "cpu_ms", "cpu_ns", Nanoseconds, Both},
	// Input bytes read so far. Running maps report it too, for the progress of
	// the job, so it is not shown beside input_bytes.
	{BytesRead, "bytes read", "", "bytes_read", Bytes, Maps},
}

// ByJSON returns the counter with a JSON key, or nil.
func ByJSON(key string) *Counter {
	for i := range Table {
		// An internal counter has no key, so "" must not find one.
		if c := &Table[i]; c.JSON == key && key != "" {
			return c
		}
	}
	return nil
}

// JSONValue converts a number in the counter's unit to the one that JSON
// output gives: nanoseconds become milliseconds, rounded down.
func (c *Counter) JSONValue(n int64) int64 {
	if c.Unit == Nanoseconds {
		// JSON has milliseconds, as Hadoop's counters do, because readers of JSON lose digits of integers
		// above 2^53: nanoseconds of a large job's CPU time.
		return n / 1e6
	}
	return n
}

// OtherUser is the user counter that collects increments under new names once a Set has
// [bounds.Counters] user counters or their names take [bounds.CounterNames] bytes.
const OtherUser = bounds.OtherCounters

// BinaryMatches is the user counter of the commands of streaming jobs that have met binary data
// and left out lines that match, as GNU grep does. The job's results are then incomplete.
const BinaryMatches = "commands that left out lines of binary data"

// User counters of jobs whose input has groups of records, partitions or bad records.
const (
	RowGroups        = "row groups read"
	RowGroupsSkipped = "row groups skipped by conditions"
	FilesSkipped     = "files skipped by conditions"
	BadSkipped       = "bad records skipped"
)

// Set holds the numbers of all counters. The zero value has counted nothing.
// Copy a Set with [Set.Clone]: an assignment would share the user counters. A
// Set must not be used by several goroutines at a time.
type Set struct {
	n    [NumIDs]int64
	user map[string]int64 // nil if there are none; at most bounds.Counters names and OtherUser
	size int              // bytes of the names in user, OtherUser excepted
}

// Add adds n to a built-in counter.
func (s *Set) Add(id ID, n int64) { s.n[id] += n }

// Get returns the number of a built-in counter.
func (s *Set) Get(id ID) int64 { return s.n[id] }

// AddUser adds n to a user counter. Adding 0 makes the counter appear in the
// results. If the Set has no room for another name, n goes to [OtherUser]. A name comes from
// the job's code: its control characters and invalid bytes become U+FFFD, and a long name is
// cut, so names that differ in these only are one counter.
func (s *Set) AddUser(name string, n int64) {
	if s.user == nil {
		s.user = make(map[string]int64)
	}
	// The look-up comes before the cleaning: a job's code names a counter for each record, and nearly
	// always the same few.
	if _, known := s.user[name]; known { // so it is clean
		s.user[name] += n
		return
	}
	name = cutName(bounds.CleanName(name))
	// Different names may become equal once they are cleaned and cut, so the map is searched again.
	if _, known := s.user[name]; !known && name != OtherUser {
		// Names that are known continue to count. Which ones are left out depends on their order, so AddSet
		// adds in the order of names.
		if len(s.user) >= bounds.Counters || s.size+len(name) > bounds.CounterNames {
			name = OtherUser
		} else {
			s.size += len(name)
		}
	}
	s.user[name] += n
}

// cutName returns a name of at most bounds.CounterName bytes. It does not cut a letter in half.
func cutName(name string) string {
	if len(name) <= bounds.CounterName {
		return name
	}
	const mark = "…"
	// Cut at the end, where generated names differ most: the counters of a job that puts data into names
	// become one, which keeps to the bound.
	end := bounds.CounterName - len(mark)
	for end > 0 && !utf8.RuneStart(name[end]) {
		end--
	}
	return name[:end] + mark
}

// AddSet adds all counters of o to s. User counters are added in the order of
// their names, so that equal Sets stay equal even where a limit is reached.
func (s *Set) AddSet(o *Set) {
	// Built-in counters only add up: none is a maximum or a mean, so the sum over attempts does not depend
	// on the order in which they end.
	for id, n := range o.n {
		s.n[id] += n
	}
	// Through AddUser and not by the map, since the sum of two Sets within the bounds may exceed them.
	for name, n := range o.User() {
		s.AddUser(name, n)
	}
}

// Each yields the built-in counters in the order of the table, those at zero
// included.
func (s *Set) Each() iter.Seq2[*Counter, int64] {
	return func(yield func(*Counter, int64) bool) {
		for id := range s.n {
			if !yield(&Table[id], s.n[id]) {
				return
			}
		}
	}
}

// User yields the user counters in the order of their names.
func (s *Set) User() iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		// Sorted: the order of a Go map is random, and snapshots and outputs must be the same bytes each
		// time.
		for _, name := range slices.Sorted(maps.Keys(s.user)) {
			if !yield(name, s.user[name]) {
				return
			}
		}
	}
}

// Equal reports whether both Sets have the same numbers and the same user
// counters.
func (s *Set) Equal(o *Set) bool { return s.n == o.n && maps.Equal(s.user, o.user) }

// Clone returns a Set with the same numbers that shares nothing with s.
func (s *Set) Clone() Set { return Set{s.n, maps.Clone(s.user), s.size} }

// PutJSON stores the counters that are shown and not zero in m, under keys such
// as "map.input_records"; kind is "map" or "reduce". User counters are not
// included.
func (s *Set) PutJSON(m map[string]int64, kind string) {
	for c, n := range s.Each() {
		// After the conversion: less than a millisecond of CPU time is left out and not shown as 0.
		if n = c.JSONValue(n); n != 0 && c.JSON != "" {
			m[kind+"."+c.JSON] = n
		}
	}
}
