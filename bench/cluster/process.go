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
	"syscall"
	"time"
)

// process is a master or worker.
type process struct {
	cmd  *exec.Cmd
	name string
	log  bytes.Buffer
}

// startProcess starts slotwise with arguments, without the caller's settings.
func startProcess(binary string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(binary, args...), name: "slotwise " + args[0]}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "SLOTWISE_") {
			p.cmd.Env = append(p.cmd.Env, v)
		}
	}
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	// A signal to the bench is not one to it: the bench ends it.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return p, p.cmd.Start()
}

// stop ends the process and waits for it.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	late := time.AfterFunc(20*time.Second, func() { p.cmd.Process.Kill() })
	defer late.Stop()
	err := p.cmd.Wait()
	if _, ended := errors.AsType[*exec.ExitError](err); ended && p.cmd.ProcessState.ExitCode() >= 0 {
		return nil // interrupted
	}
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", p.name, err, p.log.String())
	}
	return nil
}

// startMaster starts a master with its files in dir and returns its URL.
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
		if !pause(ctx, 20*time.Millisecond) {
			break
		}
	}
	return nil, "", errors.Join(errors.New("the master does not come up"), context.Cause(ctx), p.stop())
}

// cpu returns the processor time that a process and those of its children that have
// ended have used.
func (p *process) cpu() (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(rest)
	if len(f) < 15 {
		return 0, errors.New("a line of /proc that is too short")
	}
	var sum int64
	for _, field := range f[11:15] { // its own and its children's, in user and kernel mode
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return time.Duration(sum) * 10 * time.Millisecond, nil
}

// memory returns the most that was resident, in bytes.
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

// metrics reads a process's numbers by name; of those with labels, the sum.
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
