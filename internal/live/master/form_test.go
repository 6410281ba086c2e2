package master

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/live/secure"
	"github.com/slotwise/slotwise/internal/testkit/clustertest"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
)

// actor is a master whose answers to Identify the test gives.
type actor struct {
	slotwisev1connect.UnimplementedMastersServiceHandler
	mu     sync.Mutex
	answer *slotwisev1.IdentifyResponse
	held   chan struct{} // the next call sends a channel here and waits until that is closed; nil for none
}

func (a *actor) Identify(context.Context, *slotwisev1.IdentifyRequest) (*slotwisev1.IdentifyResponse, error) {
	a.mu.Lock()
	answer, held := a.answer, a.held
	a.held = nil
	a.mu.Unlock()
	if held != nil {
		held <- struct{}{}
		<-held
	}
	return answer, nil
}

func (a *actor) set(answer *slotwisev1.IdentifyResponse, held chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer, a.held = answer, held
}

func (a *actor) serve(t *testing.T, l net.Listener) {
	mux := http.NewServeMux()
	mux.Handle(slotwisev1connect.NewMastersServiceHandler(a))
	srv := &http.Server{Handler: mux}
	go srv.Serve(l)
	t.Cleanup(func() { srv.Close() })
}

// TestFormsOnce has the master that makes the list of the first members lose its directory while its list is
// on the way. The receiver has told the new directory that it has no list, so it must take that one's.
func TestFormsOnce(t *testing.T) {
	t.Parallel()
	listeners, peers := listenThree(t, clustertest.LoopbackHost())
	slices.SortFunc(listeners, func(a, b net.Listener) int { return strings.Compare(a.Addr().String(), b.Addr().String()) })
	slices.Sort(peers)
	group := strings.Join(peers, ",")
	least, other := &actor{}, &actor{}
	const former, present, third = 1001, 1002, 1003
	least.set(&slotwisev1.IdentifyResponse{Group: group, Id: former, Address: peers[0]}, nil)
	other.set(&slotwisev1.IdentifyResponse{Group: group, Id: third, Address: peers[2]}, nil)
	least.serve(t, listeners[0])
	other.serve(t, listeners[2])
	s := &seat{cfg: Config{Dir: t.TempDir(), Peers: peers, Self: peers[1], Bootstrap: true, Election: 3 * time.Second, Console: newConsole}}
	s.start(t, listeners[1])
	defer s.stop()
	list := func(first uint64) *slotwisev1.IdentifyResponse {
		return &slotwisev1.IdentifyResponse{Group: group, Id: first, Address: peers[0], First: []*slotwisev1.Member{
			{Id: first, Address: peers[0]}, {Id: third, Address: peers[2]}, {Id: s.m.id, Address: peers[1]},
		}}
	}
	held := make(chan struct{})
	least.set(list(former), held)
	select {
	case <-held:
	case <-time.After(4 * time.Minute):
		t.Fatal("nobody asks the master that makes the list")
	}
	ask := slotwisev1connect.NewMastersServiceClient(secure.Client(nil, ""), "http://"+peers[1])
	resp, err := ask.Identify(t.Context(), &slotwisev1.IdentifyRequest{Id: present})
	if err != nil || len(resp.First) > 0 {
		t.Fatalf("before the list has come: %v, %v", resp, err)
	}
	least.set(list(present), nil)
	close(held)
	eventually(t, func() bool {
		resp, err := ask.Identify(t.Context(), &slotwisev1.IdentifyRequest{Id: present})
		return err == nil && len(resp.First) > 0
	})
	resp, err = ask.Identify(t.Context(), &slotwisev1.IdentifyRequest{})
	if err != nil || !slices.ContainsFunc(resp.First, func(o *slotwisev1.Member) bool { return o.Id == present }) {
		t.Errorf("the group was formed with the directory that is gone: %v, %v", resp, err)
	}
}

// TestLearnerSaysWhy adds a master that cannot read the leader's history. It does not vote; the list of
// masters and the metrics say so, and why. It votes when it can read the history.
func TestLearnerSaysWhy(t *testing.T) {
	t.Parallel()
	seats := newSeats(t)
	first := leader(t, seats)
	var broken breakable
	broken.set(true)
	d := &seat{cfg: first.cfg}
	d.cfg.Dir, d.cfg.Self, d.cfg.Bootstrap, d.cfg.Join = t.TempDir(), freeAddress(t), false, true
	d.cfg.DialPeer = func(address string) (string, *http.Client, error) {
		return "http://" + address, &http.Client{Transport: &broken}, nil
	}
	d.begin(t)
	t.Cleanup(d.stop)
	if err := changeMasters(t, seats, d.cfg.Self, ""); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		resp, err := rigOf(t, leader(t, seats)).users.Masters(t.Context(), &slotwisev1.MastersRequest{})
		if err != nil {
			return false
		}
		for _, m := range resp.Masters {
			if m.Role == learnerRole && strings.Contains(m.Note, "cannot be read") && strings.Contains(m.Note, "damaged for the test") {
				return m.Address == d.cfg.Self
			}
		}
		return false
	})
	for role, want := range map[string]string{learnerRole: "1", leaderRole: "1", followerRole: "2", "silent": "0"} {
		eventually(t, func() bool {
			return metricAt(t, "http://"+leader(t, seats).cfg.Self, `slotwise_master_masters{role="`+role+`"}`) == want
		})
	}
	broken.set(false)
	eventually(t, func() bool { return roles(t, seats)[d.cfg.Self] == followerRole })
}

var errDamaged = errors.New("damaged for the test")

// breakable is a transport on which no history can be read while it is broken.
type breakable struct {
	mu     sync.Mutex
	broken bool
}

func (b *breakable) set(broken bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken = broken
}

// RoundTrip implements http.RoundTripper.
func (b *breakable) RoundTrip(r *http.Request) (*http.Response, error) {
	b.mu.Lock()
	broken := b.broken
	b.mu.Unlock()
	if broken && strings.HasSuffix(r.URL.Path, "/Missing") {
		return nil, errDamaged
	}
	return http.DefaultTransport.RoundTrip(r)
}

// TestNotReady names what keeps a learner from voting, also for one with an earlier program.
func TestNotReady(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		resp *slotwisev1.IdentifyResponse
		want string
	}{
		{&slotwisev1.IdentifyResponse{Id: 1, Ready: true}, ""},
		{&slotwisev1.IdentifyResponse{Id: 2, Ready: true}, "another directory"},
		{&slotwisev1.IdentifyResponse{Id: 1}, earlierVersion},
		{&slotwisev1.IdentifyResponse{Id: 1, Lacks: "it waits"}, "it waits"},
	} {
		if got := notReady(1, x.resp, nil); got != x.want && (x.want == "" || !strings.Contains(got, x.want)) {
			t.Errorf("%v: %q, want %q", x.resp, got, x.want)
		}
	}
}
