package master

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/console/source"
	"github.com/slotwise/slotwise/internal/live/secure"
	"github.com/slotwise/slotwise/internal/testkit/clustertest"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
)

// servedWithin is the time within which a modest user's request is served while a greedy
// one holds all that he can get. It takes milliseconds, and a user who is locked out waits until the greedy one's
// requests end, at the earliest after half a minute.
const servedWithin = 20 * time.Second

// asks is how often the modest user asks before he counts as locked out. Other packages' tests
// take the processors away at times, but not for several requests in a row.
const asks = 4

// market is a master with tokens behind its real server, and its two users.
type market struct {
	t              *testing.T
	m              *Master
	url            string
	greedy, modest *marketUser
	worker         *marketUser
}

// marketUser is one user with connections of his own.
type marketUser struct {
	market *market
	name   string
	token  string
	http   *http.Client
	rpc    slotwisev1connect.ClientServiceClient
}

// RoundTrip adds the user's token.
func (u *marketUser) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+u.token)
	return http.DefaultTransport.RoundTrip(r)
}

// marketConnections is the number of connections to a market. It is larger than the number of
// stalled requests of any contest.
const marketConnections = 6000

func openMarket(t *testing.T, cfg Config) *market {
	t.Helper()
	dir := t.TempDir()
	cfg.Dir, cfg.Authenticates = filepath.Join(dir, "m"), true
	cfg.Console = newConsole
	m, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	k := &market{t: t, m: m}
	file := filepath.Join(dir, "tokens")
	user := func(name string, role secure.Role) *marketUser {
		u := &marketUser{market: k, name: name}
		if u.token, err = secure.AddToken(file, secure.Identity{User: name, Role: role}); err != nil {
			t.Fatal(err)
		}
		return u
	}
	k.greedy, k.modest, k.worker = user("greedy", secure.User), user("modest", secure.User), user("w1", secure.Worker)
	tokens, err := secure.OpenTokens(file, slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	guard := &secure.Guard{Tokens: tokens, Public: source.Public, Log: slog.New(slog.DiscardHandler)}
	srv := secure.NewServer(m.Handler(), guard)
	l, err := secure.ListenMost("127.0.0.1:0", nil, guard, marketConnections)
	if err != nil {
		t.Fatal(err)
	}
	go srv.Serve(l)
	k.url = "http://" + l.Addr().String()
	for _, u := range []*marketUser{k.greedy, k.modest, k.worker} {
		u.http = &http.Client{Transport: u}
		u.rpc = slotwisev1connect.NewClientServiceClient(u.http, k.url)
	}
	t.Cleanup(func() {
		srv.Close()
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return k
}

// submit submits a job of maps.
func (u *marketUser) submit(maps int) error {
	_, err := u.rpc.Submit(u.market.t.Context(), &slotwisev1.SubmitRequest{RequestId: newToken(), Spec: &slotwisev1.JobSpec{
		Name: "n", Program: &slotwisev1.Program{App: "x"}, Synthetic: int32(maps),
	}})
	return err
}

// submitChain submits a chain.
func (u *marketUser) submitChain() error {
	_, err := u.rpc.SubmitChain(u.market.t.Context(), &slotwisev1.SubmitChainRequest{RequestId: newToken(), Spec: &slotwisev1.ChainSpec{
		Job: &slotwisev1.JobSpec{Name: "n", Program: &slotwisev1.Program{App: "x"}, Output: "file:///none/" + newToken()},
	}})
	return err
}

// upload uploads a new file of n bytes.
func (u *marketUser) upload(n int) error {
	content := newToken() + strings.Repeat("x", n)
	req, err := http.NewRequestWithContext(u.market.t.Context(), http.MethodPut, u.market.url+"/files/"+shaOf(content), strings.NewReader(content))
	if err != nil {
		return err
	}
	resp, err := u.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	switch resp.StatusCode {
	case http.StatusCreated:
		return nil
	case http.StatusInsufficientStorage, http.StatusServiceUnavailable:
		return fault(connect.CodeResourceExhausted, "%s", text)
	}
	return fmt.Errorf("%s: %s", resp.Status, text)
}

// padding is an unknown field of n bytes.
func padding(n int) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, 99, protowire.BytesType), make([]byte, n))
}

