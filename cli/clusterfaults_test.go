package cli

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/slotwise/slotwise/internal/base/proctree"
	"github.com/slotwise/slotwise/internal/live/history"
	"github.com/slotwise/slotwise/internal/testkit/clustertest"
)

// gate returns a mapper that writes a file named after its attempt when it
// starts, and continues when the file open exists.
func (c *testCluster) gate(name string) (mapper, started, open string) {
	started, open = filepath.Join(c.Dir, name+".started."), filepath.Join(c.Dir, name+".open")
	mapper = fmt.Sprintf("touch %s$SLOTWISE_ATTEMPT; while [ ! -e %s ]; do sleep 0.02; done; cat", started, open)
	return mapper, started, open
}

// begin submits a job in the background. The returned function waits for its
// end.
func (c *testCluster) begin(args ...string) (wait func() (int, string)) {
	type end struct {
		status int
		out    string
	}
	done := make(chan end, 1)
	go func() {
		status, out := c.Submit(args...)
		done <- end{status, out}
	}()
	return func() (int, string) {
		e := <-done
		return e.status, e.out
	}
}

// appears waits until a file matches a glob, and returns all that do.
func (c *testCluster) appears(glob string) (found []string) {
	c.T.Helper()
	clustertest.Eventually(c.T, glob+" appears", func() bool {
		found, _ = filepath.Glob(glob)
		return len(found) > 0
	})
	return found
}

// TestWorkerKilled kills a worker by SIGKILL while its task runs a command. The
// command has started a process in a separate session and writes to its log
// continuously. No process survives, and the job succeeds on another worker.
func TestWorkerKilled(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, "--node-timeout", "5s")
	w1 := c.StartWorker("w1")
	mapper, started, open := c.gate("m")
	wait := c.begin("--mapper", "(while :; do echo x; done) >&2 & setsid sleep 1000 >/dev/null 2>&1 & "+mapper, "--reducer", "cat", "--input", c.Write("in.txt", "a\nb\n"), "--output", "out", "--reduces", "1")
	c.appears(started + "*")
	mark := "SLOTWISE_ORIGIN=" + strings.TrimSpace(readFile(t, filepath.Join(w1.Dir, "origin")))
	if n := len(proctree.Marked(mark)); n < 3 {
		t.Fatalf("%d processes of the task, want at least 3", n)
	}
	w1.Cmd.Process.Kill()
	clustertest.Eventually(t, "all processes are gone", func() bool { return len(proctree.Marked(mark)) == 0 })
	if err := os.WriteFile(open, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	c.StartWorker("w2")
	if status, out := wait(); status != 0 {
		t.Fatalf("exit status %d: %s", status, out)
	}
	if got := c.Lines("out"); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("got %q", got)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestDrain drains a worker by SIGTERM. The worker reports at once that it is
// not ready, its task finishes, its map output is served until the job has
// ended, and it exits with status 0.
func TestDrain(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	w1 := c.StartWorker("w1", "--reduce-slots", "-1")
	mapper, started, open := c.gate("m")
	wait := c.begin("--mapper", mapper, "--reducer", "cat", "--input", c.Write("in.txt", "a\nb\n"), "--output", "out", "--reduces", "1")
	c.appears(started + "*")
	if status, text := w1.Get("/readyz"); status != http.StatusOK {
		t.Errorf("before: %d %s", status, text)
	}
	w1.Cmd.Process.Signal(syscall.SIGTERM)
	clustertest.Eventually(t, "the worker says that it is not ready", func() bool {
		status, _ := w1.Get("/readyz")
		return status == http.StatusServiceUnavailable
	})
	if status, text := w1.Get("/readyz?exclude=drain&exclude=disk&exclude=master"); status != http.StatusOK {
		t.Errorf("without the drain: %d %s", status, text)
	}
	if err := os.WriteFile(open, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	w1.Says("attempt ended")
	if status, _ := w1.Get("/healthz"); status != http.StatusOK {
		t.Error("the worker left with a map output that is needed")
	}
	c.StartWorker("w2", "--map-slots", "-1")
	if status, out := wait(); status != 0 {
		t.Fatalf("exit status %d: %s", status, out)
	}
	w1.Ends()
	if code := w1.Cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit status %d", code)
	}
	if found, _ := filepath.Glob(started + "*"); len(found) != 1 {
		t.Errorf("the map ran again: %q", found)
	}
}

// TestHandBack drains a worker whose task takes too long: the task is killed,
// reported so, and runs again elsewhere without counting as failed.
func TestHandBack(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	w1 := c.StartWorker("w1", "--drain-timeout", "10ms")
	mapper, started, open := c.gate("m")
	wait := c.begin("--mapper", mapper, "--reducer", "cat", "--input", c.Write("in.txt", "a\n"), "--output", "out", "--reduces", "1", "--max-attempts", "1")
	c.appears(started + "*")
	w1.Cmd.Process.Signal(syscall.SIGTERM)
	w1.Ends()
	if err := os.WriteFile(open, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	c.StartWorker("w2")
	if status, out := wait(); status != 0 {
		t.Fatalf("exit status %d: %s", status, out)
	}
}

// TestWorkerRestart starts a worker again in its directory: the outputs of its
// finished maps count, and no map runs twice.
func TestWorkerRestart(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, "--node-timeout", "10m")
	w1 := c.StartWorker("w1")
	mapper, started, open := c.gate("m")
	wait := c.begin("--mapper", mapper, "--reducer", "cat", "--input", c.Write("in.txt", "a\nb\n"), "--output", "out", "--reduces", "1")
	c.appears(started + "*")
	if err := os.WriteFile(open, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	w1.Says("attempt ended")
	w1.Kill()
	c.StartWorker("w1")
	if status, out := wait(); status != 0 {
		t.Fatalf("exit status %d: %s", status, out)
	}
	if got := c.Lines("out"); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("got %q", got)
	}
}

// TestFrozenWorker stops a worker for longer than the master waits, and has it
// continue. The master rejects its reports, the worker's task is killed, and
// the output has each record once.
func TestFrozenWorker(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, "--node-timeout", "5s")
	w1 := c.StartWorker("w1")
	mapper, started, open := c.gate("m")
	wait := c.begin("--mapper", mapper, "--reducer", "cat", "--input", c.Write("in.txt", "a\nb\n"), "--output", "out", "--reduces", "1")
	c.appears(started + "*_0")
	w1.Cmd.Process.Signal(syscall.SIGSTOP)
	c.StartWorker("w2")
	c.appears(started + "*_1")
	w1.Cmd.Process.Signal(syscall.SIGCONT)
	w1.Says("state=killed")
	if err := os.WriteFile(open, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if status, out := wait(); status != 0 {
		t.Fatalf("exit status %d: %s", status, out)
	}
	if got := c.Lines("out"); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("got %q", got)
	}
}

