package secure

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	ana := Identity{User: "ana", Role: User, Groups: []string{"data", "night"}}
	token, err := AddToken(path, ana)
	if err != nil {
		t.Fatal(err)
	}
	worker, err := AddToken(path, Identity{User: "w", Role: Worker})
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(data), token) || strings.Contains(string(data), token[4:]) {
		t.Errorf("the file holds the token, or %v", err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	f, err := OpenTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	if id, ok, err := f.Find(token); !ok || err != nil || id.User != "ana" || id.Role != User || len(id.Groups) != 2 {
		t.Errorf("%+v, %v, %v", id, ok, err)
	}
	if id, ok, _ := f.Find(worker); !ok || id.Role != Worker {
		t.Errorf("%+v, %v", id, ok)
	}
	for _, wrong := range []string{"", token[:len(token)-1], token + "x", strings.ToLower(token)} {
		if id, ok, _ := f.Find(wrong); ok {
			t.Errorf("%q is %+v", wrong, id)
		}
	}
}

func TestTokensFileRefused(t *testing.T) {
	token := NewToken()
	line, err := TokenLine(Identity{User: "ana", Role: User}, token)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		text  string
		mode  os.FileMode
		fails string
	}{
		{"# tokens\n\n" + line, 0o600, ""},
		{line, 0o644, "other users can read or change it"},
		{line + "user bob -\n", 0o600, "line 2: it has 3 words"},
		{"king" + line[4:], 0o600, "line 1"},
		{line[:len(line)-3] + "\n", 0o600, "SHA-256"},
		{"user ana - " + token + "\n", 0o600, "SHA-256"},
	} {
		path := filepath.Join(t.TempDir(), "tokens")
		if err := os.WriteFile(path, []byte(tt.text), tt.mode); err != nil {
			t.Fatal(err)
		}
		_, err := OpenTokens(path)
		if tt.fails == "" && err != nil || tt.fails != "" && (err == nil || !strings.Contains(err.Error(), tt.fails)) {
			t.Errorf("%v, want %q", err, tt.fails)
		}
		if err != nil && strings.Contains(err.Error(), token) {
			t.Errorf("the error shows the token: %v", err)
		}
	}
}

func TestTokenNames(t *testing.T) {
	for _, id := range []Identity{
		{User: "", Role: User}, {User: "a b", Role: User}, {User: "a\nadmin x - 00", Role: User}, {User: "-", Role: User},
		{User: "a", Role: "king"}, {User: "a", Role: User, Groups: []string{"x,y"}},
	} {
		if line, err := TokenLine(id, NewToken()); err == nil {
			t.Errorf("%+v became %q", id, line)
		}
	}
}

// A changed file is read again. While it cannot be parsed or other users can read it,
// no token is valid.
func TestTokensAreReloaded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	first, err := AddToken(path, Identity{User: "ana", Role: User})
	if err != nil {
		t.Fatal(err)
	}
	f, err := OpenTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	look := func() { // without waiting for the second to pass
		f.file.mu.Lock()
		f.file.mu.checked = time.Time{}
		f.file.mu.Unlock()
	}
	second, err := AddToken(path, Identity{User: "bob", Role: User})
	if err != nil {
		t.Fatal(err)
	}
	look()
	if _, ok, err := f.Find(second); !ok || err != nil {
		t.Errorf("a new token is not known: %v", err)
	}
	if err := os.WriteFile(path, []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	look()
	if _, ok, err := f.Find(first); ok || err == nil {
		t.Errorf("after the file was overwritten with garbage: %v, %v", ok, err)
	}
	line, err := TokenLine(Identity{User: "ana", Role: User}, first)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	look()
	if _, ok, err := f.Find(first); !ok || err != nil {
		t.Errorf("after the file was repaired: %v, %v", ok, err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	look()
	if _, ok, err := f.Find(first); ok || err == nil {
		t.Errorf("while other users can read the file: %v, %v", ok, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("# all revoked\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	look()
	if _, ok, err := f.Find(first); ok || err != nil {
		t.Errorf("a revoked token is known: %v", err)
	}
}

// A file that was edited by hand may lack the final newline. A new token must still get
// a separate line.
func TestAddTokenAfterMissingNewline(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	first, err := AddToken(path, Identity{User: "ana", Role: User})
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data[:len(data)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	second, err := AddToken(path, Identity{User: "bob", Role: User})
	if err != nil {
		t.Fatal(err)
	}
	f, err := OpenTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]string{first: "ana", second: "bob"} {
		if id, ok, err := f.Find(token); id.User != want || !ok || err != nil {
			t.Errorf("%s's token: %v, %v, %v", want, id, ok, err)
		}
	}
}

func FuzzParseTokens(f *testing.F) {
	line, _ := TokenLine(Identity{User: "ana", Role: User, Groups: []string{"a"}}, "x")
	f.Add([]byte(line))
	f.Add([]byte("user ana - \xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		tokens, err := ParseTokens(data)
		if err != nil {
			return
		}
		for _, e := range tokens.list {
			if _, err := ParseRole(string(e.id.Role)); err != nil || e.id.User == "" {
				t.Errorf("accepted %+v", e.id)
			}
		}
	})
}

// TestFailedLoadIsRepeated lets one load of a file fail, for example for too many open
// files. Until a load succeeds no token may be valid, and the file need not change again.
func TestFailedLoadIsRepeated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	fail := true
	w := watchedFile[int]{paths: []string{path}, load: func() (int, error) {
		if fail {
			return 0, errors.New("too many open files")
		}
		return 7, nil
	}}
	if _, err := w.get(); err == nil {
		t.Error("the error of the first load is lost")
	}
	fail = false
	w.mu.checked = time.Time{} // a second later
	if v, err := w.get(); v != 7 || err != nil {
		t.Errorf("after the next load: %d, %v", v, err)
	}
	w.mu.checked = time.Time{}
	fail = true
	if v, err := w.get(); v != 7 || err != nil {
		t.Errorf("the unchanged file was loaded again: %d, %v", v, err)
	}
}

// TestExpiryOnAnOpenConnection makes a request on a connection whose client certificate
// has expired since the handshake.
func TestExpiryOnAnOpenConnection(t *testing.T) {
	g := &Guard{Certificates: true}
	for expires, want := range map[time.Duration]error{time.Hour: nil, -time.Second: errExpired} {
		cert := &x509.Certificate{NotAfter: time.Now().Add(expires), Subject: pkix.Name{CommonName: "ana", Organization: []string{identityPrefix + "user"}}}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{cert}}}
		if id, err := g.identify(r, http.Header{}); !errors.Is(err, want) || err == nil && id.User != "ana" {
			t.Errorf("a certificate that expires in %v: %v, %v", expires, id, err)
		}
	}
}
