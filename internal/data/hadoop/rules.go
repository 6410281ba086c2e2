package hadoop

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Private properties, by which the command line passes its choices to the tasks.
const (
	PropDeadline  = Private + "job.deadline" // the time from the submission in which the job should end
	PropStamp     = Private + "job.stamp"    // the number in the middle of job ids
	PropRoot      = Private + "hdfs.root"    // URI of the directory behind hdfs:///
	PropPartition = Private + "partitioner"  // class, or "" for the hash of the key
	PropInput     = Private + "input.format" // simple name of the class
	PropOutput    = Private + "output.format"
	PropParts     = Private + "part.names" // new for part-r-00000, "" for part-00000
)

// The simple names of input formats that streaming jobs may have.
const (
	TextInput     = "TextInputFormat"
	KeyValueInput = "KeyValueTextInputFormat"
	NLineInput    = "NLineInputFormat"
	CombineInput  = "CombineTextInputFormat"
	SequenceInput = "SequenceFileInputFormat"
	AsTextInput   = "SequenceFileAsTextInputFormat"
	AutoInput     = "AutoInputFormat" // SequenceFiles and, by their offsets, lines of other files
)

// The simple names of output formats that streaming jobs may have.
const (
	TextOutput     = "TextOutputFormat"
	SequenceOutput = "SequenceFileOutputFormat"
	// PropLazy is the property of LazyOutputFormat: the class that writes the files.
	PropLazy = "mapreduce.output.lazyoutputformat.outputformat"
)

// inputFormats are the input formats that can be read, by simple name.
var inputFormats = map[string]string{
	TextInput: TextInput, KeyValueInput: KeyValueInput, NLineInput: NLineInput, CombineInput: CombineInput,
	SequenceInput: SequenceInput, AsTextInput: AsTextInput, AutoInput: AutoInput,
}

// Classes of mappers, combiners and reducers that are built in, by simple name.
const (
	IdentityMapper   = "IdentityMapper"
	IdentityReducer  = "IdentityReducer"
	InverseMapper    = "InverseMapper"
	TokenCountMapper = "TokenCountMapper"
	LongSumReducer   = "LongSumReducer"
	RegexMapper      = "RegexMapper"
	Aggregate        = "aggregate" // the package of aggregators, for -reducer only
)

var builtinClasses = []string{IdentityMapper, IdentityReducer, InverseMapper, TokenCountMapper, LongSumReducer, RegexMapper}

// BuiltinClass returns the simple name of the built-in class that a value of -mapper,
// -combiner or -reducer names, or "" for a command. A class of Hadoop that is not built in
// is an error.
func BuiltinClass(value string) (string, error) {
	name := strings.TrimSpace(value)
	// A user's class com.example.IdentityMapper is not meant, and neither is a command such as
	// ./IdentityMapper.
	if slices.Contains(builtinClasses, SimpleName(name)) && (SimpleName(name) == name || strings.HasPrefix(name, "org.apache.hadoop.")) {
		return SimpleName(name), nil
	}
	// Such a word would otherwise be run as a command and fail on a worker, with an error about a missing
	// file.
	if strings.HasPrefix(name, "org.apache.hadoop.") && !strings.ContainsAny(name, " /") {
		return "", fmt.Errorf("the class %s is not built in (built in: %s); Java code cannot be run", name, strings.Join(builtinClasses, ", "))
	}
	return "", nil
}

// Keyed reports whether the lines of a file have a key and a value. sequence says that it is a SequenceFile.
func (r *Rules) Keyed(sequence bool) bool { return r.Input == KeyValueInput || sequence }

// Cut divides the lines of a command into keys and values.
type Cut struct {
	Separator []byte
	Fields    int  // the key ends before the separator of this number
	KeyOnly   bool // a line is a key without a value
	Typed     bool // the output is not lines but typed bytes
}

// Line returns the key and the value of a line. A line with too few separators is a key
// with an empty value; with KeyOnly the value is nil.
func (c *Cut) Line(line []byte) (key, value []byte) {
	if c.KeyOnly {
		return line, nil
	}
	at := 0
	for range c.Fields {
		i := bytes.Index(line[at:], c.Separator)
		if i < 0 {
			// An empty slice and not nil: with a value the separator is written.
			return line, line[len(line):]
		}
		at += i + len(c.Separator)
	}
	// The separator before the border belongs to neither. Others inside the key stay.
	return line[:at-len(c.Separator)], line[at:]
}

// Rules are the rules of one streaming job.
//
// A Rules is made once for each attempt and is read only, so one goroutine for standard input and one for
// standard output may use it.
type Rules struct {
	Conf              Conf
	MapOut, ReduceOut Cut
	MapIn, ReduceIn   []byte // between key and value on standard input
	Output            []byte // between key and value in output files of text
	SequenceOutput    bool   // output files are SequenceFiles of Text, or of typed bytes
	LazyOutput        bool   // tasks without records write no file
	Input             string // one of the input formats
	KeyValue          byte   // the separator of KeyValueTextInputFormat
	WithKey           bool   // mappers get key and value, not only the value
	KeyOnlyMapIn      bool   // mappers get keys without values
	KeyOnlyInput      bool   // reducers get keys without values
	TypedMapIn        bool   // mappers get typed bytes: offset or key, and value
	TypedReduceIn     bool   // reducers get typed bytes
	Partition         func(key []byte, n int) int
	Order             *KeySpec // nil for the order of the bytes
	ExitIsFailure     bool
	Prefix            string // of reporter lines
}

