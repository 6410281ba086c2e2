package master

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/live/secure"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// keep sends logs of attempts as a worker.
func (w *fakeWorker) keep(logs ...*slotwisev1.EndedLog) error {
	_, err := w.r.workers.KeepLogs(w.r.t.Context(), &slotwisev1.KeepLogsRequest{Session: w.session, Logs: logs})
	return err
}

// readLog reads a log as a user and returns its text after its note.
func (r *rig) readLog(who secure.Identity, name string) (text string, err error) {
	ctx := secure.With(r.t.Context(), who)
	err = r.m.streamLog(ctx, &slotwisev1.LogRequest{Attempt: name}, func(c *slotwisev1.LogChunk) error {
		text += c.Note + string(c.Data)
		return nil
	})
	return text, err
}

// TestKeptLogs has a worker send the log of an attempt and leave. The master shows the kept
// log to users who may read it, also after a restart, and keeps no log that the worker has
// no right to send.
func TestKeptLogs(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{Access: secure.Rules{}})
	// The name makes the worker's address one at which no server listens.
	w, other := r.worker("127.0.0.1", 1, 0), r.worker("w2", 0, 1)
	id := r.submit(r.spec(1, 0, ""))
	attempt := id + "_m_0_0"
	w.awaitLaunch(attempt)
	secret := logSecret + strings.Repeat(".", 2*logChunk-len(logSecret))
	log := &slotwisev1.EndedLog{Attempt: attempt, End: []byte(secret), Size: 3 * bounds.KeptLog}
	if err := other.keep(&slotwisev1.EndedLog{Attempt: attempt, End: []byte("forged"), Size: 6}); err != nil {
		t.Error(err)
	}
	ann := secure.Identity{User: "ann", Role: secure.User}
	if text, err := r.readLog(ann, attempt); err == nil || !strings.Contains(err.Error(), "cannot be reached") || !strings.Contains(err.Error(), "the master has kept no log") {
		t.Errorf("before the log is kept: %q, %v", text, err)
	}
	if err := w.keep(log, log, &slotwisev1.EndedLog{Attempt: "j9_m_0_0", End: []byte("x"), Size: 1}, &slotwisev1.EndedLog{Attempt: "chain-1_1", Size: 1}, &slotwisev1.EndedLog{Attempt: "../x"}); err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]*slotwisev1.EndedLog{
		"too long": {Attempt: attempt, End: make([]byte, bounds.KeptLog+1), Size: bounds.KeptLog + 1}, "a wrong size": {Attempt: attempt, End: []byte("x")},
	} {
		if err := w.keep(bad); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	over := *w
	over.session = "s"
	if err := over.keep(log); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("another session: %v", err)
	}
	check := func(when, why string) {
		t.Helper()
		for who, sees := range map[string]bool{"ann": true, "bob": false} {
			text, err := r.readLog(secure.Identity{User: who, Role: secure.User}, attempt)
			if !sees && (connect.CodeOf(err) != connect.CodePermissionDenied || text != "") {
				t.Errorf("%s: %s reads %d bytes, %v", when, who, len(text), err)
			}
			note, end, _ := strings.Cut(text, "of its log")
			if sees && (err != nil || end != secret || !strings.Contains(note, why) || !strings.HasSuffix(note, "the master has kept the last 64.0 KiB of the 192 KiB ")) {
				t.Errorf("%s: %s reads %q and %d bytes, %v", when, who, note, len(end), err)
			}
		}
	}
	check("while the worker is silent", "cannot be reached")
	w.heartbeat(0, w.succeeded(attempt))
	r.awaitEnd(id)
	r.stop()
	r.start()
	check("from the history", "worker 127.0.0.1, which is not connected now")
	var console strings.Builder
	if err := (consoleSource{r.m}).Log(secure.With(t.Context(), ann), attempt, true, &console); err != nil || !strings.HasPrefix(console.String(), "["+attempt+" ran on worker 127.0.0.1") {
		t.Errorf("the console shows %.200q, %v", console.String(), err)
	}
}

// TestKeptLogOfOtherUser reads the log of an attempt whose name another user's attempt had
// on an earlier journal.
func TestKeptLogOfOtherUser(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	w := r.worker("w1", 1, 0)
	attempt := r.submit(r.spec(1, 0, "")) + "_m_0_0"
	w.awaitLaunch(attempt)
	if err := w.keep(&slotwisev1.EndedLog{Attempt: attempt, End: []byte(logSecret), Size: int64(len(logSecret))}); err != nil {
		t.Fatal(err)
	}
	err := r.m.sendKept(attempt, "bob", errClosed, func(c *slotwisev1.LogChunk) error { return fmt.Errorf("sent %s", c) })
	if err == nil || !strings.Contains(err.Error(), "has kept no log") {
		t.Error(err)
	}
}

// TestKeptLogsTogether lets many requests store logs at the same time.
func TestKeptLogsTogether(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	w := r.worker("w1", 100, 0)
	id := r.submit(r.spec(100, 0, ""))
	for i := range 100 {
		w.awaitLaunch(fmt.Sprintf("%s_m_%d_0", id, i))
	}
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			if err := w.keep(&slotwisev1.EndedLog{Attempt: fmt.Sprintf("%s_m_%d_0", id, i), End: []byte{byte(i)}, Size: 1}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for i := range 100 {
		if l, err := r.m.history.Log(fmt.Sprintf("%s_m_%d_0", id, i)); err != nil || l.End[0] != byte(i) {
			t.Errorf("log %d: %v, %v", i, l, err)
		}
	}
}
