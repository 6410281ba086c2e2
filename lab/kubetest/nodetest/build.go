//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/slotwise/slotwise/internal/testkit/serverstest"
)

// modules are the Go modules below this directory that pin the node's programs, with the
// packages of the programs.
var modules = []struct {
	dir      string
	packages []string
}{
	{"kubernetes", []string{
		"go.etcd.io/etcd/server/v3", "k8s.io/kubernetes/cmd/kube-apiserver", "k8s.io/kubernetes/cmd/kube-controller-manager",
		"k8s.io/kubernetes/cmd/kube-scheduler", "k8s.io/kubernetes/cmd/kubelet", "k8s.io/kubernetes/cmd/kubectl", "./coredns",
	}},
	{"containerd", []string{
		"github.com/containerd/containerd/v2/cmd/containerd", "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
		"github.com/containerd/containerd/v2/cmd/ctr", "github.com/containernetworking/plugins/plugins/main/ptp",
		"github.com/containernetworking/plugins/plugins/main/loopback", "github.com/containernetworking/plugins/plugins/ipam/host-local",
	}},
}

// kubernetesVersion is the version in kubernetes/go.mod. The programs report it, and kubectl
// compares its own with the server's.
const kubernetesVersion = "v1.36.3"

// limitVariable names the environment variable that limits how long prepare builds.
const limitVariable = "SLOTWISE_KUBE_BUILD_LIMIT"

// prepare returns the cache directory with the node's programs and builds those that it
// lacks. A change of a go.sum makes a new directory.
func prepare(ctx context.Context) (string, error) {
	limit := 25 * time.Minute
	if text := os.Getenv(limitVariable); text != "" {
		var err error
		if limit, err = time.ParseDuration(text); err != nil {
			return "", fmt.Errorf("%s: %w", limitVariable, err)
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf(
		"the programs of the node were not built in %v; what is built stays in Go's build cache, so run it again, or set %s to a longer time", limit, limitVariable))
	defer cancel()
	src, err := serverstest.SourceDir("lab", "kubetest", "nodetest")
	if err != nil {
		return "", err
	}
	var pins []string
	for _, m := range modules {
		pins = append(pins, filepath.Join(src, m.dir, "go.mod"), filepath.Join(src, m.dir, "go.sum"))
	}
	pins = append(pins, filepath.Join(src, "kubernetes", "coredns", "main.go"))
	return serverstest.Cached("kubernetes", pins, func(dir string) error {
		for _, m := range modules {
			began := time.Now()
			if err := buildModule(ctx, filepath.Join(src, m.dir), dir, m.packages); err != nil {
				return err
			}
			fmt.Fprintf(os.Stderr, "built %s in %v\n", m.dir, time.Since(began).Round(time.Second))
		}
		// The name of the directory that holds etcd's main package is v3, of module server.
		if err := os.Rename(filepath.Join(dir, "server"), filepath.Join(dir, "etcd")); err != nil {
			return err
		}
		if err := build(ctx, src, dir, nil, "./pause"); err != nil {
			return err
		}
		image := exec.Command("go", "run", "./deploy/image", "--binary", filepath.Join(dir, "pause"), "--tag", pauseImage,
			"--ca-certificates", os.DevNull, "--output", filepath.Join(dir, "pause.tar"))
		image.Dir = filepath.Join(src, "..", "..", "..")
		if out, err := image.CombinedOutput(); err != nil {
			return fmt.Errorf("go run ./deploy/image: %w\n%s", err, out)
		}
		return nil
	})
}

// buildModule builds the programs of one module. One go command builds them all, so that
// it compiles shared packages once.
func buildModule(ctx context.Context, src, dir string, packages []string) error {
	version := ""
	for _, p := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		version += fmt.Sprintf(" -X %s.gitVersion=%s -X %[1]s.gitMajor=1 -X %[1]s.gitMinor=36", p, kubernetesVersion)
	}
	// Without optimizations and debugging information compiling takes two thirds of the processor time. The node
	// is built for each run of CI and then mostly waits.
	return build(ctx, src, dir, []string{"-gcflags=all=-N -l -dwarf=false", "-ldflags=-s -w" + version}, packages...)
}

// build runs go build for packages of the module in src and writes the programs to dir. No
// program needs libraries of the machine. Two compilers or linkers run at a time, because
// linking one of the programs takes more than a gigabyte of memory.
func build(ctx context.Context, src, dir string, flags []string, packages ...string) error {
	args := append([]string{"build", "-p=2", "-trimpath", "-buildvcs=false", "-mod=readonly", "-o", dir + "/"}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, packages...)...)
	// The go command does not end its compilers when it is killed. They are in its process
	// group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Dir = src
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("go build %v: %w\n%s", packages, err, out)
	}
	return nil
}
