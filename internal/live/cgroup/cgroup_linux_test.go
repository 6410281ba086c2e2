package cgroup

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// realTree returns a tree of the kernel's control groups for a process that waits, with as
// many of the wanted controllers as there are. It skips the test where there is no
// writable control group of version 2.
func realTree(t *testing.T, want ...string) *Tree {
	t.Helper()
	own, err := Own()
	if err != nil {
		t.Skip("no control groups of version 2 here:", err)
	}
	has, _ := os.ReadFile(filepath.Join(own, "cgroup.controllers"))
	for _, c := range want {
		if !slices.Contains(strings.Fields(string(has)), c) {
			t.Skipf("control group %s has no controller %s; it has %q", own, c, strings.TrimSpace(string(has)))
		}
	}
	dir := filepath.Join(own, "slotwise-test-"+filepath.Base(t.TempDir())+strings.ReplaceAll(t.Name(), "/", "-"))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skip("the control group of this process is not writable:", err)
	}
	sleeper := exec.Command("sleep", "600")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	restore := func() {}
	t.Cleanup(func() {
		_ = sleeper.Process.Kill()
		_ = sleeper.Wait()
		if err := (&Group{dir}).Remove(); err != nil {
			t.Error(err)
		}
		restore()
	})
	if len(want) > 0 {
		before := words(t, own, "cgroup.subtree_control")
		if err := write(own, "cgroup.subtree_control", "+"+strings.Join(want, " +")); err != nil {
			t.Skip("the controllers cannot be enabled here:", err)
		}
		restore = func() {
			for _, c := range want {
				if !slices.Contains(before, c) {
					_ = write(own, "cgroup.subtree_control", "-"+c) // another process may need it now
				}
			}
		}
	}
	tree, err := OpenAt(dir, "id", sleeper.Process.Pid, want)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// startIn starts a shell command in a group.
