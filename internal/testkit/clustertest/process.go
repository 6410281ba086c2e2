package clustertest

import (
	"bytes"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Process is a daemon of a cluster.
type Process struct {
	Cmd  *exec.Cmd
	Log  Buffer // its standard error
	t    *testing.T
	name string
	gone chan struct{} // closed when the process has ended
}

// Says waits until the process's log contains a text. It fails the test at once if the process
// ends without it.
func (p *Process) Says(text string) {
	p.t.Helper()
	p.await("the process says "+text, func() bool { return strings.Contains(p.Log.String(), text) })
}

// await is Eventually for a condition that a process brings about: it fails at once, with the
// log, if the process has ended.
func (p *Process) await(what string, holds func() bool) {
	p.t.Helper()
	Eventually(p.t, what, func() bool {
		select {
		case <-p.gone:
			// The condition is read after the end: what the process did last counts.
			if !holds() {
				p.t.Fatalf("%s has ended, and not: %s\n%s", p.name, what, &p.Log)
			}
			return true
		default:
			return holds()
		}
	})
}

// Logged waits for an attribute in the log and returns its first value.
func (p *Process) Logged(name string) string {
	p.t.Helper()
	p.Says(name + "=")
	_, rest, _ := strings.Cut(p.Log.String(), name+"=")
	return strings.Fields(rest)[0]
}

// Address returns the address of a worker's HTTP server.
func (p *Process) Address() string { return p.Logged("address") }

// Get requests a page of a worker and returns status and body.
func (p *Process) Get(path string) (status int, body string) {
	p.t.Helper()
	resp, err := http.Get("http://" + p.Address() + path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// Kill kills the process, if it still runs, and waits until it has ended.
// Waiting for the end matters: the process's port and lock are free only then.
func (p *Process) Kill() {
	p.Cmd.Process.Kill()
	<-p.gone
}

// Signal sends a signal to the process.
func (p *Process) Signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.Cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
}

// Ends waits until the process has ended and returns its exit status, -1 after a signal.
func (p *Process) Ends() int {
	p.t.Helper()
	select {
	case <-p.gone:
	case <-time.After(patience):
		p.t.Fatalf("%s has not ended within %v", p.name, patience)
	}
	return p.Cmd.ProcessState.ExitCode()
}

// Buffer collects a process's output while a test reads it.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write appends output.
func (l *Buffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

// String returns the output so far.
func (l *Buffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// patience limits each wait for a condition. It is long because a passing test never waits that
// long, and a busy machine with the race detector may take 20 times as long as a quiet one.
const patience = 4 * time.Minute

// Eventually waits until a condition holds. what names the condition in the failure.
func Eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v still not: %s", patience, what)
		}
	}
}
