package repro

import (
	"context"
	"fmt"

	"github.com/slotwise/slotwise/internal/sim"
	"github.com/slotwise/slotwise/internal/workload"
)

// dynWorld is a set of assumptions about the cluster and where its data is.
type dynWorld struct {
	name     string
	replicas int
	maps     int      // slots of a node
	settings []string // of the policies
	contend  bool
}

// dynWorlds vary one assumption after the other.
var dynWorlds = []dynWorld{
	{"as assumed: 3 replicas, 4 map slots a node, waits as measured", 3, 4, nil, false},
	{"1 replica", 1, 4, nil, false},
	{"waits of 5 s", 3, 4, []string{"node-wait", "5s", "rack-wait", "5s"}, false},
	{"waits of 20 s", 3, 4, []string{"node-wait", "20s", "rack-wait", "20s"}, false},
	{"1 replica, waits of 20 s", 1, 4, []string{"node-wait", "20s", "rack-wait", "20s"}, false},
	{"12 map slots a node", 3, 12, nil, false},
	{"maps hinder each other as Grep's", 3, 4, nil, true},
	{"only slots above the line (P1), no reduce slots (P2)", 3, 4, []string{"preschedule-max", "0"}, false},
	{"so, and 12 map slots a node", 3, 12, []string{"preschedule-max", "0"}, false},
	{"at most 4 reduce slots held by P2", 3, 4, []string{"preschedule-max", "4"}, false},
}

// dynSeen is what prescheduling is judged by, without and with it.
type dynSeen struct{ local, unbalanced, unfair, unfairAll [2]float64 }

// dynSee plays batches of some sizes in a world, without and with prescheduling, and
// returns means.
func dynSee(ctx context.Context, o Options, x *dynWorld, v variant, sizes []int) (s dynSeen, err error) {
	for _, n := range sizes {
		jobs, err := dynJobs(o, n)
		if err != nil {
			return s, err
		}
		if x.contend {
			jobs = contended(jobs, o.Seed)
		}
		v := v.with(v.name, x.settings...)
		setups := dynRuns(jobs, v.with("", "preschedule", "false"), v.with("", "preschedule", "true"))
		for i := range setups {
			setups[i].cluster = withSlots(setups[i].cluster, x.maps, 2)
			if x.contend {
				setups[i].cluster = withDisks(setups[i].cluster)
			}
			setups[i].model.Replicas = x.replicas
		}
		runs, err := play(ctx, o, setups)
		if err != nil {
			return s, err
		}
		part := 1 / float64(len(sizes))
		for i := range runs {
			w := runs[i].watch
			s.local[i] += part * localShare(runs[i])
			s.unbalanced[i] += part * w.unbalanced.Value()
			s.unfair[i] += part * w.unfair.Value()
			s.unfairAll[i] += part * w.unfairAll.Value()
		}
	}
	return s, nil
}

// dynWhyFair plays Figure 4 in other worlds, and counts pools in the other way.
func dynWhyFair(ctx context.Context, o Options, r *Report) error {
	t := newTable("PreScheduling in other worlds, means over batches: without and with", "world", "policy", "UnbalancedDegree", "with", "UnfairnessDegree, pools with work", "with",
		"all pools of the batch", "with")
	fairer, worse, changes := "", "", ""
	for i := range dynWorlds[:pick(o, 2, len(dynWorlds))] {
		x := &dynWorlds[i]
		for _, v := range []variant{dynNoDHSA, dynPI, dynPD} {
			s, err := dynSee(ctx, o, x, v, pick(o, []int{2, 5}, []int{2, 3, 4, 5, 6, 7, 8, 9, 10}))
			if err != nil {
				return err
			}
			t.add(x.name, v.name, number(s.unbalanced[0], 2), number(s.unbalanced[1], 2), number(s.unfair[0], 1), number(s.unfair[1], 1), number(s.unfairAll[0], 1), number(s.unfairAll[1], 1))
			if v.name == dynPI.name {
				changes = joined(changes, fmt.Sprintf("%s %.0f to %.0f", x.name, s.unfair[0], s.unfair[1]))
			}
			if s.unfair[1] < s.unfair[0] {
				fairer = joined(fairer, x.name+" ("+v.name+")")
			}
			if s.unbalanced[1] > s.unbalanced[0] {
				worse = joined(worse, x.name+" ("+v.name+")")
			}
		}
	}
	r.explain(4, because("PreScheduling gives jobs with data here a slot above the line, out of turn: whether that is to the good of those that waits for data have put behind depends on how long "+
		"these are, on how near the data is, and on whether there are slots above the line at all. Demand is above all slots in these batches, so that there mostly are none; and whether a "+
		"pool that has ended counts is not said", []Table{*t}, "Fairer with it in: %s. Balance worse with it in: %s. Under PI the UnfairnessDegree goes, by world: %s. So slots above the line (P1) change "+
		"nothing where P2 may hold no reduce slot, and it is P2 that makes PI less fair, the more the more reduce slots it may hold: its maps come before reduces, and pools whose jobs still map "+
		"have more of all slots", orNone(fairer), orNone(worse), changes))
	return nil
}

