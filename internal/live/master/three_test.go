package master

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/live/secure"
	"github.com/slotwise/slotwise/internal/testkit/clustertest"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
)

// seat is one of three masters on loopback, with its directory and address.
type seat struct {
	cfg   Config
	files secure.Files // of its certificate; without one it speaks plain HTTP
	m     *Master
	srv   *http.Server
	clock *steadyClock // of all masters
}

// steadyClock is the clock of the masters' leases and elections. It stands while this process or most of its
// goroutines do not run, so that a machine under load ends no lease.
type steadyClock struct {
	now   atomic.Int64
	halts atomic.Bool // it stands
}

func newSteadyClock(t *testing.T) *steadyClock {
	c, end := &steadyClock{}, make(chan struct{})
	t.Cleanup(func() { close(end) })
	go func() {
		const step = 10 * time.Millisecond
		for {
			select {
			case <-end:
				return
			case <-time.After(step):
				if !c.halts.Load() {
					c.now.Add(int64(step))
				}
			}
		}
	}()
	return c
}

func (c *steadyClock) time() time.Duration { return time.Duration(c.now.Load()) }

// newSeats starts three masters, whose configurations change may change.
func newSeats(t *testing.T, change ...func(*Config)) []*seat {
	return newSeatsWith(t, clustertest.LoopbackHost(), secure.Files{}, change...)
}

// listenThree listens on the addresses of three masters.
func listenThree(t *testing.T, host string) (listeners []net.Listener, peers []string) {
	t.Helper()
	for range 3 {
		l, err := net.Listen("tcp", host+":0")
		if err != nil {
			t.Fatal(err)
		}
		listeners, peers = append(listeners, l), append(peers, l.Addr().String())
	}
	return listeners, peers
}

// newSeatsWith starts three masters on one host that all have the same certificate.
func newSeatsWith(t *testing.T, host string, files secure.Files, change ...func(*Config)) []*seat {
	t.Helper()
	listeners, peers := listenThree(t, host)
	clock := newSteadyClock(t)
	var seats []*seat
	for i, l := range listeners {
		// A machine under load must not elect new leaders all the time.
		s := &seat{files: files, clock: clock, cfg: Config{Dir: t.TempDir(), Peers: peers, Self: peers[i], Bootstrap: true, Election: 3 * time.Second,
			NodeTimeout: time.Hour, Console: newConsole, clock: clock.time}}
		for _, f := range change {
			f(&s.cfg)
		}
		s.start(t, l)
		seats = append(seats, s)
		t.Cleanup(s.stop)
	}
	return seats
}

func (s *seat) start(t *testing.T, l net.Listener) {
	t.Helper()
	var err error
	if s.m, err = Open(s.cfg); err != nil {
		t.Fatal(err)
	}
	guard := &secure.Guard{Certificates: s.files.Given()}
	if s.files.Given() {
		config, err := secure.ServerTLS(s.files, secure.Master)
		if err != nil {
			t.Fatal(err)
		}
		l = tls.NewListener(l, config)
	}
	s.srv = &http.Server{Handler: guard.Wrap(s.m.Handler())}
	go s.srv.Serve(l)
}

// stop ends the server, and the master in order.
func (s *seat) stop() {
	if s.m != nil {
		s.srv.Close()
		s.m.Close()
		s.m = nil
	}
}

// crash ends a master as kill -9 does: it sends nothing more, and hands nothing over.
func (s *seat) crash() {
	s.srv.Close()
	s.m.cancel()
	s.m.postOwn(func() { s.m.failed = errors.New("killed by the test") })
	s.m.Close()
	s.m = nil
}

// leader waits until one of the seats leads.
func leader(t *testing.T, seats []*seat) *seat {
	t.Helper()
	var found *seat
	clustertest.Eventually(t, "a master leads", func() bool {
		i := slices.IndexFunc(seats, func(s *seat) bool { return s.m != nil && s.m.notLeader() == nil })
		if i >= 0 {
			found = seats[i]
		}
		return i >= 0
	})
	return found
}

// rigOf returns the clients of a seat.
func rigOf(t *testing.T, s *seat) *rig {
	url := "http://" + s.cfg.Self
	return &rig{t: t, m: s.m, cfg: s.cfg, users: slotwisev1connect.NewClientServiceClient(http.DefaultClient, url), workers: slotwisev1connect.NewWorkerServiceClient(http.DefaultClient, url)}
}

