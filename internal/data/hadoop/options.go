package hadoop

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Int returns a property as a whole number, or def if it is not set or no number.
func (c Conf) Int(name string, def int) int {
	n, err := strconv.Atoi(strings.TrimSpace(c.Get(name, "")))
	if err != nil {
		return def
	}
	return n
}

// UsageError is a wrong command line.
type UsageError struct{ Text string }

// Error returns the text.
func (e *UsageError) Error() string { return e.Text }

func usage(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

// Setting is one -D NAME=VALUE.
type Setting struct{ Name, Value string }

// Generic holds the generic options, which precede the options of a program.
type Generic struct {
	Settings []Setting // -D, in order
	ConfFile []string  // -conf
	FS       string    // -fs
	JT       string    // -jt
	Files    []string  // -files, PATH[#NAME]
	Archives []string  // -archives, PATH[#NAME]
	Jars     []string  // -libjars
}

// ParseGeneric parses the generic options at the beginning of args and returns the rest.
func ParseGeneric(args []string) (g Generic, rest []string, err error) {
	for len(args) > 0 {
		name := args[0]
		// -Dname=value in one word, as Java's own option is written.
		if def, ok := strings.CutPrefix(name, "-D"); ok && def != "" {
			if err := g.define(def); err != nil {
				return g, nil, err
			}
			args = args[1:]
			continue
		}
		switch name {
		case "-D", "-conf", "-fs", "-jt", "-files", "-archives", "-libjars", "-tokenCacheFile":
		default:
			// The first other word ends the generic options, as in Hadoop's GenericOptionsParser.
			return g, args, nil
		}
		if len(args) == 1 {
			return g, nil, usage("Missing argument for option: %s", name[1:])
		}
		if err := g.set(name, args[1]); err != nil {
			return g, nil, err
		}
		args = args[2:]
	}
	return g, nil, nil
}

// define adds a -D. Hadoop ignores one without "=". An empty default file system is an
// error: paths that were meant for an HDFS would lead to files of this machine.
func (g *Generic) define(def string) error {
	name, value, ok := strings.Cut(def, "=")
	if !ok {
		return nil
	}
	if value == "" && (name == "fs.defaultFS" || name == "fs.default.name") {
		return usage("-D %s=: the value is empty; name a file system, such as hdfs://host:port", name)
	}
	g.Settings = append(g.Settings, Setting{name, value})
	return nil
}

// set sets one option. Of the lists only the first occurrence counts, as in Hadoop. An empty
// value is an error, because a script that passes one has forgotten to set a variable.
func (g *Generic) set(name, value string) error {
	if value == "" && name != "-D" {
		return usage("%s: the value is empty", name)
	}
	first := func(list *[]string) {
		// Empty elements vanish: "a,,b" has two files.
		if *list == nil {
			*list = strings.FieldsFunc(value, func(r rune) bool { return r == ',' })
		}
	}
	switch name {
	case "-D":
		return g.define(value)
	case "-conf":
		g.ConfFile = append(g.ConfFile, value)
	case "-fs":
		g.FS = value
	case "-jt":
		g.JT = value
	case "-files":
		first(&g.Files)
	case "-archives":
		first(&g.Archives)
	case "-libjars":
		first(&g.Jars)
	}
	return nil
}

// Streaming is the command line of a streaming job.
type Streaming struct {
	Generic
	Inputs                    []string // globs and paths; comma lists are divided
	Output                    string
	Mapper, Combiner, Reducer string
	Reduces                   int      // -numReduceTasks; -1 if not given
	File                      []string // -file, local paths
	CacheFiles, CacheArchives []string // -cacheFile and -cacheArchive, URI#NAME
	JobConf                   []Setting
	CmdEnv                    []string
	InputFormat, OutputFormat string
	Partitioner               string
	InputReader, IO           string
	LazyOutput, Background    bool
	Verbose, Help             bool
	MapDebug, ReduceDebug     string
}

// streamingFlags are the options without a value.
var streamingFlags = []string{"lazyOutput", "background", "verbose", "debug", "info", "help"}

// streamingValues are the options with one value.
var streamingValues = []string{
	"output", "mapper", "combiner", "reducer", "numReduceTasks", "inputformat", "outputformat", "partitioner", "inputreader", "io", "dfs",
	"additionalconfspec", "mapdebug", "reducedebug",
}

// streamingLists are the options that may be repeated, with several words each.
var streamingLists = []string{"input", "file", "cacheFile", "cacheArchive", "jobconf", "cmdenv"}

// ParseStreaming parses the arguments of the streaming program.
func ParseStreaming(args []string) (*Streaming, error) {
	if len(args) == 0 {
		return nil, usage("No Arguments Given!")
	}
	s := &Streaming{Reduces: -1}
	var err error
	if s.Generic, args, err = ParseGeneric(args); err != nil {
		return nil, err
	}
	given := map[string]string{}
	paths := []string{"output", "dfs", "additionalconfspec"} // options whose value must not be empty
	var stray []string
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		// Hadoop's parser takes one or two hyphens.
		name := strings.TrimPrefix(strings.TrimPrefix(word, "-"), "-")
		switch {
		case !strings.HasPrefix(word, "-") || name == "":
			// Collected and reported after the loop: -help among them must win.
			stray = append(stray, word)
		case slices.Contains(streamingFlags, name):
			s.flag(name)
		case slices.Contains(streamingValues, name), slices.Contains(streamingLists, name):
			if len(args) == 0 {
				return nil, usage("Missing argument for option: %s", name)
			}
			if slices.Contains(streamingValues, name) {
				// The last occurrence counts, and a value may begin with a hyphen, such as -reducer '-'.
				given[name], args = unquote(args[0]), args[1:]
				if given[name] == "" && slices.Contains(paths, name) {
					return nil, usage("-%s: %v", name, ErrEmptyPath)
				}
				continue
			}
			if args, err = s.list(name, args); err != nil {
				return nil, err
			}
		default:
			// The parser itself says whether the word is a generic option, so the two lists cannot differ.
			if generic, _, err := ParseGeneric([]string{word, "a=b"}); err == nil && !reflect.DeepEqual(generic, Generic{}) {
				return nil, usage("Unrecognized option: %s (a generic option: it stands before all options of streaming, as in Hadoop)", word)
			}
			return nil, usage("Unrecognized option: %s", word)
		}
	}
	if s.Help {
		return s, nil
	}
	if len(stray) > 0 {
		return nil, usage("Found %d unexpected arguments on the command line [%s]", len(stray), strings.Join(stray, ", "))
	}
	return s, s.values(given)
}

