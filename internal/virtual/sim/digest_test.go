package sim

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched/job"
)

var rewrite = flag.Bool("rewrite", false, "write the digests that TestDigests finds to testdata")

// digestFile holds a digest for each workload and policy.
const digestFile = "testdata/digests.txt"

// TestDigests compares the events, effects and results of runs under every policy with
// recorded digests. A change that only makes the tracker, a policy or the simulator faster
// must leave the file unchanged. A change of decisions rewrites the file with
// -rewrite.
func TestDigests(t *testing.T) {
	var found bytes.Buffer
	for _, w := range []struct {
		name string
		cfg  func() Config
	}{{"everything", everything}, {"crowd", crowd}, {"wide", wideJobs}, {"staged", stagedCrowd}} {
		for _, name := range policies.Names() {
			fmt.Fprintf(&found, "%s %s %s\n", w.name, name, digestOf(t, w.cfg(), name))
		}
	}
	if *rewrite {
		if err := os.WriteFile(digestFile, found.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(digestFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(found.Bytes(), want) {
		t.Errorf("the runs have changed: %s", firstDifference(found.Bytes(), want))
	}
}

// digestOf runs and returns a digest of every event and effect of the tracker, and of the
// result.
func digestOf(t testing.TB, cfg Config, name string) string {
	t.Helper()
	sum := sha256.New()
	writeLog(t, sum, cfg, name)
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// writeLog runs and writes every event of the tracker with its effects, and the result.
func writeLog(t testing.TB, w io.Writer, cfg Config, name string) {
	t.Helper()
	cfg.Policy = policy(t, name)
	cfg.Trace = func(now time.Duration, ev tracker.Event, effects []tracker.Effect) {
		fmt.Fprintf(w, "%d %s\n", now, tracker.FormatEvent(ev))
		for _, e := range effects {
			fmt.Fprintf(w, "  %s\n", e)
		}
	}
	fmt.Fprintf(w, "%+v\n", run(t, cfg))
}

// crowd is a cluster on which far more jobs wait than fit: pools, users, priorities and
// profiles differ, sizes vary from one task to more than all slots.
func crowd() Config {
	c := workload.Cluster{Racks: 4, Heartbeat: "hadoop-0.20.2", Groups: []workload.NodeGroup{{Count: 24, Cores: 4, Speed: 1, MapSlots: 2, ReduceSlots: 1}}}
	sizes := []int{1, 3, 10, 40, 2, 90, 5, 1}
	var jobs []workload.Job
	for i := range 80 {
		j := plain(sizes[i%len(sizes)], time.Duration(5+i%7)*time.Second, i%4, time.Duration(8+i%11)*time.Second)
		j.Pool, j.User, j.Submit = fmt.Sprint("p", i%6), fmt.Sprint("u", i%9), time.Duration(i)*1500*time.Millisecond
		j.Priority = job.Priority(i % 3)
		load := job.Ratings{CPU: uint8(1 + i%10), Memory: uint8(1 + i%4), Disk: 5, Network: 5}
		j.Hints = [job.Kinds]job.Ratings{load, load}
		jobs = append(jobs, j)
	}
	return Config{Cluster: c, Jobs: jobs, Seed: 3, Model: ModelConfig{Straggler: Straggler{Probability: 0.05, Factor: 4}}}
}

// wideJobs is crowd with tasks that need several slots.
func wideJobs() Config {
	cfg := crowd()
	g := &cfg.Cluster.Groups[0]
	g.ReduceSlots, g.Memory = 2, 16<<30
	for i := range cfg.Jobs {
		cfg.Jobs[i].TaskMemory = int64(i%3) * 3 << 30 // 4 GiB is one slot
	}
	return cfg
}

// stagedCrowd is crowd with tasks that share the resources of nodes which fail.
func stagedCrowd() Config {
	cfg := crowd()
	cfg.Cluster.RackUplink = 200e6
	g := &cfg.Cluster.Groups[0]
	g.DiskBandwidth, g.NICBandwidth = 200e6, 100e6
	for i := range cfg.Jobs {
		j := &cfg.Jobs[i]
		s := staged(len(j.Maps), 64e6, time.Duration(3+i%5)*time.Second, len(j.Reduces), 30e6)
		j.Maps, j.Reduces = s.Maps, s.Reduces
	}
	cfg.Model = ModelConfig{FailureRate: 0.03, MTBF: 20 * time.Minute, MTTR: time.Minute, NodeTimeout: 30 * time.Second}
	return cfg
}
