package workload

import "fmt"

// dynamicJobs are the names of DynamicMR's thirty jobs, Table 3 of its
// supplement.
var dynamicJobs = []string{
	"wordcount", "sort", "grep", "invertedindex", "classification", "histogrammovies", "histogramratings",
	"sequencecount", "selfjoin", "classification", "wordcount", "invertedindex", "sequencecount", "selfjoin",
	"histogrammovies", "sort", "histogramratings", "grep", "invertedindex", "histogramratings", "classification",
	"selfjoin", "grep", "invertedindex", "sequencecount", "sort", "wordcount", "histogramratings",
	"classification", "sequencecount",
}

// dynamicApps is the number of the first jobs, which have different apps.
const dynamicApps = 9

// dynamicAssumed are the assumptions of all these workloads.
var dynamicAssumed = []string{
	"Sort has 320 maps and 200 reduces (stated for Figure 5); for the other apps the paper's sizes are not at hand, so they have those of TuMM, which ran PUMA too: 128 maps, 150 reduces for InvertedIndex and 80 for others",
	"task times are the middles of TuMM's Table 4; HistogramMovies has those of HistogramRatings, and Sort, SequenceCount and SelfJoin the means of the five",
	"all jobs come at once, each in a pool of its own"}

// dynamicGenerators returns the workloads of Tang et al., DynamicMR.
func dynamicGenerators() []Generator {
	var list []Generator
	for _, app := range dynamicJobs[:dynamicApps] {
		summary := "DynamicMR: " + app + " alone"
		if app == "sort" {
			summary += " (320 maps and 200 reduces, Figure 5)"
		}
		list = append(list, Generator{Name: "dynamicmr-" + app, Cluster: "dynamicmr", Assumptions: dynamicAssumed,
			Summary: summary, Source: &Mix{Classes: []Class{dynamicClass(app, app)}}})
	}
	// The supplement's batches have 5, 10, 20 and 30 jobs; 1 to 10 are for its Figure 4. Each is a prefix of
	// the list, so a longer one adds jobs only.
	for _, n := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30} {
		m := &Mix{}
		for i := range n {
			m.Classes = append(m.Classes, dynamicClass(fmt.Sprintf("J%d", i+1), dynamicJobs[i]))
		}
		list = append(list, Generator{Name: fmt.Sprintf("dynamicmr-%d", n), Cluster: "dynamicmr", Assumptions: dynamicAssumed,
			Summary: fmt.Sprintf("DynamicMR: the first %d of the jobs J1 to J30 of PUMA", n), Source: m})
	}
	return list
}

// dynamicClass makes a class of one job in a separate pool.
func dynamicClass(name, app string) Class {
	b := benchOf(app)
	switch app {
	case "sort":
		b.maps, b.reduces = 320, 200
	case "histogrammovies":
		// Both read the same movie data, and TuMM has measured one.
		b = benchOf("histogramratings")
		b.app = app
	}
	c := b.class(name, 1)
	// Pools by job: fair shares are then shares of jobs, whichever way a policy divides pools.
	c.Pool = name
	return c
}
