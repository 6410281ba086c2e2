package browser

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slotwise/slotwise/lab/harness"
)

// binary is the product, built from this tree.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "browser")
	if err == nil {
		binary = filepath.Join(dir, "slotwise")
		err = harness.Build(context.Background(), binary)
	}
	status := 1
	if err == nil {
		status = m.Run()
	} else {
		fmt.Fprintln(os.Stderr, err)
	}
	os.RemoveAll(dir)
	os.Exit(status)
}

// testCluster is a master with its workers, each a process on loopback.
type testCluster struct {
	t   *testing.T
	dir string
	url string
}

// newTestCluster starts a master with flags and waits until it serves.
func newTestCluster(t *testing.T, flags ...string) *testCluster {
	c := &testCluster{t: t, dir: t.TempDir()}
	file := filepath.Join(c.dir, "address")
	c.start("master", append([]string{"master", "--dir", filepath.Join(c.dir, "m"), "--listen", "127.0.0.1:0", "--address-file", file}, flags...)...)
	eventually(t, "the master serves", func() bool {
		b, err := os.ReadFile(file)
		c.url = "http://" + strings.TrimSpace(string(b))
		return err == nil
	})
	return c
}

// testProcess is a daemon. Its log is its standard error.
type testProcess struct {
	t    *testing.T
	log  *lockedBuffer
	gone chan struct{} // closed when the process has ended
}

// start starts a daemon that is killed when the test ends.
func (c *testCluster) start(name string, args ...string) *testProcess {
	c.t.Helper()
	p := &testProcess{t: c.t, log: &lockedBuffer{}, gone: make(chan struct{})}
	cmd := c.command(args...)
	cmd.Stderr = p.log
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	go func() {
		cmd.Wait()
		close(p.gone)
	}()
	c.t.Cleanup(func() {
		cmd.Process.Kill()
		<-p.gone
		if c.t.Failed() {
			c.t.Logf("%s:\n%s", name, p.log)
		}
	})
	return p
}

// says waits until the process's log contains a text.
func (p *testProcess) says(text string) {
	p.t.Helper()
	eventually(p.t, "the process says "+text, func() bool {
		select {
		case <-p.gone:
			if !strings.Contains(p.log.String(), text) {
				p.t.Fatalf("the process ended:\n%s", p.log)
			}
		default:
		}
		return strings.Contains(p.log.String(), text)
	})
}

// worker starts a worker and waits until it is registered.
func (c *testCluster) worker(name string, args ...string) {
	c.t.Helper()
	c.start(name, append([]string{"worker", "--master", c.url, "--dir", filepath.Join(c.dir, name), "--name", name,
		"--map-slots", "1", "--reduce-slots", "1", "--memory", "64MiB", "--min-free", "1"}, args...)...).says("registered")
}

// command is a command line of the product, in the cluster's directory.
func (c *testCluster) command(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Dir = c.dir
	return cmd
}

// run runs a command and returns its exit status and output.
func (c *testCluster) run(args ...string) (int, string) {
	c.t.Helper()
	out, err := c.command(args...).CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), string(out)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return 0, string(out)
}

// submit runs slotwise submit --wait and returns its exit status and output.
func (c *testCluster) submit(args ...string) (int, string) {
	c.t.Helper()
	return c.run(append([]string{"submit", "--master", c.url, "--wait", "--no-progress"}, args...)...)
}

// must runs submit for a job that has to succeed.
func (c *testCluster) must(args ...string) {
	c.t.Helper()
	if status, out := c.submit(args...); status != 0 {
		c.t.Fatalf("submit %v: exit status %d\n%s", args, status, out)
	}
}

// write makes a file below the cluster's directory and returns its path.
func (c *testCluster) write(name, text string) string {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text), 0o777)); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// words writes a text of some lines.
func (c *testCluster) words(name string, lines int) {
	var b strings.Builder
	for i := range lines {
		fmt.Fprintf(&b, "w%d x%d the\n", i%97, i%13)
	}
	c.write(name, b.String())
}

// lockedBuffer is written by a process's reader and read by a test.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// eventually waits until a condition holds. what names it in the failure.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after a minute still not: %s", what)
		}
	}
}
