package repro

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/metrics"
	"github.com/slotwise/slotwise/internal/sim"
	"github.com/slotwise/slotwise/internal/workload"
)

// modfairExperiments are those of the modified fair scheduler, in the order of
// the paper.
func modfairExperiments() []Experiment {
	return []Experiment{
		{ID: "modfair/fig4-5", Title: "FIFO against fair sharing: the worked example",
			Setup: []string{"3 map and 3 reduce slots; three jobs of 3 maps and 3 reduces at once; a task takes 20 s; " +
				"reduces start after all maps of their job"},
			Assumptions: []string{"A finished task is reported at once, since the example has no heartbeats"},
			Run:         runModfairExample},
		{ID: "modfair/table5-6", Title: "Experiment A: jobs of one size", Setup: modfairSetup("4 map and 1 reduce slot a node; " +
			"jobs of 6, 10 or 18 maps, 5, 10 or 15 of them"), Assumptions: modfairAssumptions(), Run: runModfairA},
		{ID: "modfair/table7-8", Title: "Experiment B: jobs of five sizes", Setup: modfairSetup("2 map and 1 reduce slot a node; " +
			"jobs of 6, 10, 16, 21 and 25 maps, 1, 2 or 3 of each"), Assumptions: modfairAssumptions(), Run: runModfairB},
		{ID: "modfair/mechanisms", Title: "Which mechanism does what: Experiments A and B with each switched off",
			Setup:       modfairSetup("the largest test of either experiment: 15 jobs of 18 maps (A), 15 of five sizes (B)"),
			Assumptions: modfairAssumptions(), Run: runModfairMechanisms},
	}
}

func modfairSetup(test string) []string {
	return []string{
		"8 virtual machines with two cores in 2 racks, all of them workers; Hadoop 1.2.1",
		test,
		"WordCount on blocks of 64 MB, one map each, and 1 reduce; replication 1; three pools of equal weight, " +
			"at least 3 and at most 6 maps each, jobs spread evenly over them; delay 3 s",
		"No preemption and no speculation; reduces start after all maps",
	}
}

func modfairAssumptions() []string {
	return []string{
		fmt.Sprintf("A map needs %v of a core. The paper gives no task times; this is what makes FIFO's 5 jobs of Table 7 take "+
			"the 513.6 s printed there, over shuffled orders of submission. Every other number is predicted", mfMapCPU),
		"All jobs are submitted at once, the i-th to pool i mod 3, in order of size unless said otherwise; " +
			"the paper says only that they are spread evenly",
		"Disks of 60 MB/s, NICs and the link between the two buildings of 100 Mb/s, WordCount's map output 10 % of its input, " +
			"its reduce 0.1 s of a core for each MB; none is given, all are small beside the maps' time",
		"Placement of blocks is not given. \"uniform\" spreads them at random; \"one node\" has all on the master, which is a " +
			"worker too: that is what HDFS does with one replica of a file written there",
		"Whether the maximum of 6 bounds what a pool runs (\"cap\") or only what it is promised, so that idle slots can be " +
			"borrowed beyond it (\"promise\"), is not said. The original scheduler always has it as a cap, as Hadoop does",
		"Two cores are given; 3 or 4 maps on them slow each other down. \"A core for each slot\" is the reading in which they do not",
		"Heartbeats every 300 ms, the least of Hadoop 1.2.1, unless said otherwise",
	}
}

// mfMapCPU is the processor time of a map; see modfairAssumptions.
const mfMapCPU = 120 * time.Second

const mib = 1 << 20

// mfTest is a test of the paper in one reading.
type mfTest struct {
	slots int   // for maps, of a node
	sizes []int // maps of the jobs, in the order of their submission
	mfReading
	// holders is how many nodes hold the blocks, in turn; 0 is as the reading says.
	holders int
}

// mfPolicy is a scheduler with its settings, in pairs.
type mfPolicy struct {
	spec string
	set  []string
}

// The schedulers that the paper compares. All place tasks as Hadoop 1.2.1 does.
func mfFIFO() mfPolicy {
	return mfPolicy{"fifo,speculate=none", []string{"profile", "hadoop-1.2"}}
}

func mfOriginal() mfPolicy {
	pools := ""
	for i := range mfPools {
		pools += fmt.Sprintf("pool p%d minMaps=3 maxMaps=6;", i+1)
	}
	return mfPolicy{"fair,speculate=none", []string{"profile", "hadoop-1.2", "node-wait", "3s", "rack-wait", "3s", "pools", pools}}
}

// mfModified is the paper's scheduler with the maximum read as a cap or a promise.
func mfModified(mode string, set ...string) mfPolicy {
	return mfPolicy{"modfair,speculate=none", slices.Concat([]string{"fill", "balance", "wait-until", "heartbeat",
		"off-rack", "by-rack", "max-mode", mfModes[mode]}, set)}
}

// mfModes are the readings of the maximum, by the words of the report.
var mfModes = map[string]string{"cap": "hard", "promise": "entitlement"}

const mfPools = 3

