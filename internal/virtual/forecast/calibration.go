package forecast

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/sched/job"
	"github.com/slotwise/slotwise/sched/portable"
)

// Calibration corrects forecasts by the errors of earlier ones on the same cluster. For each
// answer about a job that has ended since, it keeps the error in units of the answer's own
// spread: the logarithm of the true time that was left divided by the predicted one, over the
// standard deviation of that logarithm among the futures. A new answer's interval goes from the
// 10th to the 90th percentile of the last jobs' errors, in units of its spread, and its median moves by
// their median. Only errors of answers at a similar part of a job's life count: a young job's answer is
// too early when other jobs come, and an old one's is not, so errors of both together would move each
// the wrong way and widen all intervals.
// Until jobs have ended, errors are assumed to be normal and wider than the futures say,
// because in the futures no node and no attempt fails.
//
// The zero value is ready. It must not be used by several goroutines at once.
type Calibration struct {
	open   map[job.ID]*opened
	errors []jobErrors // of the last jobs, the oldest first
	sorted []weighted  // of all, with the assumed ones; nil when it is out of date
}

// opened holds answers about a job that has not ended.
type opened struct {
	answers []outlook
	seen    bool // in the State that Observe reads
}

// outlook is an answer in the units in which errors are measured.
type outlook struct {
	made time.Duration
	left float64 // log of the seconds that were left, by the answer's median
	unit float64 // standard deviation of that logarithm
	part float64 // of the job's life that was over, by the answer's median
}

// jobErrors holds the errors of the answers about a job, and at which part of its life each was given.
type jobErrors []partError

type partError struct{ x, part float64 }

// weighted is an error with the index of its job in Calibration.errors; -1 for an assumed one.
type weighted struct {
	partError
	job int
}

const (
	errorJobs   = 80  // jobs whose errors count
	jobAnswers  = 6   // answers about a job whose errors count
	answerDrops = 0.7 // an answer is kept if it leaves at most that part of the time of the last one
	assumedJobs = 8   // jobs as which the assumed errors count
	openJobs    = 10_000
	leastUnit   = 0.02
	mostLog     = 2.3 // of the ratio of a time in an interval to its median
)

// Observe notes which of the jobs have ended.
func (c *Calibration) Observe(s *State) {
	for i := range s.Past {
		p := &s.Past[i]
		o := c.open[p.ID]
		if o == nil {
			continue
		}
		var list jobErrors
		for _, a := range o.answers {
			// The job's end includes the publishing of its output, as the answer does.
			if left := (p.Ended - a.made).Seconds(); left > 0 {
				list = append(list, partError{(portable.Log(max(minTask, left)) - a.left) / a.unit, a.part})
			}
		}
		delete(c.open, p.ID)
		if len(list) > 0 {
			c.errors, c.sorted = append(c.errors, list), nil
			// Old errors go: the cluster, its jobs and this package change.
			c.errors = c.errors[max(0, len(c.errors)-errorJobs):]
		}
	}
	for i := range s.Jobs {
		c.see(s.Jobs[i].ID)
	}
	for _, id := range s.Finishing {
		c.see(id)
	}
	//house:sorted each entry is kept or deleted by itself
	for id, o := range c.open { // a job that failed or was killed is no longer in the state
		if !o.seen {
			delete(c.open, id)
		}
		o.seen = false
	}
}

func (c *Calibration) see(id job.ID) {
	if o := c.open[id]; o != nil {
		o.seen = true
	}
}

// Note keeps answers of a forecast that Apply has not changed, to compare them with the
// truth.
func (c *Calibration) Note(f *Forecast) {
	if c.open == nil {
		c.open = map[job.ID]*opened{}
	}
	for i := range f.Jobs {
		j := &f.Jobs[i]
		a, ok := j.outlook(f.Made)
		if !ok {
			continue
		}
		o := c.open[j.ID]
		if o == nil {
			if len(c.open) >= openJobs {
				continue
			}
			o = &opened{}
			c.open[j.ID] = o
		}
		// Answers that a user's page asks for each second would all have the same error. Kept ones are spread
		// over the job's life.
		if n := len(o.answers); n == 0 || n < jobAnswers && portable.Exp(a.left-o.answers[n-1].left) <= answerDrops {
			o.answers = append(o.answers, a)
		}
	}
}

