package master

import (
	"io"
	"net/http"
	"strings"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/console/source"
	"github.com/slotwise/slotwise/internal/live/frames"
	"github.com/slotwise/slotwise/internal/live/secure"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
)

// compressFrom is the size in bytes from which answers are compressed. Compressing the
// many short ones would cost more time than it saves.
const compressFrom = 16 << 10

// route is one path of the master's HTTP server.
type route struct {
	pattern string
	handler http.Handler
}

// routes returns all paths. A test requires a row about access for each, and for each
// call of the RPC services.
func (m *Master) routes(opts ...connect.HandlerOption) []route {
	opts = append([]connect.HandlerOption{connect.WithInterceptors(shortErrors{}), connect.WithReadMaxBytes(m.cfg.Limits.Message), connect.WithCompressMinBytes(compressFrom)}, opts...)
	workersPath, workers := slotwisev1connect.NewWorkerServiceHandler(workerService{m}, opts...)
	clientsPath, clients := slotwisev1connect.NewClientServiceHandler(clientService{m}, opts...)
	mastersPath, masters := slotwisev1connect.NewMastersServiceHandler(mastersService{m}, append(opts, connect.WithReadMaxBytes(m.cfg.exchange))...)
	health := http.HandlerFunc(m.serveHealth)
	return []route{
		// The right is checked before a message takes room.
		{workersPath, m.only(secure.Serve, asWorker(m.withRoom(workers)))},
		{"POST " + frames.Path, m.only(secure.Serve, asWorker(http.HandlerFunc(m.serveCalls)))},
		// From outside in: rights, a place for the work, room for the message. A caller without the right takes
		// neither.
		{clientsPath, m.clients(m.requests.work(m.withRoom(clients)))},
		// Without rooms: the senders are few, and a message that waits for room behind users would cost the lead.
		{mastersPath, m.only(secure.Replicate, masters)},
		{"GET " + copyPath + "{sha}", m.only(secure.Replicate, m.files)}, // and HEAD
		{"PUT " + copyPath + "{sha}", m.only(secure.Replicate, m.files)},
		{"GET /files/{sha}", m.only(secure.FetchFile, http.HandlerFunc(m.serveFiles))}, // and HEAD
		{"PUT /files/{sha}", m.only(secure.ShareFile, http.HandlerFunc(m.serveFiles))},
		{"GET /{$}", m.only(secure.View, http.RedirectHandler(source.Root, http.StatusSeeOther))},
		{"GET " + source.Root, m.only(secure.View, m.toLeader(m.requests.work(m.ui)))},
		{"POST " + source.Root, m.only(secure.View, m.toLeader(m.requests.work(m.ui)))}, // the actor checks the right to act
		// A browser without an identity must get this page and its files.
		{"GET " + source.SignIn, m.ui},
		{"GET " + source.Root + "assets/", m.ui},
		{"GET /metrics", m.only(secure.Scrape, m.serveMetrics())},
		{"GET /leader", http.HandlerFunc(m.serveLeader)},
		{"GET /healthz", health},
		{"GET /readyz", health}, // Open returns after the journal is restored, so a master that serves is ready
	}
}

// toLeader sends browsers to the same page of the leader, if another master leads.
func (m *Master) toLeader(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if leader := m.Leader(); leader != "" {
			// Only the host changes. At the leader's address its RPC server serves the pages, too.
			at := *r.URL
			at.Host, at.Scheme = leader, "http"
			if r.TLS != nil {
				at.Scheme = "https"
			}
			// 307 keeps the method, so a form that was sent to a follower is sent again to the leader.
			http.Redirect(w, r, at.String(), http.StatusTemporaryRedirect)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// serveLeader answers 200 if this master leads, else 503, with the leader's address in --peers as text.
// The text is empty without peers, and on a master that knows no leader. Commands ask it when a master
// is silent, and load balancers can. It needs no credentials and does not use the loop.
func (m *Master) serveLeader(w http.ResponseWriter, _ *http.Request) {
	leader := m.cfg.Self
	// mayLead and not notLeader: a load balancer must not be sent to a leader that was stopped and continues.
	if !m.mayLead() {
		leader = m.Leader()
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = io.WriteString(w, leader+"\n") // fails only if the client has gone
}

// Handler serves the RPC services of workers and users, the files that jobs ship,
// metrics and health checks. It must be wrapped in a secure.Guard, which verifies the
// identity of callers.
func (m *Master) Handler(opts ...connect.HandlerOption) http.Handler {
	mux := http.NewServeMux()
	for _, r := range m.routes(opts...) {
		// Health checks need no credentials, so they would share the part of all clients
		// without any. The calls of workers are bounded by the number of workers.
		if strings.HasSuffix(r.pattern, "z") || r.pattern == "GET /leader" || r.pattern == "/"+slotwisev1connect.WorkerServiceName+"/" || r.pattern == "POST "+frames.Path || r.pattern == "/"+slotwisev1connect.MastersServiceName+"/" {
			mux.Handle(r.pattern, r.handler)
		} else {
			mux.Handle(r.pattern, m.requests.limit(r.handler))
		}
	}
	return mux
}
