package repro

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/sim"
	"github.com/slotwise/slotwise/internal/workload"
)

// Case 2 of the TuMM paper is the one measurement there is of tasks that hinder
// each other: a map of Grep takes 18.5 s with one map slot a node and 23.1 s with
// two.
const (
	grepAlone  = 18.5
	grepBeside = 23.1
)

// sharedPart is the part of a map's time alone that it spends on a resource of
// which the node has one. In a closed network of that resource, shared equally,
// and of processors for all, n tasks take (mean value analysis)
//
//	R(1) = D + C,  R(2) = D·(1 + D/R(1)) + C,  so  D = √(R(1)·(R(2) − R(1)))
//
// whatever the distributions are. The model calls the resource the disk; the
// paper does not say what it was.
func sharedPart() float64 { return math.Sqrt(grepAlone*(grepBeside-grepAlone)) / grepAlone }

// diskRate is the speed of a disk in the experiments with contention. Only times
// matter: a map's input is what it reads in its time.
const diskRate = 100e6

// unlike is how much the times of maps vary, to either side. Equal maps would
// march in step, always reading together and computing together, which hinders
// them twice as much as was measured.
const unlike = 0.1

// contended makes maps of given duration into ones that take as long alone and
// hinder each other as Grep's do. Reduces stay as they are: the paper's Table 1
// has them wait.
func contended(jobs []workload.Job, seed uint64) []workload.Job {
	return contendedBy(sharedPart(), jobs, seed)
}

// contendedBy does so with that part of the time on the shared resource.
func contendedBy(part float64, jobs []workload.Job, seed uint64) []workload.Job {
	g := rand.New(rand.NewPCG(seed, 0x756e6c696b65)) // "unlike"
	for i := range jobs {
		maps := make([]workload.Task, len(jobs[i].Maps))
		for m, t := range jobs[i].Maps {
			s := t.Duration.Seconds() * (1 + unlike*(2*g.Float64()-1))
			t.Input = int64(s * part * diskRate)
			t.CPU = time.Duration(s * (1 - part) * float64(time.Second))
			t.Duration = 0
			maps[m] = t
		}
		jobs[i].Maps = maps
	}
	return jobs
}

// reducesToo makes reduces hinder each other as Grep's maps do: the part of the
// time that a map spends reading they spend writing.
func reducesToo(jobs []workload.Job) []workload.Job { return reducesBy(sharedPart(), jobs) }

// reducesTimes makes the times of reduces that many times as long.
func reducesTimes(factor float64, jobs []workload.Job) []workload.Job {
	for i := range jobs {
		reduces := slices.Clone(jobs[i].Reduces)
		for n := range reduces {
			reduces[n].Duration = time.Duration(factor * float64(reduces[n].Duration))
		}
		jobs[i].Reduces = reduces
	}
	return jobs
}

// unlikeTimes makes given times vary to either side.
func unlikeTimes(spread float64, jobs []workload.Job, seed uint64) []workload.Job {
	g := rand.New(rand.NewPCG(seed, 0x756e6c696b65))
	for i := range jobs {
		for _, tasks := range []*[]workload.Task{&jobs[i].Maps, &jobs[i].Reduces} {
			own := slices.Clone(*tasks)
			for n := range own {
				own[n].Duration = time.Duration(float64(own[n].Duration) * (1 + spread*(2*g.Float64()-1)))
			}
			*tasks = own
		}
	}
	return jobs
}

// reducesBy does as reducesToo with that part of the time on the shared resource.
func reducesBy(part float64, jobs []workload.Job) []workload.Job {
	for i := range jobs {
		reduces := make([]workload.Task, len(jobs[i].Reduces))
		for n, t := range jobs[i].Reduces {
			s := t.Duration.Seconds()
			t.Input, t.Output = 0, int64(s*part*diskRate)
			t.CPU = time.Duration(s * (1 - part) * float64(time.Second))
			t.Duration = 0
			reduces[n] = t
		}
		jobs[i].Reduces = reduces
	}
	return jobs
}

// withDisks gives each node a disk as fast as its processors, and a processor for
// each slot: speeds are those of a slot, and what tasks hinder each other at is the
// disk alone.
func withDisks(c workload.Cluster) workload.Cluster {
	c.Groups = append([]workload.NodeGroup(nil), c.Groups...)
	for i := range c.Groups {
		g := &c.Groups[i]
		g.DiskBandwidth = diskRate * max(g.Speed, 1e-9)
		g.Cores = max(g.Cores, g.MapSlots+g.ReduceSlots)
	}
	return c
}

// withSlots gives each node so many slots of each kind.
func withSlots(c workload.Cluster, maps, reduces int) workload.Cluster {
	c.Groups = append([]workload.NodeGroup(nil), c.Groups...)
	for i := range c.Groups {
		c.Groups[i].MapSlots, c.Groups[i].ReduceSlots = maps, reduces
	}
	return c
}

// slotsOf is how many slots of both kinds together each node has.
func slotsOf(c workload.Cluster) (slots []int) {
	for _, g := range c.Groups {
		slots = append(slots, slices.Repeat([]int{g.MapSlots + g.ReduceSlots}, g.Count)...)
	}
	return slots
}

// paperCluster returns the cluster of a name, which must be there.
func paperCluster(name string) workload.Cluster {
	for _, c := range workload.PaperClusters() {
		if c.Name == name {
			return c.Cluster
		}
	}
	panic("repro: no cluster " + name)
}

// paperJobs makes the jobs of a generator, which must be there.
func paperJobs(name string, seed uint64) ([]workload.Job, error) {
	g, ok := workload.FindGenerator(name)
	if !ok {
		panic("repro: no generator " + name)
	}
	return g.Source.Jobs(seed)
}

// setup is one run to be made.
type setup struct {
	cluster  workload.Cluster
	jobs     []workload.Job
	policy   string
	settings []string
	model    sim.ModelConfig
	// seed is added to that of the experiment, for runs that differ by luck.
	seed uint64
}

// outcome is one run that was made.
type outcome struct {
	*sim.Result
	watch *watch
	slots int
}

// use is the part of all slots that was occupied, over the makespan.
func (r *outcome) use() float64 {
	return r.watch.slotSeconds() / (float64(r.slots) * r.Makespan.Seconds())
}

// play makes runs in parallel and watches them.
func play(ctx context.Context, o Options, setups []setup) ([]outcome, error) {
	configs, out := make([]sim.Config, len(setups)), make([]outcome, len(setups))
	for i, s := range setups {
		slots := slotsOf(s.cluster)
		out[i].watch = newWatch(s.jobs, slots)
		for _, n := range slots {
			out[i].slots += n
		}
		configs[i] = sim.Config{Cluster: s.cluster, Jobs: s.jobs, Policy: policy(s.policy, o.Seed, s.settings...),
			Seed: o.Seed + s.seed, Model: s.model, Details: true, Observer: out[i].watch}
	}
	results, err := runAll(ctx, configs)
	for i := range results {
		out[i].Result = results[i]
	}
	return out, err
}
