package secure

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// Masters is a transport that sends requests to the leading master of a cluster. A master that
// does not lead answers with the detail NotLeader, which may name the leader. Without a name, after
// an error of the connection, and when a master is silent, the next master of the list comes.
//
// Masters repeats requests that a follower has refused: it has not carried them out. With probes it
// also repeats a request to a silent master when another one leads. The silent master may have carried
// the request out before, so callers with probes send only requests that may be repeated. After any
// other error the caller decides.
type Masters struct {
	next   http.RoundTripper
	hosts  []string // as the user gave them, in order
	scheme string
	probes bool

	mu struct {
		sync.Mutex
		host string // to which requests go now: one of hosts, or the leader that a follower named
		at   int    // index in hosts of the last one that was tried
	}
}

// A request without an answer makes Masters ask the master after probeAfter whether it runs, and wait
// for that until SilentAfter has passed since the request. If the list has other masters, it asks
// after hedgeAfter, and while the answer is missing it asks the others who leads.
const (
	probeAfter = 1500 * time.Millisecond
	hedgeAfter = 300 * time.Millisecond
	askAfter   = 200 * time.Millisecond // since the probe
	askEvery   = 300 * time.Millisecond
	// After an answer to a probe, of the only master and of one of several. A worker without tasks has one
	// request that its master may hold for ten seconds. If that master freezes, another one leads after a
	// second or two, and gives the worker no task before the worker has noticed.
	probeEvery = 5 * time.Second
	hedgeEvery = time.Second
)

// SilentAfter is the time after which a request to a silent master fails with ErrSilent. It is below
// the five seconds in which a command should have ended.
const SilentAfter = 4 * time.Second

// ErrSilent is the error of a request to a master that accepts no connection or answers nothing at
// all, not even that a page does not exist. A busy master still answers that.
var ErrSilent = fmt.Errorf("no sign of life for %v: its process is stopped, its machine is down, or the network between is broken", SilentAfter)

// ParseMasters splits a list of masters, host:port or URLs joined by commas. It returns
// the URL of the first one, without a slash at its end, and the hosts of all. An address without a
// scheme has the one of the first, or http.
func ParseMasters(list string) (base string, hosts []string, err error) {
	scheme := ""
	for _, address := range strings.Split(list, ",") {
		address = strings.TrimSpace(address)
		if !strings.Contains(address, "://") {
			if scheme == "" {
				scheme = "http"
			}
			address = scheme + "://" + address
		}
		u, err := url.Parse(address)
		switch {
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
			return "", nil, fmt.Errorf("master address %q is invalid: it must be host:port or a URL such as https://host:port, or a list of them with commas", list)
		case base == "":
			base, scheme = strings.TrimSuffix(u.String(), "/"), u.Scheme
		// Only the host of a request is replaced, so the rest must be the same for all masters.
		case u.Scheme != scheme || strings.Trim(u.Path, "/") != "" || slices.Contains(hosts, u.Host):
			return "", nil, fmt.Errorf("list of masters %q is invalid: each master is named once, and all with the same scheme and without a path", list)
		}
		hosts = append(hosts, u.Host)
	}
	return base, hosts, nil
}

// ToLeader returns a copy of an HTTP client whose requests to the hosts of a list, as ParseMasters
// returns it, go to the leader. With probes it fails requests to a silent master with ErrSilent;
// each request that waits costs the master another one in five seconds, and one of several masters one in
// each second.
func ToLeader(c *http.Client, base string, hosts []string, probes bool) *http.Client {
	// The transport of a client that another one passes on, as submit does, finds the leader already.
	if m, ok := c.Transport.(*Masters); ok && slices.Equal(m.hosts, hosts) {
		return c
	}
	m := &Masters{next: c.Transport, hosts: hosts, probes: probes}
	if m.next == nil {
		m.next = http.DefaultTransport
	}
	m.scheme, _, _ = strings.Cut(base, "://")
	m.mu.host = hosts[0]
	// A copy, because the caller's client may also be used for other servers.
	own := *c
	own.Transport = m
	return &own
}

// RoundTrip implements http.RoundTripper.
func (m *Masters) RoundTrip(r *http.Request) (*http.Response, error) {
	host := m.current()
	if r.URL.Host != host && !slices.Contains(m.hosts, r.URL.Host) {
		return m.next.RoundTrip(r) // a redirect to another server
	}
	var refusal *http.Response // of the follower before
	for tries := 1; ; tries++ {
		resp, err := m.send(r, host)
		// The end of the caller's context says nothing about the master.
		if err != nil && r.Context().Err() == nil {
			moved := &movedError{}
			isMoved := errors.As(err, &moved)
			m.passOver(host, moved.leader)
			if again := rewound(r); isMoved && again != nil && tries <= len(m.hosts) {
				r, host = again, m.current()
				continue
			}
			// The leader that a follower named has died. The refusal says that another one will be
			// elected, and the error would not.
			if refusal != nil {
				return refusal, nil
			}
		}
		if refusal != nil {
			_ = refusal.Body.Close()
		}
		if err != nil {
			return nil, err
		}
		n, refused := NotLeader(resp)
		if !refused {
			return resp, nil
		}
		refusal = resp
		m.passOver(host, n.Leader)
		next := m.current()
		// One try more than masters: the last follower may name the leader. Then the caller waits,
		// because the masters elect a leader.
		again := rewound(r)
		if tries > len(m.hosts) || next == host || again == nil {
			return resp, nil
		}
		r, host = again, next
	}
}

