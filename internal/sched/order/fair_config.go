package order

import (
	"errors"
	"strconv"
	"time"

	"github.com/slotwise/slotwise/sched"
)

// FairConfig configures Fair.
type FairConfig struct {
	// Pools are the pools, users and time-outs.
	Pools Allocations
	// UpdateInterval is how often fair shares, and with them who must give back
	// slots, are computed afresh. Default 500 ms. Long intervals make
	// preemption and size weights late; the order of jobs is always live.
	UpdateInterval time.Duration
	// SizeWeight multiplies a job's weight by log2(1 + its tasks left), so that
	// large jobs get more than small ones, though not in proportion.
	SizeWeight bool
	// Preempt kills the newest tasks of pools above their fair share when
	// others have starved for longer than their time-outs.
	Preempt bool
	// PreemptInterval is the least time between two such kills. Default 15 s.
	PreemptInterval time.Duration
	// StaleDemand takes demands from the last update, as Hadoop 1.2.1 does,
	// instead of the moment. It sorts all jobs of a pool for each task given.
	StaleDemand bool
}

// FairParams are the parameters that ReadFair reads.
var FairParams = []sched.Param{
	{Name: "pools", Default: "", Help: "Pools and their limits, separated by semicolons, with the words of Hadoop's " +
		"fair-scheduler.xml: \"pool p1 minMaps=2 maxMaps=9 weight=2; user ann maxRunningJobs=3; fairSharePreemptionTimeout=60\". " +
		"Times are seconds. Of a pool that is not named nothing is limited. A minimum that exceeds the slots is shared out; " +
		"a maximum below the minimum wins."},
	{Name: "update-interval", Default: "500ms", Help: "How often fair shares are computed afresh, a duration. Preemption is " +
		"never quicker than that."},
	{Name: "size-weight", Default: "false", Help: "Whether a job's weight grows with the logarithm of its tasks left: true or " +
		"false. It helps large jobs at the cost of small ones."},
	{Name: "preemption", Default: "false", Help: "Whether tasks are killed when a pool has run below its minimum, or below " +
		"half its fair share, for longer than its time-outs, which have to be set as well: true or false."},
	{Name: "preemption-interval", Default: "15s", Help: "The least time between two rounds of preemption, a duration. Short " +
		"ones may kill more than needed, because freed slots are filled with the next heartbeats only."},
	{Name: "demand", Default: "live", Help: "What a job is said to want: live, or update: what it wanted at the last update, as " +
		"Hadoop 1.2.1 does, which is slower and fills slots up to an interval late."},
}

// ReadFair makes a fair order from its parameters.
func ReadFair(k *sched.Kit) (sched.Order, error) {
	var c FairConfig
	var errs [6]error
	c.Pools, errs[0] = sched.Setting(k, "pools", ParseAllocations)
	c.UpdateInterval, errs[1] = sched.Setting(k, "update-interval", parseInterval)
	c.SizeWeight, errs[2] = sched.Setting(k, "size-weight", strconv.ParseBool)
	c.Preempt, errs[3] = sched.Setting(k, "preemption", strconv.ParseBool)
	c.PreemptInterval, errs[4] = sched.Setting(k, "preemption-interval", parseInterval)
	c.StaleDemand, errs[5] = sched.Setting(k, "demand", parseDemand)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	return NewFair(c), nil
}

func parseInterval(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err == nil && d <= 0 {
		err = errors.New("must be more than 0")
	}
	return d, err
}

func parseDemand(s string) (bool, error) {
	if s != "live" && s != "update" {
		return false, errors.New("must be live or update")
	}
	return s == "update", nil
}
