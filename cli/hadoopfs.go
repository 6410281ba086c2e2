package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/data/hadoop"
	"github.com/slotwise/slotwise/internal/data/input"
	"github.com/slotwise/slotwise/internal/data/storage"
)

// fsCommand describes a command of hadoop fs. A flag that is not listed is refused: a flag that is
// accepted has its effect. refused lists Hadoop's other flags, for a message that says so.
//
// To add a command: add an entry below and a method of fsCall. A method goes through its arguments
// with each or eachNew, which print an error for a path and continue, as Hadoop's does.
type fsCommand struct {
	flags    []string // flags without a value, each with its dash
	values   []string // flags with a value
	refused  []string // flags that Hadoop has and slotwise has not
	min, max int      // number of arguments; max 0 for any number
	usage    string
	run      func(*fsCall) error
}

// fsCommands are the commands of hadoop fs by name.
var fsCommands map[string]*fsCommand

// In a function, because methods in the table read the table, for the usage in their messages. Go
// refuses such a circle in a declaration.
func init() {
	put := &fsCommand{flags: []string{"-f"}, refused: []string{"-p", "-l", "-d", "-t", "-q"}, min: 1, usage: "[-f] LOCAL... DST", run: (*fsCall).put}
	get := &fsCommand{flags: []string{"-f"}, refused: []string{"-p", "-crc", "-ignoreCrc", "-t", "-q"}, min: 1, usage: "[-f] SRC... LOCAL", run: (*fsCall).get}
	cat := &fsCommand{refused: []string{"-ignoreCrc"}, min: 1, usage: "SRC...", run: (*fsCall).cat}
	ls := &fsCommand{flags: []string{"-C", "-d", "-h", "-q", "-R", "-t", "-S", "-r"}, refused: []string{"-u", "-e"}, usage: "[-C] [-d] [-h] [-q] [-R] [-t] [-S] [-r] [PATH...]", run: (*fsCall).ls}
	// Trash is not kept, as in Hadoop without fs.trash.interval, so -skipTrash changes nothing.
	rm := &fsCommand{flags: []string{"-f", "-r", "-R", "-skipTrash", "-safely"}, min: 1, usage: "[-f] [-r|-R] [-skipTrash] [-safely] SRC...", run: (*fsCall).rm}
	// -x leaves out snapshots, which no listing has.
	du := &fsCommand{flags: []string{"-s", "-h", "-v", "-x"}, usage: "[-s] [-h] [-v] [-x] PATH...", run: (*fsCall).du}
	// Scripts call these after each copy; see accept.
	accept := &fsCommand{flags: []string{"-R"}, min: 2, usage: "[-R] VALUE PATH...", run: (*fsCall).accept}
	// -w waits for the copies, and would wait for ever.
	setrep := &fsCommand{flags: []string{"-R"}, refused: []string{"-w"}, min: 2, usage: "[-R] VALUE PATH...", run: (*fsCall).accept}
	fsCommands = map[string]*fsCommand{
		"ls": ls, "lsr": ls, "put": put, "copyFromLocal": put, "get": get, "copyToLocal": get, "cat": cat, "text": cat,
		"mkdir": {flags: []string{"-p"}, min: 1, usage: "[-p] PATH...", run: (*fsCall).mkdir},
		"rm":    rm, "rmr": rm, "du": du, "dus": du,
		"rmdir":        {flags: []string{"--ignore-fail-on-non-empty"}, min: 1, usage: "[--ignore-fail-on-non-empty] DIR...", run: (*fsCall).rmdir},
		"mv":           {min: 2, usage: "SRC... DST", run: (*fsCall).mv},
		"cp":           {flags: []string{"-f"}, refused: []string{"-p", "-d", "-t", "-q"}, min: 2, usage: "[-f] SRC... DST", run: (*fsCall).cp},
		"head":         {min: 1, max: 1, usage: "FILE", run: (*fsCall).end},
		"tail":         {refused: []string{"-f", "-s"}, min: 1, max: 1, usage: "FILE", run: (*fsCall).end},
		"touchz":       {min: 1, usage: "PATH...", run: (*fsCall).touchz},
		"test":         {flags: []string{"-d", "-e", "-f", "-s", "-z"}, refused: []string{"-w", "-r"}, min: 1, max: 1, usage: "-[defsz] PATH", run: (*fsCall).test},
		"getmerge":     {flags: []string{"-nl", "-skip-empty-file"}, min: 2, usage: "[-nl] [-skip-empty-file] SRC... LOCAL", run: (*fsCall).getmerge},
		"stat":         {refused: []string{"-R"}, min: 1, usage: "[FORMAT] PATH...", run: (*fsCall).stat},
		"find":         {flags: findFlags, values: findValues, usage: "[PATH...] [-name GLOB] [-iname GLOB] [-print] [-print0]", run: (*fsCall).find},
		"count":        {flags: []string{"-q", "-h", "-v", "-x"}, refused: []string{"-u", "-t", "-e", "-s"}, min: 1, usage: "[-q] [-h] [-v] [-x] PATH...", run: (*fsCall).count},
		"df":           {flags: []string{"-h"}, usage: "[-h] [PATH...]", run: (*fsCall).df},
		"checksum":     {flags: []string{"-v"}, min: 1, usage: "[-v] SRC...", run: (*fsCall).checksum},
		"appendToFile": {refused: []string{"-n"}, min: 2, usage: "LOCAL... DST", run: (*fsCall).appendToFile},
		"chmod":        accept, "chown": accept, "chgrp": accept, "setrep": setrep,
	}
}

