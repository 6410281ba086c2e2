package forecast

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// Config says how to simulate the futures of a State.
type Config struct {
	// Policy makes a fresh policy, with its configuration and with the learned state that
	// the caller knows.
	Policy func() (sched.Policy, error)
	// PolicyName is its name, for Forecast.Policy.
	PolicyName string
	// Futures is the number of futures to sample; 0 is DefaultFutures.
	Futures int
	// Seed seeds all draws.
	Seed uint64
	// Heartbeat is the interval of a node's heartbeats; 0 is 3 seconds.
	Heartbeat time.Duration
	// OfferAtOnce has the meaning that it has for the tracker.
	OfferAtOnce bool
	// WorkAlone means that the progress of a reduce counts its own work after the shuffle alone, as attempts of this
	// system report it. Otherwise fetching is its first third, as Hadoop and the simulator have it.
	WorkAlone bool
	// MaxEvents bounds the events of one future; 0 is DefaultMaxEvents. Jobs that have not
	// ended by then are unknown.
	MaxEvents int
	// Given holds, by job, times of tasks that take the place of what the model concludes.
	// lab/forecast measures with it which error remains if a job's times are known
	// but not which of its tasks takes which.
	Given map[job.ID]Times
	// Stop is called every few thousand events, unless it is nil. Its error ends the run.
	Stop func() error
}

// Defaults of Config.
const (
	DefaultFutures   = 32
	DefaultMaxEvents = 5_000_000 // about two for each attempt
)

// Run samples the futures of a State, one at a time, so that the caller can pause after
// each.
type Run struct {
	cfg    Config
	state  *State
	model  *model
	done   int
	starts [][]time.Duration // by job, then by future; 0 is never
	ends   [][]time.Duration
	maps   [][]time.Duration // ends of the last maps
	failed []string
	waits  []string

	// What all futures have in common: the state's jobs as the simulator describes them, the
	// loads of the nodes, and the nodes' factors.
	jobs   []workload.Job
	ids    []job.ID
	loads  []cluster.Load
	slower []float64
	crowds []*crowd // by node; nil where no added node shares the machine
}

// NewRun prepares a run.
func NewRun(cfg Config, s *State) *Run {
	cfg.Futures = cmp.Or(cfg.Futures, DefaultFutures)
	cfg.MaxEvents = cmp.Or(cfg.MaxEvents, DefaultMaxEvents)
	cfg.Heartbeat = cmp.Or(cfg.Heartbeat, 3*time.Second)
	r := &Run{cfg: cfg, state: s, model: newModel(s, &cfg), starts: make([][]time.Duration, len(s.Jobs)),
		ends: make([][]time.Duration, len(s.Jobs)), maps: make([][]time.Duration, len(s.Jobs)), failed: make([]string, len(s.Jobs)), waits: make([]string, len(s.Jobs))}
	var blank tasks
	for i := range s.Jobs {
		j := &s.Jobs[i]
		r.ids = append(r.ids, j.ID)
		r.jobs = append(r.jobs, workload.Job{Name: j.Spec.Name, Request: j.Spec.Request, Maps: blank.of(len(j.Spec.Splits)), Reduces: blank.of(j.Spec.Reduces)})
	}
	for i := range s.Nodes {
		r.loads = append(r.loads, s.Nodes[i].Load)
		r.slower = append(r.slower, r.model.nodes.of(s.Nodes[i].Index))
	}
	r.crowds = r.newCrowds()
	return r
}

// tasks makes tasks that state nothing, because the futures draw their times. All jobs share
// them.
type tasks []workload.Task

func (t *tasks) of(n int) []workload.Task {
	if n > len(*t) {
		*t = make([]workload.Task, n)
	}
	return (*t)[:n:n]
}

// Next simulates the next future. It returns false after the last one.
func (r *Run) Next() (bool, error) {
	if r.done >= r.cfg.Futures || len(r.state.Jobs) == 0 {
		return false, nil
	}
	w, err := r.newFuture(r.done)
	if err != nil {
		return false, err
	}
	// Before the simulation changes the fork: the first moment of every future is the present.
	if r.done == 0 {
		r.explain(w)
	}
	result, err := w.simulate(w, 0)
	if err != nil {
		return false, err
	}
	for i := range r.state.Jobs {
		// 0 is never, so an end at the tracker's 0 counts as one just after it.
		at := [3]time.Duration{result.Jobs[i].Started, result.Jobs[i].Ended, result.Jobs[i].MapsDone}
		for k, t := range at {
			if at[k] = max(1, t); t < 0 {
				at[k] = 0
			}
		}
		r.starts[i], r.ends[i], r.maps[i] = append(r.starts[i], at[0]), append(r.ends[i], at[1]), append(r.maps[i], at[2])
		if at[1] == 0 {
			r.failed[i] = w.whyUnended(r.ids[i], result)
		}
	}
	r.done++
	return r.done < r.cfg.Futures, nil
}

