package worker_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/live/cgroup"
	"github.com/slotwise/slotwise/internal/live/worker"
	"github.com/slotwise/slotwise/internal/testkit/clustertest"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// delegatedGroup returns a control group of the kernel that holds one process, as a service
// manager would delegate it. It skips the test where there is none of version 2.
func delegatedGroup(t *testing.T) (dir string, pid int) {
	t.Helper()
	own, err := cgroup.Own()
	if err != nil {
		t.Skip("no control groups of version 2 here:", err)
	}
	if dir, err = os.MkdirTemp(own, "slotwise-test-"); err != nil {
		t.Skip("the control group of this process is not writable:", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "cgroup.kill")); err != nil {
		t.Skip("the kernel is too old:", errors.Join(err, os.Remove(dir)))
	}
	sleeper := exec.Command("sleep", "1000")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		sleeper.Process.Kill()
		sleeper.Wait()
		clustertest.Eventually(t, "only the worker's own group is left, and it can be removed", func() bool {
			os.Remove(filepath.Join(dir, "slotwise-worker"))
			return os.Remove(dir) == nil
		})
	})
	return dir, sleeper.Process.Pid
}

// TestControlGroups runs attempts in control groups of the kernel. Each is in a group of its
// own from its first instruction on. Its end, by itself or by a kill, ends every process of
// the group, and the group goes. Which controllers the machine has does not matter.
func TestControlGroups(t *testing.T) {
	dir, pid := delegatedGroup(t)
	m := newFakeMaster(t)
	m.worker("", func(c *worker.Config) { c.GroupsAt(dir, pid); c.Reuse = worker.ReuseOff })
	m.do(func() {
		if got := m.mu.registers[0].GetLimits(); got != "cgroup" {
			t.Errorf("the worker says that attempts are limited by %q", got)
		}
	})
	notes := t.TempDir()
	// A note appears with its content, by mv: the test reads it as soon as it exists.
	detached := fmt.Sprintf("setsid sh -c 'trap \"\" TERM INT; echo $$ >%[1]s/$SLOTWISE_ATTEMPT.new; mv %[1]s/$SLOTWISE_ATTEMPT.new %[1]s/$SLOTWISE_ATTEMPT; "+
		"while :; do sleep 1; done' >/dev/null 2>&1 & while [ ! -e %[1]s/$SLOTWISE_ATTEMPT ]; do sleep 0.01; done; grep ^0:: /proc/self/cgroup >%[1]s/$SLOTWISE_ATTEMPT.new; mv %[1]s/$SLOTWISE_ATTEMPT.new %[1]s/$SLOTWISE_ATTEMPT.group", notes)
	note := func(name string) string {
		b, err := os.ReadFile(filepath.Join(notes, name))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(b))
	}
	check := func(attempt string) {
		t.Helper()
		group := filepath.Base(note(attempt + ".group"))
		if !strings.HasPrefix(group, "slotwise-") || !strings.Contains(group, "-"+attempt+".") {
			t.Errorf("%s ran in group %q", attempt, group)
		}
		left, err := strconv.Atoi(note(attempt))
		if err != nil {
			t.Fatal(err)
		}
		clustertest.Eventually(t, "the detached process and the group of "+attempt+" are gone", func() bool { return ended(left) && !exists(filepath.Join(dir, group)) })
	}

	m.launch("j1_m_0_0", m.job("j1", detached+"; cat", 1, "a\n"))
	want(t, m.ends("j1_m_0_0"), succeeded, "")
	check("j1_m_0_0")

	m.launch("j2_m_0_0", m.job("j2", detached+"; trap '' TERM INT; while :; do sleep 0.1; done", 1, "a\n"))
	clustertest.Eventually(t, "the attempt runs", func() bool { return exists(filepath.Join(notes, "j2_m_0_0.group")) })
	m.order(&slotwisev1.Action{What: &slotwisev1.Action_Kill{Kill: &slotwisev1.Kill{Attempt: "j2_m_0_0", Reason: "for a test"}}})
	want(t, m.ends("j2_m_0_0"), killed, "for a test")
	check("j2_m_0_0")
}
