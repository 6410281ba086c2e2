package secure

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
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
	f, err := OpenTokens(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if id, ok := f.find(hashToken(token)); !ok || id.User != "ana" || id.Role != User || len(id.Groups) != 2 {
		t.Errorf("%+v, %v", id, ok)
	}
	if id, ok := f.find(hashToken(worker)); !ok || id.Role != Worker {
		t.Errorf("%+v, %v", id, ok)
	}
	for _, wrong := range []string{"", token[:len(token)-1], token + "x", strings.ToLower(token)} {
		if id, ok := f.find(hashToken(wrong)); ok {
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
		{line + "user bob -\n", 0o600, ""},
		{"# mine\nuser bob -\n", 0o600, "no valid line: line 2: it has 3 words"},
		{"king" + line[4:], 0o600, "line 1"},
		{line[:len(line)-3] + "\n", 0o600, "SHA-256"},
		{"user ana - " + token + "\n", 0o600, "SHA-256"},
	} {
		path := filepath.Join(t.TempDir(), "tokens")
		if err := os.WriteFile(path, []byte(tt.text), tt.mode); err != nil {
			t.Fatal(err)
		}
		_, err := OpenTokens(path, slog.New(slog.DiscardHandler))
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
		{User: "a", Role: "king"}, {User: "Ann\u00a0Lee", Role: User}, {User: "a\x1bb", Role: User}, {User: "a\u2028b", Role: User}, {User: "a\u202eb", Role: User}, {User: "a", Role: User, Groups: []string{"x,y"}},
	} {
		if line, err := TokenLine(id, NewToken()); err == nil {
			t.Errorf("%+v became %q", id, line)
		}
	}
}

// A changed file is read again. A version that cannot be read, or has no valid line, changes
// nothing.
func TestTokensAreReloaded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	first, err := AddToken(path, Identity{User: "ana", Role: User})
	if err != nil {
		t.Fatal(err)
	}
	log := &logBuffer{}
	f, err := OpenTokens(path, slog.New(slog.NewTextHandler(log, nil)))
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
	line, err := TokenLine(Identity{User: "ana", Role: User}, first)
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string, mode os.FileMode) func() error {
		return func() error {
			if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			return os.WriteFile(path, []byte(text), mode)
		}
	}
	for _, step := range []struct {
		name          string
		change        func() error
		first, second bool   // which of the tokens are valid afterwards
		log           string // the step's line in the log
	}{
		{"a new token", func() error { return nil }, true, true, ""},
		{"garbage", write("rubbish\n", 0o600), true, true, "no valid line: line 1"},
		{"a bad line", write(line+"user bob -\n", 0o600), true, false, "line 2: it has 3 words"},
		{"removed", func() error { return os.Remove(path) }, true, false, "no such file"},
		{"readable for others", write(line, 0o644), true, false, "other users can read or change it"},
		{"all revoked", write("# all revoked\n", 0o600), false, false, ""},
		{"back", write(line, 0o600), true, false, ""},
	} {
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		before := len(log.String())
		for range 3 {
			look()
			_, ok1 := f.find(hashToken(first))
			_, ok2 := f.find(hashToken(second))
			if ok1 != step.first || ok2 != step.second {
				t.Errorf("%s: ana's token %v, bob's %v", step.name, ok1, ok2)
			}
		}
		said := log.String()[before:]
		if lines := strings.Count(said, "\n"); !strings.Contains(said, step.log) || lines > 1 || step.log == "" && lines > 0 {
			t.Errorf("%s: the log says %q", step.name, said)
		}
	}
}

// TestBadTokenLines puts a bad line of every kind before, between and after good ones. The
// good tokens are valid, and the error has the number of the bad line and not its content.
func TestBadTokenLines(t *testing.T) {
	good := map[string]string{}
	var lines []string
	for _, user := range []string{"ana", "bob"} {
		token := NewToken()
		line, err := TokenLine(Identity{User: user, Role: User, Groups: []string{"data"}}, token)
		if err != nil {
			t.Fatal(err)
		}
		good[user], lines = token, append(lines, line)
	}
	hash := strings.Repeat("0", 64)
	for _, bad := range []string{
		"rubbish", "user Ann\u00a0Lee - " + hash, "user Ann\vLee - " + hash, "user Ann\fLee - " + hash, "user a\u2028b - " + hash,
		"user a\x1b[31mb - " + hash, "user a\u202eb - " + hash, "user a\xffb - " + hash, "user ann g\x1b " + hash, "user ann , " + hash, "king ann - " + hash,
		"user ann - " + hash[1:], strings.Repeat("x", 1<<20), "user " + strings.Repeat("x", 256) + " - " + hash,
	} {
		for at := range 3 {
			text := slices.Insert(slices.Clone(lines), at, bad+"\n")
			tokens, errs := ParseTokens([]byte(strings.Join(text, "")))
			if len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), fmt.Sprintf("line %d: ", at+1)) || strings.Contains(errs[0].Error(), bad) {
				t.Errorf("%.40q in line %d: %v", bad, at+1, errs)
			}
			for user, token := range good {
				if id, ok := tokens.find(hashToken(token)); !ok || id.User != user {
					t.Errorf("%.40q in line %d: %s's token is refused", bad, at+1, user)
				}
			}
		}
	}
}

// TestTokenLineRoundTrip checks that every line that TokenLine writes is valid for ParseTokens, and
// stays one line between others.
func TestTokenLineRoundTrip(t *testing.T) {
	name := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune("ab-,#@/\u00a0\u2028\u0085\v\f\x1b\u202e é"))))
	rapid.Check(t, func(t *rapid.T) {
		id := Identity{User: name.Draw(t, "user"), Role: User, Groups: rapid.SliceOfN(name, 0, 3).Draw(t, "groups")}
		token := NewToken()
		line, err := TokenLine(id, token)
		if err != nil {
			return
		}
		tokens, bad := ParseTokens([]byte("# first\n" + line + line))
		got, ok := tokens.find(hashToken(token))
		if len(bad) > 0 || !ok || got.User != id.User || !slices.Equal(got.Groups, id.Groups) || len(tokens.list) != 2 {
			t.Errorf("%q became %+v; %v", line, got, bad)
		}
	})
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
	f, err := OpenTokens(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]string{first: "ana", second: "bob"} {
		if id, ok := f.find(hashToken(token)); id.User != want || !ok {
			t.Errorf("%s's token: %v, %v", want, id, ok)
		}
	}
}

func FuzzParseTokens(f *testing.F) {
	line, _ := TokenLine(Identity{User: "ana", Role: User, Groups: []string{"a"}}, "x")
	f.Add([]byte(line))
	f.Add([]byte("user ana - \xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		tokens, _ := ParseTokens(data)
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
