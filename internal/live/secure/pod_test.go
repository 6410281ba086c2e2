package secure

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

// TestPodIdentity sends requests with the token that a pod has mounted: when no other
// credentials are given, and after Kubernetes has replaced the token.
func TestPodIdentity(t *testing.T) {
	var got string
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get("Authorization") }))
	defer srv.Close()
	old := podDir
	defer func() { podDir = old }()
	podDir = t.TempDir()
	ask := func(tokenFile, want string) {
		t.Helper()
		_, c, err := Dial(srv.URL, Files{}, tokenFile)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Get(srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got != want {
			t.Errorf("sent %q, want %q", got, want)
		}
	}
	ask("", "")
	write := func(path, text string, mode os.FileMode) string {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	mounted := write(filepath.Join(podDir, podToken), "first\n", 0o644)
	ask("", "Bearer first")
	ask(write(filepath.Join(t.TempDir(), "own"), "mine", 0o600), "Bearer mine")
	_, c, err := Dial(srv.URL, Files{}, "")
	if err != nil {
		t.Fatal(err)
	}
	write(mounted, "second", 0o644)
	resp, err := c.Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if got != "Bearer second" {
		t.Errorf("after a new token: %q", got)
	}
	if f, token := withPod(Files{Cert: "c"}, ""); token != nil || f.CA != "" {
		t.Error("the pod's token is used beside a certificate")
	}
	write(filepath.Join(podDir, podCA), "x", 0o644)
	if f, _ := withPod(Files{}, ""); f.CA != filepath.Join(podDir, podCA) {
		t.Errorf("the authority is %q", f.CA)
	}
	if f, _ := withPod(Files{CA: "other"}, ""); f.CA != "other" {
		t.Errorf("the authority is %q", f.CA)
	}
}
