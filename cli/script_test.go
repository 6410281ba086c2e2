package cli

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/testkit/clustertest"
)

func TestMain(m *testing.M) {
	runTestAttempt()
	clustertest.ManyAtOnce()
	testscript.Main(testsAndProgram{m}, map[string]func(){"slotwise": func() { Main() }, "stubborn": stubborn})
}

// stubborn is a command that takes no notice of the first interrupt.
func stubborn() {
	ctx, stop := terminal.Interruptible(context.Background(), "slotwise", os.Stderr)
	defer stop()
	os.WriteFile("started", nil, 0o666)
	<-ctx.Done()
	time.Sleep(time.Second / 2) // an interrupt that comes at once is the same one
	os.WriteFile("told", nil, 0o666)
	time.Sleep(20 * time.Minute)
}

// TestScript runs the scripts of testdata/script, each of which is a user at a
// shell. With SLOTWISE_REWRITE=1 what cmp compares with is rewritten.
func TestScript(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("SLOTWISE_REWRITE") != "",
		Setup: func(e *testscript.Env) error {
			// A race-instrumented process would sleep for a second as it ends.
			e.Setenv("GORACE", "atexit_sleep_ms=0")
			root, err := filepath.Abs("..")
			e.Setenv("REPOSITORY", root)
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":      exits,
			"json":       checkJSON,
			"interrupts": interrupts,
			"master":     useMaster,
			"addresses":  addresses,
			"appears": func(ts *testscript.TestScript, _ bool, globs []string) {
				for _, g := range globs {
					waitFor(ts, ts.MkAbs(g))
				}
			},
		},
	})
}

// addresses sets variables to addresses of this machine that nothing uses.
//
//	addresses A B C
func addresses(ts *testscript.TestScript, neg bool, names []string) {
	host := clustertest.LoopbackHost()
	for _, name := range names {
		l, err := net.Listen("tcp", host+":0")
		ts.Check(err)
		defer l.Close() // after all are chosen: no two are equal
		ts.Setenv(name, l.Addr().String())
	}
}

// exits runs a command that must end with a given status, and with at most one
// line on standard error if it is misuse.
//
//	exits 2 slotwise run nonsense
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND [ARG]...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	if got := exitStatus(err); got != want {
		ts.Fatalf("exit status %d, want %d (%v)", got, want, err)
	}
	text := ts.ReadFile("stderr")
	if want == exitMisuse && (strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, "slotwise: ")) {
		ts.Fatalf("misuse must be told in one line, not in:\n%s", text)
	}
}

func exitStatus(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	return -1
}

// checkJSON checks that a file is one JSON value and that the value at a path
// of names and indexes prints as the wanted text. A missing value is null.
//
//	json stdout jobs.0.maps 3
func checkJSON(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 || len(args)%2 == 0 {
		ts.Fatalf("usage: json FILE [PATH VALUE]...")
	}
	var v any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &v))
	for i := 1; i < len(args); i += 2 {
		at := v
		for _, step := range strings.Split(args[i], ".") {
			switch x := at.(type) {
			case map[string]any:
				at = x[step]
			case []any:
				n, err := strconv.Atoi(step)
				ts.Check(err)
				if at = nil; n < len(x) {
					at = x[n]
				}
			default:
				at = nil
			}
		}
		got, err := json.Marshal(at)
		ts.Check(err)
		if s, isString := at.(string); isString {
			got = []byte(s)
		}
		if string(got) != args[i+1] {
			ts.Fatalf("%s is %s, want %s", args[i], got, args[i+1])
		}
	}
}

// interrupts starts a command, waits until a file matches a glob, sends SIGINT
// (again for each further glob), and requires that the command ends with status
// 130 soon.
//
//	interrupts 'started*' slotwise run --mapper ...
func interrupts(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: interrupts GLOBS COMMAND [ARG]...")
	}
	c := exec.Command(lookPath(ts, args[1]), args[2:]...)
	c.Dir = ts.Getenv("WORK")
	c.Env = append(os.Environ(), "TMPDIR="+ts.Getenv("TMPDIR"), "GORACE="+ts.Getenv("GORACE"))
	c.Stdout, c.Stderr = ts.Stdout(), ts.Stderr()
	ts.Check(c.Start())
	defer c.Process.Kill()
	for _, glob := range strings.Fields(args[0]) {
		waitFor(ts, ts.MkAbs(glob))
		ts.Check(c.Process.Signal(os.Interrupt))
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	select {
	case err := <-ended:
		if got := exitStatus(err); got != exitInterrupted {
			ts.Fatalf("exit status %d, want %d", got, exitInterrupted)
		}
	case <-time.After(5 * time.Minute): // no command of the scripts ends by itself before
		ts.Fatalf("still running five minutes after the interrupt")
	}
}

// lookPath finds a command in the script's PATH, which is not the test's.
func lookPath(ts *testscript.TestScript, name string) string {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	ts.Fatalf("no command %s", name)
	return ""
}

// waitFor waits until a file matches a glob.
func waitFor(ts *testscript.TestScript, glob string) {
	for deadline := time.Now().Add(4 * time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if found, err := filepath.Glob(glob); err != nil || len(found) > 0 {
			ts.Check(err)
			return
		}
	}
	ts.Fatalf("no file matches %s", glob)
}

// useMaster waits until a master has written its address to a file, and has the
// commands that follow speak to it.
//
//	exec slotwise master --dir m --listen 127.0.0.1:0 --address-file address &master&
//	master address
func useMaster(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: master FILE")
	}
	waitFor(ts, ts.MkAbs(args[0]))
	ts.Setenv("SLOTWISE_MASTER", strings.TrimSpace(ts.ReadFile(args[0])))
}
