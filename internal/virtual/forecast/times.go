package forecast

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/slotwise/slotwise/sched/job"
	"github.com/slotwise/slotwise/sched/portable"
)

// A model holds where the times of each job's tasks come from.
type model struct {
	seed uint64
	// shape holds, sorted, the times of tasks of all jobs divided by the median of their job.
	shape [job.Kinds][]float64
	nodes nodeFactors
	// overlap is as in history.
	overlap overlap
	within  [job.Kinds]float64 // as in history
	jobs    map[job.ID]*[job.Kinds]source
}

// source is a set of runs, one of which a future draws, all scaled to the same median.
type source struct {
	runs   []run
	center float64 // logarithm of that median in seconds
	spread float64 // standard deviation of center
	// offsets, unless it is nil, holds the summands of center, of which a future draws one, in ascending order and equally
	// likely. It takes the place of spread.
	offsets []float64
	basis   basis
	count   int // finished tasks or runs, for people
	// processors is the number of processors that an attempt uses, 0 if it is unknown.
	processors float64
}

// run holds the sorted times of one run's tasks, and a factor to apply to them.
type run struct {
	seconds []float64
	factor  float64
}

// basis is the kind of a source, from worst to best.
type basis uint8

const (
	fromNothing basis = iota
	fromCluster       // all jobs that the tracker remembers
	fromName          // earlier runs of the same name
	fromOwn           // the job's own tasks
)

const (
	enoughOwn = 3 // finished tasks from which on a job's own times are drawn
	maxRuns   = 5 // latest runs of the same name
	maxDonors = 60
)

// newModel finds the source of each job of a state.
func newModel(s *State, cfg *Config) *model {
	h := newHistory(s)
	h.workAlone = cfg.WorkAlone
	m := &model{seed: cfg.Seed, shape: h.shape, nodes: h.nodes, overlap: h.overlap, within: h.within, jobs: make(map[job.ID]*[job.Kinds]source, len(s.Jobs))}
	running := h.running(s)
	for i := range s.Jobs {
		m.jobs[s.Jobs[i].ID] = h.sources(&s.Jobs[i], running[s.Jobs[i].ID])
	}
	//house:sorted each entry sets the sources of one job
	for id, times := range cfg.Given {
		if src := m.jobs[id]; src != nil {
			for k := range job.Kind(job.Kinds) {
				if v := h.even(&times, k); len(v) > 0 {
					src[k] = source{runs: []run{{v, 1}}, basis: fromOwn, count: len(v)}
				}
			}
		}
	}
	return m
}

// sources finds the sources of a job's tasks. r is nil if none of its attempts run.
func (h *history) sources(j *LiveJob, r *unfinished) *[job.Kinds]source {
	if r == nil {
		r = &unfinished{}
	}
	d := donor{id: j.ID, stems: stems(j.Spec.Name), times: &j.Times, tasks: [job.Kinds]int{len(j.Done[job.Map]), len(j.Done[job.Reduce])}}
	src := &[job.Kinds]source{}
	for k := range job.Kind(job.Kinds) {
		// Per job and kind: finished tasks first, then running attempts, then other jobs.
		mine := h.even(&j.Times, k)
		count := len(mine)
		// Finished tasks alone would be the short ones: of tasks that started together, these end first.
		if len(r.projected[k]) > 0 && count+len(r.projected[k]) >= enoughOwn {
			mine = append(mine, r.projected[k]...)
			slices.Sort(mine)
		}
		if d.tasks[k] > 0 {
			src[k] = h.source(&d, k, mine, count, r.ages[k])
		}
		// Maps come before reduces in the loop: a reduce's rule may use the maps' time of this very job.
		if src[k].basis != fromNothing {
			d.even[k], d.log[k] = src[k].runs[0].seconds, src[k].center
			if k == job.Map {
				d.mapsDoubt = src[k].spread * src[k].spread
			}
		}
	}
	return src
}