func startIn(t *testing.T, g *Group, script string) *exec.Cmd {
	t.Helper()
	h, err := g.Handle()
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	c := exec.Command("sh", "-c", script)
	c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(h.Fd()), Setsid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// Kill ends every process of the group, also processes that left their process group and
// session, and Remove leaves nothing.
func TestKillEndsAllProcesses(t *testing.T) {
	tree := realTree(t)
	g, err := tree.Create("j1_m_0_0", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	c := startIn(t, g, "setsid sleep 600 & setsid sleep 600 & echo; wait")
	procs := func() int {
		b, _ := os.ReadFile(filepath.Join(g.dir, "cgroup.procs"))
		return len(strings.Fields(string(b)))
	}
	for deadline := time.Now().Add(2 * time.Minute); procs() < 3; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d processes in the group, want 3", procs())
		}
	}
	if err := g.Kill(); errors.Is(err, errNoKill) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err == nil {
		t.Error("the shell was not killed")
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(g.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the group is still there: %v", err)
	}
}

// A new worker with the same id removes what the last one has left, and nothing of
// workers with other ids.
func TestOpenSweeps(t *testing.T) {
	tree := realTree(t)
	left, err := tree.Create("j1_m_0_0", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(left.dir, "below"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := startIn(t, left, "sleep 600")
	other, err := (&Tree{dir: tree.dir, prefix: "slotwise-other-"}).Create("j1_m_0_0", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	if _, err := OpenAt(tree.dir, "id", os.Getpid(), nil); err != nil {
		t.Fatal(err)
	}
	defer func() { // the cleanup of the tree must not kill this process
		if err := write(filepath.Dir(tree.dir), "cgroup.procs", "0"); err != nil {
			t.Fatal(err)
		}
	}()
	if _, err := os.Stat(left.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the group is still there: %v", err)
	}
	if err := <-ended; err == nil {
		t.Error("its process was not killed")
	}
	if _, err := os.Stat(other.dir); err != nil {
		t.Error(err)
	}
}

// freeController returns a controller that the control group of this process can give to
// groups below it, "" if there is none. Where version 1 has cpu, memory and pids, that may be
// hugetlb, misc or rdma.
func freeController(t *testing.T) string {
	t.Helper()
	own, err := Own()
	if err != nil {
		t.Skip("no control groups of version 2 here:", err)
	}
	has, _ := os.ReadFile(filepath.Join(own, "cgroup.controllers"))
	if names := strings.Fields(string(has)); len(names) > 0 {
		return names[0]
	}
	t.Skipf("control group %s has no controller", own)
	return ""
}

// words returns the words of a group's file.
func words(t *testing.T, dir, file string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(b))
}

// Open gives controllers of the kernel to the groups of attempts, which needs that the
// worker itself is in a group below.
func TestOpenEnablesControllers(t *testing.T) {
	c := freeController(t)
	tree := realTree(t, c)
	if got := words(t, tree.dir, "cgroup.subtree_control"); !slices.Equal(got, []string{c}) {
		t.Errorf("enabled: %q", got)
	}
	if got := words(t, tree.dir, "cgroup.procs"); len(got) > 0 {
		t.Errorf("processes in the delegated group: %q", got)
	}
	g, err := tree.Create("j1_m_0_0", Limits{Memory: 1 << 30, Weight: 100, Processes: 10})
	if err != nil {
		t.Fatal(err)
	}
	if got := words(t, g.dir, "cgroup.controllers"); !slices.Equal(got, []string{c}) {
		t.Errorf("the group of an attempt has %q", got)
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
}

// A group with other processes cannot give controllers to groups below it. Open then fails,
// moves the worker back, and removes the group below.
func TestOpenBusy(t *testing.T) {
	tree := realTree(t, freeController(t))
	g, err := (&Tree{dir: tree.dir, prefix: "busy-"}).Create("", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	var pids []string
	for range 2 {
		c := startIn(t, g, "exec sleep 600")
		pids = append(pids, strconv.Itoa(c.Process.Pid))
		defer c.Wait()
		defer c.Process.Kill()
	}
	slices.Sort(pids)
	pid, _ := strconv.Atoi(pids[0])
	_, err = OpenAt(g.dir, "id", pid, tree.controllers)
	if err == nil || !strings.Contains(err.Error(), "other processes are in control group") {
		t.Errorf("error %v", err)
	}
	got := words(t, g.dir, "cgroup.procs")
	if slices.Sort(got); !slices.Equal(got, pids) {
		t.Errorf("processes %q, want %q", got, pids)
	}
	if _, err := os.Stat(filepath.Join(g.dir, ownName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a group is left: %v", err)
	}
}

// The kernel kills a group that needs more memory than its limit, all its processes at
// once.
func TestOutOfMemory(t *testing.T) {
	tree := realTree(t, "cpu", "memory", "pids")
	g, err := tree.Create("j1_m_0_0", Limits{Memory: 64 << 20, Weight: 200, Processes: 50})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Remove()
	c := startIn(t, g, "sleep 600 & head -c 300m /dev/zero | tail; wait")
	if err := c.Wait(); err == nil || !g.OutOfMemory() {
		t.Errorf("ended with %v, out of memory: %v", err, g.OutOfMemory())
	}
}

// fakeGroup makes a directory that looks like a delegated group to code that only reads
// and writes files.
func fakeGroup(t *testing.T, dir, controllers string) {
	t.Helper()
	for file, text := range map[string]string{"cgroup.controllers": controllers, "cgroup.subtree_control": "", "cgroup.procs": ""} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// A group without a controller that is needed is refused and stays unchanged.
func TestMissingController(t *testing.T) {
	dir := t.TempDir()
	fakeGroup(t, dir, "cpu pids\n")
	_, err := OpenAt(dir, "id", 1, controllers)
	if err == nil || !strings.Contains(err.Error(), "no controller memory") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, ownName)); !errors.Is(err, os.ErrNotExist) {
		t.Error("a group was made")
	}
}

// The limits are written as the kernel reads them. A kernel without swap accounting has no
// memory.swap.max.
func TestLimitsAreWritten(t *testing.T) {
	g := &Group{t.TempDir()}
	files := []string{"memory.max", "memory.oom.group", "cpu.weight", "pids.max"}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(g.dir, f), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.limit(controllers, Limits{Memory: 5 << 20, Weight: 30000, Processes: 7}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"5242880", "1", "10000", "7"} {
		if got, _ := os.ReadFile(filepath.Join(g.dir, files[i])); string(got) != want {
			t.Errorf("%s is %q, want %q", files[i], got, want)
		}
	}
}

func TestGroupDir(t *testing.T) {
	const systemd = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n"
	const hybrid = "30 23 0:25 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n31 23 0:26 / /sys/fs/cgroup/unified rw - cgroup2 none rw\n"
	const pod = "40 30 0:26 /kubepods/pod1/c1 /sys/fs/cgroup ro - cgroup2 cgroup rw\n"
	for _, c := range []struct{ cgroups, mounts, want string }{
		{"0::/system.slice/slotwise.service\n", systemd, "/sys/fs/cgroup/system.slice/slotwise.service"},
		{"9:memory:/a\n0::/b\n", hybrid, "/sys/fs/cgroup/unified/b"},
		{"0::/kubepods/pod1/c1\n", pod, "/sys/fs/cgroup"},
		{"0::/kubepods/pod2\n", pod, ""},
		{"9:memory:/a\n", hybrid, ""},
		{"0::/\n", "", ""},
	} {
		got, err := groupDir(c.cgroups, c.mounts)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("groupDir(%q): %q, %v; want %q", c.cgroups, got, err, c.want)
		}
	}
}
