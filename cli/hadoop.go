package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/data/hadoop"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/live/feature"
	"github.com/slotwise/slotwise/policies/hadoop/hadoopconf"
)

// hadoopVersion is the version of Hadoop whose behaviour the hadoop command has. Tools choose their
// commands by it: below 2, mrjob would call -mkdir without -p, -lsr and -rmr, and use the names of
// Hadoop 1's properties.
const hadoopVersion = "3.4.2"

// hadoopNames are the names of executables that make the program Hadoop's command line.
var hadoopNames = []string{"hadoop", "hdfs", "mapred", "yarn"}

// hadoopArgs returns the arguments of slotwise for an executable that is called hadoop,
// hdfs, mapred or yarn. It returns args unchanged for other names.
func hadoopArgs(program string, args []string) []string {
	if !slices.Contains(hadoopNames, program) {
		return args
	}
	return append([]string{"hadoop"}, args...)
}

// newHadoop returns the command that understands Hadoop's command line. It parses its arguments
// itself: Hadoop's options have one dash and stand behind the command, which pflag would refuse.
// Messages, spellings and statuses are Hadoop's, because mrjob and Luigi search the output for
// them. Lines are never coloured or overwritten, although mrjob runs hadoop jar in a
// pseudo-terminal.
func newHadoop() *cobra.Command {
	return &cobra.Command{
		Use:   "hadoop COMMAND [ARG]...",
		Short: "Understand Hadoop's command line: jar, fs, job, version",
		Long: `Runs commands that were written for Hadoop: hadoop jar with Hadoop Streaming's
options, hadoop fs on every storage, hadoop job, and the programs of Hadoop's jar of
examples. A link to this program with the name hadoop, hdfs, mapred or yarn does the
same without the first word.

Jobs run in this process or, if SLOTWISE_MASTER is set, on that cluster. The file of
a jar need not exist; its name decides. Messages and exit statuses are Hadoop's.
Without an HDFS, hdfs:/// is a local directory: $SLOTWISE_HDFS_DIR, or slotwise/hdfs
in the user's directory of data. Details:
` + docsURL + `coming-from-hadoop.md`,
		Example: `  slotwise hadoop jar hadoop-streaming.jar -input logs -output counts -mapper cat -reducer 'uniq -c'
  slotwise hadoop fs -ls hdfs:///user
  slotwise hadoop version`,
		DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 && (args[0] == "--help" || args[0] == "-h") {
				return c.Help()
			}
			h := &hadoopCommand{ctx: c.Context(), in: c.InOrStdin(), out: c.OutOrStdout(), err: c.ErrOrStderr()}
			return h.run(args)
		},
	}
}

// statusError ends the program with a status. Its message has been printed.
type statusError int

