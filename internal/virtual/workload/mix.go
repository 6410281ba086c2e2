package workload

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slotwise/slotwise/sched/job"
)

// Mix is a job mix: the jobs of one run, and when each is submitted. run and
// submit start its programs, sim simulates them; docs/formats/jobmix.md
// describes the file. A Mix is a Source.
//
// A mix describes its jobs in one of two ways. A Listed mix has one class per
// entry of its list, and each class says when its jobs are submitted. Otherwise
// jobs are drawn from the classes, and Arrivals says when they are submitted.
// Its life: ReadMix checks what the file says; the command may complete classes whose programs it knows
// (NeedsTasks, SetTasks, NeedsCosts, Profile); Jobs refuses a class that is still incomplete, and draws. run
// and submit stop after Draw, since their programs find out the rest.
type Mix struct {
	// Listed means that the file lists jobs one by one.
	Listed bool
	// Count is the number of jobs drawn from the classes by their shares; 0
	// means that every class states a count.
	Count    int
	Sequence Sequence
	// Block is the bytes of input of one map, for jobs that state only the size
	// of their input; 0 means DefaultBlock.
	Block int64
	// Pools and Users are given to the jobs in turn where classes name none:
	// the i-th job gets the (i mod n)-th.
	Pools, Users []string
	Arrivals     Arrivals
	Classes      []Class
	// Swaps replace the policy while the jobs run.
	Swaps []Swap
	// Most bounds the tasks of all jobs that are drawn; 0 is MaxTotal. A program that reads the
	// mixes of others sets it, because a few bytes can ask for millions of tasks.
	Most int
	// Profiles are the cost profiles that classes may use, by app.
	Profiles []Profile
}

// DefaultBlock is the block size of HDFS at the time of the papers: 64 MiB.
const DefaultBlock = 64 << 20

// Sequence is the order in which the jobs of a mix with counts are submitted.
type Sequence uint8

// The orders.
const (
	// InOrder submits class after class, as listed.
	InOrder Sequence = iota
	// InTurn submits one job of each class, then the next of each.
	InTurn
	// Shuffled submits the jobs in random order.
	Shuffled
)

// Swap replaces the policy at a time since the start of the mix.
type Swap struct {
	At time.Duration
	// Policy is a policy's name or composition, Set its parameters.
	Policy string
	Set    map[string]string
}

// Program is the program of a job that run and submit start, beside its app.
// The simulator reads the sizes of its inputs. All strings are as the user
// wrote them: this package does not check that an app, a parameter or a file
// exists.
type Program struct {
	// Mapper, Combiner and Reducer are the commands of a streaming job; all are
	// empty for an app.
	Mapper, Combiner, Reducer string
	// Params are the app's parameters.
	Params map[string]string
	// Inputs are files, directories or globs; Include and Exclude filter the
	// names of the files found.
	Inputs, Include, Exclude []string
	// Format and Columns are the format of the input and the columns to read.
	Format  string
	Columns []string
	// Output is the directory to write; empty means that the result is not kept.
	Output string
	// OutputFormat, OutputColumns and OutputCompress are the format of the output, its
	// columns and its codec; empty leaves them to the program and the command line.
	OutputFormat, OutputCompress string
	OutputColumns                []string
	// SplitSize is the bytes of input of one map; 0 leaves it to the program.
	SplitSize int64
}

// Streaming reports whether the program is a pair of commands.
func (p *Program) Streaming() bool {
	return p != nil && (p.Mapper != "" || p.Combiner != "" || p.Reducer != "")
}

