package sim

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// Start is the state of a cluster from which a run continues, in place of an empty cluster.
// A forecast of a live cluster is such a run. It differs from a run without a Start in five
// points:
//
//   - The nodes are Tracker's, and Config.Cluster is empty. No node fails, joins or
//     leaves. Each reports the same load throughout the run, because a live node's load has
//     causes that no simulation knows.
//   - Times draws how long attempts take. The tasks of Config.Jobs state their number alone.
//   - The policy learns no more than from a live master: no sizes of jobs
//     (sched.SizeReader). Its wishes to restart jobs (sched.Restarter) are not granted.
//   - Heartbeats follow the work and are not spread over an interval; see pulse.go.
//   - The run ends without an error when no job of Jobs can make progress any more, and it
//     does not wait for jobs that are submitted on the way.
type Start struct {
	// Tracker has the state: tracker.Fork makes it, under Config.Policy, without a limit for
	// silent nodes. The run begins at Tracker.Now and owns the tracker. The caller may read
	// the tracker after the run, to explain why jobs have not ended.
	Tracker *tracker.Tracker
	// Jobs are the numbers of the tracker's live jobs, which Config.Jobs describes first and in
	// the same order. The other jobs of Config.Jobs are submitted at their times.
	// JobResult.Started of a job in Jobs is the time of the first launch in this run.
	Jobs []job.ID
	// Loads are the loads that the nodes report, by cluster.Node.Index.
	Loads []cluster.Load
	Times Times
}

// Times draws how long attempts take.
type Times interface {
	// Span returns the time from an attempt's launch to its end. For a reduce it is the time if
	// the job's maps had all ended before its launch; a reduce that starts earlier fetches in the
	// part ModelConfig.ShuffleShare of that time, which ends with the last map or later. 0 means
	// that the attempt never ends. index is the job's index in Config.Jobs. Span is called
	// once for each attempt: at the start for running ones, in the order of their nodes, and
	// for the others at their launch.
	Span(index int, a *job.Attempt) time.Duration
}

// checkStart returns an error for a setting that a run from a Start does not simulate.
func checkStart(cfg *Config) error {
	st := cfg.Start
	// A forecast with a model of failures would forecast failures that are not known to come.
	applies := ModelConfig{Heartbeat: cfg.Model.Heartbeat, StallAfter: cfg.Model.StallAfter, ShuffleShare: cfg.Model.ShuffleShare}
	switch {
	case st.Tracker == nil || st.Times == nil:
		return errors.New("start: needs a tracker and times")
	case len(cfg.Cluster.Groups) > 0 || cfg.Autoscale != nil || len(cfg.Swaps) > 0 || cfg.Choose != nil:
		return errors.New("start: the nodes and the policy are the tracker's, and stay")
	// Written for the fields that apply, so that a new one is refused.
	case !reflect.DeepEqual(cfg.Model, applies):
		return errors.New("start: of the model only heartbeat, stall and shuffle share apply to a run from a state")
	case len(st.Jobs) > len(cfg.Jobs) || len(st.Loads) != len(st.Tracker.Nodes().All()):
		return fmt.Errorf("start: %d jobs with %d descriptions, and %d loads of %d nodes", len(st.Jobs), len(cfg.Jobs), len(st.Loads), len(st.Tracker.Nodes().All()))
	}
	return nil
}

// buildFromStart makes the nodes of the start's tracker, all of normal speed in one rack.
func (s *sim) buildFromStart() error {
	if err := checkStart(&s.cfg); err != nil {
		return err
	}
	s.racks, s.net = make([]rack, 1), network{level: math.Inf(1)}
	s.observed = len(sched.HooksOf(s.cfg.Policy).Observers) > 0
	for _, n := range s.cfg.Start.Tracker.Nodes().All() {
		spec, at := n.Spec(), int32(len(s.nodes))
		s.nodes = append(s.nodes, node{name: spec.Name, cores: float64(max(1, spec.Cores)), spec: spec, index: at, up: true, machine: at, mates: 1,
			plant: plant{speed: 1, slower: 1, crowded: 1, next: never}})
		s.byName[spec.Name] = at
		s.racks[0].nodes = append(s.racks[0].nodes, at)
	}
	s.machines, s.model.OutOfBand = len(s.nodes), true
	return nil
}

