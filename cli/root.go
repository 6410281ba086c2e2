package cli

import (
	"errors"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/slotwise/slotwise/apps"
	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/base/suggest"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/live/feature"
	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/mapreduce/compression"
	"github.com/slotwise/slotwise/mapreduce/formats"
	"github.com/slotwise/slotwise/mapreduce/hdfs"
	"github.com/slotwise/slotwise/mapreduce/nodeload"
	"github.com/slotwise/slotwise/mapreduce/remote"
	"github.com/slotwise/slotwise/mapreduce/s3"
)

// newRoot builds the whole command tree, which prints results to out. It is for texts that need all
// commands: the general help, manual pages, completion, and the names of settings.
func newRoot(s *setup, out io.Writer) *cobra.Command {
	root := newBareRoot(s, out)
	for _, g := range commandGroups() {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, entry := range g.commands {
			c := entry.build(s)
			c.GroupID = g.id
			root.AddCommand(c)
		}
	}
	root.SetHelpCommandGroupID("tools")
	root.SetCompletionCommandGroupID("tools")
	// Before renameHelp, which walks all commands that exist by then.
	checkTopics(root)
	s.renameHelp(root)
	return root
}

// newRootFor returns a tree that executes args as the tree of newRoot does. If the first argument
// names a command, the tree has that command only, because building the others takes longer than a
// short command runs. Only args[0] is compared, so a flag before the command leads to the whole
// tree, which is slower and as right.
func newRootFor(s *setup, out io.Writer, args []string) *cobra.Command {
	for _, g := range commandGroups() {
		for _, entry := range g.commands {
			if len(args) == 0 || args[0] != entry.name {
				continue
			}
			root := newBareRoot(s, out)
			// The library's help command is cheap, but its completion has a command for each shell.
			root.CompletionOptions.DisableDefaultCmd = true
			root.AddCommand(entry.build(s))
			s.renameHelp(root)
			return root
		}
	}
	return newRoot(s, out)
}

// newBareRoot returns the root of a command tree without commands.
func newBareRoot(s *setup, out io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   s.program,
		Short: "MapReduce jobs over files of any size, on one machine, with no set-up",
		Long: `slotwise runs MapReduce jobs over files of any size: built-in apps, programs of
your own, or any two commands that read and write lines.

Results go to standard output, everything else to standard error. With -o json
results are JSON, and so is the error of a command that fails. The exit status is 0
for success, 1 for a failed job, 2 for misuse, 130 after an interrupt, 141 if the
reader of the output has exited.`,
		Example: `  slotwise run wordcount --input /usr/share/dict --output counts
  slotwise run --mapper cat --reducer 'uniq -c' --input logs --output counts
  slotwise apps
  slotwise generate text --size 1GiB --output words`,
		// cobra would print an error in its own form and then the usage, and the line with the message
		// would scroll away.
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          knownCommand,
	}
	// cobra's own --version takes a template of text/template. Templates call methods by name, so the
	// linker would keep all exported methods of the program, which is then a sixth larger.
	version := root.Flags().BoolP("version", "v", false, "print the version")
	root.RunE = func(c *cobra.Command, _ []string) error {
		if !*version {
			return c.Help()
		}
		_, err := io.WriteString(out, readBuild().String())
		return err
	}
	root.SetOut(out) // before checkTopics: the commands of completion keep the writer that they find
	root.SetFlagErrorFunc(flagError)
	root.PersistentFlags().SortFlags = false
	addProfiling(s, root)
	return root
}

// commandGroup is a titled part of the general help.
type commandGroup struct {
	id, title string
	commands  []commandEntry
}

// commandEntry makes a command, which has the name.
type commandEntry struct {
	name  string
	build func(*setup) *cobra.Command
}

