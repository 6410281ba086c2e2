// Package cli is the slotwise command line: flags, output and exit statuses. The
// commands do their work in other packages.
//
// A command writes its result to standard output and everything else to standard
// error. The exit status is 0 for success, 1 for a failed job, 2 for misuse and
// 130 after an interrupt, 141 if the reader of the output has exited.
//
// A program that calls Main with WithPolicies is the whole command line with additional
// policies: run, sim, master, policies and explain accept them like the built-in ones.
//
// # The life of a command line
//
// Main first asks whether this process is an attempt of a task. Then it runs the attempt and never
// returns. Else execute builds the tree with the one command that is named, parses its flags, runs
// it, closes the connections to storages, and turns the error into a message and an exit status. A
// command returns its error and does not print it: report prints it in one line, chooses the
// status, and execute prints the failure as JSON if -o json asks for that.
//
// A command does three things, and users rely on their order:
//
//  1. It checks all that it can check without an effect: values of flags, inputs, the location of the
//     output. A mistake costs a second and leaves nothing behind.
//  2. It begins the effects: files, listeners, jobs.
//  3. It prints the result when the result is durable, so that a script that reads it can use it.
//
// An interrupt cancels the context of step 2. The command then removes unfinished files and
// returns. A second interrupt ends the process without that. So the file of a result gets its name
// last (writeFile), and a killed command leaves at most a hidden temporary file.
//
// # What to change where
//
// To add a command: write a function newX that returns a cobra.Command with Use, Short, Long, Example and
// Args, and add a row to commandGroups in root.go. A command that asks a master is completed by
// newUserCommand, which brings the flags of the connection, settings from files and the
// environment, and errors in words for users. The section on tests has the rest
// of the steps.
//
// To add a flag to run or submit: programs of mapreduce.Main should have most flags, too, so
// look first whether it belongs into package feature (DataFlags, LocalFlags, DeclareRequest). Any
// other flag is a line of runFlags.register. In both cases give it a group in groupJobFlags, a
// check in checkValues that names the flag, and a word in checkMixFlags if --jobs must refuse it.
//
// To add a knob of a job, which the scheduler reads: docs/architecture.md has the steps. The steps
// in this package are its group in groupJobFlags and a row of Hadoop's properties in hadoopjar.go.
//
// To add a JSON document: call addPrint, and print one object or one array with encode. Answers of a
// master are printed by printMessage from the .proto file, so a field that is added there
// appears without a change here. Scripts read the keys: one that exists keeps its name.
//
// # Tests
//
// A script of testdata/script is a user at a shell: it starts masters and workers, runs commands,
// compares outputs and statuses, interrupts and kills. SLOTWISE_REWRITE=1 writes what cmp compares
// with anew, such as the help texts in help.txt; read the difference before you keep it.
// TestExamplesAreValid parses the flags of each example. TestForeignText runs every command over
// names and files that hold control characters, and fails for a command without a row in its table.
// Tests with "real" or the name of a tool in their file's name compare with Hadoop, mrjob or Luigi
// and skip themselves where those are not installed.
//
// # Text of others
//
// Names of jobs, errors of servers and logs are chosen by other users. Both outputs of a command are
// a terminal.Escaper, so these texts cannot act on this user's terminal. Values in tables are written
// with terminal.Fprintf, which escapes line ends, too. Data goes to raw(w) unchanged.
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

// WithPolicies adds policies and parts to the built-in ones. Names must not be taken. The tables'
// policies may use built-in parts. A mistake in a table, such as a name that exists, ends every
// command line with an error, help excepted: the program's author sees it at the first try.
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
	// It does not return in the process of an attempt. It comes before the flags, because the arguments
	// of an attempt belong to its job, and before the handler of interrupts: a Ctrl-C at a worker's
	// terminal reaches the attempts, too, and the worker decides when they end.
	mapreduce.RunAttempt(apps.Lookup, features()...)
	s := &setup{program: strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")}
	// A link called hadoop, mapred or hdfs to this program behaves as Hadoop's script of that name.
	args := hadoopArgs(s.program, os.Args[1:])
	for _, o := range options {
		o(s)
	}
	ctx, stop := terminal.Interruptible(context.Background(), s.program, os.Stderr)
	code := s.execute(ctx, args, os.Stdout, os.Stderr)
	// Not with defer: os.Exit runs no deferred calls.
	stop()
	os.Exit(code)
}

// delayCollection lets the heap grow to 16 MiB before its first collection. Building the command line
// and starting a job take more than the runtime's 4 MiB and leave little garbage, so that a collection
// meanwhile would take a tenth of a short command's time. Later ones come as by default, since
// larger heaps must keep to the memory that the command's flags allow.
//
// A finalizer is the only sign of the first collection that costs nothing until then. Its object
// has 16 bytes, because smaller ones share a block and live as long as their neighbours.
func delayCollection() {
	// The user has chosen, perhaps "off".
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
	// A copy, because tests execute several command lines of one program at a time, and policies and
	// atEnd belong to one command line.
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
	// results is below the escaper, so that it counts the bytes that leave, with the error of the first
	// one that does not.
	safe := terminal.NewEscaper(out)
	root := newRootFor(s, safe, args)
	root.SetArgs(args)
	root.SetErr(text)
	c, err := root.ExecuteContextC(ctx)
	storages().CloseIdle() // the command has ended its jobs
	// Here and not in a hook of the command: cobra runs no hook after an error.
	if s.atEnd != nil {
		s.atEnd()
	}
	_ = safe.Flush() // out notes the error
	// A command that prints many lines need not look at the error of each.
	if err == nil {
		err = out.failed
	}
	// Whatever the error is: a job that was cancelled because its output could not be written reports
	// the cancelling.
	if err != nil && out.unread() {
		return exitBrokenPipe // without a message, like other Unix tools
	}
	code := s.report(ctx, err, text)
	_ = text.Flush()
	// A reader of JSON parses standard output whatever the status. It must find one document there: the
	// result if the command has printed one, else the failure.
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
		if !strings.Contains(text, product+" ") { // as most texts; the expression takes 2 ms for all texts
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

// renameMessage does for an error's text what renameHelp does for help. It is called for the one
// error that is printed, since a message is written by packages that do not know the program's
// name.
func (s *setup) renameMessage(text string) string {
	if s.program == product || !strings.Contains(text, product+" ") {
		return text
	}
	return commandLine().ReplaceAllString(text, s.program+" $1")
}

// ownPolicies returns the names of the policies that the program adds. Without any, the help says
// nothing of policies.
func (s *setup) ownPolicies() (names []string) {
	for _, t := range s.tables {
		for _, r := range t.Policies {
			names = append(names, r.Name)
		}
	}
	return names
}
