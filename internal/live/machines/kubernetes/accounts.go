package kubernetes

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/live/secure"
)

// Accounts identifies clients by the tokens of their service accounts. The published keys of
// Kubernetes verify a token's signature here, and then Kubernetes reviews the token
// (TokenReview): it knows whether the token's pod and account still exist, and which issuers
// it accepts. The token must be valid for secure.PodAudience, so that a token that a
// pod sends to another server is of no use here, and ours is of no use to others.
//
// The user of an account is system:serviceaccount:NAMESPACE:NAME, with the role user and
// Kubernetes' groups of its accounts. Only listed accounts are accepted: every pod of the
// cluster can have a token for every audience.
type Accounts struct {
	api     *api
	allowed []Account
	log     *slog.Logger
	now     func() time.Time
	keys    *keys
	// verifying has room for the tokens that are verified at once, and reviewing for the reviews
	// that run at once. Addresses share verifying. The accounts that signed tokens name share
	// reviewing. If the keys are unknown, anyone may name any account, and addresses share it.
	verifying, reviewing *bounds.Gate
	failed               bounds.LogLimit

	mu struct {
		sync.Mutex
		known map[[sha256.Size]byte]verified
	}
}

// Account names a service account; Name is * for all of the namespace.
type Account struct{ Namespace, Name string }

// verified is the result of a review, for a while.
type verified struct {
	id    secure.Identity
	err   error
	until time.Time
}

const (
	acceptedFor = time.Minute      // how long a token that was revoked is still accepted
	refusedFor  = 10 * time.Second // how long a refusal is repeated without a review
	mostKnown   = 10_000           // results that are kept
	mostReviews = 32               // at the same time; one account or address has half, see package bounds
	maxToken    = 16 << 10         // bytes of a token
	reviewTime  = 10 * time.Second // for one review

	clockSkew      = time.Minute // between the master and Kubernetes
	leastSignature = 32          // bytes of a token's signature
)

// errBusy is the error for a token that has waited too long.
var errBusy = connect.NewError(connect.CodeUnavailable, errors.New("too many tokens of service accounts wait to be verified: try again later"))

const accountPrefix = "system:serviceaccount:"

