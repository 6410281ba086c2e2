// Package collect measures a simulated run by the definitions of
// internal/metrics: it watches the run, keeps what is active, and makes a Report
// of it in the end.
//
//	report.go   Report: what is reported, and in which unit
//	collect.go  Collector: watches a run
//	pools.go    slots held by pools
//	bounds.go   lower bounds of the makespan
//	alone.go    how long each job takes by itself
//	across.go   several seeds together
package collect

import (
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/metrics"
)

// Report is how a run fared. Times are in seconds, shares from 0 to 1.
type Report struct {
	Policy string `json:"policy"`
	Seed   uint64 `json:"seed"`
	Jobs   Jobs   `json:"jobs"`

	// Makespan is from the first submission to the end of the last job.
	Makespan float64 `json:"makespan_s"`
	Bounds   Bounds  `json:"bounds"`

	// Response is from the submission of a job to its end, Waiting to its first
	// launch, Slowdown the response over the time alone. They are over the jobs
	// that succeeded.
	Response metrics.Summary `json:"response_s"`
	Waiting  metrics.Summary `json:"waiting_s"`
	Slowdown metrics.Summary `json:"slowdown"`
	// Variability is Tyrex's V_F(95) of the slowdowns: their 95th percentile
	// over their median.
	Variability float64 `json:"slowdown_v95"`
	// Jain is Jain's index of the slowdowns: 1 is that all jobs are slowed down
	// alike.
	Jain float64 `json:"jain_slowdown"`

	Locality Locality `json:"locality"`
	Slots    Slots    `json:"slots"`
	// Unbalanced is DynamicMR's UnbalancedDegree over the nodes, Unfairness its
	// UnfairnessDegree over the pools with live jobs; in squared slots, from
	// the first submission to the end.
	Unbalanced float64 `json:"unbalanced_degree"`
	Unfairness float64 `json:"unfairness_degree"`
	// Overload is the share of the nodes' time in which a node runs more
	// attempts than it has cores: a run queue above 1 for each core, which is
	// where the learning scheduler's paper draws the line. A node that does not
	// say how many cores it has is taken to have one for each slot.
	Overload float64 `json:"overload"`
	Waste    Waste   `json:"waste"`
	Classes  []Class `json:"classes"`

	Events    int64 `json:"events"`
	Decisions int64 `json:"decisions"`
}

// Jobs counts jobs by how they ended.
type Jobs struct {
	All        int `json:"all"`
	Succeeded  int `json:"succeeded"`
	Failed     int `json:"failed"`
	Killed     int `json:"killed"`
	Unfinished int `json:"unfinished"` // when the run was cut off
}

// Locality counts launched maps by how near they were to their data; None are
// those whose data is equally far from everywhere.
type Locality struct {
	Node int64 `json:"node"`
	Rack int64 `json:"rack"`
	Any  int64 `json:"any"`
	None int64 `json:"none"`
}

// NodeShare is the part of the maps with a place that ran there, 1 if there are
// none.
func (l Locality) NodeShare() float64 {
	if all := l.Node + l.Rack + l.Any; all > 0 {
		return float64(l.Node) / float64(all)
	}
	return 1
}

// Slots is how the slots were used, from the first submission to the end of the
// last job. A slot is in use from the launch of an attempt until the tracker
// knows of its end, which is when it can be given again.
type Slots struct {
	// Map and Reduce are slot time in use over that of all slots of the kind, and
	// Use that of both kinds together. The kind is that of the slot, not of the
	// task in it. Where a policy gives slots another kind, or has none, the use of
	// a kind may be above 1.
	Map    float64 `json:"map_use"`
	Reduce float64 `json:"reduce_use"`
	Use    float64 `json:"use"`
	// Time is slot time in use, in slot-seconds, by the kind of the task.
	Time [job.Kinds]float64 `json:"time_s"`
	// Lent is the part of it spent in slots of the other kind: maps in reduce
	// slots, and reduces in map slots.
	Lent [job.Kinds]float64 `json:"lent_s"`
}

// Waste is slot time, in slot-seconds, of attempts whose work was thrown away.
type Waste struct {
	// Copies counts speculative attempts, Won those that ended before the
	// attempt that they are copies of.
	Copies int64 `json:"copies"`
	Won    int64 `json:"copies_won"`
	// Speculation is that of attempts killed because another of the same task was
	// first; Other that of attempts that failed, were lost with their node or
	// were killed for another reason, such as preemption.
	Speculation float64 `json:"speculation_s"`
	Other       float64 `json:"other_s"`
}

// Class is how the jobs of a class fared; jobs without one are in the class of
// their app.
type Class struct {
	Name     string          `json:"name"`
	Response metrics.Summary `json:"response_s"`
	Slowdown metrics.Summary `json:"slowdown"`
}
