//go:build linux

package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
)

// check returns an error that names everything this machine lacks to run a node.
func check() error {
	if runtime.GOOS != "linux" {
		return errors.New("a Kubernetes node needs Linux")
	}
	var missing []error
	for _, tool := range []struct{ name, pkg string }{{"ip", "iproute2"}, {"nsenter", "util-linux"}, {"runc", "runc"}, {"go", "golang"}} {
		if _, err := exec.LookPath(tool.name); err != nil {
			missing = append(missing, fmt.Errorf("the program %s: install the Debian package %s, or its like", tool.name, tool.pkg))
		}
	}
	if os.Getuid() != 0 {
		missing = append(missing, errors.New("root"))
	} else {
		missing = append(missing, checkNamespaces(), checkCgroups(), checkNetwork())
	}
	if err := errors.Join(missing...); err != nil {
		return fmt.Errorf("this machine cannot run a Kubernetes node; it lacks\n%w", err)
	}
	return nil
}

// namespaces are the namespaces that the node has for itself.
const namespaces = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS

// checkNamespaces starts a process in new namespaces that mounts and makes a device.
func checkNamespaces() error {
	cmd := exec.Command("/bin/sh", "-c", "mount -t proc proc /proc && ip link add name check0 type veth peer name check1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Unshareflags: syscall.CLONE_NEWNS}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("the right to make namespaces, mounts and virtual network devices (a container must be privileged): %w %s", err, out)
	}
	return nil
}

// cgroupRoots returns the directories of control groups in which the node makes its own:
// one with version 2, one for each controller with version 1.
func cgroupRoots() ([]string, error) {
	const root = "/sys/fs/cgroup"
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		return []string{root}, nil
	}
	files, err := filepath.Glob(root + "/*/cgroup.procs")
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("control groups below %s (%w)", root, errors.Join(err, os.ErrNotExist))
	}
	var dirs []string
	for _, f := range files {
		dirs = append(dirs, filepath.Dir(f))
	}
	return dirs, nil
}

// checkCgroups makes and removes control groups.
func checkCgroups() error {
	roots, err := cgroupRoots()
	for _, r := range roots {
		dir := filepath.Join(r, cgroup+"-check")
		if err = errors.Join(err, os.Mkdir(dir, 0o755)); err == nil {
			err = os.Remove(dir)
		}
	}
	if err != nil {
		return fmt.Errorf("the right to make control groups: %w", err)
	}
	return nil
}

// checkNetwork returns an error if another network of this machine has the node's addresses.
func checkNetwork() error {
	own := netip.MustParsePrefix(network)
	links, err := net.Interfaces()
	for _, l := range links {
		addrs, addrErr := l.Addrs()
		err = errors.Join(err, addrErr)
		for _, a := range addrs {
			if p, parseErr := netip.ParsePrefix(a.String()); parseErr == nil && p.Overlaps(own) && l.Name != device {
				err = errors.Join(err, fmt.Errorf("the free network %s: %s has %s", network, l.Name, a))
			}
		}
	}
	return err
}