// rewound returns a request with its body from the start, nil if the body cannot be read again.
func rewound(r *http.Request) *http.Request {
	if r.Body == nil {
		return r
	}
	if r.GetBody == nil {
		return nil
	}
	body, err := r.GetBody()
	if err != nil {
		return nil
	}
	// A shallow copy, because the caller's request must not change.
	r = r.WithContext(r.Context())
	r.Body = body
	return r
}

// CloseIdleConnections forwards http.Client.CloseIdleConnections, which finds it by type assertion.
func (m *Masters) CloseIdleConnections() {
	if c, ok := m.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (m *Masters) current() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.host
}

// passOver sends the next requests to the leader, or without one to the next master of the list. It
// does nothing if another request has chosen another master meanwhile.
func (m *Masters) passOver(host, leader string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	// Many requests fail at once when a master dies. The first one moves the client, and the others must not
	// move it on.
	case m.mu.host != host:
	case leader != "" && leader != host:
		m.mu.host = leader
	default:
		m.mu.at = (m.mu.at + 1) % len(m.hosts)
		m.mu.host = m.hosts[m.mu.at]
	}
}

// send makes one request to one master and watches it while it waits for the answer.
func (m *Masters) send(r *http.Request, host string) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	r = r.WithContext(ctx)
	u := *r.URL
	u.Host = host
	r.URL, r.Host = &u, host
	if !m.probes {
		resp, err := m.next.RoundTrip(r)
		return m.closing(resp, ctx, host, cancel), err
	}
	// A goroutine for each request, because a request has no time limit: it may be a long poll, and only a probe
	// distinguishes one that waits from one whose master is silent.
	watch, stop := context.WithCancel(ctx)
	go m.watch(watch, host, cancel)
	resp, err := m.next.RoundTrip(r)
	if err != nil {
		stop()
		return nil, cmp.Or(silence(ctx), err)
	}
	// The next part of a log may be hours away, so the watch continues.
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/connect+") {
		resp.Body = &parts{resp.Body, ctx, func(leader string) { m.passOver(host, leader) }}
		return m.closing(resp, ctx, host, func(cause error) { stop(); cancel(cause) }), nil
	}
	// Calls follow on an upgraded connection, and each may wait.
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return m.closing(resp, ctx, host, func(cause error) { stop(); cancel(cause) }), nil
	}
	stop()
	return m.closing(resp, ctx, host, cancel), nil
}

// silence returns the error with which watch has ended a request, nil if it has not.
func silence(ctx context.Context) error {
	if cause := context.Cause(ctx); cause == ErrSilent || errors.As(cause, new(*movedError)) {
		return cause
	}
	return nil
}

// parts is the body of an answer that is watched. If its master becomes silent, the next request goes to
// another one.
type parts struct {
	io.ReadCloser
	ctx  context.Context
	pass func(leader string)
}

// Read implements io.Reader.
func (p *parts) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b)
	if silent := silence(p.ctx); err != nil && silent != nil {
		moved := &movedError{}
		errors.As(silent, &moved)
		p.pass(moved.leader)
		err = silent
	}
	return n, err
}

// watch asks a master for any answer again and again until ctx ends. When it gets none, or when another
// master leads meanwhile, it ends the request with ErrSilent or a movedError.
func (m *Masters) watch(ctx context.Context, host string, cancel context.CancelCauseFunc) {
	after, every := probeAfter, probeEvery
	// With several masters a wrong guess costs little: another one answers.
	if len(m.hosts) > 1 {
		after, every = hedgeAfter, hedgeEvery
	}
	// The probe gets the rest of SilentAfter: a silent master is given up after that time in any
	// case.
	limit := SilentAfter - after
	timer := time.NewTimer(after)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if err := m.probe(ctx, host, limit); err != nil && ctx.Err() == nil {
			cancel(err)
			return
		}
		timer.Reset(every)
	}
}

