package collect

import (
	"math"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/metrics"
	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/sched/job"
)

// Series names the values of jobs that an Outcomes keeps.
type Series uint8

// The series, all in seconds but Slowdowns, which have no unit.
const (
	NoSeries Series = iota
	Responses
	Waits
	Slowdowns
)

// Outcomes keeps what a comparison of runs job by job needs, as a sim.Observer: 16 bytes
// for each job. A job that did not succeed has NaN.
type Outcomes struct {
	Response []float64 `json:"response_s"`
	Waiting  []float64 `json:"waiting_s"`
	// alone is the time that each job takes alone.
	alone     []time.Duration
	submitted []time.Duration
}

// NewOutcomes returns the observer of a run. alone is as in New.
func NewOutcomes(alone []time.Duration) *Outcomes {
	o := &Outcomes{Response: make([]float64, len(alone)), Waiting: make([]float64, len(alone)), alone: alone,
		submitted: make([]time.Duration, len(alone))}
	for i := range alone {
		o.Response[i], o.Waiting[i] = math.NaN(), math.NaN()
	}
	return o
}

// OutcomesOf returns outcomes that an earlier run has kept.
func OutcomesOf(response, waiting []float64, alone []time.Duration) *Outcomes {
	return &Outcomes{Response: response, Waiting: waiting, alone: alone}
}

// Observe implements sim.Observer.
func (o *Outcomes) Observe(e *sim.Event) {
	switch e.Kind {
	case sim.JobSubmitted:
		o.submitted[e.Job] = e.At
	case sim.AttemptStarted:
		// The first attempt ends the wait. A job that restarts has waited once.
		if math.IsNaN(o.Waiting[e.Job]) {
			o.Waiting[e.Job] = (e.At - o.submitted[e.Job]).Seconds()
		}
	case sim.JobEnded:
		if e.State == job.Succeeded {
			o.Response[e.Job] = (e.At - o.submitted[e.Job]).Seconds()
		} else {
			// Both series must lack the same jobs: comparisons pair jobs that succeeded under both policies.
			o.Waiting[e.Job] = math.NaN()
		}
	}
}

// Known returns the values of a series, without the jobs that have no value.
func (o *Outcomes) Known(s Series) []float64 { return known(o.Values(s)) }

// Values returns a series by job.
func (o *Outcomes) Values(s Series) []float64 {
	switch s {
	case Responses:
		return o.Response
	case Waits:
		return o.Waiting
	case Slowdowns:
		values := make([]float64, len(o.Response))
		for i, r := range o.Response {
			values[i] = math.NaN()
			if !math.IsNaN(r) {
				values[i] = metrics.Slowdown(r, o.alone[i].Seconds())
			}
		}
		return values
	}
	return nil
}
