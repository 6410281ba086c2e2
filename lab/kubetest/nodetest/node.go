//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Names and addresses of the node. There is one node on a machine at a time.
const (
	nodeName   = "node1"
	device     = "kubenode0" // the machine's end of the pair of network devices
	cgroup     = "kubenode"
	pauseImage = "localhost/pause:1"

	network    = "10.177.0.0/24"
	hostIP     = "10.177.0.1"
	nodeIP     = "10.177.0.2"
	apiIP      = "10.177.0.65" // the API has the first address of services
	services   = "10.177.0.64/26"
	podNetwork = "10.177.0.128/25"
)

// patience limits each wait while the node starts. The machine may be busy.
const patience = 3 * time.Minute

// Files in the state directory of a node.
const (
	pidFile    = "pid"        // process 1 as the machine counts, and its start time
	configFile = "kubeconfig" // of an administrator; a link into the node's runDir
	// programsFile holds the path of the directory with the node's programs. up writes it
	// first, and down removes no directory without it.
	programsFile = "programs"
	logDir       = "log"
	// volumesDir is the only directory of the machine in which pods can write.
	volumesDir = "volumes"
)

// up starts a node with its state in dir, which must be empty or not exist, and waits until
// pods can be made. After an error nothing of the node is left but its logs.
func up(ctx context.Context, dir string) error {
	if err := check(); err != nil {
		return err
	}
	programs, err := prepare(ctx)
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	for _, own := range []string{"/run/", "/var/run/", "/var/lib/", "/var/log/"} {
		if strings.HasPrefix(dir+"/", own) {
			return fmt.Errorf("%s: the node has a %s of its own; choose another directory", dir, own)
		}
	}
	if files, err := os.ReadDir(dir); err == nil && len(files) > 0 {
		return fmt.Errorf("%s is not empty", dir)
	}
	for _, d := range []string{"lib", logDir, "run/kube", volumesDir} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, programsFile), []byte(programs), 0o644); err != nil {
		return err
	}
	if err := os.Symlink(filepath.Join("run", filepath.Base(runDir), configFile), filepath.Join(dir, configFile)); err != nil {
		return err
	}
	if err := start(ctx, dir, programs); err != nil {
		return errors.Join(fmt.Errorf("%w; see %s", err, filepath.Join(dir, logDir)), stop(dir))
	}
	fmt.Printf("export KUBECONFIG=%s PATH=%s:$PATH\n", filepath.Join(dir, configFile), programs)
	return nil
}

// start starts process 1, connects its network and waits for each part of the node.
func start(ctx context.Context, dir, programs string) error {
	pid, err := startInit(dir, programs)
	if err != nil {
		return err
	}
	// The kernel removes the device of a node that has ended a moment after the node's last process.
	if err := await(ctx, dir, "the end of an earlier node's network device "+device, func() error {
		if _, err := os.Stat("/sys/class/net/" + device); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(errors.New("it exists"), err)
		}
		return nil
	}); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"link", "add", device, "type", "veth", "peer", "name", "eth0", "netns", strconv.Itoa(pid)},
		{"addr", "add", hostIP + "/30", "dev", device}, {"link", "set", device, "up"},
		{"route", "add", network, "via", nodeIP},
	} {
		if err := ip(args...); err != nil {
			return err
		}
	}
	ctr := func(args ...string) error {
		return inside(dir, append([]string{filepath.Join(programs, "ctr")}, args...)...)
	}
	if err := await(ctx, dir, "containerd", func() error { return ctr("version") }); err != nil {
		return err
	}
	if err := addImage(dir, filepath.Join(programs, "pause.tar")); err != nil {
		return err
	}
	kubectl := func(args ...string) error {
		return output(exec.Command(filepath.Join(programs, "kubectl"), append([]string{"--kubeconfig", filepath.Join(dir, configFile)}, args...)...))
	}
	if err := await(ctx, dir, "the API", func() error { return kubectl("get", "--raw=/readyz") }); err != nil {
		return err
	}
	if err := await(ctx, dir, "the node", func() error {
		return kubectl("wait", "--for=condition=Ready", "node/"+nodeName, "--timeout=10s")
	}); err != nil {
		return err
	}
	return await(ctx, dir, "service accounts", func() error { return kubectl("get", "serviceaccount", "default") })
}

// startInit starts process 1 of the node and returns its pid.
func startInit(dir, programs string) (int, error) {
	log, err := os.Create(filepath.Join(dir, logDir, "init.log"))
	if err != nil {
		return 0, err
	}
	defer log.Close()
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	outer, err := ownNamespaces()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(self, "init", dir, programs, strings.Join(outer, " "))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Setsid: true}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	pid := cmd.Process.Pid
	began, err := startTime(pid)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, pidFile), fmt.Appendf(nil, "%d %s\n", pid, began), 0o644)
	}
	if err != nil {
		return 0, errors.Join(err, cmd.Process.Kill())
	}
	return pid, cmd.Process.Release()
}

