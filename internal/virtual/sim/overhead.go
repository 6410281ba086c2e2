package sim

import (
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/slotwise/slotwise/sched/job"
)

// Overheads are the times that a cluster of Hadoop's first generation adds to the work of
// the tasks. They describe the work of its daemons. Hadoop121 returns the overheads of
// release 1.2.1.
// In the zero value there are none.
type Overheads struct {
	// InitPoll is the interval at which the tracker looks for jobs to initialise, at a
	// drawn phase. A second thread, one for each pool, initialises the jobs that were found.
	// It looks at the same interval, just after the first thread or just before it, as drawn
	// for each pool. In the second case the jobs of the pool wait for a further interval.
	// 0 initialises each job when it is submitted.
	InitPoll time.Duration
	// Setup is the work of a job's set-up attempt. It starts at the first heartbeat of a
	// node with a free slot, occupies that slot, and ends with the node's first heartbeat
	// after the work. Only then do the job's maps get slots. Cleanup is the same for the
	// attempt that ends a job; it starts at the heartbeat that reports the last task.
	Setup, Cleanup time.Duration
	// ReadyPoll is the interval at which the scheduler looks for jobs whose set-up has ended, at a
	// drawn phase. Hadoop's Fair Scheduler does so in its updates, every 500 ms, and gives a job no
	// slot before. 0 is at once.
	ReadyPoll time.Duration
	// Start is the mean processor time in which an attempt of given duration starts, on a
	// core of speed 1; each attempt draws a time from 0.2 to 1.8 of Start. Attempts that
	// start at the same time share the cores of their machine. A set-up or clean-up
	// attempt includes its own start, which takes longer while other attempts start.
	Start time.Duration
	// Attempt is the processor time of an attempt with stages that no task counts, on a core of speed 1:
	// its process, connections, files and messages. It comes before the work, because the process and its
	// first connections are the largest part.
	Attempt time.Duration
	// Shuffle is the processor time for each MB (10⁶ bytes) of the output of a map with stages whose job has reduces, on a
	// core of speed 1: to write, serve, fetch and check it where each attempt is a process. The map pays it all,
	// because reduces that have started fetch while maps run.
	Shuffle time.Duration
	// Restart, unless it is 0, is the interval at which an idle process asks for another task of
	// its job and kind; after four asks the interval is three times as long. An attempt takes
	// over the next idle process that asks, in place of Start, if its node has as many
	// processes of its kind as slots. With fewer processes it starts its own.
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
// nothing can be fetched, its GetMapEventsThread asks every second, an idle Child asks every
// 500 ms and after five times every 1500 ms, the killed attempt's
// clean-up follows its KILLED_UNCLEAN report. Setup, Cleanup and FetchStart are
// medians of the recorded runs fifo-c-1, fifo-c-2 and fifo-hb3. Start is the value for
// which the simulated response times of these three runs have the least median error;
// "lab/hadoop121 -fit" prints it.
func Hadoop121(jvmReuse bool) Overheads {
	o := Overheads{
		Setup: 370 * time.Millisecond, Cleanup: 350 * time.Millisecond, Start: 700 * time.Millisecond,
		FetchPoll: 5 * time.Second, FetchStart: time.Second, EventPoll: time.Second, KillBeats: 3,
	}
	if jvmReuse {
		o.Restart = 500 * time.Millisecond
	}
	return o
}

// check returns the first overhead that is out of range.
func (o *Overheads) check() error {
	for _, d := range []time.Duration{o.InitPoll, o.Setup, o.Cleanup, o.ReadyPoll, o.Start, o.Attempt, o.Shuffle, o.Restart, o.FetchPoll, o.FetchStart, o.EventPoll} {
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
	// Only here, where the list is read: holds have no event of their own.
	nd.holds = slices.DeleteFunc(nd.holds, func(h hold) bool { return h.until <= s.now })
	// The tracker knows nothing of holds, so it may have given out a slot that is not free here.
	free := nd.slots(slot)
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
	// At least one: an end is reported by the next heartbeat, however short the work was.
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
	// A job that starts again keeps the time of its first submission.
	again := s.restarts[i] > 0
	if s.result.Jobs != nil && !again {
		s.result.Jobs[i].Submitted = s.now
	}
	if s.cfg.Observer != nil && !again {
		s.event = Event{Kind: JobSubmitted, At: s.now, Job: int(i), Gate: s.gate(&s.cfg.Jobs[i]), Node: -1}
		s.cfg.Observer.Observe(&s.event)
	}
	if o.InitPoll == 0 {
		s.setups = append(s.setups, i)
		return
	}
	s.queue.push(s.initialisedAt(i), evInit, i, 0)
}

// initialisedAt returns when the threads of Overheads.InitPoll initialise a job that is
// submitted now.
func (s *sim) initialisedAt(i int32) time.Duration {
	every := s.model.Overheads.InitPoll
	var g rand.PCG
	s.source(&g, forOverhead, 0, 0)
	phase := scale(every, uniform(&g))
	// Rounded up to the thread's next look.
	at := phase + (s.now-phase+every-1)/every*every
	pool := fnv.New64a()
	io.WriteString(pool, s.cfg.Jobs[i].Pool) // a hash returns no error
	s.source(&g, forOverhead, 1, pool.Sum64())
	if uniform(&g) < 0.5 {
		at += every
	}
	return at
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
	took := s.crowded(nd, s.model.Overheads.Setup)
	// The heartbeat that reports it and not the end of its work: the slot is free for the tracker only
	// then.
	end := s.nextBeat(took)
	nd.hold(slot, end)
	if s.model.Overheads.Restart > 0 {
		s.makeRoom(nd, slot, nd.slots(slot)-1)
		nd.idle = append(nd.idle, process{s.setups[0], slot, s.now + took})
	}
	// The set-up itself is no event: nothing can kill it here, and its end is known now.
	s.queue.push(s.readyAt(end), evReady, s.setups[0], 0)
	s.setups = slices.Delete(s.setups, 0, 1)
}

// readyAt returns when the scheduler finds a job whose set-up ends at a time.
func (s *sim) readyAt(end time.Duration) time.Duration {
	every := s.model.Overheads.ReadyPoll
	if every == 0 {
		return end
	}
	var g rand.PCG
	s.source(&g, forOverhead, 2, 0)
	phase := scale(every, uniform(&g))
	return phase + max(0, end-phase+every-1)/every*every
}

// startCleanup starts the clean-up attempt of a job at the heartbeat that decided its
// outcome, and returns when it ends.
func (s *sim) startCleanup() time.Duration {
	nd := &s.nodes[s.lastNode]
	end := s.nextBeat(s.crowded(nd, s.model.Overheads.Cleanup))
	if slot, ok := s.freeSlot(nd); ok {
		nd.hold(slot, end)
	}
	return end
}

// crowded returns the time of a set-up or clean-up attempt that takes d alone and starts
// now on a node: its start shares the cores of the machine with the attempts that start.
func (s *sim) crowded(nd *node, d time.Duration) time.Duration {
	m := &s.nodes[nd.machine]
	over := float64(len(m.plant.station[useCPU].users)+1) / float64(m.cores*(1-m.plant.others))
	if over <= 1 {
		return d
	}
	// Only the start of its process competes for cores. The rest of such an attempt waits for messages.
	return d + scale(min(d, s.model.Overheads.Start), over-1)
}

// holdKilled keeps the slot of a killed attempt occupied until its clean-up has ended.
func (s *sim) holdKilled(a *attempt) {
	o := &s.model.Overheads
	if o.KillBeats == 0 || a.over {
		return
	}
	s.nodes[a.node].hold(a.slot, s.nextBeat(time.Duration(o.KillBeats)*s.interval+o.Cleanup))
}

// process is a process on a node that is idle since a time, which may lie ahead. Another
// attempt of its job and kind can reuse it then.
type process struct {
	job   int32 // index in Config.Jobs
	kind  job.Kind
	since time.Duration
}

// askedBeforeLong is the number of asks of an idle process before its interval is three times as
// long; see Overheads.Restart. Its first ask is at the end of its task.
const askedBeforeLong = 4

// nextAsk returns the time until a process that has been idle for some time asks for a
// task.
func nextAsk(idle, every time.Duration) time.Duration {
	if long := askedBeforeLong * every; idle > long {
		// Counted from the end of the short intervals, so the asks do not shift.
		return 3*every - (idle-long)%(3*every)
	}
	return every - idle%every
}

// makeRoom ends idle processes of a kind on a node, longest idle first, until at most a number
// of processes of the kind remain.
func (s *sim) makeRoom(nd *node, kind job.Kind, most int) {
	s.dropEnded(nd)
	for s.processes(nd, kind) > most {
		oldest := -1
		for i, p := range nd.idle {
			if p.kind == kind && p.since <= s.now && (oldest < 0 || p.since < nd.idle[oldest].since) {
				oldest = i
			}
		}
		if oldest < 0 {
			return
		}
		nd.idle = slices.Delete(nd.idle, oldest, oldest+1)
	}
}

// dropEnded ends the idle processes of jobs that have ended.
func (s *sim) dropEnded(nd *node) {
	nd.idle = slices.DeleteFunc(nd.idle, func(p process) bool { return s.waits[p.job]&endedBit != 0 })
}

// processes counts the processes of a kind on a node.
func (s *sim) processes(nd *node, kind job.Kind) int {
	n := 0
	for _, at := range nd.attempts {
		if a := &s.attempts[at]; a.id.Kind == kind && !a.over {
			n++
		}
	}
	for _, p := range nd.idle {
		if p.kind == kind {
			n++
		}
	}
	return n
}

// slots returns the number of slots of a kind.
func (nd *node) slots(kind job.Kind) int {
	if kind == job.Map {
		return nd.spec.MapSlots
	}
	return nd.spec.ReduceSlots
}

// addStart adds the stages before the work of an attempt of given duration: it waits for
// its slot, and its process starts.
func (s *sim) addStart(a *attempt, nd *node) {
	o := &s.model.Overheads
	if wait := nd.heldUntil(s, a.slot) - s.now; wait > 0 {
		a.add(stage{use: useTime, span: wait})
	}
	if o.Restart > 0 {
		if wait := s.reuse(a, nd); wait >= 0 {
			a.add(stage{use: useTime, span: wait})
			return
		}
	}
	if o.Start > 0 {
		amount := float64(o.Start.Seconds() * s.spread(a))
		a.add(stage{use: useCPU, amount: amount, alone: amount / nd.plant.speed})
	}
}

// spread draws the factor, from 0.2 to 1.8, of the processor time in which an attempt starts.
func (s *sim) spread(a *attempt) float64 {
	var g rand.PCG
	s.source(&g, forStart, uint64(a.job.index)<<1|uint64(a.id.Kind), uint64(a.id.Index)<<32|uint64(a.id.Number))
	return 0.2 + float64(1.6*uniform(&g))
}

// reuse takes over an idle process for an attempt that starts. It returns the time until the
// process asks for a task, or -1 if the attempt must start its own process. The attempt is in
// the node's list already.
func (s *sim) reuse(a *attempt, nd *node) time.Duration {
	kind := a.id.Kind
	s.dropEnded(nd)
	// Hadoop's JvmManager: with room for another process it starts a new one, although an idle one could
	// take the task.
	if s.processes(nd, kind)-1 >= nd.slots(kind) {
		for i, p := range nd.idle {
			if p.job == a.job.index && p.kind == kind && p.since <= s.now {
				nd.idle = slices.Delete(nd.idle, i, i+1)
				return nextAsk(s.now-p.since, s.model.Overheads.Restart)
			}
		}
	}
	s.makeRoom(nd, kind, nd.slots(kind))
	return -1
}

// keepProcess remembers that a successful attempt leaves a process that can be reused.
func (s *sim) keepProcess(a *attempt) {
	if s.model.Overheads.Restart == 0 {
		return
	}
	nd := &s.nodes[a.node]
	s.makeRoom(nd, a.id.Kind, nd.slots(a.id.Kind)-1)
	nd.idle = append(nd.idle, process{a.job.index, a.id.Kind, a.finished})
}

// fetchEnd returns when a reduce whose job's maps have all ended now ends its shuffle, if
// it cannot be before a time.
func (s *sim) fetchEnd(a *attempt, earliest time.Duration) time.Duration {
	o := &s.model.Overheads
	if o.FetchPoll == 0 {
		return max(earliest, s.now)
	}
	var g rand.PCG
	s.source(&g, forOverhead, uint64(a.job.index)<<1|uint64(a.id.Kind), uint64(a.id.Index)<<32|uint64(a.id.Number))
	// The news of the last map travels to the reduce's node with a heartbeat and to the reduce with a poll.
	// Both clocks started at an unknown moment, hence two drawn phases.
	known := s.now + scale(s.interval, uniform(&g)) + scale(o.EventPoll, uniform(&g))
	first := a.from + o.FetchStart + o.FetchPoll
	// Rounded up to a poll: ReduceCopier looks only when its sleep ends.
	late := max(0, max(known, earliest)-first)
	return first + (late+o.FetchPoll-1)/o.FetchPoll*o.FetchPoll
}