// dynWhyLocality plays Figure 3 in other worlds.
func dynWhyLocality(ctx context.Context, o Options, r *Report) error {
	t := newTable("Maps that start where their data is, means over batches: without and with PreScheduling", "world", "fair", "with", "PI", "with", "PD", "with")
	better := ""
	for i := range dynWorlds[:pick(o, 2, len(dynWorlds))] {
		x := &dynWorlds[i]
		row := []string{x.name}
		for _, v := range []variant{dynNoDHSA, dynPI, dynPD} {
			s, err := dynSee(ctx, o, x, v, pick(o, []int{5}, []int{5, 10, 20}))
			if err != nil {
				return err
			}
			row = append(row, share(s.local[0]), share(s.local[1]))
			if s.local[1] > s.local[0] {
				better = joined(better, x.name+" ("+v.name+")")
			}
		}
		t.add(row...)
	}
	r.explain(2, because("Waits for data leave little to gain with 3 replicas, and where they are short or the data is far there is more; under PD a local map that would go to a reduce slot goes there by "+
		"Case 3 anyway", []Table{*t}, "More local maps with it in: %s", orNone(better)))
	return nil
}

// dynWhySEPB varies the stragglers, how many jobs are checked and the batch.
func dynWhySEPB(ctx context.Context, o Options, r *Report) error {
	variants := []variant{dynCopies()[1], {"SEPB, a tenth of the jobs checked", "dynamicmr-pi", []string{"sepb-cap", "1", "sepb-fraction", "0.1"}}, dynCopies()[3],
		dynCopies()[1].with("LATE, late reduces", "early-reduces", "off"), dynCopies()[3].with("SEPB, late reduces", "early-reduces", "off")}
	t := newTable("Mean makespan (s) by stragglers", append([]string{"attempts that straggle", "times as long", "jobs"}, dynColumns("", variants)[1:]...)...)
	seeds, ahead := pick(o, 3, 20), ""
	for _, s := range pick(o, []sim.Straggler{{Probability: 0.02, Factor: 5}}, []sim.Straggler{{Probability: 0.02, Factor: 5}, {Probability: 0.1, Factor: 5},
		{Probability: 0.02, Factor: 20}, {Probability: 0.1, Factor: 20}, {Probability: 0.3, Factor: 5}}) {
		for _, n := range []int{5, 10} {
			spans, err := dynStraggling(ctx, o, n, seeds, s, variants)
			if err != nil {
				return err
			}
			row := []string{share(s.Probability), number(s.Factor, 0), fmt.Sprint(n)}
			for _, x := range spans {
				row = append(row, number(x, 1))
			}
			t.add(row...)
			if spans[2] <= spans[0] {
				ahead = joined(ahead, fmt.Sprintf("%s of %g times, %d jobs", share(s.Probability), s.Factor, n))
			}
		}
	}
	r.explain(1, because("SEPB saves slots that copies would take from pending tasks, and pays at the end, when stragglers that could have been copied before are what is left: which is more depends on "+
		"the stragglers, which the paper does not give", []Table{*t}, "No slower than LATE with: %s. The differences are within a few percent either way: with one batch to its end the "+
		"last stragglers weigh as much as what is saved before", orNone(ahead)))
	return nil
}

// dynStraggling are mean makespans of a batch with stragglers, by variant.
func dynStraggling(ctx context.Context, o Options, n any, seeds int, s sim.Straggler, variants []variant) ([]float64, error) {
	var jobs []workload.Job
	jobs, err := dynJobs(o, n)
	if err != nil {
		return nil, err
	}
	var setups []setup
	for range seeds {
		setups = append(setups, dynRuns(jobs, variants...)...)
	}
	for i := range setups {
		setups[i].model.Straggler, setups[i].seed = s, uint64(i/len(variants))
	}
	runs, err := play(ctx, o, setups)
	if err != nil {
		return nil, err
	}
	spans := make([]float64, len(variants))
	for i, run := range runs {
		spans[i%len(variants)] += run.Makespan.Seconds() / float64(seeds)
	}
	return spans, nil
}
