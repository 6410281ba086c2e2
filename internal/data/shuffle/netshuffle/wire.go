package netshuffle

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strconv"
	"strings"
)

// The headers of a request and its response.
const (
	// ProofHeader carries the result of Sign for the requested path.
	ProofHeader = "Slotwise-Proof"
	// SectionHeader carries the runfile.Section of the body, which begins at the
	// range's start if a range was requested.
	SectionHeader = "Slotwise-Section"
)

// Pattern is the http.ServeMux pattern of a Handler.
const Pattern = "GET /v1/outputs/{job}/{map}/{part}"

// Path returns the URL path of a partition of a map attempt's output.
func Path(job, attempt string, part int) string {
	return "/v1/outputs/" + job + "/" + attempt + "/" + strconv.Itoa(part)
}

// File returns the path of an attempt's output below dir.
func File(dir, job, attempt string) string { return filepath.Join(dir, job, attempt+".run") }

// Sign returns an HMAC of path, which proves that the client knows the job's secret.
func Sign(secret []byte, path string) string {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(path))
	return hex.EncodeToString(h.Sum(nil))
}

// Signed verifies a proof in constant time. It returns false for an empty secret.
func Signed(secret []byte, path, proof string) bool {
	// A job that this worker does not know has no secret, and every client can sign with an empty key.
	return len(secret) > 0 && hmac.Equal([]byte(Sign(secret, path)), []byte(proof))
}

// plain reports whether a job or attempt name is a single path element without dots or
// control characters.
func plain(name string) bool {
	// Dots would allow "..", and a slash another directory: the name becomes a part of a path on the
	// worker.
	return name != "" && len(name) <= 64 && strings.IndexFunc(name, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) < 0
}
