// Package policies is the table of the built-in schedulers: the one place that
// imports every part and every named policy. A new one is a row here.
package policies

import (
	"slices"
	"sync"

	"github.com/slotwise/slotwise/policies/auto"
	"github.com/slotwise/slotwise/policies/deadline"
	"github.com/slotwise/slotwise/policies/dynamicmr"
	"github.com/slotwise/slotwise/policies/hadoop"
	"github.com/slotwise/slotwise/policies/hadoop/capacity"
	"github.com/slotwise/slotwise/policies/hadoop/fair"
	"github.com/slotwise/slotwise/policies/learning"
	"github.com/slotwise/slotwise/policies/modfair"
	"github.com/slotwise/slotwise/policies/reference"
	"github.com/slotwise/slotwise/policies/tumm"
	"github.com/slotwise/slotwise/policies/tyrex"
	"github.com/slotwise/slotwise/sched"
)

// Default is the policy that a user gets who asks for none.
const Default = "fifo"

// modfairPaper is where modfair and delay-dynamic come from.
const modfairPaper = "Modified fair scheduler (ModFair), journal version of a paper at PlatCon-17"

// tummPaper is where tumm and htumm come from.
const tummPaper = "Yao et al., Self-Adjusting Slot Configurations for Homogeneous and Heterogeneous Hadoop Clusters, 2015"

// learningPaper is where learning-nb and learning-perceptron come from.
const learningPaper = "Dhok and Varma, Using Pattern Classification for Task Assignment in MapReduce"

// srptPaper proves that srpt is optimal on one server.
const srptPaper = "Schrage, A Proof of the Optimality of the Shortest Remaining Processing Time Discipline, 1968"

// sitaPaper introduces SITA-E.
const sitaPaper = "Harchol-Balter, Crovella, Murta, On Choosing a Task Assignment Policy for a Distributed Server System, 1999"

// classicPaper introduces TAGS.
const classicPaper = "Harchol-Balter, Task Assignment with Unknown Duration, 2002"

// tagsPaper is where statictags and dynamictags come from.
const tagsPaper = "Ghit and Epema, Tyrex: Size-Based Resource Allocation in MapReduce Frameworks, 2016"

// ariaPaper estimates how long a job takes on a number of slots, for deadlines.
const ariaPaper = "Verma, Cherkasova, Campbell, ARIA: Automatic Resource Inference and Allocation for MapReduce Environments, 2011"

// rows returns the named policies.
func rows() []sched.Row {
	return []sched.Row{
		{Name: "fifo", Summary: "first come, first served, by priority", Slots: "static", Order: "fifo",
			Place: "greedy", Speculate: "gap", Profiles: fifoProfiles},
		{Name: "fair", Summary: "pools and jobs share the slots by weight", Slots: "static", Order: "fair",
			Place: "delay", Speculate: "gap", Profiles: fairProfiles},
		{Name: "tumm", Summary: "first come, first served on slots that follow the work left", Paper: tummPaper,
			Slots: "tumm", Order: "fifo", Place: "delay", Speculate: "gap"},
		{Name: "htumm", Summary: "tumm for nodes of unequal speed", Paper: tummPaper,
			Slots: "htumm", Order: "fifo", Place: "delay", Speculate: "gap"},
		{Name: "capacity", Summary: "queues with a promised share of the slots each, and limits on users", Slots: "static",
			Order: "capacity", Place: "missed", Speculate: "gap", Profiles: capacityProfiles},
		{Name: "yarn", Summary: "slots without kinds, shared by queues", Slots: "unified", Order: "capacity", Place: "delay",
			Speculate: "late"},
		{Name: "learning-nb", Summary: "as many tasks as naive Bayes expects a node to bear", Paper: learningPaper,
			Slots: "overload", Order: "utility", Place: "greedy", Speculate: "gap", Profiles: learning.Profiles},
		{Name: "learning-perceptron", Summary: "as many tasks as a perceptron expects a node to bear", Paper: learningPaper,
			Slots: "overload-perceptron", Order: "utility", Place: "greedy", Speculate: "gap", Profiles: learning.Profiles},
		{Name: "modfair", Summary: "fair pools by what they still need, small jobs past large ones", Paper: modfairPaper,
			Slots: "static", Order: "modfair", Place: "delay-dynamic", Speculate: "gap", Profiles: modfairProfiles},
		{Name: "dynamicmr-pi", Summary: "fair pools; slots that a kind of task leaves idle are lent to the other",
			Paper: dynamicmr.Paper, Slots: "dhsa-pi", Order: "fair", Place: "preschedule", Speculate: "sepb"},
		{Name: "dynamicmr-pd", Summary: "fair pools; each uses its share of all slots for maps and reduces alike",
			Paper: dynamicmr.Paper, Slots: "dhsa-pd", Order: "fair", Place: "preschedule", Speculate: "sepb"},
		// A search over compositions of the papers' parts found it; flex/README.md has each
		// part's contribution. A slot that its kind of task leaves idle runs the other kind, and a
		// reduce holds no slot while maps of its job wait for one.
		{Name: "flex", Summary: "fair pools; slots follow the work left, and none waits for what cannot run yet", Slots: "tumm",
			Order: "fair", Place: "greedy", Speculate: "gap", Set: map[string]string{"fallback": "any", "early-reduces": "gate"}},
		{Name: "statictags", Summary: "short jobs apart from long ones, by the work they have had", Paper: tagsPaper,
			Slots: "static", Order: "tags", Place: "greedy", Speculate: "gap"},
		{Name: "dynamictags", Summary: "statictags with limits that follow the sizes of jobs", Paper: tagsPaper,
			Slots: "static", Order: "tags-dynamic", Place: "greedy", Speculate: "gap"},
		{Name: "deadline", Summary: "as many jobs by their deadlines as possible, the earliest deadline first", Paper: ariaPaper,
			Slots: "static", Order: "deadline", Place: "delay", Speculate: "late", Set: map[string]string{"early-reduces": "off"}},
		{Name: "auto", Summary: "the policy among several that forecasts of the present jobs favour", Params: auto.Params(), New: auto.Read},
		// References need the sizes of jobs in advance (sched.SizeReader) or start jobs again
		// (sched.Restarter): a running cluster refuses them.
		{Name: "srpt", Summary: "reference with known sizes: the job with the least work left goes first", Paper: srptPaper,
			Slots: "static", Order: "srpt", Place: "greedy", Speculate: "gap"},
		{Name: "psjf", Summary: "reference with known sizes: the job with the least work in all goes first", Paper: srptPaper,
			Slots: "static", Order: "psjf", Place: "greedy", Speculate: "gap"},
		{Name: "sita", Summary: "reference with known sizes: short jobs apart from long ones from the start", Paper: sitaPaper,
			Slots: "static", Order: "sita", Place: "greedy", Speculate: "gap"},
		{Name: "classictags", Summary: "reference: statictags that kills the jobs that it moves, and starts them again", Paper: classicPaper,
			Slots: "static", Order: "tags-classic", Place: "greedy", Speculate: "gap"},
	}
}