// apart is the distance of the 10th and the 90th percentile of a normal distribution, in standard
// deviations.
const apart = 2.563

// outlook returns an answer in the units of errors. ok is false if there is no such answer.
func (j *JobForecast) outlook(made time.Duration) (a outlook, ok bool) {
	left := (j.End - made).Seconds()
	if !j.Known || left < minTask {
		return a, false
	}
	ratio := func(t time.Duration) float64 {
		// An interval that begins next to now has a ratio near 0, whose logarithm would make its unit
		// enormous.
		return max(-mostLog, min(mostLog, portable.Log(max(minTask, (t-made).Seconds())/left)))
	}
	return outlook{made, portable.Log(left), max(leastUnit, (ratio(j.Late)-ratio(j.Early))/apart), max(0, (made-j.Submitted).Seconds()) / (j.End - j.Submitted).Seconds()}, true
}

// Apply replaces the ends and intervals of a forecast by corrected ones.
func (c *Calibration) Apply(f *Forecast) {
	if n := len(c.errors); n > 0 {
		f.Assumptions = append(f.Assumptions, "answers err as those about the last "+terminal.Plural(n, "ended job"))
	}
	for i := range f.Jobs {
		j := &f.Jobs[i]
		a, ok := j.outlook(f.Made)
		if !ok {
			continue
		}
		at := c.quantiles(a.part, 0.1, 0.5, 0.9)
		end := func(x float64) time.Duration { return f.Made + seconds(portable.Exp(a.left+float64(x*a.unit))) }
		// The start moves with the end. Else a job could end before it starts.
		if j.Start > f.Made {
			j.Start = f.Made + time.Duration(float64(j.Start-f.Made)*portable.Exp(float64(at[1]*a.unit)))
		}
		j.Early, j.End, j.Late = end(at[0]), end(at[1]), end(at[2])
	}
}

// nearPart is the difference of the parts of two jobs' lives from which on an error of one says nothing
// about the other.
const nearPart = 0.25

// quantiles returns quantiles, in ascending order, of the errors of answers near a part of a job's life.
// The nearer, the more an answer counts, and all answers about a job count as one at most.
func (c *Calibration) quantiles(part float64, p ...float64) []float64 {
	if c.sorted == nil {
		c.sorted = c.all()
	}
	// A triangle: from full weight at the same part of a job's life to none at nearPart.
	near := func(e partError) float64 { return max(0, 1-math.Abs(e.part-part)/nearPart) }
	share := make([]float64, len(c.errors))
	for i, answers := range c.errors {
		sum := 0.
		for _, e := range answers {
			sum += near(e)
		}
		// A job with six answers near this part must not count six times: its errors have one cause.
		share[i] = 1 / max(1, sum)
	}
	weight := func(e *weighted) float64 {
		// All assumed errors together weigh as assumedJobs jobs, at every part of a life.
		if e.job < 0 {
			return assumedJobs / float64(len(normal))
		}
		return float64(near(e.partError) * share[e.job])
	}
	sum := 0.
	for i := range c.sorted {
		sum += weight(&c.sorted[i])
	}
	var list []float64
	below := 0.
	for i := range c.sorted {
		below += weight(&c.sorted[i])
		// The last error takes what rounding leaves, so there are always as many quantiles as asked.
		for len(list) < len(p) && (below >= float64(p[len(list)]*sum) || i == len(c.sorted)-1) {
			list = append(list, c.sorted[i].x)
		}
	}
	return list
}

// all returns the errors of all jobs and the assumed ones, sorted.
func (c *Calibration) all() []weighted {
	var list []weighted
	for i, answers := range c.errors {
		for _, e := range answers {
			list = append(list, weighted{e, i})
		}
	}
	for _, x := range normal {
		list = append(list, weighted{partError{x: x * assumedWidth}, -1})
	}
	slices.SortFunc(list, func(a, b weighted) int { return cmp.Compare(a.x, b.x) })
	return list
}

// normal holds the 1st, 3rd, ... 19th of 20 parts of the standard normal distribution.
var normal = [...]float64{-1.645, -1.036, -0.674, -0.385, -0.126, 0.126, 0.385, 0.674, 1.036, 1.645}

// assumedWidth is the assumed standard deviation of errors, in units of the spread of the futures.
const assumedWidth = 1.35