// unquote removes one pair of double quotes around a value.
func unquote(v string) string {
	if len(v) >= 2 && v[0] == '"' && v[len(v)-1] == '"' && !strings.Contains(v[1:len(v)-1], `"`) {
		return v[1 : len(v)-1]
	}
	return v
}

func (s *Streaming) flag(name string) {
	switch name {
	case "lazyOutput":
		s.LazyOutput = true
	case "background":
		s.Background = true
	case "verbose", "debug":
		s.Verbose = true
	case "info", "help":
		s.Help = true
	}
}

// list takes the words of a repeatable option. -input and -file take all words up to the
// next option, the others one.
func (s *Streaming) list(name string, args []string) (rest []string, err error) {
	n := 1
	// A shell expands a pattern such as part-* to several words.
	if name == "input" || name == "file" {
		for n < len(args) && !strings.HasPrefix(args[n], "-") {
			n++
		}
	}
	for _, word := range args[:n] {
		word = unquote(word)
		if word == "" && name != "jobconf" && name != "cmdenv" {
			return nil, usage("-%s: %v", name, ErrEmptyPath)
		}
		switch name {
		case "input":
			s.Inputs = append(s.Inputs, SplitList(word)...)
		case "file":
			s.File = append(s.File, strings.FieldsFunc(word, func(r rune) bool { return r == ',' })...)
		case "cacheFile":
			s.CacheFiles = append(s.CacheFiles, word)
		case "cacheArchive":
			s.CacheArchives = append(s.CacheArchives, word)
		case "cmdenv":
			s.CmdEnv = append(s.CmdEnv, word)
		case "jobconf":
			k, v, ok := strings.Cut(word, "=")
			if !ok {
				return nil, usage("-jobconf %s: want name=value", word)
			}
			s.JobConf = append(s.JobConf, Setting{k, v})
		}
	}
	return args[n:], nil
}

// values stores the values of the options that occur once.
func (s *Streaming) values(given map[string]string) error {
	// In this order, since a command without both gets Hadoop's error for the input.
	for _, name := range []string{"input", "output"} {
		ok := given[name] != ""
		if name == "input" {
			ok = len(s.Inputs) > 0
		}
		// -D may have named it instead.
		if !ok && !s.names(name) {
			form := map[string]string{"input": "-input <name>", "output": "-output "}[name]
			return usage("Required argument: %s", form)
		}
	}
	for name, to := range map[string]*string{
		"output": &s.Output, "mapper": &s.Mapper, "combiner": &s.Combiner, "reducer": &s.Reducer, "inputformat": &s.InputFormat,
		"outputformat": &s.OutputFormat, "partitioner": &s.Partitioner, "inputreader": &s.InputReader, "io": &s.IO,
		"mapdebug": &s.MapDebug, "reducedebug": &s.ReduceDebug,
	} {
		*to = given[name]
	}
	// -dfs is -fs under its first name, and -additionalconfspec is -conf.
	if v := given["dfs"]; v != "" {
		s.FS = v
	}
	if v := given["additionalconfspec"]; v != "" {
		s.ConfFile = append(s.ConfFile, v)
	}
	// ok and not a comparison with "": an empty value is a forgotten variable, and no default.
	if v, ok := given["numReduceTasks"]; ok {
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 {
			return usage("-numReduceTasks %s: want a whole number that is not negative", v)
		}
		s.Reduces = n
	}
	for _, uri := range slices.Concat(s.CacheFiles, s.CacheArchives) {
		if !strings.Contains(uri, "#") {
			return usage("%s: a cached file or archive needs a #name", uri)
		}
	}
	return nil
}