func putFile(t *testing.T, s *seat, content string) string {
	t.Helper()
	sha := shaOf(content)
	req, err := http.NewRequest(http.MethodPut, "http://"+s.cfg.Self+"/files/"+sha, strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode >= 300 {
		t.Fatalf("PUT: %s", resp.Status)
	}
	return sha
}

// TestThreeMasters runs a job to its end, and accepts another one with an uploaded program.
// Then the leader dies. The next one runs the accepted job, has the program and the history, and
// answers a repeated request with the same job. A follower names the leader.
func TestThreeMasters(t *testing.T) {
	t.Parallel()
	seats := newSeats(t)
	first := leader(t, seats)
	r := rigOf(t, first)
	ended := r.submit(&slotwisev1.JobSpec{Name: "ended", User: "ann", Program: &slotwisev1.Program{App: "x"}, Synthetic: 2})
	r.runEverything("w1")
	r.awaitEnd(ended)
	sha := putFile(t, first, "program")
	spec := &slotwisev1.JobSpec{Name: "kept", User: "ann", Program: &slotwisev1.Program{Executable: sha, App: "x"}, Synthetic: 3}
	req := &slotwisev1.SubmitRequest{RequestId: "again", Spec: spec}
	before, err := r.users.Submit(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range seats {
		if s == first {
			continue
		}
		_, err := rigOf(t, s).users.Jobs(t.Context(), &slotwisev1.JobsRequest{})
		if got := named(err); connect.CodeOf(err) != connect.CodeUnavailable || got == nil || got.Leader != first.cfg.Self || got.Term == 0 {
			t.Errorf("a follower answers %v with %v", err, got)
		}
	}
	began := time.Now()
	first.crash()
	second := leader(t, seats)
	t.Logf("another master leads after %v", time.Since(began))
	x := rigOf(t, second)
	var after *slotwisev1.SubmitResponse
	eventually(t, func() bool { // until the lease is there
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		after, err = x.users.Submit(ctx, req)
		return err == nil
	})
	if after.Job != before.Job {
		t.Fatalf("the request was answered with %v, and now with %v, error %v", before, after, err)
	}
	x.runEverything("w2")
	if st := x.awaitEnd(before.Job); st.State != slotwisev1.JobState_JOB_STATE_SUCCEEDED {
		t.Errorf("the accepted job ended as %v", st)
	}
	if _, err := x.users.History(t.Context(), &slotwisev1.HistoryRequest{Job: ended}); err != nil {
		t.Errorf("the history of the job that ended before: %v", err)
	}
	// Its history was new at its start, and has the job all the same.
	if list, err := x.users.History(t.Context(), &slotwisev1.HistoryRequest{}); err != nil || list.Note != "" {
		t.Errorf("the list of ended jobs says %q, error %v", list.GetNote(), err)
	}
	resp, err := http.Get("http://" + second.cfg.Self + "/files/" + sha)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("the program: %v, error %v", resp, err)
	}
	if err == nil {
		resp.Body.Close()
	}
}

// A master of a group that has lost its directory does not start: it could elect a leader without
// the jobs that it acknowledged.
func TestLostDirectory(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: t.TempDir(), Peers: []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}, Self: "127.0.0.1:1", Console: newConsole}
	if m, err := Open(cfg); err == nil || !strings.Contains(err.Error(), "--bootstrap") {
		t.Errorf("without a journal: %v", err)
		if m != nil {
			m.Close()
		}
	}
}

// named returns the detail NotLeader of an error, nil if it has none.
func named(err error) *slotwisev1.NotLeader {
	var coded *connect.Error
	if !errors.As(err, &coded) {
		return nil
	}
	for _, d := range coded.Details() {
		if v, err := d.Value(); err == nil {
			if n, ok := v.(*slotwisev1.NotLeader); ok {
				return n
			}
		}
	}
	return nil
}

// TestHandOver stops the leader in order. Another master leads although no time passes in which an election could
// begin, and the first one returns as a follower with the same journal.
func TestHandOver(t *testing.T) {
	t.Parallel()
	seats := newSeats(t)
	first := leader(t, seats)
	r := rigOf(t, first)
	id := r.submit(&slotwisev1.JobSpec{Name: "kept", User: "ann", Program: &slotwisev1.Program{App: "x"}, Synthetic: 1})
	began := time.Now()
	first.clock.halts.Store(true)
	if err := first.m.Close(); err != nil {
		t.Fatal(err)
	}
	first.srv.Close()
	first.m = nil
	second := leader(t, seats)
	t.Logf("another master leads after %v", time.Since(began))
	first.clock.halts.Store(false)
	l, err := net.Listen("tcp", first.cfg.Self)
	if err != nil {
		t.Fatal(err)
	}
	first.start(t, l)
	x := rigOf(t, second)
	x.runEverything("w1")
	if st := x.awaitEnd(id); st.State != slotwisev1.JobState_JOB_STATE_SUCCEEDED {
		t.Errorf("the job ended as %v", st)
	}
	second.crash()
	third := leader(t, seats)
	eventually(t, func() bool { // until the lease is there
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		st, err := rigOf(t, third).users.Job(ctx, &slotwisev1.JobRequest{Job: id})
		return err == nil && st.Job.State == slotwisev1.JobState_JOB_STATE_SUCCEEDED
	})
}
