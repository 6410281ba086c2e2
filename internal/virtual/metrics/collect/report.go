// Package collect measures a simulated run by the definitions of
// internal/virtual/metrics. A Collector observes the run and makes a Report at the end.
//
//	report.go   Report: the numbers and their units
//	collect.go  Collector: observes a run
//	pools.go    slots held by pools
//	starved.go  slots that a policy leaves idle while tasks wait
//	bounds.go   lower bounds of the makespan
//	alone.go    the time that each job takes alone
//	warmup.go   the beginning of a run, which numbers about jobs leave out
//	across.go   several seeds together
package collect

import (
	"github.com/slotwise/slotwise/internal/virtual/metrics"
	"github.com/slotwise/slotwise/sched/job"
)

// Report holds the measures of a run. Times are in seconds, fractions from 0 to
// 1.
type Report struct {
	Policy string `json:"policy"`
	Seed   uint64 `json:"seed"`
	Jobs   Jobs   `json:"jobs"`

	// Makespan is the time from the first submission to the end of the last
	// job.
	Makespan float64 `json:"makespan_s"`
	Bounds   Bounds  `json:"bounds"`

	// Response is from the submission of a job to its end, Waiting to its first
	// launch, Slowdown the response over the time alone. They are over the jobs
	// that succeeded.
	Response metrics.Summary `json:"response_s"`
	Waiting  metrics.Summary `json:"waiting_s"`
	Slowdown metrics.Summary `json:"slowdown"`
	// Variability is Tyrex's V_F(95) of the slowdowns: the 95th percentile
	// divided by the median.
	Variability float64 `json:"slowdown_v95"`
	// Jain is Jain's index of the slowdowns; 1 means that all jobs are slowed
	// down equally.
	Jain float64 `json:"jain_slowdown"`

	Locality Locality `json:"locality"`
	Slots    Slots    `json:"slots"`
	// Unbalanced is DynamicMR's UnbalancedDegree over the nodes, Unfairness its
	// UnfairnessDegree over the pools with live jobs. Both are in squared
	// slots, from the first submission to the end.
	Unbalanced float64 `json:"unbalanced_degree"`
	Unfairness float64 `json:"unfairness_degree"`
	// Overload is the fraction of the nodes' time in which a node runs more
	// attempts than it has cores. The learning scheduler's paper calls a node
	// overloaded when its run queue exceeds 1 for each core. A node that states
	// no cores counts as having one for each slot.
	Overload float64 `json:"overload"`
	Starved  Starved `json:"starved"`
	// Conserved says how much the policy left slots idle while tasks waited, and how long a job
	// waited at most.
	Conserved Conserved `json:"conserved"`
	// Free is the number of attempts that started beyond the slots of their node at no cost;
	// see sim.Result. A run with such attempts is not compared with others.
	Free    int64   `json:"free,omitempty"`
	Waste   Waste   `json:"waste"`
	Classes []Class `json:"classes"`

	// Deadlines is nil unless a job has a deadline.
	Deadlines *Deadlines `json:"deadlines,omitempty"`
	// Machines is nil unless the run started and stopped nodes with the work, or
	// Collector.PayForAll was called.
	Machines *Machines `json:"machines,omitempty"`

	Events    int64 `json:"events"`
	Decisions int64 `json:"decisions"`
}

// Deadlines says how well a run has kept the deadlines of its jobs.
type Deadlines struct {
	Jobs int `json:"jobs"` // with a deadline
	Met  int `json:"met"`  // of these, the jobs that succeeded in time
	// Late is by how much jobs that succeeded were late, in seconds; 0 for a job in time.
	Late metrics.Summary `json:"late_s"`
}

// Share returns the fraction of the deadlines that were met, 1 if there are none.
func (d *Deadlines) Share() float64 {
	if d == nil || d.Jobs == 0 {
		return 1
	}
	return float64(d.Met) / float64(d.Jobs)
}

// MeanLate returns the mean of Late, 0 without deadlines.
func (d *Deadlines) MeanLate() float64 {
	if d == nil {
		return 0
	}
	return d.Late.Mean
}

// Machines is the cost of a cluster that grows and shrinks.
type Machines struct {
	// Hours are machine-hours, from the request for each machine until it was given back or
	// the last job ended.
	Hours float64 `json:"hours"`
	// Idle are the machine-hours without a running attempt: while a machine starts, waits
	// for work, or keeps map outputs.
	Idle float64 `json:"idle_hours"`
	Most int     `json:"most"` // machines at once
}

// Jobs counts jobs by their outcome.
type Jobs struct {
	All        int `json:"all"`
	Succeeded  int `json:"succeeded"`
	Failed     int `json:"failed"`
	Killed     int `json:"killed"`
	Unfinished int `json:"unfinished"` // when Until ended the run
}

// Locality counts launched maps by the distance to their data. None counts maps
// whose data is equally far from all nodes.
type Locality struct {
	Node int64 `json:"node"`
	Rack int64 `json:"rack"`
	Any  int64 `json:"any"`
	None int64 `json:"none"`
}

// NodeShare returns the fraction of the maps with local nodes that ran on such
// a node, 1 if there are no such maps.
func (l Locality) NodeShare() float64 {
	if all := l.Node + l.Rack + l.Any; all > 0 {
		return float64(l.Node) / float64(all)
	}
	return 1
}

// Slots is the use of slots from the first submission to the end of the last
// job. A slot is in use from the launch of an attempt until the tracker learns
// that it has ended, because only then can it assign the slot again.
type Slots struct {
	// Map and Reduce are the slot time in use divided by the time of all slots
	// of that kind; Use is the same for both kinds together. The kind is the
	// slot's, not the task's. A use exceeds 1 if a policy gives slots another
	// kind.
	Map    float64 `json:"map_use"`
	Reduce float64 `json:"reduce_use"`
	Use    float64 `json:"use"`
	// Time is slot time in use, in slot-seconds, by the kind of the task.
	Time [job.Kinds]float64 `json:"time_s"`
	// Lent is the part of Time spent in slots of the other kind: maps in reduce
	// slots, and reduces in map slots.
	Lent [job.Kinds]float64 `json:"lent_s"`
}

// Waste is slot time, in slot-seconds, of attempts whose output was not used.
type Waste struct {
	// Copies counts speculative attempts. Won counts the copies that ended
	// before the original attempt.
	Copies int64 `json:"copies"`
	Won    int64 `json:"copies_won"`
	// Speculation is the time of attempts killed because another attempt of the
	// task was faster. Other is the time of attempts that failed, were lost
	// with their node, or were killed for another reason, such as preemption.
	Speculation float64 `json:"speculation_s"`
	Other       float64 `json:"other_s"`
}

// Class holds the measures of one class of jobs. A job without a class counts
// in the class of its app.
type Class struct {
	Name     string          `json:"name"`
	Response metrics.Summary `json:"response_s"`
	Slowdown metrics.Summary `json:"slowdown"`
}