// continueRun takes over the jobs and attempts of the start's tracker, and schedules the first
// heartbeats and submissions.
func (s *sim) continueRun() error {
	st := s.cfg.Start
	s.now = s.tr.Now()
	s.began, s.lastWork, s.open = s.now, s.now, len(st.Jobs)
	s.pace()
	for i, id := range st.Jobs {
		if err := s.continueJob(int32(i), id); err != nil {
			return err
		}
	}
	if live := len(s.tr.Jobs().Live()); live != len(st.Jobs) {
		return fmt.Errorf("start: the tracker has %d live jobs, not %d", live, len(st.Jobs))
	}
	for i, n := range s.tr.Nodes().All() {
		for _, a := range n.Attempts() {
			// In the order of nodes and launches, as Times promises, so that a forecast is the same each
			// time.
			s.continueAttempt(int32(i), a)
		}
	}
	s.nextArrival()
	s.startPulse()
	return nil
}

// continueJob takes over a job and the outputs of its finished maps.
func (s *sim) continueJob(i int32, id job.ID) error {
	core, spec := s.tr.Jobs().Get(id), &s.cfg.Jobs[i]
	if core == nil || core.Total(job.Map) != len(spec.Maps) || core.Total(job.Reduce) != len(spec.Reduces) {
		return fmt.Errorf("start: job %d %q is not %v of the tracker with as many tasks", i, spec.Name, id)
	}
	j := newRunning(i, id, spec)
	j.core, j.succeeded = core, core.Done(job.Map)
	if done := core.Done(job.Map); done > 0 && j.outputs != nil {
		for m := range j.outputs {
			if a := core.Task(job.Map, int32(m)).Success(); a != nil {
				// Reduces that run may have fetched some. They fetch all again here, which takes no time
				// for attempts of given duration.
				j.outputs[m] = output{a.Node(), outputReady}
			}
		}
		j.done = done
	}
	s.jobs[id] = j
	if d := s.detail(j); d != nil {
		d.ID, d.Submitted = id, core.Submitted()
	}
	return nil
}

// continueAttempt takes over an attempt that runs, with the time since its launch.
func (s *sim) continueAttempt(n int32, core *job.Attempt) {
	a := s.enrol(core, n, s.jobs[core.ID().Job])
	a.slot, a.level, a.speculative, a.label = core.Slot(), core.Level(), core.Speculative(), core.Label()
	a.began, a.from, a.zero = core.Started(), core.Started(), core.Started()
	s.layOutDrawn(a)
	switch {
	// Times gives it no end. It occupies its slot until the tracker times it out.
	case a.hangs:
	case !a.gate:
		s.startLoad(a)
		// A drawn span may be shorter than the attempt has run; then it ends at once.
		s.endAfter(a, max(0, a.from+a.span-s.now))
	case a.job.mapsDone():
		// tryGate would take the present for the end of the last map.
		a.job.waiters = append(a.job.waiters, a.self)
		a.open, a.zero = true, max(a.from+a.shuffle, core.Job().MapsDoneAt())
		s.startLoad(a)
		s.endAfter(a, max(0, a.zero+a.afterGate()-s.now))
	default:
		s.arriveAtGate(a.self)
	}
}

// layOutDrawn gives an attempt the one stage that Start.Times draws.
func (s *sim) layOutDrawn(a *attempt) {
	a.span = s.cfg.Start.Times.Span(int(a.job.index), a.core)
	if a.span <= 0 {
		a.hangs = true // it has no stage, so it never ends
		return
	}
	u := useTime
	if a.id.Kind == job.Reduce && len(a.job.spec.Maps) > 0 {
		u = useGate
	}
	a.plain, a.gate, a.runnable, a.seconds = true, u == useGate, 1, a.span.Seconds()
	if a.id.Kind == job.Reduce {
		a.shuffle = s.shuffleSpan(a)
	}
	if a.gate {
		a.seconds = a.afterGate().Seconds()
	}
	a.add(stage{use: u, span: a.span})
}

// mustEnd reports whether the run lasts until the job of an index has ended: any job of a run
// without a Start, and a job of Start.Jobs.
func (s *sim) mustEnd(index int32) bool {
	return s.cfg.Start == nil || int(index) < len(s.cfg.Start.Jobs)
}

// blankSplits returns the splits of a job that is submitted to a run from a Start. They state
// nothing, so all jobs share them.
func (s *sim) blankSplits(j *workload.Job) []job.Split {
	if n := len(j.Maps); n > len(s.blank) {
		s.blank = make([]job.Split, n)
	}
	return s.blank[:len(j.Maps):len(j.Maps)]
}