// ask makes a short call whose message has n bytes more than it needs.
func (u *marketUser) ask(n int) error {
	r := &slotwisev1.ClusterRequest{}
	r.ProtoReflect().SetUnknown(padding(n))
	_, err := u.rpc.Cluster(u.market.t.Context(), r)
	return err
}

// stall begins a request with a body of length bytes, and sends only the first some bytes. The
// connection stays open until the test ends.
func (u *marketUser) stall(method, path string, length, some int) {
	t := u.market.t
	c, err := net.Dial("tcp", strings.TrimPrefix(u.market.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nContent-Type: application/proto\r\nContent-Length: %d\r\n\r\n", method, path, u.token, length)
	if _, err := c.Write(append([]byte(head), make([]byte, some)...)); err != nil {
		t.Fatal(err)
	}
}

// first requests a path and waits for the first bytes of the answer. It returns an error
// unless the status is 200.
func (u *marketUser) first(path string) error {
	ctx, cancel := context.WithCancel(u.market.t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.market.url+path, nil)
	if err != nil {
		return err
	}
	resp, err := u.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := resp.Body.Read(make([]byte, 1)); err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %v", resp.Status, err)
	}
	return nil
}

// flood has the greedy user request a path n times at a time until the test ends.
func (k *market) flood(n int, path string) {
	for range n {
		go func() {
			for k.t.Context().Err() == nil {
				_ = k.greedy.get(path)
			}
		}()
	}
}

// runAttempts submits a job of one map for each user and has a worker start the maps. The
// worker's logs never end if they are followed.
func (k *market) runAttempts(users ...*marketUser) {
	k.t.Helper()
	var key secure.SessionKey
	guard := &secure.Guard{Session: &key, Log: slog.New(slog.DiscardHandler)}
	srv := httptest.NewServer(guard.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "printed by the attempt\n")
		if _, follow := r.URL.Query()["follow"]; follow {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	})))
	k.t.Cleanup(srv.Close)
	s := workerService{k.m}
	ctx := secure.With(k.t.Context(), secure.Identity{User: "w1", Role: secure.Worker})
	resp, err := s.Register(ctx, &slotwisev1.RegisterRequest{Worker: "w1", Address: strings.TrimPrefix(srv.URL, "http://"), MapSlots: 8, Incarnation: "1"})
	if err != nil {
		k.t.Fatal(err)
	}
	key.Set(resp.Key)
	for _, u := range users {
		if err := u.submit(1); err != nil {
			k.t.Fatal(err)
		}
	}
	for seq, started := int64(1), 0; started < len(users); seq++ {
		beat, err := s.Heartbeat(ctx, &slotwisev1.HeartbeatRequest{Session: resp.Session, Seq: seq, Acked: 0, WaitMs: 100})
		if err != nil {
			k.t.Fatal(err)
		}
		started = len(beat.Actions)
	}
}

// get requests a path, reads the answer to its end and returns an error unless the status
// is 200.
func (u *marketUser) get(path string) error {
	req, err := http.NewRequestWithContext(u.market.t.Context(), http.MethodGet, u.market.url+path, nil)
	if err != nil {
		return err
	}
	resp, err := u.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, text)
	}
	return err
}

// all asks again and again until a request is refused, and returns the number of requests
// that were served.
func all(t *testing.T, most int, ask func() error) int {
	t.Helper()
	for n := range most {
		switch err := ask(); connect.CodeOf(err) {
		case connect.CodeResourceExhausted:
			return n
		default:
			if err != nil {
				t.Fatalf("request %d of the greedy user: %v", n, err)
			}
		}
	}
	t.Fatalf("the greedy user gets %d, and is never refused", most)
	return most
}

// contest is one resource that users share. hold has the greedy user ask for all that he
// can get, which he keeps until the test ends, and returns a description of the request. ask
// is one request of the modest user.
type contest struct {
	cfg  Config
	size func(m *Master) // makes totals that no Config sets small enough for a test
	hold func(t *testing.T, k *market) string
	ask  func(k *market) error
}

