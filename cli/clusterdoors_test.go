package cli

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/live/secure"
)

// TestTokensOnLoopback runs a cluster of real processes that checks tokens and has no
// certificates. A job of ann fails after it has printed a secret, which only ann and the
// admin see. The worker refuses it to bob and to a process of the same machine without a
// token.
func TestTokensOnLoopback(t *testing.T) {
	t.Parallel()
	keys, files := t.TempDir(), map[string]string{}
	tokens := filepath.Join(keys, "tokens")
	for user, role := range map[string]secure.Role{"ann": secure.User, "bob": secure.User, "root": secure.Admin, "w1": secure.Worker} {
		token, err := secure.AddToken(tokens, secure.Identity{User: user, Role: role})
		files[user] = filepath.Join(keys, user)
		if err = errors.Join(err, os.WriteFile(files[user], []byte(token), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	shared := t.TempDir()
	c := newTestCluster(t, "--tokens", tokens, "--storage-root", "file://"+shared)
	w := c.StartWorker("w1", "--token-file", files["w1"])
	as := func(user string, args ...string) (int, string) {
		return c.Run(append(args, "--master", c.URL, "--token-file", files[user])...)
	}
	job := func(user, input, output string) (int, string) {
		return as(user, "submit", "--wait", "--no-progress", "--mapper", "echo the password is $((6*7)) >&2; exit 3", "--input", input,
			"--output", output, "--max-attempts", "1")
	}
	input, outside := filepath.Join(shared, "in.txt"), c.Write("in.txt", "a\n")
	if err := os.WriteFile(input, []byte("a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, out := job("ann", outside, shared+"/out"); status == 0 || !strings.Contains(out, "--storage-root") {
		t.Errorf("ann reads %s: %s", outside, out)
	}
	for _, output := range []string{filepath.Join(c.Dir, "m", "journal"), filepath.Join(c.Dir, "w1"), keys, c.Dir} {
		for _, user := range []string{"ann", "root"} {
			if status, out := job(user, input, output); status == 0 || !strings.Contains(out, output) {
				t.Errorf("%s writes to %s: %s", user, output, out)
			}
		}
	}
	const secret = "password is 42"
	if status, out := job("ann", input, shared+"/out"); status != exitFailed || !strings.Contains(out, secret) {
		t.Fatalf("exit status %d: %s", status, out)
	}
	_, list := as("ann", "jobs", "--all", "-o", "json")
	id := between(list, `"id":"`, `"`)
	for user, sees := range map[string]bool{"ann": true, "root": true, "bob": false} {
		for _, args := range [][]string{{"job", id}, {"tasks", id}, {"history", id, "-o", "json"}, {"logs", id + "_m_0_0"}, {"jobs", "--all", "-o", "json"}} {
			if _, out := as(user, args...); strings.Contains(out, secret) != sees {
				t.Errorf("%s, %v: %s", user, args, out)
			}
		}
	}
	// The master asks the worker for those only who may read the log.
	for user, reaches := range map[string]bool{"ann": true, "root": true, "bob": false} {
		if status, out := as(user, "stack", id+"_m_0_0"); status == exitOK || strings.Contains(out, "does not run on this worker now") != reaches {
			t.Errorf("%s asks for a stack: status %d: %s", user, status, out)
		}
	}
	for path, want := range map[string]int{"/v1/logs/" + id + "_m_0_0": http.StatusUnauthorized, "/metrics": http.StatusUnauthorized, "/healthz": http.StatusOK} {
		if status, text := w.Get(path); status != want || strings.Contains(text, secret) {
			t.Errorf("%s of the worker: %d, want %d: %s", path, status, want, text)
		}
	}
}

// between returns the text between two others.
func between(s, before, after string) string {
	_, rest, _ := strings.Cut(s, before)
	text, _, _ := strings.Cut(rest, after)
	return text
}