// Class describes one or more alike jobs: an entry under "jobs" or "classes".
type Class struct {
	Name string
	// Share is the class's weight among the drawn jobs, Count the number of its
	// jobs where the mix has no Count. One of the two is set.
	Share float64
	Count int

	App string
	job.Request
	Resident int64 // as in Job
	// Program is the program that run and submit start; nil if the file names
	// an app at most.
	Program *Program

	// Maps is the number of a job's maps, unless Input is the bytes it reads.
	Maps, Input Dist
	Reduces     Dist
	// MapTasks and ReduceTasks state every task of a job, instead of Maps,
	// Input and Reduces. A task without a time and a cost gets them from
	// MapTime, ReduceTime or Profile.
	MapTasks, ReduceTasks []Task
	// MapTime and ReduceTime are drawn for each task, in seconds. Without them
	// tasks go through the stages of Profile.
	MapTime, ReduceTime Dist
	Profile             *Profile
	// Work, if set, is the sum of all durations of a job, in seconds, and
	// replaces Maps, Reduces and their times: the job gets as many tasks as
	// make each last about TaskTime seconds, with ReduceShare of the work in
	// reduces.
	Work                  Dist
	TaskTime, ReduceShare float64

	// After holds indexes of earlier classes. The k-th job of this class is
	// submitted when the k-th of each of those has ended; in a listed mix, where
	// that class may have fewer jobs, its last one counts.
	After []int

	// The rest is for listed mixes only. Submit is when the first job is
	// submitted, since the start of the run, and Every the time between two.
	Submit, Every time.Duration
	// Plan and Label become Plan and Class of the jobs.
	Plan  time.Duration
	Label string

	// listed equals Mix.Listed. where is the file and line, for errors; empty
	// for a class made in code. planned means that SetTasks has been called.
	listed, planned bool
	where           string
}

// SetTasks states the tasks that the class's program has: its maps, with the
// size and hosts of their splits, and the number of its reduces. The simulator
// calls it for a class that NeedsTasks; the costs come from Profile or MapTime.
func (c *Class) SetTasks(maps []Task, reduces int) {
	c.MapTasks, c.Reduces, c.planned = maps, Fixed(float64(reduces)), true
}

// NeedsTasks reports whether the file leaves the number of a job's maps to the
// program. The simulator must then find it out from the program's input.
func (c *Class) NeedsTasks() bool {
	// Not "len": an empty list is stated, and is an error elsewhere.
	stated := c.MapTasks != nil || c.ReduceTasks != nil || c.Maps.Shape != Unset || c.Input.Shape != Unset || c.Work.Shape != Unset
	// A class with an app, a reduce-time and no input has reduces only.
	reads := c.Program.Streaming() || c.Program != nil && len(c.Program.Inputs) > 0
	return !stated && c.startable() && (reads || c.ReduceTime.Shape == Unset)
}

// NeedsReduces reports whether the file leaves the number of a job's reduces to
// the program.
func (c *Class) NeedsReduces() bool {
	counted := c.Maps.Shape != Unset || c.Input.Shape != Unset
	return c.Reduces.Shape == Unset && (c.NeedsTasks() || c.listed && c.startable() && counted && c.MapTime.Shape == Unset)
}

// NeedsCosts reports whether the class has tasks without a time and without a
// cost. The simulator then needs a profile of the app.
func (c *Class) NeedsCosts() bool {
	return c.Profile == nil && c.MapTime.Shape == Unset && (c.takesCosts() || c.NeedsTasks())
}

// StatesTimes reports whether the file says how long each task takes, or its
// cost. Sleeping tasks can then replace the program.
func (c *Class) StatesTimes() bool {
	if c.Work.Shape != Unset {
		return true
	}
	timed := func(tasks []Task) bool {
		return !slices.ContainsFunc(tasks, func(t Task) bool { return t.Duration == 0 && t.CPU == 0 })
	}
	// Tasks that SetTasks has planned state sizes, not times.
	maps := len(c.MapTasks) > 0 && !c.planned && (timed(c.MapTasks) || c.MapTime.Shape != Unset) || c.MapTime.Shape != Unset && (c.Maps.Shape != Unset || c.Input.Shape != Unset)
	return maps && (c.ReduceTasks != nil && timed(c.ReduceTasks) || c.ReduceTime.Shape != Unset || !c.hasReduces())
}

