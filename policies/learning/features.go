package learning

import (
	"fmt"
	"math"
	"strings"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
	"github.com/slotwise/slotwise/sched/portable"
)

// Feature is a property of the job or the node that is known when a decision is
// made. The paper lists candidates but not its choice, so the set is a
// parameter.
type Feature uint8

// The features. The first four are the job's resource hints, 1 to 10.
const (
	JobCPU Feature = iota
	JobMemory
	JobDisk
	JobNetwork
	Load        // one-minute load average per processor
	LoadFine    // one-minute load average of the whole node, in finer steps
	Busy        // busy fraction of the processors
	Tasks       // running on the node, before the one decided on
	FreeMemory  // fraction
	Cores       // processors
	Speed       // of a core, relative to a normal one
	DiskRate    // bytes a second
	NetworkRate // bytes a second
	Processes   // on the whole machine
	TaskKind    // 0 for maps, 1 for reduces
	FreeSwap    // fraction
	DiskSpace   // free bytes where the node stores its files
	TotalMemory // bytes of the machine
	TotalSwap   // bytes of the machine
	Disks       // of the machine
	Arch        // architecture of the processors, a cluster.Arch
	OSVersion   // version of the operating system, a cluster.KernelOf
	Features    // the number of features
)

// Values holds a value for each feature, in the unit given there.
type Values [Features]float64

// Vector is a candidate in the form that classifiers use: for each feature in
// use, in order, a bin (for counting) and a number of about 0 to 1 (for
// weighing).
type Vector struct {
	Bins [Features]uint16
	X    [Features]float64
}

// feature defines how a feature is binned and scaled.
type feature struct {
	name  string
	bins  int                     // bins, numbered from 0
	bin   func(v float64) float64 // unrounded; clipped to the bins
	scale func(v float64) float64
}

// slack keeps 10·0.3 = 2.9999999999999996 in the bin of 3.
const slack = 1e-9

const mib = 1 << 20

// minus and times use conversions that keep compilers from fusing two
// operations into one rounding. Equal seeds must lead to equal decisions on
// every machine.
func minus(by float64) func(float64) float64 { return func(v float64) float64 { return v - by } }
func times(by float64) func(float64) float64 {
	return func(v float64) float64 { return float64(v*by) + slack }
}
func over(by float64) func(float64) float64 { return func(v float64) float64 { return v / by } }
func same(v float64) float64                { return v }
func rate(v float64) float64                { return portable.Log2(1 + v/mib) }
func up(v float64) float64                  { return math.Ceil(v - slack) }
func gib(v float64) float64                 { return portable.Log2(1 + v/(1<<30)) }
func gibPart(v float64) float64             { return gib(v) / 16 }

// table defines the features. The paper lists candidates for features but no bins (reading 4 in README.md).
var table = [Features]feature{
	JobCPU:      {"cpu", 10, minus(1), over(10)},
	JobMemory:   {"memory", 10, minus(1), over(10)},
	JobDisk:     {"disk", 10, minus(1), over(10)},
	JobNetwork:  {"network", 10, minus(1), over(10)},
	Load:        {"load", 50, times(10), same},
	LoadFine:    {"load_fine", 500, func(v float64) float64 { return up(10 * v) }, over(4)},
	Busy:        {"busy", 10, times(10), same},
	Tasks:       {"tasks", 32, same, over(10)},
	FreeMemory:  {"free_memory", 10, times(10), func(v float64) float64 { return 1 - v }},
	Cores:       {"cores", 8, func(v float64) float64 { return up(portable.Log2(max(1, v))) }, over(16)},
	Speed:       {"speed", 10, times(4), over(2)},
	DiskRate:    {"disk_rate", 16, rate, func(v float64) float64 { return rate(v) / 16 }},
	NetworkRate: {"network_rate", 16, rate, func(v float64) float64 { return rate(v) / 16 }},
	Processes:   {"processes", 16, func(v float64) float64 { return portable.Log2(1 + v) }, over(1000)},
	TaskKind:    {"kind", job.Kinds, same, same},
	FreeSwap:    {"free_swap", 10, times(10), func(v float64) float64 { return 1 - v }},
	DiskSpace:   {"disk_space", 16, gib, func(v float64) float64 { return max(0, 1-gibPart(v)) }},
	TotalMemory: {"total_memory", 16, gib, gibPart},
	TotalSwap:   {"total_swap", 16, gib, gibPart},
	Disks:       {"disks", 16, same, over(16)},
	Arch:        {"architecture", 8, same, over(8)},
	// Versions are names. A prime number of bins tells neighbouring ones apart.
	OSVersion: {"os_version", 61, func(v float64) float64 { return math.Mod(v, 61) }, over(10000)},
}