// maxExplained is for how many jobs WaitsFor is worked out. Each costs a walk through the
// order of all jobs.
const maxExplained = 200

// explain notes why jobs wait at the start of a future.
func (r *Run) explain(w *future) {
	left := maxExplained
	for i := range r.state.Jobs {
		j := w.t.Jobs().Get(r.state.Jobs[i].ID)
		if left == 0 || j == nil || j.Running(job.Map)+j.Running(job.Reduce) > 0 {
			continue
		}
		left--
		for k := range job.Kind(job.Kinds) {
			if j.Pending(k) > 0 {
				_, r.waits[i] = w.t.Explain(j, k)
				break
			}
		}
	}
}

// Forecast runs all futures and returns the answer.
func (r *Run) Forecast() (*Forecast, error) {
	for more := true; more; {
		var err error
		if more, err = r.Next(); err != nil {
			return nil, err
		}
	}
	return r.Result(), nil
}

// Result returns the answer from the futures so far, as sampled. Calibration corrects it.
func (r *Run) Result() *Forecast {
	s := r.state
	f := &Forecast{Made: s.At, Futures: r.done, Policy: r.cfg.PolicyName, Assumptions: r.assumptions()}
	running := map[job.ID]bool{}
	for i := range s.Running {
		running[s.Running[i].ID.Job] = true
	}
	commit := s.commitTime()
	for i := range s.Jobs {
		j := &s.Jobs[i]
		a := JobForecast{ID: j.ID, Submitted: j.Submitted, WaitsFor: r.waits[i], Basis: r.model.basisOf(j)}
		ends := reached(r.ends[i])
		switch {
		case r.done == 0:
			a.Unknown = "nothing was simulated yet"
		// Quantiles over the futures that end would be too early if many do not end. So four of
		// five must.
		case len(ends)*5 < r.done*4:
			a.Unknown, a.Never = r.whyNot(j, i), s.never(j) != "" && s.Absent == 0
			if maps := reached(r.maps[i]); j.left(job.Map) > 0 && !a.Never && len(maps)*5 >= r.done*4 {
				a.MapsEnd, a.MapsEarly, a.MapsLate = at(maps, 0.5), at(maps, 0.1), at(maps, 0.9)
			}
		default:
			a.Known = true
			a.End, a.Early, a.Late = at(ends, 0.5), at(ends, 0.1), at(ends, 0.9)
			// In a simulation an output is published in no time.
			a.End, a.Early, a.Late = a.End+commit, a.Early+commit, a.Late+commit
		}
		// A job that runs already has no start to predict.
		if starts := reached(r.starts[i]); !running[j.ID] && len(starts) > 0 && len(starts)*5 >= r.done*4 {
			a.Start = at(starts, 0.5)
		}
		f.Jobs = append(f.Jobs, a)
	}
	for _, id := range s.Finishing {
		f.Jobs = append(f.Jobs, JobForecast{ID: id, Unknown: "its tasks have ended, and its output is being published or removed"})
	}
	slices.SortFunc(f.Jobs, func(a, b JobForecast) int { return cmp.Compare(a.ID, b.ID) })
	f.place()
	return f
}

// Gain is by how much later a job ends in a future of another run than in the same future of this
// one: the median and the 10th and 90th percentiles over the futures in which it ends in both.
// Negative is earlier. Slow tasks and all else that both futures share cancel out.
type Gain struct{ Median, Low, High time.Duration }

// Gain compares a job's ends in the futures of two runs. ok is false if too few futures end.
func (r *Run) Gain(with *Run, id job.ID) (g Gain, ok bool) {
	i, k := r.state.index(id), with.state.index(id)
	if i < 0 || k < 0 {
		return g, false
	}
	var list []time.Duration
	done := min(r.done, with.done)
	for n := range done {
		// The same future of both: the difference of two medians would contain the luck of both.
		if a, b := r.ends[i][n], with.ends[k][n]; a > 0 && b > 0 {
			list = append(list, b-a)
		}
	}
	if len(list) == 0 || len(list)*5 < done*4 {
		return g, false
	}
	slices.Sort(list)
	return Gain{at(list, 0.5), at(list, 0.1), at(list, 0.9)}, true
}

