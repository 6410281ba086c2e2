package forecast

import (
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
	"github.com/slotwise/slotwise/sched/portable"
)

// State is the start of a forecast. It shares nothing with the tracker that changes,
// so it may be used in any goroutine.
type State struct {
	// At is the tracker's time when the copy began.
	At time.Duration
	// Nodes are the live nodes.
	Nodes []Node
	// Absent is the number of nodes from before a restart or a change of the master that have not returned.
	Absent int
	// Jobs are the jobs with tasks to schedule, by id.
	Jobs []LiveJob
	// Running are the running attempts, in the order of their launches on each node.
	Running []Attempt
	// Finishing are the jobs whose output is being published or removed.
	Finishing []job.ID
	// Past are jobs that have ended and that the tracker remembers, the oldest first.
	Past []Past
	// Last is the highest id of a job.
	Last job.ID
	// Added is the number of nodes that a Variant has added.
	Added int
}

// Node is a live node.
type Node struct {
	Spec  cluster.Spec
	Index int32 // as cluster.Node.Index; negative for a node that does not exist
	// Closed nodes take no new work.
	Closed bool
	Load   cluster.Load
}

// LiveJob is a job that has not ended.
type LiveJob struct {
	ID         job.ID
	Spec       job.Spec
	Priority   job.Priority
	Pool       string
	State      job.State
	Submitted  time.Duration
	MapsDoneAt time.Duration // 0 until all maps are done
	// Done holds the times at which tasks succeeded, by kind and index; 0 for the others.
	Done [job.Kinds][]time.Duration
	// Times are the times of finished attempts.
	Times Times
}

// Attempt is a running attempt.
type Attempt struct {
	ID          job.AttemptID
	Node        string
	Slot        job.Kind
	Width       int32
	Level       cluster.Level
	Speculative bool
	Label       int32
	Seq         int64
	Started     time.Duration
	Progress    float64
	ProgressAt  time.Duration
}

// Past is a job that has ended.
type Past struct {
	ID    job.ID
	Name  string
	Times Times
	Ended time.Duration
	// Spec has no splits; the forecaster keeps many past jobs, and splits take the most space.
	Spec job.Spec
	Maps int // the number of the job's splits
	// Commit is the time from the outcome to the end, in which the output was published.
	Commit time.Duration
}

// Times holds the times of a job's finished attempts in seconds, for at most maxSamples
// tasks of a kind. A map's time is divided by the relative size of its split. A reduce's
// time includes the time in which it waited for maps.
type Times struct {
	Seconds [job.Kinds][]float64
	// AfterMaps holds, for each time of a reduce, the seconds from the end of the last map to the end of the reduce.
	// It is 0 or less if a map has run again since then. It is empty for a job without maps.
	AfterMaps []float64
	// Nodes holds the index of the node of each time, as cluster.Node.Index.
	Nodes [job.Kinds][]int32
	// SplitBytes is the mean size of the job's splits; 0 if unknown.
	SplitBytes float64
	// Processors is the mean number of processors that an attempt of a kind uses: processor time by the time that it
	// runs, of a reduce after the last map. 0 is unknown.
	Processors [job.Kinds]float64
}

const (
	maxSamples = 64
	maxPast    = 100
)

// Copier reads a tracker into a State in portions, so that the goroutine that owns the
// tracker is never kept for long. The owner calls Copy until it returns true; steps may
// happen between two calls. The first call reads nodes and running attempts, and fixes
// which jobs the State has. Later calls read the tasks; a large job
// takes several. Copy adjusts later changes to the attempts that ran at the first call:
//
//	task runs now, did not at first   counts as pending
//	task is done now, ran at first    still runs
//	job has ended meanwhile           is left out, with its attempts
//
// The zero value is ready.
type Copier struct {
	// Known, unless it is nil, holds the ended jobs that earlier copies have read. Copy adds
	// to it and removes the jobs that the tracker has forgotten.
	Known   map[job.ID]Past
	state   State
	began   bool
	live    []*job.Job
	ended   []*job.Job
	running map[job.TaskID]bool
	reading *reading // the job that the last call has read in part; nil if there is none
}

