package sim

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/workload"
)

// busyConfig keeps a cluster of n nodes with 4 map and 2 reduce slots each at
// about four fifths of its map slots. A larger cluster has larger jobs, of which
// as many run at once.
func busyConfig(n int) Config {
	const task = 30 * time.Second
	maps := 2 * n / 5
	c := workload.Cluster{Racks: max(1, n/40), Heartbeat: "fixed:3s",
		Groups: []workload.NodeGroup{{Count: n, Cores: 4, Speed: 1, MapSlots: 4, ReduceSlots: 2}}}
	jobs := make([]workload.Job, 250)
	gap := time.Duration(float64(maps) * float64(task) / (0.8 * 4 * float64(n)))
	for i := range jobs {
		jobs[i] = plain(maps, task, n/100, 2*task)
		jobs[i].Submit = time.Duration(i) * gap
		jobs[i].Pool = fmt.Sprint("pool", i%10)
	}
	return Config{Cluster: c, Jobs: jobs, Seed: 1}
}

// stagedConfig is the same with tasks that go through stages, on racks of 40
// nodes with limited uplinks.
func stagedConfig(n int) Config {
	cfg := busyConfig(n)
	cfg.Cluster.RackUplink = 1e9
	g := &cfg.Cluster.Groups[0]
	g.DiskBandwidth, g.NICBandwidth = 400e6, 125e6
	for i := range cfg.Jobs {
		j := &cfg.Jobs[i]
		j.Maps = tasks(len(j.Maps), workload.Task{Input: 64 << 20, CPU: 25 * time.Second, Output: 32 << 20})
		j.Reduces = tasks(n/100, workload.Task{CPU: 20 * time.Second, Output: 64 << 20})
	}
	return cfg
}

// BenchmarkStages is BenchmarkRun with stages and shuffles.
func BenchmarkStages(b *testing.B) {
	for _, nodes := range []int{100, 1000, 10000} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			var events int64
			before := processorTime()
			for range b.N {
				cfg := stagedConfig(nodes)
				cfg.Policy = policy(b, "fifo")
				r, err := Run(cfg)
				if err != nil {
					b.Fatal(err)
				}
				events += r.Events
			}
			spent := processorTime() - before
			b.ReportMetric(float64(events)/spent.Seconds(), "events/cpu-s")
			b.ReportMetric(float64(spent.Nanoseconds())/float64(events), "cpu-ns/event")
		})
	}
}

// BenchmarkRun prints what a run costs, by the time that processors have spent
// on it, all of them, so that the other work of a machine does not count. An event is an entry that is popped from
// the queue and was not overtaken.
func BenchmarkRun(b *testing.B) {
	for _, name := range []string{"fifo", "fair"} {
		for _, nodes := range []int{100, 1000, 10000} {
			b.Run(fmt.Sprintf("%s/%d", name, nodes), func(b *testing.B) {
				var events, decisions int64
				peak := memoryOf(b, name, nodes)
				b.ResetTimer()
				before := processorTime()
				for range b.N {
					cfg := busyConfig(nodes)
					cfg.Policy = policy(b, name)
					r, err := Run(cfg)
					if err != nil {
						b.Fatal(err)
					}
					events += r.Events
					decisions += r.Decisions
				}
				b.StopTimer()
				spent := processorTime() - before
				b.ReportMetric(float64(events)/spent.Seconds(), "events/cpu-s")
				b.ReportMetric(float64(spent.Nanoseconds())/float64(events), "cpu-ns/event")
				b.ReportMetric(float64(decisions)/spent.Seconds(), "decisions/cpu-s")
				b.ReportMetric(float64(peak)/(1<<20), "peakMiB")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// memoryOf is the most memory that a run holds, beside its configuration.
func memoryOf(b *testing.B, name string, nodes int) uint64 {
	cfg := busyConfig(nodes)
	cfg.Policy = policy(b, name)
	peak := &peakMemory{base: heap(), every: len(cfg.Jobs) / 8}
	cfg.Observer = peak
	if _, err := Run(cfg); err != nil {
		b.Fatal(err)
	}
	runtime.KeepAlive(cfg.Jobs)
	return peak.most
}

// peakMemory looks at the live heap after every so many jobs.
type peakMemory struct {
	base, most   uint64
	ended, every int
}

func (p *peakMemory) Observe(e *Event) {
	if e.Kind == JobEnded {
		if p.ended++; p.ended%p.every == 0 {
			p.most = max(p.most, heap()-p.base)
		}
	}
}

// processorTime is what the process has used so far.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
