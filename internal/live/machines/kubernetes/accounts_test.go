package kubernetes

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
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
	"github.com/go-jose/go-jose/v4"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/live/secure"
)

// reviewer answers TokenReviews, and publishes keys. A token is right if signingKey or
// secondKey has signed it, its issuer is right or missing, and its claims do not say "gone".
type reviewer struct {
	t         *testing.T
	mu        sync.Mutex
	reviewed  int
	fetched   int
	status    int           // of all reviews, unless 0
	keyStatus int           // of the answers about keys, unless 0
	wait      time.Duration // before each review is answered
	published string        // the published keys
	as        string        // the user in the answer; "" is the token's user
	audience  []string
}

// ServeHTTP implements http.Handler.
func (f *reviewer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer secret" {
		f.t.Errorf("%s %s without the pod's credentials", r.Method, r.URL.Path)
	}
	if r.URL.Path == keysPath {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.fetched++
		if f.keyStatus != 0 {
			w.WriteHeader(f.keyStatus)
			return
		}
		fmt.Fprint(w, f.published)
		return
	}
	time.Sleep(f.wait)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reviewed++
	var in tokenReview
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || r.Method != http.MethodPost || r.URL.Path != "/apis/authentication.k8s.io/v1/tokenreviews" ||
		in.Kind != "TokenReview" || !slices.Equal(in.Spec.Audiences, []string{secure.PodAudience}) {
		f.t.Errorf("%s %s: %+v, %v", r.Method, r.URL.Path, in, err)
	}
	if f.status != 0 {
		w.WriteHeader(f.status)
		fmt.Fprint(w, `{"kind":"Status","message":"no"}`)
		return
	}
	out := in
	claimed, _ := claims(in.Spec.Token)
	switch why := judge(in.Spec.Token); why {
	case "":
		out.Status.Authenticated, out.Status.Audiences = true, f.audience
		out.Status.User.Username = claimed.Subject
		out.Status.User.Groups = []string{"system:serviceaccounts", "system:serviceaccounts:team-a", "system:authenticated"}
		if f.as != "" {
			out.Status.User.Username = f.as
		}
	default:
		out.Status.Error = why
	}
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(out)
}

// judge returns why Kubernetes refuses a token, or "".
func judge(token string) string {
	jws, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil {
		return err.Error()
	}
	for _, key := range []any{&signingKey.PublicKey, &secondKey.PublicKey} {
		text, err := jws.Verify(key)
		var c struct{ Iss, Jti string }
		switch {
		case err != nil || json.Unmarshal(text, &c) != nil:
		case c.Iss != "" && c.Iss != "https://kubernetes.default.svc":
			return "the issuer is wrong"
		case c.Jti == "gone":
			return "the pod is gone"
		default:
			return ""
		}
	}
	return "the signature is wrong"
}

// The keys of the tests. Kubernetes publishes signingKey as k1 and secondKey as k2;
// foreignKey is another cluster's.
var (
	signingKey = newRSA()
	foreignKey = newRSA()
	secondKey  = func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			panic(err)
		}
		return k
	}()
)

func newRSA() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, leastRSA)
	if err != nil {
		panic(err)
	}
	return k
}

// publish returns a document with public keys by their ids.
func publish(keys map[string]any) string {
	var set jose.JSONWebKeySet
	for id, key := range keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: key, KeyID: id, Use: "sig"})
	}
	b, err := json.Marshal(set)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// encoded returns text as a part of a token.