// fsDeprecated maps the old names of commands to a flag and to the present command. The words of
// the message differ in their dashes, which Hadoop's do, too.
var fsDeprecated = map[string][2]string{"lsr": {"-R", "ls -R"}, "rmr": {"-r", "-rm -r"}, "dus": {"-s", "du -s"}}

// fsCall is one call of hadoop fs. args are the words behind the flags; each command takes its own
// last one as a destination if it has one. failed decides the status, after all paths have been
// tried.
type fsCall struct {
	*hadoopCommand
	name   string // without the dash
	flags  map[string]string
	args   []string
	failed bool     // on some path
	above  []string // the directories of a walk, from its root, without links

	answers *bufio.Reader // of standard input, nil before the first question
}

// has reports whether a flag was given.
func (c *fsCall) has(flag string) bool {
	_, ok := c.flags[flag]
	return ok
}

// fs runs hadoop fs.
//
// Statuses and messages follow Hadoop's FsShell. After wrong usage the message names the command
// with its dash, the usage follows, and the status is 255. After the failure of a path the message
// names the command without the dash, the other paths are still done, and the status is 1. A
// deprecated name prints a line and works.
func (h *hadoopCommand) fs(args []string) error {
	g, args, err := hadoop.ParseGeneric(args)
	if err != nil {
		terminal.Fprintf(h.err, "%s\n", err)
		return exit(hadoopUsage)
	}
	settings, err := givenSettings(g)
	if err != nil {
		terminal.Fprintf(h.err, "%s\n", oneLine(err))
		return exit(hadoopFailed)
	}
	for _, s := range settings {
		h.conf.Set(s.Name, s.Value)
	}
	h.setDefault(cmp.Or(g.FS, h.conf.Get("fs.defaultFS", "")))
	if len(args) == 0 {
		h.fsUsage(h.err)
		return exit(hadoopUsage)
	}
	name, dash := strings.CutPrefix(args[0], "-")
	// Help is answered before the storage is touched, which may not be there.
	if dash && (name == "help" || name == "usage") {
		return h.fsHelp(args[1:])
	}
	cmd := fsCommands[name]
	if !dash || cmd == nil {
		terminal.Fprintf(h.err, "%s: Unknown command\n", args[0])
		// Commands of other tools have no dash, so this mistake gets a hint.
		if !dash {
			terminal.Fprintf(h.err, "Did you mean -%s?  This command begins with a dash.\n", name)
		}
		h.fsUsage(h.err)
		return exit(hadoopUsage)
	}
	c := &fsCall{hadoopCommand: h, name: name, flags: map[string]string{}}
	if old, ok := fsDeprecated[name]; ok {
		terminal.Fprintf(h.err, "%s: DEPRECATED: Please use '%s' instead.\n", name, old[1])
		c.flags[old[0]] = ""
	}
	if text := c.parse(cmd, args[1:]); text != "" {
		return c.misused(text)
	}
	if err := cmd.run(c); err != nil {
		return err
	}
	// A command goes through all its paths and reports each failure, as Hadoop's does. The
	// status tells scripts that there was one.
	if c.failed {
		return exit(hadoopFailed)
	}
	return nil
}

