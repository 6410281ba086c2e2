package master

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/live/master/protocol"
)

// fault returns an error with a code for the caller.
func fault(code connect.Code, format string, args ...any) error {
	return connect.NewError(code, fmt.Errorf(format, args...))
}

// codes maps the core's error codes to the RPC system's.
// The core imports no RPC system, so the fault runs need none either. A code that is missing here would
// become 0, which the RPC system treats as unknown.
var codes = map[protocol.Code]connect.Code{
	protocol.InvalidArgument:    connect.CodeInvalidArgument,
	protocol.NotFound:           connect.CodeNotFound,
	protocol.FailedPrecondition: connect.CodeFailedPrecondition,
	protocol.ResourceExhausted:  connect.CodeResourceExhausted,
	protocol.Aborted:            connect.CodeAborted,
	protocol.Unauthenticated:    connect.CodeUnauthenticated,
}

// rpcError gives an error the code from which a client decides whether to retry.
func rpcError(err error) error {
	var coded *connect.Error
	var core *protocol.Error
	switch {
	case err == nil:
		return nil
	// First, because an error with a code may contain one of the others.
	case errors.As(err, &coded):
		return err
	case errors.As(err, &core):
		return connect.NewError(codes[core.Code], err)
	// Clients retry after Unavailable, at another master if there is one.
	// The storage counts as well: the user's job was not accepted, and only the storage was away, or the lease for
	// a moment.
	case errors.Is(err, errClosed), errors.Is(err, errNoLease), errors.Is(err, storage.ErrUnavailable):
		return connect.NewError(connect.CodeUnavailable, err)
	// A client that reads this code from the wire tries again, because it has not cancelled anything itself.
	case errors.Is(err, context.Canceled):
		return connect.NewError(connect.CodeCanceled, err)
	case errors.Is(err, context.DeadlineExceeded):
		return connect.NewError(connect.CodeDeadlineExceeded, err)
	case errors.Is(err, fs.ErrExist):
		return connect.NewError(connect.CodeAlreadyExists, err)
	case errors.Is(err, fs.ErrPermission):
		return connect.NewError(connect.CodePermissionDenied, err)
	}
	return connect.NewError(connect.CodeInternal, err)
}

// shortErrors cuts the messages of errors, which may quote what a request contains.
type shortErrors struct{}

var _ connect.Interceptor = shortErrors{}

// WrapUnary implements connect.Interceptor.
func (shortErrors) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
		resp, err := next(ctx, r)
		return resp, shortError(err)
	}
}

// WrapStreamingClient implements connect.Interceptor.
func (shortErrors) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor.
func (shortErrors) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, c connect.StreamingHandlerConn) error { return shortError(next(ctx, c)) }
}

// shortError cuts the message of an error and keeps its code.
func shortError(err error) error {
	var coded *connect.Error
	// The details of an error are dropped with its text. NotLeader has a short text, so it keeps its detail.
	if !errors.As(err, &coded) || len(coded.Message()) <= bounds.Text {
		return err
	}
	return connect.NewError(coded.Code(), errors.New(bounds.Cut(coded.Message(), bounds.Text)))
}