// Copy reads about budget tasks. It returns true when the State is complete.
func (c *Copier) Copy(t *tracker.Tracker, budget int) bool {
	if !c.began {
		c.begin(t)
		return false
	}
	for budget > 0 && len(c.live) > 0 {
		j := c.live[0]
		// A job that has ended since the first call has no future, and its attempts are left out by
		// State.
		if j.State().Live() {
			if !c.read(j, &budget, true) {
				return false
			}
			c.state.Jobs = append(c.state.Jobs, c.copyJob(j))
		}
		c.reading, c.live = nil, c.live[1:]
	}
	for budget > 0 && len(c.ended) > 0 {
		j := c.ended[0]
		past, known := c.Known[j.ID()]
		// Reading a past job costs a visit to each of its tasks, so it is read once.
		if !known {
			if !c.read(j, &budget, false) {
				return false
			}
			past = c.pastOf(j)
		}
		c.state.Past = append(c.state.Past, past)
		c.reading, c.ended = nil, c.ended[1:]
	}
	if len(c.live)+len(c.ended) > 0 {
		return false
	}
	if c.Known != nil {
		// The tracker has forgotten the others.
		clear(c.Known)
		for _, p := range c.state.Past {
			c.Known[p.ID] = p
		}
	}
	return true
}

// State returns the copy, once Copy has returned true.
func (c *Copier) State() *State {
	s := c.state
	// In place, which changes the copier's own list: State is called once, after the last Copy.
	kept := s.Running[:0]
	for _, a := range s.Running {
		if s.job(a.ID.Job) != nil {
			kept = append(kept, a)
		}
	}
	s.Running = kept
	return &s
}

// begin reads everything but the tasks. It costs the number of nodes, jobs and running
// attempts.
func (c *Copier) begin(t *tracker.Tracker) {
	c.began, c.running = true, map[job.TaskID]bool{}
	s := &c.state
	s.At = t.Now()
	for _, n := range t.Nodes().All() {
		if n.Absent() {
			s.Absent++
		}
		if !n.Alive() {
			continue
		}
		s.Nodes = append(s.Nodes, Node{Spec: n.Spec(), Index: n.Index(), Closed: n.Closed(), Load: n.Load()})
		for _, a := range n.Attempts() {
			// All running attempts are read at once: steps between two calls could otherwise show
			// one attempt twice, or none of a task.
			c.running[a.ID().TaskID] = true
			s.Running = append(s.Running, Attempt{ID: a.ID(), Node: n.Name(), Slot: a.Slot(), Width: int32(a.Width()),
				Level: a.Level(), Speculative: a.Speculative(), Label: a.Label(), Seq: a.Seq(), Started: a.Started(),
				Progress: a.Progress(), ProgressAt: a.ProgressAt()})
		}
	}
	c.live = append(c.live, t.Jobs().Live()...)
	for _, j := range t.Jobs().Finishing() {
		s.Finishing = append(s.Finishing, j.ID())
	}
	ended := t.Jobs().Ended()
	// New jobs of a what-if get ids above all that exist.
	for _, list := range [][]*job.Job{c.live, t.Jobs().Finishing(), ended} {
		for _, j := range list {
			s.Last = max(s.Last, j.ID())
		}
	}
	for _, j := range ended[max(0, len(ended)-maxPast):] {
		// The times of a failed job may come from the mistake that made it fail.
		if j.State() == job.Succeeded {
			c.ended = append(c.ended, j)
		}
	}
}

// jobCost is the part of the budget that a job uses besides its tasks.
const jobCost = 10

