//go:build linux

// Command nodetest runs a real Kubernetes node on this machine, for the tests of
// lab/kubetest. It needs Linux and root.
//
//	nodetest check          says whether this machine can run a node
//	nodetest prepare        builds the node's programs into the user's cache directory
//	nodetest up DIR         starts a node with its state in DIR and waits until it is ready
//	nodetest image DIR TAR  gives the node the image in an OCI archive
//	nodetest down DIR       ends the node and removes DIR
//
// Every program is built from Go modules, which kubernetes/go.mod and containerd/go.mod pin,
// except runc, which this machine must have. No image comes from a registry.
//
// The node is a tree of processes in new pid, mount, network and UTS namespaces. Its
// first process is this command as "nodetest init". If that process ends, the kernel ends
// all others, so down and a crash leave no process behind. The mount namespace has its own
// /run, /var/lib and /var/log, which lie in DIR. DIR/volumes is for volumes of pods. All
// other files of the machine are read-only there. A pair of virtual network devices joins the
// node's network to the machine's:
//
//	10.177.0.1       the machine
//	10.177.0.2       the node: API of Kubernetes (port 443), kubelet, names of the cluster
//	10.177.0.64/26   addresses of Services, of which only the API answers
//	10.177.0.128/25  pods
//
// Processes of the machine reach all of these addresses. Pods reach the machine, and
// nothing outside.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	args := os.Args[1:]
	command := ""
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case command == "check" && len(args) == 0:
		err = check()
	case command == "prepare" && len(args) == 0:
		_, err = prepare(ctx)
	case command == "up" && len(args) == 1:
		err = up(ctx, args[0])
	case command == "image" && len(args) == 2:
		err = addImage(args[0], args[1])
	case command == "down" && len(args) == 1:
		err = down(args[0])
	case command == "init" && len(args) == 3:
		err = initNode(args[0], args[1], args[2])
	default:
		fmt.Fprintln(os.Stderr, "usage: nodetest check | prepare | up DIR | image DIR TAR | down DIR")
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "nodetest:", err)
		os.Exit(1)
	}
}
