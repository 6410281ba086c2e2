//go:build unix

package nodeload

import (
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// A real process group: a shell and its busy child are measured together.
func TestGroupOfProcesses(t *testing.T) {
	cmd := exec.Command("sh", "-c", "while :; do :; done & while :; do :; done")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	pgid := cmd.Process.Pid
	t.Cleanup(func() {
		_ = syscall.Kill(-pgid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	g, start := NewGroups(), time.Now()
	g.Watch(pgid)
	deadline := start.Add(5 * time.Second)
	for {
		time.Sleep(20 * time.Millisecond)
		if err := g.Sample(time.Since(start)); err != nil {
			t.Fatal(err)
		}
		u := g.Usage(pgid)
		if u.Processes == 2 && u.CPU > 0 && u.Cores > 0 && u.Memory > 0 && u.PeakMemory >= u.Memory {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("measured %+v", u)
		}
	}
}

func BenchmarkGroups(b *testing.B) {
	g := NewGroups()
	g.Watch(syscall.Getpgrp())
	for i := range b.N {
		if err := g.Sample(time.Duration(i)); err != nil {
			b.Fatal(err)
		}
	}
}
