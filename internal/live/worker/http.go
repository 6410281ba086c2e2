package worker

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/data/shuffle/netshuffle"
	"github.com/slotwise/slotwise/internal/live/secure"
	"github.com/slotwise/slotwise/internal/live/worker/agent"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// listen opens the listener of the worker's HTTP server and determines the address
// under which others reach it. The map output handler verifies signatures itself,
// so the guard lets its requests pass.
func (w *Worker) listen() (err error) {
	if w.cfg.Host == "" {
		w.cfg.Host, _ = os.Hostname() // without a host name no map is node-local here
	}
	guard := &secure.Guard{Public: []string{"/healthz", "/readyz", "/v1/outputs/"}, Session: &w.sessionKey, Log: w.log}
	// Only for people who scrape the worker or read its logs directly. The master proves itself by the session's
	// key.
	if w.cfg.Tokens != "" {
		if guard.Tokens, err = secure.OpenTokens(w.cfg.Tokens, w.log); err != nil {
			return fmt.Errorf("--tokens: %w", err)
		}
	}
	var config *tls.Config
	if w.cfg.TLS.Given() {
		if config, err = secure.ServerTLS(w.cfg.TLS, secure.Worker); err != nil {
			return err
		}
		// Without an authority of the cluster no client's certificate can be verified.
		guard.Certificates = w.cfg.TLS.CA != ""
		w.warnOfMasterName()
	}
	if w.fetch, err = secure.ChildCredentials(w.cfg.TLS); err != nil {
		return err
	}
	// Last, and the server after it: the socket accepts connections from here on, and the
	// guard must be complete.
	if w.listener, err = secure.Listen(w.cfg.Listen, config, guard); err != nil {
		return fmt.Errorf("--listen %w", err)
	}
	if w.address, err = w.advertised(w.listener.Addr().String()); err != nil {
		return errors.Join(err, w.listener.Close())
	}
	w.server = secure.NewServer(w.handler(), guard)
	return nil
}

// warnOfMasterName logs a warning if the worker's certificate is valid for the master's name.
// Commands and workers check the role in a certificate, but a browser takes any server with
// the worker's key for the master.
func (w *Worker) warnOfMasterName() {
	for _, host := range w.cfg.masterHosts {
		u := url.URL{Host: host}
		if !w.cfg.TLS.ValidFor(u.Hostname()) {
			continue
		}
		w.log.Warn("the worker's certificate is valid for the master's name, so browsers would accept its key as the master's: "+
			"make a new one with \"slotwise certs --dir DIR --role worker --user NAME\"", "certificate", w.cfg.TLS.Cert, "name", u.Hostname())
	}
}

// advertised returns the address to register: Config.Advertise, or the address that
// the server listens on. For a server on all interfaces it is the local address of
// a connection to the master; dialling UDP chooses it without sending a packet.
func (w *Worker) advertised(own string) (string, error) {
	host, port, err := net.SplitHostPort(own)
	if err != nil {
		return "", err
	}
	if a := w.cfg.Advertise; a != "" {
		if _, _, err := net.SplitHostPort(a); err != nil {
			return net.JoinHostPort(a, port), nil // a host without a port
		}
		return a, nil
	}
	// A name or a certain address was configured, so others can be expected to reach it.
	if ip := net.ParseIP(host); ip == nil || !ip.IsUnspecified() {
		return own, nil
	}
	u, err := url.Parse(w.cfg.masterURL)
	if err != nil {
		return "", err
	}
	to := u.Host
	if u.Port() == "" {
		to = net.JoinHostPort(u.Hostname(), "80")
	}
	// The machine may have several networks. The one that leads to the master is the one on
	// which the cluster lives.
	c, err := net.Dial("udp", to)
	if err != nil {
		return "", err
	}
	defer c.Close()
	host, _, err = net.SplitHostPort(c.LocalAddr().String())
	return net.JoinHostPort(host, port), err
}

// route is one path of the worker's HTTP server.
type route struct {
	pattern string
	handler http.Handler
}

