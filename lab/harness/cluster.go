package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/base/proctree"
	"github.com/slotwise/slotwise/internal/live/client"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// Process is a master or a worker that a benchmark has started.
type Process struct {
	cmd  *exec.Cmd
	name string       // for errors
	log  bytes.Buffer // its output; read only after the process has ended
}

// Start starts slotwise with arguments and without the environment variables
// that configure it.
func Start(binary string, args ...string) (*Process, error) {
	p := &Process{cmd: exec.Command(binary, args...), name: "slotwise " + args[0]}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "SLOTWISE_") {
			p.cmd.Env = append(p.cmd.Env, v)
		}
	}
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	InGroup(p.cmd)
	return p, p.cmd.Start()
}

// Stop interrupts the process and waits until it has ended. It kills the process if
// that takes more than 20 seconds.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	kill := time.AfterFunc(20*time.Second, func() { p.cmd.Process.Kill() })
	defer kill.Stop()
	err := p.cmd.Wait()
	if _, ended := errors.AsType[*exec.ExitError](err); ended && p.cmd.ProcessState.ExitCode() >= 0 {
		return nil // it ended because of the interrupt
	}
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", p.name, err, p.log.String())
	}
	return nil
}

// StartMaster starts a master with its files in dir, waits until it listens, and
// returns its URL.
func StartMaster(ctx context.Context, binary, dir string, args ...string) (*Process, string, error) {
	file := filepath.Join(dir, "address")
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, "", err
	}
	p, err := Start(binary, append([]string{"master", "--dir", filepath.Join(dir, "master"), "--listen", "127.0.0.1:0", "--address-file", file}, args...)...)
	if err != nil {
		return nil, "", err
	}
	for range 1000 {
		if b, err := os.ReadFile(file); err == nil {
			return p, "http://" + strings.TrimSpace(string(b)), nil
		}
		if !Sleep(ctx, 20*time.Millisecond) {
			break
		}
	}
	err = errors.Join(context.Cause(ctx), p.Stop())
	return nil, "", errors.Join(fmt.Errorf("the master has not written its address file within 20 s: %s", bytes.TrimSpace(p.log.Bytes())), err)
}

// CPU returns the processor time that a process and its descendants have used, with those
// that have ended.
func (p *Process) CPU() (time.Duration, error) {
	sum, err := cpuOf(p.cmd.Process.Pid)
	if err != nil {
		return 0, err
	}
	table, err := proctree.Read()
	for _, below := range table.Below(p.cmd.Process.Pid) {
		if used, err := cpuOf(below.PID); err == nil { // else it has just ended
			sum += used
		}
	}
	return sum, err
}

// cpuOf returns the processor time of a process and of its children that have ended.
func cpuOf(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(rest)
	if len(f) < 15 {
		return 0, errors.New("/proc/PID/stat has fewer than 17 fields")
	}
	var sum int64
	for _, field := range f[11:15] { // user and kernel time, then the same of ended children
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return time.Duration(sum) * 10 * time.Millisecond, nil
}

// Memory returns the peak resident memory in bytes.
func (p *Process) Memory() (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(b), "VmHWM:")
	var kib int64
	_, err = fmt.Sscan(rest, &kib)
	return kib << 10, err
}

// Cluster is a master and its workers, all on the loopback interface.
type Cluster struct {
	URL     string     // of the master
	Members []*Process // the master first
}

// StartCluster starts a master with the flags master, and a worker for each element of
// workers with these flags. It returns when all workers are registered. The files of the
// processes are in dir, so that a later cluster with the same dir continues this one.
func StartCluster(ctx context.Context, binary, dir string, master []string, workers [][]string) (c *Cluster, err error) {
	c = &Cluster{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	p, url, err := StartMaster(ctx, binary, dir, master...)
	if err != nil {
		return c, err
	}
	c.Members, c.URL = append(c.Members, p), url
	for _, flags := range workers {
		if err := c.StartWorker(binary, dir, flags...); err != nil {
			return c, err
		}
	}
	cl, err := client.New(url, client.Options{})
	if err != nil {
		return c, err
	}
	for {
		resp, err := client.Call(ctx, cl, cl.RPC().Cluster, &slotwisev1.ClusterRequest{})
		if err != nil || int(resp.Nodes) == len(workers) {
			return c, err
		}
		if !Sleep(ctx, 20*time.Millisecond) {
			return c, context.Cause(ctx)
		}
	}
}

// StartWorker starts one more worker with flags, and with its files in dir. It does not wait for its registration.
func (c *Cluster) StartWorker(binary, dir string, flags ...string) error {
	name := fmt.Sprint("w", len(c.Members)-1)
	p, err := Start(binary, append([]string{"worker", "--master", c.URL, "--dir", filepath.Join(dir, name), "--name", name, "--host", "localhost"}, flags...)...)
	if err == nil {
		c.Members = append(c.Members, p)
	}
	return err
}

// Stop stops the workers, then the master.
func (c *Cluster) Stop() (err error) {
	for _, p := range slices.Backward(c.Members) {
		err = errors.Join(err, p.Stop())
	}
	c.Members = nil
	return err
}

// CPU returns the processor time that the processes have used so far, with their
// descendants.
func (c *Cluster) CPU() (sum time.Duration, err error) {
	for _, p := range c.Members {
		used, err := p.CPU()
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}