func (t *mfTest) jobs() []workload.Job {
	jobs := make([]workload.Job, len(t.sizes))
	for i, n := range t.sizes {
		j := &jobs[i]
		*j = workload.Job{Name: fmt.Sprint("j", i+1), Pool: fmt.Sprint("p", i%mfPools+1), SlowStart: 1,
			Maps: make([]workload.Task, n)}
		for m := range j.Maps {
			j.Maps[m] = workload.Task{Input: 64 * mib, Output: 64 * mib / 10, CPU: mfMapCPU}
			switch {
			case t.holders > 0:
				j.Maps[m].Hosts = []string{fmt.Sprint("node", m%t.holders+1)}
			case t.oneNode:
				j.Maps[m].Hosts = []string{"node1"}
			}
		}
		out := int64(n) * 64 * mib / 10
		j.Reduces = []workload.Task{{Input: out, Output: out, CPU: time.Duration(out * 100)}}
	}
	return jobs
}

func (t *mfTest) config(p mfPolicy, seed uint64) sim.Config {
	const hundredMbit = 100e6 / 8
	cores := 2
	if t.own {
		cores = t.slots
	}
	return sim.Config{Policy: policy(p.spec, seed, p.set...), Jobs: t.jobs(), Seed: seed, Details: true,
		Cluster: workload.Cluster{Racks: 2, Heartbeat: t.beat, RackUplink: hundredMbit,
			Groups: []workload.NodeGroup{{Name: "node", Count: 8, Cores: cores, MapSlots: t.slots, ReduceSlots: 1,
				DiskBandwidth: 60e6, NICBandwidth: hundredMbit}}},
		Model: sim.ModelConfig{Replicas: 1, ProgressEvery: 3 * time.Second}}
}

// mfOutcome is what the paper measures, a value for each seed.
type mfOutcome struct{ turnaround, locality, makespan []float64 }

func (o *mfOutcome) time() float64  { return mean(o.turnaround) }
func (o *mfOutcome) local() float64 { return mean(o.locality) }

// mfCase is a test under a scheduler.
type mfCase struct {
	mfTest
	mfPolicy
}

// runModfair runs each case with each of so many seeds. The order of the jobs is
// the case's, unless shuffled asks for a new one with each seed.
func runModfair(ctx context.Context, o Options, seeds int, cases []mfCase) ([]mfOutcome, error) {
	var configs []sim.Config
	for i := range cases {
		for s := range seeds {
			configs = append(configs, cases[i].config(cases[i].mfPolicy, o.Seed+uint64(s)))
		}
	}
	results, err := runAll(ctx, configs)
	if err != nil {
		return nil, err
	}
	out := make([]mfOutcome, len(cases))
	for i, r := range results {
		c := &out[i/seeds]
		sum := time.Duration(0)
		for _, j := range r.Jobs {
			sum += j.Ended - j.Submitted
		}
		maps := int64(0)
		for _, n := range r.Maps {
			maps += n
		}
		c.turnaround = append(c.turnaround, sum.Seconds()/float64(len(r.Jobs)))
		c.makespan = append(c.makespan, r.Makespan.Seconds())
		c.locality = append(c.locality, float64(r.Maps[cluster.NODE])/float64(maps))
	}
	return out, nil
}

// repeat returns n jobs of each size, size after size.
func repeat(n int, sizes ...int) (all []int) {
	for _, s := range sizes {
		all = append(all, slices.Repeat([]int{s}, n)...)
	}
	return all
}

// interval95 is how far values of seeds lie apart: a 95 % confidence interval.
func interval95(values []float64, digits int) string {
	e := metrics.Confidence(values, 0.95)
	return number(e.Mean, digits) + " ± " + number(e.Half, digits)
}

// runModfairExample makes Figs. 4 and 5.
func runModfairExample(ctx context.Context, o Options) (*Report, error) {
	names, specs := []string{"FIFO", "Fair"}, []string{"fifo,speculate=none", "fair,speculate=none,place=greedy"}
	tasks := slices.Repeat([]workload.Task{{Duration: 20 * time.Second}}, 3)
	var configs []sim.Config
	for _, spec := range specs {
		var jobs []workload.Job
		for i := range mfPools {
			jobs = append(jobs, workload.Job{Name: fmt.Sprint("Job", i+1), Pool: fmt.Sprint("P", i+1), Maps: tasks, Reduces: tasks, SlowStart: 1})
		}
		configs = append(configs, sim.Config{Policy: policy(spec, o.Seed), Jobs: jobs, Seed: o.Seed, Details: true,
			Cluster: workload.Cluster{Groups: []workload.NodeGroup{{Count: 1, MapSlots: 3, ReduceSlots: 3}}},
			Model:   sim.ModelConfig{OutOfBand: true, ShuffleShare: -1}})
	}
	results, err := runAll(ctx, configs)
	if err != nil {
		return nil, err
	}
	r := &Report{}
	t := r.table("When jobs end (s)", "scheduler", "Job1", "Job2", "Job3", "mean", "mean in paper")
	means, ends := []string{"60.0", "120.0"}, [][]string{{"40.0", "60.0", "80.0"}, {"120.0", "120.0", "120.0"}}
	same := true
	for i, res := range results {
		row, sum := []string{names[i]}, time.Duration(0)
		for k, j := range res.Jobs {
			row = append(row, seconds(j.Ended))
			sum += j.Ended
			same = same && seconds(j.Ended) == ends[i][k]
		}
		t.add(append(row, seconds(sum/mfPools), means[i])...)
	}
	r.claim(bounded(same, "the times of the example"), "FIFO ends jobs one after the other, fair sharing starts all at once and ends all later",
		"both timelines to the second: 40, 60 and 80 s against three times 120 s")
	return r, nil
}
