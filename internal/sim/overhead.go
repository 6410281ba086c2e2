package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/job"
)

// Overheads are the times that a cluster of Hadoop's first generation adds to the work of
// the tasks. They describe the work of its daemons. Hadoop121 returns the overheads of
// release 1.2.1.
// In the zero value there are none.
type Overheads struct {
	// InitPoll is the interval at which the tracker looks for jobs to initialise, at a
	// drawn phase. 0 initialises each job when it is submitted.
	InitPoll time.Duration
	// Setup is the work of a job's set-up attempt. It starts at the first heartbeat of a
	// node with a free slot, occupies that slot, and ends with the node's first heartbeat
	// after the work. Only then do the job's maps get slots. Cleanup is the same for the
	// attempt that ends a job; it starts at the heartbeat that reports the last task.
	Setup, Cleanup time.Duration
	// Start is the mean processor time in which an attempt of given duration starts, on a
	// core of speed 1; each attempt draws a time from half to one and a half of Start. Attempts that
	// start at the same time share the cores of their machine. A set-up or clean-up
	// attempt includes its own start.
	Start time.Duration
	// Restart, unless it is 0, replaces Start for an attempt on a node where an attempt of
	// the same job and kind has succeeded: it reuses the process. It is drawn like Start
	// and uses no processor.
	Restart time.Duration
	// FetchPoll, unless it is 0, is the interval at which a reduce of given duration looks
	// for map outputs, beginning FetchPoll+FetchStart after its start. It ends its shuffle
	// the first time that it finds all outputs.
	FetchPoll, FetchStart time.Duration
	// EventPoll is the interval at which a reduce asks its node which maps have ended. The
	// node asks the tracker once per heartbeat interval. Both have drawn phases.
	EventPoll time.Duration
	// KillBeats is the number of heartbeats between the decision to kill an attempt and
	// the start of a clean-up attempt in its slot, which takes Cleanup and ends with the
	// next heartbeat. 0 frees the slot at once.
	KillBeats int
}

// Hadoop121 returns the overheads of Hadoop 1.2.1. If jvmReuse is set, tasks of a job
// reuse processes (mapred.job.reuse.jvm.num.tasks=-1).
//
// The intervals are constants of its source: ReduceTask's ReduceCopier sleeps for 5 s when
// nothing can be fetched, its GetMapEventsThread asks every second, the killed attempt's
// clean-up follows its KILLED_UNCLEAN report. Setup, Cleanup, Restart and FetchStart are
// medians of the recorded runs fifo-c-1, fifo-c-2 and fifo-hb3. Start is the value for
// which the simulated response times of these three runs have the least median error;
// "bench/hadoop121 -fit" prints it.
func Hadoop121(jvmReuse bool) Overheads {
	o := Overheads{
		Setup: 370 * time.Millisecond, Cleanup: 350 * time.Millisecond, Start: 600 * time.Millisecond,
		FetchPoll: 5 * time.Second, FetchStart: time.Second, EventPoll: time.Second, KillBeats: 3,
	}
	if jvmReuse {
		o.Restart = 400 * time.Millisecond
	}
	return o
}

func (o *Overheads) check() error {
	for _, d := range []time.Duration{o.InitPoll, o.Setup, o.Cleanup, o.Start, o.Restart, o.FetchPoll, o.FetchStart, o.EventPoll} {
		if d < 0 || d > time.Hour {
			return fmt.Errorf("model: overhead of %v, must be from 0 to 1 h", d)
		}
	}
	if o.KillBeats < 0 || o.KillBeats > 1000 {
		return fmt.Errorf("model: a killed attempt occupies its slot for %d heartbeats, must be from 0 to 1000", o.KillBeats)
	}
	return nil
}

// hold is a slot of a node that a set-up, clean-up or killed attempt occupies. The tracker
// does not know of such attempts, so it may give the slot to a task; that task's work then
// begins at the end of the hold.
type hold struct {
	slot  job.Kind
	until time.Duration
}

// hold occupies a slot of a node.
func (nd *node) hold(slot job.Kind, until time.Duration) {
	nd.holds = append(nd.holds, hold{slot, until})
}

// heldUntil returns when the slot of an attempt that starts now is free of other attempts.
// It is now, or the end of a hold, which the attempt then takes over.
func (nd *node) heldUntil(s *sim, slot job.Kind) time.Duration {
	if len(nd.holds) == 0 {
		return s.now
	}
	nd.holds = slices.DeleteFunc(nd.holds, func(h hold) bool { return h.until <= s.now })
	free := nd.spec.MapSlots
	if slot == job.Reduce {
		free = nd.spec.ReduceSlots
	}
	for _, at := range nd.attempts {
		if a := &s.attempts[at]; a.slot == slot && !a.over {
			free--
		}
	}
	first := -1
	for i, h := range nd.holds {
		if h.slot == slot {
			free--
			if first < 0 || h.until < nd.holds[first].until {
				first = i
			}
		}
	}
	if free >= 0 || first < 0 { // the attempt itself is counted
		return s.now
	}
	until := nd.holds[first].until
	nd.holds = slices.Delete(nd.holds, first, first+1)
	return until
}

// freeSlot returns a kind of slot of which a node has a free one, maps first, or false.
func (s *sim) freeSlot(nd *node) (job.Kind, bool) {
	free := [job.Kinds]int{nd.spec.MapSlots, nd.spec.ReduceSlots}
	for _, at := range nd.attempts {
		if a := &s.attempts[at]; !a.over {
			free[a.slot]--
		}
	}
	for _, h := range nd.holds {
		if h.until > s.now {
			free[h.slot]--
		}
	}
	for k := range job.Kind(job.Kinds) {
		if free[k] > 0 {
			return k, true
		}
	}
	return 0, false
}

