package sched

import "strconv"

// codeNames are short and stay as they are: programs read them.
var codeNames = map[Code]string{
	NoReason: "none", Ended: "ended", NoPending: "no-pending", WaitLocality: "wait-locality", PoolFull: "pool-full",
	PartitionFull: "partition-full", Overload: "overload", SlowStart: "slow-start", NodeBarred: "node-barred",
	FailedHere: "failed-here", Behind: "behind", NoSlot: "no-slot", NoNode: "no-node", OutOfReach: "out-of-reach",
	NotYet: "not-yet", JobsFull: "jobs-full", SplitFull: "split-full", MapsFirst: "maps-first", QueueFull: "queue-full",
	UserFull: "user-full", PassesSlots: "passes-slots", FarSpent: "far-spent", AllClosed: "all-closed", NotBack: "not-back",
	NoValue: "no-value",
}

// Name returns the code's name for programs, such as "slow-start".
func (c Code) Name() string {
	if name, ok := codeNames[c]; ok {
		return name
	}
	return "code-" + strconv.Itoa(int(c))
}
