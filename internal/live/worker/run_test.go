package worker

import (
	"errors"
	"os"
	"testing"
	"time"
)

// TestBeginning verifies what an attempt answers for whose process was idle before.
func TestBeginning(t *testing.T) {
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer out.Close()
	c := &child{out: out, ended: make(chan struct{}), turns: 1}
	close(c.ended)
	crash, killed := errors.New("signal: killed"), &killedError{"not needed"}

	b := newBeginning(c, time.Hour)
	if b.fault(nil, true, limits{}) != errNotBegun || b.fault(nil, false, limits{}) != errNotBegun {
		t.Error("the end of a process that has not begun the attempt is the attempt's fault")
	}
	if err := b.fault(killed, true, limits{}); err != killed {
		t.Errorf("an attempt that was killed before it began: %v", err)
	}
	b.happened()
	if err := b.fault(nil, true, limits{}); !errors.As(err, new(*memoryError)) || b.late {
		t.Errorf("an attempt that used too much memory: %v", err)
	}
	if err := b.fault(nil, false, limits{}); err != nil || b.blame(crash) != crash {
		t.Errorf("an attempt that crashed: %v, %v", err, b.blame(crash))
	}

	b = newBeginning(c, 0) // the timer kills the process
	for deadline := time.Now().Add(4 * time.Minute); b.timer.Stop(); b.timer.Reset(0) {
		if time.Now().After(deadline) {
			t.Fatal("the timer never fires")
		}
		time.Sleep(time.Millisecond)
	}
	b.happened()
	if !b.late || b.reusable() {
		t.Error("a process that is being killed may run another attempt")
	}
	if err := b.blame(crash); !errors.As(err, new(*killedError)) {
		t.Errorf("the end of that process: %v", err)
	}
	fresh := &child{out: out, ended: c.ended}
	if b = newBeginning(fresh, 0); !b.begun || !b.reusable() || b.fault(nil, true, limits{}) == errNotBegun {
		t.Error("a fresh process counts as one that has not begun")
	}
}
