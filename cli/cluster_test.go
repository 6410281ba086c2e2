package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// testCluster is a master with its workers. Each is a separate process on
// loopback.
type testCluster struct {
	t      *testing.T
	dir    string
	flags  []string // of the master
	master *testProcess
	url    string
	// patience bounds the time of a job.
	patience time.Duration
	// masterAs is the user of the master; nil is the test's.
	masterAs *syscall.Credential
}

func newTestCluster(t *testing.T, flags ...string) *testCluster {
	c := &testCluster{t: t, dir: t.TempDir(), flags: flags, patience: 2 * time.Minute}
	c.startMaster("127.0.0.1:0")
	return c
}

// startMaster starts the master, possibly again, and waits until it serves.
func (c *testCluster) startMaster(listen string) {
	c.t.Helper()
	file := filepath.Join(c.dir, "address")
	os.Remove(file)
	c.master = c.start("master", append([]string{"master", "--dir", filepath.Join(c.dir, "m"), "--listen", listen, "--address-file", file}, c.flags...)...)
	eventually(c.t, "the master serves", func() bool {
		b, err := os.ReadFile(file)
		c.url = "http://" + strings.TrimSpace(string(b))
		return err == nil
	})
}

// testProcess is a daemon of the cluster.
type testProcess struct {
	t    *testing.T
	cmd  *exec.Cmd
	log  *lockedBuffer
	gone chan struct{}
}

// start starts a daemon that is killed when the test ends.
func (c *testCluster) start(name string, args ...string) *testProcess {
	c.t.Helper()
	p := &testProcess{t: c.t, cmd: c.command(args...), log: &lockedBuffer{}, gone: make(chan struct{})}
	p.cmd.Stderr = p.log
	if name == "master" && c.masterAs != nil {
		p.cmd.Path = "/proc/self/exe" // the user may not enter the directory of the executable
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.masterAs}
	}
	if err := p.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	go func() {
		p.cmd.Wait()
		close(p.gone)
	}()
	c.t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.gone
		if c.t.Failed() {
			c.t.Logf("%s:\n%s", name, p.log)
		}
	})
	return p
}

// command is a slotwise command line as a process.
func (c *testCluster) command(args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := &exec.Cmd{Path: self, Args: append([]string{"slotwise"}, args...), Dir: c.dir}
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	return cmd
}

// testWorker is a worker's process.
type testWorker struct {
	*testProcess
	dir string
}

// worker starts a worker and waits until it is registered.
func (c *testCluster) worker(name string, args ...string) *testWorker {
	c.t.Helper()
	dir := filepath.Join(c.dir, name)
	w := &testWorker{c.start(name, append([]string{"worker", "--master", c.url, "--dir", dir, "--name", name,
		"--map-slots", "1", "--reduce-slots", "1", "--memory", "64MiB", "--min-free", "1"}, args...)...), dir}
	w.says("registered")
	return w
}

// says waits until the process's log contains a text.
func (w *testProcess) says(text string) {
	w.t.Helper()
	eventually(w.t, "the process says "+text, func() bool {
		select {
		case <-w.gone:
			if !strings.Contains(w.log.String(), text) {
				w.t.Fatalf("the process ended:\n%s", w.log)
			}
		default:
		}
		return strings.Contains(w.log.String(), text)
	})
}

// address returns the address of the worker's HTTP server.
func (w *testProcess) address() string { return w.logged("address") }

// logged waits for an attribute in the log and returns its first value.
func (w *testProcess) logged(name string) string {
	w.says(name + "=")
	_, rest, _ := strings.Cut(w.log.String(), name+"=")
	return strings.Fields(rest)[0]
}

// get requests a page of the worker and returns status and body.
func (w *testProcess) get(path string) (int, string) {
	w.t.Helper()
	resp, err := http.Get("http://" + w.address() + path)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// ends waits for the process's end.
func (w *testProcess) ends() {
	w.t.Helper()
	select {
	case <-w.gone:
	case <-time.After(time.Minute):
		w.t.Fatal("the process does not end")
	}
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

// submit runs slotwise submit --wait and returns its exit status and output.
func (c *testCluster) submit(args ...string) (int, string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), c.patience)
	defer cancel()
	cmd := c.command(append([]string{"submit", "--master", c.url, "--wait", "--no-progress"}, args...)...)
	stop := context.AfterFunc(ctx, func() { cmd.Process.Signal(syscall.SIGTERM) })
	defer stop()
	out, err := cmd.CombinedOutput()
	return exitStatus(err), string(out)
}

// must runs submit for a job that has to succeed.
func (c *testCluster) must(args ...string) {
	c.t.Helper()
	if status, out := c.submit(args...); status != 0 {
		c.t.Fatalf("submit %v: exit status %d\n%s", args, status, out)
	}
}

// write makes a file below the cluster's directory.
func (c *testCluster) write(name, text string) string {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o777); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// lines returns the sorted lines of an output directory's files.
func (c *testCluster) lines(dir string) []string {
	c.t.Helper()
	var all []string
	files, _ := filepath.Glob(filepath.Join(c.dir, dir, "part-*"))
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			c.t.Fatal(err)
		}
		all = append(all, strings.FieldsFunc(string(b), func(r rune) bool { return r == '\n' })...)
	}
	slices.Sort(all)
	return all
}

// words writes a text of some lines and returns its word counts, as lines.
func (c *testCluster) words(name string, lines int) []string {
	counts := map[string]int{}
	var b strings.Builder
	for i := range lines {
		for _, w := range []string{fmt.Sprint("w", i%97), fmt.Sprint("x", i%13), "the"} {
			counts[w]++
			b.WriteString(w + " ")
		}
		b.WriteString("\n")
	}
	c.write(name, b.String())
	var want []string
	for w, n := range counts {
		want = append(want, fmt.Sprintf("%s\t%d", w, n))
	}
	slices.Sort(want)
	return want
}

// TestCluster runs jobs of each kind on two workers.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.worker("w1")
	c.worker("w2")
	want := c.words("in/a.txt", 20_000)
	c.must("wordcount", "in", "--output", "counts", "--split-size", "64KiB", "--reduces", "3")
	if got := c.lines("counts"); !slices.Equal(got, want) {
		t.Errorf("counts: %d lines, want %d: %.300q", len(got), len(want), got)
	}
	c.must("--mapper", "./map.sh", "--reducer", "sort -n | tail -n 1", "--file", c.write("map.sh", "#!/bin/sh\nexec wc -l\n"),
		"--input", "in", "--output", "streamed", "--reduces", "1")
	if got := c.lines("streamed"); !slices.Equal(got, []string{"20000"}) {
		t.Errorf("streamed: %q", got)
	}
	c.must("sort", "in", "--output", "sorted", "--reduces", "2", "--compress", "lz4", "--split-size", "100KiB")
	if got := c.lines("sorted"); len(got) != 20_000 {
		t.Errorf("sorted: %d lines", len(got))
	}
}