// NewRules returns the rules for a job's properties.
func NewRules(conf Conf) (*Rules, error) {
	r := &Rules{
		Conf: conf, Input: conf.Get(PropInput, TextInput),
		MapOut:    Cut{Separator: []byte(conf.Get("stream.map.output.field.separator", "\t")), Fields: conf.Int("stream.num.map.output.key.fields", 1)},
		ReduceOut: Cut{Separator: []byte(conf.Get("stream.reduce.output.field.separator", "\t")), Fields: conf.Int("stream.num.reduce.output.key.fields", 1)},
		MapIn:     []byte(conf.Get("stream.map.input.field.separator", "\t")), ReduceIn: []byte(conf.Get("stream.reduce.input.field.separator", "\t")),
		Output:        []byte(conf.Get("mapreduce.output.textoutputformat.separator", "\t")),
		KeyValue:      '\t',
		LazyOutput:    conf.Get(PropLazy, "") != "",
		ExitIsFailure: conf.Bool("stream.non.zero.exit.is.failure", true),
		Prefix:        conf.Get("stream.stderr.reporter.prefix", "reporter:"),
	}
	// An empty separator would be found at every position, and the keys would be empty.
	for name, c := range map[string]*Cut{"map": &r.MapOut, "reduce": &r.ReduceOut} {
		if c.Fields < 1 || len(c.Separator) == 0 {
			return nil, fmt.Errorf("stream.num.%s.output.key.fields must be at least 1 and stream.%s.output.field.separator must not be empty", name, name)
		}
	}
	if v := conf.Get("mapreduce.input.keyvaluelinerecordreader.key.value.separator", ""); v != "" && r.Input == KeyValueInput {
		// Hadoop takes the first character, too.
		r.KeyValue = v[0]
	}
	// Hadoop drops the key, the offset of the line, for TextInputFormat alone.
	r.WithKey = !conf.Bool("stream.map.input.ignoreKey", r.Input == TextInput)
	if err := r.identifiers(); err != nil {
		return nil, err
	}
	if r.SequenceOutput = conf.Get(PropOutput, "") == SequenceOutput; r.SequenceOutput && (r.ReduceOut.KeyOnly || r.MapOut.KeyOnly) {
		return nil, fmt.Errorf("keyonlytext as output is not supported with SequenceFileOutputFormat, whose values are Text here; use text")
	}
	return r, r.keys()
}

// identifiers applies stream.map.input and its kin.
func (r *Rules) identifiers() error {
	for _, x := range []struct {
		name    string
		keyOnly *bool
		typed   *bool
	}{
		{"stream.map.input", &r.KeyOnlyMapIn, &r.TypedMapIn},
		{"stream.map.output", &r.MapOut.KeyOnly, &r.MapOut.Typed},
		{"stream.reduce.input", &r.KeyOnlyInput, &r.TypedReduceIn},
		{"stream.reduce.output", &r.ReduceOut.KeyOnly, &r.ReduceOut.Typed},
	} {
		switch id := strings.ToLower(r.Conf.Get(x.name, "text")); id {
		// Hadoop ignores the case of these words, too, and takes every unknown one for text.
		case "keyonlytext":
			*x.keyOnly = true
		case "typedbytes":
			*x.typed = true
		case "rawbytes":
			return fmt.Errorf("%s=rawbytes is not supported; use typedbytes or text", x.name)
		}
	}
	// A key without a value has no pair that typed bytes could encode.
	if r.MapOut.KeyOnly && r.TypedReduceIn {
		return fmt.Errorf("stream.map.output=keyonlytext is not supported with stream.reduce.input=typedbytes; use stream.map.output=text")
	}
	return nil
}

// isCommand reports whether a value of -mapper, -combiner or -reducer is a command.
func isCommand(value string) bool {
	class, _ := BuiltinClass(value) // its error comes later, with the role
	return strings.TrimSpace(value) != "" && class == "" && !strings.EqualFold(value, Aggregate)
}

// TypedOutput reports whether the records of output files are typed bytes. reducer is "" without reduces.
func (r *Rules) TypedOutput(reducer string) bool {
	if isCommand(reducer) {
		return r.ReduceOut.Typed
	}
	return r.MapOut.Typed
}

