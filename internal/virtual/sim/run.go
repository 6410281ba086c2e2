package sim

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// sim is a run in progress.
type sim struct {
	cfg   Config
	model ModelConfig // cfg.Model with defaults filled in
	tr    *tracker.Tracker
	sizes []sched.SizeReader // parts of the present policy that need the sizes of jobs
	// restarters are the parts of the present policy that want jobs to start again, and
	// restarts counts how often jobs did, by index; nil if none did. See restart.go.
	restarters []sched.Restarter
	restarts   map[int32]int
	// paging is whether the model of memory is on; see paging.go.
	paging bool
	// remote is whether maps of given duration pay for reads from other nodes; see distance.go.
	remote bool
	queue  queue
	parked parked
	now    time.Duration
	// lastWork is the time of the last event that was no background event.
	lastWork time.Duration

	nodes    []node
	machines int              // nodes that have resources of their own; see NodeGroup.Together
	byName   map[string]int32 // indexes of nodes
	silent   []int32          // crashed and stopped nodes that the tracker has not given up yet
	stopped  map[int32]*pause // by node
	hanging  []job.AttemptID  // the attempts of ModelConfig.Hangs, once they are launched
	racks    []rack
	net      network
	beats    profile
	// offers is whether the tracker offers work between heartbeats; see ModelConfig.EndsByRule.
	// opened is its Tracker.Opened at the last look.
	offers bool
	opened int64
	decay  decay
	// interval is the time between two heartbeats of a node, for the number of nodes
	// that the tracker knows now.
	interval time.Duration

	jobs        map[job.ID]*running // submitted and not ended
	order       []int32             // indexes of Config.Jobs by time of submission
	arrived     int                 // jobs of order whose time of submission has come
	waits       []int32             // by index: predecessors that have not ended
	after       map[int32][]int32   // by index: jobs that wait for the job to end
	setups      []int32             // indexes of jobs whose set-up attempt waits for a slot
	open        int                 // jobs that have not ended
	changedJobs []*running          // jobs whose map outputs have changed in this event
	woken       []int32

	attempts []attempt
	fleet    *fleet // nil without Config.Autoscale

	// Of a run from a Start; see pulse.go.
	began    time.Duration
	pulsed   time.Duration // time of the last pulse
	idle     int           // pulses since work was last done
	observed bool          // a part of the policy reads every heartbeat
	offering bool          // an Offer is scheduled
	free     []string      // nodes of the last Offer
	blank    []job.Split   // of the jobs that are submitted

	// Scratch space, so that events allocate nothing.
	beat       tracker.Heartbeat
	ending     []int32 // attempts whose end the current heartbeat reports
	ended      bool    // beat.Reports has had a report of an end since it was last cleared
	done       []int32
	dirty      []int32       // nodes whose shares must be computed again
	lastNode   int32         // node of the last effect
	submitting int32         // index of the job that is being submitted
	spec       *workload.Job // that job, with its tasks
	event      Event         // passed to the observer
	result     *Result
	err        error
}

// Run makes one run. It returns an error if the configuration makes no sense, if a job
// can never run (the error names the job), or if Config.Stop returned one.
func Run(cfg Config) (*Result, error) {
	s, err := prepare(cfg)
	if err != nil {
		return nil, err
	}
	if cfg.Start == nil {
		s.start()
	} else if err := s.continueRun(); err != nil {
		return nil, err
	}
	if err := s.loop(); err != nil {
		return nil, err
	}
	s.finish()
	return s.result, nil
}