// Error returns the status in words.
func (e statusError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// exit returns the error for a status, nil for 0.
func exit(status int) error {
	if status == 0 {
		return nil
	}
	return statusError(status)
}

// The exit statuses of Hadoop's programs, which differ from this program's own. 255 is -1, with
// which FsShell ends after wrong usage; the status of a path that failed is 1.
const (
	hadoopFailed     = 1
	hadoopNotFound   = 2 // a file to ship does not exist, or wrong usage of an example
	hadoopSubmission = 5 // the input does not exist, or the output exists
	hadoopUsage      = 255
)

// hadoopCommand runs one command of Hadoop. The fields are set once, by newHadoop and configure,
// and the parts of a command (fsCall, hadoopRun) embed it.
//
// To add a command: a case in run, and a line of hadoopUsageText. A command that reads generic
// options calls hadoop.ParseGeneric and givenSettings, resolves paths with locate, and returns
// exit(status) when it has printed its message.
type hadoopCommand struct {
	ctx      context.Context
	in       io.Reader
	out, err io.Writer
	conf     hadoop.Conf // of the files in HADOOP_CONF_DIR
	ns       hadoop.Namespace
}

// hadoopUsageText lists the commands.
const hadoopUsageText = `Usage: hadoop [--config confdir] COMMAND [ARG]...

  fs, dfs     run a command on files; hadoop fs -help lists them
  jar FILE    run a streaming job (hadoop-streaming.jar) or an example (hadoop-mapreduce-examples.jar)
  job         list, show and kill jobs of a cluster; also mapred job and yarn application
  version     print the version
  classpath   print the class path, which is empty
`

// run runs a command line.
func (h *hadoopCommand) run(args []string) error {
	for len(args) > 0 {
		if args[0] == "--config" && len(args) > 1 {
			// An empty variable would mean no configuration, and paths of an HDFS would
			// lead to files of this machine.
			if args[1] == "" {
				fmt.Fprintln(h.err, "hadoop: --config: the value is empty; name a directory")
				return exit(hadoopFailed)
			}
			os.Setenv("HADOOP_CONF_DIR", args[1]) // also for the storage
			args = args[2:]
			continue
		}
		break
	}
	if len(args) == 0 {
		io.WriteString(h.err, hadoopUsageText)
		return exit(hadoopFailed)
	}
	if err := h.configure(); err != nil {
		terminal.Fprintf(h.err, "hadoop: %s\n", oneLine(err))
		return exit(hadoopFailed)
	}
	name, args := args[0], args[1:]
	switch name {
	// mrjob takes the first number of the first line for the version, so no other digit may be there.
	case "version":
		_, err := terminal.Fprintf(h.out, "Hadoop %s\nThis is %s\nFrom a jar that does not exist\n", hadoopVersion, strings.TrimSpace(readBuild().String()))
		return err
	case "fs", "dfs":
		return h.fs(args)
	case "jar":
		return h.jar(args)
	case "streaming": // mapred streaming
		return h.streaming(args)
	// mapred job and yarn application come here, too: the link's name is not looked at. Luigi kills a
	// job by either.
	case "job", "application", "queue":
		return h.job(name, args)
	case "classpath":
		_, err := fmt.Fprintln(h.out, "")
		return err
	case "envvars":
		_, err := terminal.Fprintf(h.out, "HADOOP_CONF_DIR='%s'\n", os.Getenv("HADOOP_CONF_DIR"))
		return err
	}
	terminal.Fprintf(h.err, "ERROR: %s is not COMMAND nor fully qualified CLASSNAME.\n", name)
	io.WriteString(h.err, hadoopUsageText)
	return exit(hadoopFailed)
}

// configure reads the files in HADOOP_CONF_DIR and chooses the file system of paths
// without a scheme.
func (h *hadoopCommand) configure() error {
	h.conf = hadoop.Conf{}
	if dir := os.Getenv("HADOOP_CONF_DIR"); dir != "" {
		// Without its files, paths of an HDFS would lead to files of this machine.
		if _, err := os.Stat(dir); err != nil {
			return fmt.Errorf("HADOOP_CONF_DIR (--config) %s: %w", dir, reason(err))
		}
		// In the order in which Hadoop loads them, so that a later file wins.
		for _, name := range []string{"core-site.xml", "hdfs-site.xml", "mapred-site.xml"} {
			settings, err := readHadoopFile(filepath.Join(dir, name))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			for _, s := range settings {
				h.conf.Set(s.Name, s.Value)
			}
		}
	}
	// Under the user's data and not in a temporary directory: scripts leave results in hdfs:/// from
	// one day to the next.
	root := os.Getenv("SLOTWISE_HDFS_DIR")
	if root == "" {
		data := os.Getenv("XDG_DATA_HOME")
		if data == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				return fmt.Errorf("no directory for hdfs:///: %w; set SLOTWISE_HDFS_DIR", err)
			}
			data = filepath.Join(home, ".local", "share")
		}
		root = filepath.Join(data, "slotwise", "hdfs")
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	// HADOOP_USER_NAME is the identity towards an HDFS without Kerberos, as in Hadoop's client.
	h.ns = hadoop.Namespace{Root: root, User: cmp.Or(os.Getenv("HADOOP_USER_NAME"), feature.LoginName())}
	if uri, ok := h.conf["fs.defaultFS"]; ok && strings.TrimSpace(uri) == "" {
		return fmt.Errorf("HADOOP_CONF_DIR (--config) %s: fs.defaultFS is empty; name a file system, such as hdfs://host:port", os.Getenv("HADOOP_CONF_DIR"))
	}
	h.setDefault(h.conf.Get("fs.defaultFS", ""))
	return nil
}

// setDefault sets the default file system, which is "" for local files. file: and local, Hadoop 1's
// word, name these, too.
func (h *hadoopCommand) setDefault(uri string) {
	if uri == "local" {
		uri = ""
	}
	h.ns.Default = strings.TrimSuffix(uri, "/")
	if strings.HasPrefix(uri, "file:") {
		h.ns.Default = ""
	}
}

