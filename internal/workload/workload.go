// Package workload describes what a simulation runs: jobs and their tasks, and
// the cluster that they run on.
package workload

import (
	"time"

	"github.com/slotwise/slotwise/internal/job"
)

// Job is a job of a workload.
type Job struct {
	// Name, App, User and Pool are for people and policies; App is the program,
	// Class whatever group of jobs reports should put it in.
	Name, App, User, Pool, Class string
	Priority                     job.Priority
	// Submit is when the job comes, since the start of the run.
	Submit time.Duration
	// Plan is how long its submitter works on it then, on a machine of its own,
	// before the tracker gets it.
	Plan time.Duration
	// Maps and Reduces are its tasks, by index.
	Maps, Reduces []Task
	// SlowStart is as in job.Spec: the fraction of maps that must be done
	// before reduces start, negative for the default.
	SlowStart float64
	// Profile rates the tasks, for the schedulers that ask.
	Profile [job.Kinds]job.Profile
	// After are indexes of jobs that must have ended before this one is
	// submitted: a chain.
	After []int
}

// Task is what a task needs. With a Duration it takes that long on a node of
// speed 1; without one it goes through stages that share the resources of its
// node.
type Task struct {
	// Duration is the plain model; 0 is to use the stages.
	Duration time.Duration
	// Input is the bytes read by a map, or fetched by a reduce of a job whose
	// maps say no output.
	Input int64
	// Output is the bytes of a map's output, or of a reduce's.
	Output int64
	// CPU is core time on a core of speed 1.
	CPU time.Duration
	// Hosts are the nodes that hold a map's split; nil is to place it as HDFS
	// would.
	Hosts []string
}

// Cluster is a cluster of groups of equal nodes.
type Cluster struct {
	Groups []NodeGroup
	// Racks is how many racks the nodes are spread over; 0 is one.
	Racks int
	// Heartbeat names the profile of the intervals of heartbeats.
	Heartbeat string
	// RackUplink is the bandwidth into a rack, CoreLink that between all racks
	// together, in bytes a second; 0 is no limit.
	RackUplink, CoreLink float64
}

// NodeGroup is a number of equal nodes.
type NodeGroup struct {
	// Name is what the names of the nodes begin with.
	Name  string
	Count int
	// Cores and Speed are the processors and their speed relative to a normal
	// one; 0 is 1.
	Cores int
	Speed float64
	// Together has the nodes be workers on one machine, as those of the local
	// shell: cores and bandwidths are the machine's, and all of them share it.
	Together              bool
	MapSlots, ReduceSlots int
	// DiskBandwidth and NICBandwidth are in bytes a second; 0 is no limit.
	DiskBandwidth, NICBandwidth float64
}
