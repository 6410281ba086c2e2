package secure

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSessionsOfOneUser signs in again and again as one user, with two tokens by turns. The
// sessions of others stay, and so do the user's own latest ones.
func TestSessionsOfOneUser(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	var tokens []string
	for _, user := range []string{"ann", "bob", "bob"} {
		token, err := AddToken(file, Identity{User: user, Role: User})
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, token)
	}
	known, err := OpenTokens(file, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	g, b := &Guard{Tokens: known}, NewBrowser("/ui/")
	first, err := b.begin(g, tokens[0])
	if err != nil {
		t.Fatal(err)
	}
	last := ""
	for i := range 3 * userSessions {
		if last, err = b.begin(g, tokens[1+i%2]); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(b.mu.sessions); n != userSessions+1 {
		t.Errorf("%d sessions", n)
	}
	for _, name := range []string{first, last} {
		r := httptest.NewRequest(http.MethodGet, "/ui/", nil)
		r.AddCookie(&http.Cookie{Name: cookieName(r), Value: name})
		if _, ok := b.token(r); !ok {
			t.Errorf("a session is gone")
		}
	}
}

// TestBrowserSessions signs in and checks where the cookie is accepted, and when no longer.
func TestBrowserSessions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	token, err := AddToken(file, Identity{User: "ann", Role: User})
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := OpenTokens(file, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	g := &Guard{Tokens: tokens, Browser: NewBrowser("/ui/"), Public: []string{"/ui/login"}}
	h := g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Header().Set("User", From(r.Context()).User) }))
	send := func(method, path, form string, cookie *http.Cookie, header ...string) *http.Response {
		r := httptest.NewRequest(method, path, strings.NewReader(form))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if cookie != nil {
			r.AddCookie(cookie)
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Result()
	}
	form := url.Values{"token": {token}}.Encode()
	if r := send(http.MethodPost, "/ui/login", form, nil, "Sec-Fetch-Site", "cross-site"); r.StatusCode != http.StatusForbidden || len(r.Cookies()) > 0 {
		t.Errorf("signing in from another site: %s", r.Status)
	}
	if r := send(http.MethodPost, "/ui/login", "token=slw_WRONG", nil); len(r.Cookies()) > 0 {
		t.Error("a wrong token gets a cookie")
	}
	in := send(http.MethodPost, "/ui/login?next=/ui/jobs", form, nil)
	if len(in.Cookies()) != 1 || in.Header.Get("Location") != "/ui/jobs" {
		t.Fatalf("signing in: %s %v", in.Status, in.Header)
	}
	c := in.Cookies()[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/ui/" || strings.Contains(c.Value, token) {
		t.Errorf("%+v", c)
	}
	for path, want := range map[string]int{"/ui/jobs": 200, "/metrics": 401, "/slotwise.v1.ClientService/Jobs": 401, "/": 401} {
		if r := send(http.MethodGet, path, "", c); r.StatusCode != want || (r.Header.Get("User") == "ann") != (want == 200) {
			t.Errorf("%s with the cookie: %s", path, r.Status)
		}
	}
	age := func(idle, total time.Duration) {
		g.Browser.mu.Lock()
		defer g.Browser.mu.Unlock()
		for _, s := range g.Browser.mu.sessions {
			s.was, s.began = time.Now().Add(-idle), time.Now().Add(-total)
		}
	}
	for _, tt := range []struct {
		idle, total time.Duration
		status      int
	}{{sessionIdle - time.Minute, sessionTime - time.Minute, 200}, {sessionIdle + time.Minute, sessionIdle + time.Minute, 303}, {0, sessionTime + time.Minute, 303}} {
		c = send(http.MethodPost, "/ui/login", form, nil).Cookies()[0]
		age(tt.idle, tt.total)
		if r := send(http.MethodGet, "/ui/", "", c); r.StatusCode != tt.status {
			t.Errorf("after %v without a request, %v in all: %s", tt.idle, tt.total, r.Status)
		}
	}
	c = send(http.MethodPost, "/ui/login", form, nil).Cookies()[0]
	send(http.MethodPost, "/ui/logout", "", c)
	if r := send(http.MethodGet, "/ui/", "", c); r.StatusCode != http.StatusSeeOther {
		t.Errorf("after signing out: %s", r.Status)
	}
}
