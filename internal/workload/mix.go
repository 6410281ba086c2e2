package workload

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/job"
)

// Mix is a job mix: either classes of jobs that are drawn, or jobs listed one
// by one. It is a Source.
type Mix struct {
	// Count is how many jobs are drawn from the classes by their shares; 0 is
	// that the classes have counts of their own.
	Count int
	Order Order
	// Block is how many bytes of input make a map; 0 is DefaultBlock.
	Block int64
	// Pools and Users are given to the jobs in turn where classes name none:
	// the i-th job gets the (i mod n)-th.
	Pools, Users []string
	Arrivals     Arrivals
	Classes      []Class
	// Listed are jobs with their times; there are no classes then.
	Listed []Job
}

// DefaultBlock is the size of HDFS's blocks in the time of the papers: 64 MiB.
const DefaultBlock = 64 << 20

// Order is that in which the jobs of a mix with counts come.
type Order uint8

// The orders.
const (
	// InOrder is class after class, as listed.
	InOrder Order = iota
	// InTurn is one of each class, then the next of each.
	InTurn
	// Shuffled is at random.
	Shuffled
)

// Class is a sort of jobs.
type Class struct {
	Name string
	// Share is the class's weight among those drawn, Count its jobs where the
	// mix has no Count. One of the two is set.
	Share float64
	Count int

	App, User, Pool string
	Priority        job.Priority
	// SlowStart is as in Job.
	SlowStart float64
	Hints     [job.Kinds]job.Profile

	// Maps is how many maps a job has, unless Input is how many bytes it reads.
	Maps, Input Dist
	Reduces     Dist
	// MapTime and ReduceTime are drawn for each task, in seconds. Without them
	// tasks go through the stages of Profile.
	MapTime, ReduceTime Dist
	Profile             *Profile
	// Work, if set, is the sum of all durations of a job, in seconds, and
	// replaces Maps, Reduces and their times: the job has as many tasks as it
	// takes for them to last about TaskTime seconds each, ReduceShare of the
	// work in reduces.
	Work                  Dist
	TaskTime, ReduceShare float64

	// After is the index plus one of an earlier class: the k-th job of this
	// class waits for the end of the k-th of that. 0 is none.
	After int
}

// Arrivals is when jobs come. The zero value is all at once.
type Arrivals struct {
	Kind ArrivalKind
	// Start is when the first job comes, or when the Poisson process begins.
	Start time.Duration
	// Gap is that of Every, and the mean one of Poisson.
	Gap time.Duration
	// Load is the fraction of Slots that the jobs keep busy on average, for
	// AtLoad: the mean gap is the mean work of these very jobs over Load · Slots.
	Load  float64
	Slots int
	// Times are those of AtTimes, one for each job.
	Times []time.Duration
}

// ArrivalKind is a law of arrivals.
type ArrivalKind uint8

// The laws.
const (
	AtOnce ArrivalKind = iota
	Every
	Poisson
	AtLoad
	AtTimes
)

// check says all that is wrong with a mix, naming classes.
func (m *Mix) check() error {
	var errs []error
	bad := func(cond bool, format string, args ...any) {
		if cond {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(len(m.Classes) > 0 && len(m.Listed) > 0, "classes and listed jobs, only one of them makes sense")
	bad(m.Count < 0 || m.Count > MaxJobs, "%d jobs, must be from 0 to %d", m.Count, MaxJobs)
	bad(m.Count > 0 && m.Order != InOrder, "an order, which means something only where classes have counts")
	bad(m.Block < 0, "block of %d bytes", m.Block)
	total := 0
	for i := range m.Classes {
		c := &m.Classes[i]
		if err := c.check(m, i); err != nil {
			errs = append(errs, fmt.Errorf("class %q: %w", c.Name, err))
		}
		bad(slices.ContainsFunc(m.Classes[:i], func(d Class) bool { return d.Name == c.Name }), "a second class %q", c.Name)
		total = min(total+max(0, c.Count), MaxJobs+1)
	}
	bad(total > MaxJobs, "more than %d jobs", MaxJobs)
	if m.Count > 0 {
		total = m.Count
	}
	a := &m.Arrivals
	bad(a.Start < 0 || a.Gap < 0, "arrivals: times must not be negative")
	bad(a.Kind == AtLoad && !(a.Load > 0 && a.Load < 1000 && a.Slots > 0), "arrivals: load %g of %d slots, both must be above 0", a.Load, a.Slots)
	bad(a.Kind == AtTimes && len(a.Times) < total, "arrivals: %d times for %d jobs", len(a.Times), total)
	bad(a.Kind > AtTimes || m.Order > Shuffled, "unknown arrivals or order")
	return errors.Join(errs...)
}

// check says what is wrong with the i-th class of a mix.
func (c *Class) check(m *Mix, i int) error {
	for _, d := range []*Dist{&c.Maps, &c.Input, &c.Reduces, &c.MapTime, &c.ReduceTime, &c.Work} {
		if err := d.check(); err != nil {
			return err
		}
	}
	reduces := c.Reduces.Shape != Unset && c.Reduces.Mean() > 0
	switch {
	case m.Count > 0 && (!(c.Share > 0) || c.Count != 0):
		return errors.New("the mix has a number of jobs, so the class needs a share above 0 and no count")
	case m.Count == 0 && (c.Count <= 0 || c.Share != 0):
		return errors.New("the mix has no number of jobs, so the class needs a count above 0 and no share")
	case c.After < 0 || c.After > i:
		return errors.New("it comes after a class that is not before it")
	case c.After > 0 && (m.Count > 0 || m.Order == Shuffled):
		return errors.New("a class that comes after another needs counts, and an order that is not shuffled")
	case c.After > 0 && c.Count > m.Classes[c.After-1].Count:
		return fmt.Errorf("%d jobs that come after the %d of %q", c.Count, m.Classes[c.After-1].Count, m.Classes[c.After-1].Name)
	case c.Work.Shape != Unset && (c.TaskTime <= 0 || !(c.ReduceShare >= 0 && c.ReduceShare <= 1)):
		return errors.New("work needs a task time above 0 and a share of reduces from 0 to 1")
	case c.Work.Shape != Unset && (c.Maps.Shape != Unset || c.Input.Shape != Unset || c.MapTime.Shape != Unset ||
		c.Reduces.Shape != Unset || c.ReduceTime.Shape != Unset):
		return errors.New("work says how many tasks there are and how long they take; leave maps, input, reduces and their times out")
	case c.Work.Shape != Unset:
		return nil
	case c.TaskTime != 0 || c.ReduceShare != 0:
		return errors.New("task-time and reduce-share mean something only with work")
	case c.ReduceTime.Shape != Unset && !reduces:
		return errors.New("it has a reduce-time and no reduces")
	case c.Maps.Shape != Unset && c.Input.Shape != Unset:
		return errors.New("both maps and input; the input says how many maps there are")
	case c.Maps.Shape == Unset && c.Input.Shape == Unset && !reduces:
		return errors.New("no tasks: it needs maps, input or work")
	case c.MapTime.Shape == Unset && c.Profile == nil && (c.Maps.Shape != Unset || c.Input.Shape != Unset):
		return fmt.Errorf("it has no map-time, and there is no profile of app %q", c.App)
	case reduces && c.ReduceTime.Shape == Unset && (c.Profile == nil || c.MapTime.Shape != Unset):
		return errors.New("it has reduces and no reduce-time")
	}
	return nil
}
