package apps

import (
	"bytes"
	"strings"

	"github.com/slotwise/slotwise/mapreduce"
)

// btworld makes a report of a log of BitTorrent trackers. It answers the questions of
// the BTWorld study, which observed hundreds of trackers for years, by a chain of
// jobs that share intermediate results.
//
//	logs ─► samples ─┬─► hours ─┬─► totals ─► days ──────────┐
//	 │               │          ├─► toptrackers ─────────────┤
//	 └───────────────┼──────────┴─► availability ────────────┤
//	                 └─► swarms ─┬─► tophashes ──────────────┼─► report
//	                             ├─► lifetimes ──────────────┤
//	                             └─► overlap ─► topoverlap ──┘
//
// The input is lines as `slotwise generate trackerlogs` makes them:
//
//	unix time TAB tracker TAB infohash TAB seeders TAB leechers TAB downloads
//	unix time TAB tracker TAB - TAB why the scrape failed
//
// The records between the jobs are as follows. n8 is a number in the eight bytes of
// mapreduce.AppendInt64; hours and days are counted since 1970; a zero byte ends a
// name unless it is the last part:
//
//	samples  hash 0 ‖ n8 hour ‖ tracker → n8 seeders ‖ n8 leechers ‖ n8 downloads: the
//	         last sample of the hour (the greatest of one second), if it has peers
//	hours    tracker 0 ‖ n8 hour → n8 active swarms ‖ n8 seeders ‖ n8 leechers
//	totals   n8 hour → the same of all trackers; a swarm counts on each
//	swarms   hash → n8 × 6 (see swarmLife) ‖ its trackers, a zero between them
//	overlap  tracker 0 tracker → n8 swarms on both; a tracker with itself: all of its swarms
//
// The others give sections of the report, which has their titles:
//
//	section ‖ rank → line, TAB between the columns
var btworld = stagesApp(mapreduce.App{
	Name:    "btworld",
	Summary: "reports on logs of BitTorrent trackers: peers over time, top trackers and swarms, overlap",
	Reads:   "lines of samples: time, tracker, infohash, seeders, leechers, downloads",
	Writes:  "a report of six tables",
	Small:   true,
	Params: []mapreduce.Param{
		{Name: "top", Default: "10", Help: "how many trackers (of each day), swarms and pairs of trackers to list"},
	},
	Steps: map[string]func(mapreduce.Params) (*mapreduce.Job, error){
		"samples":      btSamples,
		"hours":        btHours,
		"totals":       btTotals,
		"days":         btDays,
		"toptrackers":  btTopTrackers,
		"availability": btAvailability,
		"swarms":       btSwarms,
		"tophashes":    btTopHashes,
		"lifetimes":    btLifetimes,
		"overlap":      btOverlap,
		"topoverlap":   btTopOverlap,
		"report":       btReport,
	},
}, func(inputs []string, _ string) ([]string, error) { return inputs, nil },
	stage{"samples", []string{"logs"}},
	stage{"hours", []string{"samples"}},
	stage{"totals", []string{"hours"}},
	stage{"days", []string{"totals"}},
	stage{"toptrackers", []string{"hours"}},
	stage{"availability", []string{"hours", "logs"}},
	stage{"swarms", []string{"samples"}},
	stage{"tophashes", []string{"swarms"}},
	stage{"lifetimes", []string{"swarms"}},
	stage{"overlap", []string{"swarms"}},
	stage{"topoverlap", []string{"overlap"}},
	stage{"report", btSectionJobs},
)

// A section is the first byte of the keys of the lines in the report, and the index of
// its title.
const (
	sectionDays byte = iota
	sectionTrackers
	sectionHashes
	sectionLifetimes
	sectionOverlap
	sectionAvailability
)

var btTitles = [...]string{
	sectionDays:         "peers by day\nday\thours\tmean peers\tpeak peers\tmean swarms",
	sectionTrackers:     "top trackers of each day\nday\trank\ttracker\tpeer hours",
	sectionHashes:       "top swarms\nrank\tinfohash\tpeak peers\tpeak hour\thours active\tdownloads\ttrackers",
	sectionLifetimes:    "swarm lifetimes\nfrom hours\tto hours\tswarms",
	sectionOverlap:      "tracker overlap\nrank\ttracker\ttracker\tswarms on both\tof all on either",
	sectionAvailability: "tracker availability\ntracker\thours up\tscrapes failed",
}

// btSectionJobs make the sections.
var btSectionJobs = []string{"days", "toptrackers", "tophashes", "lifetimes", "topoverlap", "availability"}

// btReport writes all sections, each under its title, in one reduce.
func btReport(p mapreduce.Params) (*mapreduce.Job, error) {
	j := &mapreduce.Job{
		Name:        "btworld report",
		Partitioner: oneReduce,
		Reducer:     func() mapreduce.Reducer { return &reportWriter{section: -1} },
		Reduces:     1,
	}
	// The order of the sections is the order of their keys, whatever the order of the sources.
	for _, name := range btSectionJobs {
		j.Sources = append(j.Sources, readsFrom(p, name, mapreduce.Runs, sameRecords))
	}
	return j, nil
}

// The mappers of tracker logs.

// logMapper calls sample for each sample of a log and failure for each scrape
// that failed; both may be nil.
type logMapper struct {
	tableRow
	sample, failure func(r *tableRow, out *mapreduce.Emitter)
}

// logsOf makes logMappers.
func logsOf(sample, failure func(r *tableRow, out *mapreduce.Emitter)) func() mapreduce.Mapper {
	return func() mapreduce.Mapper {
		return &logMapper{tableRow{table: "tracker log", sep: '\t', columns: 6}, sample, failure}
	}
}

// Map reads a line. An empty one is nothing.
func (m *logMapper) Map(_, line []byte, out *mapreduce.Emitter) error {
	if len(line) == 0 {
		return nil
	}
	n := m.split(line)
	call := m.sample
	switch {
	// A failed scrape has four columns, of which the fourth is text. It must be tested before the number of
	// columns.
	case n >= 3 && string(m.text(2)) == "-":
		call = m.failure
	case n < m.columns:
		return m.short(n)
	}
	if call != nil {
		call(&m.tableRow, out)
	}
	return m.err
}

// plain returns a column that ends with a zero byte in keys, so may have none.
func (r *tableRow) plain(column int) []byte {
	if bytes.IndexByte(r.cut[column], 0) >= 0 {
		r.fail(column, "text without zero bytes")
	}
	return r.cut[column]
}

// appendNumbers appends the codes of numbers.
func appendNumbers(out []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		out = mapreduce.AppendInt64(out, n)
	}
	return out
}

// number returns the i-th number of a code, counted from 0.
func number(code []byte, i int) int64 { return mapreduce.Int64(code[8*i:]) }

// name cuts a name and its zero byte off a key.
func name(key []byte) (name, rest []byte) {
	name, rest, _ = bytes.Cut(key, []byte{0})
	return name, rest
}

// tabbed joins columns.
func tabbed(columns ...string) []byte { return []byte(strings.Join(columns, "\t")) }
