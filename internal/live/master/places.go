package master

import (
	"context"
	"errors"
	"net/http"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/console/source"
	"github.com/slotwise/slotwise/internal/live/secure"
)

// Requests of users are bounded twice. Requests under way hold goroutines, buffers and
// connections. Requests with a place use the processor as well: they decode, walk through
// jobs, encode and compress. Without the second bound, a user with a thousand requests would
// get a thousand times the processor time of a user with one, because the runtime divides
// it among goroutines.
//
// A request that waits, for the loop or for a change, is not worked on.

// requestLimits are the bounds on users' requests.
type requestLimits struct {
	underWay, worked *bounds.Gate
	reads            *bounds.Gate // of the history
	scrapes          *bounds.Gate // of metrics
}

func newRequestLimits() *requestLimits {
	return &requestLimits{bounds.NewGate(bounds.Requests), bounds.NewGate(bounds.Worked), bounds.NewGate(bounds.Reads), bounds.NewGate(bounds.Scrapes)}
}

// place is the place of one request that is worked on. Only the request's goroutine uses it.
// The methods of nil do nothing.
type place struct {
	worked *bounds.Gate
	user   string
	held   bool
}

type placeKey struct{}

// placeOf returns the place of the request with a context, nil if it has none.
func placeOf(ctx context.Context) *place {
	p, _ := ctx.Value(placeKey{}).(*place)
	return p
}

// leave gives the place back while the request waits.
func (p *place) leave() {
	if p != nil && p.held {
		p.worked.Give(p.user, 1)
		p.held = false
	}
}

// enter takes the place again. If ctx ends first, the request continues without one: it only
// has to return.
func (p *place) enter(ctx context.Context) {
	// query and call enter again on their way back, also after an error, so that encoding the answer is bounded.
	if p != nil && !p.held {
		p.held = p.worked.Take(ctx, p.user, 1) == nil
	}
}

// limit bounds the requests of users. Workers' requests are bounded by the number of workers.
func (s *requestLimits) limit(next http.Handler) http.Handler {
	refusals := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := identity(r.Context())
		if who.Role == secure.Worker {
			next.ServeHTTP(w, r)
			return
		}
		user := who.Account()
		if !s.underWay.Try(user, 1) {
			err := fault(connect.CodeUnavailable, "%d of your requests are under way, and no more may be now: wait for answers", s.underWay.Held(user))
			// A call gets the error in its protocol, and a browser gets text.
			if refusals.IsSupported(r) {
				_ = refusals.Write(w, r, err) // the client may be gone
			} else {
				http.Error(w, errors.Unwrap(err).Error(), http.StatusServiceUnavailable)
			}
			return
		}
		defer s.underWay.Give(user, 1)
		next.ServeHTTP(w, r)
	})
}

// work gives each request of a user a place while it is worked on. What waits inside, such
// as the receipt of a message, leaves the place meanwhile.
func (s *requestLimits) work(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := identity(r.Context())
		if who.Role == secure.Worker || r.URL.Path == source.Events { // which waits nearly always
			next.ServeHTTP(w, r)
			return
		}
		p := &place{worked: s.worked, user: who.Account()}
		ctx := context.WithValue(r.Context(), placeKey{}, p)
		p.enter(ctx)
		defer p.leave()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}
