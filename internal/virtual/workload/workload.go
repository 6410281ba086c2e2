// Package workload describes the input of a simulation: jobs with their tasks,
// and the cluster that they run on. It reads job mixes and the traces of other
// tools, and it makes the workloads of the papers. It opens no files: readers
// get an io.Reader.
//
// A workload has a short life. Read or ReadFolder turns text into a Source; Source.Jobs makes the jobs of one
// seed; the simulator submits each at its Submit time, or later when the jobs in After have ended, and asks
// for its tasks then. Importers of traces share the type importer (trace.go), which bounds, sorts and names
// jobs, so that a format only translates rows into tasks. Mixes, clusters and profiles are YAML and share the
// type reader (yaml.go), which collects errors with their lines.
//
// Two rules keep runs comparable. Every random draw comes from generator, named by its purpose and its
// subject, so a changed class leaves the draws of the others alone. And every policy of a comparison gets the
// same jobs: nothing here depends on what a run does.
//
// To add a format: write a reader that fills an importer and returns importer.finish; add a row to formats
// and, if it has options, to traceOptions; say in docs/formats/traces.md what one of its durations contains.
// A Duration must not contain waiting for maps or for a slot, since the simulator adds its own.
package workload

import (
	"cmp"
	"fmt"
	"time"

	"github.com/slotwise/slotwise/sched/job"
)

// Job is one job of a workload.
type Job struct {
	// Reports use Name, App and Class. App is the program, Class groups jobs.
	Name, App, Class string
	job.Request
	// Submit is the time of submission, since the start of the run.
	Submit time.Duration
	// Plan is the time in which the submitter prepares the job after Submit, before the
	// tracker gets it. It uses no resources of the cluster.
	Plan time.Duration
	// Origin says where the tasks' durations come from. Importers of traces set it.
	Origin Origin
	// Maps and Reduces are the tasks, by index.
	Maps, Reduces []Task
	// Outline replaces Maps and Reduces, unless Outline is nil. Traces with millions of tasks
	// use it, so that only the tasks of running jobs are in memory. Count and Tasks work for
	// all jobs.
	Outline *Outline
	// Resident is the memory in bytes that the process of a running task occupies, whatever
	// it asks for. 0 is unknown: the task occupies none.
	Resident int64
	// After holds indexes of jobs that must have ended before this one is
	// submitted. They form chains.
	After []int
}

// Origin says where the durations of a job's tasks come from.
type Origin uint8

const (
	// Stated durations come from a mix. Tasks with such a time sleep in a real run.
	Stated Origin = iota
	// Computed durations follow from the bytes of a trace, so tasks of equal size take equally
	// long: no task has had bad luck.
	Computed
	// Recorded durations were measured by another system. Slow attempts are among them.
	Recorded
	// Own durations are from slotwise's history. They contain the maps' reads, local or not.
	Own
)

// Outline makes the tasks of a job when they are needed.
type Outline struct {
	Maps, Reduces int // number of tasks
	// Make returns the tasks, which the caller owns. Each call makes equal tasks. It is safe
	// for concurrent use.
	Make func() (maps, reduces []Task)
}

// Count returns the number of the job's tasks of a kind.
func (j *Job) Count(k job.Kind) int {
	switch {
	case j.Outline == nil && k == job.Map:
		return len(j.Maps)
	case j.Outline == nil:
		return len(j.Reduces)
	case k == job.Map:
		return j.Outline.Maps
	}
	return j.Outline.Reduces
}

// Tasks returns the job's tasks by kind. With an Outline each call makes them, so callers
// should call it once and forget the tasks soon. The caller must not change them.
func (j *Job) Tasks() [job.Kinds][]Task {
	if j.Outline == nil {
		return [job.Kinds][]Task{j.Maps, j.Reduces}
	}
	maps, reduces := j.Outline.Make()
	return [job.Kinds][]Task{maps, reduces}
}

// Task is the work of one task. With a Duration the task takes that long on a
// node of speed 1. Without one it goes through stages that share the resources
// of its node.
type Task struct {
	// Duration is the time on a node of speed 1; 0 selects the stages.
	Duration time.Duration
	// Fetch is the part of a reduce's Duration in which it fetches map outputs, and
	// which may therefore overlap with the job's maps. 0 means that Duration includes
	// a shuffle of unknown length: the simulator assumes ModelConfig.ShuffleShare. A
	// negative Fetch means that Duration counts from the end of the last map, as
	// importers of traces measure it for a reduce that started earlier.
	// The simulator scales the part with the attempt: an attempt that runs twice as long fetches twice as
	// long.
	Fetch time.Duration
	// Input is the bytes that a map reads. For a reduce it is the bytes
	// fetched, and matters only if the maps of the job state no output.
	Input int64
	// Output is the bytes of a map's output, or the bytes that a reduce writes.
	Output int64
	// CPU is core time on a core of speed 1.
	CPU time.Duration
	// Hosts are the nodes that hold a map's split; nil lets the simulator place
	// the split as HDFS does.
	Hosts []string
}

