package cli

import (
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/slotwise/slotwise/internal/live/secure"
	"github.com/slotwise/slotwise/internal/testkit/clustertest"
)

// account returns the uid and gid of a user of this machine.
func account(t *testing.T, name string) (uid, gid int) {
	t.Helper()
	u, err := user.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	uid, err = strconv.Atoi(u.Uid)
	if err != nil {
		t.Fatal(err)
	}
	gid, err = strconv.Atoi(u.Gid)
	if err != nil {
		t.Fatal(err)
	}
	return uid, gid
}

// newOwnerCluster starts a master as the user daemon and a root worker that runs jobs as
// their users. The account `nobody` shares a group and a directory with the master. The
// function returns the flags of the users.
func newOwnerCluster(t *testing.T) (c *testCluster, token func(user string) []string) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start processes as other users")
	}
	// The group of a shared directory may write to its files.
	mask := syscall.Umask(0o002)
	t.Cleanup(func() { syscall.Umask(mask) })
	daemon, _ := account(t, "daemon")
	_, team := account(t, "nobody")
	c = &testCluster{clustertest.New(t, self(t))}
	c.Prepare = func(name string, cmd *exec.Cmd) {
		if name == "master" {
			cmd.Path = "/proc/self/exe" // the user may not enter the directory of the executable
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(daemon), Gid: uint32(team)}}
		}
	}
	shared := filepath.Join(c.Dir, "shared")
	for _, change := range []error{
		os.Chmod(filepath.Dir(c.Dir), 0o755), os.Chmod(c.Dir, 0o777|fs.ModeSticky), os.Mkdir(shared, 0o770),
		os.Chown(shared, daemon, team), os.Chmod(shared, 0o770|fs.ModeSetgid),
	} {
		if change != nil {
			t.Fatal(change)
		}
	}
	tokens, files := filepath.Join(c.Dir, "tokens"), map[string]string{}
	for name, role := range map[string]secure.Role{"nobody": secure.User, "no-such-user": secure.User, "root": secure.Admin, "w": secure.Worker} {
		text, err := secure.AddToken(tokens, secure.Identity{User: name, Role: role})
		if err != nil {
			t.Fatal(err)
		}
		files[name] = c.Write("token-"+name, text)
		if err := os.Chmod(files[name], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(tokens, daemon, team); err != nil {
		t.Fatal(err)
	}
	c.Flags = []string{"--tokens", tokens, "--storage-root", "file://" + c.Dir}
	c.StartMaster(clustertest.LoopbackHost() + ":0")
	return c, func(user string) []string { return []string{"--token-file", files[user]} }
}

// TestRunAsOwner runs a job, a job with an uploaded file and a chain as a user, under a
// master of another user. Their part files belong to the user, and they can read no file
// of root.
func TestRunAsOwner(t *testing.T) {
	t.Parallel()
	c, token := newOwnerCluster(t)
	uid, _ := account(t, "nobody")
	w := c.StartWorker("w1", append([]string{"--run-as", "owner"}, token("w")...)...)
	as := func(args ...string) []string { return append(args, token("nobody")...) }

	want := c.Words("in/a.txt", 2_000)
	c.Must(as("wordcount", "in", "--output", "shared/counts", "--split-size", "16KiB", "--reduces", "2")...)
	if got := c.Lines("shared/counts"); !slices.Equal(got, want) {
		t.Errorf("counts: %d lines, want %d", len(got), len(want))
	}
	c.Must(as("--mapper", "./map.sh", "--file", c.Write("map.sh", "#!/bin/sh\nid -un; cat >/dev/null; cat "+w.Dir+"/origin "+filepath.Join(c.Dir, "token-root")+" && echo stolen; exit 0\n"),
		"--input", "in", "--output", "shared/streamed")...)
	if got := c.Lines("shared/streamed"); !slices.Equal(got, []string{"nobody"}) {
		t.Errorf("streamed: %q", got)
	}
	c.generatePoints("64KiB")
	c.Must(as("kmeans", "points", "--output", "shared/k", "--param", "iterations=3", "--param", "k=3", "--reduces", "1")...)
	if got := c.Lines("shared/k"); len(got) == 0 {
		t.Error("the chain has no output")
	}
	parts, _ := filepath.Glob(filepath.Join(c.Dir, "shared", "*", "part-*"))
	for _, p := range parts {
		if st, err := os.Stat(p); err != nil || int(st.Sys().(*syscall.Stat_t).Uid) != uid {
			t.Errorf("%s: %v, %v", p, st, err)
		}
	}
	// An output of an earlier job is replaced.
	c.Must(as("wordcount", "in", "--output", "shared/counts", "--overwrite")...)
	if left, _ := filepath.Glob(filepath.Join(c.Dir, "shared", ".*")); len(left) > 0 {
		t.Errorf("left beside the outputs: %q", left)
	}
	for user, text := range map[string]string{"no-such-user": "has no user no-such-user", "root": "user root has the uid 0"} {
		status, out := c.Submit(append([]string{"wordcount", "in", "--output", "shared/never-" + user}, token(user)...)...)
		if status == 0 || !strings.Contains(out, text) {
			t.Errorf("%s: exit status %d\n%s", user, status, out)
		}
		status, out = c.Submit(append([]string{"kmeans", "points", "--output", "shared/chain-" + user, "--param", "k=2"}, token(user)...)...)
		if status == 0 || !strings.Contains(out, text) {
			t.Errorf("%s, chain: exit status %d\n%s", user, status, out)
		}
	}
}
