package sim

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/job"
)

// poisson makes jobs of one map each that come at random with a mean gap and
// need random service; stages is in core time instead of a given duration.
func poisson(n int, gap time.Duration, stages bool, service func(g *rand.Rand) float64) []workload.Job {
	g := rand.New(rand.NewPCG(3, 4))
	jobs, at := make([]workload.Job, n), 0.
	for i := range jobs {
		at += g.ExpFloat64() * gap.Seconds()
		d := time.Duration(service(g) * float64(time.Second))
		task := workload.Task{Duration: d}
		if stages {
			task = workload.Task{CPU: d}
		}
		jobs[i] = workload.Job{Submit: time.Duration(at * float64(time.Second)), Maps: []workload.Task{task}}
	}
	return jobs
}

const (
	beatEvery = 100 * time.Millisecond
	load60    = 0.6
	gap60     = time.Second * 5 / 3
)

// queueCluster is one node whose heartbeats come at once when a task has ended;
// so a job waits for one only if it finds the node idle.
func queueCluster(slots int) (workload.Cluster, ModelConfig) {
	c := uniformCluster(1, slots, 0)
	c.Groups[0].Cores = 1
	c.Heartbeat = "fixed:" + beatEvery.String()
	return c, ModelConfig{OutOfBand: true, ProgressEvery: time.Hour, Replicas: -1}
}

// distributions have mean 1 and second moment m2.
var distributions = []struct {
	name string
	m2   float64
	draw func(g *rand.Rand) float64
}{
	{"constant", 1, func(*rand.Rand) float64 { return 1 }},
	{"exponential", 2, (*rand.Rand).ExpFloat64},
	{"two sizes", 0.8*0.5*0.5 + 0.2*3*3, func(g *rand.Rand) float64 {
		if g.Float64() < 0.2 {
			return 3
		}
		return 0.5
	}},
}

// One slot under fifo is M/G/1: the mean wait is λ·E[S²]/(2(1−ρ))
// (Pollaczek-Khinchine), and (1−ρ)·h/2 more for the heartbeat.
func TestFIFOQueue(t *testing.T) {
	for _, d := range distributions {
		t.Run(d.name, func(t *testing.T) {
			c, m := queueCluster(1)
			jobs := poisson(10000, gap60, false, d.draw)
			r := run(t, Config{Cluster: c, Model: m, Jobs: jobs})
			waits := make([]float64, len(jobs))
			for i := range jobs {
				waits[i] = (r.Jobs[i].Started - jobs[i].Submit).Seconds()
			}
			want := load60*d.m2/(2*(1-load60)) + (1-load60)*beatEvery.Seconds()/2
			checkMean(t, "wait", waits, want)
		})
	}
}

// One core and slots for all is M/G/1 processor sharing: the mean response is
// E[S]/(1−ρ), whatever the distribution, and h/2 for the heartbeat before.
func TestProcessorSharing(t *testing.T) {
	for _, d := range distributions {
		t.Run(d.name, func(t *testing.T) {
			c, m := queueCluster(1000)
			m.OutOfBand = false
			jobs := poisson(10000, gap60, true, d.draw)
			r := run(t, Config{Cluster: c, Model: m, Jobs: jobs})
			times := make([]float64, len(jobs))
			for i := range jobs {
				times[i] = (r.Jobs[i].Ended - jobs[i].Submit).Seconds()
			}
			// The end is known with the next heartbeat.
			checkMean(t, "response", times, 1/(1-load60)+beatEvery.Seconds())
		})
	}
}

// checkMean compares with four standard errors, from the means of batches that
// are long enough to be independent.
func checkMean(t *testing.T, what string, x []float64, want float64) {
	t.Helper()
	const batches = 20
	sum, squares := 0., 0.
	for b := range batches {
		part, mean := x[b*len(x)/batches:(b+1)*len(x)/batches], 0.
		for _, v := range part {
			mean += v / float64(len(part))
		}
		sum += mean
		squares += mean * mean
	}
	mean := sum / batches
	bound := 4 * math.Sqrt((squares/batches-mean*mean)/(batches-1))
	if math.Abs(mean-want) > bound || bound > want/3 {
		t.Errorf("mean %s %.4f, want %.4f ± %.4f", what, mean, want, bound)
	}
}

// One job alone: each stage takes its amount over the rate of its resource.
func TestStagesAlone(t *testing.T) {
	c := workload.Cluster{Racks: 1, Heartbeat: "fixed:1ms", Groups: []workload.NodeGroup{
		{Count: 1, Cores: 2, Speed: 2, MapSlots: 1, ReduceSlots: 1, DiskBandwidth: 100e6}}}
	j := workload.Job{Request: job.Request{SlowStart: 1},
		Maps:    []workload.Task{{Input: 200e6, CPU: 10 * time.Second, Output: 100e6}},
		Reduces: []workload.Task{{CPU: 4 * time.Second, Output: 300e6}}}
	m := ModelConfig{TaskStartup: time.Second, SortMemory: 50e6, ShuffleMemory: 50e6}
	r := run(t, Config{Cluster: c, Jobs: []workload.Job{j}, Model: m})
	// 1 s start, 2 s read, 10/2 s CPU, 3·1 s sorted in two passes.
	near(t, "map", r.Jobs[0].MapsDone, 11*time.Second, 5*time.Millisecond)
	// 1 s start, 1 s fetched from the only node's disk, 2 s merged, 2 s, 3 s.
	near(t, "job", r.Jobs[0].Ended, 20*time.Second, 10*time.Millisecond)
	if r.BytesRead[1] != 200e6 || r.BytesFetched != 100e6 {
		t.Errorf("read %v, fetched %v", r.BytesRead, r.BytesFetched)
	}
}

// Three tasks on two cores take half as long again; two on one disk twice.
func TestContention(t *testing.T) {
	for _, c := range []struct {
		name string
		maps int
		task workload.Task
		want time.Duration
	}{
		{"as many tasks as cores", 2, workload.Task{CPU: 10 * time.Second}, 10 * time.Second},
		{"more tasks than cores", 3, workload.Task{CPU: 10 * time.Second}, 15 * time.Second},
		{"one on the disk", 1, workload.Task{Input: 1e9}, 10 * time.Second},
		{"two on the disk", 2, workload.Task{Input: 1e9}, 20 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			cl := uniformCluster(1, 4, 1)
			cl.Groups[0].DiskBandwidth = 100e6
			r := run(t, Config{Cluster: cl, Jobs: []workload.Job{{Maps: tasks(c.maps, c.task)}}})
			near(t, "job", r.Jobs[0].Ended, c.want, 20*time.Millisecond)
		})
	}
}
