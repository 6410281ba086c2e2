package kubernetes

import (
	"context"
	"crypto/ecdsa"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/go-jose/go-jose/v4"

	"github.com/slotwise/slotwise/internal/base/bounds"
)

// keysPath is where the API server publishes the keys that verify its tokens. The discovery
// document at /.well-known/openid-configuration names an address for clients outside of the
// cluster, which pods often cannot reach, so it is not read.
const keysPath = "/openid/v1/jwks"

const (
	// keysFresh bounds how long a withdrawn key still verifies. The review by Kubernetes refuses its tokens in
	// any case. refreshEvery bounds what forged key ids cost the API server.
	keysFresh    = 10 * time.Minute // after that keys are read again, in the background
	refreshEvery = 10 * time.Second // at most so often, whatever clients send
	refreshTime  = 5 * time.Second  // for one read
	maxKeys      = 100
	maxKeysBytes = 1 << 20
	leastRSA     = 2048 // bits of an RSA key; the most are for the time of one verification
	mostRSA      = 8192
)

// algorithms are the signatures that Kubernetes makes. All need a public key: signatures with
// a shared secret or without a key are refused.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.ES384, jose.ES512}

// keys holds the published keys of the cluster. They answer whether Kubernetes has signed a
// token, without a call: anyone can send a token with the claims of an accepted account, but
// only tokens with a right signature are worth a review.
//
// A token with an unknown key id has the keys read again, at most once in refreshEvery for
// all clients together. So a new key of Kubernetes is known soon, and forged ids cost
// nothing. If the keys cannot be read, signatures remain unknown and reviews decide.
type keys struct {
	api    *api
	log    *slog.Logger
	now    func() time.Time
	failed bounds.LogLimit

	mu struct {
		sync.Mutex
		known   map[string]any // public keys by their ids; nil before the first success
		read    time.Time      // when known was read
		tried   time.Time      // when the last read began
		err     error          // of the last read that has ended
		reading chan struct{}  // closed when the running read has ended; nil without one
	}
}

func newKeys(a *api, log *slog.Logger, now func() time.Time) *keys {
	own := *a
	own.maxAnswer = maxKeysBytes
	const right = "bind the ClusterRole system:service-account-issuer-discovery to the master's service account"
	own.remedies = map[int]string{http.StatusForbidden: right, http.StatusUnauthorized: right}
	return &keys{api: &own, log: log, now: now}
}

// signed reports whether Kubernetes has signed a token. known is false if the keys cannot be
// read. An error refuses the token: its signature is wrong, or its key is not published. With
// the code unavailable it says that this is not known now.
func (k *keys) signed(ctx context.Context, token, subject string) (known bool, err error) {
	jws, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil {
		return true, fmt.Errorf("the token of %s is not signed as Kubernetes signs tokens (RS256, ES256, ES384 or ES512)", subject)
	}
	key, known, err := k.find(ctx, jws.Signatures[0].Header.KeyID)
	switch {
	case err != nil || !known:
		return known, err
	case key == nil:
		return true, fmt.Errorf("the token of %s is signed with a key that this cluster's Kubernetes does not publish: send a token of this cluster", subject)
	}
	if _, err := jws.Verify(key); err != nil {
		return true, fmt.Errorf("the token of %s has a wrong signature: read it again from its mounted file", subject)
	}
	return true, nil
}

// find returns the published key with an id, and nil if Kubernetes does not publish it. known
// is false if the keys cannot be read. An error with the code unavailable means that the keys
// were read so recently that they are not read again for this id.
func (k *keys) find(ctx context.Context, id string) (key any, known bool, err error) {
	k.mu.Lock()
	key = k.mu.known[id]
	stale := k.now().Sub(k.mu.read) >= keysFresh
	if key != nil && !stale {
		k.mu.Unlock()
		return key, true, nil
	}
	reading := k.refreshLocked()
	if key != nil { // a stale key serves until the read ends, so that no request has to wait
		k.mu.Unlock()
		return key, true, nil
	}
	k.mu.Unlock()
	if reading != nil {
		select {
		case <-reading:
		case <-ctx.Done():
			return nil, true, errBusy
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	key = k.mu.known[id]
	switch {
	case key != nil:
		return key, true, nil
	// Without keys the signature is unknown, not wrong: the review by Kubernetes then decides.
	case k.mu.err != nil:
		return nil, false, nil
	case reading == nil:
		// Kubernetes may have begun to use this key since the last read.
		return nil, true, connect.NewError(connect.CodeUnavailable, fmt.Errorf("the token names a key that Kubernetes did not publish a moment ago: try again in %v", refreshEvery))
	}
	return nil, true, nil
}

// refreshLocked returns a channel that is closed when the running read of the keys has ended.
// It starts one unless the last one began too recently; then it returns nil.
func (k *keys) refreshLocked() <-chan struct{} {
	if k.mu.reading != nil {
		return k.mu.reading
	}
	now := k.now()
	if !k.mu.tried.IsZero() && now.Sub(k.mu.tried) < refreshEvery {
		return nil
	}
	k.mu.tried, k.mu.reading = now, make(chan struct{})
	// The read does not end with the request that started it, because others wait, too.
	go k.refresh()
	return k.mu.reading
}

// refresh reads the keys. If it fails, the keys that are known stay.
func (k *keys) refresh() {
	ctx, cancel := context.WithTimeout(context.Background(), refreshTime)
	defer cancel()
	known, err := k.fetch(ctx)
	if err != nil {
		if n, ok := k.failed.Allow(k.now()); ok {
			k.log.Warn("the keys of service account tokens cannot be read: clients share the reviews by their addresses, and forged tokens delay good ones", "err", err, "unlogged", n)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	// Replaced as a whole, so a key that Kubernetes has withdrawn is gone.
	if k.mu.err = err; err == nil {
		k.mu.known, k.mu.read = known, k.now()
	}
	close(k.mu.reading)
	k.mu.reading = nil
}

// fetch returns the published keys by their ids. It leaves out keys of kinds that Kubernetes
// does not sign with. Without any key left it fails.
func (k *keys) fetch(ctx context.Context) (map[string]any, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := k.api.get(ctx, keysPath, &set); err != nil {
		return nil, err
	}
	known := map[string]any{}
	for _, text := range set.Keys[:min(len(set.Keys), maxKeys)] {
		var key jose.JSONWebKey
		// One key of a new kind must not make the others unknown, so each is parsed alone.
		if key.UnmarshalJSON(text) == nil && key.KeyID != "" && (key.Use == "" || key.Use == "sig") && verifies(key.Key) {
			known[key.KeyID] = key.Key
		}
	}
	if len(known) == 0 {
		return nil, fmt.Errorf("none of the %d keys at %s verifies signatures with one of %v", len(set.Keys), keysPath, algorithms)
	}
	return known, nil
}

// verifies reports whether a key is a public key for one of the algorithms.
func verifies(key any) bool {
	switch p := key.(type) {
	case *rsa.PublicKey:
		return p.N.BitLen() >= leastRSA && p.N.BitLen() <= mostRSA
	case *ecdsa.PublicKey:
		return true
	}
	return false
}