// misused prints the message for a wrong usage and the command's usage.
func (c *fsCall) misused(text string) error {
	terminal.Fprintf(c.err, "-%s: %s\nUsage: hadoop fs [generic options] -%s %s\n", c.name, text, c.name, fsCommands[c.name].usage)
	return exit(hadoopUsage)
}

// fsHelp prints the usage of the named commands, or of all.
func (h *hadoopCommand) fsHelp(names []string) error {
	if len(names) == 0 {
		h.fsUsage(h.out)
	}
	for _, name := range names {
		name = strings.TrimPrefix(name, "-")
		cmd := fsCommands[name]
		if cmd == nil {
			terminal.Fprintf(h.err, "%s: Unknown command\n", name)
			return exit(hadoopUsage)
		}
		terminal.Fprintf(h.out, "Usage: hadoop fs [generic options] -%s %s\n", name, cmd.usage)
	}
	return nil
}

// fsUsage prints the commands.
func (h *hadoopCommand) fsUsage(w io.Writer) {
	fmt.Fprintln(w, "Usage: hadoop fs [generic options]")
	names := make([]string, 0, len(fsCommands))
	for name := range fsCommands {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		terminal.Fprintf(w, "\t[-%s %s]\n", name, fsCommands[name].usage)
	}
}

// parse takes the flags and the arguments of a command. It returns the message for a wrong
// usage, or "". An argument that CheckPath refuses is a wrong usage of every command, as in
// Hadoop, and comes before the command does anything: a script that passes an empty path has
// forgotten to set a variable, and the path would name the home or the working directory.
func (c *fsCall) parse(cmd *fsCommand, args []string) string {
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
		f := args[0]
		args = args[1:]
		switch {
		// Ends the flags: a file may have a name that begins with a dash.
		case f == "--":
		case slices.Contains(cmd.flags, f):
			c.flags[f] = ""
			continue
		case slices.Contains(cmd.values, f) && len(args) > 0:
			c.flags[f], args = args[0], args[1:]
			continue
		// Ignoring an option would do something else than the script expects, such as not
		// preserving times.
		case slices.Contains(cmd.refused, f):
			return "Illegal option " + f + ": slotwise does not have this option of Hadoop's"
		default:
			return "Illegal option " + f
		}
		break
	}
	for _, arg := range args {
		if err := hadoop.CheckPath(arg); err != nil {
			return err.Error()
		}
	}
	if len(args) < cmd.min {
		return fmt.Sprintf("Not enough arguments: expected %d but got %d", cmd.min, len(args))
	}
	if cmd.max > 0 && len(args) > cmd.max {
		return fmt.Sprintf("Too many arguments: expected %d but got %d", cmd.max, len(args))
	}
	c.args = args
	return ""
}

// fail prints the error about a path and notes it, in Hadoop's form: the name without its dash, and
// the path as typed. It is one line, and nothing else may be on standard error: mrjob compares all
// of standard error with the pattern ls: .*No such file.*
func (c *fsCall) fail(typed string, err error) {
	c.failed = true
	terminal.Fprintf(c.err, "%s: `%s': %s\n", c.name, typed, fsReason(err))
}

// Errors of paths for which package fs has no value.
var (
	errNotDir     = errors.New("Is not a directory")     //nolint:staticcheck // Hadoop's words
	errIsDir      = errors.New("Is a directory")         //nolint:staticcheck // Hadoop's words
	errNotEmpty   = errors.New("Directory is not empty") //nolint:staticcheck // Hadoop's words
	errNotZero    = errors.New("Not a zero-length file") //nolint:staticcheck // Hadoop's words
	errInside     = errors.New("is the source, or a directory inside it")
	errNoEditing  = errors.New("this storage cannot be written by commands")
	errTwoSources = errors.New("Does not match target filesystem") //nolint:staticcheck // Hadoop's words
)

