package master

import (
	"errors"
	"testing"
	"time"
)

// withTimeouts runs a test with longer and longer time-outs until it passes once: on a busy machine the worker of the
// test may be silent for longer than a short one.
func withTimeouts(t *testing.T, first time.Duration, test func(timeout time.Duration) error) {
	t.Helper()
	var errs []error
	for _, timeout := range []time.Duration{first, 4 * first, 16 * first} {
		err := test(timeout)
		if err == nil {
			return
		}
		errs = append(errs, err)
	}
	t.Error(errs)
}

// TestSlowMaster has a disk that takes more than a quarter of NodeTimeout each time: a worker that is silent is given up
// all the same, and one that sends heartbeats is not.
func TestSlowMaster(t *testing.T) {
	t.Parallel()
	withTimeouts(t, 4*time.Second, func(timeout time.Duration) error {
		r := newRig(t, Config{NodeTimeout: timeout})
		defer r.stop()
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
					r.m.postOwn(func() { time.Sleep(timeout * 3 / 10) })
					time.Sleep(timeout * 13 / 40)
				}
			}
		}()
		return r.losesOther(w)
	})
}

// losesOther sends heartbeats of a worker until another one, which is silent, is given up.
func (r *rig) losesOther(w *fakeWorker) error {
	given := false
	eventually(r.t, func() bool {
		given = w.heartbeat(0).RegisterAgain
		return given || r.metric(`slotwise_master_nodes{state="lost"}`) == "1"
	})
	if given {
		return errors.New("a worker was given up that sends heartbeats")
	}
	return nil
}

// TestPausedMaster stops the loop for longer than NodeTimeout, as SIGSTOP or a disk that does not answer does. The
// workers were not silent, so none is given up, and a worker that is silent afterwards is.
func TestPausedMaster(t *testing.T) {
	t.Parallel()
	withTimeouts(t, 1500*time.Millisecond, func(timeout time.Duration) error {
		r := newRig(t, Config{NodeTimeout: timeout})
		defer r.stop()
		w, silent := r.worker("w1", 1, 1), r.worker("w2", 1, 1)
		for range 3 {
			r.m.postOwn(func() { time.Sleep(timeout * 4 / 3) })
			for began := time.Now(); time.Since(began) < timeout*5/3; time.Sleep(50 * time.Millisecond) {
				if w.heartbeat(0).RegisterAgain || silent.heartbeat(0).RegisterAgain {
					return errors.New("a worker was given up after a pause of the master")
				}
			}
		}
		return r.losesOther(w)
	})
}