// contests has a contest for each row of bounds.Shared.
var contests = map[string]contest{
	"jobs that have not ended": {
		cfg: Config{Limits: Limits{Jobs: 40}},
		hold: func(t *testing.T, k *market) string {
			return fmt.Sprint(all(t, 40, func() error { return k.greedy.submit(1) }), " jobs of 40")
		},
		ask: func(k *market) error { return k.modest.submit(1) },
	},
	"tasks of all jobs that have not ended": {
		hold: func(t *testing.T, k *market) string {
			return fmt.Sprint(all(t, 10, func() error { return k.greedy.submit(bounds.JobTasks) }), " jobs of 200,000 tasks")
		},
		ask: func(k *market) error { return k.modest.submit(1) },
	},
	"chains that have not ended": {
		cfg: Config{StorageRoots: []string{"file:///none"}, Limits: Limits{Jobs: 40}},
		hold: func(t *testing.T, k *market) string {
			return fmt.Sprint(all(t, 40, func() error { return k.greedy.submitChain() }), " chains of 40")
		},
		ask: func(k *market) error { return k.modest.submitChain() },
	},
	"bytes of the descriptions of jobs and chains that have not ended": {
		cfg: Config{Limits: Limits{Specs: 2 << 20}},
		hold: func(t *testing.T, k *market) string {
			n := all(t, 40, func() error {
				_, err := k.greedy.rpc.Submit(t.Context(), &slotwisev1.SubmitRequest{RequestId: newToken(), Spec: &slotwisev1.JobSpec{
					Name: "n", Program: &slotwisev1.Program{App: "x", Params: map[string]string{"a": strings.Repeat("x", 60<<10), "b": strings.Repeat("x", 60<<10)}}, Synthetic: 1,
				}})
				return err
			})
			return fmt.Sprint(n, " jobs of 120 KiB of 2 MiB")
		},
		ask: func(k *market) error { return k.modest.submit(1) },
	},
	"bytes of messages above 32 KiB that are being received": {
		size: func(m *Master) { m.messages[0].arriving = bounds.NewGate(4 << 20) },
		hold: func(t *testing.T, k *market) string {
			for range 40 {
				k.greedy.stall("POST", slotwisev1connect.ClientServiceSubmitProcedure, 1<<20, 40<<10)
			}
			clustertest.Eventually(t, "the greedy user holds his share", func() bool { return k.m.messages[0].arriving.Held("greedy") == 2<<20 })
			return "40 messages of 1 MiB that stall"
		},
		ask: func(k *market) error { return k.modest.ask(600 << 10) },
	},
	"memory of decoded messages that are being handled": {
		size: func(m *Master) { m.messages[0].memory = bounds.NewGate(24 << 20) },
		hold: func(t *testing.T, k *market) string {
			if err := k.greedy.submit(1); err != nil {
				t.Fatal(err)
			}
			for range 40 {
				r := &slotwisev1.JobRequest{Job: "j1", After: 1 << 60, WaitMs: 60_000}
				r.ProtoReflect().SetUnknown(padding(1 << 20))
				go k.greedy.rpc.Job(t.Context(), r)
			}
			clustertest.Eventually(t, "the greedy user holds his share", func() bool { return k.m.messages[0].memory.Held("greedy") > 9<<20 })
			return "40 messages of 1 MiB that the master holds"
		},
		ask: func(k *market) error { return k.modest.ask(600 << 10) },
	},
	"uploads under way": {
		hold: func(t *testing.T, k *market) string {
			for range 2 * bounds.Uploads {
				k.greedy.stall("PUT", "/files/"+shaOf(newToken()), 100, 1)
			}
			clustertest.Eventually(t, "the greedy user holds his share", func() bool { return k.m.files.places.Held("greedy") == bounds.Uploads/2 })
			return fmt.Sprint(2*bounds.Uploads, " uploads that stall")
		},
		ask: func(k *market) error { return k.modest.upload(1000) },
	},
	"bytes of uploaded files, each counted as at least 64 KiB, and of unfinished uploads (`--max-files`)": {
		cfg: Config{Limits: Limits{File: 4 << 20, Files: 4 << 20}},
		hold: func(t *testing.T, k *market) string {
			n := all(t, 8, func() error { return k.greedy.upload(900 << 10) })
			k.greedy.stall("PUT", "/files/"+shaOf(newToken()), 1<<20, 1000)
			return fmt.Sprint(n, " files of 900 KiB of 4 MiB, and one that stalls")
		},
		ask: func(k *market) error { return k.modest.upload(900 << 10) },
	},
	"logs that are being sent, most of them to followers": {
		size: func(m *Master) { m.followers = bounds.NewGate(20) },
		hold: func(t *testing.T, k *market) string {
			k.runAttempts(k.greedy, k.modest)
			for range 20 {
				go k.greedy.get("/ui/attempts/j1_m_0_0/log?follow")
			}
			clustertest.Eventually(t, "the greedy user holds his share", func() bool { return k.m.followers.Held("greedy") == 10 })
			return "to follow 20 logs of 20"
		},
		ask: func(k *market) error { return k.modest.get("/ui/attempts/j2_m_0_0/log") },
	},
	"connections, at most half of the files that the process may open; they count for the client's address, of IPv6 its /64": {
		// Both users have one address, and the greedy one needs no token.
		hold: func(t *testing.T, k *market) string {
			for range marketConnections {
				c, err := net.Dial("tcp", strings.TrimPrefix(k.url, "http://"))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close() })
				if _, err := io.WriteString(c, "GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
			}
			return fmt.Sprint(marketConnections, " idle connections of ", marketConnections, ", from the same address")
		},
		ask: func(k *market) error { return k.modest.get("/readyz") },
	},
	"open pages of the console that wait for events": {
		hold: func(t *testing.T, k *market) string {
			for range bounds.Viewers {
				k.greedy.stall("GET", "/ui/events", 0, 0)
			}
			time.Sleep(time.Second) // until the master has read the requests: at worst the modest user finds more room
			return fmt.Sprint(bounds.Viewers, " pages")
		},
		ask: func(k *market) error { return k.modest.first("/ui/events") },
	},
	"what-if questions and explanations that are being answered": {
		hold: func(t *testing.T, k *market) string {
			k.runAttempts(k.greedy, k.modest)
			for range 20 {
				if err := k.modest.submit(5); err != nil {
					t.Fatal(err)
				}
			}
			for range 12 {
				go func() {
					for t.Context().Err() == nil {
						_, _ = k.greedy.rpc.WhatIf(t.Context(), &slotwisev1.WhatIfRequest{Nodes: 50, Submit: []*slotwisev1.WhatIfJob{{Job: &slotwisev1.JobSpec{Name: "n"}, Maps: 100_000, MapSeconds: 10}}})
					}
				}()
			}
			clustertest.Eventually(t, "the greedy user holds his share", func() bool { return k.m.forecasts.questions.Held("greedy") == bounds.Questions/2 })
			return "12 what-if questions at a time of 100,000 maps each"
		},
		ask: func(k *market) error {
			_, err := k.modest.rpc.WhatIf(k.t.Context(), &slotwisev1.WhatIfRequest{Nodes: 1})
			return err
		},
	},
	"requests of users under way": {
		size: func(m *Master) { m.requests.underWay = bounds.NewGate(40) },
		hold: func(t *testing.T, k *market) string {
			if err := k.greedy.submit(1); err != nil {
				t.Fatal(err)
			}
			for range 40 {
				go k.greedy.rpc.Job(t.Context(), &slotwisev1.JobRequest{Job: "j1", After: 1 << 60, WaitMs: 60_000})
			}
			clustertest.Eventually(t, "the greedy user holds his share", func() bool { return k.m.requests.underWay.Held("greedy") == 20 })
			return "40 requests at a time of 40"
		},
		ask: func(k *market) error { return k.modest.ask(0) },
	},
	"requests of users that are worked on: they wait for nothing": {
		hold: func(t *testing.T, k *market) string {
			var submitted sync.WaitGroup
			for range 8 {
				submitted.Go(func() {
					for range 100 {
						if err := k.greedy.submit(1); err != nil {
							t.Error(err)
						}
					}
				})
			}
			submitted.Wait()
			k.flood(200, "/ui/jobs?format=json") // each answer lists 800 jobs
			clustertest.Eventually(t, "the greedy user has many", func() bool { return k.m.requests.worked.Held("greedy") > bounds.Worked/4 })
			return "200 lists of 800 jobs at a time"
		},
		ask: func(k *market) error { return k.modest.get("/ui/nodes") },
	},
	"requests that wait for the master's loop": {
		hold: func(t *testing.T, k *market) string {
			greedy := secure.With(t.Context(), secure.Identity{User: "greedy", Role: secure.User})
			for range bounds.Inbox {
				go query(greedy, k.m, func() (int, error) { time.Sleep(5 * time.Millisecond); return 0, nil })
			}
			clustertest.Eventually(t, "the greedy user holds his share", func() bool { return k.m.inbox.Len() > bounds.Inbox/4 })
			return fmt.Sprint(bounds.Inbox, " questions of 5 ms each")
		},
		ask: func(k *market) error { return k.modest.ask(0) },
	},
	"lists and whole jobs that are read from the history": {
		hold: func(t *testing.T, k *market) string {
			for i := range 2000 {
				entry := &slotwisev1.HistoryJob{Job: &slotwisev1.JobStatus{Id: fmt.Sprint("j", i+1), User: "greedy", EndedMs: time.Now().UnixMilli()}}
				if err := k.m.history.Put(entry); err != nil {
					t.Fatal(err)
				}
			}
			k.flood(200, "/ui/history?format=json&limit=2000")
			clustertest.Eventually(t, "the greedy user holds his share", func() bool { return k.m.requests.reads.Held("greedy") == bounds.Reads/2 })
			return "200 lists of 2,000 jobs at a time"
		},
		ask: func(k *market) error { return k.modest.get("/ui/history?format=json") },
	},
	"requests for metrics under way": {
		hold: func(t *testing.T, k *market) string {
			k.flood(200, "/metrics")
			clustertest.Eventually(t, "the greedy user holds his share", func() bool { return k.m.requests.scrapes.Held("greedy") >= bounds.Scrapes/2 })
			return "metrics, 200 times at a time"
		},
		ask: func(k *market) error { return k.modest.get("/metrics") },
	},
	"requests that wait for a change of a job or chain": {
		cfg: Config{Limits: Limits{Waiting: 40}},
		hold: func(t *testing.T, k *market) string {
			if err := k.greedy.submit(1); err != nil {
				t.Fatal(err)
			}
			for range 40 {
				go k.greedy.watch(t.Context())
			}
			clustertest.Eventually(t, "half of the requests wait", func() bool { return k.held() == 20 })
			return "40 requests that wait"
		},
		ask: func(k *market) error { // the request has to wait, so it is served when it waits
			ctx, cancel := context.WithCancel(k.t.Context())
			defer cancel()
			go k.modest.watch(ctx)
			clustertest.Eventually(k.t, "the modest user's request waits", func() bool { return k.held() == 21 })
			return nil
		},
	},
}

