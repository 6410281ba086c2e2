package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched/job"
)

// sizes are the numbers of nodes of the measured clusters.
var sizes = []int{100, 1000, 10000}

// dayFile is the trace of the day, in the folder that SLOTWISE_TRACES names.
const dayFile = "swim-fb-2009-0.tsv"

// rowsFor returns the rows for clusters of the given sizes. It leaves out the day
// if the directory traces does not have the file.
func rowsFor(sizes []int, traces string) ([]*row, error) {
	var rows []*row
	for _, policy := range []string{"fifo", "fair"} {
		for _, n := range sizes {
			rows = append(rows, &row{work: busyName, policy: policy, nodes: n, config: busy})
		}
	}
	for _, n := range sizes {
		rows = append(rows, &row{work: "tasks in stages", policy: "fifo", nodes: n, config: staged})
	}
	day, err := day(filepath.Join(traces, dayFile))
	if errors.Is(err, fs.ErrNotExist) {
		return rows, nil
	}
	for _, policy := range policies.Names() {
		rows = append(rows, &row{work: fullName, policy: policy, nodes: fullNodes, config: day}, &row{work: dayName, policy: policy, nodes: 600, config: day})
	}
	return append(rows, &row{work: wideName, policy: "fifo", nodes: 100_000, config: func(n int) sim.Config { return firstJobs(day(n)) }}), err
}

// The names of work that has a limit.
const (
	busyName = "tasks of given time"
	dayName  = "the day of the trace"
	fullName = "the day on too few nodes"
	wideName = "1,000 jobs of the day"
)

// fullNodes is a number of nodes on which the day of the trace takes about two days, so that
// tasks wait for slots nearly all the time.
const fullNodes = 20

// firstJobs cuts a configuration down to its first thousand jobs, with the short heartbeats of a
// small cluster.
func firstJobs(cfg sim.Config) sim.Config {
	cfg.Jobs = cfg.Jobs[:1000]
	cfg.Model.Heartbeat = "fixed:3s"
	return cfg
}

// busy is a cluster of n nodes with 4 map and 2 reduce slots each, and jobs that
// keep about four fifths of the map slots busy. A larger cluster has larger jobs,
// not more jobs: the number of jobs that run at once does not depend on n.
func busy(n int) sim.Config {
	const task = 30 * time.Second
	maps := max(1, 2*n/5)
	c := workload.Cluster{Racks: max(1, n/40), Heartbeat: "fixed:3s",
		Groups: []workload.NodeGroup{{Count: n, Cores: 4, Speed: 1, MapSlots: 4, ReduceSlots: 2}}}
	jobs := make([]workload.Job, 250)
	gap := time.Duration(float64(maps) * float64(task) / (0.8 * 4 * float64(n)))
	for i := range jobs {
		jobs[i] = workload.Job{Name: "busy", Request: job.Request{Pool: fmt.Sprint("pool", i%10)}, Submit: time.Duration(i) * gap,
			Maps:    slices.Repeat([]workload.Task{{Duration: task}}, maps),
			Reduces: slices.Repeat([]workload.Task{{Duration: 2 * task}}, n/100)}
	}
	return sim.Config{Cluster: c, Jobs: jobs, Seed: 1}
}

// staged is like busy with tasks that read, compute, sort and fetch, on racks of
// 40 nodes with limited uplinks.
func staged(n int) sim.Config {
	cfg := busy(n)
	cfg.Cluster.RackUplink = 1e9
	g := &cfg.Cluster.Groups[0]
	g.DiskBandwidth, g.NICBandwidth = 400e6, 125e6
	for i := range cfg.Jobs {
		j := &cfg.Jobs[i]
		j.Maps = slices.Repeat([]workload.Task{{Input: 64 << 20, CPU: 25 * time.Second, Output: 32 << 20}}, len(j.Maps))
		j.Reduces = slices.Repeat([]workload.Task{{CPU: 20 * time.Second, Output: 64 << 20}}, n/100)
	}
	return cfg
}

// day reads the trace, which has the jobs of one day of a cluster of 600 nodes. The returned
// function makes the configuration for any number of nodes. Ends of attempts are reported at
// once, as slotwise's workers do.
func day(file string) (func(int) sim.Config, error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	trace, err := workload.ReadSWIM(file, in, workload.SWIMOptions{})
	if err != nil {
		return nil, err
	}
	jobs, err := trace.Jobs(1)
	if err != nil {
		return nil, err
	}
	c, err := workload.ParseCluster("nodes=1,maps=4,reduces=2")
	return func(nodes int) sim.Config {
		of := c
		of.Groups = slices.Clone(c.Groups)
		of.Groups[0].Count, of.Racks = nodes, max(1, nodes/30)
		return sim.Config{Cluster: of, Jobs: jobs, Seed: 1, Model: sim.ModelConfig{OutOfBand: true}}
	}, err
}
