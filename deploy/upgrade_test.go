package deploy

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/slotwise/slotwise/internal/testkit/clustertest"
)

// recordedDir is where the processes of testdata/upgrade.tar.gz ran: the journal names the
// jobs' files by their absolute paths.
const recordedDir = "/tmp/slotwise-upgrade"

// TestRecordedMaster starts this tree's master and worker in directories that the program of
// commit dd9ad49 has written, the last one before the rooms of docs/architecture.md. Master
// and worker were killed after a snapshot, while j10, which has reduces, j11, which has none,
// and chain-2 ran. So the journal, the snapshot, the history, the jobs' files, the state of a
// policy that learns, the held map outputs and the staged part files are that program's. j1
// to j9 had ended, j6 as failed, and so had the chain of j2 to j5. testdata/record.sh has the
// commands. The program that the jobs ship is a script that executes recordedDir/slotwise.
func TestRecordedMaster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	t.Parallel()
	c := &cluster{clustertest.New(t, current(t)), map[string]*clustertest.Worker{}}
	if err := os.Mkdir(recordedDir, 0o700); errors.Is(err, fs.ErrExist) {
		t.Fatalf("%s exists: another test uses it, or one that was killed has left it; then remove it", recordedDir)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(recordedDir) })
	if out, err := exec.Command("tar", "-xzf", "testdata/upgrade.tar.gz", "-C", recordedDir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.Symlink(c.Program, filepath.Join(recordedDir, "slotwise")); err != nil {
		t.Fatal(err)
	}
	c.Dir = recordedDir
	c.StartMaster("127.0.0.1:0")
	c.startWorker("w1")
	clustertest.Eventually(t, "the jobs have ended", func() bool { return c.prints("jobs", "-o", "json") == "[]" })

	for id, state := range map[string]string{"j1": "succeeded", "j5": "succeeded", "j6": "failed", "j9": "succeeded", "j10": "succeeded", "j11": "succeeded",
		"chain-1": "succeeded", "chain-2": "succeeded"} {
		clustertest.Eventually(t, "the history says of "+id+": "+state, func() bool { // it has a job soon after the job's end
			_, out := c.Run("history", id, "--master", c.URL)
			return strings.Contains(out, state)
		})
	}
	// The attempts of an ended job, and the text that one printed.
	if s := c.prints("history", "j6"); !strings.Contains(s, "mapper is broken") {
		t.Errorf("the history of j6:\n%s", s)
	}
	if s := c.prints("policy"); !strings.HasPrefix(s, "learning-nb disk-limit=1e15") || !strings.Contains(s, "labelled decisions") {
		t.Errorf("the installed policy:\n%s", s)
	}
	if strings.Contains(c.Master.Log.String(), "cannot be used") {
		t.Error("the policy has lost what it had learned")
	}
	// Three of the four map outputs are the older program's. Their maps do not run again.
	if s := c.prints("tasks", "j10"); strings.Contains(s, "j10_m_0_1") || strings.Contains(s, "j10_m_2_1") || !strings.Contains(s, "j10_m_3_1") {
		t.Errorf("the tasks of j10:\n%s", s)
	}
	want := strings.Fields("32 0 32 5 32 6 36 1 36 2 36 3 36 4") // uniq -c writes spaces before the numbers
	if got := strings.Fields(strings.Join(c.Lines("running"), "\n")); !slices.Equal(got, want) {
		t.Errorf("the output of j10 is %s", got)
	}
	if got := len(c.Lines("waiting")); got != 240 {
		t.Errorf("the output of j11 has %d lines, want 240", got)
	}
}

// prints returns what a command of a client prints.
func (c *cluster) prints(args ...string) string {
	c.T.Helper()
	status, out := c.Run(append(args, "--master", c.URL)...)
	if status != 0 {
		c.T.Fatalf("%v: exit status %d\n%s", args, status, out)
	}
	return strings.TrimSpace(out)
}

// TestUpgrade upgrades a cluster in the order of docs/operate.md while jobs run: the
// master, then one worker after the other. Jobs that older and newer clients submit
// before, between and after must succeed with the right output. The older program is the
// one that SLOTWISE_UPGRADE_FROM names, because a test should not compile another commit.
func TestUpgrade(t *testing.T) {
	old := os.Getenv("SLOTWISE_UPGRADE_FROM")
	if old == "" {
		t.Skip("SLOTWISE_UPGRADE_FROM does not name the program of an older version")
	}
	t.Parallel()
	current := current(t)
	c := newCluster(t, old)
	for _, name := range []string{"w1", "w2"} {
		c.startWorker(name)
	}
	before := c.submit("before")
	clustertest.Eventually(t, "a task has finished", func() bool {
		return strings.Contains(c.workers["w1"].Log.String()+c.workers["w2"].Log.String(), "state=succeeded")
	})

	stop(t, c.Master)
	c.Program = current
	c.RestartMaster()
	afterMaster := c.submit("after-master")
	c.Program = old
	olderClient := c.submit("older-client")
	c.Program = current
	for _, name := range []string{"w1", "w2"} {
		stop(t, c.workers[name].Process)
		c.startWorker(name)
	}
	last := c.submit("last")
	for _, s := range []*submission{before, afterMaster, olderClient, last} {
		s.wait(t)
	}
	if out := c.prints("jobs", "-o", "json"); out != "[]" {
		t.Errorf("jobs are left: %s", out)
	}
	if hidden, err := filepath.Glob(filepath.Join(c.Dir, ".*")); err != nil || len(hidden) > 0 {
		t.Errorf("files are left: %v, %v", hidden, err)
	}
}

// stop ends a process with the signal that systemd sends. The process must exit without an error.
func stop(t *testing.T, p *clustertest.Process) {
	t.Helper()
	p.Signal(syscall.SIGTERM)
	if status := p.Ends(); status != 0 {
		t.Fatalf("exit status %d\n%s", status, &p.Log)
	}
}
