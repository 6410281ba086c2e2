package master

import (
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/live/secure"
	"github.com/slotwise/slotwise/internal/testkit/clustertest"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
)

// A message is estimated, decompressed and decoded by a request that has a place, so a user
// gets no more of the processor by more requests. While it arrives the request has none.
func TestPlaceOfMessage(t *testing.T) {
	t.Parallel()
	k := openMarket(t, Config{Limits: Limits{Message: 1 << 20}})
	worked := bounds.NewGate(2)
	k.m.requests.worked = worked
	for range 3 {
		k.greedy.stall("POST", slotwisev1connect.ClientServiceSubmitProcedure, 1000, 1)
	}
	clustertest.Eventually(t, "the requests arrive", func() bool { return k.m.requests.underWay.Held("greedy") == 3 })
	clustertest.Eventually(t, "requests that arrive have no place", func() bool { return worked.Used() == 0 })
	if !worked.Try("greedy", 1) {
		t.Fatal("the greedy user has no place")
	}
	answered := make(chan error, 1)
	go func() {
		zipping := slotwisev1connect.NewClientServiceClient(k.greedy.http, k.url, connect.WithSendGzip())
		r := &slotwisev1.SubmitRequest{}
		r.ProtoReflect().SetUnknown(padding(2 << 20))
		_, err := zipping.Submit(t.Context(), r)
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatalf("a message is estimated without a place: %v", err)
	case <-time.After(500 * time.Millisecond):
	}
	if err := k.modest.ask(0); err != nil {
		t.Error(err)
	}
	worked.Give("greedy", 1)
	if err := <-answered; connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("a message that is too large: %v", err)
	}
	clustertest.Eventually(t, "all places are given back", func() bool { return worked.Used() == 0 })
}

// On a master without authentication, too, users' requests keep no worker out.
func TestWorkersOfOpenMaster(t *testing.T) {
	t.Parallel()
	m, err := Open(Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer((&secure.Guard{Log: slog.New(slog.DiscardHandler)}).Wrap(m.Handler()))
	t.Cleanup(func() {
		srv.Close()
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, g := range []*bounds.Gate{m.requests.underWay, m.requests.worked, m.room} {
		for g.Try("", 1) {
		}
	}
	for _, g := range []*bounds.Gate{m.messages[0].arriving, m.messages[0].memory} {
		for n := int64(1 << 30); n > 0; n /= 2 {
			g.Try("", n)
		}
	}
	workers := slotwisev1connect.NewWorkerServiceClient(srv.Client(), srv.URL)
	registered, err := workers.Register(t.Context(), &slotwisev1.RegisterRequest{Worker: "w1", Address: "127.0.0.1:1", MapSlots: 1, Incarnation: "1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := workers.Heartbeat(t.Context(), &slotwisev1.HeartbeatRequest{Session: registered.Session, Seq: 1}); err != nil {
		t.Error(err)
	}
}
