package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/slotwise/slotwise/bench/harness"
	"github.com/slotwise/slotwise/internal/proctree"
)

// process is a master or a worker that the benchmark has started.
type process struct {
	cmd  *exec.Cmd
	name string       // for errors
	log  bytes.Buffer // its output; read only after the process has ended
}

// startProcess starts slotwise with arguments and without the environment variables
// that configure it.
func startProcess(binary string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(binary, args...), name: "slotwise " + args[0]}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "SLOTWISE_") {
			p.cmd.Env = append(p.cmd.Env, v)
		}
	}
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	harness.InGroup(p.cmd)
	return p, p.cmd.Start()
}

// stop interrupts the process and waits until it has ended. It kills the process if
// that takes more than 20 seconds.
func (p *process) stop() error {
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

// startMaster starts a master with its files in dir, waits until it listens, and
// returns its URL.
func startMaster(ctx context.Context, binary, dir string, args ...string) (*process, string, error) {
	file := filepath.Join(dir, "address")
	p, err := startProcess(binary, append([]string{"master", "--dir", filepath.Join(dir, "master"), "--listen", "127.0.0.1:0", "--address-file", file}, args...)...)
	if err != nil {
		return nil, "", err
	}
	for range 1000 {
		if b, err := os.ReadFile(file); err == nil {
			return p, "http://" + strings.TrimSpace(string(b)), nil
		}
		if !harness.Sleep(ctx, 20*time.Millisecond) {
			break
		}
	}
	return nil, "", errors.Join(errors.New("the master has not written its address file within 20 s"), context.Cause(ctx), p.stop())
}

// cpu returns the processor time that a process and its descendants have used, including
// those that have ended.
func (p *process) cpu() (time.Duration, error) {
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

// memory returns the peak resident memory in bytes.
func (p *process) memory() (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(b), "VmHWM:")
	var kib int64
	_, err = fmt.Sscan(rest, &kib)
	return kib << 10, err
}

// metrics reads a process's metrics. Metrics of the same name with different labels
// are added up.
func metrics(ctx context.Context, url string) (map[string]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return readMetrics(resp.Body)
}

// readMetrics parses the text format of Prometheus.
func readMetrics(r io.Reader) (map[string]float64, error) {
	m := map[string]float64{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), " ")
		v, err := strconv.ParseFloat(value, 64)
		if !ok || err != nil || name == "#" {
			continue
		}
		name, _, _ = strings.Cut(name, "{")
		m[name] += v
	}
	return m, lines.Err()
}
