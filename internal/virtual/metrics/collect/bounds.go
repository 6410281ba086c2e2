package collect

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/job"
)

// Bounds are lower bounds of the makespan on a cluster, in seconds, for any
// policy with any knowledge. They count every slot for both kinds of tasks, so
// they also hold for policies that lend slots. Where tasks compete for processors
// (sim.ModelConfig.Contention) a machine with more processors than slots counts by its
// processors, so that they hold for policies that run more tasks than there are slots.
// They ignore heartbeats, placement and differences between nodes. Report.Check says
// which runs they do not hold for.
type Bounds struct {
	// Work assumes that all slots are busy: max over the arrivals a of a −
	// first + Σ work of jobs submitted from a on / Σ slots · speed.
	Work float64 `json:"work_s"`
	// Path is the longest path through one job or a chain of jobs: the longest
	// map, then the part of a reduce that follows the last map, on the fastest
	// node.
	Path float64 `json:"path_s"`
}

// Best returns the larger of the bounds.
func (b Bounds) Best() float64 { return max(b.Work, b.Path) }

// Check compares a run with its lower bound. No policy can be below it, so a run that is
// shows an error of the bound or of the simulator, and its other numbers are not to be
// trusted either. The bounds say nothing about a run whose jobs did not all succeed, or about one
// in which a copy of a task was faster than the task, because such a run did
// less work; and in one with attempts that cost nothing (Free) the slots are no limit.
func (r *Report) Check() error {
	least := r.Bounds.Best()
	if r.Jobs.Succeeded < r.Jobs.All || r.Waste.Won > 0 || r.Free > 0 || r.Makespan >= least*(1-1e-6) {
		return nil
	}
	return fmt.Errorf("the makespan of %.3f s is below the lower bound of %.3f s: this is an error of slotwise, please report it with the inputs",
		r.Makespan, least)
}

// FreeWarning returns a sentence about a policy with attempts that cost nothing, else an
// empty string.
func (r *Report) FreeWarning() string {
	if r.Free == 0 {
		return ""
	}
	return fmt.Sprintf("policy %s started %d attempts on nodes whose slots were all in use, and in this world they slow nothing down: "+
		"its times are too good, and it is not compared; the world's contention: true makes tasks compete for processors", r.Policy, r.Free)
}

// best holds the maximum of each resource that a task can get in the cluster.
type best struct {
	speed, disk, capacity float64
	share                 float64 // of a reduce, that can overlap with maps
	startup               float64
}

// BoundsOf computes the bounds for jobs on a cluster under a model.
func BoundsOf(c *workload.Cluster, jobs []workload.Job, m sim.ModelConfig) Bounds {
	b := bestOf(c, &m)
	if len(jobs) == 0 || b.capacity == 0 {
		return Bounds{}
	}
	order := make([]int, len(jobs))
	for i := range order {
		order[i] = i
	}
	// Jobs of a file need not be in the order of their submissions, and jobs of a chain may state 0.
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(jobs[x].Submit, jobs[y].Submit) })
	first := jobs[order[0]].Submit.Seconds()
	var out Bounds
	rest, paths := 0.0, make([]float64, len(jobs))
	// From the last arrival back, rest is the work of all jobs that come at or after this one: this work
	// cannot begin before, so each arrival gives a bound, and one that follows a quiet hour may give the
	// largest.
	for _, i := range slices.Backward(order) {
		tasks := jobs[i].Tasks()
		paths[i] = b.path(tasks)
		rest += b.work(tasks)
		out.Work = max(out.Work, jobs[i].Submit.Seconds()-first+rest/b.capacity)
	}
	end := make([]float64, len(jobs))
	for i := range jobs { // a job comes after jobs before it only
		begin := jobs[i].Submit.Seconds()
		for _, p := range jobs[i].After {
			// A reference to itself or to a later job is an error that the workload's check reports. Here
			// it must only not lead outside the list.
			if p >= 0 && p < i {
				begin = max(begin, end[p])
			}
		}
		end[i] = begin + paths[i]
		out.Path = max(out.Path, end[i]-first)
	}
	return out
}

