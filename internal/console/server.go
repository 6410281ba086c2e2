package console

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/base/svg"
	"github.com/slotwise/slotwise/internal/console/source"
)

//go:embed assets/*
var files embed.FS

// asset is a file of the console with its name in URLs, which holds its hash.
type asset struct {
	body []byte
	kind string
}

// assets returns the files by name, and the hash that all their URLs hold. The first call reads the
// files, because every command of the program would pay for that at its start.
var assets = sync.OnceValues(loadAssets)

// loadAssets hashes all files together, so one changed file gives all files new URLs. That costs a browser
// a few kilobytes after an upgrade, and no page meets the style sheet of one version and the script of
// another.
func loadAssets() (map[string]asset, string) {
	kinds := map[string]string{"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
	all := map[string]asset{}
	sum := sha256.New()
	entries, err := files.ReadDir("assets")
	if err != nil {
		panic(err) // they are part of the program
	}
	for _, e := range entries {
		b, err := fs.ReadFile(files, "assets/"+e.Name())
		if err != nil {
			panic(err)
		}
		if e.Name() == "style.css" {
			// In front: where a rule of the console and one for charts match the same element, the console's
			// must win.
			b = append([]byte(svg.Sheet()), b...)
		}
		sum.Write(b)
		_, ext, _ := strings.Cut(e.Name(), ".")
		all[e.Name()] = asset{b, kinds[ext]}
	}
	return all, hex.EncodeToString(sum.Sum(nil))[:12]
}

// Server serves the console.
// Its fields are set before the first request. The records of samples and the questions in laters change
// later, each under its own lock.
type Server struct {
	source  source.Source
	actor   source.Actor
	who     func(*http.Request) source.Visitor
	version string
	// Simulator answers the questions of the page What if about files of jobs and about the past.
	// Without it the page has neither. It must be set before the first request.
	Simulator source.Simulator
	laters    laters
	past      bool // there is no cluster, only its history or results of simulations
	results   bool
	noJobs    bool // the source has the results of a study
	samples   samples
	// insights records the inner state of the installed policy.
	insights insights
	loads    nodeLoads
	cache    attemptCache
	streams  *bounds.Gate // of events
	mux      *http.ServeMux
	check    *http.CrossOriginProtection
	ctx      context.Context
}

// New returns the console of a source. The streams to browsers end with ctx. actor may be
// nil. who identifies the sender of a request. Until Follow runs, the console has no course of
// the slots in use and reports no change.
func New(ctx context.Context, from source.Source, actor source.Actor, who func(*http.Request) source.Visitor, version string) *Server {
	s := &Server{source: from, actor: actor, who: who, version: version, mux: http.NewServeMux(), streams: bounds.NewGate(bounds.Viewers), check: http.NewCrossOriginProtection(), ctx: ctx}
	start := s.overview
	// A history and results have no present, so they begin with a list and lack the pages of a
	// cluster.
	switch x := from.(type) {
	case *Results:
		s.past, s.results, s.noJobs, start = true, true, x.grid != nil, x.comparison
		s.mux.HandleFunc("GET /ui/figures/{name}", x.figure)
	case source.Past:
		s.past, start = true, s.history
	}
	// {$} makes the first path match itself alone; /ui/ without it, the last pattern below, matches all other
	// paths.
	for pattern, show := range map[string]func(*http.Request) (*page, error){
		"GET /ui/{$}": start, "GET /ui/jobs": s.jobs, "GET /ui/jobs/{id}": s.job, "GET /ui/jobs/{id}/attempts": s.attemptList,
		"GET /ui/attempts/{id}": s.attemptLog, "GET /ui/nodes": s.nodes, "GET /ui/nodes/{name}": s.node,
		"GET /ui/policy": s.policy, "GET /ui/history": s.history, "GET /ui/compare": s.compare, "GET /ui/login": s.login,
	} {
		s.mux.Handle(pattern, s.show(show))
	}
	s.mux.HandleFunc("POST "+source.Root+"theme", theme)
	// These three write their own answers: a stream, a log and files are no pages.
	s.mux.HandleFunc("GET "+source.Events, s.events)
	s.mux.HandleFunc("GET /ui/attempts/{id}/log", s.rawLog)
	s.mux.HandleFunc("GET /ui/attempts/{id}/stack", s.rawStack)
	s.mux.HandleFunc("GET /ui/assets/{hash}/{name}", s.asset)
	// Without an actor the paths do not exist, so no request can change anything.
	if actor != nil {
		s.mux.Handle("GET /ui/whatif", s.show(s.whatIf))
		s.mux.Handle("GET /ui/whatif/{id}", s.show(s.laterPage))
		s.mux.HandleFunc("POST /ui/whatif", s.askLater) // it reads larger forms than actions have
		for pattern, act := range map[string]func(*http.Request) (string, error){
			"POST /ui/jobs": s.changeJobs, "POST /ui/jobs/{id}/kill": s.kill, "POST /ui/jobs/{id}/priority": s.priority, "POST /ui/jobs/{id}/move": s.move,
			"POST /ui/nodes/{name}/drain": s.drain, "POST /ui/policy": s.setPolicy, "POST /ui/whatif/{id}/stop": s.stopLater,
		} {
			s.mux.Handle(pattern, s.act(act))
		}
	}
	// The least specific pattern: paths that no other one matches get a page of the console as
	// their error.
	s.mux.Handle("/ui/", s.show(func(r *http.Request) (*page, error) {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("there is no page %s", r.URL.Path))
	}))
	return s
}

