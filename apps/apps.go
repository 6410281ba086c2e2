// Package apps holds the built-in jobs: the ones that MapReduce clusters are
// measured with (the PUMA suite, Hadoop's examples, TPC-H and BTWorld chains),
// a file each, written on the public package mapreduce alone, so that each is
// also an example of how to write a job.
package apps

import (
	"fmt"
	"strings"

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
	near, best := "", len(name)
	for _, a := range All() {
		if a.Name == name {
			return a, nil
		}
		if d := distance(strings.ToLower(name), a.Name); d < best && d <= 1+len(a.Name)/3 {
			near, best = a.Name, d
		}
	}
	if near != "" {
		return nil, fmt.Errorf("no app is called %q; did you mean %q?", name, near)
	}
	return nil, fmt.Errorf("no app is called %q", name)
}

// distance is the number of bytes to insert, delete or replace to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