// probe requests a page that no master has. Unlike /healthz it needs nothing of the master's
// loop, so a master whose loop is busy answers at once. Without an answer within limit it returns
// ErrSilent. It returns a movedError as soon as another master says who leads instead, and after limit
// if another master has answered at all.
func (m *Masters) probe(ctx context.Context, host string, limit time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, ErrSilent)
	defer cancel()
	answered := make(chan error, 1)
	go func() {
		r, err := http.NewRequestWithContext(ctx, http.MethodHead, m.scheme+"://"+host+"/alive", nil)
		var resp *http.Response
		if err == nil {
			resp, err = m.next.RoundTrip(r)
		}
		// An error before the limit is an answer, too: the request itself will fail with a better text.
		if err == nil {
			_ = resp.Body.Close()
		}
		answered <- context.Cause(ctx)
	}()
	var others []string
	for _, h := range m.hosts {
		if h != host {
			others = append(others, h)
		}
	}
	asked := make(chan answer, len(others))
	// One question to each other master at a time: another one may be silent, too.
	idle := others
	heard := false
	ask := time.NewTimer(askAfter)
	defer ask.Stop()
	for {
		select {
		case err := <-answered:
			if errors.Is(err, ErrSilent) && heard {
				return &movedError{host, ""}
			}
			return err
		case <-ask.C:
			for _, h := range idle {
				go func() { asked <- m.ask(ctx, h) }()
			}
			idle = nil
			ask.Reset(askEvery)
		case a := <-asked:
			// A follower that still names the silent master has not noticed yet, or that master is only
			// slow. Both show in the next questions.
			if idle, heard = append(idle, a.host), heard || a.answered; a.leader != "" && a.leader != host {
				return &movedError{host, a.leader}
			}
		}
	}
}

// answer is a master's reply to GET /leader.
type answer struct {
	host, leader string // leader is "" if the master knows none
	answered     bool
}

// ask asks a master who leads, at its path /leader.
func (m *Masters) ask(ctx context.Context, host string) (a answer) {
	a.host = host
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, m.scheme+"://"+host+"/leader", nil)
	if err != nil {
		return a
	}
	resp, err := m.next.RoundTrip(r)
	if err != nil {
		return a
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if err != nil {
		return a
	}
	// With any status: the process serves, even if it knows no leader.
	a.answered = true
	switch resp.StatusCode {
	case http.StatusOK:
		a.leader = host // at which the caller reaches it, whatever it calls itself
	case http.StatusServiceUnavailable:
		a.leader = strings.TrimSpace(string(text))
	}
	return a
}

// movedError is the error of a request to a silent master while another one has answered. leader is the
// leader that it named, if any.
type movedError struct{ silent, leader string }

// Error implements error.
func (e *movedError) Error() string {
	if e.leader == "" {
		return "master " + e.silent + " is silent, and the others have elected no leader yet: try again"
	}
	return "master " + e.silent + " is silent, and " + e.leader + " leads: try again"
}

// NotLeader reports whether a follower has refused a request, and returns the detail of its error, which names
// the leader if the follower knows one.
func NotLeader(resp *http.Response) (n *slotwisev1.NotLeader, refused bool) {
	n = &slotwisev1.NotLeader{}
	if resp.StatusCode != http.StatusServiceUnavailable || !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		return n, false
	}
	// An error is short. The bytes are put back for the caller.
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	resp.Body = &prefixed{io.MultiReader(bytes.NewReader(body), resp.Body), resp.Body}
	if err != nil {
		return n, false
	}
	var answer struct {
		Details []struct{ Type, Value string }
	}
	if json.Unmarshal(body, &answer) != nil {
		return n, false
	}
	for _, d := range answer.Details {
		if d.Type != string(n.ProtoReflect().Descriptor().FullName()) {
			continue
		}
		if value, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(d.Value, "=")); err != nil || proto.Unmarshal(value, n) != nil {
			n.Reset() // the type alone says that this master does not lead
		}
		return n, true
	}
	return n, false
}

// prefixed is a body of which a part was read already.
type prefixed struct {
	io.Reader
	io.Closer
}

// closing returns an answer of a host whose context ends when its body is closed.
func (m *Masters) closing(resp *http.Response, ctx context.Context, host string, cancel context.CancelCauseFunc) *http.Response {
	if resp == nil {
		cancel(errors.New("the request has failed"))
		return nil
	}
	if conn, ok := resp.Body.(io.ReadWriteCloser); ok && resp.StatusCode == http.StatusSwitchingProtocols {
		u := &upgraded{ReadWriteCloser: conn, ctx: ctx, cancel: cancel, pass: func(leader string) { m.passOver(host, leader) }}
		// The transport has given the connection away, so its request's context does not close it.
		u.ended = context.AfterFunc(ctx, func() { _ = conn.Close() })
		resp.Body = u
		return resp
	}
	resp.Body = &closer{resp.Body, cancel}
	return resp
}

// upgraded is an upgraded connection. If the connection breaks or its master becomes silent, the next request
// goes to another one.
type upgraded struct {
	io.ReadWriteCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	ended  func() bool
	pass   func(leader string)
}

// Read implements io.Reader.
func (u *upgraded) Read(b []byte) (int, error) {
	n, err := u.ReadWriteCloser.Read(b)
	silent := silence(u.ctx)
	switch {
	case err == nil:
	case silent != nil:
		moved := &movedError{}
		errors.As(silent, &moved)
		u.pass(moved.leader)
		err = silent
	case u.ctx.Err() == nil: // else this end has closed it
		u.pass("")
	}
	return n, err
}

// Close implements io.Closer.
func (u *upgraded) Close() error {
	u.ended()
	u.cancel(nil)
	return u.ReadWriteCloser.Close()
}

type closer struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

// Close implements io.Closer.
func (c *closer) Close() error {
	err := c.ReadCloser.Close()
	c.cancel(nil)
	return err
}
