// Package apps holds the built-in jobs: the ones that MapReduce clusters are
// measured with (the PUMA suite, Hadoop's examples, TPC-H and BTWorld chains),
// a file each, written on the public package mapreduce alone, so that each is
// also an example of how to write a job.
//
// To add an app: write a file with its variable, whose comment states input, parameters and output; add it to
// All, with a test against an independent program or a naive computation; and describe it in docs/apps.md.
//
// What the apps have in common: the result must not depend on splits, memory, reduces or the number of
// attempts. So sums are integers or exact (exactSum), ties are broken by bytes, and random numbers are seeded
// by task. Input that is not theirs is counted and skipped in files of many authors (movies, edges, points)
// and fails the job in tables, where a wrong row would make a wrong answer. A mapper keeps its buffers in
// fields or closures, since it serves one attempt from one goroutine.
package apps

import (
	"fmt"

	"github.com/slotwise/slotwise/internal/base/suggest"
	"github.com/slotwise/slotwise/mapreduce"
)

// All returns the built-in apps in the order in which they are listed. It is
// the one place where an app is made known.
func All() []*mapreduce.App {
	return []*mapreduce.App{
		wordCount,
		grep,
		sortLines,
		teraSort,
		teraValidate,
		invertedIndex,
		termVector,
		sequenceCount,
		rankedInvertedIndex,
		selfJoin,
		adjacencyList,
		histogramMovies,
		histogramRatings,
		classification,
		kMeans,
		piEstimator,
		textWriter,
		cpuActivity,
		cpuLoad,
		sleep,
		urlGet,
		urlToDisk,
		tpchQ15,
		tpchQ16,
		tpchQ18,
		btworld,
	}
}

// Lookup returns the app called name. The error for a name that no app has
// suggests the nearest one.
func Lookup(name string) (*mapreduce.App, error) {
	var names []string
	for _, a := range All() {
		if a.Name == name {
			return a, nil
		}
		names = append(names, a.Name)
	}
	if best := suggest.Nearest(name, names); best != "" {
		return nil, fmt.Errorf("no app is called %q; did you mean %q?", name, best)
	}
	return nil, fmt.Errorf("no app is called %q; slotwise apps lists them", name)
}