// fsReason returns an error in Hadoop's words. An error of the storage without such words passes,
// with all that it says.
func fsReason(err error) string {
	switch {
	case errors.Is(err, syscall.ENOTEMPTY): // is an fs.ErrExist, too
		return errNotEmpty.Error()
	case errors.Is(err, syscall.EISDIR):
		return errIsDir.Error()
	case errors.Is(err, syscall.ENOTDIR):
		return errNotDir.Error()
	case errors.Is(err, fs.ErrNotExist):
		return "No such file or directory"
	case errors.Is(err, fs.ErrExist):
		return "File exists"
	case errors.Is(err, fs.ErrPermission):
		return "Permission denied"
	}
	return oneLine(err)
}

// entry is a file or directory with its location. Info.Path and location.path are the same name;
// typed is the form for messages and listings.
type entry struct {
	*location
	storage.Info
}

// expand returns what an argument names: the files that a pattern matches, or one path. It reports
// a missing path, or a pattern without a match, as an error, as FsShell does. The shell has not
// expanded the pattern, since it knows local files only.
func (c *fsCall) expand(typed string) ([]entry, error) {
	l, err := c.locate(typed)
	if err != nil {
		return nil, err
	}
	matches, pattern, err := input.Glob(c.ctx, l.fs, path.Clean(l.path))
	if err != nil {
		return nil, err
	}
	if len(matches) == 0 {
		return nil, fs.ErrNotExist
	}
	var entries []entry
	for _, m := range matches {
		at := l
		if pattern {
			at = l.at(m.Path)
		}
		at.path = m.Path
		// The alternatives of a pattern may have "..", which locate has not seen.
		if !l.holds(m.Path) {
			return nil, storage.ErrOutside
		}
		entries = append(entries, entry{at, m})
	}
	return entries, nil
}

// each calls fn for everything that the arguments name, and prints errors. A failure of one path
// does not keep the others from being done; the status says that there was one.
func (c *fsCall) each(args []string, fn func(entry) error) {
	for _, typed := range args {
		entries, err := c.expand(typed)
		if err != nil {
			// rm -f is for files that may be missing; other commands use -f to replace.
			if c.name != "rm" || !c.has("-f") || !errors.Is(err, fs.ErrNotExist) {
				c.fail(typed, err)
			}
			continue
		}
		for _, e := range entries {
			if err := fn(e); err != nil {
				c.fail(e.typed, err)
			}
		}
	}
}

// list returns the entries of a directory.
func (c *fsCall) list(l *location) ([]entry, error) {
	infos, err := l.fs.List(c.ctx, l.path)
	if err != nil {
		return nil, err
	}
	var entries []entry
	for _, i := range infos {
		p := path.Join(l.path, path.Base(i.Path))
		child := l.at(p)
		if l.typed != "" && l.typed != "." {
			child.typed = strings.TrimSuffix(l.typed, "/") + "/" + path.Base(p)
		}
		i.Path = p
		// A storage that does not know a size says -1, which would be printed.
		if i.Size < 0 {
			i.Size = 0
		}
		entries = append(entries, entry{child, i})
	}
	return entries, nil
}

// inside calls fn with the entries of a directory. link says that the directory is a
// symbolic link. A link to a directory that the walk is in already has no entries, because
// a walk through a circle of links would list the same files until the system's limit.
func (c *fsCall) inside(l *location, link bool, fn func([]entry) error) error {
	real := l.path
	// Below a directory whose real path is known, a name that is no link needs no call to the storage.
	if n := len(c.above); n > 0 && !link {
		real = path.Join(c.above[n-1], path.Base(l.path))
	} else if f, ok := l.fs.(storage.Linked); ok {
		var err error
		if real, err = f.Canonical(c.ctx, l.path); err != nil {
			return err
		}
	}
	if link && slices.Contains(c.above, real) {
		return nil
	}
	c.above = append(c.above, real)
	defer func() { c.above = c.above[:len(c.above)-1] }()
	entries, err := c.list(l)
	if err != nil {
		return err
	}
	return fn(entries)
}

// editor returns the storage of a location for changes.
func (l *location) editor() (storage.Editor, error) {
	if e, ok := l.fs.(storage.Editor); ok {
		return e, nil
	}
	return nil, errNoEditing
}

// exists reports whether there is a file or directory, and whether it is a directory.
func (c *fsCall) exists(l *location) (exists, dir bool, err error) {
	info, err := l.fs.Stat(c.ctx, l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, false, nil
	}
	return err == nil, info.Dir, err
}

