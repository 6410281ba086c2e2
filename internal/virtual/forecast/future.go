package forecast

import (
	"iter"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// future is one simulated future of a cluster.
type future struct {
	cfg    *Config
	state  *State
	model  *model
	number int

	t        *tracker.Tracker
	now      time.Duration
	queue    queue
	flights  map[job.AttemptID]*flight
	gated    map[job.ID][]*flight // reduces that wait for their job's maps
	drawn    map[drawKey]drawn
	names    map[string]int     // index of State.Nodes by name
	slower   map[string]float64 // factors of the nodes by name
	loads    bool               // a part of the policy reads every heartbeat
	offer    bool               // an offer is in the queue
	worked   time.Duration      // when an attempt last started or ended
	steps    int
	coming   []*template          // of arrivals, by number
	extra    map[job.ID]*template // arrivals that have been submitted
	left     int                  // jobs of the state that have not ended
	entering *template            // of the Submit event that step is handing to the tracker
	reports  []tracker.Report

	starts, ends []time.Duration // by index of State.Jobs; 0 is never
	failed       []string        // why a job has not ended
}

type drawKey struct {
	job  job.ID
	kind job.Kind
}

// flight is a running attempt.
type flight struct {
	id    job.AttemptID
	node  string
	began time.Duration
	full  float64 // seconds; of a reduce: if all maps had ended before
	ends  time.Duration
}

// fork makes a tracker that continues from a state.
func fork(cfg *Config, s *State) (*tracker.Tracker, sched.Policy, error) {
	p, err := cfg.Policy()
	if err != nil {
		return nil, nil, err
	}
	tc := tracker.Config{NodeTimeout: -1, KeepEnded: -1, OfferAtOnce: cfg.OfferAtOnce,
		OfferPause: max(20*time.Microsecond, cfg.Heartbeat/20/time.Duration(max(1, len(s.Nodes))))}
	t, err := tracker.Fork(tc, p, s.At, s.facts(), s.done())
	return t, p, err
}

// facts yields the facts from which tracker.Fork makes the state, without the tasks that are
// done. Failed attempts are left out.
func (s *State) facts() iter.Seq[tracker.Fact] {
	return func(yield func(tracker.Fact) bool) {
		launches := int64(0)
		for i := range s.Running {
			launches = max(launches, s.Running[i].Seq)
		}
		if !yield(&tracker.FactCounts{Jobs: s.Last, Launches: launches}) {
			return
		}
		for i := range s.Nodes {
			n := &s.Nodes[i]
			if !yield(&tracker.FactJoined{Node: n.Spec, At: s.At}) ||
				n.Closed && !yield(&tracker.FactDrained{Node: n.Spec.Name, At: s.At}) {
				return
			}
		}
		running := s.runningTasks()
		for i := range s.Jobs {
			if !s.jobFacts(&s.Jobs[i], running, yield) {
				return
			}
		}
	}
}

// runningTasks returns the running attempts by job, in the order of Running.
func (s *State) runningTasks() map[job.ID][]*Attempt {
	m := map[job.ID][]*Attempt{}
	for i := range s.Running {
		a := &s.Running[i]
		m[a.ID.Job] = append(m[a.ID.Job], a)
	}
	return m
}

// jobFacts yields the facts of one job with its running attempts. It returns false when yield has.
func (s *State) jobFacts(j *LiveJob, running map[job.ID][]*Attempt, yield func(tracker.Fact) bool) bool {
	spec := j.Spec
	spec.TaskTimeout = -1
	if !yield(&tracker.FactAccepted{Job: j.ID, Spec: spec, At: j.Submitted}) ||
		j.Priority != spec.Priority && !yield(&tracker.FactPriority{Job: j.ID, Priority: j.Priority}) ||
		j.Pool != spec.Pool && !yield(&tracker.FactPool{Job: j.ID, Pool: j.Pool}) {
		return false
	}
	var tasks []*tracker.FactTask
	at := map[job.TaskID]int{}
	for _, a := range running[j.ID] {
		i, ok := at[a.ID.TaskID]
		if !ok {
			i = len(tasks)
			at[a.ID.TaskID] = i
			tasks = append(tasks, &tracker.FactTask{Task: a.ID.TaskID, Past: job.Past{PendingSince: j.Submitted}})
		}
		f := tasks[i]
		f.Nodes = append(f.Nodes, a.Node)
		f.Past.Attempts = append(f.Past.Attempts, job.PastAttempt{Launch: job.Launch{Slot: a.Slot, Width: a.Width, Level: a.Level,
			Speculative: a.Speculative, Label: a.Label}, State: job.AttemptRunning, Seq: a.Seq, Started: a.Started})
	}
	for _, f := range tasks {
		if !yield(f) {
			return false
		}
	}
	return true
}

// done yields the tasks that are done. Each has one attempt, which ran on the first node: no
// node is lost in a future, so it does not matter on which.
func (s *State) done() iter.Seq[tracker.Done] {
	return func(yield func(tracker.Done) bool) {
		if len(s.Nodes) == 0 {
			return
		}
		for i := range s.Jobs {
			for k := range job.Kind(job.Kinds) {
				j := &s.Jobs[i]
				if !yield(tracker.Done{Job: j.ID, Kind: k, At: j.Done[k], Took: seconds(meanOf(j.Times.Seconds[k])), Node: s.Nodes[0].Spec.Name}) {
					return
				}
			}
		}
	}
}

// meanOf returns the mean, 0 of no values.
func meanOf(v []float64) float64 {
	sum := 0.
	for _, x := range v {
		sum += x
	}
	return sum / float64(max(1, len(v)))
}

// newFuture prepares the future of a number, which selects its random draws.
func newFuture(cfg *Config, s *State, m *model, number int) (*future, error) {
	t, p, err := fork(cfg, s)
	if err != nil {
		return nil, err
	}
	w := &future{cfg: cfg, state: s, model: m, number: number, t: t, now: s.At,
		flights: map[job.AttemptID]*flight{}, gated: map[job.ID][]*flight{}, drawn: map[drawKey]drawn{},
		names: map[string]int{}, slower: s.factors(m.nodes), extra: map[job.ID]*template{}, left: len(s.Jobs), loads: len(sched.HooksOf(p).Observers) > 0, worked: s.At,
		starts: make([]time.Duration, len(s.Jobs)), ends: make([]time.Duration, len(s.Jobs)), failed: make([]string, len(s.Jobs))}
	for i := range s.Nodes {
		w.names[s.Nodes[i].Spec.Name] = i
	}
	tries := map[job.TaskID]int32{}
	for i := range s.Running {
		a := &s.Running[i]
		id := job.AttemptID{TaskID: a.ID.TaskID, Number: tries[a.ID.TaskID]}
		tries[a.ID.TaskID]++
		w.resume(a, id)
	}
	return w, nil
}

// of returns what a job's tasks of a kind take in this future.
func (w *future) of(id job.ID, k job.Kind) (drawn, bool) {
	key := drawKey{id, k}
	d, ok := w.drawn[key]
	if !ok {
		if like := w.extra[id]; like != nil {
			d = drawn{seconds: like.seconds[k], factor: 1}
		} else {
			d, _ = w.model.drawJob(w.number, id, k)
		}
		w.drawn[key] = d
	}
	return d, len(d.seconds) > 0
}

// resume schedules the end of an attempt that runs already. Its progress counts the more
// the further it is.
func (w *future) resume(a *Attempt, id job.AttemptID) {
	j := w.state.job(a.ID.Job)
	u := w.model.attemptDraw(w.number, a.ID)
	f := &flight{id: id, node: a.Node, began: a.Started}
	age := (w.now - a.Started).Seconds()
	d, known := w.of(a.ID.Job, a.ID.Kind)
	switch {
	case a.ID.Kind == job.Map || len(j.Spec.Splits) == 0:
		size := w.slower[a.Node]
		if a.ID.Kind == job.Map {
			size *= sizeFactor(j.splitBytes(a.ID.Index), j.Times.SplitBytes)
		}
		p, elapsed := a.Progress, (a.ProgressAt - a.Started).Seconds()
		noise := 1 + float64(0.25*(1-p)*u.normal())
		// By its own progress, which says more the further the attempt is. It cannot take less time
		// than it has run already.
		projected := max(float64(age*1.001), float64(elapsed/max(p, 0.01)*max(0.3, noise)))
		switch {
		case known:
			// Only times above its age are left: an attempt that has run for long is one of the
			// slow ones.
			f.full = float64(size * d.sampleAbove(u.uniform(), age/size))
			if p >= 0.05 {
				f.full = float64(p*projected) + float64((1-p)*f.full)
			}
		case p >= 0.05:
			f.full = projected
		default:
			f.full = -1
		}
	case !known:
		f.full = -1
	case j.MapsDoneAt > 0:
		since, slow := (w.now - j.MapsDoneAt).Seconds(), w.slower[a.Node]
		least := fullReduce(age, since)
		f.full = float64(slow * d.sampleAbove(u.uniform(), least/slow))
		if p := a.Progress; p > shuffleShare+0.1 {
			idle := (w.now - a.ProgressAt).Seconds()
			projected := max(float64(1.001*least), min((age-idle)/p, (since-idle)/(p-shuffleShare)))
			projected *= max(0.5, 1+float64(0.2*(1-p)*u.normal()))
			f.full = max(float64(1.001*least), float64(p*projected)+float64((1-p)*f.full))
		}
	default:
		f.full = float64(w.slower[a.Node] * d.sample(u.uniform()))
	}
	w.schedule(f, j.MapsDoneAt)
}

// schedule puts the end of an attempt into the queue. The end of a reduce whose maps still
// run is not known yet. An attempt of unknown length never ends.
func (w *future) schedule(f *flight, mapsDone time.Duration) {
	w.flights[f.id] = f
	if f.full < 0 {
		return
	}
	f.ends = f.began + seconds(f.full)
	if f.id.Kind == job.Reduce {
		if j := w.t.Jobs().Get(f.id.Job); j != nil && j.Total(job.Map) > 0 {
			if mapsDone == 0 {
				w.gated[f.id.Job] = append(w.gated[f.id.Job], f)
				return
			}
			f.ends = max(f.began+seconds(f.full*shuffleShare), mapsDone) + seconds(f.full*(1-shuffleShare))
		}
	}
	w.queue.push(event{at: max(f.ends, w.now), what: evEnd, attempt: f.id})
}

// open schedules the reduces of a job whose last map has ended.
func (w *future) open(id job.ID) {
	for _, f := range w.gated[id] {
		if w.flights[f.id] == f {
			w.schedule(f, w.now)
		}
	}
	delete(w.gated, id)
}

// Intervals and bounds of a future.
const (
	idleBeats  = 300 // heartbeats without work after which nothing more will happen
	idleLeast  = 10 * time.Minute
	beatGrowth = 150 // the interval is at least this part of the simulated time
)

// run simulates until all jobs have ended, nothing more happens, or the bound of steps is
// reached.
func (w *future) run() error {
	for i := range w.state.Nodes {
		// Without work at first: the policy must know all nodes' loads before it decides for
		// one node.
		w.beat(&w.state.Nodes[i], false)
	}
	w.queue.push(event{at: w.now, what: evBeat})
	beats := 0
	for len(w.queue.list) > 0 && w.left > 0 {
		e := w.queue.pop()
		w.now = max(w.now, e.at)
		if w.steps++; w.steps > w.cfg.MaxSteps {
			break
		}
		if w.steps%4096 == 0 && w.cfg.Stop != nil {
			if err := w.cfg.Stop(); err != nil {
				return err
			}
		}
		switch e.what {
		case evEnd:
			w.end(e.attempt)
		case evArrive:
			w.arrive(e.arrival)
		case evOffer:
			w.offer = false
			w.offerWork()
		case evBeat:
			if w.worked == w.now {
				beats = 0
			}
			// A policy may wait for ever for a load or a node that no future brings.
			if beats++; beats > idleBeats && w.now-w.worked > idleLeast && !w.busy() {
				w.explainRest()
				return nil
			}
			w.beatAll()
			// The interval grows with the time: a future of days would otherwise consist of
			// heartbeats, and needs no such precision.
			w.queue.push(event{at: w.now + max(w.cfg.Heartbeat, (w.now-w.state.At)/beatGrowth), what: evBeat})
		}
		if at, due := w.t.OfferDue(); due && !w.offer {
			w.offer = true
			w.queue.push(event{at: max(at, w.now), what: evOffer})
		}
	}
	w.explainRest()
	return nil
}

// busy reports whether an attempt runs whose end is in the queue.
func (w *future) busy() bool {
	for _, e := range w.queue.list {
		if e.what == evEnd && w.flights[e.attempt] != nil {
			return true
		}
	}
	return false
}

// explainRest notes why jobs have not ended.
func (w *future) explainRest() {
	for i := range w.state.Jobs {
		j := w.t.Jobs().Get(w.state.Jobs[i].ID)
		if w.ends[i] != 0 || j == nil {
			continue
		}
		w.failed[i] = "the simulated future was cut off before its end"
		// The state at the bound of steps says nothing about why a job waits.
		if w.steps > w.cfg.MaxSteps {
			continue
		}
		for k := range job.Kind(job.Kinds) {
			if j.Pending(k) > 0 && j.Running(k) == 0 {
				_, words := w.t.Explain(j, k)
				w.failed[i] = words
				break
			}
		}
	}
}

// step passes an event to the tracker and carries out the effects.
func (w *future) step(ev tracker.Event) {
	for _, e := range w.t.Step(w.now, ev) {
		switch e.Kind {
		case tracker.JobAccepted:
			w.extra[e.Job] = w.entering
		case tracker.Launch:
			w.launch(e.Attempt, e.Node)
		case tracker.Kill:
			delete(w.flights, e.Attempt)
		case tracker.JobDone:
			if i := w.state.index(e.Job); i >= 0 {
				w.ends[i] = max(1, w.now)
				w.left--
			}
			delete(w.extra, e.Job)
			delete(w.gated, e.Job)
		}
	}
}

// launch draws how long a new attempt takes in this future and schedules its end.
func (w *future) launch(id job.AttemptID, node string) {
	w.worked = w.now
	f := &flight{id: id, node: node, began: w.now, full: -1}
	if d, ok := w.of(id.Job, id.Kind); ok {
		u := w.model.attemptDraw(w.number, id)
		f.full = float64(d.sample(u.uniform()) * w.slower[node])
	}
	if i := w.state.index(id.Job); i >= 0 {
		j := &w.state.Jobs[i]
		if w.starts[i] == 0 {
			w.starts[i] = max(1, w.now)
		}
		if id.Kind == job.Map && f.full > 0 {
			f.full = float64(f.full * sizeFactor(j.splitBytes(id.Index), j.Times.SplitBytes))
		}
	}
	mapsDone := time.Duration(0)
	if live := w.t.Jobs().Get(id.Job); live != nil && live.MapsDone() {
		mapsDone = w.now
	}
	w.schedule(f, mapsDone)
}

// end reports an attempt's success.
func (w *future) end(id job.AttemptID) {
	f := w.flights[id]
	if f == nil {
		return
	}
	delete(w.flights, id)
	w.worked = w.now
	w.reports = append(w.reports[:0], tracker.Report{Attempt: id, State: job.AttemptSucceeded, Progress: 1})
	w.step(&tracker.Heartbeat{Node: f.node, Load: w.state.Nodes[w.names[f.node]].Load, Reports: w.reports, Early: w.cfg.OfferAtOnce})
	if id.Kind == job.Map && len(w.gated[id.Job]) > 0 {
		if j := w.t.Jobs().Get(id.Job); j != nil && j.MapsDone() {
			w.open(id.Job)
		}
	}
}

// offerWork sends an offer for the nodes that have free slots.
func (w *future) offerWork() {
	var free []string
	for _, n := range w.t.Nodes().All() {
		if n.Free(job.Map)+n.Free(job.Reduce) > 0 {
			free = append(free, n.Name())
		}
	}
	w.step(&tracker.Offer{Nodes: free})
}

// beatAll sends heartbeats of nodes with free slots; of all nodes if the policy reads them
// all, or if no task is pending and only speculative copies could start.
func (w *future) beatAll() {
	jobs := w.t.Jobs()
	every := w.loads || jobs.Pending(job.Map)+jobs.Pending(job.Reduce) == 0
	for i := range w.state.Nodes {
		n := w.t.Nodes().Get(w.state.Nodes[i].Spec.Name)
		if every || n.Free(job.Map)+n.Free(job.Reduce) > 0 {
			w.beat(&w.state.Nodes[i], true)
		}
	}
}

// beat sends a node's heartbeat with the progress of its attempts.
func (w *future) beat(n *Node, work bool) {
	w.reports = w.reports[:0]
	for _, a := range w.t.Nodes().Get(n.Spec.Name).Attempts() {
		if f := w.flights[a.ID()]; f != nil {
			w.reports = append(w.reports, tracker.Report{Attempt: f.id, State: job.AttemptRunning, Progress: f.progress(w.now)})
		}
	}
	w.step(&tracker.Heartbeat{Node: n.Spec.Name, Load: n.Load, Reports: w.reports, NoWork: !work})
}

// progress returns the progress of an attempt at a time.
func (f *flight) progress(now time.Duration) float64 {
	span := f.ends - f.began
	if f.full < 0 || span <= 0 {
		return 0
	}
	return min(0.99, float64(now-f.began)/float64(span))
}

// index returns the index of a live job of the state, or -1.
func (s *State) index(id job.ID) int {
	for lo, hi := 0, len(s.Jobs); lo < hi; {
		mid := (lo + hi) / 2
		switch {
		case s.Jobs[mid].ID == id:
			return mid
		case s.Jobs[mid].ID < id:
			lo = mid + 1
		default:
			hi = mid
		}
	}
	return -1
}

// job returns a live job of the state, or nil.
func (s *State) job(id job.ID) *LiveJob {
	if i := s.index(id); i >= 0 {
		return &s.Jobs[i]
	}
	return nil
}

// event is something that happens in a future.
type event struct {
	at      time.Duration
	order   int64
	what    uint8
	attempt job.AttemptID
	arrival int
}

const (
	evEnd uint8 = iota
	evOffer
	evBeat
	evArrive
)

// queue is a heap of events by time and then by the order of their insertion.
type queue struct {
	list []event
	last int64
}

func (q *queue) before(a, b int) bool {
	x, y := &q.list[a], &q.list[b]
	return x.at < y.at || x.at == y.at && x.order < y.order
}

// push adds an event after all that are at the same time.
func (q *queue) push(e event) {
	q.last++
	e.order = q.last
	q.list = append(q.list, e)
	for i := len(q.list) - 1; i > 0 && q.before(i, (i-1)/2); i = (i - 1) / 2 {
		q.list[i], q.list[(i-1)/2] = q.list[(i-1)/2], q.list[i]
	}
}

// pop removes the first event. The queue must not be empty.
func (q *queue) pop() event {
	top, last := q.list[0], len(q.list)-1
	q.list[0] = q.list[last]
	q.list = q.list[:last]
	for i := 0; 2*i+1 < last; {
		child := 2*i + 1
		if child+1 < last && q.before(child+1, child) {
			child++
		}
		if !q.before(child, i) {
			break
		}
		q.list[i], q.list[child] = q.list[child], q.list[i]
		i = child
	}
	return top
}
