package harness

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// Servers are storage servers that belong to one run at a time. A process of the
// program keepertest owns them; the comment of serverstest.Own has its protocol.
type Servers struct {
	process *exec.Cmd
	in      io.WriteCloser
	mu      sync.Mutex // held while a command is carried out
	out     *bufio.Reader

	Error   string
	Env     []string // variables that lead a process to the servers
	Server  struct{ Endpoint, Access, Secret, Bucket string }
	Objects string // directory with one file for each object of S3's bucket
	Cluster struct {
		Address string   // of the NameNode
		ConfDir string   // for HADOOP_CONF_DIR
		JarsDir string   // Hadoop's classes
		Hosts   []string // the DataNodes
	}
}

// BuildKeeper compiles keepertest into dir and returns its path.
func BuildKeeper(ctx context.Context, dir string) (string, error) {
	keeper := filepath.Join(dir, "keepertest")
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", keeper, "github.com/slotwise/slotwise/internal/testkit/serverstest/keepertest")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return keeper, nil
}

// PrepareServers fetches and builds the programs of a kind of servers.
func PrepareServers(keeper, kind string) error {
	if out, err := exec.Command(keeper, "prepare", kind).CombinedOutput(); err != nil {
		return errors.New(strings.TrimSpace(string(out)))
	}
	return nil
}

// StartServers starts servers of a kind ("s3" or "hdfs") below dir and waits until they
// are ready. The caller must call Stop.
func StartServers(keeper, kind, dir string) (*Servers, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	s := &Servers{process: exec.Command(keeper, "own", kind, dir)}
	s.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt of the benchmark must not reach it
	out, err := s.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if s.in, err = s.process.StdinPipe(); err != nil {
		return nil, err
	}
	if err := s.process.Start(); err != nil {
		return nil, err
	}
	s.out = bufio.NewReader(out)
	line, err := s.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, s)
	}
	if s.Error != "" {
		err = errors.New(s.Error)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("servers of %s: %w", kind, err), s.Stop())
	}
	return s, nil
}

// Do carries out a command of serverstest.Own.
func (s *Servers) Do(command ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := fmt.Fprintln(s.in, strings.Join(command, " ")); err != nil {
		return err
	}
	answer, err := s.out.ReadString('\n')
	if err == nil && answer != "\n" {
		err = errors.New(strings.TrimSpace(answer))
	}
	if err != nil {
		return fmt.Errorf("%v: %w", command, err)
	}
	return nil
}

// Stop kills the servers.
func (s *Servers) Stop() error { return errors.Join(s.in.Close(), s.process.Wait()) }
