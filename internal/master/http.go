package master

import (
	"net/http"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/secure"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
)

// compressFrom is the size in bytes from which answers are compressed. Compressing the
// many short ones would cost more time than it saves.
const compressFrom = 16 << 10

// Handler serves the RPC services of workers and users, the files that jobs ship,
// metrics and health checks. It must be wrapped in a secure.Guard, which verifies the
// identity of callers.
func (m *Master) Handler(opts ...connect.HandlerOption) http.Handler {
	mux := http.NewServeMux()
	opts = append([]connect.HandlerOption{connect.WithReadMaxBytes(m.cfg.Limits.Message), connect.WithCompressMinBytes(compressFrom)}, opts...)
	path, workers := slotwisev1connect.NewWorkerServiceHandler(workerService{m}, opts...)
	mux.Handle(path, m.only(secure.Serve, workers))
	path, clients := slotwisev1connect.NewClientServiceHandler(clientService{m}, opts...)
	mux.Handle(path, m.clients(clients))
	mux.Handle("GET /files/{sha}", m.files) // and HEAD
	mux.Handle("PUT /files/{sha}", m.only(secure.ShareFile, m.files))
	mux.Handle("GET /metrics", m.only(secure.View, m.serveMetrics()))
	mux.HandleFunc("GET /healthz", m.serveHealth)
	mux.HandleFunc("GET /readyz", m.serveHealth) // Open returns after the journal is restored, so a master that serves is ready
	return mux
}
