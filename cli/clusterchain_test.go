package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slotwise/slotwise/apps"
	"github.com/slotwise/slotwise/internal/base/proctree"
	"github.com/slotwise/slotwise/internal/live/client"
	"github.com/slotwise/slotwise/internal/testkit/clustertest"
	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/mapreduce/remote"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// runTestAttempt makes the test binary the program of a user who has chains of his own:
// as a child of a worker it runs their attempts and drivers.
func runTestAttempt() {
	mapreduce.RunAttempt(func(name string) (*mapreduce.App, error) {
		if name == troubled.Name {
			return troubled, nil
		}
		return apps.Lookup(name)
	}, features()...)
}

// errOnPurpose is the error of a map.
var errOnPurpose = errors.New("the map fails on purpose")

// troubled is a chain whose parameter mode selects how its function misbehaves.
var troubled = &mapreduce.App{
	Name:   "troubled",
	Params: []mapreduce.Param{{Name: "mode"}, {Name: "dir"}},
	Steps: map[string]func(mapreduce.Params) (*mapreduce.Job, error){
		"copy": func(p mapreduce.Params) (*mapreduce.Job, error) {
			return &mapreduce.Job{Name: "copy", Mapper: func() mapreduce.Mapper {
				return mapreduce.MapperFunc(func(_, line []byte, out *mapreduce.Emitter) error {
					if p["fail"] != "" {
						return errOnPurpose
					}
					out.Emit(line, nil)
					return nil
				})
			}}, nil
		},
	},
	Chain: func(ctx context.Context, c *mapreduce.Chain) error {
		copyTo := func(out string, in ...string) error { return c.Step(ctx, "copy", nil, in, out) }
		// A file for each run of the function, so that a test can count them.
		runs, _ := filepath.Glob(filepath.Join(c.Params["dir"], "run*"))
		if err := os.WriteFile(filepath.Join(c.Params["dir"], fmt.Sprint("run", len(runs))), []byte(fmt.Sprint(os.Getpid())), 0o666); err != nil {
			return err
		}
		if err := copyTo(c.Temp("first"), c.Inputs...); err != nil {
			return err
		}
		switch c.Params["mode"] {
		case "panic":
			panic("a chain that panics")
		case "error":
			return errors.New("a chain that gives up")
		case "twice":
			return copyTo(c.Temp("first"), c.Temp("first"))
		case "failing":
			p := maps.Clone(c.Params)
			p["fail"] = "yes"
			return c.Step(ctx, "copy", p, c.Inputs, c.Output())
		case "exit twice":
			if len(runs) < 2 {
				os.Exit(3)
			}
		case "random":
			if err := c.Step(ctx, "copy", mapreduce.Params{"n": fmt.Sprint(rand.Int())}, c.Inputs, c.Temp("random")); err != nil {
				return err
			}
			if len(runs) < 1 {
				os.Exit(3)
			}
		case "wait":
			fmt.Println("the driver waits")
			for { // until the test has created the file
				if _, err := os.Stat(filepath.Join(c.Params["dir"], "go")); err == nil {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
		case "parallel":
			errs := make(chan error, 4)
			for i := range 4 {
				go func() { errs <- copyTo(c.Temp(fmt.Sprint("part", i)), c.Temp("first")) }()
			}
			var all error
			for range 4 {
				all = errors.Join(all, <-errs)
			}
			if all != nil {
				return all
			}
			return copyTo(c.Output(), c.Temp("part0"), c.Temp("part1"), c.Temp("part2"), c.Temp("part3"))
		}
		return copyTo(c.Output(), c.Temp("first"))
	},
}

// runTroubled submits the chain troubled and waits for its end. It returns the number of
// runs of its function.
func (c *testCluster) runTroubled(mode, out string, change ...func(*mapreduce.Options, *remote.Cluster)) (runs int, id string, err error) {
	c.T.Helper()
	dir := filepath.Join(c.Dir, "runs-"+out)
	if err := os.Mkdir(dir, 0o777); err != nil {
		c.T.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(c.T.Context(), c.Patience)
	defer cancel()
	r := &remote.Cluster{Master: c.URL, Accepted: func(s string) { id = s }}
	// Each chain has a separate input, so that chains may run at the same time.
	o := mapreduce.Options{Inputs: []string{c.Write("in-"+out+".txt", "a\nb\n")}, Output: filepath.Join(c.Dir, out), Remote: r, Features: features()}
	for _, f := range change {
		f(&o, r)
	}
	_, err = mapreduce.RunApp(ctx, troubled, mapreduce.Params{"mode": mode, "dir": dir}, o)
	files, _ := filepath.Glob(filepath.Join(dir, "run*"))
	return len(files), id, err
}

// noHidden checks that no directory for intermediate outputs is left.
func (c *testCluster) noHidden() {
	c.T.Helper()
	clustertest.Eventually(c.T, "the directories of chains are removed", func() bool {
		left, _ := filepath.Glob(filepath.Join(c.Dir, ".*"))
		return len(left) == 0
	})
}

// TestChainTrouble runs chains whose functions misbehave. The chain's message names the
// failure, the number of drivers is bounded, and no file is left. The chains run at the
// same time, because the pauses between tries of a driver take seconds.
func TestChainTrouble(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.StartWorker("w1", "--drivers", "2", "--map-slots", "4")
	chains := []struct {
		mode string
		runs int
		err  string // "" for success
	}{
		{"", 1, ""},
		{"parallel", 1, ""},
		{"exit twice", 3, ""},
		{"panic", 4, "its driver failed 4 times"},
		{"error", 4, "a chain that gives up"},
		{"twice", 1, "each step needs an output of its own"},
		{"failing", 1, "the map fails on purpose"},
		{"random", 2, "must be deterministic"},
	}
	var all sync.WaitGroup
	for _, x := range chains {
		all.Go(func() {
			out := "out-" + strings.ReplaceAll(x.mode, " ", "-")
			runs, id, err := c.runTroubled(x.mode, out)
			switch {
			case runs != x.runs:
				t.Errorf("%s: the function ran %d times, want %d (%v)", x.mode, runs, x.runs, err)
			case x.mode == "failing" && !errors.Is(err, errOnPurpose):
				t.Errorf("%s: errors.Is does not find the map's error in %v", x.mode, err)
			case x.err == "" && err != nil:
				t.Errorf("%s: %v", x.mode, err)
			case x.err != "" && (err == nil || !strings.Contains(err.Error(), x.err) || !strings.Contains(err.Error(), id)):
				t.Errorf("%s: %v, want %s and %s", x.mode, err, id, x.err)
			}
			if _, err := os.Stat(filepath.Join(c.Dir, out)); (err == nil) != (x.err == "") {
				t.Errorf("%s: the output: %v", x.mode, err)
			}
		})
	}
	all.Wait()
	if got := c.Lines("out-parallel"); len(got) != 8 {
		t.Errorf("the result of parallel steps: %q", got)
	}
	c.noHidden()
}

// TestChainRefused submits chains that cannot run. Each is refused at once.
func TestChainRefused(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.StartWorker("w1")
	if err := os.MkdirAll(filepath.Join(c.Dir, "taken", "x"), 0o777); err != nil {
		t.Fatal(err)
	}
	if runs, id, err := c.runTroubled("", "taken"); runs != 0 || id != "" || err == nil || !strings.Contains(err.Error(), "exists and is not empty") {
		t.Errorf("the output exists: %d runs, %q, %v", runs, id, err)
	}
	many := func(o *mapreduce.Options, _ *remote.Cluster) {
		for i := range 20_000 {
			o.Inputs = append(o.Inputs, fmt.Sprint("/", i))
		}
	}
	if runs, id, err := c.runTroubled("", "many", many); runs != 0 || id != "" || err == nil || !strings.Contains(err.Error(), "more than 10000 inputs") {
		t.Errorf("20,000 inputs: %d runs, %q, %v", runs, id, err)
	}
	status, out := c.Submit("kmeans", c.Write("p.txt", "1,2\n"), "--output", "o", "--user", "a b")
	if status == 0 || !strings.Contains(out, "a name has no spaces") {
		t.Errorf("a bad user: %d %s", status, out)
	}
	cl, err := client.New(c.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = cl.Submit(t.Context(), &slotwisev1.JobSpec{Name: "x", User: "ann", Program: &slotwisev1.Program{App: "wordcount"}, Synthetic: 1, Chain: "chain-1", Output: "file:///x"})
	if err == nil || !strings.Contains(err.Error(), "only the driver of chain-1 may submit its steps") {
		t.Errorf("a step from outside: %v", err)
	}
}

// TestChainCommands waits with a chain for its driver and between two steps, and looks at
// it by all commands that take a chain.
func TestChainCommands(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	w0 := c.StartWorker("w0", "--drivers", "-1")
	done := make(chan error, 1)
	go func() {
		_, _, err := c.runTroubled("wait", "out")
		done <- err
	}()
	says := func(want string, args ...string) {
		t.Helper()
		text := ""
		for deadline := time.Now().Add(4 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			out, err := c.Command(append(args, "--master", c.URL)...).CombinedOutput()
			if text = string(out); err == nil && strings.Contains(text, want) {
				return
			}
		}
		t.Errorf("slotwise %s: %s; want %s", strings.Join(args, " "), text, want)
	}
	says("its driver waits for a worker", "jobs")
	says("its driver waits for a worker", "explain", "chain-1")
	c.StartWorker("w1", "--drivers", "1")
	says("troubled (step 1", "jobs")
	says("\n  j1", "jobs", "--steps", "--all")
	says("on w1, try 1", "job", "chain-1")
	says("the driver waits", "logs", "chain-1") // while it runs
	says("succeeded", "job", "chain-1")
	says(`"chain":"chain-1"`, "jobs", "--all", "-o", "json")
	says(`"steps":["j1"]`, "job", "chain-1", "-o", "json")
	says("", "priority", "chain-1", "high")
	says("", "move", "chain-1", "pool7")
	says("pool7", "jobs")
	// The driver moves when its worker is drained.
	c.StartWorker("w2")
	says("", "nodes", "drain", "w1")
	says("on w2, try 2", "job", "chain-1")
	w0.Cmd.Process.Signal(syscall.SIGTERM)
	if err := os.WriteFile(filepath.Join(c.Dir, "runs-out", "go"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	says("pool7", "job", "j2")
	says("high", "job", "j2")
	says("succeeded", "history", "chain-1")
	says("the driver waits", "logs", "chain-1")
	says("troubled", "history", "--chains")
	says("chain-1", "jobs", "--all")
	if got := c.Lines("out"); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("got %q", got)
	}
	c.noHidden()
}

// TestChainKilled kills a waiting chain by slotwise kill, and another one by an interrupt
// of the submit. Both leave nothing, and no driver.
func TestChainKilled(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	w := c.StartWorker("w1")
	done := make(chan error, 1)
	go func() {
		_, _, err := c.runTroubled("wait", "out")
		done <- err
	}()
	c.appears(filepath.Join(c.Dir, "runs-out", "run*"))
	if out, err := c.Command("kill", "chain-1", "--reason", "not needed", "--master", c.URL).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := <-done; err == nil || !strings.Contains(err.Error(), "killed: not needed") {
		t.Errorf("got %v", err)
	}
	w.Says(`msg="driver ended"`)
	c.generatePoints("20MiB")
	cmd := c.Command("submit", "kmeans", "points", "--output", "k", "--wait", "--no-progress", "--master", c.URL, "--param", "iterations=1000", "--param", "k=50")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	clustertest.Eventually(t, "a step runs", func() bool { return strings.Contains(c.Master.Log.String(), "kmeans: pick") })
	cmd.Process.Signal(os.Interrupt)
	if status := exitStatus(cmd.Wait()); status != exitInterrupted {
		t.Errorf("exit status %d", status)
	}
	c.noHidden()
	if _, err := os.Stat(filepath.Join(c.Dir, "k")); err == nil {
		t.Error("a killed chain has an output")
	}
}

// generatePoints makes the input of kmeans.
func (c *testCluster) generatePoints(size string) {
	c.T.Helper()
	if out, err := c.Command("generate", "points", "--size", size, "--output", "points").CombinedOutput(); err != nil {
		c.T.Fatalf("%v: %s", err, out)
	}
}

// TestChainSurvives kills by SIGKILL, again and again at random moments, the driver of a
// chain, the workers and the master, and the client at the beginning. The result is the
// local run's, byte for byte. A task whose process is killed has failed, and four failures
// of one task end its job, so at most three of the faults kill processes of attempts.
func TestChainSurvives(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, "--node-timeout", "5s")
	listen := strings.TrimPrefix(c.URL, "http://")
	c.generatePoints("2MiB")
	args := []string{"kmeans", "points", "--reduces", "1", "--param", "k=7", "--param", "iterations=25"}
	if out, err := c.Command(append([]string{"run", "--output", "local"}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	workers := []*clustertest.Worker{c.StartWorker("w1"), c.StartWorker("w2")}
	cmd := c.Command(append([]string{"submit", "--output", "remote", "--wait", "--master", c.URL}, args...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	clustertest.Eventually(t, "a step runs", func() bool { return strings.Contains(c.Master.Log.String(), "kmeans: pick") })
	cmd.Process.Kill()
	cmd.Wait()
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	faults := map[string]int{}
	kills := 0
	for range 8 {
		time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
		i, kind := rng.IntN(2), rng.IntN(3)
		if kind == 0 && kills == 3 {
			kind = 1
		}
		switch kind {
		case 0: // the driver, or a task
			kills++
			for _, p := range proctree.Marked("SLOTWISE_ORIGIN=" + strings.TrimSpace(readFile(t, filepath.Join(workers[i].Dir, "origin")))) {
				faults["processes"]++
				syscall.Kill(p.PID, syscall.SIGKILL)
			}
		case 1:
			faults["worker"]++
			workers[i].Kill()
			workers[i] = c.StartWorker(fmt.Sprint("w", i+1))
		case 2:
			faults["master"]++
			c.Master.Kill()
			c.StartMaster(listen)
		}
	}
	t.Logf("faults: %v", faults)
	var last *slotwisev1.JobStatus
	cl, err := client.New(c.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), c.Patience)
	defer cancel()
	if last, err = cl.Wait(ctx, "chain-1", nil); err != nil || last.State != slotwisev1.JobState_JOB_STATE_SUCCEEDED {
		t.Fatalf("%v, %v", last, err)
	}
	t.Logf("%d steps, %d drivers", len(last.Steps), last.DriverTries)
	for _, name := range c.parts("local") {
		if got, want := readFile(t, filepath.Join(c.Dir, "remote", name)), readFile(t, filepath.Join(c.Dir, "local", name)); got != want || want == "" {
			t.Errorf("%s: %d bytes, want the %d of the local run", name, len(got), len(want))
		}
	}
	c.noHidden()
}

// parts returns the names of an output's part files.
func (c *testCluster) parts(dir string) (names []string) {
	c.T.Helper()
	found, _ := filepath.Glob(filepath.Join(c.Dir, dir, "part-*"))
	for _, f := range found {
		names = append(names, filepath.Base(f))
	}
	if len(names) == 0 {
		c.T.Fatalf("%s has no part files", dir)
	}
	return names
}
