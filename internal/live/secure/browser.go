package secure

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/slotwise/slotwise/internal/console/source"
)

// Browser lets people sign in to the pages below Path with their token. A sign-in makes a
// session, which the browser names by a cookie:
//
//	GET  /ui/…      without credentials ─► 303 to SignIn
//	POST SignIn     token=…             ─► 303 back, Set-Cookie: a random name
//	GET  /ui/…      Cookie              ─► the identity of the token
//	POST SignOut                        ─► 303 to SignIn; the session ends
//
// The server keeps a hash of the cookie and of the token. It looks the token up at every
// request, so revoking the token ends its sessions. A cookie opens only paths below Path:
// the browser sends it nowhere else, and the guard accepts it nowhere else.
type Browser struct {
	Path, SignIn, SignOut string

	origin *http.CrossOriginProtection
	mu     struct {
		sync.Mutex
		sessions map[[sha256.Size]byte]*browserSession // by the hash of the cookie
	}
}

// browserSession is one sign-in.
type browserSession struct {
	user       string
	token      [sha256.Size]byte // hash
	began, was time.Time         // when it began and when it was last used
}

// Limits of sessions.
const (
	sessionIdle = time.Hour
	sessionTime = 12 * time.Hour
	maxSessions = 10_000
	// userSessions is the number of sessions of one user, whatever tokens he has. A further
	// one ends his session that was used least recently, so no user can keep others out.
	userSessions = 20
)

// NewBrowser returns the sessions of the pages below path. It has its own paths for
// signing in and out.
func NewBrowser(path string) *Browser {
	b := &Browser{Path: path, SignIn: path + "login", SignOut: path + "logout", origin: http.NewCrossOriginProtection()}
	b.mu.sessions = map[[sha256.Size]byte]*browserSession{}
	return b
}

// cookieName returns the name of the cookie. With the prefix a browser takes it over TLS
// only.
func cookieName(r *http.Request) string {
	if r.TLS != nil {
		return "__Secure-slotwise"
	}
	return "slotwise" // plain HTTP is served on loopback only
}

// HasSession reports whether a request brings the cookie of a session.
func HasSession(r *http.Request) bool {
	_, err := r.Cookie(cookieName(r))
	return err == nil
}

// covers reports whether a request may be authenticated by a cookie.
func (b *Browser) covers(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, b.Path) }

// serve answers the requests that sign in and out. It returns false for all others.
func (b *Browser) serve(g *Guard, w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodPost || r.URL.Path != b.SignIn && r.URL.Path != b.SignOut {
		return false
	}
	// A page of another site could otherwise sign a user in with its own token, and he would
	// act under a foreign name without noticing.
	if err := b.origin.Check(r); err != nil {
		http.Error(w, "the request comes from a page of another site", http.StatusForbidden)
		return true
	}
	// The answer sets a cookie. A cache between the browser and the server must not hand it to
	// another browser.
	w.Header().Set("Cache-Control", "no-store")
	if r.URL.Path == b.SignOut {
		b.end(r)
		b.setCookie(w, r, "", -1)
		http.Redirect(w, r, b.SignIn+"?done=signout", http.StatusSeeOther)
		return true
	}
	// Before the form is parsed: the sender is not authenticated yet.
	r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
	next := r.URL.Query().Get("next")
	name, err := b.begin(g, strings.TrimSpace(r.PostFormValue("token")))
	if err != nil {
		g.refused(r, err)
		http.Redirect(w, r, b.SignIn+"?"+url.Values{"done": {"failed"}, "next": {next}}.Encode(), http.StatusSeeOther)
		return true
	}
	b.setCookie(w, r, name, int(sessionTime/time.Second))
	// next comes from the address, which anyone can write into a link.
	http.Redirect(w, r, source.Below(next, b.Path), http.StatusSeeOther)
	return true
}

// setCookie sets the cookie for some seconds.
func (b *Browser) setCookie(w http.ResponseWriter, r *http.Request, value string, seconds int) {
	http.SetCookie(w, &http.Cookie{
		Name: cookieName(r), Value: value, Path: b.Path, MaxAge: seconds, HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	})
}

// begin starts a session and returns the value of its cookie.
func (b *Browser) begin(g *Guard, token string) (string, error) {
	id, err := g.byToken(token)
	if err != nil {
		return "", err
	}
	name, now := rand.Text(), time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	// The user's own oldest session goes, so that one user cannot fill the table and keep
	// others out.
	b.makeRoomLocked(id.Account())
	// A walk through all sessions, so it is made only when the table is full.
	if len(b.mu.sessions) >= maxSessions {
		b.expireLocked(now)
	}
	if len(b.mu.sessions) >= maxSessions {
		return "", errors.New("too many people have signed in")
	}
	b.mu.sessions[sha256.Sum256([]byte(name))] = &browserSession{user: id.Account(), token: hashToken(token), began: now, was: now}
	return name, nil
}

// makeRoomLocked ends the session of a user that was used least recently, if he has as many
// sessions as he may.
func (b *Browser) makeRoomLocked(user string) {
	var oldest [sha256.Size]byte
	count := 0
	for name, s := range b.mu.sessions {
		if s.user != user {
			continue
		}
		// The first session counts whatever its time, because oldest names none yet.
		if count++; count == 1 || s.was.Before(b.mu.sessions[oldest].was) {
			oldest = name
		}
	}
	if count >= userSessions {
		delete(b.mu.sessions, oldest)
	}
}

// expireLocked removes the sessions that are over.
func (b *Browser) expireLocked(now time.Time) {
	for hash, s := range b.mu.sessions {
		if s.over(now) {
			delete(b.mu.sessions, hash)
		}
	}
}

func (s *browserSession) over(now time.Time) bool {
	return now.Sub(s.was) > sessionIdle || now.Sub(s.began) > sessionTime
}

// end ends the session of a request.
func (b *Browser) end(r *http.Request) {
	if c, err := r.Cookie(cookieName(r)); err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.mu.sessions, sha256.Sum256([]byte(c.Value)))
	}
}

// token returns the hash of the token of a request's session.
func (b *Browser) token(r *http.Request) (hash [sha256.Size]byte, ok bool) {
	c, err := r.Cookie(cookieName(r))
	if err != nil {
		return hash, false
	}
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	name := sha256.Sum256([]byte(c.Value))
	s := b.mu.sessions[name]
	switch {
	case s == nil:
		return hash, false
	// The browser would send the cookie again at each request.
	case s.over(now):
		delete(b.mu.sessions, name)
		return hash, false
	}
	s.was = now
	return s.token, true
}
