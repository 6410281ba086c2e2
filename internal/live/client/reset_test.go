package client_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/live/client"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
)

// service answers; calls that it has no answer for are not made here.
type service struct {
	slotwisev1connect.UnimplementedClientServiceHandler
}

func (service) Cluster(context.Context, *slotwisev1.ClusterRequest) (*slotwisev1.ClusterResponse, error) {
	return &slotwisev1.ClusterResponse{}, nil
}

// TestReset has connections reset under the first calls: that is no verdict, the
// call is made again.
func TestReset(t *testing.T) {
	_, handler := slotwisev1connect.NewClientServiceHandler(service{})
	var calls atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) > 3 {
			handler.ServeHTTP(w, r)
			return
		}
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		c.(*net.TCPConn).SetLinger(0)
		c.Close()
	}))
	defer server.Close()
	c, err := client.New(server.URL, client.Options{Patience: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Call(t.Context(), c, c.RPC().Cluster, &slotwisev1.ClusterRequest{}); err != nil {
		t.Error(err)
	}
}

// TestCancelled ends the context of a call: nothing is tried again.
func TestCancelled(t *testing.T) {
	var calls atomic.Int32
	arrived := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if calls.Add(1) == 1 {
			close(arrived)
		}
		<-r.Context().Done()
	}))
	defer server.Close()
	c, err := client.New(server.URL, client.Options{Patience: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	_, err = client.Call(ctx, c, c.RPC().Cluster, &slotwisev1.ClusterRequest{})
	if !errors.Is(err, context.Canceled) || client.Unreachable(err) || calls.Load() != 1 {
		t.Errorf("after %d calls: %v", calls.Load(), err)
	}
}
