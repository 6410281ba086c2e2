package worker_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/slotwise/slotwise/internal/live/worker"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// The accounts as which the tests run attempts. Every Linux system has them.
const (
	someUser    = "nobody"
	anotherUser = "daemon"
)

// newOwnerMaster returns a master with authentication, whose jobs belong to someUser, or
// skips the test unless it runs as root.
func newOwnerMaster(t *testing.T) *fakeMaster {
	if os.Geteuid() != 0 {
		t.Skip("only root can start processes as other users")
	}
	m := newFakeMaster(t)
	if err := os.Chmod(filepath.Dir(m.dir), 0o755); err != nil { // of all temporary directories of the test
		t.Fatal(err)
	}
	m.mu.key, m.mu.owner = []byte("key"), someUser
	return m
}

// asOwner makes a worker run attempts as their job's user, also as accounts of the system.
func asOwner(c *worker.Config) { c.RunAs, c.RunAsMinUID = worker.RunAsOwner, 1 }

// uidOf returns the uid of an account.
func uidOf(t *testing.T, name string) uint32 {
	t.Helper()
	u, err := user.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(n)
}

// stat returns the mode and uid of a file.
func stat(t *testing.T, path string) (os.FileMode, uint32) {
	t.Helper()
	st, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return st.Mode(), st.Sys().(*syscall.Stat_t).Uid
}

// shareStaging lets all users write to the outputs of the master's jobs.
func (m *fakeMaster) shareStaging() {
	m.t.Helper()
	for _, pattern := range []string{".*", ".*/data", ".*/tmp"} {
		dirs, _ := filepath.Glob(filepath.Join(m.dir, pattern))
		for _, d := range dirs {
			if err := os.Chmod(d, 0o777); err != nil {
				m.t.Fatal(err)
			}
		}
	}
}

// TestRunAsOwner runs a map and a reduce as a user: the processes have the user's ids, the
// files of the job are theirs, and the map output is the worker's. The reduce fetches it.
func TestRunAsOwner(t *testing.T) {
	m := newOwnerMaster(t)
	w := m.worker("", asOwner)
	script := "#!/bin/sh\necho $(id -un) $(id -G) $HOME $USER $(stat -c %U:%a . .. tool data) $(grep -c 'NoNewPrivs.*1' /proc/self/status) $(ls /proc/self/fd | tr '\\n' ,); cat\n"
	tool, data := m.file(script), m.file("text")
	split := m.job("j1", "./tool", 1, "a\n", &slotwisev1.ShippedFile{Name: "tool", Sha256: tool, Executable: true}, &slotwisev1.ShippedFile{Name: "data", Sha256: data})
	m.shareStaging()
	m.launch("j1_m_0_0", split)
	want(t, m.ends("j1_m_0_0"), succeeded, "")
	if mode, uid := stat(t, w.output("j1", "j1_m_0_0")); mode != 0o600 || uid != 0 {
		t.Errorf("the map output has mode %v and uid %d", mode, uid)
	}
	m.do(func() {
		m.mu.where = append(m.mu.where, &slotwisev1.MapOutput{Attempt: "j1_m_0_0", Worker: w.Name(), Address: w.Address()})
	})
	m.launch("j1_r_0_0", nil)
	want(t, m.ends("j1_r_0_0"), succeeded, "")
	staged, _ := filepath.Glob(filepath.Join(m.dir, ".j1.out*", "data", "part-*"))
	if len(staged) != 1 {
		t.Fatalf("staged: %q", staged)
	}
	if _, uid := stat(t, staged[0]); uid != uidOf(t, someUser) {
		t.Errorf("the output belongs to uid %d", uid)
	}
	u, err := user.Lookup(someUser)
	if err != nil {
		t.Fatal(err)
	}
	groups, err := u.GroupIds()
	if err != nil {
		t.Fatal(err)
	}
	wantLine := fmt.Sprintf("%s %s %s %[1]s %[1]s:700 %[1]s:700 %[1]s:700 %[1]s:600 1 0,1,2,3,\n", someUser, strings.Join(groups, " "), u.HomeDir)
	if b, _ := os.ReadFile(staged[0]); string(b) != "a\n"+wantLine {
		t.Errorf("output %q, want %q", b, "a\n"+wantLine)
	}
}

// file makes a file that the master serves, and returns its hash.
func (m *fakeMaster) file(text string) (sum string) {
	h := sha256.Sum256([]byte(text))
	sum = hex.EncodeToString(h[:])
	m.do(func() { m.files[sum] = text })
	return sum
}

