package deploy

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slotwise/slotwise/internal/testkit/clustertest"
)

// older returns the program of the last release, or of the previous commit if there is
// no release. It skips the test without history.
func older(t *testing.T) string {
	t.Helper()
	revision := "HEAD~1"
	if tag, err := exec.Command("git", "describe", "--tags", "--abbrev=0").Output(); err == nil {
		revision = strings.TrimSpace(string(tag))
	}
	if err := exec.Command("git", "rev-parse", "--verify", "-q", revision+"^{commit}").Run(); err != nil {
		t.Skipf("there is no commit %s: a shallow clone?", revision)
	}
	dir := t.TempDir()
	archive := filepath.Join(dir, "tree.tar")
	cmd := exec.Command("git", "archive", "-o", archive, revision)
	cmd.Dir = ".."
	for _, c := range []*exec.Cmd{cmd, exec.Command("tar", "-xf", archive, "-C", dir)} {
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", c, err, out)
		}
	}
	t.Logf("the older program is of %s", revision)
	binary := filepath.Join(dir, "slotwise")
	if err := build(dir, binary); err != nil {
		t.Fatal(err)
	}
	return binary
}

// TestUpgrade upgrades a cluster in the order of docs/operate.md while jobs run: the
// master, then one worker after the other. Jobs that older and newer clients submit
// before, between and after must succeed with the right output.
func TestUpgrade(t *testing.T) {
	if testing.Short() {
		t.Skip("builds an older version and starts a cluster")
	}
	old, current := older(t), current(t)
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
	out, err := exec.Command(current, "jobs", "--master", c.URL, "-o", "json").Output()
	if err != nil || strings.TrimSpace(string(out)) != "[]" {
		t.Errorf("jobs are left: %s, %v", out, err)
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
