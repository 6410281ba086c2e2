// Package clustertest starts clusters for tests: a master and workers, each a process of
// slotwise that listens on loopback. A test kills, stops and restarts these processes and reads
// their logs. All processes end with the test, which prints their logs if it has failed.
package clustertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Cluster is a master with its workers. A test may change the exported fields between starts.
type Cluster struct {
	T       *testing.T
	Dir     string   // has the files of the test and of the processes
	Program string   // the executable that Command starts
	Flags   []string // of the master
	Master  *Process // the latest start; nil before StartMaster
	URL     string   // of the master
	// Patience limits how long Submit waits for a job.
	Patience time.Duration
	// Prepare changes the command of a daemon before it starts; nil changes nothing.
	Prepare func(name string, cmd *exec.Cmd)
}

// New returns a cluster without processes, in a new directory. program is a path of slotwise,
// or of a test binary that behaves like slotwise.
func New(t *testing.T, program string) *Cluster {
	return &Cluster{T: t, Dir: t.TempDir(), Program: program, Patience: 5 * time.Minute}
}

// LoopbackHost returns an address of loopback for a server that a test ends and starts again. No other process listens
// there, so the port stays free meanwhile. A free port of 127.0.0.1 goes to the next process that asks for any port.
func LoopbackHost() string {
	if runtime.GOOS != "linux" { // elsewhere loopback has one address
		return "127.0.0.1"
	}
	return fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), 1+rand.IntN(254), 1+rand.IntN(254))
}

// StartMaster starts the master and waits until it serves. It may restart a master that has
// ended: with that master's address the workers and clients find the new one.
func (c *Cluster) StartMaster(listen string) {
	c.T.Helper()
	file := filepath.Join(c.Dir, "address")
	os.Remove(file) // an earlier start's address must not be taken for the new one
	c.Master = c.Start("master", append([]string{"master", "--dir", filepath.Join(c.Dir, "m"), "--listen", listen, "--address-file", file}, c.Flags...)...)
	c.Master.await("the master serves", func() bool {
		b, err := os.ReadFile(file)
		c.URL = "http://" + strings.TrimSpace(string(b))
		return err == nil
	})
}

// RestartMaster starts the master again at its previous address.
func (c *Cluster) RestartMaster() {
	c.T.Helper()
	c.StartMaster(strings.TrimPrefix(c.URL, "http://"))
}

// Start starts a daemon that is killed when the test ends. name identifies it in failures.
func (c *Cluster) Start(name string, args ...string) *Process {
	c.T.Helper()
	p := &Process{Cmd: c.Command(args...), t: c.T, name: name, gone: make(chan struct{})}
	p.Cmd.Stderr = &p.Log
	if c.Prepare != nil {
		c.Prepare(name, p.Cmd)
	}
	if err := p.Cmd.Start(); err != nil {
		c.T.Fatal(err)
	}
	go func() {
		p.Cmd.Wait() // the status is in Cmd.ProcessState
		close(p.gone)
	}()
	// Logs are long, so only a failed test prints them.
	c.T.Cleanup(func() {
		p.Kill()
		if c.T.Failed() {
			c.T.Logf("%s:\n%s", name, &p.Log)
		}
	})
	return p
}

// Worker is a worker's process.
type Worker struct {
	*Process
	Dir string // the worker's --dir
}

// StartWorker starts a worker with one map slot and one reduce slot, and waits until it is
// registered. Flags in args override its own.
func (c *Cluster) StartWorker(name string, args ...string) *Worker {
	c.T.Helper()
	dir := filepath.Join(c.Dir, name)
	w := &Worker{c.Start(name, append([]string{"worker", "--master", c.URL, "--dir", dir, "--name", name,
		// One slot of each kind makes schedules predictable. A nearly full disk of the machine must not stop
		// the worker.
		"--map-slots", "1", "--reduce-slots", "1", "--memory", "64MiB", "--min-free", "1"}, args...)...), dir}
	w.Says("registered")
	return w
}

// Command returns a command line of slotwise that runs in the cluster's directory.
func (c *Cluster) Command(args ...string) *exec.Cmd {
	cmd := &exec.Cmd{Path: c.Program, Args: append([]string{"slotwise"}, args...), Dir: c.Dir}
	// A process with the race detector would sleep for a second as it ends.
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	return cmd
}

// Run runs a command and returns its exit status and output.
func (c *Cluster) Run(args ...string) (status int, out string) {
	c.T.Helper()
	return c.output(c.Command(args...))
}

// Submit runs slotwise submit --wait and returns its exit status and output. After Patience it
// sends the command SIGTERM.
func (c *Cluster) Submit(args ...string) (status int, out string) {
	c.T.Helper()
	ctx, cancel := context.WithTimeout(c.T.Context(), c.Patience)
	defer cancel()
	cmd := c.Command(append([]string{"submit", "--master", c.URL, "--wait", "--no-progress"}, args...)...)
	// SIGTERM and not a kill: submit then kills the job and prints its last status, which the failure needs.
	stop := context.AfterFunc(ctx, func() { cmd.Process.Signal(syscall.SIGTERM) })
	defer stop()
	return c.output(cmd)
}

// output runs cmd. The status is -1 if a signal has ended it; a command that cannot start fails
// the test. It may run in any goroutine, so it does not end the test.
func (c *Cluster) output(cmd *exec.Cmd) (status int, out string) {
	b, err := cmd.CombinedOutput()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		c.T.Errorf("%v: %v", cmd.Args, err)
		return -1, ""
	}
	return cmd.ProcessState.ExitCode(), string(b)
}

// Must runs Submit for a job that has to succeed.
func (c *Cluster) Must(args ...string) {
	c.T.Helper()
	if status, out := c.Submit(args...); status != 0 {
		c.T.Fatalf("submit %v: exit status %d\n%s", args, status, out)
	}
}

// Write makes an executable file below the cluster's directory and returns its path.
func (c *Cluster) Write(name, text string) string {
	c.T.Helper()
	path := filepath.Join(c.Dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text), 0o777)); err != nil {
		c.T.Fatal(err)
	}
	return path
}

// Words writes a text of some lines and returns its word counts as sorted lines.
func (c *Cluster) Words(name string, lines int) []string {
	c.T.Helper()
	counts := map[string]int{}
	var b strings.Builder
	for i := range lines {
		// Words of three frequencies, so that combiners and partitions of several sizes have work.
		for _, w := range []string{fmt.Sprint("w", i%97), fmt.Sprint("x", i%13), "the"} {
			counts[w]++
			b.WriteString(w + " ")
		}
		b.WriteString("\n")
	}
	c.Write(name, b.String())
	var want []string
	for w, n := range counts {
		want = append(want, fmt.Sprintf("%s\t%d", w, n))
	}
	slices.Sort(want)
	return want
}

// Lines returns the sorted lines of an output directory's part files.
func (c *Cluster) Lines(dir string) []string {
	c.T.Helper()
	var all []string
	files, _ := filepath.Glob(filepath.Join(c.Dir, dir, "part-*"))
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			c.T.Fatal(err)
		}
		all = append(all, strings.FieldsFunc(string(b), func(r rune) bool { return r == '\n' })...)
	}
	// The partitioner decides which file has a line, and a test compares the contents only.
	slices.Sort(all)
	return all
}
