package kubernetes

import (
	"context"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
)

// TestFlood: 1,000 outstanding requests with forged tokens of several kinds cost no review, and
// a valid token from another address does not wait for them. Nor does a token from the same
// address that was accepted before; a new one waits for its turn. Reading the keys may fail; then
// an address has a share of the reviews, and the others the rest.
func TestFlood(t *testing.T) {
	for name, c := range map[string]struct {
		forged    func(n int64) string
		keyStatus int
		peers     []string // of the valid tokens; the forged ones are from peer
	}{
		"wrong signatures": {func(n int64) string { return token(etl, fmt.Sprint(n)) }, 0, []string{peer, "10.0.0.2"}},
		"unknown keys": {func(n int64) string {
			return encoded(fmt.Sprintf(`{"alg":"RS256","kid":"k%d"}`, 100+n)) + "." + encoded(etl) + "." + signed("x")
		}, 0, []string{peer, "10.0.0.2"}},
		"without keys": {func(n int64) string { return token(etl, fmt.Sprint(n)) }, http.StatusForbidden, []string{"10.0.0.2"}},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			f := &reviewer{wait: 20 * time.Millisecond, keyStatus: c.keyStatus}
			v := accounts(t, f)
			known := token(strings.Replace(etl, "{", "{ ", 1), "good")
			if _, _, err := v.Identify(t.Context(), peer, known); err != nil {
				t.Fatal(err)
			}
			for _, r := range v.mu.known {
				r.until = time.Now()
				v.remember(sha256.Sum256([]byte(known)), r)
			}
			f.mu.Lock()
			f.reviewed = 0
			f.mu.Unlock()
			var stop atomic.Bool
			var sent atomic.Int64
			var wg sync.WaitGroup
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			// Each waits for a processor, so each step of a valid request lets all of them pass once.
			const flood = 1000
			for range flood {
				wg.Go(func() {
					for !stop.Load() {
						if id, _, err := v.Identify(ctx, peer, c.forged(sent.Add(1))); err == nil {
							t.Errorf("a forged token is accepted as %v", id)
							return
						}
					}
				})
			}
			for sent.Load() < 10*flood {
				time.Sleep(time.Millisecond)
			}
			valid, again := 1, 0
			// identify returns how many requests of the flood passed. On a busy machine ten seconds may end before
			// a request has had its turn; then the user tries again, as the error says.
			identify := func(from, token string) (passed int64, err error) {
				for deadline := time.Now().Add(5 * time.Minute); ; again++ {
					before := sent.Load()
					_, _, err := v.Identify(t.Context(), from, token)
					if connect.CodeOf(err) != connect.CodeUnavailable || time.Now().After(deadline) {
						return sent.Load() - before, err
					}
				}
			}
			if passed, err := identify(peer, known); err != nil || passed > 50*flood {
				t.Errorf("a token that was accepted before: %v after %d of the flood", err, passed)
			}
			for range 3 {
				for _, from := range c.peers {
					valid++
					text := fmt.Sprintf(`{"jti":"%d","sub":"system:serviceaccount:team-a:etl","aud":["slotwise"]}`, valid)
					passed, err := identify(from, token(text, "good"))
					// One from the flood's address waits for its turn among the requests of the flood.
					if err != nil || from != peer && passed > 50*flood {
						t.Errorf("a valid token from %s: %v after %d of the flood", from, err, passed)
					}
				}
			}
			stop.Store(true)
			cancel()
			wg.Wait()
			f.mu.Lock()
			defer f.mu.Unlock()
			t.Logf("%d forged tokens, %d reviews, keys read %d times, %d times again", sent.Load(), f.reviewed, f.fetched, again)
			// A request that was given up may have had its review.
			if c.keyStatus == 0 && (f.reviewed < valid || f.reviewed > valid+again) {
				t.Errorf("%d reviews for %d valid tokens", f.reviewed, valid)
			}
			if f.fetched > 3+int(time.Since(start)/refreshEvery) {
				t.Errorf("the keys were read %d times", f.fetched)
			}
		})
	}
}

