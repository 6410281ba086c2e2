package sim

import (
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// stage is one step of an attempt's work. It uses one resource.
type stage struct {
	use    use
	amount float64 // core-seconds at speed 1, or bytes; for useTime and useGate unused
	span   time.Duration
	alone  float64 // seconds that the stage takes if no other attempt shares the resource
}

// maxStages bounds the stages of an attempt.
const maxStages = 6

// attempt is a virtual attempt, from its launch until the tracker has learned of its end:
//
//	begin ─► stage ─► … ─► stage ─► commit? ─► over ─► reported, or killed
type attempt struct {
	// Heartbeats read the fields before work, which fill one cache line with it. Keep the other
	// fields in work.
	job     *running // nil while the entry is unused
	over    bool     // the work has ended; the next heartbeat reports it
	plain   bool     // the workload gives the duration: there is one stage, of that span
	gate    bool     // that stage is a useGate
	open    bool     // the gate is open: the timer runs
	paged   bool     // its work uses the clock of a machine with limited memory; see paging.go
	reads   bool     // the stage before its work is a transfer of its input; see distance.go
	current uint8    // index of the current stage
	count   uint8    // number of stages
	station int8     // the station that it uses now; -1 is none
	outcome job.AttemptState
	from    time.Duration // when the current stage began
	// zero and seconds are the line on which the progress of an attempt of given duration lies while
	// nothing slows it down. A map's line is 0 at the start of its work, less the time of its transfer.
	// A reduce's line begins when it has fetched everything, and is valid while its gate is open.
	zero    time.Duration
	seconds float64
	core    *job.Attempt // the tracker's
	*work
}

// work holds the fields of an attempt that heartbeats do not read.
type work struct {
	id          job.AttemptID
	gen         uint32 // generation of its timer; see event
	self        int32  // its index in sim.attempts
	node        int32
	slot        job.Kind
	level       cluster.Level
	speculative bool
	fails       bool // the attempt fails after its stages
	reported    bool
	hangs       bool // it never ends; see ModelConfig.Hangs and Times
	fetching    bool
	label       int32
	reportedAt  time.Duration
	began       time.Duration // launch
	span        time.Duration // of the work of a task of given duration
	finished    time.Duration
	// read is the time of the transfer of an attempt that reads, once it has ended.
	read time.Duration
	// shuffle is the part of the span of a reduce in which it fetches; see shuffleSpan.
	shuffle time.Duration
	// runnable is the number of runnable processes of a task of given duration. They add
	// to the load of its machine while loads is true: not while a reduce waits for maps.
	runnable float64
	loads    bool
	occupies bool // its process is in the memory of its machine
	// hangsAt is the progress of an attempt that hangs.
	hangsAt float64
	// got and transfer are the bytes that a shuffle has fetched, and the bytes of its
	// current transfer.
	got, transfer float64
	stages        [maxStages]stage
}

// task returns the workload's description of the attempt's task.
func (a *attempt) task() *workload.Task {
	if a.id.Kind == job.Map {
		return &a.job.spec.Maps[a.id.Index]
	}
	return &a.job.spec.Reduces[a.id.Index]
}

// begin starts the attempt that a Launch orders.
func (s *sim) begin(e *tracker.Effect, n int32) {
	// The tracker's attempt exists by now, since effects are carried out after the step.
	a := s.enrol(s.tr.Jobs().Attempt(e.Attempt), n, s.jobs[e.Job])
	a.slot, a.level, a.speculative, a.label = e.Slot, e.Level, e.Speculative, a.core.Label()
	nd := &s.nodes[n]
	if s.cfg.Start != nil {
		s.layOutDrawn(a)
	} else {
		s.layOut(a)
	}
	// Its time was recorded with at most that many beside it. Result.Free warns readers of such a run.
	if a.plain && !s.model.Contention && len(nd.attempts) > nd.spec.MapSlots+nd.spec.ReduceSlots {
		s.result.Free++
	}
	// After the stages are laid out and before the first starts: the memory in use decides how fast a stage
	// runs.
	s.occupy(a)
	s.countLaunch(a)
	s.notifyAttempt(AttemptStarted, a, "")
	s.planHangs(a)
	s.lastWork = s.now
	// The first stage takes time. An attempt can therefore not end while the effects of a
	// step are carried out.
	if a.count > 0 {
		s.startStage(a.self)
	}
}

// enrol adds an attempt that begins now to its node.
func (s *sim) enrol(core *job.Attempt, n int32, j *running) *attempt {
	nd := &s.nodes[n]
	at := s.allot(nd)
	a := &s.attempts[at]
	// The generation continues from the entry's last use, so a timer of the former attempt is
	// stale.
	// Both parts are set whole: a field of the entry's last attempt that survived would show up in one run
	// of thousands.
	*a.work = work{id: core.ID(), gen: a.gen + 1, self: at, node: n, began: s.now}
	*a = attempt{job: j, station: -1, from: s.now, core: core, work: a.work}
	nd.attempts = append(nd.attempts, at)
	return a
}

// countLaunch updates the counts of the job and the run.
func (s *sim) countLaunch(a *attempt) {
	if d := s.detail(a.job); d != nil && d.Started < 0 {
		d.Started = s.now
	}
	if a.id.Kind == job.Map {
		s.result.Maps[a.level]++
	}
}

// entries is the number of entries of sim.attempts that a node gets at a time. A node keeps its
// entries, so that its heartbeats read memory that is close together.
const entries = 8

// allot returns the index of a free entry of sim.attempts for a node.
func (s *sim) allot(nd *node) int32 {
	if len(nd.free) == 0 {
		for i := range int32(entries) {
			// From the last to the first, because allot takes from the end: attempts of a node then lie in
			// the order of their launches.
			nd.free = append(nd.free, int32(len(s.attempts))+entries-1-i)
		}
		for works := make([]work, entries); len(works) > 0; works = works[1:] {
			s.attempts = append(s.attempts, attempt{work: &works[0]})
		}
	}
	last := len(nd.free) - 1
	at := nd.free[last]
	nd.free = nd.free[:last]
	return at
}

// layOut determines the stages of an attempt.
func (s *sim) layOut(a *attempt) {
	t, nd := a.task(), &s.nodes[a.node]
	luck := s.drawLuck(a)
	switch {
	case t.Duration > 0:
		span := t.Duration
		if a.speculative {
			// The workload's time belongs to the task on the machine where it was recorded, where
			// something may have been slow. A copy runs elsewhere, so it takes the time of a
			// sibling.
			span = s.drawSibling(a)
		}
		// Only if something changes: a product with 1 would still go through a float and lose nanoseconds
		// of long spans.
		if f := luck.slower / nd.plant.speed; f != 1 {
			span = scale(span, f)
		}
		a.runnable = 1
		if t.CPU > 0 {
			// A task that waits half of its time adds half a process to the load, as a measured load
			// average would show.
			a.runnable = t.CPU.Seconds() / t.Duration.Seconds()
		}
		// A reduce of given duration cannot end before the job's last map; useGate stops it at the
		// point of its shuffle.
		u := useTime
		if a.id.Kind == job.Reduce && len(a.job.spec.Maps) > 0 {
			u = useGate
		}
		a.plain, a.gate, a.span, a.seconds = true, u == useGate, span, span.Seconds()
		if a.id.Kind == job.Reduce {
			a.shuffle = s.shuffleSpan(a)
		}
		s.addStart(a, nd)
		if a.id.Kind == job.Map {
			s.addRead(a, t)
		}
		if s.paging {
			// With limited memory the work advances by the machine's clock, which the stage of one
			// span cannot express.
			a.paged, a.gate = true, false
			s.layOutPaged(a, span)
			break
		}
		a.add(stage{use: u, span: span})
	case a.id.Kind == job.Map:
		s.addLaunch(a)
		s.addWork(a, readFrom(a.level), float64(t.Input), luck.slower)
		cpu := t.CPU.Seconds()
		if len(a.job.spec.Reduces) > 0 {
			// The conversion keeps the compiler from fusing the sum, as everywhere in this package: digests
			// of runs must agree on all processors.
			cpu += float64(s.model.Overheads.Shuffle.Seconds() * float64(t.Output) / 1e6)
		}
		s.addWork(a, useCPU, cpu, luck.slower)
		s.addWork(a, useDisk, s.sorted(t.Output), luck.slower)
	default:
		bytes := a.job.wants(a.id.Index)
		s.addLaunch(a)
		// Also without a byte: the stage ends when the last map has, and not before.
		a.add(stage{use: useShuffle, amount: bytes, alone: 1})
		// Written and read once more.
		if s.model.ShuffleMemory > 0 && bytes > float64(s.model.ShuffleMemory) {
			s.addWork(a, useDisk, 2*bytes, luck.slower)
		}
		s.addWork(a, useCPU, t.CPU.Seconds(), luck.slower)
		s.addWork(a, useDisk, float64(t.Output), luck.slower)
	}
	// Last, because a cut needs all stages.
	if luck.fails {
		a.cut(luck.point)
		a.gate = false
	}
	if a.gate {
		a.seconds = a.afterGate().Seconds()
	}
}

// addLaunch adds the stages before the work of an attempt with stages.
func (s *sim) addLaunch(a *attempt) {
	// Also a stage of no time: without it an attempt could end while the effects of a step are carried out.
	a.add(stage{use: useTime, span: s.model.TaskStartup})
	s.addWork(a, useCPU, s.model.Overheads.Attempt.Seconds(), 1)
}

func (a *attempt) add(st stage) {
	a.stages[a.count] = st
	a.count++
}

// addWork adds a stage, unless it would take no time.
func (s *sim) addWork(a *attempt, u use, amount, slower float64) {
	nd := &s.nodes[a.node]
	if amount <= 0 || s.unlimited(nd, u) {
		return
	}
	amount = float64(amount * slower)
	a.add(stage{use: u, amount: amount, alone: amount / s.alone(nd, u)})
}

// readFrom returns the resource with which a map reads its split.
func readFrom(l cluster.Level) use {
	switch l {
	case cluster.RACK:
		return useNear
	case cluster.ANY:
		return useFar
	}
	return useDisk
}

// sorted returns how many bytes a map writes and reads in order to sort its output.
func (s *sim) sorted(output int64) float64 {
	if s.model.SortMemory > 0 && output > s.model.SortMemory {
		// Spilled, read for the merge and written again, where a small output is written once.
		return 3 * float64(output)
	}
	return float64(output)
}

// cut makes an attempt fail at a point, from 0 to 1, of its stages. If the point is in
// the shuffle, the attempt fails at the end of the shuffle.
func (a *attempt) cut(point float64) {
	a.fails = true
	at := float64(point * float64(a.count))
	if a.plain { // the point is in the work, not in the start before it
		at = float64(a.count-1) + point
	}
	last := min(int(at), int(a.count)-1)
	st := &a.stages[last]
	part := at - float64(last)
	switch st.use {
	case useGate:
		st.use = useTime // it fails before it needs the maps
		fallthrough
	case useTime:
		st.span = scale(st.span, part)
	// The attempt fails at the end of its shuffle: how far a shuffle is depends on the maps.
	case useShuffle:
	default:
		st.amount = float64(st.amount * part)
	}
	a.count = uint8(last + 1)
}

// stageDone is called when the current stage of an attempt, or one transfer of its
// shuffle, has ended. It starts what follows.
func (s *sim) stageDone(at int32) {
	a := &s.attempts[at]
	switch a.stages[a.current].use {
	case useShuffle:
		a.got += a.transfer
		// Before fetch, which begins no transfer while one runs.
		a.fetching = false
		if !s.fetch(at) {
			return
		}
	case useGate:
		a.job.forget(at)
	}
	// The timer or transfer that has just ended must not end the next stage as well.
	a.gen++
	s.nextStage(at)
}

// nextStage starts the stage after the current one, or ends the work.
func (s *sim) nextStage(at int32) {
	a := &s.attempts[at]
	// The next stage's span is shortened before it starts; startStage sets its timer by it.
	if a.reading() {
		s.overlapRead(a)
	}
	// Before anything starts: a stage of no time ends within startStage, and the next call must find the
	// stage after it.
	a.current++
	a.from = s.now
	if a.current == a.count {
		s.worked(at)
		return
	}
	s.startStage(at)
}

// startStage starts the current stage of an attempt.
func (s *sim) startStage(at int32) {
	a := &s.attempts[at]
	// A map computes while its input arrives, so it loads its machine from then on.
	if a.plain && (a.current == a.count-1 && !a.gate || a.reading()) {
		s.startLoad(a)
	}
	st := &a.stages[a.current]
	switch st.use {
	case useTime:
		a.zero = a.from - a.read
		s.endAfter(a, st.span)
	case useGate:
		s.arriveAtGate(at)
	case useShuffle:
		a.job.waiters = append(a.job.waiters, at)
		if s.fetch(at) {
			s.nextStage(at)
		}
	default:
		weight := 0.
		if st.use == useFar {
			weight = 1
		}
		s.enter(at, st.use, st.amount, weight)
	}
}

// worked ends an attempt that has passed all its stages. An attempt whose output is a
// part of the job's output asks for the commit first.
func (s *sim) worked(at int32) {
	a := &s.attempts[at]
	if a.fails {
		s.finishWork(at, job.AttemptFailed)
		return
	}
	// A map output stays on its node. Only attempts that write a part of the job's output compete
	// for the commit.
	if a.id.Kind == job.Map && len(a.job.spec.Reduces) > 0 {
		s.finishWork(at, job.AttemptSucceeded)
		return
	}
	// No time passes for the answer: effects of this step end the attempt, or the tracker has killed it.
	// As each worker does: of a task and its copy, the first to ask gets the permission and the other is
	// killed.
	s.step(&tracker.AskCommit{Attempt: a.id})
}

// finishWork ends the work of an attempt. The node's next heartbeat reports the outcome.
func (s *sim) finishWork(at int32, outcome job.AttemptState) {
	a := &s.attempts[at]
	a.over, a.outcome, a.finished = true, outcome, s.now
	s.stopLoad(a)
	s.vacate(a)
	// Load and memory are free from now on, the tracker's slot only after the report.
	s.disturb(a.node) // only a step takes in the outcome
	s.beatNow(a.node)
}

// startLoad adds the load of a task of given duration to its machine.
func (s *sim) startLoad(a *attempt) {
	if !a.loads {
		a.loads = true
		s.addLoad(s.machine(a), a.runnable)
	}
}

// stopLoad removes the load of an attempt from its machine, if it is there.
func (s *sim) stopLoad(a *attempt) {
	if a.loads {
		a.loads = false
		s.addLoad(s.machine(a), -a.runnable)
	}
}

// drop removes an attempt whose end the tracker knows. The node's other attempts keep
// their order.
func (s *sim) drop(at int32, outcome job.AttemptState, text string) {
	a := &s.attempts[at]
	nd := &s.nodes[a.node]
	s.halt(at)
	// An attempt that has ended and is killed before its report keeps the time at which its work
	// ended.
	if !a.over {
		a.finished = s.now
	}
	a.outcome = outcome
	s.result.Attempts[a.id.Kind][outcome]++
	s.notifyAttempt(AttemptEnded, a, text)
	for i, x := range nd.attempts {
		if x == at {
			// Shifted and not swapped: reports come in the order of launches, in which the tracker
			// searches.
			nd.attempts = append(nd.attempts[:i], nd.attempts[i+1:]...)
			break
		}
	}
	// The entry's timers that are still queued become stale. Entries are used again, so the generation
	// never returns to 0.
	a.job, a.core, a.gen = nil, nil, a.gen+1
	// The node keeps the entry. Attempts of other nodes never lie between its own.
	nd.free = append(nd.free, at)
}

// halt stops the work of an attempt.
func (s *sim) halt(at int32) {
	a := &s.attempts[at]
	s.leave(at)
	s.stopLoad(a)
	s.vacate(a)
	// Otherwise the job would hand map outputs to an attempt that is gone.
	if a.count > 0 && a.current < a.count {
		if u := a.stages[a.current].use; u == useGate || u == useShuffle {
			a.job.forget(at)
		}
	}
	a.gen++
}

// notifyAttempt passes an event of an attempt to the observer.
func (s *sim) notifyAttempt(k EventKind, a *attempt, text string) {
	if s.cfg.Observer == nil {
		return
	}
	e := &s.event
	*e = Event{Kind: k, At: s.now, Job: int(a.job.index), ID: a.id.Job, Attempt: a.id, Node: int(a.node),
		NodeName: s.nodes[a.node].name, Slot: a.slot, Level: a.level, Speculative: a.speculative,
		Label: a.label, Outcome: a.outcome, Started: a.began, Finished: a.finished, Text: text}
	if k == AttemptEnded {
		e.Bytes = a.bytes()
	}
	s.cfg.Observer.Observe(e)
}

// bytes returns how much an attempt has read or fetched. It is 0 for an attempt of given
// duration that did not succeed.
func (a *attempt) bytes() int64 {
	switch {
	case a.id.Kind == job.Reduce && !a.plain:
		return int64(a.got + 0.5)
	case a.outcome == job.AttemptSucceeded:
		return a.task().Input
	}
	return 0
}