// nextBeat returns the time of a node's first heartbeat after now at which work that takes
// d has ended. The node sends a heartbeat now.
func (s *sim) nextBeat(d time.Duration) time.Duration {
	beats := max(1, (d+s.interval-1)/s.interval)
	return s.now + beats*s.interval
}

// initialise begins a job whose time of submission has come. With a set-up attempt the
// tracker gets the job when that attempt has ended.
func (s *sim) initialise(i int32) {
	o := &s.model.Overheads
	if o.Setup == 0 && o.InitPoll == 0 {
		s.submit(i)
		return
	}
	if s.result.Jobs != nil {
		s.result.Jobs[i].Submitted = s.now
	}
	if s.cfg.Observer != nil {
		s.event = Event{Kind: JobSubmitted, At: s.now, Job: int(i), Node: -1}
		s.cfg.Observer.Observe(&s.event)
	}
	if o.InitPoll == 0 {
		s.setups = append(s.setups, i)
		return
	}
	var g rand.PCG
	s.source(&g, forOverhead, 0, 0)
	phase := scale(o.InitPoll, uniform(&g))
	rounds := (s.now - phase + o.InitPoll - 1) / o.InitPoll
	s.queue.push(phase+rounds*o.InitPoll, evInit, i, 0)
}

// initialised is called when a job's tasks exist. It starts the set-up, if there is one.
func (s *sim) initialised(i int32) {
	if s.model.Overheads.Setup == 0 {
		s.submit(i)
		return
	}
	s.setups = append(s.setups, i)
}

// startSetup starts the oldest waiting set-up attempt on a node that sends a heartbeat, if
// the node has a free slot. A heartbeat starts one at most, as in Hadoop.
func (s *sim) startSetup(nd *node) {
	slot, ok := s.freeSlot(nd)
	if !ok {
		return
	}
	end := s.nextBeat(s.model.Overheads.Setup)
	nd.hold(slot, end)
	s.queue.push(end, evReady, s.setups[0], 0)
	s.setups = slices.Delete(s.setups, 0, 1)
}

// startCleanup starts the clean-up attempt of a job at the heartbeat that decided its
// outcome, and returns when it ends.
func (s *sim) startCleanup() time.Duration {
	end := s.nextBeat(s.model.Overheads.Cleanup)
	nd := &s.nodes[s.lastNode]
	if slot, ok := s.freeSlot(nd); ok {
		nd.hold(slot, end)
	}
	return end
}

// holdKilled keeps the slot of a killed attempt occupied until its clean-up has ended.
func (s *sim) holdKilled(a *attempt) {
	o := &s.model.Overheads
	if o.KillBeats == 0 || a.over {
		return
	}
	s.nodes[a.node].hold(a.slot, s.nextBeat(time.Duration(o.KillBeats)*s.interval+o.Cleanup))
}

// process is an idle process on a node, which another attempt of its job can reuse.
type process struct {
	job  job.ID
	kind job.Kind
}

// addStart adds the stages before the work of an attempt of given duration: it waits for
// its slot, and its process starts.
func (s *sim) addStart(a *attempt, nd *node) {
	o := &s.model.Overheads
	if wait := nd.heldUntil(s, a.slot) - s.now; wait > 0 {
		a.add(stage{use: useTime, span: wait})
	}
	p := process{a.id.Job, a.id.Kind}
	if i := slices.Index(nd.idle, p); i >= 0 && o.Restart > 0 {
		nd.idle = slices.Delete(nd.idle, i, i+1)
		a.add(stage{use: useTime, span: scale(o.Restart, s.spread(a))})
		return
	}
	if o.Start > 0 {
		amount := float64(o.Start.Seconds() * s.spread(a))
		a.add(stage{use: useCPU, amount: amount, alone: amount / nd.plant.speed})
	}
}

// spread draws the factor, from 0.5 to 1.5, of the time in which an attempt starts.
func (s *sim) spread(a *attempt) float64 {
	var g rand.PCG
	s.source(&g, forStart, uint64(a.job.index)<<1|uint64(a.id.Kind), uint64(a.id.Index)<<32|uint64(a.id.Try))
	return 0.5 + uniform(&g)
}

// keepProcess remembers that a successful attempt leaves a process that can be reused. A
// node keeps as many as it has slots and ends the oldest first.
func (s *sim) keepProcess(a *attempt) {
	if s.model.Overheads.Restart == 0 {
		return
	}
	nd := &s.nodes[a.node]
	if len(nd.idle) >= nd.spec.MapSlots+nd.spec.ReduceSlots {
		nd.idle = slices.Delete(nd.idle, 0, 1)
	}
	nd.idle = append(nd.idle, process{a.id.Job, a.id.Kind})
}

// fetchEnd returns when a reduce whose job's maps have all ended now ends its shuffle, if
// it cannot be before a time.
func (s *sim) fetchEnd(a *attempt, earliest time.Duration) time.Duration {
	o := &s.model.Overheads
	if o.FetchPoll == 0 {
		return max(earliest, s.now)
	}
	var g rand.PCG
	s.source(&g, forOverhead, uint64(a.job.index)<<1|uint64(a.id.Kind), uint64(a.id.Index)<<32|uint64(a.id.Try))
	known := s.now + scale(s.interval, uniform(&g)) + scale(o.EventPoll, uniform(&g))
	first := a.from + o.FetchStart + o.FetchPoll
	late := max(0, max(known, earliest)-first)
	return first + (late+o.FetchPoll-1)/o.FetchPoll*o.FetchPoll
}