// slotParts returns the parts that decide how many tasks a node may take.
func slotParts() []sched.Part[sched.Slots] {
	return []sched.Part[sched.Slots]{
		{Name: "static", Summary: "fixed numbers of map and reduce slots per node",
			Params: hadoop.StaticParams(), New: hadoop.ReadStatic},
		{Name: "tumm", Summary: "slots re-typed in proportion to the work left", Paper: tummPaper,
			Params: tumm.Params(), New: tumm.New},
		{Name: "htumm", Summary: "slots of unequal nodes re-typed by each node's own task times", Paper: tummPaper,
			Params: tumm.HeterParams(), New: tumm.NewHeter},
		{Name: "overload", Summary: "no slots: what naive Bayes expects not to overload the node", Paper: learningPaper,
			Params: learning.BayesParams(), New: learning.ReadBayesSlots},
		{Name: "overload-perceptron", Summary: "no slots: what a perceptron expects not to overload the node", Paper: learningPaper,
			Params: learning.PerceptronParams(), New: learning.ReadPerceptronSlots},
		{Name: "unified", Summary: "slots without kinds, as under YARN",
			Params: hadoop.UnifiedParams(), New: hadoop.ReadUnified},
		{Name: "dhsa-pi", Summary: "slots that their own kind of task leaves idle are lent to the other kind", Paper: dynamicmr.Paper,
			Params: dynamicmr.DHSAParams(dynamicmr.PI), New: dynamicmr.ReadDHSA(dynamicmr.PI)},
		{Name: "dhsa-pd", Summary: "slots of either kind for the pool that is furthest below its share", Paper: dynamicmr.Paper,
			Params: dynamicmr.DHSAParams(dynamicmr.PD), New: dynamicmr.ReadDHSA(dynamicmr.PD)},
	}
}