// place numbers the jobs by their starts.
func (f *Forecast) place() {
	var waiting []*JobForecast
	for i := range f.Jobs {
		if f.Jobs[i].Start > 0 {
			waiting = append(waiting, &f.Jobs[i])
		}
	}
	slices.SortStableFunc(waiting, func(a, b *JobForecast) int { return cmp.Compare(a.Start, b.Start) })
	for i, j := range waiting {
		j.Position = i + 1
	}
}

// reached returns the sorted times that are not 0.
func reached(times []time.Duration) []time.Duration {
	var list []time.Duration
	for _, t := range times {
		if t > 0 {
			list = append(list, t)
		}
	}
	slices.Sort(list)
	return list
}

// at returns a quantile of sorted times.
func at(times []time.Duration, p float64) time.Duration {
	v := make([]float64, len(times))
	for i, t := range times {
		v[i] = float64(t)
	}
	return time.Duration(quantile(v, p))
}

// whyNot says why a job's end is unknown.
func (r *Run) whyNot(j *LiveJob, i int) string {
	switch never, away := r.state.never(j), r.state.Absent; {
	case never != "" && away > 0:
		return fmt.Sprintf("%s, but %s must still register with this master: ask again when they have", never, terminal.Plural(away, "worker"))
	case never != "":
		return never
	}
	for k := range job.Kind(job.Kinds) {
		if j.left(k) > 0 && r.model.jobs[j.ID][k].basis == fromNothing {
			return fmt.Sprintf("no %v has finished on this cluster yet from which its time could be estimated", k)
		}
	}
	return cmp.Or(r.failed[i], "it does not end in most of the simulated futures")
}

// Left counts the tasks of all jobs that are not done.
func (s *State) Left() (n int) {
	for i := range s.Jobs {
		n += s.Jobs[i].left(job.Map) + s.Jobs[i].left(job.Reduce)
	}
	return n
}

// left counts the tasks of a kind that are not done.
func (j *LiveJob) left(k job.Kind) (n int) {
	for _, at := range j.Done[k] {
		if at == 0 {
			n++
		}
	}
	return n
}

// never returns why the job cannot end on the present cluster, or "".
func (s *State) never(j *LiveJob) string {
	if len(s.Nodes) == 0 {
		return "the cluster has no live node"
	}
	for k := range job.Kind(job.Kinds) {
		if j.left(k) == 0 {
			continue
		}
		slots, most, width := 0, 0, 0
		for i := range s.Nodes {
			n := [job.Kinds]int{s.Nodes[i].Spec.MapSlots, s.Nodes[i].Spec.ReduceSlots}[k]
			need := s.Nodes[i].Spec.Width(j.Spec.TaskMemory, j.Spec.TaskCPUs)
			slots += n
			most = max(most, n)
			if n >= need {
				width = need
			}
		}
		switch {
		case slots == 0:
			return fmt.Sprintf("the cluster has no %v slots", k)
		case width == 0:
			return fmt.Sprintf("no node has enough %v slots for one of its tasks: the largest has %d", k, most)
		}
	}
	return ""
}

// commitTime returns the median time of publishing an output.
func (s *State) commitTime() time.Duration {
	var list []time.Duration
	for i := range s.Past {
		list = append(list, s.Past[i].Commit)
	}
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)/2]
}

// basisOf says where the times of a job's tasks come from.
func (m *model) basisOf(j *LiveJob) string {
	text := ""
	for k := range job.Kind(job.Kinds) {
		if j.left(k) == 0 {
			continue
		}
		s, words := &m.jobs[j.ID][k], ""
		switch s.basis {
		case fromOwn:
			words = fmt.Sprintf("%ss from %d of its own", k, s.count)
		case fromName:
			words = fmt.Sprintf("%ss from %s of the same name", k, terminal.Plural(s.count, "run"))
		case fromCluster:
			words = fmt.Sprintf("%ss from %s on this cluster", k, terminal.Plural(s.count, "other job"))
		default:
			words = fmt.Sprintf("nothing known of %ss", k)
		}
		if text != "" {
			text += ", "
		}
		text += words
	}
	return text
}

// assumptions returns the assumptions behind all answers.
func (r *Run) assumptions() []string {
	list := []string{
		"no further job is submitted", "no further node joins or leaves, and no attempt fails",
		"a task far from its input takes as long as one near it",
	}
	if r.state.Added > 0 {
		list = append(list, "the new nodes are there at once, "+r.machines())
	}
	closed := 0
	for i := range r.state.Nodes {
		if r.state.Nodes[i].Closed {
			closed++
		}
	}
	if closed > 0 {
		list = append(list, terminal.Plural(closed, "node")+" without new work will still get none")
	}
	return list
}
