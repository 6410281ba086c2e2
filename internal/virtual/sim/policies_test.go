package sim

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/policies"
)

// logOf runs and returns every event of the tracker with its effects.
func logOf(t testing.TB, cfg Config, name string) []byte {
	t.Helper()
	var log bytes.Buffer
	writeLog(t, &log, cfg, name)
	return log.Bytes()
}

// everything is a run in which all that the model knows happens.
func everything() Config {
	c := workload.Cluster{Racks: 3, Heartbeat: "fixed:1s", RackUplink: 60e6, CoreLink: 100e6,
		Groups: []workload.NodeGroup{
			{Name: "fast", Count: 6, Cores: 4, Speed: 1.5, MapSlots: 3, ReduceSlots: 2, DiskBandwidth: 100e6, NICBandwidth: 50e6},
			{Name: "slow", Count: 5, Cores: 2, Speed: 0.7, MapSlots: 2, ReduceSlots: 1, DiskBandwidth: 60e6, NICBandwidth: 30e6}}}
	var jobs []workload.Job
	for i := range 6 {
		j := staged(16+4*i, 64e6, 30*time.Second, 4, 50e6)
		if i%3 == 0 {
			j = plain(30, 20*time.Second, 5, time.Minute)
		}
		j.Pool, j.Submit = fmt.Sprint("p", i%3), time.Duration(i)*20*time.Second
		if i == 5 {
			j.After = []int{2, 3}
		}
		jobs = append(jobs, j)
	}
	return Config{Cluster: c, Jobs: jobs, Seed: 7, Model: ModelConfig{FailureRate: 0.02, TaskStartup: time.Second,
		Straggler: Straggler{Probability: 0.05, Factor: 3, Alpha: 2}, NodeTimeout: time.Minute,
		Crashes: []Crash{{Node: 1, At: 100 * time.Second, Return: 300 * time.Second}, {Node: 7, At: 150 * time.Second}},
		MTBF:    2 * time.Hour, MTTR: time.Minute, Slow: []Slow{{Node: 3, Factor: 2}},
		SortMemory: 50e6, ShuffleMemory: 100e6, OutOfBand: true}}
}

// staged is a job of maps that read and leave bytes, and reduces that fetch them.
func staged(maps int, bytes int64, cpu time.Duration, reduces int, out int64) workload.Job {
	return workload.Job{Name: "staged",
		Maps:    tasks(maps, workload.Task{Input: bytes, CPU: cpu, Output: bytes / 2}),
		Reduces: tasks(reduces, workload.Task{CPU: cpu / 2, Output: out})}
}

// Every policy gives the same run, byte for byte, however often and on however
// many processors.
func TestSameRunEveryTime(t *testing.T) {
	names := policies.Names()
	for _, name := range append(names, "fifo,speculate=late") {
		t.Run(name, func(t *testing.T) {
			first := logOf(t, everything(), name)
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			if again := logOf(t, everything(), name); !bytes.Equal(first, again) {
				t.Errorf("the second run differs: %s", firstDifference(first, again))
			}
		})
	}
}

func firstDifference(a, b []byte) string {
	x, y := bytes.Split(a, []byte("\n")), bytes.Split(b, []byte("\n"))
	for i := range min(len(x), len(y)) {
		if !bytes.Equal(x[i], y[i]) {
			return fmt.Sprintf("line %d: %s\nand %s", i, x[i], y[i])
		}
	}
	return "one is longer"
}

// RunAll gives what Run gives, in order.
func TestRunAll(t *testing.T) {
	var configs []Config
	for seed := range uint64(6) {
		cfg := everything()
		cfg.Seed, cfg.Policy = seed, policy(t, "fifo")
		configs = append(configs, cfg)
	}
	configs[4].Jobs = []workload.Job{{Submit: -1}}
	results, err := RunAll(configs)
	if err == nil || results[4] != nil {
		t.Errorf("a bad run gives no error: %v", err)
	}
	for i, got := range results {
		if i == 4 {
			continue
		}
		configs[i].Policy = policy(t, "fifo")
		want, err := Run(configs[i])
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("run %d: %+v, alone %+v", i, got, want)
		}
	}
}
