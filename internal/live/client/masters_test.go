package client

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
)

// follower returns the refusal of a master that does not lead.
func follower(t *testing.T, leader string) error {
	err := connect.NewError(connect.CodeUnavailable, errors.New("this master does not lead, and none is elected yet"))
	d, failed := connect.NewErrorDetail(&slotwisev1.NotLeader{Leader: leader, Term: 2})
	if failed != nil {
		t.Fatal(failed)
	}
	err.AddDetail(d)
	return err
}

// TestElection calls a dead leader and a follower that becomes the leader after longer than the
// patience with a master that is away: the call waits for the new leader, and reports the wait.
func TestElection(t *testing.T) {
	const dead = "http://127.0.0.1:1"
	began := time.Now()
	var notices atomic.Int32
	mux := http.NewServeMux()
	mux.Handle(slotwisev1connect.NewClientServiceHandler(&fakeMaster{nodes: func(context.Context) (*slotwisev1.NodesResponse, error) {
		if time.Since(began) < 2*time.Second || notices.Load() == 0 {
			return nil, follower(t, strings.TrimPrefix(dead, "http://"))
		}
		return &slotwisev1.NodesResponse{}, nil
	}}))
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	c := newClient(t, dead+","+srv.URL, Options{Patience: 100 * time.Millisecond, Notify: func(text string) {
		if notices.Add(1); !strings.Contains(text, dead) || !strings.Contains(text, strings.TrimPrefix(srv.URL, "http://")) {
			t.Errorf("the notice %q does not name the masters", text)
		}
	}})
	if _, err := Call(t.Context(), c, c.RPC().Nodes, &slotwisev1.NodesRequest{}); err != nil {
		t.Error(err)
	}
}

// TestFrozenMaster calls a master that accepts connections and never answers: with the default
// patience the call ends after four seconds without a sign of life, in a sentence for the user.
func TestFrozenMaster(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := newClient(t, l.Addr().String(), Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	_, err = c.Jobs(ctx, &slotwisev1.JobsRequest{})
	want := "master http://" + l.Addr().String() + " cannot be reached: no sign of life for 4s: its process is stopped, its machine is down, or the network between is broken (--master or SLOTWISE_MASTER says where it is)"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// TestSubmitPatience submits while a master is away for nine minutes, as submit --wait would wait.
func TestSubmitPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, "localhost:1", Options{})
		began := time.Now()
		for _, x := range []struct{ back, want time.Duration }{{9 * time.Minute, 9 * time.Minute}, {11 * time.Minute, 10 * time.Minute}} {
			began = time.Now()
			_, err := repeat(t.Context(), c, c.submitLimits(), func(context.Context) (int, error) {
				if time.Since(began) < x.back {
					return 0, connect.NewError(connect.CodeUnavailable, errors.New("connection refused"))
				}
				return 0, nil
			})
			if took := time.Since(began); took < x.want || took > x.want+5*time.Second || (err == nil) != (x.back < x.want+time.Second) {
				t.Errorf("back after %v: %v after %v", x.back, err, took)
			}
		}
	})
}
