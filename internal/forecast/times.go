package forecast

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/portable"
)

// A model holds where the times of each job's tasks come from.
type model struct {
	seed uint64
	// shape holds, sorted, the times of tasks of all jobs divided by the median of their job.
	shape [job.Kinds][]float64
	nodes nodeFactors
	jobs  map[job.ID]*[job.Kinds]source
}

// source is a set of runs, one of which a future draws, and how far a job may differ from
// that run.
type source struct {
	runs   []run
	spread float64 // standard deviation of the logarithm of the job's factor
	basis  basis
	count  int // finished tasks or runs, for people
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
	enoughOwn = 3 // finished tasks from which on a job's own times are used
	maxRuns   = 5 // latest runs of the same name
	maxDonors = 60
	// nameSpread and clusterSpread are the spreads of a job's factor, beside the
	// differences among the runs.
	nameSpread, clusterSpread = 0.12, 0.3
)

// newModel finds the source of each job of a state.
func newModel(s *State, seed uint64) *model {
	m := &model{seed: seed, jobs: make(map[job.ID]*[job.Kinds]source, len(s.Jobs))}
	donors := s.donors()
	m.nodes = newNodeFactors(donors)
	projected := projectedMaps(s, m.nodes)
	for k := range job.Kind(job.Kinds) {
		m.shape[k] = shapeOf(donors, k, m.nodes)
	}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		src := &[job.Kinds]source{}
		for k := range job.Kind(job.Kinds) {
			src[k] = sourceOf(j, k, donors, m.nodes)
			if more := projected[j.ID]; k == job.Map && src[k].basis == fromOwn && len(more) > 0 {
				src[k] = withProjected(src[k], more)
			}
		}
		m.jobs[j.ID] = src
	}
	return m
}

// donor is a job whose times other jobs may use.
type donor struct {
	id     job.ID
	family string
	times  *Times
}

// donors lists ended jobs, then live ones, with the latest last.
func (s *State) donors() []donor {
	var list []donor
	for i := range s.Past {
		list = append(list, donor{s.Past[i].ID, family(s.Past[i].Name), &s.Past[i].Times})
	}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if len(j.Times.Seconds[job.Map])+len(j.Times.Seconds[job.Reduce]) > 0 {
			list = append(list, donor{j.ID, family(j.Spec.Name), &j.Times})
		}
	}
	return list
}

// family returns a job's name without the number or date at its end, so that nightly-0412
// and nightly-0413 are runs of one family.
func family(name string) string {
	if f := strings.TrimRight(name, "0123456789-_.:/ T"); f != "" {
		return f
	}
	return name
}

// shapeOf returns how the times of tasks differ from the median of their job.
func shapeOf(donors []donor, k job.Kind, nodes nodeFactors) []float64 {
	var all []float64
	for _, d := range donors[max(0, len(donors)-maxDonors):] {
		if v := nodes.even(d.times, k); len(v) >= enoughOwn {
			center := max(minTask, middle(v))
			for _, x := range v {
				all = append(all, x/center)
			}
		}
	}
	slices.Sort(all)
	return all
}

// sourceOf finds the source of a job's tasks of a kind.
func sourceOf(j *Job, k job.Kind, donors []donor, nodes nodeFactors) source {
	mine := nodes.even(&j.Times, k)
	if len(mine) >= enoughOwn {
		return ownSource(mine)
	}
	var named, all []run
	f := family(j.Spec.Name)
	for i := len(donors) - 1; i >= 0 && len(named) < maxRuns; i-- {
		d := &donors[i]
		if len(d.times.Seconds[k]) == 0 || d.id == j.ID {
			continue
		}
		r := run{nodes.even(d.times, k), bytesFactor(k, j, d.times)}
		if d.family == f {
			named = append(named, r)
		} else if len(all) < maxDonors {
			all = append(all, r)
		}
	}
	s := source{runs: all, spread: clusterSpread, basis: fromCluster, count: len(all)}
	if len(named) > 0 {
		s = source{runs: named, spread: nameSpread, basis: fromName, count: len(named)}
	}
	switch {
	case len(mine) > 0: // few, but they tell the scale
		return ownScale(mine, s)
	case len(s.runs) == 0:
		return source{}
	}
	return s
}

func ownSource(mine []float64) source {
	sorted := slices.Sorted(slices.Values(mine))
	spread := deviation(sorted) / math.Sqrt(float64(len(sorted)))
	return source{runs: []run{{sorted, 1}}, spread: min(0.5, max(0.03, spread)), basis: fromOwn, count: len(sorted)}
}

