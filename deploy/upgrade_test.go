package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
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

// TestUpgrade upgrades a cluster in the order of docs/operations.md while jobs run: the
// master, then one worker after the other. Jobs that older and newer clients submit
// before, between and after must succeed with the right output.
func TestUpgrade(t *testing.T) {
	if testing.Short() {
		t.Skip("builds an older version and starts a cluster")
	}
	old, current := older(t), current(t)
	c := newCluster(t, old)
	c.startMaster()
	for _, name := range []string{"w1", "w2"} {
		c.startWorker(name)
	}
	before := c.submit("before")
	c.eventually("a task has finished", func() bool { return c.count("w1.log", "state=succeeded")+c.count("w2.log", "state=succeeded") > 0 })

	c.stop(c.master)
	c.binary = current
	c.startMaster()
	afterMaster := c.submit("after-master")
	c.binary = old
	olderClient := c.submit("older-client")
	c.binary = current
	for _, name := range []string{"w1", "w2"} {
		c.stop(c.workers[name])
		c.startWorker(name)
	}
	last := c.submit("last")
	for _, s := range []*submission{before, afterMaster, olderClient, last} {
		s.wait(t)
	}
	out, err := exec.Command(current, "jobs", "--master", c.address, "-o", "json").Output()
	if err != nil || strings.TrimSpace(string(out)) != "[]" {
		t.Errorf("jobs are left: %s, %v", out, err)
	}
	if hidden, err := filepath.Glob(filepath.Join(c.dir, ".*")); err != nil || len(hidden) > 0 {
		t.Errorf("files are left: %v, %v", hidden, err)
	}
}

// stop ends a process with the signal that systemd sends, and waits until it has exited.
func (c *cluster) stop(p *process) {
	c.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		c.t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		text, _ := os.ReadFile(p.log)
		c.t.Fatalf("%s: %v\n%s", p.log, err, text)
	}
}
