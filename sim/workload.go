package sim

import (
	"errors"
	"io"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/job"
)

// Job is a job to simulate.
type Job struct {
	Name  string
	Class string // groups jobs in reports
	// Request has the job's demands on the scheduler: its user, pool and priority, slow start,
	// and what a task needs. TaskMemory needs nodes that state their memory.
	Request
	// Submit is the time of the job's submission since the start of the run.
	Submit time.Duration
	// Maps and Reduces are the job's tasks.
	Maps, Reduces []Task
	// After lists jobs, by their index in the workload, that must have ended before
	// this one is submitted. They must come earlier in the list.
	After []int
}

// Request has the demands of a job on the scheduler, all of its description but its work.
type Request = job.Request

// Task is the work of a map or a reduce. With a Duration it takes that long on a
// node of speed 1. Without one it reads, computes and writes, and shares processors,
// disks and network with the tasks beside it.
type Task struct {
	Duration time.Duration
	// Fetch is the part of a reduce's Duration in which it fetches map outputs, and which
	// may overlap with the maps. With 0 or less all of Duration follows the end of the last
	// map.
	Fetch  time.Duration
	Input  int64         // bytes read by a map, or fetched by a reduce if the maps have no Output
	Output int64         // bytes written
	CPU    time.Duration // processor time on a core of speed 1
	// Hosts are the nodes that hold a map's input. Nodes are called by the name of
	// their group and their number in the cluster, from 1: "node1". Without hosts
	// the input is placed on three nodes, as HDFS does.
	Hosts []string
}

// Tasks returns n tasks of the same duration.
func Tasks(n int, each time.Duration) []Task {
	tasks := make([]Task, n)
	for i := range tasks {
		tasks[i].Duration = each
	}
	return tasks
}

// Workload is the jobs of a run. Jobs and ReadWorkload make one. Runs can share it.
type Workload struct {
	source   workload.Source
	recorded bool // a trace, of which there is one sample whatever the seed
}

// Jobs returns the workload of the given jobs, which it copies.
func Jobs(jobs ...Job) Workload {
	list := make([]workload.Job, len(jobs))
	for i, j := range jobs {
		// After is shared and not copied, since no run changes it.
		list[i] = workload.Job{Name: j.Name, Class: j.Class, Request: j.Request, Submit: j.Submit,
			Maps: copyTasks(j.Maps), Reduces: copyTasks(j.Reduces), After: j.After}
	}
	return Workload{source: &workload.Trace{List: list}}
}

// Task and workload.Task have the same fields in the same order, and the compiler refuses the conversion once
// they have not.
func copyTasks(tasks []Task) []workload.Task {
	list := make([]workload.Task, len(tasks))
	for i, t := range tasks {
		list[i] = workload.Task(t)
	}
	return list
}

// Formats returns the formats that ReadWorkload knows, each with a line about it.
func Formats() [][2]string { return workload.Formats() }

// ReadWorkload reads a file that "slotwise sim --workload" reads. The format is
// "mix" for a job mix, or "swim", "rumen", "sls" or "synth" for a trace. Error messages
// name the file by name and give the line. A mix draws
// its jobs from the seed of each run.
func ReadWorkload(format, name string, r io.Reader, o TraceOptions) (Workload, error) {
	source, err := workload.Read(format, name, r, workload.Options{
		Trace: workload.TraceOptions{TimeScale: o.TimeScale, Limit: o.Limit},
		SWIM:  workload.SWIMOptions{DataScale: o.DataScale},
	})
	// Only a trace has the same jobs whatever the seed.
	_, recorded := source.(*workload.Trace)
	return Workload{source, recorded}, err
}

// TraceOptions change a trace while it is read. The zero value changes nothing.
type TraceOptions struct {
	Limit     int     // how many jobs to take from the beginning; 0 is all
	TimeScale float64 // factor of the times of submission; 0.5 doubles the load; 0 is 1
	DataScale float64 // factor of the bytes of a SWIM trace; 0 is 1
}

// jobs returns the jobs for a seed.
func (w Workload) jobs(seed uint64) ([]workload.Job, error) {
	if w.source == nil {
		return nil, errors.New("sim: Config.Workload is missing; make one with Jobs or ReadWorkload")
	}
	return w.source.Jobs(seed)
}

// Cluster is a virtual cluster: groups of equal nodes, spread over racks.
type Cluster struct {
	Groups []NodeGroup
	Racks  int // default 1
	// Heartbeat sets the interval between the heartbeats of a node: "fixed:1s", or
	// "hadoop-0.20.2", "hadoop-1.0" or "hadoop-1.2" for the rule of that version,
	// which depends on the number of nodes. Default "slotwise", the rule of slotwise's
	// own master: 3 ms for each node, at least 500 ms.
	Heartbeat string
	// RackUplink is the bandwidth into a rack, and CoreLink the bandwidth between
	// all racks together, in bytes per second. 0 is no limit.
	RackUplink, CoreLink float64
}

// NodeGroup is a number of equal nodes.
type NodeGroup struct {
	Name   string // prefix of the nodes' names; default "node"
	Count  int
	Hosts  []string // names of the Count nodes, in place of Name; or nil
	Rack   int      // number of the nodes' rack, from 1; 0 assigns them to racks in turn
	Cores  int      // of each node; 0 does not limit tasks
	Memory int64    // of each node, in bytes; 0 is unknown. Jobs with TaskMemory need it
	Speed  float64  // relative to a normal core; default 1
	// Together makes the nodes workers on one machine. Cores and bandwidths are then
	// the machine's. Beside puts the nodes on the machine of the group before.
	Together, Beside      bool
	MapSlots, ReduceSlots int // of each node
	// DiskBandwidth and NICBandwidth are in bytes per second. 0 is no limit.
	DiskBandwidth, NICBandwidth float64
}

// ParseCluster reads the short form of a cluster of equal nodes, such as
// "nodes=20,maps=4,reduces=2,racks=2". "slotwise sim --cluster" reads the same form
// and documents its keys.
func ParseCluster(spec string) (Cluster, error) {
	c, err := workload.ParseCluster(spec)
	return publicCluster(&c), err
}

// ReadCluster reads a cluster file in YAML. Error messages name the file by name and give
// the line.
func ReadCluster(name string, r io.Reader) (Cluster, error) {
	c, err := workload.ReadCluster(name, r)
	return publicCluster(&c), err
}

func publicCluster(c *workload.Cluster) Cluster {
	out := Cluster{Racks: c.Racks, Heartbeat: c.Heartbeat, RackUplink: c.RackUplink, CoreLink: c.CoreLink}
	for _, g := range c.Groups {
		// The fields of both types are equal and in the same order, or the compiler refuses the conversion.
		out.Groups = append(out.Groups, NodeGroup(g))
	}
	return out
}

func (c *Cluster) internal() workload.Cluster {
	out := workload.Cluster{Racks: c.Racks, Heartbeat: c.Heartbeat, RackUplink: c.RackUplink, CoreLink: c.CoreLink}
	for _, g := range c.Groups {
		out.Groups = append(out.Groups, workload.NodeGroup(g))
	}
	return out
}