// TestOwnerIsConfined has an attempt try what a hostile user would: read the worker's
// files, other users' attempts and the worker's environment, signal the worker, and find a
// descriptor that the worker has inherited. The same commands succeed where attempts run
// as the worker's user.
func TestOwnerIsConfined(t *testing.T) {
	m := newOwnerMaster(t)
	secret := filepath.Join(t.TempDir(), "worker.key")
	if err := os.WriteFile(secret, []byte("key"), 0o600); err != nil {
		t.Fatal(err)
	}
	// A descriptor that the worker's parent has left open.
	fd, err := syscall.Open(secret, syscall.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	dir := t.TempDir()
	other, own := m.file("other"), filepath.Join(dir, "attempts")
	pid := os.Getpid()
	crimes := map[string]string{
		"key":       "cat " + secret,
		"file":      "cat " + filepath.Join(dir, "files", other),
		"list":      "ls " + own,
		"outputs":   "ls " + filepath.Join(dir, "outputs"),
		"logs":      "ls " + filepath.Join(dir, "logs"),
		"foreign":   "ls " + filepath.Join(own, "j1_m_0_0", "work"),
		"replace":   fmt.Sprintf("mv %[1]s/j1_m_0_0 %[1]s/moved && mv %[1]s/moved %[1]s/j1_m_0_0", own),
		"memory":    fmt.Sprintf("cat /proc/%d/environ", pid),
		"signal":    fmt.Sprintf("kill -0 %d", pid),
		"inherited": fmt.Sprintf("ls -l /proc/$PPID/fd | grep %s", secret),
	}
	var names []string
	var script strings.Builder
	for name, command := range crimes {
		names = append(names, name)
		fmt.Fprintf(&script, "if %s >/dev/null 2>&1; then echo crime-%s >&2; fi; ", command, name)
	}
	slices.Sort(names)
	script.WriteString("cat; exit 3")
	succeededIn := func(w *testWorker, attempt string) (found []string) {
		want(t, m.ends(attempt), failed, "")
		b, err := os.ReadFile(filepath.Join(w.dir, "logs", attempt+".log"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.Contains(string(b), "crime-"+name+"\n") {
				found = append(found, name)
			}
		}
		return found
	}
	for _, as := range []struct {
		how    string
		change func(*worker.Config)
		want   []string
	}{
		{"worker", func(*worker.Config) {}, names},
		{"owner", asOwner, nil},
	} {
		w := m.worker(dir, as.change)
		hold, runs, open := gate(t)
		if err := os.Chmod(filepath.Dir(strings.Fields(hold)[1]), 0o777); err != nil {
			t.Fatal(err)
		}
		m.do(func() { m.mu.owner = anotherUser })
		// An attempt of another user runs at the same time and has a shipped file.
		m.launch("j1_m_0_0", m.job("j1", hold, 1, "a\n", &slotwisev1.ShippedFile{Name: "other", Sha256: other}))
		runs(1)
		m.do(func() { m.mu.owner = someUser })
		m.launch("j2_m_0_0", m.job("j2", script.String(), 1, "a\n"))
		got := succeededIn(w, "j2_m_0_0")
		if !slices.Equal(got, as.want) {
			t.Errorf("as the %s an attempt succeeded in %q, want %q", as.how, got, as.want)
		}
		open()
		m.ends("j1_m_0_0")
		w.stop()
		m.do(func() { clear(m.mu.reports) })
	}
}

// TestOwnersRefused verifies that jobs of users that the worker must not become fail at
// once, with an error that names the user and the machine.
func TestOwnersRefused(t *testing.T) {
	m := newOwnerMaster(t)
	m.worker("", asOwner, func(c *worker.Config) { c.Host, c.RunAsMinUID = "machine-7", int(uidOf(t, someUser)) })
	for i, c := range []struct{ owner, text string }{
		{"no-such-user", "machine machine-7 has no user no-such-user"},
		{"root", "user root has the uid 0 on machine machine-7"},
		{anotherUser, "user " + anotherUser + " has the uid 1 on machine machine-7"},
		{"", "submitted without authentication"},
		{"0", "has no user 0"},
		{someUser + ":x", "has no user"},
	} {
		id := fmt.Sprintf("j%d", i+1)
		m.do(func() { m.mu.owner = c.owner })
		m.launch(id+"_m_0_0", m.job(id, "cat", 1, "a\n"))
		r := m.ends(id + "_m_0_0")
		want(t, r, failed, c.text)
		if r.GetCause() != slotwisev1.FailureCause_FAILURE_CAUSE_DENIED {
			t.Errorf("%q: cause %v, which is tried again", c.owner, r.GetCause())
		}
	}
	m.do(func() { m.mu.owner = someUser })
	m.launch("j99_m_0_0", m.job("j99", "cat", 1, "a\n"))
	want(t, m.ends("j99_m_0_0"), succeeded, "")
}

// TestForeignOutput has attempts leave something else than a plain file of their own as the
// map output. The worker must not open it for reduces, and must not wait for a pipe.
func TestForeignOutput(t *testing.T) {
	m := newOwnerMaster(t)
	w := m.worker("", asOwner)
	for i, trick := range []string{
		"touch x; ln -s $PWD/x ../output.run",
		"mkfifo ../output.run",
		"touch x; ln x ../output.run",
	} {
		id := fmt.Sprintf("j%d", i+1)
		m.launch(id+"_m_0_0", m.job(id, trick+"; cat", 1, "a\n"))
		want(t, m.ends(id+"_m_0_0"), failed, "not a plain file of its own")
		if left, _ := filepath.Glob(filepath.Join(w.dir, "outputs", id, "*")); len(left) > 0 {
			t.Errorf("%s: left %q", trick, left)
		}
	}
}

// TestLeftDirectory puts a link of another user where an attempt's directory will be, as a
// worker that was killed could leave it. The job's files must not be written behind it.
func TestLeftDirectory(t *testing.T) {
	m := newOwnerMaster(t)
	w := m.worker("", asOwner)
	target := t.TempDir()
	dir := filepath.Join(w.dir, "attempts", "j1_m_0_0")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, filepath.Join(dir, "work")); err != nil {
		t.Fatal(err)
	}
	m.launch("j1_m_0_0", m.job("j1", "test -f data && cat", 1, "a\n", &slotwisev1.ShippedFile{Name: "data", Sha256: m.file("text")}))
	want(t, m.ends("j1_m_0_0"), succeeded, "")
	if found, _ := os.ReadDir(target); len(found) > 0 {
		t.Errorf("the worker wrote %v behind a link", found)
	}
}

// TestOwnersProgram runs a downloaded executable as a user who cannot enter the directory
// in which it lies.
func TestOwnersProgram(t *testing.T) {
	m := newOwnerMaster(t)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	w := m.worker("", asOwner)
	split := m.job("j1", "id -un >&2; cat", 1, "a\n")
	sum := m.file(string(self) + "x")
	m.do(func() { m.mu.jobs["j1"].Spec.Program.Executable = sum })
	m.launch("j1_m_0_0", split)
	want(t, m.ends("j1_m_0_0"), succeeded, "")
	if b, _ := os.ReadFile(filepath.Join(w.dir, "logs", "j1_m_0_0.log")); string(b) != someUser+"\n" {
		t.Errorf("log %q", b)
	}
}

// TestRunAsRefused verifies that a worker does not start where it could not keep its
// promise, and does not register with a master without authentication.
func TestRunAsRefused(t *testing.T) {
	m := newOwnerMaster(t)
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	cfg := worker.Config{Master: "http://" + m.addr, Dir: t.TempDir(), Memory: 1 << 30}
	for text, change := range map[string]func(*worker.Config){
		"--run-as \"me\"":          func(c *worker.Config) { c.RunAs = "me" },
		"--run-as-min-uid -1":      func(c *worker.Config) { c.RunAsMinUID = -1 },
		"chmod o+x " + closed:      func(c *worker.Config) { c.Dir = filepath.Join(closed, "w") },
		"chmod o+rx":               func(c *worker.Config) { c.Executable = m.closedFile() },
		"authenticates nobody, so": func(*worker.Config) { m.do(func() { m.mu.key = nil }) },
	} {
		c := cfg
		asOwner(&c)
		change(&c)
		w, err := worker.Start(c)
		if err == nil {
			err = w.Run(t.Context())
		}
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error %v, want %q", err, text)
		}
		m.do(func() { m.mu.key = []byte("key") })
	}
	m.do(func() { // of the last case alone: a master of this version refuses the worker then
		if len(m.mu.registers) != 1 || !m.mu.registers[0].NeedsUsers {
			t.Errorf("registrations: %v", m.mu.registers)
		}
	})
}

// closedFile returns an executable that only root can execute.
func (m *fakeMaster) closedFile() string {
	path := filepath.Join(m.t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("x"), 0o700); err != nil {
		m.t.Fatal(err)
	}
	return path
}
