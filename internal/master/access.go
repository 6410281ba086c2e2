package master

import (
	"context"
	"errors"
	"net/http"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/secure"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// identity tells who asks. A secure.Guard before the handlers has found it out;
// without one nobody asks, and nobody may do anything.
func identity(ctx context.Context) secure.Identity { return secure.From(ctx) }

// may checks that somebody may do something.
func (m *Master) may(who secure.Identity, a secure.Action, s secure.Subject) error {
	return coded(m.cfg.Access.May(who, a, s))
}

// coded gives a refusal the code for the other side.
func coded(err error) error {
	if err == nil {
		return nil
	}
	return connect.NewError(connect.CodePermissionDenied, err)
}

// only passes on the requests of those that may do something, whatever it is
// done to.
func (m *Master) only(a secure.Action, next http.Handler) http.Handler {
	refusals := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := m.may(identity(r.Context()), a, secure.Subject{})
		switch {
		case err == nil:
			next.ServeHTTP(w, r)
		case refusals.IsSupported(r):
			_ = refusals.Write(w, r, err) // the peer may be gone
		default:
			http.Error(w, errors.Unwrap(err).Error(), http.StatusForbidden)
		}
	})
}

// admitUser sets the user of a spec and checks that he may submit it.
func (m *Master) admitUser(who secure.Identity, spec *slotwisev1.JobSpec) error {
	if spec.User == "" {
		spec.User = who.User
	}
	if spec.User == "" {
		return fault(connect.CodeInvalidArgument, "the job does not say whose it is")
	}
	return m.may(who, secure.Submit, secure.Subject{Owner: spec.User, Pool: spec.Pool})
}

// poolOf is the pool that a job is in now. It is called in the loop.
func (m *Master) poolOf(j *jobInfo) string {
	if t := m.tracker.Jobs().Get(j.id); t != nil {
		return t.Pool()
	}
	return j.spec.Pool
}
