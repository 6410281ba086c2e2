//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/slotwise/slotwise/internal/storage/serverstest"
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

// prepare returns the cache directory with the node's programs and builds those that it
// lacks. A change of a go.sum makes a new directory.
func prepare() (string, error) {
	src, err := serverstest.SourceDir("deploy", "kubetest", "nodetest")
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
			if err := buildModule(filepath.Join(src, m.dir), dir, m.packages); err != nil {
				return err
			}
			fmt.Fprintf(os.Stderr, "built %s in %v\n", m.dir, time.Since(began).Round(time.Second))
		}
		// The name of the directory that holds etcd's main package is v3, of module server.
		if err := os.Rename(filepath.Join(dir, "server"), filepath.Join(dir, "etcd")); err != nil {
			return err
		}
		if err := build(src, dir, nil, ".", "./pause"); err != nil {
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
// it compiles shared packages once and uses both processors until the end.
func buildModule(src, dir string, packages []string) error {
	version := ""
	for _, p := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		version += fmt.Sprintf(" -X %s.gitVersion=%s -X %[1]s.gitMajor=1 -X %[1]s.gitMinor=36", p, kubernetesVersion)
	}
	return build(src, dir, []string{"-ldflags=-s -w" + version}, packages...)
}

// build runs go build for packages of the module in src and writes the programs to dir. No
// program needs libraries of the machine.
func build(src, dir string, flags []string, packages ...string) error {
	args := append([]string{"build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-o", dir + "/"}, flags...)
	cmd := exec.Command("go", append(args, packages...)...)
	cmd.Dir = src
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %v: %w\n%s", packages, err, out)
	}
	return nil
}
