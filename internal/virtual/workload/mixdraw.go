package workload

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/slotwise/slotwise/sched/job"
	"github.com/slotwise/slotwise/sched/portable"
)

// Jobs draws the jobs of the mix for the simulator. It fails if a class leaves
// the number of its tasks or their costs open.
func (m *Mix) Jobs(seed uint64) ([]Job, error) {
	for i := range m.Classes {
		if err := m.Classes[i].checkSimulated(); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Classes[i].Describe(), err)
		}
	}
	drawn, err := m.Draw(seed)
	if err != nil {
		return nil, err
	}
	jobs := make([]Job, len(drawn))
	for i := range drawn {
		jobs[i] = drawn[i].Job
		// A job without tasks would never end in the simulator, which ends a job with its last task.
		if len(jobs[i].Maps)+len(jobs[i].Reduces) == 0 {
			return nil, fmt.Errorf("%s: has no tasks: its input is empty", drawn[i].Class.Describe())
		}
	}
	return jobs, nil
}

// Drawn is one job of a mix, and the class it was drawn from.
type Drawn struct {
	Job
	Class *Class
	// Number counts the jobs of the class, from 0.
	Number int
}

// Draw draws the jobs of the mix. Where a class leaves the number of tasks to
// its program, they are missing; where it leaves their costs to a profile and
// has none, they have only sizes. Each job has a separate random generator, so
// that a change of one class does not change the tasks of others.
func (m *Mix) Draw(seed uint64) ([]Drawn, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	drawn := make([]Drawn, 0, max(m.Count, len(m.Classes)))
	total := 0
	index := make(map[[2]int]int) // of the k-th job of a class
	for i, pick := range m.picks(seed) {
		c, k := &m.Classes[pick[0]], pick[1]
		// The name and not the position: a class that is inserted before leaves the draws of this one alone.
		// The number within the class and not the position in the sequence: other sequences and arrivals
		// submit the very same jobs at other times.
		use := "mix/" + c.Name
		if m.Listed { // whose names need not differ
			use = fmt.Sprintf("mix/job/%d", pick[0])
		}
		j, err := c.draw(generator(seed, use, k), m.block())
		if err != nil {
			return nil, fmt.Errorf("%s, job %d: %w", c.Describe(), k+1, err)
		}
		if total += len(j.Maps) + len(j.Reduces); total > cmp.Or(m.Most, MaxTotal) {
			return nil, fmt.Errorf("more than %d tasks by job %d", cmp.Or(m.Most, MaxTotal), i+1)
		}
		j.Name, j.Class = fmt.Sprintf("%s-%d", c.Name, k+1), c.Name
		if m.Listed {
			j.Name, j.Class = c.Name, c.Label
			j.Submit, j.Plan = repeated(c.Submit, c.Every, k), cmp.Or(c.Plan, j.Plan)
		}
		j.Pool, j.User = turn(j.Pool, m.Pools, i), turn(j.User, m.Users, i)
		index[pick] = i
		// Without the bound a list entry with repeat could not follow a single job.
		for _, p := range c.After {
			j.After = append(j.After, index[[2]int{p, min(k, m.Classes[p].Count-1)}])
		}
		drawn = append(drawn, Drawn{j, c, k})
	}
	// After all draws: arrivals at a load depend on the work of all jobs.
	if !m.Listed {
		m.Arrivals.set(drawn, generator(seed, "mix arrivals", 0))
	}
	return drawn, nil
}

// block returns the bytes of input of one map.
func (m *Mix) block() int64 {
	if m.Block == 0 {
		return DefaultBlock
	}
	return m.Block
}

// turn returns own or, if it is empty, the i-th of a list that is used in turn.
func turn(own string, list []string, i int) string {
	if own == "" && len(list) > 0 {
		return list[i%len(list)]
	}
	return own
}