func encoded(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// signed returns a third part of a token that begins with text: a wrong signature of the
// right length.
func signed(text string) string { return encoded(text + strings.Repeat(".", leastRSA/8-len(text))) }

// sign returns a token with a header and claims, signed by RS256.
func sign(key *rsa.PrivateKey, header, claims string) string {
	text := encoded(header) + "." + encoded(claims)
	hash := sha256.Sum256([]byte(text))
	b, err := rsa.SignPKCS1v15(nil, key, crypto.SHA256, hash[:])
	if err != nil {
		panic(err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(b)
}

const (
	k1 = `{"alg":"RS256","kid":"k1"}`
	// peer is the address of the clients of most tests.
	peer = "10.0.0.1"
)

// token returns a token of Kubernetes with these claims if text is "good", and else one with
// a wrong signature that begins with text.
func token(claims, text string) string {
	if text == "good" {
		return sign(signingKey, k1, claims)
	}
	return encoded(k1) + "." + encoded(claims) + "." + signed(text)
}

// accounts returns a verifier that asks f and accepts team-a:etl and all of team-b.
func accounts(t *testing.T, f *reviewer) *Accounts {
	t.Helper()
	f.t, f.audience = t, []string{secure.PodAudience}
	if f.published == "" {
		f.published = publish(map[string]any{"k1": &signingKey.PublicKey, "k2": &secondKey.PublicKey})
	}
	srv := httptest.NewUnstartedServer(f)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that end a flood break their handshakes
	srv.StartTLS()
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

// ecToken returns a token of Kubernetes with a signature by ES256.
func ecToken(claims string) string {
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: secondKey, KeyID: "k2"}}, nil)
	if err != nil {
		panic(err)
	}
	jws, err := s.Sign([]byte(claims))
	if err != nil {
		panic(err)
	}
	text, err := jws.CompactSerialize()
	if err != nil {
		panic(err)
	}
	return text
}

// hmacToken returns a token whose secret is the published key: a verifier that lets the token
// choose the algorithm accepts it.
func hmacToken(claims string) string {
	text := encoded(`{"alg":"HS256","kid":"k1"}`) + "." + encoded(claims)
	h := hmac.New(sha256.New, signingKey.N.Bytes())
	h.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(h.Sum(nil))
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
		{"an account, ECDSA", ecToken(etl), "system:serviceaccount:team-a:etl", "", 1},
		{"a forged token", token(etl, "bad"), "", "a wrong signature", 0},
		{"a forged token, ECDSA", encoded(`{"alg":"ES256","kid":"k2"}`) + "." + encoded(etl) + "." + encoded(strings.Repeat("x", 64)), "", "a wrong signature", 0},
		{"other claims under a signature", strings.Replace(token(`{"sub":"system:serviceaccount:team-a:web","aud":["slotwise"]}`, "good"), encoded(`{"sub":"system:serviceaccount:team-a:web","aud":["slotwise"]}`), encoded(etl), 1), "", "a wrong signature", 0},
		{"another cluster's key under our id", sign(foreignKey, k1, etl), "", "a wrong signature", 0},
		{"another cluster's key", sign(foreignKey, `{"alg":"RS256","kid":"k9"}`, etl), "", "does not publish", 0},
		{"no key id", sign(signingKey, `{"alg":"RS256"}`, etl), "", "does not publish", 0},
		{"another algorithm than the key's", sign(signingKey, `{"alg":"ES256","kid":"k1"}`, etl), "", "a wrong signature", 0},
		{"an algorithm with a secret", hmacToken(etl), "", "not signed as Kubernetes signs", 0},
		{"an algorithm that Kubernetes does not use", sign(signingKey, `{"alg":"PS256","kid":"k1"}`, etl), "", "not signed as Kubernetes signs", 0},
		{"a key in the token", sign(foreignKey, `{"alg":"RS256","kid":"k9","jwk":`+strings.TrimSuffix(strings.TrimPrefix(publish(map[string]any{"k9": &foreignKey.PublicKey}), `{"keys":[`), `]}`)+`}`, etl), "", "does not publish", 0},
		{"an extension that must be understood", sign(signingKey, `{"alg":"RS256","kid":"k1","crit":["x"],"x":1}`, etl), "", "a wrong signature", 0},
		{"another issuer", token(`{"iss":"https://evil","sub":"system:serviceaccount:team-a:etl","aud":["slotwise"]}`, "good"), "", "the issuer is wrong", 1},
		{"a token of a pod that is gone", token(`{"jti":"gone","sub":"system:serviceaccount:team-a:etl","aud":["slotwise"]}`, "good"), "", "the pod is gone", 1},
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
			id, known, err := accounts(t, f).Identify(t.Context(), peer, x.token)
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
		if id, known, err := v.Identify(t.Context(), peer, token(etl, "good")); err == nil || !known || id.User != "" {
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
	good, bad := token(etl, "good"), token(`{"jti":"gone","sub":"system:serviceaccount:team-a:etl","aud":["slotwise"]}`, "good")
	short := token(`{"sub":"system:serviceaccount:team-a:etl","aud":["slotwise"],"exp":1005}`, "good")
	ask := func(tok string, accepted bool, reviews int) {
		t.Helper()
		f.reviewed = 0
		if _, _, err := v.Identify(t.Context(), peer, tok); (err == nil) != accepted || f.reviewed != reviews {
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
			if id, known, err := v.Identify(t.Context(), peer, token(etl, "good")); err != nil || !known || id.User == "" {
				t.Errorf("%v, %v, %v", id, known, err)
			}
		})
	}
	all.Wait()
	if f.reviewed > mostReviews {
		t.Errorf("%d reviews", f.reviewed)
	}
}

// TestGarbageTakesNoPlace verifies tokens while all places for reviews are taken. Tokens that
// Kubernetes has not signed get their answer at once.
func TestGarbageTakesNoPlace(t *testing.T) {
	v := accounts(t, &reviewer{})
	v.reviewing = bounds.NewGate(0)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for i := range 100 {
		past := fmt.Sprintf(`{"sub":"system:serviceaccount:team-a:etl","aud":"slotwise","exp":%d}`, 1000+i)
		for _, garbage := range []string{encoded(etl) + "." + encoded(etl) + "." + signed("bad"), token(past, "bad"), token(etl, "bad") + "*", token(etl, fmt.Sprint(i))} {
			if _, _, err := v.Identify(ctx, peer, garbage); connect.CodeOf(err) == connect.CodeUnavailable {
				t.Fatalf("%q waited: %v", garbage, err)
			}
		}
	}
	// A token that may be good waits, so the places really are taken.
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := v.Identify(ctx, peer, token(etl, "good")); err == nil {
		t.Error("a token was verified without a place")
	}
}

// TestReviewFails refuses all calls. The client may try again, and no result is remembered.
func TestReviewFails(t *testing.T) {
	f := &reviewer{status: http.StatusForbidden}
	v := accounts(t, f)
	for range 2 {
		if _, known, err := v.Identify(t.Context(), peer, token(etl, "good")); !known || connect.CodeOf(err) != connect.CodeUnavailable {
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
