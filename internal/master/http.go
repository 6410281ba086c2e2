package master

import (
	"net/http"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
)

// Handler serves all that the master has to say: the services of workers and of
// users, the files that jobs ship, and its health.
func (m *Master) Handler(opts ...connect.HandlerOption) http.Handler {
	mux := http.NewServeMux()
	opts = append([]connect.HandlerOption{connect.WithReadMaxBytes(m.cfg.Limits.Message)}, opts...)
	mux.Handle(slotwisev1connect.NewWorkerServiceHandler(workerService{m}, opts...))
	mux.Handle(slotwisev1connect.NewClientServiceHandler(clientService{m}, opts...))
	for _, method := range []string{http.MethodGet, http.MethodPut} { // GET is HEAD too
		mux.Handle(method+" /files/{sha}", m.files)
	}
	return mux
}