// picks returns, for each job in order, its class and its number within the
// class.
func (m *Mix) picks(seed uint64) [][2]int {
	var picks [][2]int
	// A separate generator: the sequence does not depend on how many values the jobs' sizes took.
	g := generator(seed, "mix order", 0)
	if m.Count > 0 {
		// Shares are weights of any sum.
		sum := 0.
		for i := range m.Classes {
			sum += m.Classes[i].Share
		}
		drawn := make([]int, len(m.Classes))
		for range m.Count {
			i, x := 0, g.Float64()*sum
			// The last class takes what rounding leaves beyond the sum.
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
		if m.Sequence != InTurn {
			for k := range m.Classes[i].Count {
				picks = append(picks, [2]int{i, k})
			}
		}
	}
	switch m.Sequence {
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

// draw makes one job of the class, without its name and time of submission.
func (c *Class) draw(g *rand.Rand, block int64) (Job, error) {
	j := Job{App: c.App, Request: c.Request, Resident: c.Resident}
	if c.Work.Shape != Unset {
		return j, c.drawWork(&j, g)
	}
	if err := c.drawTasks(&j, g, block); err != nil {
		return j, err
	}
	if c.MapTime.Shape == Unset && c.Profile != nil && c.takesCosts() {
		j.Hints = either(j.Hints, c.Profile.Hints)
		c.Profile.apply(&j)
		// A reduce-time beside a profile replaces the profile's costs of reduces below.
		if c.ReduceTime.Shape == Unset {
			return j, nil
		}
	}
	if c.MapTime.Shape != Unset {
		for i := range j.Maps {
			j.Maps[i].Duration = milliseconds(c.MapTime.Draw(g))
		}
	}
	if c.ReduceTime.Shape != Unset {
		for i := range j.Reduces {
			j.Reduces[i].Duration = milliseconds(c.ReduceTime.Draw(g))
		}
	}
	return j, nil
}

// drawTasks draws the number of tasks and the input of each map.
func (c *Class) drawTasks(j *Job, g *rand.Rand, block int64) (err error) {
	switch {
	case c.MapTasks != nil:
		j.Maps = c.MapTasks
		// Classes draw several jobs, and callers draw a source twice. Durations or costs written into the
		// shared list would all belong to the last job.
		if c.planned || c.MapTime.Shape != Unset { // tasks of their own, to be changed
			j.Maps = slices.Clone(c.MapTasks)
		}
	case c.Input.Shape != Unset:
		j.Maps, err = split(int64(min(math.Round(c.Input.Draw(g)), maxBytes)), block)
	default:
		j.Maps, err = count(job.Map, c.Maps.Draw(g))
		for i := range j.Maps {
			// A map of a counted job reads a whole block, for the worlds that charge reads from other nodes.
			j.Maps[i].Input = block
		}
	}
	if err != nil {
		return err
	}
	if c.ReduceTasks != nil {
		j.Reduces = c.ReduceTasks
		if c.ReduceTime.Shape != Unset {
			j.Reduces = slices.Clone(c.ReduceTasks)
		}
	} else if j.Reduces, err = count(job.Reduce, c.Reduces.Draw(g)); err != nil {
		return err
	}
	if len(j.Maps)+len(j.Reduces) == 0 && c.Maps.Shape != Unset {
		j.Maps = []Task{{Input: block}} // the draw was rounded to nothing
	}
	return nil
}

// drawWork draws the sum of a job's durations and divides it into tasks.
func (c *Class) drawWork(j *Job, g *rand.Rand) error {
	work := c.Work.Draw(g)
	for k, part := range [job.Kinds]float64{work * (1 - c.ReduceShare), work * c.ReduceShare} {
		n := math.Round(part / c.TaskTime)
		if k == int(job.Map) && c.ReduceShare < 1 {
			n = max(1, n) // every job has a map, to read its input
		} else if part > 0 && len(j.Maps) == 0 {
			n = max(1, n)
		}
		tasks, err := count(job.Kind(k), n)
		if err != nil {
			return err
		}
		// A job too small for a reduce puts all its work into its map.
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

// apply gives the tasks of a job the costs of a profile. The inputs of the maps
// are known; the reduces share the maps' output equally.
func (p *Profile) apply(j *Job) {
	var out int64
	j.Plan = p.PlanTime()
	for i := range j.Maps {
		// MapTask makes a new task, but the hosts of a planned map come from real splits.
		hosts := j.Maps[i].Hosts
		j.Maps[i] = p.MapTask(j.Maps[i].Input)
		j.Maps[i].Hosts = hosts
		out += j.Maps[i].Output
	}
	for i := range j.Reduces {
		j.Reduces[i] = p.ReduceTask(share(out, i, len(j.Reduces)), len(j.Maps))
	}
}

// either returns a, or b if a rates nothing.
func either(a, b [job.Kinds]job.Ratings) [job.Kinds]job.Ratings {
	if a == ([job.Kinds]job.Ratings{}) {
		return b
	}
	return a
}

// count makes n tasks, rounded to a whole number.
func count(kind job.Kind, n float64) ([]Task, error) {
	n = math.Round(n)
	if err := checkTasks(kind, n); err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, nil
	}
	return make([]Task, int(n)), nil
}

// milliseconds rounds a drawn time, in seconds, to at least 1 ms.
func milliseconds(s float64) time.Duration {
	// Hadoop records whole ms, and pack stores them in few bytes. 0 would select the stages.
	return time.Duration(max(1, min(math.Round(s*1e3), float64(maxTime/time.Millisecond)))) * time.Millisecond
}

// set gives the jobs their times of submission, in order.
func (a *Arrivals) set(jobs []Drawn, g *rand.Rand) {
	gap := a.Gap.Seconds()
	if a.Kind == AtLoad && len(jobs) > 0 {
		work := 0.
		for i := range jobs {
			work += jobs[i].Work().Seconds()
		}
		// The mean of these very jobs and not of the distribution: with Tyrex's squared CV of 20 the work of
		// 300 jobs differs from its mean by a quarter, and the load would, too.
		gap = work / float64(len(jobs)) / float64(a.Load*float64(a.Slots))
	}
	at := a.Start
	for i := range jobs {
		switch a.Kind {
		case Every:
			at = repeated(a.Start, a.Gap, i)
		case Poisson, AtLoad:
			// The first job comes at Start, so that runs of different seeds begin at the same time.
			if i > 0 {
				ms := min(math.Round(gap*portable.Exponential(g)*1e3), float64(maxTime/time.Millisecond))
				at = min(maxTime, at+time.Duration(ms)*time.Millisecond)
			}
		case AtTimes:
			at = a.Times[i]
		}
		jobs[i].Submit = min(at, maxTime)
	}
}

// repeated returns start plus n times gap, at most maxTime. The product alone may be beyond what a
// Duration can hold: a mix may repeat a job four million times, and a gap may be ten years.
func repeated(start, gap time.Duration, n int) time.Duration {
	if gap > 0 && time.Duration(n) > (maxTime-start)/gap {
		return maxTime
	}
	return start + time.Duration(n)*gap
}

// Work returns the time that the job's tasks take together on cores of speed 1; see
// WorkOf.
func (j *Job) Work() time.Duration {
	w := j.WorkOf()
	return w[job.Map] + w[job.Reduce]
}

// WorkOf returns the time that the tasks of each kind take together on cores of speed 1:
// the sum of their durations, or of the CPU time of tasks without one.
func (j *Job) WorkOf() (sum [job.Kinds]time.Duration) {
	for k, tasks := range j.Tasks() {
		for i := range tasks {
			sum[k] += cmp.Or(tasks[i].Duration, tasks[i].CPU)
		}
	}
	return sum
}