// names reports whether a property names the input or output.
func (s *Streaming) names(what string) bool {
	names := map[string][]string{
		"input":  {"mapred.input.dir", "mapreduce.input.fileinputformat.inputdir"},
		"output": {"mapred.output.dir", "mapreduce.output.fileoutputformat.outputdir"},
	}[what]
	return slices.ContainsFunc(s.Settings, func(d Setting) bool { return slices.Contains(names, d.Name) })
}

// identifiers are the properties that -io sets.
var identifiers = []string{"stream.map.input", "stream.map.output", "stream.reduce.input", "stream.reduce.output"}

// outputFormats are the output formats that can be written.
var outputFormats = map[string]string{TextOutput: TextOutput, SequenceOutput: SequenceOutput}

// partitioners are the partitioners that are built in.
var partitioners = map[string]string{"HashPartitioner": "HashPartitioner", "KeyFieldBasedPartitioner": "KeyFieldBasedPartitioner"}

// ApplyOptions sets the properties that follow from the options of a streaming job, and
// computes the number of reduces. A class that is not built in is an error. A job without
// reduces has no reducer afterwards, and one with reduces has one.
func (c Conf) ApplyOptions(s *Streaming) error {
	for _, x := range []struct {
		option, value, property, private string
		known                            map[string]string
		what                             string
	}{
		{"-inputformat", s.InputFormat, "mapred.input.format.class", PropInput, inputFormats, "input formats"},
		{"-outputformat", s.OutputFormat, "mapred.output.format.class", PropOutput, outputFormats, "output formats"},
		{"-partitioner", s.Partitioner, "mapred.partitioner.class", PropPartition, partitioners, "partitioners"},
	} {
		// The option wins over the property, and both are set afterwards: tasks see the property, and
		// NewRules the private one with the simple name.
		value := x.value
		if value == "" {
			value = c.Get(x.property, "")
		}
		// Hadoop 2 has another name for this property alone.
		if value == "" && x.private == PropPartition {
			value = c.Get("mapreduce.job.partitioner.class", "")
		}
		if value == "" {
			continue
		}
		name, err := class(x.option, value, x.known)
		// Before the general error, because this class has a replacement that users do not find by
		// themselves.
		if strings.HasPrefix(SimpleName(value), "SequenceFileAsBinary") {
			return fmt.Errorf("%w (its bytes are Java's serialization; SequenceFile%sFormat with -io typedbytes passes keys and values of each type)",
				err, map[bool]string{true: "Input", false: "Output"}[x.private == PropInput])
		}
		if err != nil {
			return fmt.Errorf("%w (%s that are built in: %s)", err, x.what, strings.Join(slices.Sorted(maps.Keys(x.known)), ", "))
		}
		c.Set(x.property, value)
		c.Set(x.private, name)
	}
	if s.IO != "" {
		for _, name := range identifiers {
			c.Set(name, s.IO)
		}
	}
	if len(s.CmdEnv) > 0 {
		c.Set("stream.addenvironment", strings.Join(s.CmdEnv, " "))
	}
	// Here, because the next lines replace the value that Check would refuse.
	if n := c.Get("mapreduce.job.reduces", ""); n != "" && !c.isNumber("mapreduce.job.reduces") {
		return usage("mapreduce.job.reduces=%s: want a whole number", n)
	}
	reduces := c.Int("mapreduce.job.reduces", 1)
	if s.Reduces >= 0 {
		reduces = s.Reduces
	}
	// -reducer NONE is an older way to write -numReduceTasks 0, and wins over it.
	if strings.EqualFold(s.Reducer, "NONE") {
		reduces = 0
	}
	if reduces < 0 {
		return usage("mapreduce.job.reduces=%d: must not be negative", reduces)
	}
	c.Set("mapreduce.job.reduces", strconv.Itoa(reduces))
	switch {
	case reduces == 0:
		// Hadoop runs neither without a shuffle. Keeping them would make CheckTyped and the rules look for
		// their types.
		s.Reducer, s.Combiner = "", ""
	case s.Reducer == "":
		// Without -reducer Hadoop sorts and writes the records.
		s.Reducer = IdentityReducer
	}
	return nil
}
