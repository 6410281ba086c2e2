package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/portable"
)

// Jobs draws the jobs of the mix, or returns those listed. Each job has a
// generator of its own, so that a change of one class leaves the tasks of the
// others as they were.
func (m *Mix) Jobs(seed uint64) ([]Job, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	if len(m.Listed) > 0 {
		return append([]Job(nil), m.Listed...), nil
	}
	jobs := make([]Job, 0, max(m.Count, len(m.Classes)))
	total := 0
	place := make(map[[2]int]int) // of the k-th job of a class
	for i, pick := range m.picks(seed) {
		c, k := &m.Classes[pick[0]], pick[1]
		j, err := c.draw(generator(seed, "mix/"+c.Name, k), m.block())
		if err != nil {
			return nil, fmt.Errorf("class %q, job %d: %w", c.Name, k+1, err)
		}
		if total += len(j.Maps) + len(j.Reduces); total > MaxTotal {
			return nil, fmt.Errorf("more than %d tasks by job %d", MaxTotal, i+1)
		}
		j.Name = fmt.Sprintf("%s-%d", c.Name, k+1)
		j.Pool, j.User = turn(j.Pool, m.Pools, i), turn(j.User, m.Users, i)
		place[pick] = i
		if c.After > 0 {
			j.After = []int{place[[2]int{c.After - 1, k}]}
		}
		jobs = append(jobs, j)
	}
	m.Arrivals.set(jobs, generator(seed, "mix arrivals", 0))
	return jobs, nil
}

func (m *Mix) block() int64 {
	if m.Block == 0 {
		return DefaultBlock
	}
	return m.Block
}

// turn is what a class says, or the i-th of a list taken in turn.
func turn(own string, list []string, i int) string {
	if own == "" && len(list) > 0 {
		return list[i%len(list)]
	}
	return own
}

// picks returns, job by job, its class and which job of that class it is.
func (m *Mix) picks(seed uint64) [][2]int {
	var picks [][2]int
	g := generator(seed, "mix order", 0)
	if m.Count > 0 {
		sum := 0.
		for i := range m.Classes {
			sum += m.Classes[i].Share
		}
		drawn := make([]int, len(m.Classes))
		for range m.Count {
			i, x := 0, g.Float64()*sum
			for ; i < len(m.Classes)-1 && x >= m.Classes[i].Share; i++ {
				x -= m.Classes[i].Share
			}
			picks = append(picks, [2]int{i, drawn[i]})
			drawn[i]++
		}
		return picks
	}
	most := 0
	for i := range m.Classes {
		most = max(most, m.Classes[i].Count)
		if m.Order != InTurn {
			for k := range m.Classes[i].Count {
				picks = append(picks, [2]int{i, k})
			}
		}
	}
	switch m.Order {
	case InTurn:
		for k := range most {
			for i := range m.Classes {
				if k < m.Classes[i].Count {
					picks = append(picks, [2]int{i, k})
				}
			}
		}
	case Shuffled:
		g.Shuffle(len(picks), func(a, b int) { picks[a], picks[b] = picks[b], picks[a] })
	}
	return picks
}

// draw makes a job of the class, without its name and time.
func (c *Class) draw(g *rand.Rand, block int64) (Job, error) {
	j := Job{App: c.App, User: c.User, Pool: c.Pool, Class: c.Name, Priority: c.Priority, SlowStart: c.SlowStart,
		Profile: c.Hints}
	if c.Work.Shape != Unset {
		return j, c.drawWork(&j, g)
	}
	var err error
	if c.Input.Shape != Unset {
		j.Maps, err = split(int64(min(math.Round(c.Input.Draw(g)), maxBytes)), block)
	} else {
		j.Maps, err = count(job.Map, c.Maps.Draw(g))
		for i := range j.Maps {
			j.Maps[i].Input = block
		}
	}
	if err != nil {
		return j, err
	}
	if j.Reduces, err = count(job.Reduce, c.Reduces.Draw(g)); err != nil {
		return j, err
	}
	if len(j.Maps)+len(j.Reduces) == 0 && c.Maps.Shape != Unset {
		j.Maps = []Task{{Input: block}} // a draw that was rounded to nothing
	}
	if c.MapTime.Shape == Unset && c.Profile != nil {
		j.Profile = either(j.Profile, c.Profile.Hints)
		c.Profile.apply(&j)
		if c.ReduceTime.Shape == Unset {
			return j, nil
		}
	}
	for i := range j.Maps {
		if c.MapTime.Shape != Unset {
			j.Maps[i].Duration = milliseconds(c.MapTime.Draw(g))
		}
	}
	for i := range j.Reduces {
		j.Reduces[i].Duration = milliseconds(c.ReduceTime.Draw(g))
	}
	return j, nil
}

