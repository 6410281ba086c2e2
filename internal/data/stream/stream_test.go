package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/base/counters"
)

// filter runs a command over input, fed in pieces of n bytes.
func filter(ctx context.Context, cfg Config, input string, n int) (string, error) {
	var out strings.Builder
	line := func(b []byte) error {
		out.Write(b)
		out.WriteByte('\n')
		return nil
	}
	cfg.Role = "mapper"
	c, err := Start(ctx, cfg)
	if err != nil {
		return "", err
	}
	defer c.Close()
	for b := []byte(input); len(b) > 0; {
		k := min(n, len(b))
		if err := c.Feed(b[:k], line); err != nil {
			return out.String(), err
		}
		b = b[k:]
	}
	err = c.Finish(line)
	return out.String(), err
}

func TestFilter(t *testing.T) {
	big := strings.Repeat("some line of text\n", 200_000)
	long := strings.Repeat("x", 3<<20)
	for _, c := range []struct{ name, command, in, want string }{
		{"copies", "cat", "a\nb\n", "a\nb\n"},
		{"adds the last line's end", "cat", "a\nb", "a\nb\n"},
		{"no input", "cat", "", ""},
		{"no output", "cat >/dev/null", "a\n", ""},
		{"output without input", "cat >/dev/null; echo x", "a\n", "x\n"},
		{"more than the pipes hold, both ways", "cat", big, big},
		{"a line longer than any buffer", "cat", long, long + "\n"},
		{"empty lines and odd bytes", "cat", "\n\x00\xff\r\n\n", "\n\x00\xff\r\n\n"},
		{"stops reading early", "head -n 1", big, "some line of text\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := filter(context.Background(), Config{Command: c.command}, c.in, 10_000)
			if err != nil || got != c.want {
				t.Errorf("got %d bytes %.60q, want %d; error %v", len(got), got, len(c.want), err)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain.py")
	if err := os.WriteFile(plain, []byte("print(1)\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, command, want, log string }{
		{"no program", plain, "exit status 126 (not executable: chmod +x the file, or name its interpreter", "ermission denied"},
		{"status", "cat >/dev/null; exit 3", "exit status 3", ""},
		{"status at once", "exit 3", "exit status 3", ""},
		{"does not exist", "no-such-command-at-all", "exit status 127", "not found"},
		{"says why", "echo the disk is on 'f'ire >&2; exit 1", "exit status 1", "the disk is on fire"},
		{"killed", "kill -9 $$", "killed", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := filter(context.Background(), Config{Command: c.command}, strings.Repeat("line\n", 100_000), 1000)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "mapper command") {
				t.Errorf("error %v, want one that says %q", err, c.want)
			}
			var exit *ExitError
			switch {
			case !errors.As(err, &exit):
				t.Errorf("%T is not an ExitError", err)
			case !strings.Contains(exit.LogTail(), c.log) || c.log == "" && exit.LogTail() != "":
				t.Errorf("the log tail is %q, want %q", exit.LogTail(), c.log)
			case c.log != "" && strings.Contains(err.Error(), c.log):
				t.Errorf("the error quotes the log: %v", err)
			case exit.ProgramFailed() != (strings.Contains(c.want, "127") || strings.Contains(c.want, "126")):
				t.Errorf("ProgramFailed is %v after %v", exit.ProgramFailed(), err)
			}
		})
	}
}

// TestCannotStart: a command without a shell that is missing or not executable is a failure
// of the program, as with a shell.
func TestCannotStart(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("not a program"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"no-such-command-at-all", plain + "-missing", plain} {
		_, err := Start(t.Context(), Config{Role: "mapper", Command: word, Args: []string{word}})
		failed, ok := errors.AsType[*startError](err)
		if !ok || !failed.ProgramFailed() || !strings.Contains(err.Error(), "mapper command") {
			t.Errorf("%s: error %v", word, err)
		}
	}
}

func TestStderr(t *testing.T) {
	var log bytes.Buffer
	counts := map[string]int64{}
	cfg := Config{
		Command: `cat >/dev/null
			echo reporter:counter:g,lines,2 >&2; echo hello >&2
			echo reporter:counter:g,lines,3 >&2; echo reporter:status:busy >&2
			echo reporter:counter:broken >&2; printf unfinished >&2`,
		Stderr: &log,
		Count:  func(name string, n int64) { counts[name] += n },
	}
	if _, err := filter(context.Background(), cfg, "x\n", 10); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(counts); got != "map[g.lines:5]" {
		t.Errorf("counters %s", got)
	}
	if got := log.String(); got != "hello\nreporter:counter:broken\nunfinished" {
		t.Errorf("passed on %q", got)
	}
}

// TestEndlessStderrLine: a child that prints garbage without line ends must not
// fill the memory, and all of its output must be passed on.
func TestEndlessStderrLine(t *testing.T) {
	var log bytes.Buffer
	l := &stderrLog{to: &log, prefix: "reporter:", alive: func() {}}
	want := strings.Repeat("\x00garbage", 100_000) + "\nend"
	for rest := want; rest != ""; {
		n := min(len(rest), 7777)
		l.Write([]byte(rest[:n]))
		if rest = rest[n:]; len(l.line) > maxStderrLine {
			t.Fatalf("%d bytes are kept", len(l.line))
		}
	}
	l.flush()
	if log.String() != want {
		t.Errorf("passed on %d bytes of %d, or others", log.Len(), len(want))
	}
}

// TestKill checks that a cancelled child dies with everything it started, at
// once, whether it ignores its input, its output, or signals.
func TestKill(t *testing.T) {
	for _, command := range []string{
		"sleep 1000 & echo $! >%s; sleep 1000",
		"trap '' TERM INT; sleep 1000 & echo $! >%s; cat >/dev/null; wait",
		"sleep 1000 & echo $! >%s; exec 1>&-; wait",
	} {
		pidFile := t.TempDir() + "/pid"
		ctx, cancel := context.WithCancelCause(context.Background())
		why := errors.New("because")
		go func() {
			waitFor(t, func() bool { b, _ := os.ReadFile(pidFile); return bytes.HasSuffix(b, []byte("\n")) })
			cancel(why)
		}()
		start := time.Now()
		_, err := filter(ctx, Config{Command: fmt.Sprintf(command, pidFile)}, strings.Repeat("line\n", 1<<20), 1<<16)
		if !errors.Is(err, why) {
			t.Errorf("%s: error %v", command, err)
		}
		if d := time.Since(start); d > 4*time.Minute { // the children would sleep for a quarter of an hour
			t.Errorf("%s: took %v", command, d)
		}
		b, _ := os.ReadFile(pidFile)
		pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
		if err != nil {
			t.Fatal(err)
		}
		waitFor(t, func() bool { return gone(pid) })
	}
}

// TestLeftBehind checks that what a child leaves running in the background is
// ended with it.
func TestLeftBehind(t *testing.T) {
	pidFile := t.TempDir() + "/pid"
	_, err := filter(context.Background(), Config{Command: "sleep 1000 >/dev/null 2>&1 & echo $! >" + pidFile}, "", 1)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := os.ReadFile(pidFile)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return gone(pid) })
}

