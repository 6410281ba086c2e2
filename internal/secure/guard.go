package secure

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
)

// Guard finds out who asks, for each request, before anything of its body is
// read. One without tokens and certificates lets everybody in, which Listen
// allows for this machine alone.
type Guard struct {
	// Tokens are the known tokens; nil: there are none.
	Tokens *TokenFile
	// Certificates says that peers are known by their certificates as well: the
	// server verifies those against the cluster's authority.
	Certificates bool
	// Public are paths that need nobody's name, such as that of the health, and
	// those that end in a slash all paths below.
	Public []string
	// Log takes refusals; nil means slog.Default.
	Log *slog.Logger

	refused pace
}

// Knows reports whether the guard asks anybody who he is.
func (g *Guard) Knows() bool { return g.Tokens != nil || g.Certificates }

// errUnknown are the answers to those that are not known.
var (
	errNobody  = errors.New("say who you are: a token or a client certificate is needed")
	errToken   = errors.New("the token is not known")
	errHost    = errors.New("a server without tokens and certificates is asked as localhost or by its address")
	errExpired = errors.New("the client certificate has run out")
)

// Wrap returns a handler that passes on requests whose sender is known, with
// his Identity in the context, and answers 401 to others.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	refusals := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.public(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		id, err := g.identify(r)
		if err == nil {
			next.ServeHTTP(w, r.WithContext(With(r.Context(), id)))
			return
		}
		if n, ok := g.refused.pass(time.Now()); ok {
			g.log().Warn("request refused", "path", r.URL.Path, "peer", r.RemoteAddr, "why", err, "unlogged", n)
		}
		w.Header().Set("WWW-Authenticate", "Bearer")
		if refusals.IsSupported(r) {
			_ = refusals.Write(w, r, connect.NewError(connect.CodeUnauthenticated, err)) // the peer may be gone
			return
		}
		http.Error(w, err.Error(), http.StatusUnauthorized)
	})
}

func (g *Guard) public(path string) bool {
	for _, p := range g.Public {
		if path == p || strings.HasSuffix(p, "/") && strings.HasPrefix(path, p) {
			return true
		}
	}
	return false
}

// identify tells who sent a request. A token says more than a certificate: a
// program on a worker's machine may act for a user.
func (g *Guard) identify(r *http.Request) (Identity, error) {
	if !g.Knows() {
		// A page in a browser of this machine may have a name of its own lead
		// here, but cannot say that it is called localhost.
		if !local(hostOf(r.Host)) {
			return Identity{}, errHost
		}
		return Identity{Role: Admin, Open: true}, nil
	}
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return g.byToken(strings.TrimSpace(token))
	}
	if !g.Certificates || r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return Identity{}, errNobody
	}
	// The connection may be older than the certificate's end.
	cert := r.TLS.VerifiedChains[0][0]
	if time.Now().After(cert.NotAfter) {
		return Identity{}, errExpired
	}
	return certIdentity(cert)
}

// hostOf is a Host header without its port.
func hostOf(header string) string {
	if host, _, err := net.SplitHostPort(header); err == nil {
		return host
	}
	return strings.Trim(header, "[]")
}

func (g *Guard) byToken(token string) (Identity, error) {
	if g.Tokens == nil {
		return Identity{}, errToken
	}
	id, ok, err := g.Tokens.Find(token)
	if err != nil {
		if n, pass := g.refused.pass(time.Now()); pass {
			g.log().Error("the tokens file has become unreadable: what was read before holds", "err", err, "unlogged", n)
		}
	}
	if !ok {
		return Identity{}, errToken
	}
	return id, nil
}

func (g *Guard) log() *slog.Logger {
	if g.Log == nil {
		return slog.Default()
	}
	return g.Log
}
