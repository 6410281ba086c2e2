package main

import (
	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/sched/job"
)

// reports holds the ends of attempts that nodes have not reported yet.
type reports struct{ ends map[string][]end }

type end struct {
	task  job.TaskID
	state job.AttemptState
}

func newReports() reports { return reports{map[string][]end{}} }

func (r reports) add(node string, t job.TaskID, s job.AttemptState) {
	r.ends[node] = append(r.ends[node], end{t, s})
}

// take returns a node's reports for its heartbeat: the queued ends in order, and that its
// other attempts run. It omits the end of an attempt that the node no longer runs, such as
// a preempted one.
func (r reports) take(tr *tracker.Tracker, node string) (list []tracker.Report) {
	n := tr.Nodes().Get(node)
	if n == nil {
		return nil
	}
	over := map[job.AttemptID]bool{}
	for _, e := range r.ends[node] {
		for _, a := range n.Attempts() {
			if a.Task().ID() == e.task {
				list = append(list, tracker.Report{Attempt: a.ID(), State: e.state, Progress: 1, Error: "failed"})
				over[a.ID()] = true
			}
		}
	}
	delete(r.ends, node)
	for _, a := range n.Attempts() {
		if !over[a.ID()] {
			list = append(list, tracker.Report{Attempt: a.ID(), State: job.AttemptRunning, Progress: 0.5})
		}
	}
	return list
}