// TestTaskMemory runs a task that exceeds its memory limit. The task is killed,
// and the job fails with a message about the limit.
func TestTaskMemory(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	w := c.StartWorker("w1", "--task-memory", "300MiB")
	status, out := c.Submit("--mapper", "head -c 600m /dev/zero | tail", "--input", c.Write("in.txt", "a\n"), "--output", "out", "--max-attempts", "1")
	if status != exitFailed || !strings.Contains(out, "used more than 300 MiB of memory, the limit on this worker") {
		t.Errorf("exit status %d: %s", status, out)
	}
	if _, text := w.Get("/metrics"); !strings.Contains(text, `slotwise_worker_attempts_ended_total{kind="map",state="failed"} 1`) {
		t.Errorf("metrics: %s", text)
	}
}

// TestJobTaskMemory runs a task that needs more than its job asked for, and submits a job
// that asks for more than a worker has.
func TestJobTaskMemory(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.StartWorker("w1")
	in := c.Write("in.txt", "a\n")
	status, out := c.Submit("--mapper", "head -c 900m /dev/zero | tail", "--input", in, "--output", "out", "--max-attempts", "1", "--task-memory", "24MiB")
	if status != exitFailed || !strings.Contains(out, "used more than its 24.0 MiB of memory (--task-memory)") {
		t.Errorf("exit status %d: %s", status, out)
	}
	status, out = c.Submit("--mapper", "cat", "--input", in, "--output", "out2", "--task-memory", "100MiB")
	if status == 0 || !strings.Contains(out, "a map occupies 4 map slots; the largest node, w1, has 1, each with 32.0 MiB") {
		t.Errorf("exit status %d: %s", status, out)
	}
}

