package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/slotwise/slotwise/apps"
	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/mapreduce"
)

// builtinOnly is the command line with the built-in policies only.
var builtinOnly = &setup{program: product}

// execute runs a command line of slotwise in this process.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return builtinOnly.execute(ctx, args, stdout, stderr)
}

// lost is a standard output whose bytes go nowhere.
type lost struct{ err error }

func (l lost) Write([]byte) (int, error) { return 0, l.err }

// TestOutputLost runs commands whose output cannot be written: the status says so, also of commands
// that ignore the errors of single writes.
func TestOutputLost(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"policies", "fifo"}, {"hadoop", "fs", "-ls", "."}, {"hadoop", "fs", "-find", "."}, {"hadoop", "fs", "-df", "."}, {"hadoop", "fs", "-du", "."}} {
		var text bytes.Buffer
		status := execute(t.Context(), args, lost{syscall.ENOSPC}, &text)
		if status != exitFailed || !strings.Contains(text.String(), "no space left on device") {
			t.Errorf("%q with a full disk: status %d, %q, want %d and the reason", args, status, text.String(), exitFailed)
		}
		if status := execute(t.Context(), args, lost{syscall.EPIPE}, io.Discard); status != exitBrokenPipe {
			t.Errorf("%q without a reader: status %d, want %d", args, status, exitBrokenPipe)
		}
	}
}

func TestReport(t *testing.T) {
	interrupted, cancel := context.WithCancelCause(t.Context())
	cancel(terminal.ErrInterrupted)
	failure := errors.Join(errors.New("job x failed"), errors.New("file y:\nno space"))
	for _, tt := range []struct {
		ctx  context.Context
		err  error
		code int
		text string
	}{
		{t.Context(), nil, 0, ""},
		{interrupted, nil, 0, ""}, // it had ended before
		{t.Context(), failure, 1, "slotwise: job x failed; file y:; no space\n"},
		{t.Context(), misuse("--reduces %d: no", 3), 2, "slotwise: --reduces 3: no\n"},
		{interrupted, failure, 130, "slotwise: interrupted\n"},
	} {
		var b bytes.Buffer
		if code := builtinOnly.report(tt.ctx, tt.err, &b); code != tt.code || b.String() != tt.text {
			t.Errorf("%v: status %d and %q, want %d and %q", tt.err, code, b.String(), tt.code, tt.text)
		}
	}
}

// Where there is no terminal, a line is printed now and then, failures at once.
func TestJobDisplayLines(t *testing.T) {
	var b strings.Builder
	d := newJobDisplay(&b, false)
	for s := range 10 {
		p := mapreduce.Progress{
			Job: "j", ID: "1", State: "running", MapFrac: float64(s) / 10,
			Elapsed: time.Duration(s) * time.Second,
		}
		if s >= 5 {
			p.Failed, p.LastError = 1, "it broke"
		}
		d.update(p)
	}
	d.update(mapreduce.Progress{Job: "j", ID: "1", State: "failed", Elapsed: time.Minute})
	io.WriteString(d, "said by a child\n")
	d.close()
	want := "j: map 30 % (7 s left), 0 B/s\n" +
		"j: 1 attempt failed and will be made again: it broke\n" +
		"j: map 60 % (4 s left), 0 B/s\n" +
		"j: map 90 % (1 s left), 0 B/s\n" +
		"said by a child\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestQuietDisplayPassesOnWhatChildrenSay(t *testing.T) {
	var b strings.Builder
	d := newJobDisplay(&b, true)
	d.update(mapreduce.Progress{ID: "1", State: "running", Elapsed: time.Hour, Failed: 1})
	io.WriteString(d, "x\n")
	d.close()
	if b.String() != "x\n" {
		t.Errorf("printed %q", b.String())
	}
}