// Follow samples the use of slots, the policy's inner state and the load of nodes until the
// console's context ends.
func (s *Server) Follow() {
	var inner sync.WaitGroup
	inner.Go(func() { s.insights.follow(s.ctx, s.source) })
	inner.Go(func() { s.loads.follow(s.ctx, s.source) })
	s.samples.follow(s.ctx, s.source)
	inner.Wait()
}

// policyHeader lets pages use nothing but the console's own files.
const policyHeader = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// ServeHTTP implements http.Handler. The identity of the sender must be in the request's
// context.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policyHeader)
	// Logs are text/plain and written by jobs. A browser that guesses types would run one that looks like
	// HTML, with the session of the reader.
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	// A page from the browser's cache would show jobs to the next user of the machine after signing out. The
	// console's files replace this header.
	h.Set("Cache-Control", "no-store")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	// SameSite=Strict does not stop another port or subdomain of this host from sending the session's cookie,
	// so the cookie proves nothing about which page has sent a form. GET and HEAD pass: they change nothing.
	if err := s.check.Check(r); err != nil {
		s.fail(w, r, connect.NewError(connect.CodePermissionDenied, errors.New("the request comes from a page of another site")))
		return
	}
	s.mux.ServeHTTP(w, r)
}

// asset serves a file of the console.
func (s *Server) asset(w http.ResponseWriter, r *http.Request) {
	files, hash := assets()
	a, ok := files[r.PathValue("name")]
	// A page that an older master has rendered must not put the new file into the browser's cache under the
	// old hash, for a year.
	if !ok || r.PathValue("hash") != hash {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	w.Header().Set("Content-Type", a.kind)
	write(w, r, http.StatusOK, a.body)
}

// compressFrom is the size in bytes from which answers are compressed.
const compressFrom = 1 << 10

// write sends a body, compressed if the client accepts it.
func write(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	// Also on short answers: a page's next answer may be a long one, and all answers of an address must agree.
	w.Header().Add("Vary", "Accept-Encoding")
	if len(body) < compressFrom || !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.WriteHeader(status)
		_, _ = w.Write(body) // the client may have disconnected
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	w.WriteHeader(status)
	// BestSpeed, because each change of the cluster has the pages of all viewers rendered again.
	z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // the level is valid
	_, _ = z.Write(body)
	_ = z.Close()
}

// show serves a page as HTML, or one of its tables as CSV or JSON.
func (s *Server) show(view func(*http.Request) (*page, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := view(r)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		switch f := r.URL.Query().Get("format"); f {
		// The texts of done are fixed, so that a link cannot put words into the console's mouth. An unknown
		// name shows none.
		case "":
			done := r.URL.Query().Get("done")
			p.Message, p.Refused = notices[done], done == "failed"
			s.html(w, r, http.StatusOK, p)
		case "csv", "json":
			s.data(w, r, p, f)
		default:
			s.fail(w, r, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("format %q is unknown: use csv or json", cut(f, 40))))
		}
	})
}

