// Package cli is the slotwise command line: flags, output and exit statuses. The
// commands do their work in other packages.
//
// A command writes its result to standard output and everything else to standard
// error. The exit status is 0 for success, 1 for a failed job, 2 for misuse and
// 130 after an interrupt, 141 if the reader of the output has exited.
//
// A program that calls Main with WithPolicies is the whole command line with additional
// policies: run, sim, master, policies and explain accept them like the built-in ones.
package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/slotwise/slotwise/apps"
	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
)

// An Option changes the command line that Main runs.
type Option func(*setup)

// WithPolicies adds policies and parts to the built-in ones. Names must not be
// taken. The tables' policies may use built-in parts.
func WithPolicies(tables ...sched.Table) Option {
	return func(s *setup) { s.tables = append(s.tables, tables...) }
}

// Main runs the command line of this process and exits with its status. It does
// not return. Help texts, messages and shell completions name the program after
// its executable file.
//
// Main must be the first thing that a program does, because processes that run
// single attempts of tasks are the same program, started in another way.
func Main(options ...Option) {
	delayCollection()
	mapreduce.RunAttempt(apps.Lookup, features()...)
	s := &setup{program: strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")}
	args := hadoopArgs(s.program, os.Args[1:])
	for _, o := range options {
		o(s)
	}
	ctx, stop := terminal.Interruptible(context.Background(), s.program, os.Stderr)
	code := s.execute(ctx, args, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// delayCollection lets the heap grow to 16 MiB before its first collection. Building the command line
// and starting a job take more than the runtime's 4 MiB and leave little garbage, so that a collection
// meanwhile would take a tenth of a short command's time. Later ones come as by default, since
// larger heaps must keep to the memory that the command's flags allow.
func delayCollection() {
	if os.Getenv("GOGC") != "" {
		return
	}
	first := new([16]byte)
	runtime.SetFinalizer(first, func(*[16]byte) { debug.SetGCPercent(100) })
	debug.SetGCPercent(400)
}

// setup has the program's choices about the command line: its name and policies. Commands
// read it; execute fills in policies.
type setup struct {
	program  string // the executable's base name; product for slotwise itself
	tables   []sched.Table
	policies func() *sched.Registry // returns the built-in policies and the policies in tables
	atEnd    func()                 // runs when the command has ended, also by an error; or nil
}

// product is the program's name in the texts of this package. Programs with another
// name replace it; see setup.renameHelp.
const product = "slotwise"

// execute runs one command line and returns its exit status.
func (s *setup) execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	// A copy, because tests execute several command lines of one program at a time.
	run := *s
	s = &run
	s.policies = policies.Builtin
	if len(s.tables) > 0 { // else a command that needs no policies does not pay for the registry
		all, err := policies.Builtin().With(s.tables...)
		if err != nil {
			return s.report(ctx, fmt.Errorf("the program's own policies cannot be added: %w", err), stderr)
		}
		s.policies = func() *sched.Registry { return all }
	}
	// Every command writes through these two, so that no text of other users, jobs and
	// servers reaches a terminal unescaped. Data goes around them; see raw.
	out, text := &results{Writer: stdout}, terminal.NewEscaper(stderr)
	safe := terminal.NewEscaper(out)
	root := newRootFor(s, safe, args)
	root.SetArgs(args)
	root.SetErr(text)
	c, err := root.ExecuteContextC(ctx)
	storages().CloseIdle() // the command has ended its jobs
	if s.atEnd != nil {
		s.atEnd()
	}
	_ = safe.Flush() // out notes the error
	// A command that prints many lines need not look at the error of each.
	if err == nil {
		err = out.failed
	}
	if err != nil && out.unread() {
		return exitBrokenPipe // without a message, like other Unix tools
	}
	code := s.report(ctx, err, text)
	_ = text.Flush()
	if code != exitOK && out.n == 0 && wantsJSON(c, args) {
		f := failureOf(ctx, err)
		if c != nil && c.Annotations[asking] != "" {
			f.State = ""
		}
		printFailure(safe, f)
	}
	return code
}

// commandLine matches the quoted command lines in texts, such as "slotwise apps
// lists them". It does not match other uses of the product's name.
func commandLine() *regexp.Regexp {
	return regexp.MustCompile(`\b` + product + ` (--help|` + strings.Join(commandNames(), "|") + `)\b`)
}

// renameHelp puts the program's name in place of "slotwise" into every help text
// that quotes a command line, because a program with another name must not tell its users to
// type slotwise.
func (s *setup) renameHelp(root *cobra.Command) {
	if s.program == product {
		return
	}
	quoted := commandLine()
	rename := func(text string) string {
		if !strings.Contains(text, product+" ") { // as most texts; the expression takes 2 ms for all of them
			return text
		}
		return quoted.ReplaceAllString(text, s.program+" $1")
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		c.Short, c.Long, c.Example = rename(c.Short), rename(c.Long), rename(c.Example)
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { f.Usage = rename(f.Usage) })
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	if own := s.ownPolicies(); len(own) > 0 {
		root.Long += fmt.Sprintf("\n\n%s is %s with these policies added: %s.", s.program, product, strings.Join(own, ", "))
	}
}

// renameMessage does for an error's text what renameHelp does for help.
func (s *setup) renameMessage(text string) string {
	if s.program == product || !strings.Contains(text, product+" ") {
		return text
	}
	return commandLine().ReplaceAllString(text, s.program+" $1")
}

// ownPolicies returns the names of the policies that the program adds.
func (s *setup) ownPolicies() (names []string) {
	for _, t := range s.tables {
		for _, r := range t.Policies {
			names = append(names, r.Name)
		}
	}
	return names
}