// watch waits for changes of the first job. It asks again as clients do: the tick after the submission
// answers all requests that wait, and may come late.
func (u *marketUser) watch(ctx context.Context) {
	for ctx.Err() == nil {
		_, _ = u.rpc.Job(ctx, &slotwisev1.JobRequest{Job: "j1", After: 1 << 60, WaitMs: 60_000})
		time.Sleep(50 * time.Millisecond) // a request beyond the user's share is answered at once
	}
}

// held returns the number of users' calls that wait for a change.
func (k *market) held() int {
	n, err := query(k.t.Context(), k.m, func() (int, error) { n, _ := k.m.core.Held(); return n, nil })
	if err != nil {
		k.t.Fatal(err)
	}
	return n
}

// TestGreedy has one user ask for as much as he can of each resource that users share. It
// prints the greedy requests and the time that another user's request takes meanwhile.
func TestGreedy(t *testing.T) {
	var mu sync.Mutex
	var rows []string
	for _, row := range bounds.Shared {
		c, ok := contests[row.What]
		if !ok {
			t.Errorf("no contest about %q", row.What)
			continue
		}
		t.Run(row.What, func(t *testing.T) {
			k := openMarket(t, c.cfg)
			if c.size != nil {
				c.size(k.m)
			}
			asked := c.hold(t, k)
			var took time.Duration
			for range asks {
				began := time.Now()
				if err := c.ask(k); err != nil {
					t.Fatalf("the modest user is refused: %v", err)
				}
				if took = time.Since(began); took <= servedWithin {
					break
				}
			}
			if took > servedWithin {
				t.Errorf("the modest user waits for %v, and waited as long %d times before", took, asks-1)
			}
			mu.Lock()
			defer mu.Unlock()
			rows = append(rows, fmt.Sprintf("| %s | %s | %v |", row.What, asked, took.Round(time.Millisecond)))
		})
	}
	if len(contests) != len(bounds.Shared) {
		t.Errorf("%d contests about %d resources", len(contests), len(bounds.Shared))
	}
	t.Log("\n| resource | the greedy user asks for | the modest user waits |")
	for _, r := range rows {
		t.Log(r)
	}
}