// reading is the state of a job's copy between two calls of Copy.
type reading struct {
	kind  job.Kind
	index int                        // of the next task
	seen  int                        // tasks of the kind that are done
	every [job.Kinds]int             // of that many done tasks the time of one is kept
	done  [job.Kinds][]time.Duration // as Job.Done; only of a live job
	work  [job.Kinds]float64         // seconds for which the done tasks have run, of reduces after the last map
	times Times
}

// read reads tasks of a job until the budget is used up. It reports whether it has read all.
func (c *Copier) read(j *job.Job, budget *int, live bool) bool {
	r := c.reading
	if r == nil {
		r = &reading{}
		c.reading = r
		*budget -= jobCost
		for k := range job.Kind(job.Kinds) {
			// Every n-th done task, so that the samples are spread over the job and not of its first wave
			// alone.
			r.every[k] = max(1, (j.Done(k)+maxSamples-1)/maxSamples)
			if live {
				r.done[k] = make([]time.Duration, j.Total(k))
			}
		}
		r.times.SplitBytes = meanBytes(j.Spec().Splits)
	}
	for ; r.kind < job.Kinds; r.kind, r.index, r.seen = r.kind+1, 0, 0 {
		for ; r.index < j.Total(r.kind); r.index++ {
			if *budget <= 0 {
				return false
			}
			*budget--
			if task := j.Task(r.kind, int32(r.index)); task.State() == job.TaskSucceeded {
				// An attempt that ran at the first call still runs in the copy, or the state would be of two
				// moments.
				if live && !c.running[task.ID()] {
					r.done[r.kind][r.index] = max(1, task.DoneAt())
				}
				r.addTime(j, task)
			}
		}
		if r.work[r.kind] > 0 {
			r.times.Processors[r.kind] = j.ProcessorTime(r.kind).Seconds() / r.work[r.kind]
		}
	}
	return true
}

// addTime keeps the time of a done task, unless enough others spread evenly over the done
// tasks are kept.
func (r *reading) addTime(j *job.Job, task *job.Task) {
	k, t := r.kind, &r.times
	a := task.Success()
	took, after := (a.Ended() - a.Started()).Seconds(), 0.
	if k == job.Reduce && j.Total(job.Map) > 0 && j.MapsDone() {
		after = (a.Ended() - j.MapsDoneAt()).Seconds()
	}
	r.work[k] += overlap(0).full(took, after)
	if r.seen++; r.seen%r.every[k] != 0 || len(t.Seconds[k]) >= maxSamples {
		return
	}
	if k == job.Map {
		took /= sizeFactor(float64(task.Split().Bytes), t.SplitBytes)
	} else if j.Total(job.Map) > 0 {
		// While a lost map runs again there is no last map. The entry stays, because other reduces of the job may be
		// read in a later portion, when that map is done.
		t.AfterMaps = append(t.AfterMaps, after)
	}
	t.Seconds[k] = append(t.Seconds[k], max(took, minTask))
	t.Nodes[k] = append(t.Nodes[k], a.Node())
}

// pastOf describes an ended job whose tasks have been read.
func (c *Copier) pastOf(j *job.Job) Past {
	p := Past{ID: j.ID(), Name: j.Name(), Times: c.reading.times, Ended: j.Ended(), Spec: j.Spec(), Maps: j.Total(job.Map), Commit: j.Ended() - j.Decided()}
	p.Spec.Splits, p.Spec.Pool, p.Spec.Priority, p.Spec.TaskTimeout = nil, j.Pool(), j.Priority(), -1
	return p
}

// copyJob describes a live job whose tasks have been read.
func (c *Copier) copyJob(j *job.Job) LiveJob {
	r := c.reading
	f := LiveJob{ID: j.ID(), Spec: j.Spec(), Priority: j.Priority(), Pool: j.Pool(), State: j.State(), Submitted: j.Submitted(), Done: r.done, Times: r.times}
	// The tracker's maps may be done while the copy's last one still runs.
	if j.MapsDone() && j.Total(job.Map) > 0 && !slices.Contains(r.done[job.Map], 0) {
		f.MapsDoneAt = max(1, j.MapsDoneAt())
	}
	return f
}

