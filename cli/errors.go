package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/slotwise/slotwise/internal/console"
	"github.com/slotwise/slotwise/internal/suggest"
)

// The exit statuses.
const (
	exitOK          = 0
	exitFailed      = 1
	exitMisuse      = 2
	exitInterrupted = console.ExitInterrupted
)

// misuseError is what the user can put right by typing something else.
type misuseError struct{ err error }

func (e misuseError) Error() string { return e.err.Error() }
func (e misuseError) Unwrap() error { return e.err }

// misuse makes a misuseError; the text names the flag or file at fault.
func misuse(format string, args ...any) error {
	return misuseError{fmt.Errorf(format, args...)}
}

// listAtMost is how many names an error lists.
const listAtMost = 16

// unknown makes the error for a name that is not among those known: with the
// nearest one or, failing that, with all if they are few.
func unknown(what, name string, known []string) error {
	if best := suggest.Nearest(name, known); best != "" {
		return misuse("unknown %s %q; did you mean %q?", what, name, best)
	}
	if len(known) > 0 && len(known) <= listAtMost {
		return misuse("unknown %s %q; known: %s", what, name, strings.Join(known, ", "))
	}
	return misuse("unknown %s %q", what, name)
}

// flagError turns what the flag parser says into one line that names the flag
// and, if it does not exist, the one that may be meant.
func flagError(c *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		return misuse("--%s %w", invalid.GetFlag().Name, invalidValue(invalid))
	}
	var missing *pflag.NotExistError
	if !errors.As(err, &missing) {
		return misuse("%w", err)
	}
	name := missing.GetSpecifiedName()
	if missing.GetSpecifiedShortnames() != "" {
		return misuse("unknown flag -%s", name)
	}
	var known []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, "--"+f.Name)
		}
	})
	return unknown("flag", "--"+name, known)
}

// invalidValue says what is wrong with a flag's value, without the names of
// the functions that found it out.
func invalidValue(e *pflag.InvalidValueError) error {
	kinds := map[string]string{"int": "a whole number", "uint64": "a whole number", "bool": "true or false", "duration": "a time (90s, 10m)"}
	if want, ok := kinds[e.GetFlag().Value.Type()]; ok {
		return fmt.Errorf("%q: must be %s", e.GetValue(), want)
	}
	return e.Unwrap()
}

// report prints what went wrong, if anything, and returns the exit status.
func (s *setup) report(ctx context.Context, err error, stderr io.Writer) int {
	if err == nil {
		return exitOK
	}
	if errors.Is(context.Cause(ctx), console.ErrInterrupted) {
		fmt.Fprintln(stderr, s.program+": interrupted")
		return exitInterrupted
	}
	fmt.Fprintln(stderr, s.program+":", s.renameMessage(oneLine(err)))
	var wrong misuseError
	if errors.As(err, &wrong) {
		return exitMisuse
	}
	return exitFailed
}

// oneLine returns an error's text with line ends made "; ", so that scripts
// can count on a line for an error.
func oneLine(err error) string {
	lines := strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' })
	return strings.Join(lines, "; ")
}

// counted counts what is written.
type counted struct {
	io.Writer
	n int64
}

// Write implements io.Writer.
func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n += int64(n)
	return n, err
}

// asksJSON reports whether a command line, which need not make sense, asks for an
// object.
func asksJSON(args []string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return slices.Contains(args, "--json") || slices.Contains(args, "--json=true")
}

// failure is the object that --json prints for a command that ended before it had
// one of its own: misuse, mostly.
type failure struct {
	State string `json:"state"` // failed or killed
	Error string `json:"error"`
	Exit  int    `json:"exit_status"`
}

func printFailure(w io.Writer, code int, err error) {
	f := failure{State: "failed", Error: oneLine(err), Exit: code}
	if code == exitInterrupted {
		f.State, f.Error = "killed", console.ErrInterrupted.Error()
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.Encode(f) // what cannot be written cannot be told of either; the status says it
}
