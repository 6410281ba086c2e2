package netshuffle

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strconv"
	"strings"
)

// The headers of a request and its answer.
const (
	// ProofHeader carries Sign of the requested path.
	ProofHeader = "Slotwise-Proof"
	// SectionHeader carries the runfile.Section whose bytes the body has, or
	// has from the range's start.
	SectionHeader = "Slotwise-Section"
)

// Pattern is what http.ServeMux needs to route to a Handler.
const Pattern = "GET /v1/outputs/{job}/{map}/{part}"

// Path is the URL path of a partition of a map attempt's output.
func Path(job, attempt string, part int) string {
	return "/v1/outputs/" + job + "/" + attempt + "/" + strconv.Itoa(part)
}

// File is the path of an attempt's output below dir.
func File(dir, job, attempt string) string { return filepath.Join(dir, job, attempt+".run") }

// Sign returns the proof that whoever asks for path knows the job's secret.
func Sign(secret []byte, path string) string {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(path))
	return hex.EncodeToString(h.Sum(nil))
}

// Signed checks a proof in constant time. Nothing is proven by an empty secret.
func Signed(secret []byte, path, proof string) bool {
	return len(secret) > 0 && hmac.Equal([]byte(Sign(secret, path)), []byte(proof))
}

// plain reports whether a name of a job or attempt can be nothing but a name:
// no separator, no dot, no control character.
func plain(name string) bool {
	return name != "" && len(name) <= 64 && strings.IndexFunc(name, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) < 0
}
