package cgroup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/slotwise/slotwise/internal/base/retry"
)

// Tree is the group below which attempts get their groups.
type Tree struct {
	dir         string
	prefix      string   // of the names of the attempts' groups
	controllers []string // of these groups
}

// ownName is the group of the worker itself.
const ownName = "slotwise-worker"

// Open prepares the group of this process to hold groups of attempts: it moves this
// process into a group below and enables the controllers. id distinguishes workers in
// one group. Open kills and removes the groups that an earlier worker with this id has
// left. It fails and changes nothing if the group was not delegated to this process or
// lacks a controller.
func Open(id string) (*Tree, error) {
	dir, err := Own()
	if err != nil {
		return nil, err
	}
	return OpenAt(dir, id, os.Getpid(), controllers)
}

// Own returns the directory of this process's group. A process that was started by a
// worker is in the worker's group, so its parent is the delegated one.
func Own() (string, error) {
	self, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	dir, err := groupDir(string(self), string(mounts))
	if filepath.Base(dir) == ownName {
		dir = filepath.Dir(dir)
	}
	return dir, err
}

// groupDir returns the directory of a process's group from its cgroup and mountinfo files.
func groupDir(cgroups, mounts string) (string, error) {
	path, found := "", false
	for line := range strings.Lines(cgroups) {
		if p, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			path, found = p, true
		}
	}
	if !found {
		return "", errors.New("this process is in no control group of version 2")
	}
	for line := range strings.Lines(mounts) {
		// 35 24 0:30 ROOT MOUNTPOINT OPTIONS … - cgroup2 SOURCE …
		before, after, _ := strings.Cut(line, " - ")
		f := strings.Fields(before)
		if !strings.HasPrefix(after, "cgroup2 ") || len(f) < 5 {
			continue
		}
		// A mount of another part of the tree, as a container may have, does not show this group.
		if rel, err := filepath.Rel(f[3], path); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			return filepath.Join(f[4], rel), nil
		}
	}
	return "", errors.New("no file system of control groups of version 2 is mounted that shows this process's group")
}

// OpenAt is Open for the group in dir that has the process pid, with the controllers to
// require. Limits of other controllers are not set.
func OpenAt(dir, id string, pid int, want []string) (*Tree, error) {
	has, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return nil, err
	}
	for _, c := range want {
		if !slices.Contains(strings.Fields(string(has)), c) {
			return nil, fmt.Errorf("control group %s has no controller %s; it has %q", dir, c, strings.TrimSpace(string(has)))
		}
	}
	t := &Tree{dir: dir, prefix: "slotwise-" + id + "-", controllers: want}
	// A group whose controllers are handed to groups below it may hold no process itself. So this
	// process first moves into a group below.
	// The group stays when the worker ends, since it cannot remove the group that it is in. The next one finds
	// it.
	own := filepath.Join(dir, ownName)
	if err := os.Mkdir(own, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("control group %s is not delegated to this process: %w", dir, err)
	}
	if err := write(own, "cgroup.procs", strconv.Itoa(pid)); err != nil {
		return nil, errors.Join(err, os.Remove(own))
	}
	if len(want) > 0 {
		if err := write(dir, "cgroup.subtree_control", "+"+strings.Join(want, " +")); err != nil {
			if errors.Is(err, syscall.EBUSY) {
				err = fmt.Errorf("other processes are in control group %s: %w", dir, err)
			}
			// It moves back, because a group with a process cannot be removed.
			return nil, errors.Join(err, write(dir, "cgroup.procs", strconv.Itoa(pid)), os.Remove(own))
		}
	}
	return t, t.sweep()
}

// sweep removes the groups of attempts that an earlier worker has left.
func (t *Tree) sweep() error {
	entries, err := os.ReadDir(t.dir)
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), t.prefix) {
			g := &Group{dir: filepath.Join(t.dir, e.Name())}
			err = errors.Join(err, g.Remove())
		}
	}
	return err
}

// Group is the group of one attempt.
type Group struct{ dir string }

// Create makes a group with limits. The caller must call Remove.
func (t *Tree) Create(name string, l Limits) (*Group, error) {
	g := &Group{filepath.Join(t.dir, t.prefix+name)}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, err
	}
	// Before any process is in the group, so none runs without its limits for a moment.
	if err := g.limit(t.controllers, l); err != nil {
		return nil, errors.Join(err, g.Remove())
	}
	return g, nil
}

// limit writes the limits of the group's controllers. A kernel without swap accounting has
// no memory.swap.max.
func (g *Group) limit(controllers []string, l Limits) error {
	var errs []error
	set := func(file string, on bool, value int64, optional bool) {
		controller, _, _ := strings.Cut(file, ".")
		if !on || !slices.Contains(controllers, controller) {
			return
		}
		if err := write(g.dir, file, strconv.FormatInt(value, 10)); err != nil && !(optional && errors.Is(err, fs.ErrNotExist)) {
			errs = append(errs, err)
		}
	}
	set("memory.max", l.Memory > 0, l.Memory, false)
	// The kernel then ends all processes of the attempt. If it ended one, the others could wait for
	// it for ever.
	set("memory.oom.group", l.Memory > 0, 1, false)
	// memory.max does not count swapped pages, so swap would be a second allowance.
	set("memory.swap.max", l.Memory > 0, 0, true)
	// The kernel refuses larger weights.
	set("cpu.weight", l.Weight > 0, int64(min(10000, l.Weight)), false)
	set("pids.max", l.Processes > 0, int64(l.Processes), false)
	return errors.Join(errs...)
}

// Handle opens the group's directory, for syscall.SysProcAttr.CgroupFD: a process that is
// started with it begins its life in the group. The caller must close the file.
func (g *Group) Handle() (*os.File, error) { return os.Open(g.dir) }

// Kill kills all processes of the group and of groups below it, also processes that fork
// meanwhile.
func (g *Group) Kill() error {
	err := write(g.dir, "cgroup.kill", "1")
	if errors.Is(err, fs.ErrNotExist) {
		return errNoKill
	}
	return err
}

// OutOfMemory reports whether the kernel has killed processes of the group because it
// needed more than Limits.Memory.
func (g *Group) OutOfMemory() bool { return g.count("memory.events", "oom_kill") > 0 }

// count returns a number from a file with lines of a name and a number, 0 if there is
// none.
func (g *Group) count(file, name string) int64 {
	f, err := os.Open(filepath.Join(g.dir, file))
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			return n
		}
	}
	return 0
}

// removeWait is for how long Remove waits for killed processes to end. A process can be
// stuck in the kernel; the next worker tries again.
const removeWait = 2 * time.Second

// Remove kills all processes of the group and removes it with the groups below it.
func (g *Group) Remove() error {
	_ = g.Kill() // without cgroup.kill the caller has killed the processes one by one
	// A killed process leaves its group within milliseconds, as a rule.
	o := retry.Options{FirstPause: time.Millisecond, LastPause: 50 * time.Millisecond, Patience: func(err error) time.Duration {
		if errors.Is(err, syscall.EBUSY) {
			return removeWait
		}
		return -1
	}}
	return retry.Run(context.Background(), o, func(context.Context) error { return removeGroups(g.dir) })
}

// removeGroups removes a group after those below it. The files of a group are not
// removed: they go with it.
func removeGroups(dir string) error {
	entries, err := os.ReadDir(dir)
	// Any other error makes Rmdir fail, too.
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeGroups(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	// Rmdir and not RemoveAll, which would try to unlink the group's files. The kernel refuses that.
	if err := syscall.Rmdir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	return nil
}

// write writes a value to a file of a group, which must exist.
func write(dir, file, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
