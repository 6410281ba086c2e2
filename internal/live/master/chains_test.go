package master

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/live/master/protocol"
	"github.com/slotwise/slotwise/internal/live/secure"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// driverOf submits a chain, registers a worker for its driver and returns the driver's
// token.
func (r *rig) driverOf(output string) (chain, token string) {
	r.t.Helper()
	spec := r.spec(0, 1, output)
	spec.Synthetic = 0
	resp, err := r.users.SubmitChain(r.t.Context(), &slotwisev1.SubmitChainRequest{RequestId: newToken(), Spec: &slotwisev1.ChainSpec{Job: spec}})
	if err != nil {
		r.t.Fatal(err)
	}
	joined, err := r.workers.Register(r.t.Context(), &slotwisev1.RegisterRequest{Worker: "w1", Address: "w1:1", MapSlots: 1, Incarnation: "1", DriverSlots: 1})
	if err != nil {
		r.t.Fatal(err)
	}
	beat, err := r.workers.Heartbeat(r.t.Context(), &slotwisev1.HeartbeatRequest{Session: joined.Session, Seq: 1, WaitMs: 30_000})
	if err != nil || len(beat.Actions) != 1 || beat.Actions[0].GetDrive() == nil {
		r.t.Fatalf("got %v, %v, want the order to drive", beat, err)
	}
	return resp.Chain, beat.Actions[0].GetDrive().Token
}

// A flood of invented tokens of drivers is refused while the loop does nothing at all, and
// none waits in its inbox. The right token reaches the loop.
func TestFloodOfDriverTokens(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	_, token := r.driverOf("file://" + t.TempDir() + "/out")
	busy, resume := make(chan struct{}), make(chan struct{})
	r.m.postOwn(func() { close(busy); <-resume })
	<-busy
	release := sync.OnceFunc(func() { close(resume) })
	defer release()
	began := time.Now()
	for i := range 10_000 {
		_, known, err := r.m.IdentifyDriver(t.Context(), fmt.Sprintf("%s1_%040x", protocol.TokenPrefix, i))
		if known || connect.CodeOf(err) != connect.CodeUnauthenticated {
			t.Fatalf("an invented token: %v, %v", known, err)
		}
	}
	// Not none: the master's watchers of policies ask the loop now and then, each one question at a time.
	waiting := r.m.inbox.Len()
	if waiting > 10 {
		t.Errorf("%d requests wait for the loop", waiting)
	}
	t.Log("10,000 tokens took", time.Since(began))
	got := make(chan error, 1)
	go func() {
		id, known, err := r.m.IdentifyDriver(t.Context(), token)
		if err == nil && (!known || id.Role != secure.Driver || id.Chain != "chain-1") {
			err = fmt.Errorf("identity %v", id)
		}
		got <- err
	}()
	for deadline := time.Now().Add(2 * time.Minute); r.m.inbox.Len() <= waiting; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the right token does not reach the loop")
		}
	}
	release()
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// A driver's token stays valid over a restart of the master, and ends with its chain.
func TestDriverTokenLife(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{Dir: t.TempDir()})
	chain, token := r.driverOf("file://" + t.TempDir() + "/out")
	r.stop()
	r.start()
	if _, known, err := r.m.IdentifyDriver(t.Context(), token); err != nil || !known {
		t.Errorf("after a restart: %v, %v", known, err)
	}
	if _, err := r.users.Kill(t.Context(), &slotwisev1.KillRequest{Job: chain}); err != nil {
		t.Fatal(err)
	}
	if _, known, err := r.m.IdentifyDriver(t.Context(), token); known || !errors.Is(err, errDriverOver) {
		t.Errorf("after the chain's end: %v, %v", known, err)
	}
	if n := len(r.m.drivers.mu.valid); n > 0 {
		t.Errorf("%d tokens are left", n)
	}
}

// The waits of an ended chain are the sum of the waits of its steps.
func TestExplainEndedChain(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	maps, reduces := slotwisev1.Kind_KIND_MAP, slotwisev1.Kind_KIND_REDUCE
	held := func(kind slotwisev1.Kind, ms int64) *slotwisev1.Explanation {
		return &slotwisev1.Explanation{Kind: kind, Reason: "no-slot", Words: "no slot is free", HeldMs: ms}
	}
	for id, why := range map[string][]*slotwisev1.Explanation{"j1": {held(maps, 10), held(reduces, 35)}, "j2": {held(maps, 30)}} {
		if err := r.m.history.Put(&slotwisev1.HistoryJob{Job: &slotwisev1.JobStatus{Id: id, User: "ann"}, Held: why}); err != nil {
			t.Fatal(err)
		}
	}
	err := r.m.history.Put(&slotwisev1.HistoryJob{Job: &slotwisev1.JobStatus{Id: "chain-7", User: "ann"}, Steps: []*slotwisev1.JobStatus{{Id: "j1"}, {Id: "j2"}, {Id: "j3"}}})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := r.users.Explain(t.Context(), &slotwisev1.ExplainRequest{Job: "chain-7"})
	if err != nil || len(resp.Why) != 2 || resp.Why[0].Kind != maps || resp.Why[0].HeldMs != 40 || resp.Why[1].HeldMs != 35 {
		t.Errorf("%v, %v", resp, err)
	}
	if _, err := r.users.Explain(t.Context(), &slotwisev1.ExplainRequest{Job: "chain-8"}); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("an unknown chain: %v", err)
	}
}