// CheckTyped returns an error for a job of commands and classes whose typed bytes would be read
// as text, or the other way. mapper, combiner and reducer are the values of the options;
// without reduces the other two are "". A name that is no command is a class, or missing.
func (r *Rules) CheckTyped(mapper, combiner, reducer string, reduces bool) error {
	switch {
	case (r.MapOut.Typed || r.TypedMapIn) && !isCommand(mapper):
		return fmt.Errorf("stream.map.input=typedbytes and stream.map.output=typedbytes need a command as -mapper; classes and a missing mapper work on text")
	// Lines need no further test: a reducer of lines reads them, and one of typed bytes gets them as strings.
	case !reduces || !r.MapOut.Typed:
	case isCommand(reducer) && !r.TypedReduceIn || isCommand(combiner) && !r.TypedReduceIn:
		return fmt.Errorf("stream.map.output=typedbytes needs stream.reduce.input=typedbytes: lines cannot contain typed bytes; -io typedbytes sets all four properties")
	case !isCommand(reducer) && SimpleName(reducer) != IdentityReducer && SimpleName(reducer) != IdentityMapper:
		return fmt.Errorf("the reducer %s works on text; with stream.map.output=typedbytes give a command, or no reducer", reducer)
	case combiner != "" && !isCommand(combiner) && SimpleName(combiner) != IdentityReducer:
		return fmt.Errorf("the combiner %s works on text; with stream.map.output=typedbytes give a command", combiner)
	}
	// What a combiner prints is read as a reducer's output, and goes to the reducer as a mapper's.
	if reduces && isCommand(combiner) && r.ReduceOut.Typed != r.MapOut.Typed {
		return fmt.Errorf("with a combiner stream.map.output and stream.reduce.output must both be typedbytes or neither, because the combiner's output is read by the second and must have the form of the first")
	}
	return nil
}

// keys chooses the partitioner and the order of the keys.
func (r *Rules) keys() error {
	c := r.Conf
	separator := c.Get("mapreduce.map.output.key.field.separator", "\t")
	r.Partition = HashPartition
	if p, o := SimpleName(c.Get(PropPartition, "")), SimpleName(c.Get("mapreduce.job.output.key.comparator.class", "")); r.MapOut.Typed &&
		(p != "" && p != "HashPartitioner" || o != "" && o != "Comparator") {
		return fmt.Errorf("with stream.map.output=typedbytes keys are distributed by HashPartitioner and sorted by their bytes: fields of keys need stream.map.output=text")
	}
	switch class := c.Get(PropPartition, ""); SimpleName(class) {
	case "", "HashPartitioner":
	case "KeyFieldBasedPartitioner":
		options := c.Get("mapreduce.partition.keypartitioner.options", "")
		// An older property, which Hadoop translates in the same way and lets win.
		if n := c.Get("num.key.fields.for.partition", ""); n != "" {
			options = "-k1," + n
		}
		spec, err := NewKeySpec(options, separator)
		if err != nil {
			return fmt.Errorf("mapreduce.partition.keypartitioner.options: %w", err)
		}
		r.Partition = spec.Partition
	default:
		return fmt.Errorf("the partitioner %s is not built in (built in: HashPartitioner, KeyFieldBasedPartitioner)", class)
	}
	switch class := c.Get("mapreduce.job.output.key.comparator.class", ""); SimpleName(class) {
	case "", "Comparator": // Text$Comparator is the order of the bytes
		return nil
	case "KeyFieldBasedComparator":
		spec, err := NewKeySpec(c.Get("mapreduce.partition.keycomparator.options", ""), separator)
		if err != nil {
			return fmt.Errorf("mapreduce.partition.keycomparator.options: %w", err)
		}
		// An empty specification keeps the order of the bytes and saves the sort keys, which are longer than
		// the keys.
		if !spec.Empty() {
			r.Order = spec
		}
		return nil
	default:
		return fmt.Errorf("the comparator %s is not built in (built in: KeyFieldBasedComparator)", class)
	}
}

// SortKey returns the key by which the engine sorts and partitions a record. buf is
// memory to use.
func (r *Rules) SortKey(buf, key []byte) []byte {
	if r.Order == nil {
		return key
	}
	// The result lives in buf until the next record, which suits the engine: it copies each key.
	return r.Order.AppendSortKey(buf[:0], key)
}

// Key returns the key in a sort key.
func (r *Rules) Key(sortKey []byte) []byte {
	if r.Order == nil {
		return sortKey
	}
	return KeyOf(sortKey)
}

// Partitioner returns the partitioner of sort keys.
func (r *Rules) Partitioner(sortKey []byte, n int) int { return r.Partition(r.Key(sortKey), n) }

// OutputLine appends a line of an output file. A nil value leaves out the separator.
func (r *Rules) OutputLine(buf, key, value []byte) []byte {
	buf = append(buf, key...)
	if value == nil {
		return buf
	}
	return append(append(buf, r.Output...), value...)
}

// Class returns the simple name of a class that an option names, if known maps it.
func class(option, name string, known map[string]string) (string, error) {
	if to, ok := known[SimpleName(name)]; ok {
		return to, nil
	}
	return "", usage("%s : class not found : %s", option, name)
}