// data serves the table that the parameter table names, or the first one.
func (s *Server) data(w http.ResponseWriter, r *http.Request, p *page, format string) {
	id := r.URL.Query().Get("table")
	for _, sec := range p.all() {
		t := sec.Table
		if t == nil || id != "" && t.ID != id {
			continue
		}
		// Into a buffer first: a table that fails must still be able to answer with the status of an error.
		var b bytes.Buffer
		writeTable, kind := t.writeJSON, "application/json"
		if format == "csv" {
			writeTable, kind = t.writeCSV, "text/csv; charset=utf-8"
			w.Header().Set("Content-Disposition", `attachment; filename="`+t.ID+`.csv"`)
		}
		if err := writeTable(&b); err != nil {
			s.fail(w, r, err)
			return
		}
		w.Header().Set("Content-Type", kind)
		write(w, r, http.StatusOK, b.Bytes())
		return
	}
	s.fail(w, r, connect.NewError(connect.CodeNotFound, fmt.Errorf("this page has no table %q", cut(id, 40))))
}

// html serves a page.
func (s *Server) html(w http.ResponseWriter, r *http.Request, status int, p *page) {
	_, hash := assets()
	p.Asset, p.Version = source.Root+"assets/"+hash+"/", s.version
	who := s.who(r)
	p.Who, p.SignedIn = who.Name, who.SignedIn
	p.Now, p.Here = time.Now(), source.Root
	if r.Method == http.MethodGet { // the address of an action is no page
		p.Here = r.URL.RequestURI()
	}
	if c, err := r.Cookie(themeCookie); err == nil && (c.Value == "light" || c.Value == "dark") {
		p.Theme = c.Value
	}
	// A page for signing in, or an error before it, shows no links that would lead back to it.
	if who.Known {
		for _, l := range []link{{Text: "Overview", Href: "/ui/"}, {Text: "Jobs", Href: "/ui/jobs"}, {Text: "Nodes", Href: "/ui/nodes"}, {Text: "Policy", Href: "/ui/policy"}, {Text: "What if", Href: "/ui/whatif"}, {Text: "History", Href: "/ui/history"}} {
			switch {
			case s.actor == nil && l.Text == "What if":
				continue
			// The results of a study have no jobs, and so no page but the comparison.
			case s.noJobs && l.Text != "Overview":
				continue
			case s.results && l.Text == "Overview":
				l.Text = "Comparison"
			case s.results && l.Text == "History":
				l.Text = "Jobs"
			case s.past && l.Text != "History":
				continue
			}
			// Only the list itself is current. On a job's page the link Jobs leads somewhere, and must look
			// like that.
			l.Current = r.URL.Path == l.Href
			p.Nav = append(p.Nav, l)
		}
	}
	// The parameter done is removed: it would show its message again with the data.
	for _, sec := range p.all() {
		if t := sec.Table; t != nil {
			t.CSV, t.JSON = with(r.URL, "format", "csv", "table", t.ID, "done", ""), with(r.URL, "format", "json", "table", t.ID, "done", "")
		}
	}
	var b bytes.Buffer
	// Into a buffer first, so that an error can still change the status.
	if err := p.html().Render(&b); err != nil {
		http.Error(w, "the page cannot be shown: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	write(w, r, status, b.Bytes())
}

// statuses are the statuses of HTTP for the codes of a Source's errors.
var statuses = map[connect.Code]int{
	connect.CodeNotFound: http.StatusNotFound, connect.CodePermissionDenied: http.StatusForbidden, connect.CodeUnauthenticated: http.StatusUnauthorized,
	connect.CodeInvalidArgument: http.StatusBadRequest, connect.CodeFailedPrecondition: http.StatusConflict, connect.CodeUnavailable: http.StatusServiceUnavailable,
	connect.CodeResourceExhausted: http.StatusServiceUnavailable, connect.CodeAlreadyExists: http.StatusConflict,
}

// errorText returns an error without its code.
func errorText(err error) string {
	var coded *connect.Error
	if errors.As(err, &coded) {
		return coded.Message()
	}
	return err.Error()
}

// fail serves an error, as a page unless the client wants data.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	// Faults of the server, and errors without a code, are 500.
	status, known := statuses[connect.CodeOf(err)]
	if !known {
		status = http.StatusInternalServerError
	}
	// A program that reads a table would take the page of an error for data.
	if f := r.URL.Query().Get("format"); f == "csv" || f == "json" {
		http.Error(w, errorText(err), status)
		return
	}
	s.html(w, r, status, &page{Title: http.StatusText(status), Sections: []*section{{
		ID: "error", Alerts: []string{errorText(err)}, Links: []link{{Text: "Overview", Href: source.Root}},
	}}})
}

// notices are the messages after actions, by the parameter done.
var notices = map[string]string{
	"kill": "The jobs that were chosen are being killed.", "priority": "The priority has been changed.", "move": "The job has been moved.",
	"drain": "The node gets no new work.", "undrain": "The node gets work again.", "policy": "The policy has been installed.",
	"failed": "The token is not valid: it is mistyped, or it was revoked.", "signout": "You have signed out.",
}

// maxForm bounds the body of an action in bytes.
const maxForm = 64 << 10

// act carries an action out and leads back to the page.
func (s *Server) act(do func(*http.Request) (string, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if err := r.ParseForm(); err != nil {
			s.fail(w, r, connect.NewError(connect.CodeInvalidArgument, err))
			return
		}
		to, err := do(r)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		// 303 has the browser fetch the page with GET, so loading it again does not repeat the action.
		http.Redirect(w, r, to, http.StatusSeeOther)
	})
}

