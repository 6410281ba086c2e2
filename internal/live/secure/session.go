package secure

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"sync"
)

// A master proves to a worker that a request is the master's own by a signature with a
// key that it has given to the worker's session. The worker's answer carries a signature
// of the same request, which proves that the server is the worker that registered, and
// not another one at its address:
//
//	master ──GET /v1/logs/ID, nonce:MAC(key, request, nonce, GET, /v1/logs/ID)──► worker
//	master ◄──200, MAC(key, response, nonce, GET, /v1/logs/ID)── worker
//
// The key leaves the master in the answer to a registration only. It needs no storage: it
// is derived from the session's id and a key that the master makes when it starts.

// signatureHeader carries the signature of a request and of its response.
const signatureHeader = "Slotwise-Signature"

// DeriveSessionKey returns the key of a worker's session.
func DeriveSessionKey(masterKey []byte, session string) []byte {
	return mac(masterKey, "session", session)
}

// mac returns the HMAC of the parts, none of which contains a zero byte.
// Without the separator two lists of parts could give one text, and a signature of one request would fit
// another one.
func mac(key []byte, parts ...string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(strings.Join(parts, "\x00")))
	return h.Sum(nil)
}

// SignRequest adds a signature with the key of the worker's session to a request.
func SignRequest(r *http.Request, key []byte) {
	// The worker remembers no nonces. A request that is sent twice reads the same log twice, and the nonce keeps
	// an answer from fitting a later request.
	nonce := rand.Text()
	r.Header.Set(signatureHeader, nonce+":"+hex.EncodeToString(mac(key, "request", nonce, r.Method, r.URL.RequestURI())))
}

// VerifyResponse reports whether the response to a signed request comes from a server
// that has the session's key.
func VerifyResponse(resp *http.Response, key []byte) bool {
	nonce, _, _ := strings.Cut(resp.Request.Header.Get(signatureHeader), ":")
	got, err := hex.DecodeString(resp.Header.Get(signatureHeader))
	// The body is not covered. Who can change it on the way could read it, too: between machines TLS protects
	// both.
	return err == nil && hmac.Equal(got, mac(key, "response", nonce, resp.Request.Method, resp.Request.URL.RequestURI()))
}

// SessionKey is the worker's copy of the key of its current session. The zero value
// belongs to a worker that has not registered. It is safe for concurrent use.
type SessionKey struct {
	mu struct {
		sync.Mutex
		registered bool
		key        []byte // nil if the master has no authentication
	}
}

// Set replaces the key when a session begins. An empty key says that the master has no
// authentication. The worker then accepts unsigned requests, too.
func (k *SessionKey) Set(key []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.registered, k.mu.key = true, key
}

// get returns the key, which is empty if the master has no authentication, and whether
// the worker has registered.
func (k *SessionKey) get() (key []byte, registered bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mu.key, k.mu.registered
}

var (
	errSignature     = errors.New("the request's signature is wrong: it was made for another session of this worker")
	errNotRegistered = errors.New("this worker has not registered with its master yet and knows nobody")
)

// verify returns the master's identity if a request carries a valid signature, and then
// signs the response.
func (k *SessionKey) verify(r *http.Request, response http.Header) (Identity, error) {
	key, _ := k.get()
	nonce, sum, _ := strings.Cut(r.Header.Get(signatureHeader), ":")
	got, err := hex.DecodeString(sum)
	// An empty key would verify signatures that anyone can make.
	if len(key) == 0 || err != nil || !hmac.Equal(got, mac(key, "request", nonce, r.Method, r.RequestURI)) {
		return Identity{}, errSignature
	}
	response.Set(signatureHeader, hex.EncodeToString(mac(key, "response", nonce, r.Method, r.RequestURI)))
	return Identity{User: "master", Role: Master}, nil
}
