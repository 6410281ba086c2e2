package dhsa

import (
	"math"

	"github.com/slotwise/slotwise/internal/sched/dynamicmr"
	"github.com/slotwise/slotwise/sched"
)

// Config configures the lending of slots.
type Config struct {
	// Mode is the algorithm: PI (Alg 1) or PD (Alg 2).
	Mode Mode
	// LendMaps is Pec_M, the fraction of all map slots that may run reduces at
	// once. 0 lends none; lowering it while jobs run kills nothing, the slots
	// come back as tasks end.
	LendMaps dynamicmr.Fraction
	// LendReduces is Pec_R, the same for reduce slots that run maps. Both 0 is
	// Hadoop's fair scheduler.
	LendReduces dynamicmr.Fraction
	// FarAtOnce lets Case 5 of Alg 2 start a map far from its data rather than
	// leave a slot idle; without it maps wait as the place says.
	FarAtOnce bool
	// Early says in which slots reduces may start before all maps of their job
	// are done, and then wait.
	Early Early
	// KeepMapSlots is how many map slots stay out of the reach of reduces whose
	// maps are not all done, in slots of the whole cluster. It matters with
	// EarlyAnywhere only. 0 makes lost map output expensive: a reduce must be
	// killed for each.
	KeepMapSlots int
}

// Default is the configuration of a mode, with all that may be lent.
func Default(m Mode) Config {
	return Config{Mode: m, LendMaps: dynamicmr.One, LendReduces: dynamicmr.One, FarAtOnce: true, Early: EarlyOwn,
		KeepMapSlots: 1}
}

func (c *Config) bind(m Mode) sched.Bindings {
	return sched.Bindings{
		sched.Bind(&c.Mode, sched.Enum[Mode](PI.String(), PD.String()), sched.Param{Name: "lend-mode", Default: m.String(),
			Aliases: []string{"PoolsFairShareSlotsAdaptiveMode"},
			Help: "The algorithm that decides: PoolInDependent (Alg 1: slots of a kind run their own kind of task first, and are lent " +
				"if none is pending) or PoolDependent (Alg 2: a pool uses its share of all slots for tasks of either kind)."}),
		sched.Bind(&c.LendMaps, dynamicmr.Fractions, sched.Param{Name: "lend-map-slots", Default: "1",
			Aliases: []string{"mapred.idle.mapslots.borrowedforReduceTasks"},
			Help: "The fraction of all map slots that may run reduces at once, 0 to 1 (Pec_M). 0 lends none. With 0 here and in " +
				"lend-reduce-slots the policy is Hadoop's fair scheduler."}),
		sched.Bind(&c.LendReduces, dynamicmr.Fractions, sched.Param{Name: "lend-reduce-slots", Default: "1",
			Aliases: []string{"mapred.idle.reduceslots.borrowedforMapTasks"},
			Help:    "The fraction of all reduce slots that may run maps at once, 0 to 1 (Pec_R). 0 lends none."}),
		sched.Bind(&c.FarAtOnce, sched.Bool(), sched.Param{Name: "far-at-once", Default: "true",
			Help: "With PoolDependent: whether a map whose data is far away starts when nothing else fits (Case 5). With false the slot " +
				"stays idle while the job waits for a node near its data."}),
		sched.Bind(&c.Early, sched.Enum[Early]("own", "on", "off"), sched.Param{Name: "early-reduces", Default: "own",
			Help: "Which slots a reduce may occupy before all maps of its job are done, once its slow start permits: own (reduce slots; " +
				"lent map slots run only reduces that need not wait), on (lent map slots as well, as the paper describes it) or off " +
				"(none, so that maps may use all slots)."}),
		sched.Bind(&c.KeepMapSlots, sched.Int(0, math.MaxInt), sched.Param{Name: "keep-map-slots", Default: "1",
			Aliases: []string{"dhsa.min.map.capable.slots"},
			Help: "How many map slots of the cluster are never lent to reduces whose maps are not all done. With 0 such reduces can fill " +
				"the cluster, and one is killed for each map that must run again."}),
	}
}

// Params documents the parameters of a mode.
func Params(m Mode) []sched.Param { return new(Config).bind(m).Params() }

// String returns the paper's name of the mode.
func (m Mode) String() string {
	if m == PI {
		return "PoolInDependent"
	}
	return "PoolDependent"
}

// Read returns a constructor of the part in a mode, which the parameter
// lend-mode overrides.
func Read(m Mode) func(k *sched.Kit) (sched.Slots, error) {
	return func(k *sched.Kit) (sched.Slots, error) {
		var c Config
		if err := k.Read(c.bind(m)); err != nil {
			return nil, err
		}
		return New(c), nil
	}
}

// Early says where reduces may wait for the maps of their job.
type Early uint8

// The places.
const (
	// EarlyOwn lets them wait in reduce slots, as in Hadoop. A map slot is lent
	// to reduces that have all they need: one that waits there would keep out the
	// maps that it waits for, and with many jobs such reduces fill the cluster.
	EarlyOwn Early = iota
	// EarlyAnywhere lets them wait in lent map slots too, as the paper's Case 4
	// does, which has no word on slow start.
	EarlyAnywhere
	// EarlyNever lets them start when all maps of the job are done, so that no
	// slot is held by one that waits: better where slots are few and the data is
	// near, worse where fetching map output takes long.
	EarlyNever
)
