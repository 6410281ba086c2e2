package fair

import (
	"time"

	"github.com/slotwise/slotwise/sched"
)

// Config holds the parameters of Fair.
type Config struct {
	// Pools holds the limits and preemption timeouts of pools and users.
	Pools Allocations
	// UpdateInterval is the time between two computations of the fair shares,
	// which decide about preemption and size weights. The order of jobs needs no
	// update. It is above 0.
	UpdateInterval time.Duration
	// SizeWeight says how a job's weight grows with its unfinished tasks.
	SizeWeight SizeWeight
	// Preempt kills the newest tasks of pools above their fair share when other
	// pools have starved for longer than their timeouts.
	Preempt bool
	// PreemptInterval is the least time between two rounds of preemption. It is
	// above 0.
	PreemptInterval time.Duration
	// StaleDemand uses the demands of the last update, as Hadoop 1.2.1 does,
	// instead of the present ones. It sorts all jobs of a pool for each
	// assignment.
	StaleDemand bool
}

// SizeWeight is a rule for the weight of a job by its unfinished tasks, beside its priority.
// The weights follow the tasks at each update.
type SizeWeight uint8

// The rules.
const (
	EqualWeight SizeWeight = iota // 1
	LogWeight                     // log2(1 + tasks): Hadoop's mapred.fairscheduler.sizebasedweight
	TaskWeight                    // tasks: "slots to jobs proportional to the number of their tasks" (Ghit and Epema, Section 6)
)

func (c *Config) bind() sched.Bindings {
	return sched.Bindings{
		sched.Bind(&c.Pools, allocationValues, sched.Param{Name: "pools", Default: "",
			Help: "Pools and their limits, separated by semicolons, with the words of Hadoop's fair-scheduler.xml: \"pool p1 minMaps=2 " +
				"maxMaps=9 weight=2; user ann maxRunningJobs=3; fairSharePreemptionTimeout=60\". Times are in seconds. Pools that are " +
				"not named have no limits. If the minimums exceed the slots, the slots are shared among them. A maximum below " +
				"the minimum takes precedence."}),
		sched.Bind(&c.UpdateInterval, sched.PositiveDuration(), sched.Param{Name: "update-interval", Default: "500ms",
			Help: "The time between two computations of the fair shares. Preemption reacts no faster than that."}),
		sched.Bind(&c.SizeWeight, sched.Choice([]string{"false", "true", "tasks"}, []SizeWeight{EqualWeight, LogWeight, TaskWeight}),
			sched.Param{Name: "size-weight", Default: "false", Tune: []string{"false", "true", "tasks"},
				Help: "How a job's weight grows with its unfinished tasks: false (not at all), true (with their logarithm, as Hadoop does if asked) " +
					"or tasks (in proportion, as in the FAIR of the Tyrex paper). It helps large jobs at the cost of small ones."}),
		sched.Bind(&c.Preempt, sched.Bool(), sched.Param{Name: "preemption", Default: "false", Tune: []string{"false", "true"},
			Help: "Whether tasks are killed when a pool has run below its minimum, or below half its fair share, for longer than its " +
				"timeouts: true or false. The timeouts are part of \"pools\" and never expire unless set there."}),
		sched.Bind(&c.PreemptInterval, sched.PositiveDuration(), sched.Param{Name: "preemption-interval", Default: "15s",
			Help: "The least time between two rounds of preemption. Freed slots are filled at the next heartbeats, so short intervals " +
				"kill more tasks than needed."}),
		sched.Bind(&c.StaleDemand, sched.Switch("live", "update"), sched.Param{Name: "demand", Default: "live",
			Help: "Which demand of a job counts: live (the present one) or update (that of the last update, as in Hadoop 1.2.1, which " +
				"fills slots up to one interval late)."}),
	}
}

// Params documents the parameters of Fair.
func Params() []sched.Param { return new(Config).bind().Params() }

// Read returns a fair order with the parameters that the user has set.
func Read(k *sched.Kit) (sched.Order, error) {
	var c Config
	if err := k.Read(c.bind()); err != nil {
		return nil, err
	}
	return New(c), nil
}