// takesCosts reports whether a profile, if there is one, applies to the maps:
// they are counted, but the file does not state them one by one.
func (c *Class) takesCosts() bool {
	return c.Maps.Shape != Unset || c.Input.Shape != Unset || c.planned
}

// startable reports whether the class names something to run.
func (c *Class) startable() bool { return c.App != "" || c.Program.Streaming() }

// Describe names the class for an error message: the file and line if they are
// known, and the name.
func (c *Class) Describe() string {
	kind := "class"
	if c.listed {
		kind = "job"
	}
	if c.where == "" {
		return fmt.Sprintf("%s %q", kind, c.Name)
	}
	return fmt.Sprintf("%s: %s %q", c.where, kind, c.Name)
}

// Arrivals says when drawn jobs are submitted. The zero value submits all at
// once.
type Arrivals struct {
	Kind ArrivalKind
	// Start is the submission of the first job, or the beginning of the Poisson
	// process.
	Start time.Duration
	// Gap is the time between two jobs of Every, and the mean one of Poisson.
	Gap time.Duration
	// Load is the fraction of Slots that the jobs keep busy on average, for
	// AtLoad: the mean gap is the mean work of these very jobs over Load · Slots.
	Load  float64
	Slots int
	// Times are the times of AtTimes, one for each job.
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

// check returns all that is wrong with a mix as a whole: with its counts, its
// arrivals and each class's own keys. It does not ask whether the classes say
// enough to be simulated.
func (m *Mix) check() error {
	var errs []error
	bad := func(cond bool, format string, args ...any) {
		if cond {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(m.Count < 0 || m.Count > MaxJobs, "%d jobs, must be from 0 to %d", m.Count, MaxJobs)
	bad(m.Count > 0 && m.Sequence != InOrder, "an order is given, which has a meaning only where classes have counts")
	bad(m.Block < 0, "block of %d bytes, must not be negative", m.Block)
	total := 0
	seen := make(map[string]bool, len(m.Classes))
	for i := range m.Classes {
		c := &m.Classes[i]
		if err := c.check(m, i); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.Describe(), err))
		}
		// Results are listed by class. In a list of jobs equal names are common, such as two runs
		// of one app.
		bad(!m.Listed && seen[c.Name], "a second class %q; each needs a name of its own", c.Name)
		seen[c.Name] = true
		// Saturated: many large counts must not overflow to a small sum.
		total = min(total+max(0, c.Count), MaxJobs+1)
	}
	bad(total > MaxJobs, "more than %d jobs", MaxJobs)
	if m.Count > 0 {
		total = m.Count
	}
	a := &m.Arrivals
	bad(a.Start < 0 || a.Gap < 0, "arrivals: times must not be negative")
	// Negated, so that NaN is refused.
	bad(a.Kind == AtLoad && !(a.Load > 0 && a.Load < 1000 && a.Slots > 0), "arrivals: load %g of %d slots, both must be above 0", a.Load, a.Slots)
	bad(a.Kind == AtTimes && len(a.Times) < total, "arrivals: %d times for %d jobs", len(a.Times), total)
	bad(a.Kind > AtTimes || m.Sequence > Shuffled, "unknown arrivals or order")
	return errors.Join(errs...)
}

// check returns the first error in the i-th class of a mix.
func (c *Class) check(m *Mix, i int) error {
	for _, d := range []*Dist{&c.Maps, &c.Input, &c.Reduces, &c.MapTime, &c.ReduceTime, &c.Work} {
		if err := d.check(); err != nil {
			return err
		}
	}
	if err := c.checkPlace(m, i); err != nil {
		return err
	}
	return c.checkTasks()
}