// TestFailureTells submits a job whose command fails. The command's standard
// error is in the message and in the attempt's log.
func TestFailureTells(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	w := c.StartWorker("w1")
	status, out := c.Submit("--mapper", "echo the disk is on fire >&2; exit 3", "--input", c.Write("in.txt", "a\n"), "--output", "out", "--max-attempts", "1")
	if status != exitFailed || !strings.Contains(out, "the disk is on fire") {
		t.Errorf("exit status %d: %s", status, out)
	}
	if status, text := w.Get("/v1/logs/j1_m_0_0"); status != http.StatusOK || !strings.Contains(text, "the disk is on fire") {
		t.Errorf("log: %d %s", status, text)
	}
	for path, want := range map[string]int{
		"/v1/logs/j1_m_7_0": 404, "/v1/logs/..%2f..%2fname": 400, "/v1/logs/x": 400, "/v1/outputs/j1/..%2fx/0": 400, "/nothing": 404,
	} {
		if status, text := w.Get(path); status != want {
			t.Errorf("%s: %d, want %d: %s", path, status, want, text)
		}
	}
}

// TestFollowLog follows a log while its attempt runs.
func TestFollowLog(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	w := c.StartWorker("w1")
	mapper, started, open := c.gate("m")
	wait := c.begin("--mapper", "echo early >&2; "+mapper+"; echo late >&2", "--input", c.Write("in.txt", "a\n"), "--output", "out")
	c.appears(started + "*")
	resp, err := http.Get("http://" + w.Address() + "/v1/logs/j1_m_0_0?follow")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b := make([]byte, 6)
	if n, err := resp.Body.Read(b); err != nil || string(b[:n]) != "early\n" {
		t.Fatalf("got %q, %v", b[:n], err)
	}
	if err := os.WriteFile(open, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	var rest strings.Builder
	for {
		n, err := resp.Body.Read(b)
		rest.Write(b[:n])
		if err != nil {
			break
		}
	}
	if rest.String() != "late\n" {
		t.Errorf("got %q", rest.String())
	}
	wait()
}

// TestLogsOfLostWorker reads logs after their worker was killed.
func TestLogsOfLostWorker(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	w := c.StartWorker("w1")
	c.Must("--mapper", "echo on standard error >&2; cat", "--input", c.Write("in.txt", "a\n"), "--output", "out")
	if got := c.asks("logs", "j1_m_0_0"); !strings.Contains(got, "on standard error\n") || strings.Contains(got, "kept") {
		t.Errorf("the worker's log: %q", got)
	}
	clustertest.Eventually(t, "the history has the log", func() bool {
		h, err := history.OpenRead(filepath.Join(c.Dir, "m"))
		if err != nil {
			return false
		}
		defer h.Close()
		_, err = h.Log("j1_m_0_0")
		return err == nil
	})
	w.Kill()
	out, err := c.Command("logs", "j1_m_0_0", "--master", c.URL).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "on standard error\n") || !strings.Contains(string(out), "the master has kept all of its log\n") {
		t.Errorf("after the worker's end: %v: %s", err, out)
	}
}

// TestChain runs apps that are chains of jobs, and checks that no temporary
// directory remains beside the output.
func TestChain(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.StartWorker("w1")
	c.StartWorker("w2")
	if out, err := c.Command("generate", "points", "--size", "200KiB", "--output", "points").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c.Must("kmeans", "points", "--output", "remote", "--reduces", "1", "--param", "k=3", "--param", "iterations=2")
	if out, err := c.Command("run", "kmeans", "points", "--output", "local", "--reduces", "1", "--param", "k=3", "--param", "iterations=2").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got, want := c.Lines("remote"), c.Lines("local"); len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("got %d lines, want %d", len(got), len(want))
	}
	if left, _ := filepath.Glob(filepath.Join(c.Dir, ".*")); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
}