// orderParts returns the parts that decide whose turn it is.
func orderParts() []sched.Part[sched.Order] {
	return []sched.Part[sched.Order]{
		{Name: "fifo", Summary: "by priority, then time of submission",
			New: func(*sched.Kit) (sched.Order, error) { return hadoop.NewFIFO(), nil }},
		{Name: "modfair", Summary: "pools by need and a shared pool for the smallest jobs", Paper: modfairPaper,
			Params: modfair.Params(), New: modfair.Read},
		{Name: "fair", Summary: "pools and jobs by minimum share and weight, with preemption",
			Params: fair.Params(), New: fair.Read},
		// The order of both learning policies: they differ in the part that judges the node.
		{Name: "utility", Summary: "by what a task is worth, times the chance that the node bears it", Paper: learningPaper,
			Params: learning.OrderParams(), New: learning.ReadOrder},
		{Name: "capacity", Summary: "queues by use of their promised share, users within limits",
			Params: capacity.Params(), New: capacity.Read},
		{Name: "deadline", Summary: "by deadline, of the jobs that can meet theirs; the others in the slots that are left", Paper: ariaPaper,
			Params: deadline.Params(), New: deadline.Read},
		// Johnson and its inverse are parts without a named policy. They bound what the order of a batch
		// can gain.
		{Name: "johnson", Summary: "by Johnson's rule: the order that ends a batch earliest, by priority first", Paper: tummPaper,
			New: func(*sched.Kit) (sched.Order, error) { return reference.NewJohnson(), nil }},
		{Name: "srpt", Summary: "reference: by remaining work, the least first, with sizes that only a simulation knows", Paper: srptPaper,
			Params: reference.KnownParams(), New: reference.ReadSRPT},
		{Name: "psjf", Summary: "reference: by the work of the whole job, the least first, with sizes that only a simulation knows", Paper: srptPaper,
			Params: reference.KnownParams(), New: reference.ReadPSJF},
		{Name: "reverse", Summary: "the inverse of Johnson's rule, by priority first: the worst order, for comparison", Paper: tummPaper,
			New: func(*sched.Kit) (sched.Order, error) { return reference.NewReverse(), nil }},
		{Name: "tags", Summary: "by size: slots in partitions, jobs move on when their tasks have taken a set time", Paper: tagsPaper,
			Params: tyrex.StaticParams(), New: tyrex.ReadStatic},
		{Name: "tags-dynamic", Summary: "by size: slots in partitions, the largest jobs move on where sizes vary much", Paper: tagsPaper,
			Params: tyrex.DynamicParams(), New: tyrex.ReadDynamic},
		{Name: "sita", Summary: "reference: size partitions by sizes that only a simulation knows", Paper: sitaPaper,
			Params: tyrex.SITAParams(), New: tyrex.ReadSITA},
		{Name: "tags-classic", Summary: "reference: tags that kills the jobs that it moves, and starts them again", Paper: classicPaper,
			Params: tyrex.StaticParams(), New: tyrex.ReadClassic},
	}
}

// placeParts returns the parts that choose a task for a node.
func placeParts() []sched.Part[sched.Place] {
	return []sched.Part[sched.Place]{
		{Name: "greedy", Summary: "the closest data at hand: node, rack, anywhere; never waits",
			Params: hadoop.GreedyParams(), New: hadoop.ReadGreedy},
		{Name: "delay-dynamic", Summary: "waits for a close node as long as maps have waited on average", Paper: modfairPaper,
			Params: modfair.DynamicParams(), New: modfair.ReadDynamic},
		{Name: "delay", Summary: "waits a fixed time for a slot near the data",
			Params: hadoop.DelayParams(), New: hadoop.ReadDelay},
		{Name: "missed", Summary: "lets free slots pass while the data is elsewhere, by count",
			Params: hadoop.MissedParams(), New: hadoop.ReadMissed},
		{Name: "preschedule", Summary: "delay, and local maps also where a node runs its part of the load", Paper: dynamicmr.Paper,
			// The part wraps delay and takes its parameters, too.
			Params: slices.Concat(dynamicmr.PrescheduleParams(), hadoop.DelayParams()), New: dynamicmr.ReadPreschedule(hadoop.ReadDelay)},
	}
}

// speculateParts returns the parts that choose tasks to copy.
func speculateParts() []sched.Part[sched.Speculate] {
	return []sched.Part[sched.Speculate]{
		{Name: "none", Summary: "no copies of running tasks",
			New: func(*sched.Kit) (sched.Speculate, error) { return &hadoop.None{}, nil }},
		{Name: "gap", Summary: "copies tasks whose progress is far behind the mean",
			Params: hadoop.GapParams(), New: hadoop.ReadGap},
		{Name: "late", Summary: "copies the slow task that would end last, on nodes that are not slow",
			Params: hadoop.LateParams(), New: hadoop.ReadLate},
		{Name: "sepb", Summary: "late, where nothing that waits could use the slot", Paper: dynamicmr.Paper,
			Params: slices.Concat(dynamicmr.SEPBParams(), hadoop.LateParams()), New: dynamicmr.ReadSEPB(hadoop.ReadLate)},
	}
}

// builtin makes the registry once, and not before somebody names a policy, because many commands need
// none. An error is a mistake in the tables above, such as a name used twice, which a test of this
// package finds.
var builtin = sync.OnceValue(func() *sched.Registry {
	g, err := sched.NewRegistry(sched.Table{
		Slots: slotParts(), Order: orderParts(), Place: placeParts(), Speculate: speculateParts(), Policies: rows(),
	})
	if err != nil {
		panic("policies: " + err.Error())
	}
	return g
})

// Builtin returns the registry of the built-in parts and policies.
func Builtin() *sched.Registry { return builtin() }

// Parse builds a built-in policy with all parameters at their defaults. See
// sched.Registry.Build for spec.
func Parse(spec string) (sched.Policy, error) { return Build(spec, sched.Options{}) }

// Build builds a built-in policy.
func Build(spec string, opt sched.Options) (sched.Policy, error) { return builtin().Build(spec, opt) }

// Names returns the names of the built-in policies.
func Names() []string { return builtin().Names() }

// Describe returns the parts and parameters of a built-in policy.
func Describe(spec string) (sched.Info, error) { return builtin().Describe(spec) }
