package secure

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/base/bounds"
)

// Guard authenticates each request before its body is read. A Guard without tokens
// and certificates accepts every client; Listen allows that on loopback only.
type Guard struct {
	// Tokens are the accepted tokens; nil means none.
	Tokens *TokenFile
	// Certificates accepts client certificates. The server's TLS configuration must
	// verify them against the cluster's authority.
	Certificates bool
	// Session is set by a worker. The guard then accepts requests that the master has
	// signed. Without tokens and certificates it accepts other requests only if the
	// master has no authentication.
	Session *SessionKey
	// Public lists paths that need no authentication, such as /healthz. An entry
	// that ends in a slash includes all paths below it.
	Public []string
	// Driver identifies the driver of a chain by its token; nil if the server has no
	// drivers. It returns false for a token of another kind. A request with a driver's
	// token has the driver's rights even if the guard accepts every client.
	Driver func(ctx context.Context, token string) (Identity, bool, error)
	// Account identifies a service account of Kubernetes by its token; nil if the server
	// accepts none. It returns false for a token of another kind. peer is the address of the
	// sender, without the port.
	Account func(ctx context.Context, peer, token string) (Identity, bool, error)
	// Browser lets people sign in to pages; nil if the server has none.
	Browser *Browser
	// Log receives refused requests; nil means slog.Default.
	Log *slog.Logger

	refusals bounds.LogLimit
}

// Authenticates reports whether the guard requires a token or a certificate.
func (g *Guard) Authenticates() bool { return g.Tokens != nil || g.Certificates }

// The reasons for which a request is not authenticated.
var (
	errNoCredentials = errors.New("authentication required: send a token (--token-file) or a client certificate (--tls-cert, --tls-key)")
	errToken         = errors.New("the server does not know this token")
	errHost          = errors.New("this server runs without authentication, so it only accepts requests addressed to localhost or to an IP address, not to a host name")
	errExpired       = errors.New("the client certificate has expired")
)

// Wrap returns a handler that passes authenticated requests to next, with the
// client's Identity in the context, and answers 401 to others.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	writer := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Signing in needs no identity: it makes one.
		if g.Browser != nil && g.Browser.serve(g, w, r) {
			return
		}
		if g.public(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		id, err := g.identify(r, w.Header())
		if err == nil {
			ctx := With(r.Context(), id)
			if r.Header.Get("Upgrade") != "" { // the connection outlives the request
				ctx = g.withIdentify(ctx, r, id)
			}
			next.ServeHTTP(w, r.WithContext(ctx))
			return
		}
		// Only a person in a browser who sends no credentials is shown the page for signing in. A
		// program with a wrong token gets an error that it can read, and a POST would be repeated
		// as a GET.
		if g.Browser != nil && g.Browser.covers(r) && r.Method == http.MethodGet && errors.Is(err, errNoCredentials) {
			http.Redirect(w, r, g.Browser.SignIn+"?"+url.Values{"next": {r.URL.RequestURI()}}.Encode(), http.StatusSeeOther)
			return
		}
		g.refused(r, err)
		w.Header().Set("WWW-Authenticate", "Bearer")
		// Clients of the RPC system decode errors from its own format; a plain text would reach
		// the user as an unknown error.
		if writer.IsSupported(r) {
			var coded *connect.Error // from Driver, if it cannot tell now
			if !errors.As(err, &coded) {
				coded = connect.NewError(connect.CodeUnauthenticated, err)
			}
			_ = writer.Write(w, r, coded) // the client may have disconnected
			return
		}
		http.Error(w, err.Error(), http.StatusUnauthorized)
	})
}

// refused logs a refused request, at a limited rate.
func (g *Guard) refused(r *http.Request, why error) {
	if n, ok := g.refusals.Allow(time.Now()); ok {
		g.log().Warn("request refused", "path", r.URL.Path, "peer", r.RemoteAddr, "why", why, "unlogged", n)
	}
}

// public reports whether a path needs no authentication.
func (g *Guard) public(path string) bool {
	for _, p := range g.Public {
		if path == p || strings.HasSuffix(p, "/") && strings.HasPrefix(path, p) {
			return true
		}
	}
	return false
}

// identify returns the identity of a request's sender. A token takes precedence over
// a certificate: a program on a worker's machine may act for a user. If the request is
// signed, identify adds a signature to the header of the response.
func (g *Guard) identify(r *http.Request, response http.Header) (Identity, error) {
	// Before the tokens: a worker knows no tokens of users, and the master signs instead.
	if g.Session != nil && r.Header.Get(signatureHeader) != "" {
		return g.Session.verify(r, response)
	}
	token, hasToken := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	token = strings.TrimSpace(token)
	// Also on a server that accepts every client: a driver runs code of the user, and its
	// token limits it to its chain.
	if hasToken && g.Driver != nil {
		if id, known, err := g.Driver(r.Context(), token); known || err != nil {
			return id, err
		}
	}
	if !g.Authenticates() {
		if g.Session != nil {
			switch key, registered := g.Session.get(); {
			// Before the first registration the worker does not know whether its master authenticates,
			// so it trusts no one yet.
			case !registered:
				return Identity{}, errNotRegistered
			case len(key) > 0:
				return Identity{}, errNoCredentials
			}
		}
		// DNS rebinding: a web page in a browser on this machine can make its own
		// host name resolve to 127.0.0.1. Its requests still carry that name.
		if !local(hostOf(r.Host)) {
			return Identity{}, errHost
		}
		return Identity{Role: Admin, Open: true}, nil
	}
	if hasToken {
		// Before the file of tokens: it recognises its kind by the form of the token and leaves
		// others alone.
		if g.Account != nil {
			if id, known, err := g.Account(r.Context(), hostOf(r.RemoteAddr), token); known || err != nil {
				return id, err
			}
		}
		return g.byToken(token)
	}
	if g.Browser != nil && g.Browser.covers(r) {
		if hash, ok := g.Browser.token(r); ok {
			if id, err := g.byHash(hash); err == nil { // else the token was revoked: sign in again
				return id, nil
			}
		}
	}
	if !g.Certificates || r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return Identity{}, errNoCredentials
	}
	// The handshake verified the certificate, but it may have expired since.
	cert := r.TLS.VerifiedChains[0][0]
	if time.Now().After(cert.NotAfter) {
		return Identity{}, errExpired
	}
	return certIdentity(cert)
}

// hostOf returns a Host header without its port.
func hostOf(header string) string {
	if host, _, err := net.SplitHostPort(header); err == nil {
		return host
	}
	return strings.Trim(header, "[]")
}

// byToken returns the identity of a token's owner.
func (g *Guard) byToken(token string) (Identity, error) { return g.byHash(hashToken(token)) }

// byHash returns the identity of the owner of the token with a hash.
func (g *Guard) byHash(hash [sha256.Size]byte) (Identity, error) {
	if g.Tokens == nil {
		return Identity{}, errToken
	}
	id, ok := g.Tokens.find(hash)
	if !ok {
		return Identity{}, errToken
	}
	return id, nil
}

// log returns the logger to use.
func (g *Guard) log() *slog.Logger {
	if g.Log == nil {
		return slog.Default()
	}
	return g.Log
}
