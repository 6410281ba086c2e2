package slots

import (
	"errors"
	"math"

	"github.com/slotwise/slotwise/sched"
)

// Fill says how fast Static fills the free slots of a node.
type Fill uint8

// The ways to fill slots.
const (
	// FillFree fills all free slots at once, maps first.
	FillFree Fill = iota
	// FillLoad is the rule of Hadoop 1.2.1's JobQueueTaskScheduler.
	FillLoad
	// FillBalance is the rule of Hadoop 1.2.1's FairScheduler.
	FillBalance
)

// StaticConfig holds the parameters of Static. The zero value fills all free
// slots at once.
type StaticConfig struct {
	Fill Fill
	// Padding applies to FillLoad on clusters of more than three nodes. It is
	// the share of all tasks whose number of slots is kept free for failures and
	// speculative copies. While fewer slots are free, a heartbeat gets one map,
	// and only the first job in order gets reduces.
	Padding float64
	// PadReducing computes the padding of both kinds from jobs with reduces
	// only, a mistake of Hadoop 1.2.1.
	PadReducing bool
	// MaxDiff applies to FillBalance: how much fuller a node may be than the
	// cluster would be with all tasks running, as a share of the node's slots.
	// 1 removes the limit.
	MaxDiff float64
	// Single, with FillBalance, assigns one task per heartbeat.
	Single bool
	// MaxMaps and MaxReduces, with FillBalance, limit the tasks of a kind that
	// one heartbeat gets. -1 means no limit, and 0 is invalid.
	MaxMaps, MaxReduces int
}

func (c *StaticConfig) bind() sched.Bindings {
	perHeartbeat := sched.Int(-1, math.MaxInt)
	share := sched.Float(0, 1)
	return sched.Bindings{
		sched.Bind(&c.Fill, sched.Enum[Fill]("free", "load", "balance"), sched.Param{Name: "fill", Default: "free",
			Help: "How fast a node's free slots are filled: free (all at once, maps first), load (as Hadoop's FIFO scheduler does: it " +
				"spreads tasks over the nodes in proportion to pending work, and starts at most one map without local data and one " +
				"reduce per heartbeat) or balance (as Hadoop's fair scheduler does: it starts with the kind of which the node runs " +
				"fewer tasks, and spreads tasks like load)."}),
		sched.Bind(&c.Padding, share, sched.Param{Name: "padding", Default: "0.01",
			Help: "With fill=load: the share of all tasks, 0 to 1, whose number of slots is kept free for failures and speculative " +
				"copies on clusters of more than 3 nodes. A large share slows big jobs down."}),
		sched.Bind(&c.PadReducing, sched.Switch("all", "reducing"), sched.Param{Name: "pad-jobs", Default: "all",
			Help: "With fill=load: the jobs whose tasks the padding counts: all, or reducing (only jobs with reduces, a mistake of " +
				"Hadoop 1.2.1 kept for comparison)."}),
		sched.Bind(&c.MaxDiff, share, sched.Param{Name: "load-max-diff", Default: "0",
			Help: "With fill=balance: how much fuller than the cluster average a node may be, as a share of its slots, 0 to 1. 1 fills " +
				"each node as its heartbeat arrives."}),
		sched.Bind(&c.Single, sched.Switch("true", "false"), sched.Param{Name: "assign-multiple", Default: "true",
			Help: "With fill=balance: whether one heartbeat may get several tasks, true or false. With false a node with many slots " +
				"fills up slowly."}),
		sched.Bind(&c.MaxMaps, perHeartbeat, sched.Param{Name: "assign-maps", Default: "-1",
			Help: "With fill=balance: the most maps that one heartbeat gets; -1 means no limit."}),
		sched.Bind(&c.MaxReduces, perHeartbeat, sched.Param{Name: "assign-reduces", Default: "-1",
			Help: "With fill=balance: the most reduces that one heartbeat gets; -1 means no limit."}),
	}
}

// StaticParams documents the parameters of Static.
var StaticParams = new(StaticConfig).bind().Params()

// ReadStatic returns Static with the parameters that the user has set.
func ReadStatic(k *sched.Kit) (sched.Slots, error) {
	var c StaticConfig
	if err := k.Read(c.bind()); err != nil {
		return nil, err
	}
	if c.MaxMaps == 0 || c.MaxReduces == 0 {
		return nil, errors.New("parameters assign-maps and assign-reduces must not be 0: no task would ever start")
	}
	return NewStatic(c), nil
}
