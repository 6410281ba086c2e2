package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/slotwise/slotwise/lab/harness"
)

// liveRun describes a cluster on this machine and the jobs that live submits to it.
type liveRun struct {
	span    time.Duration // in which jobs are submitted
	every   time.Duration // mean time between two jobs
	workers int           // each with two map slots and one reduce slot
	policy  string
	seed    uint64
	program string // the slotwise program to measure; built from this repository if empty
	answers string // file for each judged answer; none if empty
}

// live starts a master and workers on this machine, submits jobs of sleeping tasks for a time, and
// watches what the master predicts about them. Jobs of two kinds are repeated under
// their names; jobs of a third kind differ each time. Times of tasks vary log-normally.
func (r *liveRun) live(ctx context.Context, stdout, stderr io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "slotwise-forecast-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary := r.program
	if binary == "" {
		binary = filepath.Join(dir, "slotwise")
		if err := harness.Build(ctx, binary); err != nil {
			return err
		}
	}
	var workers [][]string
	for range r.workers {
		workers = append(workers, []string{"--map-slots", "2", "--reduce-slots", "1"})
	}
	c, err := harness.StartCluster(ctx, binary, dir, []string{"--policy", r.policy}, workers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	watched := make(chan error, 1)
	var pending atomic.Bool
	pending.Store(true)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		watched <- watch(ctx, c.URL, fmt.Sprintf("real cluster of %d workers, seed %d", r.workers, r.seed), r.policy, r.answers, &pending, stdout)
	}()
	mix := filepath.Join(dir, "mix.yaml")
	if err := os.WriteFile(mix, []byte(r.mix()), 0o600); err != nil {
		return err
	}
	submit := exec.CommandContext(ctx, binary, "submit", "--master", c.URL, "--jobs", mix, "--seed", fmt.Sprint(r.seed), "--output", filepath.Join(dir, "out"))
	submit.Stderr = stderr
	if err := submit.Run(); err != nil {
		return fmt.Errorf("submit: %w", err)
	}
	pending.Store(false)
	return <-watched
}

// mix draws jobs that are submitted during the span.
func (r *liveRun) mix() string {
	rng := rand.New(rand.NewPCG(r.seed, 0))
	var b strings.Builder
	b.WriteString("jobs:\n")
	for n, at := 1, 0.0; at < r.span.Seconds(); n++ {
		kind, maps, mapTime, reduces, reduceTime := "adhoc", 10+rng.IntN(70), 0.5+2.5*rng.Float64(), 1+rng.IntN(4), 2+8*rng.Float64()
		switch rng.IntN(3) {
		case 0:
			kind, maps, mapTime, reduces, reduceTime = "nightly", 40, 2, 2, 6
		case 1:
			kind, maps, mapTime, reduces, reduceTime = "report", 80, 1.2, 4, 8
		}
		fmt.Fprintf(&b, "  - {name: %s-%d, pool: %s, submit: %.1fs, maps: %d, map-time: {lognormal: {mean: %.2fs, cv2: 0.25}}, reduces: %d, reduce-time: {lognormal: {mean: %.2fs, cv2: 0.1}}}\n",
			kind, n, kind, at, maps, mapTime, reduces, reduceTime)
		at += rng.ExpFloat64() * r.every.Seconds()
	}
	return b.String()
}