// commandGroups returns all commands, in the groups of the general help. It is a function, because some
// commands read the table themselves.
func commandGroups() []commandGroup {
	plain := func(build func() *cobra.Command) func(*setup) *cobra.Command {
		return func(*setup) *cobra.Command { return build() }
	}
	// In the order of the general help. A newcomer reads from the top, so what runs on one machine
	// comes first.
	return []commandGroup{
		{"run", "Run jobs:", []commandEntry{
			{"run", newRun}, {"submit", newSubmit}, {"apps", plain(newApps)}, {"policies", newPolicies}, {"formats", plain(newFormats)},
			{"schema", plain(newSchema)}, {"generate", plain(newGenerate)}, {"hadoop", plain(newHadoop)},
		}},
		{"cluster", "Run and watch a cluster:", []commandEntry{
			{"master", newMaster}, {"worker", plain(newWorker)}, {"kubernetes", plain(newKubernetes)}, {"yarn", plain(newYarn)}, {"certs", plain(newCerts)},
			{"token", plain(newToken)}, {"jobs", plain(newJobs)}, {"job", plain(newJob)}, {"tasks", plain(newTasks)}, {"logs", plain(newLogs)},
			{"stack", plain(newStack)}, {"kill", plain(newKill)}, {"priority", plain(newPriority)}, {"move", plain(newMove)}, {"nodes", plain(newNodes)},
			{"masters", plain(newMasters)}, {"policy", newPolicy}, {"top", plain(newTop)}, {"history", plain(newHistory)}, {"ui", plain(newUI)},
		}},
		{"answers", "Ask a cluster:", []commandEntry{{"explain", plain(newExplain)}, {"whatif", newWhatIf}}},
		{"simulate", "Simulate:", []commandEntry{
			{"sim", newSim}, {"study", newStudy}, {"optimum", newOptimum}, {"tune", newTune}, {"size", newSize}, {"profile", newProfile},
			{"calibrate", newCalibrate}, {"repro", plain(newRepro)},
		}},
		// man is hidden: packagers call it.
		{"tools", "Tools:", []commandEntry{{"version", plain(newVersion)}, {"man", newMan}}},
	}
}

// commandNames returns the names of all commands, with the two that the library adds. renameHelp
// and renameMessage recognize quoted command lines by them, so hidden commands count, too.
func commandNames() []string {
	names := []string{"help", "completion"}
	for _, g := range commandGroups() {
		for _, entry := range g.commands {
			names = append(names, entry.name)
		}
	}
	return names
}

// checkTopics makes help and completion, which the library adds, refuse names that they do
// not know. They would print the general help and succeed.
func checkTopics(root *cobra.Command) {
	// cobra adds both only when the tree is executed, which is too late to change them.
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Run, c.RunE = nil, func(_ *cobra.Command, args []string) error {
				of, rest, err := root.Find(args)
				switch {
				case err != nil:
					return misuseError{err}
				case len(rest) > 0 && of == root:
					return knownCommand(root, rest)
				case len(rest) > 0:
					return noArgs(of, rest)
				}
				// cobra adds --help to the command that it executes, which is help. The text of the
				// other command would lack the flag.
				of.InitDefaultHelpFlag()
				return of.Help()
			}
		case "completion":
			c.Args, c.RunE = noArgs, func(c *cobra.Command, _ []string) error { return c.Help() }
		}
	}
}

// knownCommand returns an error for an unknown command, with a suggestion.
func knownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range c.Commands() {
		if !sub.Hidden {
			names = append(names, sub.Name())
		}
	}
	// Users of Hadoop's jar of examples name the program first.
	if _, err := apps.Lookup(args[0]); err == nil {
		return misuse("unknown command %q: it is an app; use slotwise run %s", args[0], args[0])
	}
	// unknown would say less: the commands are more than it lists.
	if suggest.Nearest(args[0], names) == "" {
		return misuse("unknown command %q; slotwise --help lists them", args[0])
	}
	return unknown("command", args[0], names)
}

// atMostOne accepts zero or one argument, called what in messages.
func atMostOne(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > 1 {
			return misuse("%q: only one %s can be given", args[1], what)
		}
		return nil
	}
}

// atLeastOne accepts one argument or more.
func atLeastOne(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return misuse("the %s is missing", what)
		}
		return nil
	}
}

// noArgs accepts flags only, and the commands of a command that has some.
func noArgs(c *cobra.Command, args []string) error {
	// A misspelt command of a command, such as nodes drian, gets a suggestion.
	if len(args) > 0 && c.HasAvailableSubCommands() {
		var known []string
		for _, sub := range c.Commands() {
			known = append(known, sub.Name())
		}
		return unknown(c.Name()+" command", args[0], known)
	}
	if len(args) > 0 {
		return misuse("%q: %s takes no arguments", args[0], c.Name())
	}
	return nil
}