// prepare checks the configuration and builds the cluster.
func prepare(cfg Config) (*sim, error) {
	if cfg.Policy == nil {
		return nil, errors.New("no policy")
	}
	s := &sim{cfg: cfg, model: cfg.Model, jobs: make(map[job.ID]*running), byName: make(map[string]int32),
		result: &Result{}, open: len(cfg.Jobs), paging: pages(&cfg), remote: remote(&cfg)}
	// On a copy: the configuration is the caller's, who may use it for several runs.
	s.model.fill()
	name := cmp.Or(cfg.Model.Heartbeat, cfg.Cluster.Heartbeat)
	var err error
	if s.beats, err = parseProfile(name); err != nil {
		return nil, err
	}
	if s.model.EndsByRule {
		s.model.OutOfBand = !s.beats.waits
		s.offers = !s.beats.waits
	}
	// The nodes first: the model, the fleet and the plan are checked against their number.
	if cfg.Start != nil {
		err = s.buildFromStart()
	} else {
		err = s.build()
	}
	if err != nil {
		return nil, err
	}
	s.parked = parked{nodes: make([]parkedNode, len(s.nodes)), head: noNode, tail: noNode}
	if err := s.model.check(len(s.nodes)); err != nil {
		return nil, err
	}
	if s.fleet, err = newFleet(cfg.Autoscale, len(s.nodes)); err != nil {
		return nil, err
	}
	if err := s.plan(); err != nil {
		return nil, err
	}
	// After the plan, so that an error in a job is found before anything is built on it.
	s.makeTracker()
	if cfg.Details {
		s.result.Jobs = make([]JobResult, len(cfg.Jobs))
		for i := range s.result.Jobs {
			s.result.Jobs[i] = JobResult{Submitted: -1, Started: -1, MapsDone: -1, Ended: -1}
		}
	}
	return s, nil
}

// makeTracker makes the tracker of the run, unless a Start brings one.
func (s *sim) makeTracker() {
	cfg := &s.cfg
	if cfg.Start != nil {
		s.tr = cfg.Start.Tracker
		return
	}
	tc := tracker.Config{NodeTimeout: s.model.NodeTimeout, MaxNodeFailures: s.model.MaxNodeFailures,
		KeepEnded: -1, CommitOutput: s.model.CommitTime > 0 || s.model.Overheads.Cleanup > 0, OfferAtOnce: s.offers}
	if cfg.Choose != nil {
		tc.KeepEnded = tracker.DefaultKeepEnded // forecasts draw times and submissions from ended jobs, as on a master
	}
	if cfg.Explain && cfg.Details {
		tc.WaitEvery = s.beats.interval(len(s.nodes))
	}
	s.tr = tracker.New(tc, cfg.Policy)
	s.setHooks(cfg.Policy)
}

// plan checks the jobs and sorts them by time of submission.
func (s *sim) plan() error {
	jobs := s.cfg.Jobs
	s.order, s.waits = make([]int32, len(jobs)), make([]int32, len(jobs))
	for i := range jobs {
		s.order[i] = int32(i)
		if err := checkJob(&jobs[i]); err != nil {
			return fmt.Errorf("job %d %q: %w", i, jobs[i].Name, err)
		}
		for _, p := range jobs[i].After {
			// A job comes after earlier ones only, so there are no cycles.
			if p < 0 || p >= i {
				return fmt.Errorf("job %d %q comes after job %d, which is not one before it", i, jobs[i].Name, p)
			}
			if s.after == nil {
				s.after = make(map[int32][]int32)
			}
			// Counted and not listed: a job with a thousand predecessors is looked at once, when the last
			// one ends.
			s.waits[i]++
			s.after[int32(p)] = append(s.after[int32(p)], int32(i))
		}
	}
	if s.cfg.Start != nil {
		s.order = s.order[len(s.cfg.Start.Jobs):] // the tracker has the others
	}
	// Jobs of one time keep the order of the file, which then decides their numbers.
	slices.SortStableFunc(s.order, func(a, b int32) int { return cmp.Compare(jobs[a].Submit, jobs[b].Submit) })
	return nil
}

// checkJob returns an error for times and sizes that a run could not represent.
func checkJob(j *workload.Job) error {
	if j.Submit < 0 || j.Submit > longest {
		return fmt.Errorf("submitted at %v, must be from 0 to %v", j.Submit, longest)
	}
	if j.Resident < 0 {
		return fmt.Errorf("resident is %d bytes, must not be negative", j.Resident)
	}
	if j.Plan < 0 || j.Plan > longest {
		return fmt.Errorf("planned for %v, must be from 0 to %v", j.Plan, longest)
	}
	if j.Outline != nil { // submit checks the tasks, once they are made
		return nil
	}
	return checkTasks(j.Tasks())
}

// checkTasks checks the tasks of a job by kind.
func checkTasks(tasks [job.Kinds][]workload.Task) error {
	for k, list := range tasks {
		for i := range list {
			t := &list[i]
			if t.Duration < 0 || t.CPU < 0 || t.Input < 0 || t.Output < 0 {
				return fmt.Errorf("%v %d has a negative duration, CPU time or size", job.Kind(k), i)
			}
			if t.Duration > longest {
				return fmt.Errorf("%v %d takes %v, more than %v", job.Kind(k), i, t.Duration, longest)
			}
		}
	}
	return nil
}

