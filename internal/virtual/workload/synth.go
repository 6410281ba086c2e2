package workload

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/slotwise/slotwise/sched/job"
	"github.com/slotwise/slotwise/sched/portable"
)

// Synth is a workload of Hadoop's synthetic generator. It is a Source: jobs are
// drawn from its classes, and submitted at times from its distributions.
type Synth struct {
	// Nodes and NodesPerRack describe the cluster that the file was made for; 0
	// means unknown.
	Nodes, NodesPerRack int

	mix     Mix
	seed    uint64
	arrival []synthTimes // by class of the mix
}

// synthTimes is a distribution of submission times. With the i-th weight a time
// is between the i-th and the next entry, evenly; with the last weight it is
// the last entry.
type synthTimes []synthTime

// synthTime is one entry of synthTimes.
type synthTime struct {
	Time   float64 `json:"time"` // seconds
	Weight float64 `json:"weight"`
}

// synthFile is the file.
type synthFile struct {
	Nodes        int   `json:"num_nodes"`
	NodesPerRack int   `json:"nodes_per_rack"`
	Jobs         *int  `json:"num_jobs"`
	Seed         int64 `json:"rand_seed"`
	Workloads    []struct {
		Name    string       `json:"workload_name"`
		Weight  float64      `json:"workload_weight"`
		Queue   string       `json:"queue_name"`
		Times   synthTimes   `json:"time_distribution"`
		Classes []synthClass `json:"job_classes"`
	} `json:"workloads"`
}

// synthClass is a class of jobs.
type synthClass struct {
	Name    string  `json:"class_name"`
	User    string  `json:"user_name"`
	Weight  float64 `json:"class_weight"`
	Maps    float64 `json:"mtasks_avg"`
	MapsSD  float64 `json:"mtasks_stddev"`
	Reds    float64 `json:"rtasks_avg"`
	RedsSD  float64 `json:"rtasks_stddev"`
	MTime   float64 `json:"mtime_avg"`
	MTimeSD float64 `json:"mtime_stddev"`
	RTime   float64 `json:"rtime_avg"`
	RTimeSD float64 `json:"rtime_stddev"`
	// Type and Tasks are the newer form, beside which the above is absent.
	Type  string      `json:"type"`
	Tasks []synthTask `json:"tasks"`
}

// synthTask describes the tasks of one kind.
type synthTask struct {
	Type  string      `json:"type"`
	Count synthSample `json:"count"`
	Time  synthSample `json:"time"`
}

// synthSample is a distribution: log-normal or normal (dist NORM) with a mean
// and a deviation, or one of a list.
type synthSample struct {
	Val      *float64      `json:"val"`
	Std      float64       `json:"std"`
	Dist     string        `json:"dist"`
	Discrete []json.Number `json:"discrete"`
	Weights  []float64     `json:"weights"`
}

// ReadSynth reads the JSON of Hadoop's synthetic generator (SYNTH). Counts of
// tasks and their times, in seconds, are log-normal with the given means and
// deviations, or as a newer file states; a job has at least one task. The
// duration of a whole job (dur_avg), memory, reservations and priorities are
// not used. Jobs that are not of maps and reduces are errors. The file's
// rand_seed and the seed of the run together select the random numbers. Errors
// name the file and the line where the object begins.
func ReadSynth(file string, in io.Reader) (*Synth, error) {
	// Only for its errors: a Synth draws its jobs later and finishes no trace.
	im := &importer{r: reader{file: file}}
	var s *Synth
	eachObject(im, in, func(line int, f *synthFile) bool {
		if s != nil {
			im.fail(line, "a second object; a file holds one workload")
			return false
		}
		s = f.synth(im, line)
		return true
	})
	if s == nil && len(im.r.errs) == 0 {
		im.r.errs = append(im.r.errs, fmt.Errorf("%s: is empty, it should hold a workload", file))
	}
	if err := im.r.err(); err != nil {
		return nil, err
	}
	return s, nil
}

// synth checks a file and converts it to a mix.
func (f *synthFile) synth(im *importer, line int) *Synth {
	s := &Synth{Nodes: f.Nodes, NodesPerRack: f.NodesPerRack, seed: uint64(f.Seed)}
	if f.Jobs == nil || *f.Jobs < 1 || *f.Jobs > MaxJobs {
		im.fail(line, "num_jobs is missing or not from 1 to %d", MaxJobs)
		return s
	}
	s.mix.Count = *f.Jobs
	for i := range f.Workloads {
		w := &f.Workloads[i]
		what := fmt.Sprintf("workloads[%d] %q", i, w.Name)
		if err := w.Times.check(); err != nil {
			im.fail(line, "%s: time_distribution: %s", what, err)
		}
		sum := 0.
		for _, c := range w.Classes {
			sum += c.Weight
		}
		// Negated, so that NaN is refused, too.
		if !(w.Weight > 0) || !(sum > 0) || !(w.Weight+sum < 1e9) {
			im.fail(line, "%s: workload_weight %g and the sum of class_weight %g must be above 0", what, w.Weight, sum)
			continue
		}
		for k := range w.Classes {
			// Hadoop's generator never draws it, and its other numbers may be missing.
			if w.Classes[k].Weight == 0 {
				continue
			}
			name := fmt.Sprintf("%s/%s", w.Name, cmp.Or(w.Classes[k].Name, fmt.Sprint(k+1)))
			// The weights of classes divide the weight of their workload.
			c, err := w.Classes[k].class(w.Queue, w.Weight/sum)
			if err != nil {
				im.fail(line, "class %q: %s", name, err)
				continue
			}
			c.Name = name
			s.mix.Classes = append(s.mix.Classes, c)
			s.arrival = append(s.arrival, w.Times)
		}
	}
	if len(s.mix.Classes) == 0 && len(im.r.errs) == 0 {
		im.fail(line, "no workloads with job_classes")
	}
	if err := s.mix.check(); err != nil && len(im.r.errs) == 0 {
		im.fail(line, "%s", err)
	}
	return s
}

