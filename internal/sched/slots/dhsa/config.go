package dhsa

import (
	"errors"
	"slices"
	"strconv"
	"strings"

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
	// RescueAfter is how many heartbeats of every node a job's reduces wait for a
	// map that finds no slot before one of them is killed; at least 1. Small
	// values kill where patience would do.
	RescueAfter int
}

// Default is the configuration of a mode, with all that may be lent.
func Default(m Mode) Config {
	return Config{Mode: m, LendMaps: dynamicmr.One, LendReduces: dynamicmr.One, FarAtOnce: true, Early: EarlyOwn,
		KeepMapSlots: 1, RescueAfter: 3}
}

// Params describes the settings of a mode.
func Params(m Mode) []sched.Param {
	return []sched.Param{
		{Name: "lend-mode", Default: m.String(), Aliases: []string{"PoolsFairShareSlotsAdaptiveMode"},
			Help: "Which algorithm decides: PoolInDependent (Alg 1: a kind of slots serves its own tasks first and lends " +
				"what is left) or PoolDependent (Alg 2: a pool uses its share of all slots for either kind)."},
		{Name: "lend-map-slots", Default: "1", Aliases: []string{"mapred.idle.mapslots.borrowedforReduceTasks"},
			Help: "The fraction of all map slots that may run reduces at once, 0 to 1 (Pec_M). 0 lends none; 0 here and in " +
				"lend-reduce-slots is Hadoop's fair scheduler."},
		{Name: "lend-reduce-slots", Default: "1", Aliases: []string{"mapred.idle.reduceslots.borrowedforMapTasks"},
			Help: "The fraction of all reduce slots that may run maps at once, 0 to 1 (Pec_R). 0 lends none."},
		{Name: "far-at-once", Default: "true", Help: "With PoolDependent: whether a map without data near starts when nothing " +
			"else fits (Case 5). false leaves the slot idle while the job waits for a better place."},
		{Name: "early-reduces", Default: "own", Help: "Where reduces may start before their job's maps are done: own (after its " +
			"slow start, in reduce slots; a lent map slot is not for waiting in), on (in lent slots too, the paper to the letter) " +
			"or off (nowhere, so that maps may have all slots)."},
		{Name: "keep-map-slots", Default: "1", Aliases: []string{"dhsa.min.map.capable.slots"},
			Help: "How many map slots of the cluster stay out of the reach of reduces whose maps are not all done. 0 lets such " +
				"reduces fill the cluster, and one is killed for each map that must be made again."},
		{Name: "rescue-after", Default: "3", Help: "After how many heartbeats of every node a reduce is killed that waits, in a " +
			"slot that a map could use, for a map that finds no slot; at least 1."},
	}
}

// String returns the paper's name of the mode.
func (m Mode) String() string {
	if m == PI {
		return "PoolInDependent"
	}
	return "PoolDependent"
}

// ParseMode reads what String writes, in any case of letters.
func ParseMode(s string) (Mode, error) {
	for _, m := range []Mode{PI, PD} {
		if strings.EqualFold(s, m.String()) {
			return m, nil
		}
	}
	return 0, errors.New("must be PoolInDependent or PoolDependent")
}

// Read makes the part from the settings that Params describes.
func Read(k *sched.Kit) (sched.Slots, error) {
	var c Config
	var errs [7]error
	c.Mode, errs[0] = sched.Setting(k, "lend-mode", ParseMode)
	c.LendMaps, errs[1] = sched.Setting(k, "lend-map-slots", dynamicmr.ParseFraction)
	c.LendReduces, errs[2] = sched.Setting(k, "lend-reduce-slots", dynamicmr.ParseFraction)
	c.FarAtOnce, errs[3] = sched.Setting(k, "far-at-once", strconv.ParseBool)
	c.KeepMapSlots, errs[4] = sched.Setting(k, "keep-map-slots", atLeast(0))
	c.RescueAfter, errs[5] = sched.Setting(k, "rescue-after", atLeast(1))
	c.Early, errs[6] = sched.Setting(k, "early-reduces", ParseEarly)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	return New(c), nil
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

var earlyNames = []string{"own", "on", "off"}

// String returns the word for settings.
func (e Early) String() string { return earlyNames[e] }

// ParseEarly reads what String writes.
func ParseEarly(s string) (Early, error) {
	if at := slices.Index(earlyNames, s); at >= 0 {
		return Early(at), nil
	}
	return 0, errors.New("must be own, on or off")
}

// atLeast returns a parser of whole numbers that are not below the least.
func atLeast(least int) func(string) (int, error) {
	return func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err == nil && n < least {
			err = errors.New("must be at least " + strconv.Itoa(least))
		}
		return n, err
	}
}