// TestRotation: a token signed with a key that Kubernetes has just begun to use is accepted after
// refreshEvery at most, whatever forged ids were sent before; and ids have the keys read once in
// that time.
func TestRotation(t *testing.T) {
	f := &reviewer{published: publish(map[string]any{"k1": &signingKey.PublicKey})}
	v := accounts(t, f)
	now := time.Unix(1000, 0)
	v.now = func() time.Time { return now }
	ask := func(tok string, code connect.Code, fetched int) {
		t.Helper()
		_, _, err := v.Identify(t.Context(), peer, tok)
		var coded *connect.Error
		got := connect.Code(0)
		if errors.As(err, &coded) {
			got = coded.Code()
		} else if err != nil {
			got = connect.CodeUnauthenticated
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if got != code || f.fetched != fetched {
			t.Errorf("at %v: %v, keys read %d times; want %v, %d times", now.Unix(), err, f.fetched, code, fetched)
		}
	}
	ask(token(etl, "good"), 0, 1)
	for i := range 100 {
		ask(sign(foreignKey, fmt.Sprintf(`{"alg":"RS256","kid":"x%d"}`, i), etl), connect.CodeUnavailable, 1)
	}
	f.published = publish(map[string]any{"k1": &signingKey.PublicKey, "k2": &secondKey.PublicKey})
	ask(ecToken(etl), connect.CodeUnavailable, 1)
	now = now.Add(refreshEvery)
	ask(ecToken(etl), 0, 2)
	now = now.Add(refreshEvery)
	ask(sign(foreignKey, `{"alg":"RS256","kid":"x"}`, etl), connect.CodeUnauthenticated, 3)

	// A key that Kubernetes withdraws is unknown once the keys were read again, which a good
	// token starts and does not wait for.
	f.published = publish(map[string]any{"k2": &secondKey.PublicKey})
	now = now.Add(keysFresh)
	if _, known, err := v.keys.find(t.Context(), "k1"); !known || err != nil {
		t.Errorf("a stale key: %v, %v", known, err)
	}
	for deadline := time.Now().Add(4 * time.Minute); ; time.Sleep(time.Millisecond) {
		v.keys.mu.Lock()
		gone := v.keys.mu.known["k1"] == nil
		v.keys.mu.Unlock()
		if gone {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the withdrawn key is still known")
		}
	}
	now = now.Add(refreshEvery)
	ask(token(etl+" ", "good"), connect.CodeUnauthenticated, 5)
}

// TestKeysAway: while the keys cannot be read, reviews decide, known keys stay, and the log names
// the reason; when they can be read again, forged tokens cost nothing again.
func TestKeysAway(t *testing.T) {
	f := &reviewer{keyStatus: http.StatusForbidden}
	v := accounts(t, f)
	now := time.Unix(1000, 0)
	v.now = func() time.Time { return now }
	ask := func(text, tok string, accepted bool, reviews int) {
		t.Helper()
		f.mu.Lock()
		f.reviewed = 0
		f.mu.Unlock()
		if _, _, err := v.Identify(t.Context(), peer, tok); (err == nil) != accepted || f.reviewed != reviews {
			t.Errorf("%s: %v after %d reviews, want %d", text, err, f.reviewed, reviews)
		}
	}
	ask("a good token without keys", token(etl, "good"), true, 1)
	ask("a forged token without keys", token(etl, "bad"), false, 1)
	if err := v.keys.mu.err; err == nil || !strings.Contains(err.Error(), "system:service-account-issuer-discovery") {
		t.Errorf("the reason %v names no remedy", err)
	}
	f.keyStatus = 0
	ask("another forged token, before the next read", token(etl, "bad 2"), false, 1)
	now = now.Add(refreshEvery)
	ask("a forged token with keys", token(etl, "bad 3"), false, 0)
	f.keyStatus = http.StatusInternalServerError
	now = now.Add(keysFresh)
	ask("a forged token with stale keys", token(etl, "bad 4"), false, 0)
	ask("a good token with stale keys", token(etl+"\n", "good"), true, 1)
}

// TestPublishedKeys reads documents of many kinds.
func TestPublishedKeys(t *testing.T) {
	one := func(id string, key any) string {
		return strings.TrimSuffix(strings.TrimPrefix(publish(map[string]any{id: key}), `{"keys":[`), `]}`)
	}
	good := one("k1", &signingKey.PublicKey)
	small := &rsa.PublicKey{N: new(big.Int).SetBit(big.NewInt(1), 1023, 1), E: 65537}
	large := &rsa.PublicKey{N: new(big.Int).SetBit(big.NewInt(1), 100_000, 1), E: 65537}
	list := func(keys ...string) string { return `{"keys":[` + strings.Join(keys, ",") + `]}` }
	for name, c := range map[string]struct {
		text string
		want int // keys; 0 means an error
	}{
		"two":                      {list(good, one("k2", &secondKey.PublicKey)), 2},
		"one of an unknown kind":   {list(`{"kty":"new","kid":"x"}`, good), 1},
		"one that is no key":       {list(`7`, `{}`, good), 1},
		"one without an id":        {list(one("", &foreignKey.PublicKey), good), 1},
		"one for encryption":       {list(strings.Replace(one("e", &foreignKey.PublicKey), `"sig"`, `"enc"`, 1), good), 1},
		"a secret":                 {list(`{"kty":"oct","kid":"s","k":"c2VjcmV0"}`, good), 1},
		"a short one":              {list(one("s", small), good), 1},
		"a long one":               {list(one("l", large), good), 1},
		"none":                     {`{"keys":[]}`, 0},
		"none that serves":         {list(one("s", small)), 0},
		"no document":              {`keys`, 0},
		"a document without limit": {list(strings.Repeat(`{"kty":"new"},`, maxKeysBytes/10) + good), 0},
		"more than the most":       {list(strings.Repeat(`{"kty":"new"},`, maxKeys) + good), 0},
	} {
		v := accounts(t, &reviewer{published: c.text})
		known, err := v.keys.fetch(t.Context())
		if len(known) != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("%s: %d keys, %v; want %d", name, len(known), err, c.want)
		}
	}
}

// FuzzToken verifies arbitrary tokens. None is accepted, and none without a right signature
// costs a review.
func FuzzToken(f *testing.F) {
	for _, t := range []string{
		token(etl, "bad"), ecToken(etl) + "A", hmacToken(etl), sign(foreignKey, k1, etl), "..", "a.b.c", `{"payload":"e30","signatures":[]}`,
		encoded(`{"alg":"none","kid":"k1"}`) + "." + encoded(etl) + ".",
	} {
		f.Add(t)
	}
	var srv reviewer
	f.Fuzz(func(t *testing.T, tok string) {
		srv.t = t
		v := accounts(t, &srv)
		if id, _, err := v.Identify(t.Context(), peer, tok); err == nil && id.User != "" || srv.reviewed > 0 {
			t.Errorf("%q: %v, %d reviews", tok, id, srv.reviewed)
		}
	})
}
