package dynamicmr

import (
	"math"

	"github.com/slotwise/slotwise/policies/hadoop"
	"github.com/slotwise/slotwise/sched"
)

// DHSAConfig holds the parameters of DHSA.
type DHSAConfig struct {
	// Mode is the algorithm: PI (Alg 1) or PD (Alg 2).
	Mode Mode
	// LendMaps is Pec_M, the fraction of all map slots that may run reduces at
	// once. 0 lends none. Lowering it kills no running task: slots return as
	// tasks end.
	LendMaps Fraction
	// LendReduces is Pec_R, the same for reduce slots that run maps. With both
	// at 0 the policy is Hadoop's fair scheduler.
	LendReduces Fraction
	// FarAtOnce lets Case 5 of Alg 2 start a map far from its data instead of
	// leaving a slot idle. Otherwise maps wait as the place part decides.
	FarAtOnce bool
	// Early says when reduces may start. With EarlyOwn a map slot is lent only to
	// reduces whose maps are all done. With EarlyOn reduces wait in lent map slots
	// too, as in the paper's Case 4, which does not mention slow start; with many
	// jobs such reduces fill the cluster.
	Early hadoop.Early
	// KeepMapSlots is the number of the cluster's map slots that are never lent
	// to reduces whose maps are not all done. It matters only with
	// EarlyOn and EarlyGate. With 0, one reduce must be killed for each map whose
	// output is lost.
	KeepMapSlots int
}

func (c *DHSAConfig) bind(m Mode) sched.Bindings {
	return sched.Bindings{
		sched.Bind(&c.Mode, sched.Enum[Mode](PI.String(), PD.String()), sched.Param{Name: "lend-mode", Default: m.String(),
			Aliases: []string{"PoolsFairShareSlotsAdaptiveMode"},
			Help: "The algorithm that decides: PoolInDependent (Alg 1: slots of a kind run their own kind of task first, and are lent " +
				"if none is pending) or PoolDependent (Alg 2: a pool uses its share of all slots for tasks of either kind)."}),
		sched.Bind(&c.LendMaps, Fractions, sched.Param{Name: "lend-map-slots", Default: "1", Tune: []string{"0", "0.25", "0.5", "0.75", "1"},
			Aliases: []string{"mapred.idle.mapslots.borrowedforReduceTasks"},
			Help: "The fraction of all map slots that may run reduces at once, 0 to 1 (Pec_M). 0 lends none. With 0 here and in " +
				"lend-reduce-slots the policy is Hadoop's fair scheduler."}),
		sched.Bind(&c.LendReduces, Fractions, sched.Param{Name: "lend-reduce-slots", Default: "1", Tune: []string{"0", "0.25", "0.5", "0.75", "1"},
			Aliases: []string{"mapred.idle.reduceslots.borrowedforMapTasks"},
			Help:    "The fraction of all reduce slots that may run maps at once, 0 to 1 (Pec_R). 0 lends none."}),
		sched.Bind(&c.FarAtOnce, sched.Bool(), sched.Param{Name: "far-at-once", Default: "true", Tune: []string{"false", "true"},
			Help: "With PoolDependent: whether a map whose data is far away starts when nothing else fits (Case 5). With false the slot " +
				"stays idle while the job waits for a node near its data."}),
		hadoop.BindEarly(&c.Early, "own"),
		sched.Bind(&c.KeepMapSlots, sched.Int(0, math.MaxInt), sched.Param{Name: "keep-map-slots", Default: "1",
			Aliases: []string{"dhsa.min.map.capable.slots"},
			Help: "How many map slots of the cluster are never lent to reduces whose maps are not all done. With 0 such reduces can fill " +
				"the cluster, and one is killed for each map that must run again."}),
	}
}

// DHSAParams documents the parameters of a mode.
func DHSAParams(m Mode) []sched.Param { return new(DHSAConfig).bind(m).Params() }

// String returns the paper's name of the mode.
func (m Mode) String() string {
	if m == PI {
		return "PoolInDependent"
	}
	return "PoolDependent"
}

// ReadDHSA returns a constructor of the part in a mode, which the parameter
// lend-mode overrides.
func ReadDHSA(m Mode) func(k *sched.Kit) (sched.Slots, error) {
	return func(k *sched.Kit) (sched.Slots, error) {
		var c DHSAConfig
		if err := k.Read(c.bind(m)); err != nil {
			return nil, err
		}
		return NewDHSA(c), nil
	}
}
