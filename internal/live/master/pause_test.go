package master

import (
	"testing"
	"time"
)

// TestSlowMaster has a disk that takes more than a quarter of NodeTimeout each time: a worker that is silent is given up
// all the same, and one that sends heartbeats is not.
func TestSlowMaster(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{NodeTimeout: 4 * time.Second})
	w := r.worker("w1", 1, 1)
	r.worker("w2", 1, 1)
	slow := make(chan struct{})
	defer close(slow)
	go func() {
		for {
			select {
			case <-slow:
				return
			default:
				r.m.postOwn(func() { time.Sleep(1200 * time.Millisecond) })
				time.Sleep(1300 * time.Millisecond)
			}
		}
	}()
	eventually(t, func() bool {
		if w.heartbeat(0).RegisterAgain {
			t.Fatal("a worker was given up that sends heartbeats")
		}
		return r.metric(`slotwise_master_nodes{state="lost"}`) == "1"
	})
}

// TestPausedMaster stops the loop for longer than NodeTimeout, as SIGSTOP or a disk that does not answer does. The
// workers were not silent, so none is given up, and a worker that is silent afterwards is.
func TestPausedMaster(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{NodeTimeout: 1500 * time.Millisecond})
	w, silent := r.worker("w1", 1, 1), r.worker("w2", 1, 1)
	for range 3 {
		r.m.postOwn(func() { time.Sleep(2 * time.Second) })
		for began := time.Now(); time.Since(began) < 2500*time.Millisecond; time.Sleep(50 * time.Millisecond) {
			if w.heartbeat(0).RegisterAgain || silent.heartbeat(0).RegisterAgain {
				t.Fatal("a worker was given up after a pause of the master")
			}
		}
	}
	eventually(t, func() bool {
		if w.heartbeat(0).RegisterAgain {
			t.Fatal("a worker was given up that sends heartbeats")
		}
		return r.metric(`slotwise_master_nodes{state="lost"}`) == "1"
	})
}
