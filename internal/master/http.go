package master

import (
	"net/http"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/secure"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
)

// compressFrom is the least length of an answer that is compressed: most are
// short, and would cost more than they save.
const compressFrom = 16 << 10

// Handler serves all that the master has to say: the services of workers and of
// users, the files that jobs ship, and its health. It is to stand behind a
// secure.Guard, which says who asks.
func (m *Master) Handler(opts ...connect.HandlerOption) http.Handler {
	mux := http.NewServeMux()
	opts = append([]connect.HandlerOption{connect.WithReadMaxBytes(m.cfg.Limits.Message), connect.WithCompressMinBytes(compressFrom)}, opts...)
	path, workers := slotwisev1connect.NewWorkerServiceHandler(workerService{m}, opts...)
	mux.Handle(path, m.only(secure.Serve, workers))
	path, clients := slotwisev1connect.NewClientServiceHandler(clientService{m}, opts...)
	mux.Handle(path, m.only(secure.View, clients))
	mux.Handle("GET /files/{sha}", m.files) // and HEAD
	mux.Handle("PUT /files/{sha}", m.only(secure.ShareFile, m.files))
	mux.Handle("GET /metrics", m.only(secure.View, m.serveMetrics()))
	mux.HandleFunc("GET /healthz", m.serveHealth)
	mux.HandleFunc("GET /readyz", m.serveHealth) // a master that serves is ready: it restores before
	return mux
}