// startTime returns the start time of a process in the kernel's own unit. With the pid it
// names a process for ever.
func startTime(pid int) (string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	_, rest, _ := strings.Cut(string(b), ") ") // the name before may hold spaces
	if f := strings.Fields(rest); len(f) > 19 && f[0] != "Z" {
		return f[19], nil
	}
	return "", fmt.Errorf("process %d has ended", pid)
}

// initPID returns the pid of process 1 of the node in dir, or an error if it does not run.
func initPID(dir string) (int, error) {
	b, err := os.ReadFile(filepath.Join(dir, pidFile))
	if err != nil {
		return 0, fmt.Errorf("no node is up: %w", err)
	}
	var pid int
	var began string
	if _, err := fmt.Sscan(string(b), &pid, &began); err != nil {
		return 0, fmt.Errorf("%s: %w", filepath.Join(dir, pidFile), err)
	}
	if now, err := startTime(pid); err != nil || now != began {
		return 0, errors.New("the node has ended")
	}
	return pid, nil
}

// await polls until ready returns nil. It gives up if the node ends or ctx does.
func await(ctx context.Context, dir, what string, ready func() error) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(200 * time.Millisecond) {
		err := ready()
		if err == nil {
			return nil
		}
		if _, gone := initPID(dir); gone != nil || ctx.Err() != nil || time.Now().After(deadline) {
			return fmt.Errorf("waiting for %s: %w", what, errors.Join(err, gone, ctx.Err()))
		}
	}
}

// inside runs a program in the mount and pid namespaces of the node.
func inside(dir string, args ...string) error {
	pid, err := initPID(dir)
	if err != nil {
		return err
	}
	return output(nsenter(pid, args...))
}

// nsenter returns the command that runs a program in the mount and pid namespaces of the
// node whose process 1 has the given pid.
func nsenter(pid int, args ...string) *exec.Cmd {
	cmd := exec.Command("nsenter", append([]string{"-t", strconv.Itoa(pid), "-m", "-p", "--"}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+tempDir)
	return cmd
}

// output runs a command. The error contains the command's output.
func output(cmd *exec.Cmd) error {
	cmd.Env = append(cmd.Environ(), "CONTAINERD_SUPPRESS_DEPRECATION_WARNINGS=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}

// ip runs ip of iproute2.
func ip(args ...string) error { return output(exec.Command("ip", args...)) }

// addImage gives containerd the image in an archive. An image of the same name is replaced
// for pods that start from then on.
func addImage(dir, archive string) error {
	programs, err := os.ReadFile(filepath.Join(dir, programsFile))
	if err != nil {
		return fmt.Errorf("no node is up: %w", err)
	}
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	pid, err := initPID(dir)
	if err != nil {
		return err
	}
	// With --local ctr itself unpacks the image, by the snapshotter that containerd.toml names.
	cmd := nsenter(pid, filepath.Join(string(programs), "ctr"),
		"-n", "k8s.io", "images", "import", "--local", "--snapshotter", "native", "-")
	cmd.Stdin = f
	return output(cmd)
}

// down ends the node in dir and removes the directory. It may have ended before, or been
// interrupted while it started.
func down(dir string) error {
	// Mount points are compared by their paths without symbolic links.
	dir, err := filepath.EvalSymlinks(dir)
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, programsFile)); err != nil {
		return fmt.Errorf("%s holds no node: %w", dir, err)
	}
	if err := errors.Join(stop(dir), refuseMounts(dir)); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// refuseMounts returns an error if something is mounted in dir. Removing dir would then
// remove files of another directory.
func refuseMounts(dir string) error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		point := strings.ReplaceAll(f[4], `\040`, " ")
		if strings.HasPrefix(point+"/", dir+"/") {
			return fmt.Errorf("%s is not removed: something is mounted at %s; unmount it first", dir, point)
		}
	}
	return nil
}

// stop ends the node's process 1, and with it the kernel ends all its processes, mounts and
// devices. Then it removes the node's control groups.
func stop(dir string) error {
	pid, err := initPID(dir)
	if err != nil {
		return removeCgroups() // it has ended already
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	if err := p.Kill(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for ctx.Err() == nil {
		if _, err := initPID(dir); err != nil {
			return removeCgroups()
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("process %d of the node does not end", pid)
}

// removeCgroups removes the node's control groups, from the leaves. Their last processes
// may still be ending.
func removeCgroups() error {
	roots, err := cgroupRoots()
	if err != nil {
		return err
	}
	for _, r := range roots {
		for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
			err := removeTree(filepath.Join(r, cgroup))
			if err == nil || errors.Is(err, os.ErrNotExist) {
				break
			}
			if time.Now().After(deadline) {
				return err
			}
		}
	}
	return nil
}

// removeTree removes a tree of control groups. Only directories can be removed there.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeTree(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return syscall.Rmdir(dir)
}