// start lets the nodes join and schedules the first heartbeats, submissions, crashes and
// ticks.
func (s *sim) start() {
	for i := range s.nodes {
		// The autoscaler begins with Min nodes. The others join when it asks for them.
		if s.fleet != nil && !s.fleet.begin(s, int32(i)) {
			continue
		}
		s.step(&tracker.Join{Node: s.nodes[i].spec})
		s.notifyNode(NodeUp, int32(i))
	}
	s.pace()
	s.nextArrival() // before the heartbeats of the same time
	for i := range s.nodes {
		if !s.nodes[i].up {
			continue
		}
		// Spread evenly: nodes that all reported at once would make the first one in the list take
		// every task.
		at := s.interval * time.Duration(i) / time.Duration(len(s.nodes))
		switch {
		case s.model.Aligned:
			at = 0
		case s.model.Phase != 0:
			var g rand.PCG
			s.source(&g, forPhase, s.model.Phase, uint64(i))
			at = scale(s.interval, uniform(&g))
		}
		s.queue.push(at, evBeat, int32(i), s.nodes[i].beatGen)
		// Each node has its generator, so a node more or less does not change when the others crash.
		s.drawCrash(int32(i))
	}
	for i, c := range s.model.Crashes {
		// At their places in the list: events of one time are carried out in the order in which they were
		// written.
		s.queue.push(c.At, evPlanned, int32(i), 0)
	}
	for i, x := range s.model.Stops {
		s.queue.push(x.At, evStop, int32(i), 0)
	}
	for i, x := range s.model.Background {
		s.queue.push(x.At, evShare, int32(i), 0)
	}
	for i, x := range s.cfg.Swaps {
		s.queue.push(max(0, x.At), evSwap, int32(i), 0)
	}
	// The first decision comes after an interval, when there are jobs to forecast.
	if s.cfg.Choose != nil {
		s.queue.push(s.cfg.Choose.Every(), evChoose, 0, 0)
	}
	s.hanging = make([]job.AttemptID, len(s.model.Hangs))
	if s.fleet != nil {
		s.queue.push(0, evScale, 0, 0)
	}
	if s.model.TickEvery > 0 {
		s.queue.push(s.model.TickEvery, evTick, 0, 0)
	}
}

// nextArrival schedules the next submission. Only one is in the queue at a time.
func (s *sim) nextArrival() {
	if s.arrived < len(s.order) {
		k := evArrive
		if s.cfg.Start != nil {
			k = evFurther // no run waits for that
		}
		// One at a time: a trace of a million jobs would otherwise fill the heap, and each push and pop
		// would cost more.
		s.queue.push(max(s.now, s.cfg.Jobs[s.order[s.arrived]].Submit), k, 0, 0)
	}
}

// stopEvery is the number of events and passed heartbeats between two calls of Config.Stop. They take a few
// milliseconds.
const stopEvery = 1 << 12

// loop processes events until all jobs have ended.
func (s *sim) loop() error {
	next := int64(0) // the count of events at which Stop is called
	for turn := int64(0); s.open > 0 && s.err == nil; turn++ {
		// Passed heartbeats count, too: a run that has many between two events would not stop for seconds.
		if done := turn + s.parked.passed; done >= next && s.cfg.Stop != nil {
			next = done + stopEvery
			if err := s.cfg.Stop(); err != nil {
				return err
			}
		}
		if !s.once() {
			break
		}
	}
	return s.err
}

// once processes one event. It returns false if there is none, or none before
// Config.Until.
func (s *sim) once() bool {
	e, ok := s.next()
	switch {
	// Jobs are open and nothing is ahead, not even a heartbeat: all nodes are down for good.
	case !ok:
		s.err = s.stuck()
		return false
	// Cancelled events stay in the queue, because finding them there would cost more than to skip
	// them here.
	case s.stale(&e):
		s.result.Stale++
		return true
	case s.cfg.Until > 0 && e.at > s.cfg.Until:
		// The result counts up to that time, also if nothing happened at its end.
		s.now = s.cfg.Until
		return false
	case s.cfg.MaxEvents > 0 && s.result.Events >= s.cfg.MaxEvents:
		return false
	}
	s.now = e.at
	s.result.Events++
	if e.kind > background {
		s.lastWork = s.now
	} else if s.stalled() {
		// Heartbeats alone would go by for ever. A policy that never gives a job its slot must end the
		// run with an error. A forecast then explains its jobs.
		if s.cfg.Start == nil {
			s.err = s.stuck()
		}
		return false
	}
	s.dispatch(&e)
	return true
}