// class converts a class.
func (c *synthClass) class(queue string, scale float64) (Class, error) {
	bell := func(mean, sd float64) Dist { return Dist{Shape: LogNormal, A: mean, B: sd} }
	out := Class{Share: c.Weight * scale, Request: job.Request{User: c.User, Pool: queue}}
	if c.Tasks != nil || c.Type != "" {
		return out, c.generic(&out)
	}
	out.Maps, out.MapTime = bell(c.Maps, c.MapsSD), bell(c.MTime, c.MTimeSD)
	if c.Reds > 0 {
		out.Reduces, out.ReduceTime = bell(c.Reds, c.RedsSD), bell(c.RTime, c.RTimeSD)
	}
	return out, nil
}

// generic converts the newer form of a class.
func (c *synthClass) generic(out *Class) error {
	if c.Type != "" && c.Type != "mapreduce" {
		return fmt.Errorf("type %q, must be mapreduce", c.Type)
	}
	for i := range c.Tasks {
		t := &c.Tasks[i]
		count, span := &out.Maps, &out.MapTime
		switch {
		case t.Type == "reduce":
			count, span = &out.Reduces, &out.ReduceTime
		case t.Type != "map":
			return fmt.Errorf("tasks[%d]: type %q, must be map or reduce", i, t.Type)
		}
		if count.Shape != Unset {
			return fmt.Errorf("tasks[%d]: the second of type %s", i, t.Type)
		}
		var err1, err2 error
		*count, err1 = t.Count.dist("count")
		*span, err2 = t.Time.dist("time")
		if err := errors.Join(err1, err2); err != nil {
			return fmt.Errorf("tasks[%d]: %w", i, err)
		}
	}
	if out.Maps.Shape == Unset {
		return errors.New("no tasks of type map")
	}
	return nil
}

// dist converts a distribution.
func (s *synthSample) dist(what string) (Dist, error) {
	switch {
	case s.Weights != nil:
		return Dist{}, fmt.Errorf("%s: weights are not read, a discrete value may be given several times instead", what)
	case s.Discrete != nil:
		d := Dist{Shape: Table}
		for _, n := range s.Discrete {
			v, err := n.Float64()
			if err != nil {
				return d, fmt.Errorf("%s: discrete: %q is not a number", what, n)
			}
			d.Values = append(d.Values, v)
		}
		return d, nil
	case s.Val == nil:
		return Dist{}, fmt.Errorf("%s: has neither val nor discrete", what)
	case s.Dist == "NORM":
		return Dist{Shape: Normal, A: *s.Val, B: s.Std}, nil
	case s.Dist != "" && s.Dist != "LOGNORM":
		return Dist{}, fmt.Errorf("%s: dist %q, must be LOGNORM or NORM", what, s.Dist)
	}
	return Dist{Shape: LogNormal, A: *s.Val, B: s.Std}, nil
}

// check returns an error in the entries.
func (t synthTimes) check() error {
	if len(t) == 0 {
		return fmt.Errorf("is missing")
	}
	sum, last := 0., 0.
	for i, p := range t {
		if _, err := seconds(p.Time); err != nil {
			return err
		}
		if p.Time < last || !(p.Weight >= 0) {
			return fmt.Errorf("entry %d: time %g after %g with weight %g; times must ascend and weights not be negative", i, p.Time, last, p.Weight)
		}
		last, sum = p.Time, sum+p.Weight
	}
	if !(sum > 0 && sum < 1e18) {
		return fmt.Errorf("weights add up to %g, must be above 0", sum)
	}
	return nil
}

// draw draws a time.
func (t synthTimes) draw(g *rand.Rand) time.Duration {
	sum := 0.
	for _, p := range t {
		sum += p.Weight
	}
	i, x := 0, g.Float64()*sum
	for ; i < len(t)-1 && x >= t[i].Weight; i++ {
		x -= t[i].Weight
	}
	at := t[i].Time
	if i+1 < len(t) {
		at += float64((t[i+1].Time - at) * g.Float64())
	}
	return time.Duration(at*1e3) * time.Millisecond
}

// Jobs draws the jobs and sorts them by time of submission.
func (s *Synth) Jobs(seed uint64) ([]Job, error) {
	// Both: a file's rand_seed alone would give the same jobs for every seed of a comparison.
	seed ^= portable.Mix(s.seed)
	jobs, err := s.mix.Jobs(seed)
	if err != nil {
		return nil, err
	}
	byName := make(map[string]synthTimes)
	for i := range s.mix.Classes {
		byName[s.mix.Classes[i].Name] = s.arrival[i]
	}
	for i := range jobs {
		// By position and not from one stream: a class with another distribution of times leaves the times of
		// the other jobs alone.
		jobs[i].Submit = byName[jobs[i].Class].draw(generator(seed, "synth arrival", i))
	}
	// The mix has no After, so no index has to follow the sort.
	slices.SortStableFunc(jobs, func(a, b Job) int { return cmp.Compare(a.Submit, b.Submit) })
	return jobs, nil
}
