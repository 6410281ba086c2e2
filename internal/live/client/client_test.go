package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
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

// fakeMaster answers what its functions say.
type fakeMaster struct {
	slotwisev1connect.UnimplementedClientServiceHandler
	submit func(*slotwisev1.SubmitRequest) (*slotwisev1.SubmitResponse, error)
	job    func(*slotwisev1.JobRequest) (*slotwisev1.JobResponse, error)
	nodes  func(context.Context) (*slotwisev1.NodesResponse, error)
}

func (m *fakeMaster) Submit(_ context.Context, r *slotwisev1.SubmitRequest) (*slotwisev1.SubmitResponse, error) {
	return m.submit(r)
}

func (m *fakeMaster) Job(_ context.Context, r *slotwisev1.JobRequest) (*slotwisev1.JobResponse, error) {
	return m.job(r)
}

func (m *fakeMaster) Nodes(ctx context.Context, _ *slotwisev1.NodesRequest) (*slotwisev1.NodesResponse, error) {
	return m.nodes(ctx)
}

// serve has a master answer at an address, to which a client is returned.
func serve(t *testing.T, m *fakeMaster, o Options) *Client {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(slotwisev1connect.NewClientServiceHandler(m))
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return newClient(t, srv.URL, o)
}

func newClient(t *testing.T, url string, o Options) *Client {
	t.Helper()
	c, err := New(url, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var errAway = connect.NewError(connect.CodeUnavailable, errors.New("shutting down"))

// TestSubmitAgain loses the master twice while a job is entered: the request that
// is repeated has the same name.
func TestSubmitAgain(t *testing.T) {
	var names []string
	m := &fakeMaster{submit: func(r *slotwisev1.SubmitRequest) (*slotwisev1.SubmitResponse, error) {
		if names = append(names, r.RequestId); len(names) < 3 {
			return nil, errAway
		}
		return &slotwisev1.SubmitResponse{Job: "j1"}, nil
	}}
	id, err := serve(t, m, Options{}).Submit(t.Context(), &slotwisev1.JobSpec{})
	if err != nil || id != "j1" || len(names) != 3 || names[0] == "" || names[0] != names[1] || names[1] != names[2] {
		t.Errorf("job %s, error %v, requests %v", id, err, names)
	}
}

// TestRefusal verifies that a refused call is not retried.
func TestRefusal(t *testing.T) {
	calls := 0
	m := &fakeMaster{nodes: func(context.Context) (*slotwisev1.NodesResponse, error) {
		calls++
		return nil, connect.NewError(connect.CodePermissionDenied, errors.New("not you"))
	}}
	c := serve(t, m, Options{})
	_, err := Call(t.Context(), c, c.RPC().Nodes, &slotwisev1.NodesRequest{})
	if calls != 1 || err == nil || Message(err) != "not you" {
		t.Errorf("%d calls, error %v", calls, err)
	}
}

// TestPatience gives up a master that is not there, and says which one.
func TestPatience(t *testing.T) {
	const away = "http://127.0.0.1:1"
	c := newClient(t, away, Options{Patience: 100 * time.Millisecond})
	_, err := Call(t.Context(), c, c.RPC().Nodes, &slotwisev1.NodesRequest{})
	if err == nil || !strings.Contains(err.Error(), away+" cannot be reached") {
		t.Errorf("error %v", err)
	}
}

// TestNotify verifies that a call names the server that it waits for and the time left.
func TestNotify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const away = "http://127.0.0.1:1"
		var notices []string
		c := newClient(t, away, Options{Patience: 2 * time.Second, Notify: func(text string) { notices = append(notices, text) }})
		if _, err := Call(t.Context(), c, c.RPC().Nodes, &slotwisev1.NodesRequest{}); err == nil {
			t.Error("a master that is away has answered")
		}
		want := "waiting for master " + away + ", for up to 1s more: connect: connection refused"
		if len(notices) != 1 || notices[0] != want {
			t.Errorf("got %q, want %q", notices, want)
		}
	})
}

// TestStoragePatience verifies that a master whose storage is away is given more time
// than one that cannot be reached.
func TestStoragePatience(t *testing.T) {
	c := newClient(t, "localhost:1", Options{})
	sent := connect.NewWireError(connect.CodeUnavailable, errors.New("output s3://b/out: no answer"))
	for _, x := range []struct {
		err  error
		want int
	}{{sent, 5}, {connect.NewError(connect.CodeUnavailable, errors.New("connection refused")), 1}, {connect.NewWireError(connect.CodePermissionDenied, errors.New("no")), 1}} {
		calls := 0
		_, err := repeat(t.Context(), c, limits{patience: -1, storage: time.Minute, answer: time.Minute}, func(context.Context) (int, error) {
			if calls++; calls == 5 {
				return 0, nil
			}
			return 0, x.err
		})
		if calls != x.want || (err == nil) != (x.want == 5) {
			t.Errorf("%v: %d calls, %v", x.err, calls, err)
		}
	}
}

