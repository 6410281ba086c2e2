package repro

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/workload"
)

// This file makes clusters and jobs for the experiments on slots, TuMM's and
// DynamicMR's: how many tasks run on a node, and how much they slow each other down.

// Case 2 of the TuMM paper has the only measurement of tasks that slow each other
// down: the time of a Grep map in seconds with one map slot per node, and with two.
const (
	grepAlone  = 18.5
	grepBeside = 23.1
)

// sharedPart returns the share of a map's time alone that it spends on a resource
// of which the node has one. In a closed network of that resource, shared equally,
// and a processor for each task, n tasks take (mean value analysis)
//
//	R(1) = D + C,  R(2) = D·(1 + D/R(1)) + C,  so  D = √(R(1)·(R(2) − R(1)))
//
// whatever the distributions are. The simulation uses the disk as this resource;
// the paper does not say which one it was.
func sharedPart() float64 { return math.Sqrt(grepAlone*(grepBeside-grepAlone)) / grepAlone }

// diskRate is the speed of a disk in bytes per second in experiments with
// contention. Its value does not matter: the input of a map is computed from the
// time that the map spends reading.
const diskRate = 100e6

// mapVariation is the share by which the times of maps vary to either side. Equal
// maps would run in step, all reading and then all computing, and would slow each
// other down twice as much as was measured.
const mapVariation = 0.1

// variationStream is the second half of the seeds for varied times.
const variationStream = 0x756e6c696b65

// contended replaces the given durations of maps by reading and computing, so that
// maps take the same time alone and slow each other down as Grep's do. Reduces keep
// their durations, because in the paper's Table 1 they wait.
func contended(jobs []workload.Job, seed uint64) []workload.Job {
	return contendedBy(sharedPart(), jobs, seed)
}

// contendedBy does the same with another share of the time on the shared resource.
// It replaces the slices of maps and leaves the tasks in them unchanged.
func contendedBy(part float64, jobs []workload.Job, seed uint64) []workload.Job {
	// A draw for each map in the order of the jobs, and none for anything else: runs that differ in the slots
	// or in the scheduler have the very same maps.
	g := rand.New(rand.NewPCG(seed, variationStream))
	for i := range jobs {
		maps := slices.Clone(jobs[i].Maps)
		for m := range maps {
			s := maps[m].Duration.Seconds() * (1 + mapVariation*(2*g.Float64()-1))
			// Alone, a disk of speed 1 reads the input in part of the time, and a core computes for the rest.
			maps[m].Input = int64(s * part * diskRate)
			maps[m].CPU = time.Duration(s * (1 - part) * float64(time.Second))
			// A task with a duration takes it, whatever else runs on its node.
			maps[m].Duration = 0
		}
		jobs[i].Maps = maps
	}
	return jobs
}

// contendedReduces makes reduces slow each other down: they spend this share of
// their time writing to the shared resource.
func contendedReduces(part float64, jobs []workload.Job) []workload.Job {
	return eachReduce(jobs, func(t *workload.Task) {
		s := t.Duration.Seconds()
		// No input: the shuffle would add to the time that the paper measured as a whole.
		t.Input, t.Output = 0, int64(s*part*diskRate)
		t.CPU = time.Duration(s * (1 - part) * float64(time.Second))
		t.Duration = 0
	})
}

// stretchedReduces multiplies the durations of reduces.
func stretchedReduces(factor float64, jobs []workload.Job) []workload.Job {
	return eachReduce(jobs, func(t *workload.Task) { t.Duration = time.Duration(factor * float64(t.Duration)) })
}

// eachReduce replaces the slices of reduces by changed copies.
func eachReduce(jobs []workload.Job, change func(*workload.Task)) []workload.Job {
	for i := range jobs {
		jobs[i].Reduces = slices.Clone(jobs[i].Reduces)
		for n := range jobs[i].Reduces {
			change(&jobs[i].Reduces[n])
		}
	}
	return jobs
}

// varied makes given durations of all tasks vary by a share to either side.
func varied(spread float64, jobs []workload.Job, seed uint64) []workload.Job {
	g := rand.New(rand.NewPCG(seed, variationStream))
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

// withDisks returns the cluster with a disk per node that is as fast as the node's
// processors, and with a processor for each slot. Node speeds are speeds of slots,
// so tasks slow each other down at the disk alone.
func withDisks(c workload.Cluster) workload.Cluster {
	return eachGroup(c, func(g *workload.NodeGroup) {
		// Never 0, which means no limit. A disk as fast as its node keeps the part of the time that a task
		// spends there the same on all nodes.
		g.DiskBandwidth = diskRate * max(g.Speed, 1e-9)
		g.Cores = max(g.Cores, g.MapSlots+g.ReduceSlots)
	})
}

// withSlots returns the cluster with other numbers of slots per node.
func withSlots(c workload.Cluster, maps, reduces int) workload.Cluster {
	return eachGroup(c, func(g *workload.NodeGroup) { g.MapSlots, g.ReduceSlots = maps, reduces })
}

// eachGroup returns a copy of the cluster with changed groups of nodes.
func eachGroup(c workload.Cluster, change func(*workload.NodeGroup)) workload.Cluster {
	c.Groups = slices.Clone(c.Groups)
	for i := range c.Groups {
		change(&c.Groups[i])
	}
	return c
}