// parseAssignments parses the values of a repeatable flag of the form name=value. A value keeps all
// behind the first = sign, since a regular expression may contain others. A name that is given
// twice is an error, because tools differ in which one wins.
func parseAssignments(flag string, values []string) (map[string]string, error) {
	m := make(map[string]string, len(values))
	for _, v := range values {
		name, value, ok := strings.Cut(v, "=")
		if !ok || name == "" {
			return nil, misuse("--%s %q: want name=value", flag, v)
		}
		if err := bounds.CheckName("a name", name); err != nil {
			return nil, misuse("--%s: %w", flag, err)
		}
		if _, twice := m[name]; twice {
			return nil, misuse("--%s %s: given twice", flag, name)
		}
		m[name] = value
	}
	return m, nil
}

// mayBeEmpty are the flags for which an empty value is no mistake: the manifests for Kubernetes
// pass the zone of the node as the rack, and a node may have none.
var mayBeEmpty = map[string]bool{"rack": true}

// checkGiven refuses arguments, and values of flags, that are given and empty. A script that
// passes one has forgotten to set a variable, and to most commands it would mean that the flag
// was left out: no tokens, or output into the working directory. Settings in the environment
// are not checked, because an empty variable is a common way to unset it.
func checkGiven(c *cobra.Command, args []string) error {
	if c.DisableFlagParsing {
		return nil // such a command checks its own arguments
	}
	var errs []error
	c.Flags().Visit(func(f *pflag.Flag) {
		// The text of a list has brackets, so it is never empty.
		empty := f.Value.String() == ""
		if list, ok := f.Value.(pflag.SliceValue); ok {
			empty = len(list.GetSlice()) == 0 || slices.Contains(list.GetSlice(), "")
		}
		if empty && !mayBeEmpty[f.Name] {
			errs = append(errs, misuse("--%s: the value is empty; give a value, or leave the flag out", f.Name))
		}
	})
	for i, arg := range args {
		if arg == "" {
			errs = append(errs, misuse("argument %d of %s is empty", i+1, c.CommandPath()))
		}
	}
	// Every mistake is reported: a script with one unset variable mostly has several.
	return errors.Join(errs...)
}

// addProfiling adds to every command hidden flags that write profiles of slotwise itself, and the
// check of given values, which runs first. They are persistent flags of the root, so the tree of
// each command has them.
func addProfiling(s *setup, root *cobra.Command) {
	var cpu, mem string
	flags := root.PersistentFlags()
	flags.StringVar(&cpu, "cpuprofile", "", "write a CPU profile to `file`")
	flags.StringVar(&mem, "memprofile", "", "write a heap profile to `file`")
	for _, name := range []string{"cpuprofile", "memprofile"} {
		flags.Lookup(name).Hidden = true
	}
	root.PersistentPreRunE = func(c *cobra.Command, args []string) error {
		if err := checkGiven(c, args); err != nil {
			return err
		}
		if cpu == "" {
			return nil
		}
		f, err := os.Create(cpu)
		if err != nil {
			return misuse("--cpuprofile: %w", err)
		}
		// A failed command needs its profile, too, and cobra runs no hook after an error.
		s.atEnd = func() {
			pprof.StopCPUProfile()
			f.Close()
		}
		return pprof.StartCPUProfile(f)
	}
	// Only after a success: what a failed command holds says little about a run.
	root.PersistentPostRunE = func(*cobra.Command, []string) error {
		if mem == "" {
			return nil
		}
		f, err := os.Create(mem)
		if err != nil {
			return misuse("--memprofile: %w", err)
		}
		defer f.Close()
		runtime.GC() // the profile should contain live memory only
		return pprof.WriteHeapProfile(f)
	}
}

// features returns all features of package mapreduce: the command line runs jobs on every storage
// and on clusters. They are made anew for each caller, which may add an observer of its run.
func features() []mapreduce.Feature {
	return []mapreduce.Feature{hdfs.Storage(), s3.Storage(), compression.Codecs(), formats.Readers(), nodeload.Meter(), remote.Client()}
}

// storages returns the registry of the features' storages, for a command's own access to files,
// beside that by its jobs. The jobs use the same drivers, so both share connections. The first call
// enables the features' codecs and formats.
var storages = sync.OnceValue(func() *storage.Schemes {
	set, err := feature.Combine(features())
	if err != nil {
		panic(err) // two features with the same purpose
	}
	return set.Schemes
})