// drawWork makes a job of a drawn sum of durations.
func (c *Class) drawWork(j *Job, g *rand.Rand) error {
	work := c.Work.Draw(g)
	for k, part := range [job.Kinds]float64{work * (1 - c.ReduceShare), work * c.ReduceShare} {
		n := math.Round(part / c.TaskTime)
		if k == int(job.Map) && c.ReduceShare < 1 {
			n = max(1, n) // the job is what its maps read
		} else if part > 0 && len(j.Maps) == 0 {
			n = max(1, n)
		}
		tasks, err := count(job.Kind(k), n)
		if err != nil {
			return err
		}
		// A job too small for a reduce has all its work in its map.
		if k == int(job.Reduce) && n == 0 && part > 0 {
			j.Maps[0].Duration += milliseconds(part)
		}
		for i := range tasks {
			tasks[i].Duration = milliseconds(part / n)
		}
		if k == int(job.Map) {
			j.Maps = tasks
		} else {
			j.Reduces = tasks
		}
	}
	return nil
}

// apply gives the tasks of a job the costs of a profile. The maps' inputs are
// known; a reduce gets an equal part of their output.
func (p *Profile) apply(j *Job) {
	var out int64
	j.Plan = p.PlanTime()
	for i := range j.Maps {
		j.Maps[i] = p.MapTask(j.Maps[i].Input)
		out += j.Maps[i].Output
	}
	for i := range j.Reduces {
		j.Reduces[i] = p.ReduceTask(share(out, i, len(j.Reduces)), len(j.Maps))
	}
}

// either is the first hints unless they say nothing.
func either(a, b [job.Kinds]job.Profile) [job.Kinds]job.Profile {
	if a == ([job.Kinds]job.Profile{}) {
		return b
	}
	return a
}

// count makes so many tasks, to the nearest whole number.
func count(kind job.Kind, n float64) ([]Task, error) {
	n = math.Round(n)
	if err := checkTasks(kind, n); err != nil {
		return nil, err
	}
	return make([]Task, int(n)), nil
}

// milliseconds rounds a drawn time, in seconds, to at least 1 ms.
func milliseconds(s float64) time.Duration {
	return time.Duration(max(1, min(math.Round(s*1e3), float64(maxTime/time.Millisecond)))) * time.Millisecond
}

// set gives the jobs their times of submission, in their order.
func (a *Arrivals) set(jobs []Job, g *rand.Rand) {
	gap := a.Gap.Seconds()
	if a.Kind == AtLoad && len(jobs) > 0 {
		work := 0.
		for i := range jobs {
			work += jobs[i].Work().Seconds()
		}
		gap = work / float64(len(jobs)) / float64(a.Load*float64(a.Slots))
	}
	at := a.Start
	for i := range jobs {
		switch a.Kind {
		case Every:
			at = a.Start + time.Duration(i)*a.Gap
		case Poisson, AtLoad:
			if i > 0 {
				at += time.Duration(math.Round(gap*portable.Exponential(g)*1e3)) * time.Millisecond
			}
		case AtTimes:
			at = a.Times[i]
		}
		jobs[i].Submit = min(at, maxTime)
	}
}

// Work is the time that the job's tasks take together on cores of speed 1: their
// durations, or the CPU time of those that have stages.
func (j *Job) Work() time.Duration {
	var sum time.Duration
	for _, tasks := range [job.Kinds][]Task{j.Maps, j.Reduces} {
		for i := range tasks {
			if t := &tasks[i]; t.Duration > 0 {
				sum += t.Duration
			} else {
				sum += t.CPU
			}
		}
	}
	return sum
}