// ownScale gives the runs of a source the median of the job's own few times.
func ownScale(mine []float64, s source) source {
	center := middle(slices.Sorted(slices.Values(mine)))
	if len(s.runs) == 0 {
		return source{runs: []run{{mine, 1}}, spread: 0.4, basis: fromOwn, count: len(mine)}
	}
	for i := range s.runs {
		s.runs[i].factor = center / middle(s.runs[i].seconds)
	}
	s.spread, s.basis, s.count = 0.2, fromOwn, len(mine)
	return s
}

// bytesFactor scales the maps of another job to the size of this one's splits.
func bytesFactor(k job.Kind, j *Job, d *Times) float64 {
	if k != job.Map || j.Times.SplitBytes <= 0 || d.SplitBytes <= 0 {
		return 1
	}
	return min(10, max(0.1, 0.1+float64(0.9*j.Times.SplitBytes/d.SplitBytes)))
}

// projectedMaps returns, by job, the times that running maps will take at the speed that
// they have had. Without them only the shortest maps of a young job would count.
func projectedMaps(s *State, nodes nodeFactors) map[job.ID][]float64 {
	list := map[job.ID][]float64{}
	at := s.factors(nodes)
	for i := range s.Running {
		a := &s.Running[i]
		if a.ID.Kind != job.Map || a.Progress < 0.2 || len(list[a.ID.Job]) >= maxSamples {
			continue
		}
		if j := s.job(a.ID.Job); j != nil {
			took := (a.ProgressAt - a.Started).Seconds() / a.Progress
			took /= sizeFactor(j.splitBytes(a.ID.Index), j.Times.SplitBytes) * at[a.Node]
			list[a.ID.Job] = append(list[a.ID.Job], max(minTask, took))
		}
	}
	return list
}

func withProjected(s source, more []float64) source {
	all := slices.Concat(s.runs[0].seconds, more)
	count := s.count
	s = ownSource(all)
	s.count = count
	return s
}

func (j *Job) splitBytes(i int32) float64 {
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

// deviation returns the standard deviation of values relative to their mean.
func deviation(v []float64) float64 {
	sum, square := 0., 0.
	for _, x := range v {
		sum += x
	}
	mean := sum / float64(len(v))
	for _, x := range v {
		square += float64((x - mean) * (x - mean))
	}
	if mean == 0 {
		return 0
	}
	return math.Sqrt(square/float64(len(v))) / mean
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
	return max(0, v[i]+float64((at-float64(i))*(v[i+1]-v[i])))
}

// rank is the inverse of quantile: the share of values below x, from 0 to 1.
func rank(v []float64, x float64) float64 {
	i, _ := slices.BinarySearch(v, x)
	return float64(i) / float64(len(v))
}

// draw is a deterministic source of numbers for one name.
type draw uint64

// mix spreads the bits of a number (the finaliser of SplitMix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// drawOf returns the numbers of some name in a future.
func (m *model) drawOf(future int, id uint64) draw {
	return draw(mix(mix(m.seed+uint64(future)) ^ id))
}

// uniform returns the next number between 0 and 1, without both.
func (d *draw) uniform() float64 {
	*d = draw(mix(uint64(*d)))
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
	return drawn{r.seconds, r.factor * portable.Exp(float64(s.spread*d.normal())), m.shape[k]}, true
}

// attemptDraw returns the numbers of an attempt in a future.
func (m *model) attemptDraw(future int, a job.AttemptID) draw {
	id := uint64(a.Job)<<33 ^ uint64(a.Kind)<<32 ^ uint64(uint32(a.Index)) ^ uint64(a.Try)<<60
	return m.drawOf(future, id^1<<63)
}

// shapeWeight is the number of own times that count as much as the shape of all jobs.
const shapeWeight = 8

// sample draws the time of an attempt. A job of which few times are known does not know its
// slow tasks yet, so some draws take the shape of the times of all jobs.
func (d *drawn) sample(u float64) float64 {
	if n := float64(len(d.seconds)); len(d.shape) >= 4*enoughOwn && n < maxSamples {
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
	return max(float64(least*1.001), float64(d.factor*quantile(d.seconds, below+float64(u*(1-below)))))
}

func seconds(x float64) time.Duration {
	return time.Duration(min(x, 1e9) * float64(time.Second))
}