// eachNew calls fn for each argument, which need not exist, and prints errors. Patterns are not
// expanded: mkdir and touchz take a name literally, brackets and stars included.
func (c *fsCall) eachNew(fn func(*location) error) error {
	for _, typed := range c.args {
		l, err := c.locate(typed)
		if err == nil {
			err = fn(l)
		}
		if err != nil {
			c.fail(typed, err)
		}
	}
	return nil
}

// mkdir makes directories.
func (c *fsCall) mkdir() error {
	return c.eachNew(func(l *location) error { return c.makeDir(l, c.has("-p")) })
}

// makeDir makes a directory, and those above it if parents is set.
func (c *fsCall) makeDir(l *location, parents bool) error {
	e, err := l.editor()
	if err != nil {
		return err
	}
	exists, dir, err := c.exists(l)
	switch {
	case err != nil:
		return err
	case exists && !dir:
		// Hadoop's two messages for a file in the way.
		return map[bool]error{true: errNotDir, false: fs.ErrExist}[parents]
	case exists && parents:
		return nil
	case exists:
		return fs.ErrExist
	}
	if up := path.Dir(l.path); parents && up != l.path && up != "." {
		if err := c.makeDir(l.at(up), true); err != nil {
			return err
		}
	}
	err = e.MakeDir(c.ctx, l.path)
	// Another process has made it meanwhile. With -p that is as good.
	if parents && errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// destination resolves where a copy or move goes: inside an existing directory under the base name
// of the source, else to the path itself. many says that there are several sources, which need a
// directory. On an object store a directory exists only by the names below it, so there a
// destination with a slash at its end is taken for a directory.
func (c *fsCall) destination(dst *location, base string, many bool) (*location, error) {
	exists, dir, err := c.exists(dst)
	switch {
	case err != nil:
		return nil, err
	case exists && dir, !exists && strings.HasSuffix(dst.typed, "/") && !c.dirs(dst):
		to := dst.at(path.Join(dst.path, base))
		to.typed = strings.TrimSuffix(dst.typed, "/") + "/" + base
		return to, nil
	case exists && many:
		return nil, errNotDir
	case !exists && (many || strings.HasSuffix(dst.typed, "/")):
		return nil, fs.ErrNotExist
	}
	// Hadoop makes no directories for a copy; a storage that does would hide a misspelt path.
	if !exists && c.dirs(dst) {
		if up, _, err := c.exists(dst.at(path.Dir(dst.path))); err != nil || !up {
			return nil, cmp.Or(err, fs.ErrNotExist)
		}
	}
	return dst, nil
}

// dirs reports whether directories exist by themselves on the storage.
func (c *fsCall) dirs(l *location) bool {
	e, err := l.editor()
	return err == nil && e.HasDirs()
}

// touchz creates empty files.
func (c *fsCall) touchz() error { return c.eachNew(c.touchOne) }

// touchOne creates an empty file, or gives an empty one the present time. It never replaces
// a file: another process may write to an empty one at this moment.
func (c *fsCall) touchOne(l *location) error {
	info, err := l.fs.Stat(c.ctx, l.path)
	switch {
	case err == nil && info.Dir:
		return errIsDir
	case err == nil && info.Size > 0:
		return errNotZero
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if t, ok := l.fs.(storage.Toucher); ok && err == nil {
		return t.Touch(c.ctx, l.path)
	}
	// A storage without Touch gets the empty file again, for its new time.
	return c.write(l, bytes.NewReader(nil), err == nil)
}

// test answers by its exit status.
func (c *fsCall) test() error {
	if len(c.flags) != 1 {
		text := "Only one test flag is allowed"
		if len(c.flags) == 0 {
			text = "No test flag given"
		}
		return c.misused(text)
	}
	l, err := c.locate(c.args[0])
	// A path that cannot be resolved does not exist; the answer has no message, like Hadoop's.
	if err != nil {
		return exit(hadoopFailed)
	}
	info, err := l.fs.Stat(c.ctx, l.path)
	ok := err == nil
	switch {
	case c.has("-d"):
		ok = ok && info.Dir
	case c.has("-f"):
		ok = ok && !info.Dir
	case c.has("-s"):
		ok = ok && (info.Dir || info.Size > 0)
	case c.has("-z"):
		ok = ok && !info.Dir && info.Size == 0
	}
	if !ok {
		return exit(hadoopFailed)
	}
	return nil
}