// An example that help shows must name an app, flags and parameters that exist.
func TestExamplesAreValid(t *testing.T) {
	root := newRoot(builtinOnly, io.Discard)
	for _, c := range root.Commands() {
		for line := range strings.Lines(c.Example) {
			words := strings.Fields(line)
			if len(words) < 2 || words[0] != "slotwise" {
				t.Errorf("%s: example %q", c.Name(), line)
				continue
			}
			of, _, err := root.Find(words[1:2]) // another command may follow it
			if err != nil {
				t.Errorf("%s: example %q: %v", c.Name(), line, err)
				continue
			}
			for i, w := range words {
				name, isFlag := strings.CutPrefix(w, "--")
				switch {
				case isFlag && of.Flags().Lookup(name) == nil && of.InheritedFlags().Lookup(name) == nil:
					t.Errorf("%s: no flag %s in %q", c.Name(), w, line)
				case w == "--param":
					checkParam(t, words[2], words[i+1])
				}
			}
		}
	}
}

func checkParam(t *testing.T, app, assignment string) {
	t.Helper()
	a, err := apps.Lookup(app)
	if err != nil {
		t.Error(err)
		return
	}
	name, _, _ := strings.Cut(assignment, "=")
	for _, p := range a.Params {
		if p.Name == name {
			return
		}
	}
	t.Errorf("%s has no parameter %s", app, name)
}

func TestRoffTakesNothingForARequest(t *testing.T) {
	got := roff(".TH x\n'quoted\na-b \\n")
	if want := "\\&.TH x\n\\&'quoted\na\\-b \\en"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// An interrupt decides the status of a command that fails with another status, such as
// hadoop fs.
func TestInterruptDecidesStatus(t *testing.T) {
	interrupted, cancel := context.WithCancelCause(t.Context())
	cancel(terminal.ErrInterrupted)
	for _, tt := range []struct {
		ctx  context.Context
		err  error
		code int
	}{
		{t.Context(), statusError(hadoopUsage), hadoopUsage},
		{interrupted, statusError(hadoopUsage), exitInterrupted},
		{interrupted, statusError(0), 0}, // it had ended before
	} {
		if code := builtinOnly.report(tt.ctx, tt.err, io.Discard); code != tt.code {
			t.Errorf("%v: status %d, want %d", tt.err, code, tt.code)
		}
	}
}

// TestGivenAndEmpty asks the check before each command for each of its flags with an empty
// value, and for an empty argument. No command accepts them. A new flag joins the test by
// its existence.
func TestGivenAndEmpty(t *testing.T) {
	t.Parallel()
	checked := 0
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		if c.DisableFlagParsing {
			return // hadoop; TestHadoopFSRefuses
		}
		if err := checkGiven(c, []string{"a", "b"}); err != nil {
			t.Errorf("%s without an empty value: %v", c.CommandPath(), err)
		}
		if err := checkGiven(c, []string{"a", ""}); err == nil || !strings.Contains(err.Error(), "argument 2 of "+c.CommandPath()+" is empty") {
			t.Errorf("%s with an empty argument: %v", c.CommandPath(), err)
		}
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		for _, name := range names {
			fresh, _, err := newRoot(builtinOnly, io.Discard).Find(strings.Fields(c.CommandPath())[1:])
			if err != nil {
				t.Fatal(err)
			}
			if fresh.ParseFlags([]string{"--" + name + "="}) != nil {
				continue // a number or a size
			}
			checked++
			err = checkGiven(fresh, nil)
			if mayBeEmpty[name] {
				if err != nil {
					t.Errorf("%s --%s=: %v", c.CommandPath(), name, err)
				}
				continue
			}
			if err == nil || !strings.Contains(err.Error(), "--"+name+": the value is empty") {
				t.Errorf("%s --%s=: %v", c.CommandPath(), name, err)
			}
		}
	}
	walk(newRoot(builtinOnly, io.Discard))
	if checked < 100 {
		t.Errorf("only %d flags can be given with an empty value", checked)
	}
	// The check comes first in a whole command line.
	for _, args := range [][]string{
		{"run", "wordcount", "--input", "none", "--output", ""}, {"run", "wordcount", "", "--output", "o"}, {"generate", "text", "--output", ""},
		{"submit", "wordcount", "--input", "none", "--output", ""}, {"sim", "--out", ""},
	} {
		var stderr bytes.Buffer
		if code := execute(t.Context(), args, io.Discard, &stderr); code != exitMisuse || !strings.Contains(stderr.String(), "is empty") {
			t.Errorf("%q: status %d, %s", args, code, stderr.String())
		}
	}
}
