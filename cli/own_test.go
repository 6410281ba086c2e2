package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// ownTable has an order, newest, and a policy that uses it.
func ownTable() sched.Table {
	return sched.Table{
		Order: []sched.Part[sched.Order]{{Name: "newest", Summary: "the job that came last first",
			New: func(*sched.Kit) (sched.Order, error) {
				return sched.NewSortedOrder(func(a, b *job.Job) int { return int(b.ID() - a.ID()) }), nil
			}}},
		Policies: []sched.Row{{Name: "newest", Summary: "last come, first served", Slots: "static", Order: "newest", Place: "greedy", Speculate: "none"}},
	}
}

// ownProgram is a program called mine that adds a policy.
func ownProgram() *setup {
	s := &setup{program: "mine"}
	WithPolicies(ownTable())(s)
	return s
}

// The commands that take policies accept the program's policies.
func TestCommandsKnowOwnPolicies(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"in.txt":   "a b a\n",
		"mix.yaml": "classes:\n  - {name: one, count: 3, maps: 4, map-time: 10s}\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ command, want string }{
		{"policies", "last come, first served"},
		{"policies newest", "mine run wordcount --policy newest"},
		{"policies fifo,order=newest", "the job that came last first"},
		{"run wordcount in.txt --output out --policy newest", ""},
		{"sim --workload mix.yaml --cluster nodes=2,maps=2,reduces=1 --policy fifo,newest", "\nnewest "},
		{"__complete run --policy new", "newest"},
	} {
		var stdout, stderr bytes.Buffer
		if code := ownProgram().execute(t.Context(), strings.Fields(c.command), &stdout, &stderr); code != exitOK || !strings.Contains(stdout.String(), c.want) {
			t.Errorf("%s: status %d, want output with %q, got\n%s\n%s", c.command, code, c.want, &stdout, &stderr)
		}
	}
}

// A master of the program starts under its own policy and lets users install it.
func TestMasterKnowsOwnPolicies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	address, stopped := filepath.Join(dir, "address"), make(chan int, 1)
	go func() {
		stopped <- ownProgram().execute(ctx, []string{"master", "--dir", filepath.Join(dir, "m"), "--policy", "newest",
			"--listen", "127.0.0.1:0", "--address-file", address}, io.Discard, io.Discard)
	}()
	defer func() { cancel(); <-stopped }()
	var at []byte
	for deadline := time.Now().Add(4 * time.Minute); len(at) == 0; time.Sleep(5 * time.Millisecond) {
		if at, _ = os.ReadFile(address); time.Now().After(deadline) {
			t.Fatal("the master does not serve")
		}
	}
	for _, c := range []struct{ command, want string }{
		{"policy", "newest\n"},
		{"policy fifo", "newest → fifo\n"},
		{"policy newest", "fifo → newest\n"},
		{"policy", "newest\n"},
	} {
		var stdout, stderr bytes.Buffer
		args := append(strings.Fields(c.command), "--master", strings.TrimSpace(string(at)))
		if code := ownProgram().execute(ctx, args, &stdout, &stderr); code != exitOK || stdout.String() != c.want {
			t.Errorf("%s: status %d, want %q, got %q %s", c.command, code, c.want, &stdout, &stderr)
		}
	}
}

// Help and messages use the name of the program that runs, wherever they quote a
// command line.
func TestHelpNamesTheProgram(t *testing.T) {
	var all bytes.Buffer
	root := newRoot(ownProgram(), io.Discard)
	root.SetOut(&all)
	for _, c := range append(root.Commands(), root) {
		all.Reset()
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		if quoted := commandLine().FindString(all.String()); quoted != "" {
			t.Errorf("the help of %s still says %q", c.Name(), quoted)
		}
	}
	for _, c := range []struct {
		command string
		code    int
		want    string
	}{
		{"--help", exitOK, "mine is slotwise with these policies added: newest."},
		{"run --help", exitOK, "mine policies lists them"},
		{"run", exitMisuse, "mine: what to run is missing: an app (mine apps lists them)"},
		{"nonsense-of-a-word", exitMisuse, "mine --help lists them"},
		{"completion bash", exitOK, "bash completion V2 for mine"},
	} {
		var out bytes.Buffer
		if code := ownProgram().execute(t.Context(), strings.Fields(c.command), &out, &out); code != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: status %d, want text with %q, got\n%s", c.command, code, c.want, &out)
		}
	}
}

// A program whose table clashes with a built-in policy says so.
func TestOwnPolicyWithTakenName(t *testing.T) {
	s := &setup{program: "mine"}
	WithPolicies(sched.Table{Policies: []sched.Row{{Name: "fair", Slots: "static", Order: "fifo", Place: "greedy", Speculate: "none"}}})(s)
	var stderr bytes.Buffer
	want := "mine: the program's own policies cannot be added: policy \"fair\" exists already; choose another name\n"
	if code := s.execute(t.Context(), []string{"policies"}, io.Discard, &stderr); code != exitFailed || stderr.String() != want {
		t.Errorf("status %d and %q, want %d and %q", code, &stderr, exitFailed, want)
	}
}
