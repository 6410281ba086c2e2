package secure

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAuthorityRefusesToOverwrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	a, err := NewAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	ana := Identity{User: "ana", Role: User}
	if err := a.Issue("ana", ana, nil, 0); err != nil {
		t.Fatal(err)
	}
	before := contents(t, dir)
	if _, err := NewAuthority(dir); err == nil || !strings.Contains(err.Error(), "exists; remove it first") {
		t.Errorf("got %v", err)
	}
	if err := a.Issue("ana", ana, nil, 0); err == nil {
		t.Error("a certificate was overwritten")
	}
	for _, name := range []string{"", "..", "../x", "ca"} {
		if err := a.Issue(name, ana, nil, 0); err == nil {
			t.Errorf("issued %q", name)
		}
	}
	for _, id := range []Identity{{User: "ana", Role: "boss"}, {User: "ana"}, {Role: User}} {
		if err := a.Issue("new", id, nil, 0); err == nil {
			t.Errorf("issued a certificate for %+v", id)
		}
	}
	if after := contents(t, dir); after != before {
		t.Errorf("files changed: %q became %q", before, after)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 4 {
		t.Errorf("%v, %v", entries, err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", e.Name(), info.Mode(), err)
		}
	}
}

func contents(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(e.Name() + string(b))
	}
	return all.String()
}

func TestKeyMustBePrivate(t *testing.T) {
	dir := t.TempDir()
	a, err := NewAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Issue("server", Identity{User: "m", Role: Master}, nil, 0); err != nil {
		t.Fatal(err)
	}
	f := a.Files("server")
	if err := os.Chmod(f.Key, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ServerTLS(f, Master); err == nil || !strings.Contains(err.Error(), "other users can read or change it") {
		t.Errorf("got %v", err)
	}
	if _, err := ClientTLS(Files{Cert: f.Cert}); err == nil {
		t.Error("a certificate without a key is accepted")
	}
}