// TestSubmitInterrupted interrupts a waiting submit. The job is killed and has
// no output.
func TestSubmitInterrupted(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	w := c.StartWorker("w1")
	mapper, started, _ := c.gate("m")
	cmd := c.Command("submit", "--master", c.URL, "--wait", "--no-progress", "--mapper", mapper, "--input", c.Write("in.txt", "a\n"), "--output", filepath.Join(c.Dir, "out"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.appears(started + "*")
	cmd.Process.Signal(os.Interrupt)
	if status := exitStatus(cmd.Wait()); status != exitInterrupted {
		t.Errorf("exit status %d", status)
	}
	w.Says("state=killed")
	clustertest.Eventually(t, "nothing of the output is left", func() bool {
		left, _ := filepath.Glob(filepath.Join(c.Dir, "*out*"))
		hidden, _ := filepath.Glob(filepath.Join(c.Dir, ".*out*"))
		return len(left)+len(hidden) == 0
	})
}

// TestDiskFull runs a worker whose --min-free exceeds the free space. It
// accepts no work and reports the reason.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	w := c.StartWorker("full", "--min-free", "8000000GiB")
	w.Says("the disk is full")
	if status, text := w.Get("/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(text, "disk") {
		t.Errorf("%d %s", status, text)
	}
	if status, text := w.Get("/readyz?exclude=disk"); status != http.StatusOK {
		t.Errorf("without the disk: %d %s", status, text)
	}
	wait := c.begin("--mapper", "cat", "--input", c.Write("in.txt", "a\n"), "--output", "out")
	c.StartWorker("w2")
	if status, out := wait(); status != 0 {
		t.Fatalf("exit status %d: %s", status, out)
	}
	if strings.Contains(w.Log.String(), "attempt ended") {
		t.Error("the full worker got work")
	}
}

// TestMasterRestart kills the master by SIGKILL when one map has ended and
// another runs, and restarts it. Neither map runs again.
func TestMasterRestart(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	w := c.StartWorker("w1", "--reduce-slots", "-1")
	first, firstStarted, open := c.gate("first")
	if err := os.WriteFile(open, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	second, secondStarted, openSecond := c.gate("second")
	// The map of the second file waits.
	mapper := fmt.Sprintf("case $SLOTWISE_TASK in 0) %s;; *) %s;; esac", first, second)
	c.Write("in/a.txt", "a\n")
	c.Write("in/b.txt", "b\n")
	wait := c.begin("--mapper", mapper, "--reducer", "cat", "--input", "in", "--split-size", "2", "--output", "out", "--reduces", "1")
	c.appears(secondStarted + "*")
	c.Master.Kill()
	if err := os.WriteFile(openSecond, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	c.StartMaster(strings.TrimPrefix(c.URL, "http://"))
	c.StartWorker("w2", "--map-slots", "-1")
	if status, out := wait(); status != 0 {
		t.Fatalf("exit status %d: %s", status, out)
	}
	if got := c.Lines("out"); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("got %q", got)
	}
	for _, started := range []string{firstStarted, secondStarted} {
		if found, _ := filepath.Glob(started + "*"); len(found) != 1 {
			t.Errorf("ran: %q", found)
		}
	}
	if n := strings.Count(w.Log.String(), "attempt ended"); n != 2 {
		t.Errorf("%d attempts have ended, want 2", n)
	}
}

// TestOwnProgram runs a user's own program on a cluster that has never seen it.
// The submission uploads it.
func TestOwnProgram(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.StartWorker("w1")
	program := filepath.Join(c.Dir, "anywhere")
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", program, "../examples/anywhere").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	c.Write("in.txt", "a bb cc\nddd a\n")
	for _, output := range []string{"first", "again"} { // from the cache then
		cmd := exec.Command(program, "-master", c.URL, "-input", "in.txt", "-output", output)
		cmd.Dir = c.Dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if got := c.Lines(output); !slices.Equal(got, []string{"a\t2", "bb\t1", "cc\t1", "ddd\t1"}) {
			t.Errorf("got %q", got)
		}
	}
}

// TestDamagedOutput flips a bit in the output of a finished map and deletes
// the output of another one. The reduce reports both, the maps run again, and the
// result is right.
func TestDamagedOutput(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	w1 := c.StartWorker("w1", "--reduce-slots", "-1")
	mapper, started, open := c.gate("m")
	if err := os.WriteFile(open, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	c.Write("in/a.txt", "a\n")
	c.Write("in/b.txt", "b\n")
	c.Write("in/c.txt", "c\n")
	wait := c.begin("--mapper", mapper, "--reducer", "cat", "--input", "in", "--split-size", "2", "--output", "out", "--reduces", "1")
	outputs := filepath.Join(w1.Dir, "outputs", "j1", "*_0.run")
	clustertest.Eventually(t, "all maps have ended", func() bool {
		found, _ := filepath.Glob(outputs)
		return len(found) == 3 && strings.Count(w1.Log.String(), "attempt ended") == 3
	})
	found := c.appears(outputs)
	b := []byte(readFile(t, found[0]))
	b[10] ^= 1
	if err := os.WriteFile(found[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(found[1]); err != nil {
		t.Fatal(err)
	}
	c.StartWorker("w2", "--map-slots", "-1")
	if status, out := wait(); status != 0 {
		t.Fatalf("exit status %d: %s", status, out)
	}
	if got := c.Lines("out"); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("got %q", got)
	}
	if found, _ := filepath.Glob(started + "*"); len(found) != 5 {
		t.Errorf("ran: %q", found)
	}
}