// source finds the source of a job's tasks of a kind, of which count have finished. mine are
// their times and projected ones, and ages the times since the start of others. The fewer times there
// are, the more other jobs count.
func (h *history) source(d *donor, k job.Kind, mine []float64, count int, ages []float64) source {
	p := h.predict(d, k)
	if len(mine) == 0 && len(p.peers) == 0 {
		return source{}
	}
	b := belief{center: p.center, variance: p.variance}
	s := source{basis: fromCluster, count: len(p.peers), processors: cmp.Or(d.times.Processors[k], h.processorsOf(p.peers, k))}
	if p.named {
		s.basis = fromName
	}
	if len(mine) > 0 {
		s.basis, s.count = fromOwn, count
		own := portable.Log(max(minTask, middle(mine)))
		// As of a mean of n log times. A median's is half as much again if they are normal.
		doubt := h.within[k] * h.within[k] / float64(len(mine))
		if len(p.peers) == 0 {
			b = belief{center: own, variance: max(doubt, 0.4*0.4/float64(len(mine)))}
		} else {
			b = b.and(own, doubt)
		}
	}
	// After the combination: the ages say something about the median, whatever it was concluded from.
	s.offsets = b.outlived(ages, h.within[k])
	// Never quite sure and never quite lost: e to the power of 1 is a factor of 2.7 to either side.
	s.center, s.spread = b.center, min(1, max(0.03, math.Sqrt(b.variance)))
	// Enough own times have the job's own shape. Before, a future takes the shape of one earlier run.
	if len(mine) >= enoughOwn || len(p.peers) == 0 {
		s.runs = []run{h.run(mine, b.center)}
		return s
	}
	for _, i := range p.peers {
		s.runs = append(s.runs, h.run(h.donors[i].even[k], b.center))
	}
	return s
}

// processorsOf returns the mean number of processors that attempts of some donors use, 0 if none is known.
func (h *history) processorsOf(donors []int, k job.Kind) float64 {
	var list []float64
	for _, i := range donors {
		if x := h.donors[i].times.Processors[k]; x > 0 {
			list = append(list, x)
		}
	}
	return meanOf(list)
}

// run scales times to a median.
func (h *history) run(times []float64, center float64) run {
	return run{times, portable.Exp(center) / max(minTask, middle(times))}
}

// unfinished holds times that follow from a job's running attempts, in seconds on an
// average node and for a split of the mean size.
type unfinished struct {
	// projected holds the times that running attempts will take at the speed that they have had.
	// Without them only the shortest tasks of a young job would count.
	projected [job.Kinds][]float64
	// ages holds how long the other attempts have run. They will take longer than that.
	ages [job.Kinds][]float64
}

// running returns what running attempts say, by job. Of a job at most maxSamples attempts of a kind count.
func (h *history) running(s *State) map[job.ID]*unfinished {
	list := map[job.ID]*unfinished{}
	at := s.factors(h.nodes)
	for i := range s.Running {
		a := &s.Running[i]
		j := s.job(a.ID.Job)
		if j == nil {
			continue
		}
		r := list[a.ID.Job]
		if r == nil {
			r = &unfinished{}
			list[a.ID.Job] = r
		}
		slower, age := at[a.Node], (s.At - a.Started).Seconds()
		switch {
		case a.ID.Kind == job.Reduce && len(j.Spec.Splits) > 0 && j.MapsDoneAt == 0:
			// It waits for maps, so its age says nothing about its own time.
			continue
		case a.ID.Kind == job.Reduce && len(j.Spec.Splits) > 0:
			if p, full := projectReduce(a, j, h.overlap, h.workAlone); p >= leastTold {
				r.project(job.Reduce, full/slower)
				continue
			}
			age = h.overlap.full(age, (s.At - j.MapsDoneAt).Seconds())
		// On an average node and for a mean split, so that it can be pooled with the others.
		case a.ID.Kind == job.Map:
			slower *= sizeFactor(j.splitBytes(a.ID.Index), j.Times.SplitBytes)
			if told(a.Progress) >= leastTold {
				r.project(job.Map, (a.ProgressAt-a.Started).Seconds()/a.Progress/slower)
				continue
			}
		}
		if ages := &r.ages[a.ID.Kind]; len(*ages) < maxSamples {
			*ages = append(*ages, max(minTask, age/slower))
		}
	}
	return list
}

// leastTold is the progress from which on an attempt's speed says how long it will take.
const leastTold = 0.2

// project notes the whole time of a running attempt.
func (u *unfinished) project(k job.Kind, seconds float64) {
	if len(u.projected[k]) < maxSamples {
		u.projected[k] = append(u.projected[k], max(minTask, seconds))
	}
}

// splitBytes returns the size of a map's split, 0 if it is unknown.
func (j *LiveJob) splitBytes(i int32) float64 {
	if int(i) < len(j.Spec.Splits) {
		return float64(j.Spec.Splits[i].Bytes)
	}
	return 0
}