// readHadoopFile reads a file of properties.
func readHadoopFile(name string) ([]hadoop.Setting, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	// Its warnings about elements that are no properties are left out: Hadoop ignores such elements
	// silently.
	props, _, err := hadoopconf.ReadProperties(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var settings []hadoop.Setting
	for _, p := range props {
		settings = append(settings, hadoop.Setting{Name: p.Name, Value: p.Value})
	}
	return settings, nil
}

// givenSettings returns the settings of generic options in the order in which they take effect, the
// last one of a name: first each -conf in its order, then -D. So -D wins wherever it was typed.
func givenSettings(g hadoop.Generic) (all []hadoop.Setting, err error) {
	for _, file := range g.ConfFile {
		settings, err := readHadoopFile(file)
		if err != nil {
			return nil, err
		}
		all = append(all, settings...)
	}
	return append(all, g.Settings...), nil
}

// uri returns the storage URI of a path as the user has typed it, or an error of
// hadoop.Namespace.URI. It creates the directory for hdfs:/// on its first use.
func (h *hadoopCommand) uri(typed string) (string, error) {
	if h.ns.Local() && strings.HasPrefix(typed, "hdfs:") {
		// A fresh HDFS of a distribution has both, and scripts write there without making them.
		for _, dir := range []string{"tmp", filepath.Join("user", h.ns.User)} {
			_ = os.MkdirAll(filepath.Join(h.ns.Root, dir), 0o777) // the operation on the path reports errors
		}
	}
	return h.ns.URI(typed)
}

// location is a path that the user has typed, on its storage. It remembers the form of the typed
// path for output: hdfs:///a, hdfs://host/a and /a may be one file, and a listing repeats the
// user's form.
//
// path is the storage's own name, and show turns such a name into the typed form: it cuts strip off
// the front and puts prefix there. For the user ann and an HDFS at nn:8020 as the default:
//
//	typed        path              strip              prefix
//	/a           nn:8020/a         nn:8020
//	a            nn:8020/user/ann/a  nn:8020/user/ann/
//	hdfs:///a    nn:8020/a         nn:8020            hdfs://
//	hdfs://h/a   h/a                                  hdfs://
//	file:///a    /a                                   file://
type location struct {
	typed         string
	fs            storage.FS
	path          string // within fs
	strip, prefix string // for display
	within        string // the root that no path of a pattern may leave, "" for local files
}

// locate resolves a typed path.
func (h *hadoopCommand) locate(typed string) (*location, error) {
	uri, err := h.uri(typed)
	if err != nil {
		return nil, err
	}
	fsys, p, err := storages().Resolve(uri)
	if err != nil {
		return nil, err
	}
	l := &location{typed: typed, fs: fsys, path: p}
	scheme, _ := storage.SplitURI(uri)
	authority, _, _ := strings.Cut(p, "/")
	// The storage's path begins with the authority. holds refuses paths that leave it, such as
	// an alternative of a pattern with "..".
	if scheme != "" && scheme != "file" {
		l.within = authority
	}
	switch typedScheme, rest, _ := strings.Cut(typed, ":"); {
	// Hadoop prints a path in the form in which the user has typed it, and scripts compare
	// these lines. So each case notes what to put before the storage's path, and what to cut
	// off.
	case typedScheme == "file" && rest != "":
		l.prefix = "file://"
	// Without a cluster, hdfs: means a local directory, whose place must not be shown.
	case typedScheme == "hdfs" && h.ns.Local() && strings.HasPrefix(p, h.ns.Root):
		l.prefix, l.strip, l.within = "hdfs://", h.ns.Root, h.ns.Root
	// Without an authority in the typed path there must be none in the output; mrjob adds its own.
	case typedScheme == "hdfs" && (strings.HasPrefix(rest, "///") || !strings.HasPrefix(rest, "//")):
		l.prefix, l.strip = "hdfs://", authority
	case rest != "" && strings.HasPrefix(rest, "//"):
		l.prefix = typedScheme + "://"
	case scheme == "": // local paths are displayed unchanged
	case strings.HasPrefix(typed, "/"):
		l.strip = authority
	default:
		l.strip = strings.TrimSuffix(authority+"/user/"+h.ns.User, "/") + "/"
	}
	return l, nil
}

// holds reports whether a path is in the location's file system: not outside the directory
// behind hdfs:///, and not in another bucket.
func (l *location) holds(p string) bool {
	return l.within == "" || p == l.within || strings.HasPrefix(p, strings.TrimSuffix(l.within, "/")+"/")
}

// base returns the name that a copy of the location gets in a directory. Of a relative local
// path it is the name of the directory that "." or ".." means: in the path of the copy, ".."
// would lead out of the destination.
func (l *location) base() string {
	p := l.path
	if _, local := l.fs.(storage.Local); local {
		if abs, err := filepath.Abs(p); err == nil {
			p = abs
		}
	}
	return path.Base(p)
}

// show returns a path of the location's storage in the style of the typed path. Of the path itself
// it is the typed text without slashes at its end.
func (l *location) show(p string) string {
	if p == l.path && l.typed != "" {
		return strings.TrimSuffix(l.typed, "/") + map[bool]string{true: "/"}[strings.Trim(l.typed, "/") == ""]
	}
	return l.prefix + strings.TrimPrefix(p, l.strip)
}

// at returns the location of another path on the same storage.
func (l *location) at(p string) *location {
	o := *l
	o.typed, o.path = l.show(p), p
	return &o
}

// log returns the writer of the lines of a job. The time at the beginning of a line is this
// machine's.
func (h *hadoopCommand) log() *hadoop.Log { return &hadoop.Log{W: h.err, Now: time.Now} }