// namePattern matches names of namespaces and service accounts.
var namePattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`) })

// ParseAccount parses NAMESPACE:NAME or NAMESPACE:*.
func ParseAccount(s string) (Account, error) {
	namespace, name, ok := strings.Cut(s, ":")
	if !ok || len(s) > 200 || !namePattern().MatchString(namespace) || strings.Contains(namespace, ".") || name != "*" && !namePattern().MatchString(name) {
		return Account{}, fmt.Errorf("%q does not name a service account: want NAMESPACE:NAME, or NAMESPACE:* for all accounts of a namespace", s)
	}
	return Account{namespace, name}, nil
}

// OpenAccounts returns a verifier that accepts the listed accounts. It makes no call yet.
func OpenAccounts(allowed []Account, log *slog.Logger) (*Accounts, error) {
	a, err := inCluster()
	if err != nil {
		return nil, err
	}
	return newAccounts(a, allowed, log), nil
}

func newAccounts(a *api, allowed []Account, log *slog.Logger) *Accounts {
	const rights = "apply the ClusterRole and ClusterRoleBinding of slotwise kubernetes manifest --service-account"
	a.remedies = map[int]string{http.StatusForbidden: rights, http.StatusUnauthorized: rights}
	v := &Accounts{api: a, allowed: allowed, log: log, now: time.Now}
	v.keys = newKeys(a, log, func() time.Time { return v.now() })
	v.verifying, v.reviewing = bounds.NewGate(int64(2*runtime.GOMAXPROCS(0))), bounds.NewGate(mostReviews)
	v.mu.known = map[[sha256.Size]byte]verified{}
	return v
}

// Identify returns the identity of a token's service account, and false for a token of
// another kind. peer is the address that the token came from. An error with the code
// unavailable means that Kubernetes cannot tell now.
func (v *Accounts) Identify(ctx context.Context, peer, token string) (secure.Identity, bool, error) {
	// Tokens of slotwise have no dots: the file of tokens knows them.
	if len(token) > maxToken || strings.Count(token, ".") != 2 {
		return secure.Identity{}, false, nil
	}
	// The table is keyed by the hash: a copy of the master's memory then holds no tokens of users.
	key := sha256.Sum256([]byte(token))
	before, seen := v.recall(key)
	if seen && v.now().Before(before.until) {
		return before.id, true, before.err
	}
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, reviewTime)
	defer cancel()
	// Forged tokens end in verify: they never take a place that a review of a good token needs.
	// The signature of a token that was accepted before is right, so its client does not queue
	// behind them.
	claimed, t, err := v.verify(ctx, peer, token, seen && before.err == nil)
	if err != nil || t == otherKind {
		return secure.Identity{}, t != otherKind, err
	}
	// The prefixes keep accounts apart from addresses.
	user := "account " + claimed.Subject
	if t == unknownSignature {
		user = "address " + peer
	}
	if v.reviewing.Take(ctx, user, 1) != nil {
		return secure.Identity{}, true, errBusy
	}
	defer v.reviewing.Give(user, 1)
	// A request that waited may find the result of another one with the same token.
	if r, known := v.recall(key); known && v.now().Before(r.until) {
		return r.id, true, r.err
	}
	id, err := v.review(ctx, caller, token)
	// Kubernetes could not answer. That says nothing about the token, so it is not remembered.
	if coded := (*connect.Error)(nil); errors.As(err, &coded) {
		return secure.Identity{}, true, err
	}
	// An accepted token is remembered until its own end at the latest.
	// A minute is a compromise: a deleted pod's token counts as long, and a busy client costs one review in this
	// time.
	r := verified{id, err, v.now().Add(acceptedFor)}
	if err != nil {
		r.until = v.now().Add(refusedFor)
	} else if end := time.Unix(claimed.Expires, 0); claimed.Expires > 0 && end.Before(r.until) {
		r.until = end
	}
	v.remember(key, r)
	return id, true, err
}

// trust is the result of verify.
type trust uint8

const (
	otherKind        trust = iota // not a token of a service account
	unknownSignature              // the claims are right, and the keys of Kubernetes cannot be read
	rightSignature                // Kubernetes has signed these claims
)

// verify checks a token's claims and its signature, without Kubernetes. An error refuses the
// token, or has the code unavailable. isSigned says that the signature was verified before.
//
// Clients share the processors by their addresses, because anyone may send a token. One address
// has a place for each processor. Its other requests wait here, not for a processor, so a flood
// does not delay the requests of others.
func (v *Accounts) verify(ctx context.Context, peer, token string, isSigned bool) (c claim, t trust, err error) {
	if !isSigned {
		// Before the token is parsed at all: parsing and verifying 16 KiB is the cost that a flood would use.
		if v.verifying.Take(ctx, peer, 1) != nil {
			return c, rightSignature, errBusy
		}
		defer v.verifying.Give(peer, 1)
	}
	c, ok := claims(token)
	if !ok {
		return c, otherKind, nil
	}
	// The claims are not verified yet, but a token that cannot be valid costs nothing more.
	// These are the messages that users need most, so they come before the signature, which only says that it is
	// wrong.
	if err := cmp.Or(v.check(c.Subject, c.Audience), v.checkTimes(c)); err != nil {
		return c, rightSignature, err
	}
	if isSigned {
		return c, rightSignature, nil
	}
	known, err := v.keys.signed(ctx, token, c.Subject)
	if !known && err == nil {
		return c, unknownSignature, nil
	}
	return c, rightSignature, err
}

// recall returns the result of the last review of a token, which may have expired.
func (v *Accounts) recall(key [sha256.Size]byte) (verified, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	r, known := v.mu.known[key]
	return r, known
}

// remember keeps a result. Without room it first drops refusals and expired results.
// So a client that sends many forged tokens does not make the accounts of others unknown. If
// the accepted tokens leave too little room, it drops them, too.
func (v *Accounts) remember(key [sha256.Size]byte, r verified) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.mu.known) >= mostKnown {
		now := v.now()
		for k, old := range v.mu.known { //house:sorted each result is judged by itself
			if old.err != nil || !now.Before(old.until) {
				delete(v.mu.known, k)
			}
		}
		if len(v.mu.known) > mostKnown/2 { // a walk through the results must make room for many
			clear(v.mu.known)
		}
	}
	v.mu.known[key] = r
}

// claim holds the claims of a token that Accounts reads. Times are in seconds since 1970; 0
// means that the token lacks the claim.
type claim struct {
	Subject   string    `json:"sub"`
	Audience  audiences `json:"aud"`
	Expires   int64     `json:"exp"`
	NotBefore int64     `json:"nbf"`
}

// header holds the fields of a token's header that Accounts reads.
type header struct {
	Algorithm string `json:"alg"`
}

// audiences is the claim aud: a string or a list of strings.
type audiences []string

// UnmarshalJSON implements json.Unmarshaler.
func (a *audiences) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*a = audiences{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(a))
}

// claims returns the claims of the token of a service account, and false for a token of
// another kind. Kubernetes signs its tokens, so a token without algorithm or signature is of
// another kind. claims does not verify the signature.
func claims(token string) (c claim, ok bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return c, false
	}
	var h header
	if !decodePart(parts[0], &h) || h.Algorithm == "" || strings.EqualFold(h.Algorithm, "none") || !decodePart(parts[1], &c) {
		return c, false
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	return c, err == nil && len(signature) >= leastSignature && strings.HasPrefix(c.Subject, accountPrefix)
}

// decodePart decodes the JSON of a token's header or claims into v.
func decodePart(part string, v any) bool {
	text, err := base64.RawURLEncoding.DecodeString(part)
	return err == nil && json.Unmarshal(text, v) == nil
}

// checkTimes returns an error if a token has expired or is not valid yet, by more than the
// clocks of the master and of Kubernetes may differ.
func (v *Accounts) checkTimes(c claim) error {
	now := v.now()
	switch {
	case c.Expires != 0 && now.Add(-clockSkew).After(time.Unix(c.Expires, 0)):
		return fmt.Errorf("the token of %s has expired: read it again from its mounted file, which Kubernetes renews", c.Subject)
	case c.NotBefore != 0 && now.Add(clockSkew).Before(time.Unix(c.NotBefore, 0)):
		return fmt.Errorf("the token of %s is not valid yet: compare the clocks of this master and of Kubernetes", c.Subject)
	}
	return nil
}

// check returns an error unless a user is an account that is allowed, and the audience ours.
func (v *Accounts) check(user string, audience []string) error {
	namespace, name, _ := strings.Cut(strings.TrimPrefix(user, accountPrefix), ":")
	switch {
	case !slices.ContainsFunc(v.allowed, func(a Account) bool { return a.Namespace == namespace && (a.Name == name || a.Name == "*") }):
		return fmt.Errorf("this master does not accept the service account %s:%s: start it with --service-account %s:%s (slotwise kubernetes manifest has the same flag)", namespace, name, namespace, name)
	case !slices.Contains(audience, secure.PodAudience):
		return fmt.Errorf("the token of service account %s:%s is not valid for audience %s: mount a projected token with this audience (serviceAccountToken.audience)", namespace, name, secure.PodAudience)
	}
	return nil
}

// tokenReview holds the fields of a TokenReview.
type tokenReview struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Spec       struct {
		Token     string   `json:"token"`
		Audiences []string `json:"audiences"`
	} `json:"spec"`
	Status struct {
		Authenticated bool     `json:"authenticated"`
		Error         string   `json:"error"`
		Audiences     []string `json:"audiences"`
		User          struct {
			Username string   `json:"username"`
			Groups   []string `json:"groups"`
		} `json:"user"`
	} `json:"status"`
}

// review lets Kubernetes verify a token. An error without a code refuses the token. caller is
// the context of the request. ctx adds a time limit to it.
func (v *Accounts) review(ctx, caller context.Context, token string) (id secure.Identity, err error) {
	var r tokenReview
	r.APIVersion, r.Kind = "authentication.k8s.io/v1", "TokenReview"
	r.Spec.Token, r.Spec.Audiences = token, []string{secure.PodAudience}
	var answer tokenReview
	if err := v.api.create(ctx, "/apis/authentication.k8s.io/v1/tokenreviews", &r, &answer); err != nil {
		// A caller who has gone away is no fault of Kubernetes'.
		if n, ok := v.failed.Allow(v.now()); ok && caller.Err() == nil {
			v.log.Error("tokens of service accounts cannot be verified", "err", err, "unlogged", n)
		}
		return id, connect.NewError(connect.CodeUnavailable, errors.New("the master cannot ask Kubernetes to verify the token; its log has the reason"))
	}
	s := &answer.Status
	if !s.Authenticated || !strings.HasPrefix(s.User.Username, accountPrefix) {
		return id, fmt.Errorf("the token of this service account is refused by Kubernetes: %s", cmp.Or(s.Error, "it is not valid"))
	}
	// Checked again with Kubernetes' answer: the claims that were checked before are the client's words if the
	// keys are unknown. An API server that ignores audiences answers without any, and the token is refused.
	if err := v.check(s.User.Username, s.Audiences); err != nil {
		return id, err
	}
	id = secure.Identity{User: s.User.Username, Role: secure.User}
	for _, g := range s.User.Groups {
		// The other groups, such as system:authenticated, say nothing about the account.
		if strings.HasPrefix(g, "system:serviceaccounts") {
			id.Groups = append(id.Groups, g)
		}
	}
	return id, nil
}