// factors returns the factors of a state's nodes by name.
func (s *State) factors(nodes nodeFactors) map[string]float64 {
	at := make(map[string]float64, len(s.Nodes))
	for i := range s.Nodes {
		at[s.Nodes[i].Spec.Name] = nodes.of(s.Nodes[i].Index)
	}
	return at
}

// middle returns the median of sorted values.
func middle(v []float64) float64 { return quantile(v, 0.5) }

// quantile returns a quantile of sorted values, of which there is at least one. Beyond the
// outermost values it continues in a straight line for half a step.
func quantile(v []float64, p float64) float64 {
	n := len(v)
	if n == 1 {
		return v[0]
	}
	at := float64(p*float64(n)) - 0.5
	i := min(n-2, max(0, int(math.Floor(at))))
	return v[i] + float64((at-float64(i))*(v[i+1]-v[i]))
}

// rank is the inverse of quantile: the share of values below x, from 0 to 1.
func rank(v []float64, x float64) float64 {
	i, _ := slices.BinarySearch(v, x)
	return float64(i) / float64(len(v))
}

// draw is a deterministic source of numbers for one name.
type draw uint64

// drawOf returns the numbers of some name in a future.
func (m *model) drawOf(future int, id uint64) draw {
	return draw(portable.Mix(portable.Mix(m.seed+uint64(future)) ^ id))
}

// uniform returns the next number between 0 and 1, without both.
func (d *draw) uniform() float64 {
	*d = draw(portable.Mix(uint64(*d)))
	return (float64(uint64(*d)>>11) + 0.5) / (1 << 53)
}

// normal returns the next number of about the normal distribution, at most 3.5.
func (d *draw) normal() float64 {
	sum := 0.
	for range 12 {
		sum += d.uniform()
	}
	return max(-3.5, min(3.5, sum-6))
}

// drawn is a job's source in one future: one run, and the job's factor.
type drawn struct {
	seconds []float64
	factor  float64
	shape   []float64 // as model.shape
}

// drawJob draws the run and the factor of a job in a future. ok is false if there is none.
func (m *model) drawJob(future int, id job.ID, k job.Kind) (drawn, bool) {
	src := m.jobs[id]
	if src == nil || src[k].basis == fromNothing {
		return drawn{}, false
	}
	s := &src[k]
	d := m.drawOf(future, uint64(id)<<8|uint64(k))
	r := &s.runs[min(len(s.runs)-1, int(d.uniform()*float64(len(s.runs))))]
	off := float64(s.spread * d.normal())
	if s.offsets != nil {
		off = quantile(s.offsets, d.uniform())
	}
	return drawn{r.seconds, r.factor * portable.Exp(off), m.shape[k]}, true
}

// attemptDraw returns the numbers of an attempt in a future.
func (m *model) attemptDraw(future int, a job.AttemptID) draw {
	// The name of an attempt and nothing else: a task has the same luck in every variant, whenever and
	// wherever it starts there. The number is in it, so a retry has other luck.
	id := uint64(a.Job)<<33 ^ uint64(a.Kind)<<32 ^ uint64(uint32(a.Index)) ^ uint64(a.Number)<<60
	return m.drawOf(future, id^1<<63)
}

// shapeWeight is the number of own times that count as much as the shape of all jobs.
const shapeWeight = 8

// sample draws the time of an attempt. A job of which few times are known does not know its
// slow tasks yet, so some draws take the shape of the times of all jobs.
func (d *drawn) sample(u float64) float64 {
	if n := float64(len(d.seconds)); len(d.shape) >= 4*enoughOwn && n < maxSamples {
		// One draw selects and is then stretched to 0…1 again, so each attempt uses one number whatever the
		// branch.
		if part := shapeWeight / (n + shapeWeight); u < part {
			return max(minTask, float64(d.factor*middle(d.seconds)*quantile(d.shape, u/part)))
		} else {
			u = (u - part) / (1 - part)
		}
	}
	return max(minTask, float64(d.factor*quantile(d.seconds, u)))
}

// sampleAbove draws the time of an attempt that has lasted for some seconds already.
func (d *drawn) sampleAbove(u, least float64) float64 {
	below := rank(d.seconds, least/d.factor)
	if below >= 1 {
		// It has outlived all known ones. The longer it lasts, the longer it will.
		return float64(least * (1 + float64(0.6*u)))
	}
	// Slightly more than its age: an attempt that is still running ends after now.
	return max(float64(least*1.001), float64(d.factor*quantile(d.seconds, below+float64(u*(1-below)))))
}

func seconds(x float64) time.Duration {
	return time.Duration(min(x, 1e9) * float64(time.Second))
}
