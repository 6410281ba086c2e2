package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/slotwise/slotwise/internal/base/suggest"
	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/data/input"
	"github.com/slotwise/slotwise/internal/live/local"
)

// The exit statuses. Shells use 2 for wrong usage, too, and 128 + n for the end by signal n.
// Documents and scripts of users name these numbers, so a new kind of failure gets an old number.
const (
	exitOK          = 0
	exitFailed      = 1
	exitMisuse      = 2
	exitInterrupted = terminal.ExitInterrupted
	exitBrokenPipe  = terminal.ExitBrokenPipe
)

// misuseError is an error that the user can correct by another command line or another file. It
// gives exit status 2. Every other error gives 1. Scripts use the difference: after 2 the same
// command line will fail again, after 1 another try, or the log of the job, may help.
type misuseError struct{ err error }

func (e misuseError) Error() string { return e.err.Error() }
func (e misuseError) Unwrap() error { return e.err }

// misuse returns a misuseError. The text names the flag or file.
func misuse(format string, args ...any) error {
	return misuseError{fmt.Errorf(format, args...)}
}

// listAtMost bounds the names that an error lists. They make one line of text, which a terminal
// breaks into a few rows.
const listAtMost = 16

// unknown returns the error for an unknown name. It suggests the nearest known name or, if none is
// near, lists all if they are few. A near name gets no list, because its user knows the list and
// has mistyped.
func unknown(what, name string, known []string) error {
	if best := suggest.Nearest(name, known); best != "" {
		return misuse("unknown %s %q; did you mean %q?", what, name, best)
	}
	if len(known) > 0 && len(known) <= listAtMost {
		return misuse("unknown %s %q; known: %s", what, name, strings.Join(known, ", "))
	}
	// "known:" with nothing behind it would look like a defect of the message.
	if len(known) == 0 {
		return misuse("unknown %s %q; there is none", what, name)
	}
	return misuse("unknown %s %q", what, name)
}

// flagError turns an error of the flag parser into one line that names the flag
// and, for an unknown flag, suggests a similar one.
func flagError(c *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		// The short form -o names the output in other tools, so its wrong values have their own message.
		if isPrintForm(invalid.GetFlag()) {
			return notAForm(c, invalid.GetValue())
		}
		return misuse("--%s %w", invalid.GetFlag().Name, invalidValue(invalid))
	}
	var missing *pflag.NotExistError
	if !errors.As(err, &missing) {
		return misuse("%w", err)
	}
	name := missing.GetSpecifiedName()
	var known []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, "--"+f.Name)
		}
	})
	if group := missing.GetSpecifiedShortnames(); group != "" {
		// pflag reads -input as the short flags -i, -n, -p, -u and -t.
		long, _, _ := strings.Cut(group, "=")
		if best := suggest.Nearest("--"+long, known); best != "" && len(long) > 1 {
			return misuse("unknown flag -%s; did you mean %q?", long, best)
		}
		// One letter is too short for a comparison of spellings.
		if best := initials[name]; slices.Contains(known, best) {
			return misuse("unknown flag -%s; did you mean %q?", name, best)
		}
		return misuse("unknown flag -%s", name)
	}
	// Before the spelling is compared: the flag is spelt well, and belongs to another command.
	if remedy := c.Annotations[elsewhere+name]; remedy != "" {
		return misuse("unknown flag --%s: %s", name, remedy)
	}
	return unknown("flag", "--"+name, known)
}

// initials are the flags that users of other tools mean by one letter.
var initials = map[string]string{"i": "--input", "m": "--mapper", "r": "--reducer"}

// elsewhere begins the keys of a command's annotations about flags that users expect but the
// command lacks. The flag's name follows in the key; the value names what to use instead.
const elsewhere = "instead of --"

// invalidValue returns the error for a flag's value, without the names of the parsing functions.
// Such an error is "strconv.ParseInt: parsing ...: invalid syntax", which names no remedy.
func invalidValue(e *pflag.InvalidValueError) error {
	kinds := map[string]string{"int": "a whole number", "uint64": "a whole number", "bool": "true or false", "duration": "a time (90s, 10m)"}
	if want, ok := kinds[e.GetFlag().Value.Type()]; ok {
		return fmt.Errorf("%q: must be %s", e.GetValue(), want)
	}
	return e.Unwrap()
}