// stalled reports whether nothing has happened for a long time and nothing is ahead.
func (s *sim) stalled() bool {
	return s.queue.real == 0 && s.now-s.lastWork > s.model.StallAfter && (s.cfg.Start == nil || s.idle > idlePulses)
}

// stale reports whether an event was cancelled after it had been scheduled.
func (s *sim) stale(e *event) bool {
	switch e.kind {
	case evBeat:
		// A heartbeat that was brought forward leaves the old one in the queue.
		return e.gen != s.nodes[e.who].beatGen
	case evTimer:
		return e.gen != s.attempts[e.who].gen
	case evStation:
		return e.gen != s.nodes[e.who].plant.gen
	case evCrash, evReturn, evExpire, evResume, evBoot:
		// A node that has crashed and come up again lives a new life, and events of the old one must not
		// reach it.
		return e.gen != s.nodes[e.who].life
	case evRetry:
		return s.jobs[job.ID(e.who)] == nil
	}
	return false
}

// dispatch carries out an event.
func (s *sim) dispatch(e *event) {
	switch e.kind {
	case evBeat:
		if s.cfg.Start != nil {
			s.beatOf(e.who, tracker.Heartbeat{Early: true})
			break
		}
		s.heartbeat(e.who)
	case evPulse:
		s.pulse()
	case evOffer:
		if s.cfg.Start != nil {
			s.offer()
			break
		}
		s.offerEach()
	case evTick:
		s.tick()
		s.queue.push(s.now+s.model.TickEvery, evTick, 0, 0)
	case evScale:
		s.fleet.scale(s)
	case evBoot:
		s.fleet.boot(s, e.who)
	// A silent node is due. Without TickEvery the tracker has no other event that could notice it.
	case evExpire:
		s.tick()
	case evArrive, evFurther:
		s.arrive()
	case evSubmit:
		s.initialise(e.who)
	case evInit:
		s.initialised(e.who)
	case evReady:
		s.submit(e.who)
	case evPlanned:
		c := &s.model.Crashes[e.who]
		s.crash(int32(c.Node), c.Return)
	case evCrash:
		s.crash(e.who, s.drawReturn(e.who))
	case evReturn:
		s.restart(e.who)
	case evTimer:
		s.stageDone(e.who)
	case evStation:
		s.stationDone(e.who)
	case evRetry:
		s.complain(job.ID(e.who))
	case evSwap:
		s.swap(s.cfg.Swaps[e.who].Policy)
	case evChoose:
		s.choose()
	case evHang:
		s.hang(e.who)
	case evShare:
		s.setBackground(e.who)
	case evStop:
		s.stop(e.who)
	case evResume:
		s.resume(e.who)
	case evOutput:
		s.finishOutput(job.ID(e.who))
	}
	// After every event, because each may have reported the success that makes a job due.
	if len(s.restarters) > 0 {
		s.restartJobs()
	}
	s.finishEvent()
	switch opened := s.tr.Opened(); {
	case s.cfg.Start != nil:
		s.wantOffer()
	case s.offers && opened != s.opened:
		s.opened = opened
		s.wantOffer()
	}
}

// swap installs another policy.
func (s *sim) swap(p sched.Policy) {
	s.disturbAll() // the new policy has seen none of their heartbeats
	s.tr.SetPolicy(p)
	s.setHooks(p)
	// SetPolicy has called the new policy's hooks, but what only a simulation knows, such as
	// sizes, comes from here.
	for _, j := range s.tr.Jobs().Live() {
		s.informPolicy(s.jobs[j.ID()])
	}
}

// choose asks Config.Choose for another policy.
func (s *sim) choose() {
	p, err := s.cfg.Choose.Choose(s.tr, s.interval)
	switch {
	// The run ends with the next turn of the loop: an event has no way to return an error.
	case err != nil:
		s.err = err
		return
	case p != nil:
		s.swap(p)
	}
	s.queue.push(s.now+s.cfg.Choose.Every(), evChoose, 0, 0)
}

