package forecast

import (
	"cmp"
	"iter"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// future is one future of a cluster. Package sim simulates it from a fork of the tracker; the
// future draws how long its attempts take.
type future struct {
	run    *Run
	number int // selects the draws
	t      *tracker.Tracker
	policy sched.Policy
	drawn  []drawn // by index of the job in the simulation, then by kind
	asked  []bool  // whether that entry of drawn is filled in
	// resumed holds the attempts of the state by their names in the fork, which counts the
	// attempts of each task from 0.
	resumed map[job.AttemptID]*Attempt
}

// newFuture forks the tracker for the future of a number.
func (r *Run) newFuture(number int) (*future, error) {
	t, p, err := fork(&r.cfg, r.state)
	if err != nil {
		return nil, err
	}
	w := &future{run: r, number: number, t: t, policy: p, resumed: make(map[job.AttemptID]*Attempt, len(r.state.Running))}
	tries := map[job.TaskID]int32{}
	for i := range r.state.Running {
		a := &r.state.Running[i]
		w.resumed[job.AttemptID{TaskID: a.ID.TaskID, Number: tries[a.ID.TaskID]}] = a
		tries[a.ID.TaskID]++
	}
	return w, nil
}

// idleLeast is the time without work after which a future ends in which jobs are left. A
// policy may wait for ever for a load or a node that no future brings.
const idleLeast = 10 * time.Minute

// simulate runs the future up to a time or to the end of all jobs; until 0 is no bound.
func (w *future) simulate(times sim.Times, until time.Duration) (*sim.Result, error) {
	cfg := w.config(times)
	cfg.Until = until
	return sim.RunOrFault(cfg)
}

// config describes a simulation of the future.
func (w *future) config(times sim.Times) sim.Config {
	r := w.run
	w.drawn, w.asked = make([]drawn, len(r.jobs)*job.Kinds), make([]bool, len(r.jobs)*job.Kinds)
	return sim.Config{
		Start:  &sim.Start{Tracker: w.t, Jobs: r.ids, Loads: r.loads, Times: times},
		Policy: w.policy, Jobs: r.jobs, Details: true, MaxEvents: int64(r.cfg.MaxEvents), Stop: r.cfg.Stop,
		Model: sim.ModelConfig{Heartbeat: "fixed:" + r.cfg.Heartbeat.String(), StallAfter: idleLeast, ShuffleShare: cmp.Or(float64(r.model.overlap), -1)},
	}
}

// whyUnended returns why a job of the state has not ended in a simulation of the future.
func (w *future) whyUnended(id job.ID, result *sim.Result) string {
	// The state at the bound of events says nothing about why a job waits.
	if j := w.t.Jobs().Get(id); j != nil && result.Events < int64(w.run.cfg.MaxEvents) {
		for k := range job.Kind(job.Kinds) {
			if j.Pending(k) > 0 && j.Running(k) == 0 {
				_, words := w.t.Explain(j, k)
				return words
			}
		}
	}
	return "the simulated future was cut off before its end"
}

// of returns what a job's tasks of a kind take in this future. index is the job's in the
// state.
func (w *future) of(index int, id job.ID, k job.Kind) (drawn, bool) {
	at := index*job.Kinds + int(k)
	if !w.asked[at] {
		w.asked[at] = true
		w.drawn[at], _ = w.run.model.drawJob(w.number, id, k)
	}
	return w.drawn[at], len(w.drawn[at].seconds) > 0
}

// Span implements sim.Times.
func (w *future) Span(index int, a *job.Attempt) time.Duration {
	id := a.ID()
	slower := w.run.slower[a.Node()]
	d, known := w.of(index, id.Job, id.Kind)
	longer := w.crowding(a)
	if live := w.resumed[id]; live != nil {
		full, age := w.resume(&w.run.state.Jobs[index], live, d, known, slower), (w.run.state.At - live.Started).Seconds()
		// Only the rest is longer: so far the processors were its own.
		if longer > 1 && full > age { // the nodes that take its processors join now
			full = age + float64((full-age)*longer)
		}
		return seconds(full)
	}
	// 0 leaves the attempt running to the end of the future: its job is then unknown, and others see its slot
	// taken.
	if !known {
		return 0
	}
	u := w.run.model.attemptDraw(w.number, id)
	x := float64(d.sample(u.uniform()) * slower * longer)
	if id.Kind == job.Map {
		j := &w.run.state.Jobs[index]
		x *= sizeFactor(j.splitBytes(id.Index), j.Times.SplitBytes)
	}
	return seconds(x)
}

// resume returns the whole time in seconds of an attempt that runs already, or 0 if it is
// unknown. Its progress counts the more the further it is.
func (w *future) resume(j *LiveJob, a *Attempt, d drawn, known bool, slower float64) float64 {
	u := w.run.model.attemptDraw(w.number, a.ID)
	age := (w.run.state.At - a.Started).Seconds()
	switch {
	case a.ID.Kind == job.Map || len(j.Spec.Splits) == 0:
		if a.ID.Kind == job.Map {
			slower *= sizeFactor(j.splitBytes(a.ID.Index), j.Times.SplitBytes)
		}
		p, elapsed := told(a.Progress), (a.ProgressAt - a.Started).Seconds()
		// By its own progress, which says more the further the attempt is. It cannot take less time
		// than it has run already.
		// At least 0.3 of the present speed's time: a normal draw may be negative.
		projected := max(float64(age*1.001), float64(elapsed/max(p, 0.01)*max(0.3, 1+float64(speedSpread*(1-p)*u.normal()))))
		switch {
		case known:
			// Only times above its age are left: an attempt that has run for long is one of the
			// slow ones.
			full := float64(slower * d.sampleAbove(u.uniform(), age/slower))
			// Below, most programs report the progress of their first block.
			if p >= 0.05 {
				part := w.trust(a, p)
				full = float64(part*projected) + float64((1-part)*full)
			}
			return full
		case p >= 0.05:
			return projected
		}
		return 0
	case !known:
		return 0
	case j.MapsDoneAt > 0:
		since := (w.run.state.At - j.MapsDoneAt).Seconds()
		// A reduce that has waited is only as old as its work.
		least := w.run.model.overlap.full(age, since)
		full := float64(slower * d.sampleAbove(u.uniform(), least/slower))
		if p, projected := projectReduce(a, j, w.run.model.overlap, w.run.cfg.WorkAlone); p >= 0.05 {
			projected *= max(0.5, 1+float64(speedSpread*(1-p)*u.normal()))
			part := w.trust(a, p)
			full = max(float64(1.001*least), float64(part*projected)+float64((1-part)*full))
		}
		return full
	}
	// A reduce that still waits for maps: its age says nothing about its own time.
	return float64(slower * d.sample(u.uniform()))
}

// speedSpread is the assumed standard deviation of the speed that an attempt will have, as a part of the speed that it
// has had.
const speedSpread = 0.25

// trust returns the weight, from 0 to 1, of the time that follows from a running attempt's progress p, beside the
// time that follows from other tasks. The variances of both decide, as for two measurements of one quantity: the more
// the tasks of the job differ, or the less is known about them, the more the attempt's own progress counts.
func (w *future) trust(a *Attempt, p float64) float64 {
	m := w.run.model
	other := float64(m.within[a.ID.Kind] * m.within[a.ID.Kind])
	if src := m.jobs[a.ID.Job]; src != nil {
		other += float64(src[a.ID.Kind].spread * src[a.ID.Kind].spread)
	}
	own := float64(speedSpread * (1 - p))
	// Progress that has not changed for several heartbeats comes in large steps. A command that has read most of
	// its small input at once, for example, would else count as about to end.
	idle := (w.run.state.At - a.ProgressAt - 3*w.run.cfg.Heartbeat).Seconds()
	step := max(0, idle) / max(minTask, (a.ProgressAt-a.Started).Seconds())
	return other / (other + float64(own*own) + float64(step*step))
}

// projectReduce returns the part of a reduce's work after its fetches that is done, and the time that the reduce would
// take in all after the maps at the speed that it has had. Both are 0 if its progress says nothing.
func projectReduce(a *Attempt, j *LiveJob, o overlap, workAlone bool) (p, full float64) {
	if p = a.Progress; !workAlone {
		p = (p - float64(hadoopShare)) / float64(1-hadoopShare)
	}
	age, since := (a.ProgressAt - a.Started).Seconds(), (a.ProgressAt - j.MapsDoneAt).Seconds()
	if p = told(p); p <= 0 || since <= 0 {
		return 0, 0
	}
	if age <= since { // it started after the last map, so it has fetched since then, too
		return p, max(minTask, age/(float64(o)+float64(float64(1-o)*p)))
	}
	left := since * (1 - p) / p
	return p, max(minTask, o.full(age+left, since+left))
}

// told returns a map's progress, or 0 if it says nothing: a command may have read all of its small
// input at once and still compute, so an attempt that runs with all of its input read tells nothing
// about its end.
func told(progress float64) float64 {
	if progress > 0.98 {
		return 0
	}
	return progress
}

// fork makes a tracker that continues from a state.
func fork(cfg *Config, s *State) (*tracker.Tracker, sched.Policy, error) {
	p, err := cfg.Policy()
	if err != nil {
		return nil, nil, err
	}
	// No time-outs: virtual nodes send heartbeats by themselves, and idle ones may be no events
	// (sim/park.go).
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
			// Later launches continue the count: preemption takes the newest attempt first.
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
	// Virtual attempts report no progress.
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
		// Numbers start at 0 in the fork (resumed): earlier attempts that failed are left out, and with them
		// the risk that the job is out of retries, because no attempt fails in a future.
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
				if !yield(tracker.Done{Job: j.ID, Kind: k, At: j.Done[k], Took: seconds(meanOf(j.Times.full(k, hadoopShare))), Node: s.Nodes[0].Spec.Name}) {
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
