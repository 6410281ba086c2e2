package workload

import (
	"slices"
)

// Generator is a workload of a paper. Summary repeats the paper's description;
// Assumptions say how its gaps were filled.
type Generator struct {
	Name, Summary string
	Assumptions   []string
	// Cluster is the name of the paper's cluster; see PaperClusters.
	Cluster string
	Source  Source
}

// Generators returns the workloads of all papers, grouped by paper.
func Generators() []Generator {
	return slices.Concat(tummGenerators(), modfairGenerators(), tyrexGenerators(), learningGenerators(), dynamicGenerators())
}

// FindGenerator returns the generator of a name.
func FindGenerator(name string) (Generator, bool) {
	list := Generators()
	i := slices.IndexFunc(list, func(g Generator) bool { return g.Name == name })
	if i < 0 {
		return Generator{}, false
	}
	return list[i], true
}

// NamedCluster is a cluster of a paper.
type NamedCluster struct {
	Name, Summary string
	Cluster       Cluster
}

// PaperClusters returns the clusters of the papers' measurements. The papers
// state the kind of network and no bandwidths, so there are no limits.
func PaperClusters() []NamedCluster {
	one := func(heartbeat string, racks int, groups ...NodeGroup) Cluster {
		return Cluster{Racks: racks, Heartbeat: heartbeat, Groups: groups}
	}
	// TuMM changed Hadoop 0.20.2, ModFair 1.2.1; the two differ in how often a node may ask.
	const h020, h12 = "hadoop-0.20.2", "hadoop-1.2"
	return []NamedCluster{
		{"tumm", "4 m1.xlarge, 4 slots each, 2:2; Section 3", one(h020, 1,
			NodeGroup{Name: "xlarge", Count: 4, Cores: 4, Speed: 1, MapSlots: 2, ReduceSlots: 2})},
		// Table 3 states compute units: 8 for an xlarge, 4 for a large. xlarge-a has 3 slots for its 8 units,
		// 2.67 a slot. An m1.xlarge with 4 slots has 2, which is speed 1 here.
		{"tumm-heter1", "Table 3; speed is compute units per slot over the 2 of an m1.xlarge with 4 slots", one(h020, 1,
			NodeGroup{Name: "xlarge-a", Count: 3, Cores: 4, Speed: 2.67 / 2, MapSlots: 1, ReduceSlots: 2},
			NodeGroup{Name: "xlarge-b", Count: 3, Cores: 4, Speed: 1, MapSlots: 2, ReduceSlots: 2},
			NodeGroup{Name: "large", Count: 3, Cores: 2, Speed: 1.33 / 2, MapSlots: 2, ReduceSlots: 1})},
		// 20 units of a c1.xlarge on 4 slots are 5 a slot, 6.5 of an m2.xlarge are 1.63.
		{"tumm-heter2", "Table 3; speed as in tumm-heter1", one(h020, 1,
			NodeGroup{Name: "m1-xlarge", Count: 3, Cores: 4, Speed: 1, MapSlots: 2, ReduceSlots: 2},
			NodeGroup{Name: "c1-xlarge", Count: 3, Cores: 8, Speed: 5. / 2, MapSlots: 2, ReduceSlots: 2},
			NodeGroup{Name: "m2-xlarge", Count: 3, Cores: 2, Speed: 1.63 / 2, MapSlots: 2, ReduceSlots: 2})},
		// A heartbeat each ms: Figures 4 and 5 are drawn without any time between two tasks.
		{"modfair-example", "3 map and 3 reduce slots; Figures 4 and 5", one("fixed:1ms", 1,
			NodeGroup{Name: "node", Count: 1, Cores: 6, Speed: 1, MapSlots: 3, ReduceSlots: 3})},
		// Two processors for five slots, as stated for the slaves: tasks of one node slow each other down,
		// which a cluster with a processor for each slot does not show (repro runs both).
		{"modfair-a", "8 virtual machines in 2 racks, 4 map and 1 reduce slot each; experiment A", one(h12, 2,
			NodeGroup{Name: "vm", Count: 8, Cores: 2, Speed: 1, MapSlots: 4, ReduceSlots: 1})},
		{"modfair-b", "as modfair-a with 2 map slots; experiment B", one(h12, 2,
			NodeGroup{Name: "vm", Count: 8, Cores: 2, Speed: 1, MapSlots: 2, ReduceSlots: 1})},
		{"tyrex", "20 nodes of DAS-4, 6 map and 2 reduce slots each; Hadoop 1.0", one("hadoop-1.0", 1,
			NodeGroup{Name: "node", Count: 20, Cores: 8, Speed: 1, MapSlots: 6, ReduceSlots: 2})},
		{"learning", "7 workers with 4 cores, a heartbeat every 5 s, 5 map slots as under the native scheduler; " +
			"the 2 reduce slots are a guess", one("fixed:5s", 1,
			NodeGroup{Name: "node", Count: 7, Cores: 4, Speed: 1, MapSlots: 5, ReduceSlots: 2})},
		{"dynamicmr", "9 nodes with 2 reduce slots each, 18 in all; the 4 map slots are a guess, the paper gives none", one(h12, 1,
			NodeGroup{Name: "node", Count: 9, Cores: 4, Speed: 1, MapSlots: 4, ReduceSlots: 2})},
	}
}

// bench is a benchmark with the tasks that TuMM measured. Times are from Table
// 4: the middle between the fastest and the slowest task on the first
// heterogeneous cluster. There are 128 maps (8 GB in blocks of 64 MB), 150
// reduces for InvertedIndex and 80 for the others.
type bench struct {
	app                 string
	maps, reduces       int
	mapTime, reduceTime float64 // seconds
}

// benches lists the benchmarks in Johnson's order.
var benches = []bench{
	{"invertedindex", 128, 150, 11.25, 32.3},
	{"grep", 128, 80, 15.9, 21.1},
	{"wordcount", 128, 80, 21.45, 18.9},
	{"histogramratings", 128, 80, 16.65, 17.6},
	{"classification", 128, 80, 15.3, 12.7},
}

// meanMapTime and meanReduceTime are the means over the five benchmarks, for
// apps without measured times.
const (
	meanMapTime    = (11.25 + 15.9 + 21.45 + 16.65 + 15.3) / 5
	meanReduceTime = (32.3 + 21.1 + 18.9 + 17.6 + 12.7) / 5
)

// benchOf returns the benchmark of an app. An app that TuMM did not measure
// gets the mean times.
func benchOf(app string) bench {
	if i := slices.IndexFunc(benches, func(b bench) bool { return b.app == app }); i >= 0 {
		return benches[i]
	}
	return bench{app, 128, 80, meanMapTime, meanReduceTime}
}

// class makes a class of n equal jobs.
func (b bench) class(name string, n int) Class {
	return Class{Name: name, Count: n, App: b.app, Maps: Fixed(float64(b.maps)),
		Reduces: Fixed(float64(b.reduces)), MapTime: Fixed(b.mapTime), ReduceTime: Fixed(b.reduceTime)}
}

// equal returns n equal tasks.
func equal(n int, t Task) []Task { return slices.Repeat([]Task{t}, n) }