// String returns the name in the parameter "features".
func (f Feature) String() string { return table[f].name }

// DefaultFeatures are the features in use by default. A feature that never
// varies is not neutral in naive Bayes: it favours the class seen more often.
// Features that differ between nodes only are therefore left out; add them
// where nodes are unequal.
//
// The kind of task is left out as well, although maps and reduces of jobs without hints are
// equal to the classifier without it. Where overload is rare, naive Bayes gives the kind that
// has run more often the higher probability. The other kind then starves as long as new jobs
// arrive, and a job whose reduces starve never ends. Equal candidates take turns at random.
const DefaultFeatures = "cpu,memory,disk,network,load,busy,tasks,free_memory"

// ParseFeatures parses a list of feature names separated by commas.
func ParseFeatures(list string) (Space, error) {
	var s Space
	seen := [Features]bool{}
	for _, name := range strings.Split(list, ",") {
		f := Feature(0)
		for f < Features && table[f].name != strings.TrimSpace(name) {
			f++
		}
		if f == Features {
			return nil, fmt.Errorf("there is no feature %q; choose from %s", name, strings.Join(featureNames(), ", "))
		}
		if seen[f] {
			return nil, fmt.Errorf("feature %q is given twice", f)
		}
		seen[f] = true
		s = append(s, f)
	}
	return s, nil
}

// featureValues are the values of the parameter "features".
var featureValues = sched.Values[Space]{
	Accepts: "different features separated by commas",
	Parse:   ParseFeatures,
	Print:   Space.String,
}

func featureNames() (names []string) {
	for _, f := range table {
		names = append(names, f.name)
	}
	return names
}

// Space lists the features in use, in order.
type Space []Feature

// String returns the names in the form that ParseFeatures reads.
func (s Space) String() string {
	names := make([]string, len(s))
	for i, f := range s {
		names[i] = f.String()
	}
	return strings.Join(names, ",")
}

// Sizes returns the number of bins of each feature in use.
func (s Space) Sizes() []int {
	sizes := make([]int, len(s))
	for i, f := range s {
		sizes[i] = table[f].bins
	}
	return sizes
}

// Encode writes the vector for the values to out. Negative and undefined values
// count as 0.
func (s Space) Encode(v *Values, out *Vector) {
	for i, f := range s {
		out.set(i, f.encode(v[f]))
	}
}

// code is the value of a feature in the form that classifiers use.
type code struct {
	bin uint16
	x   float64
}

// encode returns the code of a value.
func (f Feature) encode(v float64) code {
	if !(v >= 0) {
		v = 0
	}
	t := &table[f]
	return code{uint16(min(float64(t.bins-1), max(0, math.Floor(t.bin(v))))), t.scale(v)}
}

// set replaces the feature at an index.
func (out *Vector) set(i int, c code) { out.Bins[i], out.X[i] = c.bin, c.x }

// setTask sets the features of a job's tasks of a kind.
func (v *Values) setTask(k job.Kind, p job.Ratings) {
	v[TaskKind] = float64(k)
	v[JobCPU], v[JobMemory] = float64(p.CPU), float64(p.Memory)
	v[JobDisk], v[JobNetwork] = float64(p.Disk), float64(p.Network)
}

// setNode sets the features of a node, except the number of its tasks, which
// changes between heartbeats.
func (v *Values) setNode(spec cluster.Spec, l cluster.Load) {
	cores := float64(max(1, spec.Cores))
	v[Load], v[LoadFine] = l.LoadAverage/cores, l.LoadAverage
	v[Busy], v[FreeMemory] = l.CPU, l.MemoryFree
	v[Cores], v[Speed] = cores, spec.Speed
	v[DiskRate], v[NetworkRate] = l.DiskRate, l.NetworkRate
	v[Processes] = float64(l.Processes)
	v[FreeSwap], v[DiskSpace] = l.SwapFree, float64(l.DiskFree)
	m := &l.Machine
	v[TotalMemory], v[TotalSwap] = float64(m.Memory), float64(m.Swap)
	v[Disks], v[Arch], v[OSVersion] = float64(m.Disks), float64(m.Arch), float64(m.Kernel)
}