// step passes an event to the tracker and carries out the effects.
func (s *sim) step(ev tracker.Event) {
	// Parked nodes' heartbeats happened before this event. The tracker must have counted them when its
	// policy decides.
	s.countBeats()
	effects := s.tr.Step(s.now, ev)
	if s.cfg.Trace != nil {
		s.cfg.Trace(s.now, ev, effects)
	}
	if len(effects) > 0 || len(s.ending) > 0 {
		s.apply(effects)
	}
}

// arrive submits the jobs whose time of submission has come, in order. Jobs that wait for
// predecessors are submitted by release.
func (s *sim) arrive() {
	for s.arrived < len(s.order) && s.cfg.Jobs[s.order[s.arrived]].Submit <= s.now && s.err == nil {
		i := s.order[s.arrived]
		s.arrived++
		// In this event, so that jobs of one time are submitted before a heartbeat of that time.
		if s.waits[i] == 0 && s.cfg.Jobs[i].Plan == 0 {
			s.initialise(i)
		} else if s.waits[i] == 0 {
			s.queue.push(s.now+s.cfg.Jobs[i].Plan, evSubmit, i, 0)
		} else {
			// A bit above the count: one number holds both the predecessors that are left and the arrival.
			s.waits[i] |= arrivedBit
		}
	}
	s.nextArrival()
}

// arrivedBit marks in waits a job whose time has come, endedBit one that has ended.
const (
	arrivedBit = 1 << 30
	endedBit   = 1 << 29
)

// release submits the jobs that have waited for a job that has ended, if that was their
// last predecessor. They are submitted whether it succeeded or not.
func (s *sim) release(index int32) {
	for _, i := range s.after[index] {
		s.waits[i]--
		// Its own time has come and no predecessor is left. Both must hold, in whichever order they come.
		if s.waits[i] == arrivedBit {
			s.waits[i] = 0
			s.queue.push(s.now+s.cfg.Jobs[i].Plan, evSubmit, i, 0)
		}
	}
	delete(s.after, index)
}

// stuck returns an error that says which job cannot run, and why.
func (s *sim) stuck() error {
	live := s.tr.Jobs().Live()
	if len(live) == 0 {
		return fmt.Errorf("after %v: %d jobs have not ended and nothing is ahead", s.now, s.open)
	}
	for _, j := range live {
		for k := range job.Kind(job.Kinds) {
			// Reduces that wait behind pending maps of their job are not the cause.
			if j.Pending(k) > 0 && (k == job.Map || j.MapsDone() || j.Pending(job.Map) == 0) {
				_, words := s.tr.Explain(j, k)
				if s.tr.Nodes().Slots(k) == 0 {
					words = fmt.Sprintf("the cluster has no %v slots", k)
				}
				return fmt.Errorf("job %q (%v) cannot run: %d of its %d %vs have waited in vain since %v: %s",
					j.Name(), j.ID(), j.Pending(k), j.Total(k), k, s.lastWork, words)
			}
		}
	}
	return fmt.Errorf("job %q (%v) cannot end: nothing has happened since %v", live[0].Name(), live[0].ID(), s.lastWork)
}

// finish completes the result.
func (s *sim) finish() {
	s.countBeats()
	r := s.result
	r.Ended, r.Tracker, r.Unfinished = s.now, s.tr.Stats(), s.open
	r.Decisions = r.Tracker.Launches
	for _, j := range slices.Concat(s.tr.Jobs().Live(), s.tr.Jobs().Finishing()) { // cut off by Config.Until
		if d := s.detail(s.jobs[j.ID()]); d != nil {
			d.fill(j)
		}
	}
	if len(s.order) > 0 {
		// From the first submission and not from 0: a trace may begin at any hour.
		r.Makespan = max(0, s.now-s.cfg.Jobs[s.order[0]].Submit)
	}
}

// notifyNode passes an event of a node to the observer.
func (s *sim) notifyNode(k EventKind, n int32) {
	if s.cfg.Observer == nil {
		return
	}
	s.event = Event{Kind: k, At: s.now, Job: -1, Node: int(n), NodeName: s.nodes[n].name}
	s.cfg.Observer.Observe(&s.event)
}
