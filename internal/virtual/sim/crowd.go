package sim

import (
	"time"

	"github.com/slotwise/slotwise/internal/virtual/workload"
)

// This file models tasks of given duration that compete for processors
// (ModelConfig.Contention). While a task runs it wants CPU over Duration of a processor, or
// a whole one if the workload states no CPU time. Let n be what all processes of a machine
// want, except while they wait for a disk, and m the larger of the machine's processors and
// its slots, without the share of other programs (background.go). Tasks take longer there by the
// factor max(1, n/m).
//
// The slots are in m because the durations of a trace come from nodes whose slots were in
// use: what tasks cost each other within the slots is in the durations already. The factor
// therefore exceeds 1 only under a policy that runs more tasks than there are slots, such as
// the learning scheduler. Without it these extra tasks would be free.
//
// A task that nothing slows down has a timer, which is exact and costs one event. When a
// machine becomes crowded for the first time, its tasks move from timers to its clock, a
// station whose rate changes with the number of tasks.

// room returns m for the machines of a group.
func room(g *workload.NodeGroup) float64 {
	slots := g.MapSlots + g.ReduceSlots
	if g.Together {
		slots *= g.Count
	}
	return float64(max(g.Processors(), slots))
}

// crowd updates the factor of a machine after a change of what its processes want. The rates
// of its stations follow at the end of the event.
func (s *sim) crowd(nd *node) {
	p := &nd.plant
	f := (nd.load.runnable - nd.load.onDisk) / float64(p.room*(1-p.others))
	if f < 1+1e-9 { // the sum of fractions of a processor has rounding errors
		f = 1
	}
	if f == p.crowded {
		return
	}
	// advance follows with the former rates: share computes new ones only at the end of the event.
	p.crowded = f
	for _, u := range [...]use{useCPU, useClock} {
		p.station[u].advance(s.now)
		s.touched(nd, u)
	}
}

// startClock moves the tasks of a machine from their timers to its clock. It runs at the end
// of an event, when every task that has just started has its timer.
func (s *sim) startClock(nd *node) {
	nd.plant.clocked = true
	for i := nd.index; int(i) < len(s.nodes) && s.nodes[i].machine == nd.index; i++ {
		for _, at := range s.nodes[i].attempts {
			// Tasks that wait for maps have no timer. Tasks that read use the network's station and take
			// the clock afterwards.
			if a := &s.attempts[at]; a.loads && a.station < 0 && a.current < a.count {
				left := s.timeLeft(a)
				a.gen++ // cancels the timer
				s.enter(at, useClock, left.Seconds(), 0)
			}
		}
	}
}

// endAfter ends the current stage of an attempt after a time of undisturbed work.
func (s *sim) endAfter(a *attempt, d time.Duration) {
	if a.loads && s.machine(a).plant.clocked {
		s.enter(a.self, useClock, d.Seconds(), 0)
		return
	}
	s.queue.push(s.now+d, evTimer, a.self, a.gen)
}

// timeLeft returns the undisturbed time that an attempt still needs for its current stage,
// which must be one of given span whose time runs: a stage with useTime, or an open gate.
func (s *sim) timeLeft(a *attempt) time.Duration {
	st := &a.stages[a.current]
	switch {
	case a.station == int8(useClock):
		left := s.machine(a).plant.station[useClock].left(a.self, s.now)
		return time.Duration(left * float64(time.Second))
	case st.use == useGate:
		return a.zero + a.afterGate() - s.now
	}
	return a.from + st.span - s.now
}