// TestSilence asks a master that says nothing at first.
func TestSilence(t *testing.T) {
	var calls atomic.Int64
	m := &fakeMaster{nodes: func(ctx context.Context) (*slotwisev1.NodesResponse, error) {
		if calls.Add(1) == 1 {
			<-ctx.Done() // perhaps a little before the caller's own
			return nil, ctx.Err()
		}
		return &slotwisev1.NodesResponse{}, nil
	}}
	c := serve(t, m, Options{Answer: time.Second, Patience: 10 * time.Minute})
	if _, err := Call(t.Context(), c, c.RPC().Nodes, &slotwisev1.NodesRequest{}); err != nil || calls.Load() < 2 {
		t.Errorf("%d calls, error %v", calls.Load(), err)
	}
}

// TestWait follows a job over a master's absence, and stops when told to.
func TestWait(t *testing.T) {
	calls := 0
	m := &fakeMaster{job: func(r *slotwisev1.JobRequest) (*slotwisev1.JobResponse, error) {
		calls++
		s := &slotwisev1.JobStatus{Id: r.Job, Revision: r.After + 1, State: slotwisev1.JobState_JOB_STATE_RUNNING}
		switch calls {
		case 2:
			return nil, errAway
		case 4:
			s.State = slotwisev1.JobState_JOB_STATE_FAILED
		}
		return &slotwisev1.JobResponse{Job: s}, nil
	}}
	c := serve(t, m, Options{})
	var seen []int64
	last, err := c.Wait(t.Context(), "j1", func(s *slotwisev1.JobStatus) { seen = append(seen, s.Revision) })
	if err != nil || last.State != slotwisev1.JobState_JOB_STATE_FAILED || len(seen) != 3 || seen[2] != 2 {
		t.Errorf("%v, error %v, revisions %v", last, err, seen)
	}
	ctx, stop := context.WithCancel(t.Context())
	calls = 10
	_, err = c.Wait(ctx, "j1", func(*slotwisev1.JobStatus) { stop() })
	if !errors.Is(err, context.Canceled) && connect.CodeOf(err) != connect.CodeCanceled {
		t.Errorf("after the stop: %v", err)
	}
}

// TestEnsure uploads a file that is missing, once, also if the first try fails.
func TestEnsure(t *testing.T) {
	stored := map[string]string{}
	puts := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/files/")
		switch _, there := stored[name]; {
		case r.Header.Get("Authorization") != "Bearer secret":
			w.WriteHeader(http.StatusUnauthorized)
		case r.Method == http.MethodPut:
			if puts++; puts == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			b, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			stored[name] = string(b)
		case !there:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer srv.Close()
	sum := sha256.Sum256([]byte("content"))
	sha := hex.EncodeToString(sum[:])
	open := func() (io.ReadCloser, int64, error) { return io.NopCloser(strings.NewReader("content")), 7, nil }
	c := newClient(t, srv.URL, Options{Token: "secret"})
	for range 2 {
		if err := c.Ensure(t.Context(), sha, open); err != nil {
			t.Fatal(err)
		}
	}
	if stored[sha] != "content" || puts != 2 {
		t.Errorf("stored %v with %d PUTs", stored, puts)
	}
	if err := newClient(t, srv.URL, Options{}).Ensure(t.Context(), sha, open); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("without a token: %v", err)
	}
}

// TestEnsureRefused uploads a large file to a master that answers before it has read the file,
// as one does whose user has no room left. The error has the master's sentence, not the
// broken pipe of the rest of the upload, and the file is sent once.
func TestEnsureRefused(t *testing.T) {
	const sentence = "files of user ann have 10 bytes, and his share is 10 now: try again later"
	puts := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			puts++
			http.Error(w, sentence, http.StatusInsufficientStorage)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	defer srv.Close()
	const size = 256 << 20 // more than sockets buffer and servers read to the end
	open := func() (io.ReadCloser, int64, error) {
		return io.NopCloser(io.LimitReader(zeros{}, size)), size, nil
	}
	for range 5 {
		puts = 0
		err := newClient(t, srv.URL, Options{}).Ensure(t.Context(), strings.Repeat("0", 64), open)
		if err == nil || !strings.HasSuffix(err.Error(), sentence) || puts != 1 {
			t.Errorf("%d uploads, error %v", puts, err)
		}
	}
}

// zeros yields zeros without end.
type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestNew reads addresses.
func TestNew(t *testing.T) {
	for address, want := range map[string]string{
		"localhost:7077": "http://localhost:7077", "https://h:1/": "https://h:1", "": "", "ftp://h": "", "://": "",
	} {
		c, err := New(address, Options{})
		if (err == nil) != (want != "") || err == nil && c.Address() != want {
			t.Errorf("%q: %v, error %v", address, c, err)
		}
	}
}