// routes returns all paths. A test requires a row about access for each.
func (w *Worker) routes() []route {
	return []route{
		{netshuffle.Pattern, &netshuffle.Handler{Dir: w.home.outputs(), Job: w.outputsOf, Log: w.log}},
		{"GET /v1/logs/{attempt}", only(secure.ReadLogs, http.HandlerFunc(w.serveLog))},
		{"GET /metrics", only(secure.Scrape, w.metrics.handler())},
		{"GET /healthz", http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.Write([]byte("ok\n")) })},
		{"GET /readyz", http.HandlerFunc(w.serveReady)},
	}
}

// handler serves the routes.
func (w *Worker) handler() http.Handler {
	mux := http.NewServeMux()
	for _, r := range w.routes() {
		mux.Handle(r.pattern, r.handler)
	}
	return mux
}

// serveReady answers 200 if the worker takes work. The query parameter exclude names a
// condition that the answer ignores, and may be repeated: drain, disk or master.
func (w *Worker) serveReady(rw http.ResponseWriter, r *http.Request) {
	if why := w.notReady(r.URL.Query()["exclude"]...); why != "" {
		http.Error(rw, why, http.StatusServiceUnavailable)
		return
	}
	rw.Write([]byte("ready\n"))
}

// silenceLimit is the time without an answer of the master after which the worker
// reports that it is not ready.
const silenceLimit = 30 * time.Second

// notReady returns the reason why the worker takes no work, or "" if it does. It ignores
// the excluded conditions.
func (w *Worker) notReady(exclude ...string) string {
	checked := func(condition string) bool { return !slices.Contains(exclude, condition) }
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.mu.draining && checked("drain"):
		return "draining"
	case w.mu.agent.Session() == "":
		return "not registered yet"
	case w.mu.disk != slotwisev1.NodeCondition_NODE_CONDITION_UNSPECIFIED && checked("disk"):
		return w.mu.diskWhy
	// A master that is away makes all workers unready at once. Kubernetes removes pods that are not ready before all others,
	// so its probe excludes master.
	case time.Since(w.mu.lastAnswer) > silenceLimit && checked("master"):
		return "the master does not answer"
	}
	return ""
}

// only passes on requests of clients who may perform an action.
func only(a secure.Action, next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if err := (secure.Rules{}).May(secure.From(r.Context()), a, secure.Subject{}); err != nil {
			http.Error(rw, err.Error(), http.StatusForbidden)
			return
		}
		next.ServeHTTP(rw, r)
	})
}

// serveLog serves the log of an attempt, or of a driver such as chain-12_1. With the query
// parameter follow it continues until the attempt ends. With stack it serves, instead, what a running
// attempt does now.
func (w *Worker) serveLog(rw http.ResponseWriter, r *http.Request) {
	name := r.PathValue("attempt")
	id, err := job.ParseAttempt(name)
	driver, isDriver := agent.ParseDriver(name)
	if err != nil && !isDriver {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
	// The text is a job's. A browser must not take it for a page.
	rw.Header().Set("X-Content-Type-Options", "nosniff")
	if r.URL.Query().Has("stack") {
		if isDriver {
			http.Error(rw, name+" is the driver of a chain; stacks are those of attempts", http.StatusBadRequest)
			return
		}
		w.serveStack(rw, r, id)
		return
	}
	w.mu.Lock()
	var log *logFile
	if p := w.mu.drivers[driver]; isDriver && p != nil {
		log = p.log
	}
	if p := w.mu.processes[id]; !isDriver && p != nil {
		log = p.log
	}
	w.mu.Unlock()
	// The attempt has ended, so its files do not change any more and are copied without
	// following them.
	if log == nil {
		err = w.home.copyLog(name, rw)
	} else {
		out := http.NewResponseController(rw)
		err = log.copyTo(r.Context(), rw, r.URL.Query().Has("follow"), func() { out.Flush() })
	}
	switch {
	// Nothing has been written to the answer yet, so its status can still change. After other
	// errors the answer is under way and can only be cut off.
	case errors.Is(err, fs.ErrNotExist):
		http.Error(rw, "this worker has no log of "+name+": it was removed to make room for later ones, or "+name+" printed nothing", http.StatusNotFound)
	case err != nil:
		w.log.Warn("serving a log", "attempt", name, "err", err)
	}
}