// minTask is the least time of a task in seconds.
const minTask = 0.001

// meanBytes returns the mean size of splits, or 0 if one is unknown.
func meanBytes(splits []job.Split) float64 {
	sum := 0.
	for i := range splits {
		if splits[i].Bytes <= 0 {
			return 0
		}
		sum += float64(splits[i].Bytes)
	}
	if sum == 0 {
		return 0
	}
	return sum / float64(len(splits))
}

// sizeFactor returns by how much longer a map takes than one with a split of the mean
// size. A part of the time, startup for example, does not depend on the size.
func sizeFactor(bytes, mean float64) float64 {
	if bytes <= 0 || mean <= 0 {
		return 1
	}
	// Bounded: one split of a wrong size must not predict a task of days.
	return 0.1 + float64(0.9*min(20, bytes/mean))
}

// overlap is the fraction of a reduce's time that may overlap with the maps, in which it fetches map outputs.
type overlap float64

// hadoopShare is the overlap that is assumed until the cluster's own reduces show another one. It is also the part
// of a reduce's progress that counts fetching in Hadoop.
const hadoopShare overlap = 1. / 3

// full returns the time that a reduce would have taken after all maps, from the time
// since its start and the time since the last map's end. It is the inverse of
//
//	end = max(start + overlap·full, last map) + (1 − overlap)·full
func (o overlap) full(sinceStart, sinceMaps float64) float64 {
	if sinceMaps <= 0 {
		return sinceStart
	}
	return min(sinceStart, sinceMaps/(1-float64(o)))
}

// full returns the times of a kind. Reduces have the times that they would have taken after all maps.
func (t *Times) full(k job.Kind, o overlap) []float64 {
	v := slices.Clone(t.Seconds[k])
	if k == job.Reduce {
		for i := range min(len(v), len(t.AfterMaps)) {
			v[i] = max(minTask, o.full(v[i], t.AfterMaps[i]))
		}
	}
	return v
}

// overlapWeight is the number of pairs of reduces as which hadoopShare counts in overlapOf.
const overlapWeight = 2

// overlapOf measures the overlap on jobs of which some reduces waited for the last map and others started after it.
// The first take (1 − overlap) of the others' time from that map on. Sleeping reduces fetch nothing, for
// example, so with an assumed third each reduce of a second wave would be expected too late by half of its time.
func overlapOf(donors []donor) overlap {
	sum, weight := float64(overlapWeight*portable.Log(float64(1-hadoopShare))), float64(overlapWeight)
	for i := max(0, len(donors)-maxDonors); i < len(donors); i++ {
		t := donors[i].times
		var waited, after []float64
		for n := range min(len(t.AfterMaps), len(t.Seconds[job.Reduce])) {
			switch start, maps := t.Seconds[job.Reduce][n], t.AfterMaps[n]; {
			// It started after the last map, so its time is all its own.
			case maps >= start:
				after = append(after, start)
			case start >= 2*maps: // it waited for at least as long as it then took, so it had fetched all other outputs
				waited = append(waited, max(minTask, maps))
			}
		}
		if len(waited) == 0 || len(after) == 0 {
			continue
		}
		slices.Sort(waited)
		slices.Sort(after)
		// The variance of the difference of two medians is in proportion to 1/n + 1/m.
		n := 1 / (1/float64(len(waited)) + 1/float64(len(after)))
		// In logarithms: a ratio of a half and one of two are equally far from 1.
		sum += float64(n * portable.Log(middle(waited)/max(minTask, middle(after))))
		weight += n
	}
	return overlap(min(mostOverlap, max(0, 1-portable.Exp(sum/weight))))
}

// mostOverlap keeps full from dividing by next to nothing.
const mostOverlap = 0.8
