package cli

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/testkit/clustertest"
)

// killMaster kills the master by SIGKILL and restarts it at the same address
// and directory.
func (c *testCluster) killMaster() {
	c.T.Helper()
	c.Master.Kill()
	c.StartMaster(strings.TrimPrefix(c.URL, "http://"))
}

// asks runs a command that asks the master, which must succeed, and returns what
// it prints.
func (c *testCluster) asks(args ...string) string {
	c.T.Helper()
	cmd := c.Command(append(args, "--master", c.URL)...)
	var stderr clustertest.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		c.T.Fatalf("slotwise %v: %v\n%s", args, err, stderr.String())
	}
	return string(out)
}

// TestMasterKilled kills the master while maps run, between maps and reduces,
// and while a reduce runs. Waiting clients keep waiting, running attempts
// continue, no task starts twice, and the history survives another kill.
func TestMasterKilled(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.StartWorker("w1")
	c.StartWorker("w2")
	mapper, mapStarted, mapOpen := c.gate("map")
	reducer, redStarted, redOpen := c.gate("red")
	c.Write("in/a.txt", "b\nc\na\nd\n")
	wait := c.begin("--mapper", mapper, "--reducer", reducer, "--input", "in", "--output", "out", "--reduces", "1", "--split-size", "4")
	clustertest.Eventually(t, "both maps run", func() bool { return len(c.appears(mapStarted+"*")) == 2 })
	c.killMaster()
	if err := os.WriteFile(mapOpen, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	c.appears(redStarted + "*")
	c.killMaster()
	if err := os.WriteFile(redOpen, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if status, out := wait(); status != 0 {
		t.Fatalf("exit status %d: %s", status, out)
	}
	if got := c.Lines("out"); !slices.Equal(got, []string{"a", "b", "c", "d"}) {
		t.Errorf("output %q", got)
	}
	if n := len(c.appears(mapStarted+"*")) + len(c.appears(redStarted+"*")); n != 3 {
		t.Errorf("%d attempts, want 3", n)
	}
	c.killMaster()
	clustertest.Eventually(t, "the history has the job after another kill", func() bool { return strings.Contains(c.asks("history"), "succeeded") })
	if left, _ := filepath.Glob(filepath.Join(c.Dir, ".out*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestMasterForgets deletes the master's state and submits another job, which
// gets the id of a job that a client waits for. The client must not report that
// its job has succeeded.
func TestMasterForgets(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.StartWorker("w1")
	mapper, started, open := c.gate("m")
	in := c.Write("in.txt", "a\n")
	first := c.begin("--mapper", mapper, "--input", in, "--output", "first")
	c.appears(started + "*")
	c.Master.Cmd.Process.Signal(syscall.SIGSTOP)
	if err := os.RemoveAll(filepath.Join(c.Dir, "m")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(open, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	c.killMaster()
	c.Must("--mapper", "cat", "--input", in, "--output", "second")
	if status, out := first(); status == 0 || !strings.Contains(out, "job j1") {
		t.Errorf("exit status %d: %s", status, out)
	}
}

// TestClusterCommands lists and changes jobs that run, wait and have ended.
func TestClusterCommands(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	c := newTestCluster(t, "--policy", "fair")
	if out, err := c.Command("jobs", "--user", "ann", "--master", c.URL).CombinedOutput(); err != nil || !strings.Contains(string(out), "no job of user ann that has not ended; --all lists") {
		t.Errorf("no jobs: %v\n%s", err, out)
	}
	c.StartWorker("w1")
	mapper, started, open := c.gate("m")
	in := c.Write("in.txt", "a\n")
	first := c.begin("--mapper", "echo hello >&2; "+mapper, "--input", in, "--output", "out1", "--user", "ann")
	c.appears(started + "*")
	second := c.begin("--mapper", "cat", "--input", in, "--output", "out2", "--user", "bob")
	clustertest.Eventually(t, "the second job is there", func() bool { return strings.Contains(c.asks("jobs"), "j2") })

	var jobs []struct{ ID, State, User, Waiting string }
	c.asksJSON(&jobs, "jobs")
	if len(jobs) != 2 || jobs[0].State != "running" || jobs[1].State != "waiting" || jobs[1].Waiting == "" {
		t.Errorf("jobs %+v", jobs)
	}
	var why struct {
		Why []struct{ Kind, Reason, Words, Advice string }
	}
	c.asksJSON(&why, "explain", "j2")
	if len(why.Why) == 0 || why.Why[0].Kind != "map" || why.Why[0].Reason != "no-slot" || why.Why[0].Advice == "" {
		t.Errorf("explanation %+v", why)
	}
	c.asks("priority", "j2", "high")
	c.asks("move", "j2", "deep")
	var j struct{ Priority, Pool string }
	c.asksJSON(&j, "job", "j2")
	if j.Priority != "HIGH" || j.Pool != "deep" {
		t.Errorf("job %+v", j)
	}
	c.asks("policy", "capacity")
	if got := c.asks("policy"); !strings.HasPrefix(got, "capacity\n\nqueues: map slots\n") {
		t.Errorf("policy %q", got)
	}
	if got := c.asks("tasks", "j1", "--state", "running"); !strings.Contains(got, "j1_m_0_0") {
		t.Errorf("tasks:\n%s", got)
	}
	clustertest.Eventually(t, "the log has a line", func() bool { return strings.Contains(c.asks("logs", "j1_m_0_0"), "hello") })
	if got := c.asks("top"); !strings.Contains(got, "j1") || !strings.Contains(got, "w1") || strings.Contains(got, "\x1b") {
		t.Errorf("top:\n%s", got)
	}
	if got := c.asks("nodes", "drain", "w1"); !strings.HasPrefix(got, "w1 is draining; running there: ") {
		t.Errorf("the drain prints %q", got)
	}
	if got := c.asks("nodes"); !strings.Contains(got, "draining") {
		t.Errorf("nodes:\n%s", got)
	}
	if err := os.WriteFile(open, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if status, out := first(); status != 0 {
		t.Fatalf("exit status %d: %s", status, out)
	}
	c.asksJSON(&jobs, "jobs")
	if len(jobs) != 1 || jobs[0].State != "waiting" {
		t.Errorf("with the only worker drained: %+v", jobs)
	}
	c.asks("kill", "j2", "--reason", "enough of it")
	if status, out := second(); status != 1 || !strings.Contains(out, "enough of it") {
		t.Errorf("the killed job: exit status %d: %s", status, out)
	}
	// Without --wait, submit prints a job that was accepted, and no outcome.
	var accepted struct {
		State string
		Jobs  []struct{ ID, State string }
	}
	if err := json.Unmarshal([]byte(c.asks("submit", "wordcount", in, "--output", "out4", "-o", "json")), &accepted); err != nil {
		t.Fatal(err)
	}
	if accepted.State != "accepted" || len(accepted.Jobs) != 1 || accepted.Jobs[0].ID != "j3" || accepted.Jobs[0].State != "waiting" {
		t.Errorf("submit -o json: %+v", accepted)
	}
	var times struct {
		Submitted int64 `json:"submitted_ms"`
	}
	if c.asksJSON(&times, "job", "j3"); times.Submitted < begun.UnixMilli() || times.Submitted > time.Now().UnixMilli()+1000 {
		t.Errorf("the job was submitted at %d", times.Submitted)
	}
	c.asks("nodes", "drain", "w1", "--undo")
	c.Must("--mapper", "cat", "--input", in, "--output", "out3")
}

// asksJSON runs a listing with -o json and decodes it.
func (c *testCluster) asksJSON(into any, args ...string) {
	c.T.Helper()
	if err := json.Unmarshal([]byte(c.asks(append(args, "-o", "json")...)), into); err != nil {
		c.T.Fatal(err)
	}
}

// TestMasterMoves moves a master to another address while a map runs: stop, back up, restore in another
// directory, start. The worker and the waiting client have both addresses in their lists, and the
// attempt that ran continues.
func TestMasterMoves(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	l, err := net.Listen("tcp", clustertest.LoopbackHost()+":0")
	if err != nil {
		t.Fatal(err)
	}
	to := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	c.URL += "," + to
	c.StartWorker("w1")
	mapper, started, open := c.gate("map")
	c.Write("in/a.txt", "b\na\n")
	wait := c.begin("--mapper", mapper, "--reducer", "cat", "--input", "in", "--output", "out", "--reduces", "1")
	clustertest.Eventually(t, "the map runs", func() bool { return len(c.appears(started+"*")) == 1 })
	c.Master.Signal(syscall.SIGTERM)
	c.Master.Ends()
	if status, out := c.Run("master", "backup", "m", "--to", "moved.tar"); status != 0 {
		t.Fatal(out)
	}
	if err := os.Rename(filepath.Join(c.Dir, "m"), filepath.Join(c.Dir, "old")); err != nil {
		t.Fatal(err)
	}
	if status, out := c.Run("master", "restore", "m", "--from", "moved.tar"); status != 0 {
		t.Fatal(out)
	}
	c.StartMaster(to)
	if err := os.WriteFile(open, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if status, out := wait(); status != 0 {
		t.Fatalf("the job: status %d\n%s", status, out)
	}
	if got := c.Lines("out"); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("out: %q", got)
	}
	if tasks := c.asks("tasks", "j1", "--kind", "map"); strings.Contains(tasks, "_m_0_1") {
		t.Errorf("the map ran again:\n%s", tasks)
	}
}
