package kubernetes

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/secure"
)

// reviewer answers TokenReviews: a token is right if its signature is signed("good").
type reviewer struct {
	t        *testing.T
	mu       sync.Mutex
	reviewed int
	status   int    // of all answers, unless 0
	as       string // the user in the answer; "" is the token's user
	audience []string
}

// ServeHTTP implements http.Handler.
func (f *reviewer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reviewed++
	var in tokenReview
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || r.Method != http.MethodPost || r.URL.Path != "/apis/authentication.k8s.io/v1/tokenreviews" ||
		r.Header.Get("Authorization") != "Bearer secret" || in.Kind != "TokenReview" || !slices.Equal(in.Spec.Audiences, []string{secure.PodAudience}) {
		f.t.Errorf("%s %s: %+v, %v", r.Method, r.URL.Path, in, err)
	}
	if f.status != 0 {
		w.WriteHeader(f.status)
		fmt.Fprint(w, `{"kind":"Status","message":"no"}`)
		return
	}
	out := in
	claimed, _ := claims(in.Spec.Token)
	if strings.HasSuffix(in.Spec.Token, "."+signed("good")) {
		out.Status.Authenticated, out.Status.Audiences = true, f.audience
		out.Status.User.Username = claimed.Subject
		out.Status.User.Groups = []string{"system:serviceaccounts", "system:serviceaccounts:team-a", "system:authenticated"}
		if f.as != "" {
			out.Status.User.Username = f.as
		}
	} else {
		out.Status.Error = "the signature is wrong"
	}
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(out)
}

// signed returns the third part of a token: a signature that begins with text.
func signed(text string) string {
	return encoded(text + strings.Repeat(".", 64))
}

