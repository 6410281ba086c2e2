package master

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/live/frames"
	"github.com/slotwise/slotwise/internal/live/secure"
	"github.com/slotwise/slotwise/internal/testkit/clustertest"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
)

// logText collects the logs of several masters.
type logText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// secureRig returns the clients of a seat: the user ann, and a worker.
func secureRig(t *testing.T, a *secure.Authority, s *seat) *rig {
	return &rig{t: t, m: s.m, cfg: s.cfg,
		users:   slotwisev1connect.NewClientServiceClient(certified(t, a.Files("ann")), "https://"+s.cfg.Self),
		workers: frames.NewClient(certified(t, a.Files("worker")), "https://"+s.cfg.Self)}
}

// certified returns the client of the owner of a certificate.
func certified(t *testing.T, f secure.Files) *http.Client {
	t.Helper()
	_, c, err := secure.Dial("x:1", f, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// dialWith returns a Config.DialPeer that presents a certificate.
func dialWith(f secure.Files) func(string) (string, *http.Client, error) {
	return func(address string) (string, *http.Client, error) { return secure.Dial(address, f, "") }
}

// TestSecureMasters runs three masters with certificates: they elect one, take a program and a job, and
// another one carries on after the leader's death. Only the certificate of a master gives the right to
// speak as one: a worker, users and an admin are refused, and so is a whole master that presents a
// worker's certificate to the others.
func TestSecureMasters(t *testing.T) {
	t.Parallel()
	a, err := secure.NewAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	host := clustertest.LoopbackHost()
	for name, id := range map[string]secure.Identity{
		"server": {User: "master", Role: secure.Master}, "worker": {User: "worker", Role: secure.Worker},
		"ann": {User: "ann", Role: secure.User}, "admin": {User: "admin", Role: secure.Admin},
	} {
		if err := a.Issue(name, id, []string{host}, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	log := &logText{}
	seats := newSeatsWith(t, host, a.Files("server"), func(c *Config) {
		c.Authenticates, c.DialPeer, c.Log = true, dialWith(a.Files("server")), slog.New(slog.NewTextHandler(log, nil))
	})
	first := leader(t, seats)
	r := secureRig(t, a, first)
	sha := shaOf("program")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "https://"+first.cfg.Self+"/files/"+sha, strings.NewReader("program"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := certified(t, a.Files("ann")).Do(req)
	if err != nil || resp.StatusCode >= 300 {
		t.Fatalf("the upload: %v, %v", resp, err)
	}
	resp.Body.Close()
	id := r.submit(&slotwisev1.JobSpec{Name: "kept", User: "ann", Program: &slotwisev1.Program{Executable: sha, App: "x"}, Synthetic: 1})

	for _, name := range []string{"worker", "ann", "admin"} {
		c := certified(t, a.Files(name))
		peer := slotwisev1connect.NewMastersServiceClient(c, "https://"+first.cfg.Self)
		_, err := peer.Exchange(t.Context(), &slotwisev1.ExchangeRequest{Group: first.m.group})
		if connect.CodeOf(err) != connect.CodePermissionDenied {
			t.Errorf("%s speaks as a master: %v", name, err)
		}
		_, err = peer.Keep(t.Context(), &slotwisev1.KeepRequest{Group: first.m.group, Entry: &slotwisev1.HistoryJob{Job: &slotwisev1.JobStatus{Id: "j99"}}})
		if connect.CodeOf(err) != connect.CodePermissionDenied {
			t.Errorf("%s writes history: %v", name, err)
		}
		if resp, err := c.Get("https://" + first.cfg.Self + copyPath + sha); err != nil || resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s reads the masters' files: %v, %v", name, resp, err)
		} else {
			resp.Body.Close()
		}
	}
	if _, err := secure.ServerTLS(a.Files("worker"), secure.Master); err == nil {
		t.Error("a master serves with a worker's certificate")
	}

	// A follower returns and presents a worker's certificate: its answers and votes count for nothing.
	follower := seats[slices.IndexFunc(seats, func(s *seat) bool { return s != first })]
	follower.stop()
	follower.cfg.DialPeer = dialWith(a.Files("worker"))
	follower.begin(t)
	silent := func(want bool) func() bool {
		return func() bool {
			resp, err := r.users.Masters(t.Context(), &slotwisev1.MastersRequest{})
			return err == nil && want == slices.ContainsFunc(resp.Masters, func(m *slotwisev1.MasterStatus) bool { return m.Address == follower.cfg.Self && m.Silent })
		}
	}
	eventually(t, silent(true))
	eventually(t, func() bool { return strings.Contains(log.String(), "a worker may not act as another master") })
	follower.stop()
	follower.cfg.DialPeer = dialWith(a.Files("server"))
	follower.begin(t)
	eventually(t, silent(false))

	first.crash()
	x := secureRig(t, a, leader(t, seats))
	eventually(t, func() bool { // until the lease is there
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		st, err := x.users.Job(ctx, &slotwisev1.JobRequest{Job: id})
		return err == nil && st.Job.EndedMs == 0
	})
	x.runEverything("worker")
	if st := x.awaitEnd(id); st.State != slotwisev1.JobState_JOB_STATE_SUCCEEDED {
		t.Errorf("the job ended as %v", st)
	}
}