// bestOf finds the maxima of a cluster.
func bestOf(c *workload.Cluster, m *sim.ModelConfig) best {
	b := best{share: m.ShuffleShare, startup: m.TaskStartup.Seconds()}
	if b.share == 0 {
		// Of a reduce's time, the first third is the shuffle.
		b.share = 1. / 3 // the model's default
	}
	b.share = max(0, b.share)
	// A lower bound takes every node for as fast as the fastest one, because the policy may put the work
	// there.
	faster := 1. // the largest factor by which a node is faster than its group
	for _, x := range m.Slow {
		if x.Factor > 0 {
			faster = max(faster, 1/x.Factor)
		}
	}
	for i := range c.Groups {
		g := &c.Groups[i]
		speed, disk := cmp.Or(g.Speed, 1)*faster, g.DiskBandwidth*faster
		if disk == 0 {
			// A group that states no bandwidth has a disk that takes no time in the model.
			disk = math.Inf(1)
		}
		b.speed, b.disk = max(b.speed, speed), max(b.disk, disk)
		room := float64(g.Count * (g.MapSlots + g.ReduceSlots))
		// The processors of a machine count once, with its first group.
		if m.Contention && g.Together {
			room = max(room, float64(g.Processors()))
		} else if m.Contention && !g.Beside {
			room = max(room, float64(g.Count*g.Processors()))
		}
		b.capacity += room * speed
	}
	return b
}

// work returns the least slot time of a job on a node of speed 1. Tasks with
// stages count with their CPU time alone, because disks and networks are not
// slots.
func (b *best) work(tasks [job.Kinds][]workload.Task) float64 {
	sum := 0.0
	for _, list := range tasks {
		for i := range list {
			// A task states one of both: a measured duration, or stages from which the simulator computes
			// one.
			sum += cmp.Or(list[i].Duration, list[i].CPU).Seconds()
		}
	}
	return sum
}

// path returns the least time from the submission of a job to its end.
func (b *best) path(tasks [job.Kinds][]workload.Task) float64 {
	maps, reduces, tails := 0.0, 0.0, 0.0
	for i := range tasks[job.Map] {
		maps = max(maps, b.task(&tasks[job.Map][i]))
	}
	for i := range tasks[job.Reduce] {
		t := &tasks[job.Reduce][i]
		whole := b.task(t)
		reduces = max(reduces, whole)
		// A reduce that has started early has fetched, or at least started, when the last map ends. Only the
		// rest surely comes after the map.
		if t.Duration > 0 {
			whole *= 1 - t.Overlap(b.share).Seconds()/t.Duration.Seconds()
		} else {
			whole -= b.startup
		}
		tails = max(tails, whole)
	}
	// Each tail follows the last map, so the longest of both add up.
	return max(maps+tails, reduces)
}

// task returns the least time of a task.
func (b *best) task(t *workload.Task) float64 {
	if t.Duration > 0 {
		return t.Duration.Seconds() / b.speed
	}
	return b.startup + t.CPU.Seconds()/b.speed + float64(t.Output)/b.disk
}

// Ideal returns a lower bound of each job's time alone, on a cluster without
// heartbeats. It is below the result of Alone, and cheap to compute.
func Ideal(c *workload.Cluster, jobs []workload.Job, m sim.ModelConfig) []time.Duration {
	b := bestOf(c, &m)
	out := make([]time.Duration, len(jobs))
	for i := range jobs {
		tasks := jobs[i].Tasks()
		least := b.path(tasks)
		if b.capacity > 0 {
			least = max(least, b.work(tasks)/b.capacity)
		}
		out[i] = time.Duration(least * float64(time.Second))
	}
	return out
}
