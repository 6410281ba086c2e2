// Command crosscheck compares the simulator with a second one of 120 lines of Python,
// which was written from the descriptions of FIFO and Fair. Both run the same random
// workloads, and the end of every job must agree to the nanosecond.
//
//	go -C lab run ./crosscheck
//	go -C lab run ./crosscheck -workloads 500 -seed 7
package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/lab/harness"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
)

//go:embed simulate.py
var script []byte

func main() {
	harness.Main("lab/crosscheck", func(ctx context.Context) error { return run(ctx, os.Args[1:], os.Stdout, os.Stderr) })
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("crosscheck", flag.ContinueOnError)
	flags.SetOutput(stderr)
	workloads := flags.Int("workloads", 50, "number of random workloads")
	seed := flags.Uint64("seed", 1, "seed of the first workload")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 || *workloads < 1 {
		return errors.Join(err, errors.New("usage: crosscheck [-workloads N] [-seed N]"))
	}
	dir, err := os.MkdirTemp("", "crosscheck")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "simulate.py"), script, 0o600); err != nil {
		return err
	}
	jobs := 0
	for i := range *workloads {
		c := draw(*seed + uint64(i))
		for _, policy := range []string{"fifo", "fair"} {
			n, err := c.check(ctx, dir, policy)
			if err != nil {
				return fmt.Errorf("workload of seed %d, %s: %w", *seed+uint64(i), policy, err)
			}
			jobs += n
		}
	}
	_, err = fmt.Fprintf(stdout, "%d workloads under fifo and fair: the ends of all %d jobs agree\n", *workloads, jobs)
	return err
}

// mix is a job mix in JSON, which is YAML, too. Both simulators read it.
type mix struct {
	Jobs []mixJob `json:"jobs"`
}

type mixJob struct {
	Name      string    `json:"name"`
	Pool      string    `json:"pool"`
	Submit    string    `json:"submit"`
	SlowStart float64   `json:"slow-start"`
	Maps      []mixTask `json:"maps"`
	Reduces   []mixTask `json:"reduces,omitempty"`
}

type mixTask struct {
	Time string `json:"time"`
}

// random is a workload with its cluster.
type random struct {
	mix                  mix
	nodes, maps, reduces int
	interval             time.Duration
}

// draw draws a workload. Times have microseconds, so that a task practically never ends at
// the very moment of a heartbeat, for which the order is not described.
func draw(seed uint64) *random {
	g := rand.New(rand.NewPCG(seed, 0))
	span := func(most int) string { return fmt.Sprintf("%d.%06ds", g.IntN(most), 1+g.IntN(999_999)) }
	tasks := func(n, most int) []mixTask {
		list := make([]mixTask, n)
		for i := range list {
			list[i].Time = span(most)
		}
		return list
	}
	c := &random{nodes: 1 + g.IntN(12), maps: 1 + g.IntN(4), reduces: 1 + g.IntN(3), interval: time.Duration(200+g.IntN(3000)) * time.Millisecond}
	for i := range 2 + g.IntN(25) {
		j := mixJob{Name: fmt.Sprint("j", i), Pool: fmt.Sprint("p", g.IntN(4)), Submit: span(120), SlowStart: []float64{0, 0.05, 0.5, 1}[g.IntN(4)]}
		j.Maps = tasks(1+g.IntN(30), 1+g.IntN(40))
		j.Reduces = tasks(g.IntN(8), 1+g.IntN(60))
		c.mix.Jobs = append(c.mix.Jobs, j)
	}
	return c
}

// check runs both simulators and returns the number of jobs whose ends agree. It returns
// an error that names the first job whose ends differ.
func (c *random) check(ctx context.Context, dir, policy string) (int, error) {
	text, err := json.Marshal(c.mix)
	if err != nil {
		return 0, err
	}
	ours, err := c.simulate(text, policy)
	if err != nil {
		return 0, err
	}
	file := filepath.Join(dir, "mix.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, "python3", filepath.Join(dir, "simulate.py"), file, strconv.Itoa(c.nodes), strconv.Itoa(c.maps),
		strconv.Itoa(c.reduces), strconv.FormatInt(int64(c.interval), 10), policy)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("python3 simulate.py: %w: %s", err, stderr.Bytes())
	}
	var theirs []time.Duration
	if err := json.Unmarshal(out, &theirs); err != nil || len(theirs) != len(ours) {
		return 0, fmt.Errorf("simulate.py printed %.100s for %d jobs: %w", out, len(ours), err)
	}
	for i := range ours {
		if ours[i] != theirs[i] {
			return 0, fmt.Errorf("job %s ends at %v, in Python at %v", c.mix.Jobs[i].Name, ours[i], theirs[i])
		}
	}
	return len(ours), nil
}

// simulate returns the end of each job in the simulator of this project. Tasks have no
// locations, reduces do no work before the last map has ended, and there are no copies.
func (c *random) simulate(text []byte, policy string) ([]time.Duration, error) {
	read, err := workload.ReadMix("mix.json", bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	jobs, err := read.Jobs(1)
	if err != nil {
		return nil, err
	}
	p, err := policies.Build(policy+",speculate=none", sched.Options{Seed: 1})
	if err != nil {
		return nil, err
	}
	cluster, err := workload.ParseCluster(fmt.Sprintf("nodes=%d,maps=%d,reduces=%d,heartbeat=fixed:%v", c.nodes, c.maps, c.reduces, c.interval))
	if err != nil {
		return nil, err
	}
	r, err := sim.Run(sim.Config{Cluster: cluster, Policy: p, Jobs: jobs, Seed: 1, Details: true, Model: sim.ModelConfig{Replicas: -1, ShuffleShare: -1}})
	if err != nil {
		return nil, err
	}
	var ends []time.Duration
	for i := range r.Jobs {
		ends = append(ends, r.Jobs[i].Ended)
	}
	return ends, nil
}
