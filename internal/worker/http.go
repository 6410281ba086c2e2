package worker

import (
	"crypto/tls"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/secure"
	"github.com/slotwise/slotwise/internal/shuffle/netshuffle"
)

func cores() int { return runtime.NumCPU() }

// listen opens the worker's HTTP server and finds out under which address
// others reach it.
func (w *Worker) listen() (err error) {
	if w.cfg.Host == "" {
		w.cfg.Host, _ = os.Hostname() // without one there is no locality
	}
	// The outputs' own handler checks who asks.
	guard := &secure.Guard{Public: []string{"/healthz", "/readyz", "/v1/outputs/"}, Log: w.log}
	var config *tls.Config
	if w.cfg.TLS.Given() {
		if config, err = secure.ServerTLS(w.cfg.TLS); err != nil {
			return err
		}
		guard.Certificates = w.cfg.TLS.CA != ""
	}
	if w.fetch, err = secure.ChildCredentials(w.cfg.TLS); err != nil {
		return err
	}
	if w.listener, err = secure.Listen(w.cfg.Listen, config, guard); err != nil {
		return err
	}
	if w.address, err = w.advertised(w.listener.Addr().String()); err != nil {
		return errors.Join(err, w.listener.Close())
	}
	w.server = secure.NewServer(w.handler(), guard)
	return nil
}

// advertised is the address to give to others.
func (w *Worker) advertised(own string) (string, error) {
	host, port, err := net.SplitHostPort(own)
	if err != nil {
		return "", err
	}
	if a := w.cfg.Advertise; a != "" {
		if _, _, err := net.SplitHostPort(a); err != nil {
			return net.JoinHostPort(a, port), nil // a host alone
		}
		return a, nil
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsUnspecified() {
		return own, nil
	}
	// The address of this host that the master sees; nothing is sent.
	u, err := url.Parse(w.cfg.Master)
	if err != nil {
		return "", err
	}
	to := u.Host
	if u.Port() == "" {
		to = net.JoinHostPort(u.Hostname(), "80")
	}
	c, err := net.Dial("udp", to)
	if err != nil {
		return "", err
	}
	defer c.Close()
	host, _, err = net.SplitHostPort(c.LocalAddr().String())
	return net.JoinHostPort(host, port), err
}

func (w *Worker) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle(netshuffle.Pattern, &netshuffle.Handler{Dir: w.home.outputs(), Secret: w.secret, Log: w.log})
	mux.HandleFunc("GET /v1/logs/{attempt}", w.serveLog)
	mux.HandleFunc("GET /healthz", func(rw http.ResponseWriter, _ *http.Request) { rw.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(rw http.ResponseWriter, _ *http.Request) {
		if why := w.notReady(); why != "" {
			http.Error(rw, why, http.StatusServiceUnavailable)
			return
		}
		rw.Write([]byte("ready\n"))
	})
	mux.Handle("GET /metrics", w.metrics.handler())
	return mux
}

// notReady says why the worker takes no work, "" if it does.
func (w *Worker) notReady() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.mu.draining || w.mu.stopped:
		return "draining"
	case w.mu.session == "":
		return "not registered yet"
	case w.mu.full:
		return "the disk is full"
	case time.Since(w.mu.lastBeat) > stuck:
		return "the master does not answer"
	}
	return ""
}

// serveLog serves what an attempt has printed; with ?follow until it ends.
func (w *Worker) serveLog(rw http.ResponseWriter, r *http.Request) {
	if err := (secure.Rules{}).May(secure.From(r.Context()), secure.ReadLogs, secure.Subject{}); err != nil {
		http.Error(rw, err.Error(), http.StatusForbidden)
		return
	}
	id, err := job.ParseAttempt(r.PathValue("attempt"))
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
	rw.Header().Set("X-Content-Type-Options", "nosniff")
	w.mu.Lock()
	var log *logFile
	if a := w.mu.attempts[id]; a != nil && !a.ended {
		log = a.log
	}
	w.mu.Unlock()
	if log == nil {
		err = w.home.copyLog(id, rw)
	} else {
		out := http.NewResponseController(rw)
		err = log.copyTo(r.Context(), rw, r.URL.Query().Has("follow"), func() { out.Flush() })
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		http.Error(rw, "no log of "+id.String()+" here", http.StatusNotFound)
	case err != nil:
		w.log.Warn("serving a log", "attempt", id, "err", err)
	}
}