// Overlap returns the part of a reduce's Duration in which it fetches map outputs, and
// which may overlap with the job's maps. share is the fraction of Duration to assume if
// the workload does not state Fetch.
func (t *Task) Overlap(share float64) time.Duration {
	switch {
	// Nothing of the recorded time can be earlier than the last map's end, where it begins.
	case t.Fetch < 0:
		return 0
	case t.Fetch > 0:
		return min(t.Fetch, t.Duration)
	}
	return time.Duration(float64(t.Duration) * share)
}

// Cluster is a cluster of groups of equal nodes.
type Cluster struct {
	Groups []NodeGroup
	// Racks is the number of racks that the nodes are spread over; 0 means one.
	Racks int
	// Heartbeat names a profile of heartbeat intervals; empty means the
	// simulator's default.
	Heartbeat string
	// RackUplink is the bandwidth into each rack, CoreLink the bandwidth
	// between all racks together, in bytes per second; 0 means no limit.
	RackUplink, CoreLink float64
}

// NodeGroup is a number of equal nodes.
type NodeGroup struct {
	// Name is the prefix of the nodes' names, unless Hosts has the names.
	Name  string
	Count int
	// Hosts are the names of the Count nodes, or nil.
	Hosts []string
	// Rack is the number of the nodes' rack, from 1. 0 assigns them to racks in turn.
	Rack int
	// Cores is the number of processors of a machine; 0 means one for each slot.
	Cores int
	// Memory is the memory of a node in bytes, which its slots share equally; 0 is
	// unknown. It decides how many slots a task with TaskMemory occupies.
	Memory int64
	// Speed is the speed of a processor relative to a normal one; 0 means 1.
	Speed float64
	// Together makes the nodes workers on one machine, as in the local shell:
	// they share its cores and bandwidths.
	Together bool
	// Beside puts the nodes on the machine of the group before, which is Together or Beside, too.
	// That machine has the cores, speed and bandwidths of its first group.
	Beside                bool
	MapSlots, ReduceSlots int
	// DiskBandwidth and NICBandwidth are in bytes per second; 0 means no limit.
	DiskBandwidth, NICBandwidth float64
}

// Processors returns the number of processors of a machine of the group. All nodes of a
// group that is Together are on one machine.
func (g *NodeGroup) Processors() int {
	slots := g.MapSlots + g.ReduceSlots
	if g.Together {
		slots *= g.Count
	}
	return max(1, cmp.Or(g.Cores, slots))
}

// NodeCores returns the number of processors of one node of the i-th group, at least 1. Nodes on
// one machine have equal shares.
func (c *Cluster) NodeCores(i int) int {
	// The group that is Together states the machine; those Beside it state slots alone.
	for c.Groups[i].Beside && i > 0 {
		i--
	}
	g := &c.Groups[i]
	if !g.Together {
		return g.Processors()
	}
	nodes := g.Count
	// All nodes of the machine share its processors, also nodes of the groups after the first.
	for i++; i < len(c.Groups) && c.Groups[i].Beside; i++ {
		nodes += c.Groups[i].Count
	}
	return max(1, g.Processors()/max(1, nodes))
}

// CheckBeside returns an error about a group that is Beside and cannot be.
func (c *Cluster) CheckBeside() error {
	first := -1 // group of the current machine
	for i := range c.Groups {
		g := &c.Groups[i]
		switch {
		case !g.Beside:
			first = i
		case first < 0 || !c.Groups[first].Together:
			return fmt.Errorf("nodes %d: the group before is not together on one machine", i+1)
		// 0 means a processor for each slot of a group. For a machine of several groups it would count the
		// slots of the first alone, and every further group would make its processors slower.
		case c.Groups[first].Cores == 0:
			return fmt.Errorf("nodes %d: state the cores of its machine in the first group that is there", i+1)
		case g.Together || g.Cores != 0 || g.Speed != 0 || g.DiskBandwidth != 0 || g.NICBandwidth != 0:
			return fmt.Errorf("nodes %d: cores, speed, disk and nic of its machine belong to the first group that is there", i+1)
		}
	}
	return nil
}
