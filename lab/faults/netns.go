package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
)

// networks creates a separate network namespace for each worker of some runs. A pair of
// virtual devices connects the namespace with this process's namespace, where the links
// listen on the address of the near end. So all packets of a worker pass one device.
type networks struct {
	mu   sync.Mutex
	used [maxNetworks]bool
}

// maxNetworks bounds the namespaces that exist at the same time. The master's certificate
// lists the near addresses of all maxNetworks namespaces.
const maxNetworks = 32

// network is the network of one worker.
type network struct {
	of     *networks
	number int
}

// prefix is the beginning of this process's addresses. Other processes of this machine
// may run the same command.
func prefix() string { return fmt.Sprintf("10.%d.%d.", 100+os.Getpid()>>8&127, os.Getpid()&255) }

// near and far return the addresses of the two ends of a pair.
func (n *network) near() string { return nearAddress(n.number) }
func (n *network) far() string  { return fmt.Sprint(prefix(), 4*n.number+2) }

func nearAddress(number int) string { return fmt.Sprint(prefix(), 4*number+1) }

// nearAddresses returns the near addresses of all networks.
func nearAddresses() (all []string) {
	for i := range maxNetworks {
		all = append(all, nearAddress(i))
	}
	return all
}

// name is the name of the namespace and of the near device.
func (n *network) name() string { return fmt.Sprintf("sw%d-%d", os.Getpid(), n.number) }

// inside is the name of the far device, which is in the namespace.
const inside = "far"

// ip carries out lines of commands of ip(8).
func ip(args []string, lines ...string) error {
	cmd := exec.Command("ip", append(args, "-batch", "-")...)
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// in carries out lines of commands of ip(8) in the namespace.
func (n *network) in(lines ...string) error { return ip([]string{"-n", n.name()}, lines...) }

// make creates a namespace. The caller must close it, even after an error, unless the
// result is nil.
func (s *networks) make() (*network, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.used {
		if s.used[i] {
			continue
		}
		s.used[i] = true
		n := &network{of: s, number: i}
		err := ip(nil, "netns add "+n.name(),
			fmt.Sprintf("link add %s type veth peer name %s netns %s", n.name(), inside, n.name()),
			fmt.Sprintf("addr add %s/30 dev %s", n.near(), n.name()), "link set "+n.name()+" up")
		if err == nil {
			err = n.in("link set lo up", fmt.Sprintf("addr add %s/30 dev %s", n.far(), inside))
		}
		return n, errors.Join(err, n.up())
	}
	return nil, fmt.Errorf("more than %d network namespaces are in use", maxNetworks)
}

// up connects the namespace.
func (n *network) up() error {
	return n.in("link set "+inside+" up", fmt.Sprintf("route replace default via %s dev %s", n.near(), inside))
}

// down disconnects the namespace: packets vanish in both directions, and neither end of a
// connection gets an error.
func (n *network) down() error { return n.in("link set " + inside + " down") }

// mute drops all packets that leave the namespace, and still delivers the others.
func (n *network) mute(on bool) error {
	var lines []string
	for _, address := range nearAddresses() {
		lines = append(lines, fmt.Sprintf("route %s blackhole %s/32", map[bool]string{true: "add", false: "del"}[on], address))
	}
	return n.in(lines...)
}

// lossy makes the namespace lose a tenth of all packets that leave it and delay the
// others by 20 to 60 ms.
func (n *network) lossy(on bool) error {
	args := []string{"-n", n.name(), "qdisc", "add", "dev", inside, "root", "netem", "loss", "10%", "delay", "40ms", "20ms"}
	if !on {
		args = []string{"-n", n.name(), "qdisc", "del", "dev", inside, "root"}
	}
	if out, err := exec.Command("tc", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("tc: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// command returns the command line that starts a program in the namespace. A nil
// network is this process's own.
func (n *network) command(argv ...string) []string {
	if n == nil {
		return argv
	}
	return append([]string{"nsenter", "--net=/run/netns/" + n.name()}, argv...)
}

// close removes the namespace. Its processes must have ended. The pair of devices is removed
// first: after the end of a namespace the kernel removes its devices only later, and the next
// network of this number needs their names.
func (n *network) close() error {
	err := errors.Join(ip(nil, "link del "+n.name()), ip(nil, "netns del "+n.name()))
	n.of.mu.Lock()
	defer n.of.mu.Unlock()
	n.of.used[n.number] = false
	return err
}

// probe finds out whether namespaces can be made, and whether they can lose packets.
func (s *networks) probe() (namespaces, netem error) {
	if _, err := exec.LookPath("nsenter"); err != nil {
		return err, err
	}
	n, err := s.make()
	if err != nil {
		netem = err
	} else {
		netem = n.lossy(true)
	}
	if n != nil {
		err = errors.Join(err, n.close())
	}
	return err, netem
}

// cutCable disconnects a worker's network.
func cutCable(c *cluster, f fault) (func() error, bool, error) {
	n := c.workers[f.worker].network
	return n.up, true, n.down()
}

// muteWorker drops all packets that a worker sends.
func muteWorker(c *cluster, f fault) (func() error, bool, error) {
	n := c.workers[f.worker].network
	return func() error { return n.mute(false) }, true, n.mute(true)
}

// loseAtRandom makes a worker's network lose and delay packets.
func loseAtRandom(c *cluster, f fault) (func() error, bool, error) {
	n := c.workers[f.worker].network
	return func() error { return n.lossy(false) }, true, n.lossy(true)
}
