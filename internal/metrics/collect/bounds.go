package collect

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/sim"
	"github.com/slotwise/slotwise/internal/workload"
)

// Bounds are times, in seconds, below which no policy can bring the makespan on
// this cluster, whatever it knows. They count every slot for either kind of
// task, so they hold for policies that lend or re-type slots as well; they do not
// hold for those that run more tasks than there are slots. Heartbeats, placement
// and unequal nodes are what they leave out.
type Bounds struct {
	// Work is that all slots are busy: max over the arrivals a of
	// a − first + Σ work of jobs submitted from a on / Σ slots · speed.
	Work float64 `json:"work_s"`
	// Path is the longest way through one job, or a chain of them: its longest
	// map, then what a reduce has to do when the last map is done, on the
	// fastest node.
	Path float64 `json:"path_s"`
}

// Best is the larger of the bounds.
func (b Bounds) Best() float64 { return max(b.Work, b.Path) }

// best is the best that the cluster has to offer a task.
type best struct {
	speed, disk, capacity float64
	share                 float64 // of a reduce that can overlap with maps
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
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(jobs[x].Submit, jobs[y].Submit) })
	first := jobs[order[0]].Submit.Seconds()
	var out Bounds
	rest := 0.0
	for _, i := range slices.Backward(order) {
		rest += b.work(&jobs[i])
		out.Work = max(out.Work, jobs[i].Submit.Seconds()-first+rest/b.capacity)
	}
	end := make([]float64, len(jobs))
	for i := range jobs { // a job comes after jobs before it only
		begin := jobs[i].Submit.Seconds()
		for _, p := range jobs[i].After {
			if p >= 0 && p < i {
				begin = max(begin, end[p])
			}
		}
		end[i] = begin + b.path(&jobs[i])
		out.Path = max(out.Path, end[i]-first)
	}
	return out
}

func bestOf(c *workload.Cluster, m *sim.ModelConfig) best {
	b := best{share: m.ShuffleShare, startup: m.TaskStartup.Seconds()}
	if b.share == 0 {
		b.share = 1. / 3 // the model's default
	}
	b.share = max(0, b.share)
	for i := range c.Groups {
		g := &c.Groups[i]
		speed, disk := cmp.Or(g.Speed, 1), g.DiskBandwidth
		if disk == 0 {
			disk = math.Inf(1)
		}
		b.speed, b.disk = max(b.speed, speed), max(b.disk, disk)
		b.capacity += float64(g.Count*(g.MapSlots+g.ReduceSlots)) * speed
	}
	return b
}

// work is slot time on a node of speed 1 at the least. Staged tasks count with
// their CPU alone: disks and networks are not a matter of slots.
func (b *best) work(j *workload.Job) float64 {
	sum := 0.0
	for _, tasks := range [job.Kinds][]workload.Task{j.Maps, j.Reduces} {
		for i := range tasks {
			sum += cmp.Or(tasks[i].Duration, tasks[i].CPU).Seconds()
		}
	}
	return sum
}

// path is the least time from the submission of a job to its end.
func (b *best) path(j *workload.Job) float64 {
	maps, reduces, tails := 0.0, 0.0, 0.0
	for i := range j.Maps {
		maps = max(maps, b.task(&j.Maps[i]))
	}
	for i := range j.Reduces {
		t := &j.Reduces[i]
		whole := b.task(t)
		reduces = max(reduces, whole)
		if t.Duration > 0 {
			whole *= 1 - b.share
		} else {
			whole -= b.startup
		}
		tails = max(tails, whole)
	}
	return max(maps+tails, reduces)
}

// task is the least time for a task.
func (b *best) task(t *workload.Task) float64 {
	if t.Duration > 0 {
		return t.Duration.Seconds() / b.speed
	}
	return b.startup + t.CPU.Seconds()/b.speed + float64(t.Output)/b.disk
}

// Ideal is the bound for each job by itself: what it would take alone on a
// cluster without heartbeats. It is below what Alone finds, and quick.
func Ideal(c *workload.Cluster, jobs []workload.Job, m sim.ModelConfig) []time.Duration {
	b := bestOf(c, &m)
	out := make([]time.Duration, len(jobs))
	for i := range jobs {
		least := b.path(&jobs[i])
		if b.capacity > 0 {
			least = max(least, b.work(&jobs[i])/b.capacity)
		}
		out[i] = time.Duration(least * float64(time.Second))
	}
	return out
}