// encoded returns text as a part of a token.
func encoded(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// token returns a token with these claims and a signature that begins with text.
func token(claims, text string) string {
	return encoded(`{"alg":"RS256"}`) + "." + encoded(claims) + "." + signed(text)
}

// accounts returns a verifier that asks f and accepts team-a:etl and all of team-b.
func accounts(t *testing.T, f *reviewer) *Accounts {
	t.Helper()
	f.t, f.audience = t, []string{secure.PodAudience}
	srv := httptest.NewTLSServer(f)
	t.Cleanup(srv.Close)
	dir := t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	for name, text := range map[string]string{"namespace": "ns", "token": "secret", "ca.crt": string(ca)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a, err := open(srv.URL, dir)
	if err != nil {
		t.Fatal(err)
	}
	return newAccounts(a, []Account{{"team-a", "etl"}, {"team-b", "*"}}, slog.New(slog.DiscardHandler))
}

const etl = `{"sub":"system:serviceaccount:team-a:etl","aud":["slotwise"]}`

// TestIdentify verifies tokens of several kinds.
func TestIdentify(t *testing.T) {
	for _, x := range []struct {
		name, token string
		user        string // of the identity, or
		fails       string // of the error, or neither: not a service account's token
		reviews     int
	}{
		{"an account", token(etl, "good"), "system:serviceaccount:team-a:etl", "", 1},
		{"an account of a namespace", token(`{"sub":"system:serviceaccount:team-b:x","aud":"slotwise"}`, "good"), "system:serviceaccount:team-b:x", "", 1},
		{"a forged token", token(etl, "bad"), "", "the signature is wrong", 1},
		{"an account that is not listed", token(`{"sub":"system:serviceaccount:team-a:web","aud":"slotwise"}`, "good"), "", "--service-account team-a:web", 0},
		{"a namespace whose name begins like a listed one", token(`{"sub":"system:serviceaccount:team-bb:x","aud":"slotwise"}`, "good"), "", "does not accept", 0},
		{"an account with a colon", token(`{"sub":"system:serviceaccount:team-a:etl:x","aud":"slotwise"}`, "good"), "", "does not accept", 0},
		{"the API's audience", token(`{"sub":"system:serviceaccount:team-a:etl","aud":["https://kubernetes.default.svc"]}`, "good"), "", "not valid for audience slotwise", 0},
		{"a token of slotwise", secure.NewToken(), "", "", 0},
		{"a person's token", token(`{"sub":"ann","aud":"slotwise"}`, "good"), "", "", 0},
		{"no claims", "a.b.c", "", "", 0},
		{"no header", "e." + encoded(etl) + "." + signed("good"), "", "", 0},
		{"no algorithm", encoded(`{}`) + "." + encoded(etl) + "." + signed("good"), "", "", 0},
		{"an unsigned token", encoded(`{"alg":"none"}`) + "." + encoded(etl) + ".", "", "", 0},
		{"a short signature", encoded(`{"alg":"RS256"}`) + "." + encoded(etl) + "." + encoded("good"), "", "", 0},
		{"a signature that is not base64", encoded(`{"alg":"RS256"}`) + "." + encoded(etl) + "." + strings.Repeat("*", 64), "", "", 0},
		{"claims that are not JSON", encoded(`{"alg":"RS256"}`) + "." + encoded("{") + "." + signed("good"), "", "", 0},
		{"an expired token", token(`{"sub":"system:serviceaccount:team-a:etl","aud":"slotwise","exp":1000}`, "good"), "", "has expired", 0},
		{"a token of the future", token(`{"sub":"system:serviceaccount:team-a:etl","aud":"slotwise","nbf":100000000000}`, "good"), "", "not valid yet", 0},
		{"a long token", token(`{"sub":"system:serviceaccount:team-b:`+strings.Repeat("x", maxToken)+`"}`, "good"), "", "", 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			f := &reviewer{}
			id, known, err := accounts(t, f).Identify(t.Context(), x.token)
			if known != (x.user != "" || x.fails != "") || f.reviewed != x.reviews {
				t.Errorf("known: %v, %d reviews", known, f.reviewed)
			}
			if id.User != x.user || x.user != "" && (id.Role != secure.User || !slices.Equal(id.Groups, []string{"system:serviceaccounts", "system:serviceaccounts:team-a"})) {
				t.Errorf("%+v", id)
			}
			if (err != nil) != (x.fails != "") || err != nil && !strings.Contains(err.Error(), x.fails) {
				t.Errorf("%v, want %q", err, x.fails)
			}
		})
	}
}

// TestReviewIsVerified lets Kubernetes answer something else than the token claims.
func TestReviewIsVerified(t *testing.T) {
	for name, change := range map[string]func(*reviewer){
		"another account": func(f *reviewer) { f.as = "system:serviceaccount:team-c:x" },
		"a person":        func(f *reviewer) { f.as = "ann" },
		"no audience":     func(f *reviewer) { f.audience = nil },
	} {
		f := &reviewer{}
		v := accounts(t, f)
		change(f)
		if id, known, err := v.Identify(t.Context(), token(etl, "good")); err == nil || !known || id.User != "" {
			t.Errorf("%s: %v, %v, %v", name, id, known, err)
		}
	}
}

// TestReviewsAreRemembered verifies tokens repeatedly and counts the calls of Kubernetes.
func TestReviewsAreRemembered(t *testing.T) {
	f := &reviewer{}
	v := accounts(t, f)
	now := time.Unix(1000, 0)
	v.now = func() time.Time { return now }
	good, bad := token(etl, "good"), token(etl, "bad")
	short := token(`{"sub":"system:serviceaccount:team-a:etl","aud":["slotwise"],"exp":1005}`, "good")
	ask := func(tok string, accepted bool, reviews int) {
		t.Helper()
		f.reviewed = 0
		if _, _, err := v.Identify(t.Context(), tok); (err == nil) != accepted || f.reviewed != reviews {
			t.Errorf("at %v: %v after %d reviews, want %d", now.Unix(), err, f.reviewed, reviews)
		}
	}
	ask(good, true, 1)
	ask(good, true, 0)
	ask(bad, false, 1)
	ask(bad, false, 0)
	ask(short, true, 1)
	now = now.Add(refusedFor)
	ask(good, true, 0)
	ask(bad, false, 1)
	ask(short, true, 1)
	now = now.Add(acceptedFor)
	ask(good, true, 1)
	flood := func(err error) {
		t.Helper()
		for i := range 3 * mostKnown {
			v.remember([32]byte{byte(i), byte(i >> 8), byte(i >> 16)}, verified{err: err, until: now.Add(time.Hour)})
		}
		if n := len(v.mu.known); n > mostKnown {
			t.Errorf("%d results are kept", n)
		}
	}
	flood(errors.New("refused"))
	ask(good, true, 0)
	flood(nil)
}

// TestReviewIsShared verifies a new token for many requests at once.
func TestReviewIsShared(t *testing.T) {
	f := &reviewer{}
	v := accounts(t, f)
	var all sync.WaitGroup
	for range 10 * mostReviews {
		all.Go(func() {
			if id, known, err := v.Identify(t.Context(), token(etl, "good")); err != nil || !known || id.User == "" {
				t.Errorf("%v, %v, %v", id, known, err)
			}
		})
	}
	all.Wait()
	if f.reviewed > mostReviews {
		t.Errorf("%d reviews", f.reviewed)
	}
}

// TestGarbageTakesNoPlace verifies tokens while all places for reviews are taken. Garbage gets
// its answer at once.
func TestGarbageTakesNoPlace(t *testing.T) {
	v := accounts(t, &reviewer{})
	for range mostReviews {
		v.reviews <- struct{}{}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for i := range 1000 {
		past := fmt.Sprintf(`{"sub":"system:serviceaccount:team-a:etl","aud":"slotwise","exp":%d}`, 1000+i)
		for _, garbage := range []string{encoded(etl) + "." + encoded(etl) + "." + signed("bad"), token(past, "bad"), token(etl, "bad") + "*"} {
			if _, _, err := v.Identify(ctx, garbage); connect.CodeOf(err) == connect.CodeUnavailable {
				t.Fatalf("%q waited: %v", garbage, err)
			}
		}
	}
	// A token that may be good waits, so the places really are taken.
	if _, _, err := v.Identify(ctx, token(etl, "good")); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("a token was verified without a place: %v", err)
	}
}

// TestReviewFails refuses all calls. The client may try again, and no result is remembered.
func TestReviewFails(t *testing.T) {
	f := &reviewer{status: http.StatusForbidden}
	v := accounts(t, f)
	for range 2 {
		if _, known, err := v.Identify(t.Context(), token(etl, "good")); !known || connect.CodeOf(err) != connect.CodeUnavailable {
			t.Errorf("%v, %v", known, err)
		}
	}
	if f.reviewed != 2 {
		t.Errorf("%d reviews", f.reviewed)
	}
}

func TestParseAccount(t *testing.T) {
	for _, s := range []string{"team-a:etl", "team-a:*", "a:b.c"} {
		if _, err := ParseAccount(s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	for _, s := range []string{"", "etl", "*:etl", "*", "a:", ":b", "a:b:c", "A:b", "a.b:c", `a:"`, "a:b\nc", "a:b*", "a:" + strings.Repeat("b", 300)} {
		if a, err := ParseAccount(s); err == nil {
			t.Errorf("%q is %v", s, a)
		}
	}
}