// report prints an error, if there is one, and returns the exit status. No other function prints
// the error of a command, so that it appears once.
func (s *setup) report(ctx context.Context, err error, stderr io.Writer) int {
	if err == nil {
		return exitOK
	}
	var status statusError
	// Hadoop's commands have printed their message already, in Hadoop's words, and programs that call
	// them compare the status.
	if errors.As(err, &status) {
		if status != exitOK && errors.Is(context.Cause(ctx), terminal.ErrInterrupted) {
			return exitInterrupted // whatever status Hadoop's program has for its failure
		}
		return int(status)
	}
	// Whatever err is: after an interrupt it mostly comes from work that was cancelled, such as a read
	// that failed, and would send the user in search of a fault that does not exist.
	if errors.Is(context.Cause(ctx), terminal.ErrInterrupted) {
		terminal.Fprintf(stderr, "%s: interrupted\n", s.program)
		return exitInterrupted
	}
	terminal.Fprintf(stderr, "%s: %s\n", s.program, s.renameMessage(oneLine(err)))
	return statusOf(err)
}

// statusOf returns the exit status for an error that is no interrupt. The errors of other packages
// that the user can correct are listed here, because those packages know no exit statuses: an input
// that cannot be read, and a job that the local cluster refuses.
func statusOf(err error) int {
	if errors.As(err, new(misuseError)) || errors.Is(err, input.ErrUnreadable) || errors.As(err, new(local.Refusal)) {
		return exitMisuse
	}
	return exitFailed
}

// notifyOn returns a function that prints on out what the program waits for. Without such a line a
// user takes the wait for a storage or a master for a hang.
func notifyOn(out io.Writer, program string) func(text string) {
	return func(text string) { terminal.Fprintf(out, "%s: %s\n", program, text) }
}

// oneLine returns an error's text with line ends replaced by "; ", because
// scripts expect one line per error. Tabs become spaces.
func oneLine(err error) string {
	// FieldsFunc drops empty lines, such as the one at the end of a log.
	lines := strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' })
	return strings.ReplaceAll(strings.Join(lines, "; "), "\t", " ")
}

// raw returns the writer below an output of a command that escapes. Data is written there, such as
// the output of a job, and the program's own escape sequences. It is for two things only: bytes
// that are the user's own result, and sequences that this program composes without text of others.
func raw(w io.Writer) io.Writer {
	if e, ok := w.(*terminal.Escaper); ok {
		return e.Raw()
	}
	return w
}

// results is standard output. It notes what became of the bytes that a command printed.
type results struct {
	io.Writer
	n      int64
	failed error // of the first write that failed; nil if none did
}

// unread reports whether the reader has exited, as in slotwise … | head.
func (r *results) unread() bool { return errors.Is(r.failed, syscall.EPIPE) }

// Write implements io.Writer.
func (r *results) Write(p []byte) (int, error) {
	n, err := r.Writer.Write(p)
	r.n += int64(n)
	// The first error is the cause. Later writes fail, too, perhaps with another text.
	if r.failed == nil {
		r.failed = err
	}
	return n, err
}

// failure is the object that a command prints instead of a result if its user asks for
// JSON. A result of a job that failed has the same fields.
type failure struct {
	// State is failed or killed. It is "" for a command that asks about jobs: a script that
	// polls a job would take the failure of the question for the job's.
	State string `json:"state,omitempty"`
	Error string `json:"error"`
	Exit  int    `json:"exit_status"`
}

// failureOf returns the failure of a command that ends with err, or nil without an error. Like
// report it asks for an interrupt first, so that the status in the object is the one of the
// process.
func failureOf(ctx context.Context, err error) *failure {
	switch {
	case err == nil:
		return nil
	case errors.Is(context.Cause(ctx), terminal.ErrInterrupted):
		return &failure{"killed", terminal.ErrInterrupted.Error(), exitInterrupted}
	}
	return &failure{"failed", oneLine(err), statusOf(err)}
}

// printFailure prints a failure. It ignores write errors; the exit status still
// reports the failure.
func printFailure(w io.Writer, f *failure) {
	_ = encode(w, f)
}