// gone reports whether a process has ended; a zombie that its new parent has not
// reaped yet has.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(b), ") Z ")
}

func waitFor(t *testing.T, ok func() bool) {
	for deadline := time.Now().Add(4 * time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Error("waited in vain")
}

// TestBinaryMatches: a command that says, in either way of grep, that it has left out lines of
// binary data is counted once, and its output and log stay as they are.
func TestBinaryMatches(t *testing.T) {
	const old = "Binary file (standard input) matches"
	for _, c := range []struct {
		command string
		want    int64 // the counter
	}{
		{"cat >/dev/null; echo '" + old + "'", 1},
		{"cat >/dev/null; printf '%s' '" + old + "'", 1}, // without an end of line
		{"cat >/dev/null; echo 'grep: (standard input): binary file matches' >&2", 1},
		{"cat >/dev/null; for i in 1 2 3; do echo '" + old + "'; echo 'grep: x: binary file matches' >&2; done", 1},
		{"grep x", 1}, // whichever version is installed
		{"grep -a x", 0},
		{"grep -v x", 1},
		{"cat >/dev/null; echo 'it says: " + old + "'", 0},
		{"cat >/dev/null; echo 'no binary file matches here' >&2", 0},
	} {
		var n int64
		var log strings.Builder
		out, err := filter(context.Background(), Config{Command: c.command, Stderr: &log, Name: "j1_m_0_0", Count: func(name string, by int64) {
			if name == counters.BinaryMatches {
				n += by
			}
		}}, "x\x00y\nz\x00\n", 3)
		if err != nil || n != c.want {
			t.Errorf("%s: counted %d times, want %d; output %q, error %v", c.command, n, c.want, out, err)
		}
		for l := range strings.Lines(log.String()) {
			if !strings.HasPrefix(l, "j1_m_0_0: ") {
				t.Errorf("%s: the line %q does not name the attempt", c.command, l)
			}
		}
	}
}