// checkPlace checks the keys about the number of jobs in the class and about
// the jobs that they wait for.
func (c *Class) checkPlace(m *Mix, i int) error {
	switch {
	case m.Count > 0 && (!(c.Share > 0) || c.Count != 0):
		return errors.New("the mix has a number of jobs, so the class needs a share above 0 and no count")
	case m.Count == 0 && (c.Count <= 0 || c.Share != 0):
		return errors.New("the mix has no number of jobs, so the class needs a count above 0 and no share")
	// The k-th job follows the k-th: drawn classes have no number of jobs in advance, and a shuffled sequence
	// may put a job before the one that it waits for.
	case len(c.After) > 0 && (m.Count > 0 || m.Sequence == Shuffled):
		return errors.New("a class that comes after another needs counts, and an order that is not shuffled")
	}
	for _, p := range c.After {
		switch {
		// Earlier classes only, which excludes circles without a search.
		case p < 0 || p >= i:
			return errors.New("it comes after a class that is not before it")
		case !m.Listed && c.Count > m.Classes[p].Count:
			return fmt.Errorf("%d jobs that come after the %d of %q", c.Count, m.Classes[p].Count, m.Classes[p].Name)
		}
	}
	return nil
}

// checkTasks checks that the keys about tasks fit together.
func (c *Class) checkTasks() error {
	work, stated := c.Work.Shape != Unset, c.MapTasks != nil || c.ReduceTasks != nil
	counted := c.Maps.Shape != Unset || c.Input.Shape != Unset
	switch {
	case work && (c.TaskTime <= 0 || !(c.ReduceShare >= 0 && c.ReduceShare <= 1)):
		return errors.New("work needs a task-time above 0 and a reduce-share from 0 to 1")
	case work && (counted || stated || c.MapTime.Shape != Unset || c.Reduces.Shape != Unset || c.ReduceTime.Shape != Unset):
		return errors.New("work says how many tasks there are and how long they take; leave maps, input-size, reduces and their times out")
	case work:
		return nil
	case c.TaskTime != 0 || c.ReduceShare != 0:
		return errors.New("task-time and reduce-share have a meaning only with work")
	case c.Maps.Shape != Unset && c.Input.Shape != Unset:
		return errors.New("both maps and input-size; the input's size says how many maps there are")
	// Without a number of reduces their time would be dropped silently.
	case c.ReduceTime.Shape != Unset && !c.hasReduces() && !c.NeedsReduces():
		return errors.New("it has a reduce-time and no reduces")
	case stated && len(c.MapTasks)+len(c.ReduceTasks) == 0 && !c.planned && !c.hasReduces():
		return errors.New("has no tasks")
	// An app without a profile passes here: run and submit start it, and only the simulator needs its costs
	// (checkSimulated).
	case counted && c.MapTime.Shape == Unset && c.Profile == nil && !c.startable():
		return errors.New("it has no map-time, and names no app or commands whose costs could be used instead")
	case !counted && !stated && !c.NeedsTasks() && !c.hasReduces():
		return errors.New("no tasks: it needs an app with its input, commands, maps, input-size or work")
	}
	return nil
}

// hasReduces reports whether the file states reduces.
func (c *Class) hasReduces() bool {
	return len(c.ReduceTasks) > 0 || c.Reduces.Shape != Unset && c.Reduces.Mean() > 0
}

// checkSimulated returns what a simulation of the class still lacks. Its tasks
// must be counted, and each needs a time or a cost.
func (c *Class) checkSimulated() error {
	switch {
	case c.NeedsTasks():
		return errors.New("the number of its maps is unknown; state maps or input-size")
	case c.NeedsCosts():
		return fmt.Errorf("it has no map-time, and there is no profile of app %q", c.App)
	case c.Reduces.Shape != Unset && c.Reduces.Mean() > 0 && c.ReduceTime.Shape == Unset && (c.Profile == nil || c.MapTime.Shape != Unset):
		return errors.New("it has reduces and no reduce-time")
	}
	return nil
}