// themeCookie names the cookie that keeps the theme a reader has chosen.
const themeCookie = "slotwise-theme"

// theme keeps the chosen theme in a cookie and leads back to the page. Any other value than light
// or dark has the pages follow the browser's theme.
func theme(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	// Not Secure: consoles without TLS have themes, too, and the value is no secret.
	c := &http.Cookie{Name: themeCookie, Value: r.PostFormValue("theme"), Path: source.Root, MaxAge: 365 * 24 * 60 * 60, HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if c.Value != "light" && c.Value != "dark" {
		c.Value, c.MaxAge = "", -1
	}
	http.SetCookie(w, c)
	http.Redirect(w, r, source.Below(r.PostFormValue("next"), source.Root), http.StatusSeeOther)
}

// Limits of the streams of events.
const (
	streamTime = 10 * time.Minute // after which a browser connects and authenticates again
	aliveEvery = time.Second      // between two events that say whether the source answers
)

// events sends an event whenever the cluster has changed, and an event alive each second while
// the source answers. A page that misses alive for some seconds warns its reader.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	user := s.who(r).Account
	// Each stream holds a goroutine and a connection for minutes.
	if !s.streams.Try(user, 1) {
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	defer s.streams.Give(user, 1)
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	end := time.NewTimer(streamTime)
	defer end.Stop()
	sent := int64(-1)
	for {
		// Read together: a change after this line closes this channel, so none is missed while the event is
		// written.
		revision, changed := s.samples.next()
		// A comment keeps proxies from closing an idle connection.
		text := ": the source does not answer\n\n"
		switch {
		case revision != sent:
			text = fmt.Sprintf("event: change\ndata: %d\n\n", revision)
			sent = revision
		// A history has no master that could stop answering, and nothing samples it.
		case s.past || s.samples.answered(time.Now()):
			text = "event: alive\ndata:\n\n"
		}
		// Flushed each time, because an event in a buffer reaches no page. An error is a browser that has
		// left: the write each second is how a closed page is noticed behind a proxy that keeps its
		// connection.
		if _, err := w.Write([]byte(text)); err != nil || out.Flush() != nil {
			return
		}
		quiet := time.NewTimer(aliveEvery)
		select {
		case <-changed:
		case <-quiet.C:
		// The browser connects again and is authenticated again, so a revoked token ends its
		// streams within streamTime.
		case <-end.C:
			quiet.Stop()
			return
		case <-r.Context().Done():
			quiet.Stop()
			return
		// The server's shutdown waits for handlers that run.
		case <-s.ctx.Done():
			quiet.Stop()
			return
		}
		quiet.Stop()
	}
}

// rawStack answers what a running attempt does, as plain text.
func (s *Server) rawStack(w http.ResponseWriter, r *http.Request) {
	out := &flushed{w: w, c: http.NewResponseController(w)}
	if err := s.source.Stack(r.Context(), r.PathValue("id"), out); err != nil {
		// The status has left with the first bytes, so the text itself must say that it is incomplete.
		if out.begun {
			_, _ = fmt.Fprintf(w, "\n[the text ends here: %s]\n", errorText(err))
			return
		}
		s.fail(w, r, err)
	}
}

// rawLog streams an attempt's log as plain text.
func (s *Server) rawLog(w http.ResponseWriter, r *http.Request) {
	_, follow := r.URL.Query()["follow"]
	out := &flushed{w: w, c: http.NewResponseController(w)}
	err := s.source.Log(r.Context(), r.PathValue("id"), follow, out)
	switch {
	// An empty log needs its type as well: a browser that may not guess offers to save an answer without one.
	case err == nil:
		out.begin()
	case out.begun:
		_, _ = fmt.Fprintf(w, "\n[the log ends here: %s]\n", errorText(err))
	default:
		s.fail(w, r, err)
	}
}

// flushed sends each part of a log at once.
type flushed struct {
	w     http.ResponseWriter
	c     *http.ResponseController
	begun bool
}

func (f *flushed) begin() {
	if !f.begun {
		f.begun = true
		f.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		f.w.WriteHeader(http.StatusOK)
	}
}

// Write implements io.Writer.
func (f *flushed) Write(b []byte) (int, error) {
	f.begin()
	// Without the flush, no line of a followed log would show until net/http's buffer of a few kilobytes is full.
	n, err := f.w.Write(b)
	if err == nil {
		err = f.c.Flush()
	}
	return n, err
}

// login shows the form to sign in. The server's guard receives it.
func (s *Server) login(r *http.Request) (*page, error) {
	// It goes into the address of the form, because the server's guard receives the form and leads on.
	next := r.URL.Query().Get("next")
	return &page{Title: "Sign in", Sections: []*section{{
		ID: "signin", Notes: []string{"Sign in with your token (the text in the file of --token-file). The cookie that you get is valid for an hour without a request and for twelve hours in all."},
		Forms: []form{{Action: source.SignIn + "?" + url.Values{"next": {next}}.Encode(), Button: "Sign in", Open: true,
			Fields: []field{{Name: "token", Label: "Token", Type: "password", Required: true}}}},
		Links: []link{{Text: "Continue without signing in again", Href: source.Below(next, source.Root)}},
	}}}, nil
}
