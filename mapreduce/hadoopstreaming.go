package mapreduce

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/slotwise/slotwise/internal/base/durable"
	"github.com/slotwise/slotwise/internal/data/engine"
	"github.com/slotwise/slotwise/internal/data/format"
	"github.com/slotwise/slotwise/internal/data/hadoop"
	"github.com/slotwise/slotwise/internal/data/input"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/data/stream"
	"github.com/slotwise/slotwise/sched/job"
)

// hadoopJob has the rules of a streaming job with Hadoop's properties.
type hadoopJob struct{ rules *hadoop.Rules }

// inputs returns the options by which the job's input is divided.
func (h *hadoopJob) inputs(schemes *storage.Schemes) *input.HadoopOptions {
	c := h.rules.Conf
	o := &input.HadoopOptions{
		// 2 is the default in Hadoop's mapred-default.xml.
		Schemes: schemes, Maps: c.Int("mapreduce.job.maps", 2),
		MinSize:    int64(c.Int("mapreduce.input.fileinputformat.split.minsize", 0)),
		Recursive:  c.Bool("mapreduce.input.fileinputformat.input.dir.recursive", false),
		IgnoreDirs: c.Bool("mapreduce.input.fileinputformat.input.dir.nonrecursive.ignore.subdirs", false),
		Combine:    h.rules.Input == hadoop.CombineInput,
		// Hadoop's input formats do not look at the names of directories.
		Rows: &format.Spec{Name: format.Auto, Separator: ',', NoPartitions: true},
	}
	sequences := &format.Spec{Name: format.Sequence, Stream: format.StreamBytes, Separator: ',', NoPartitions: true}
	if h.rules.TypedMapIn {
		sequences.Stream = format.StreamTyped
	}
	switch h.rules.Input {
	case hadoop.AsTextInput:
		sequences.Stream = format.StreamString
		o.Rows = sequences
	case hadoop.SequenceInput:
		o.Rows = sequences
	// Each file is looked into: SequenceFiles are read as records, all others as lines.
	case hadoop.AutoInput:
		o.Sequences = sequences
	}
	if h.rules.Input == hadoop.NLineInput {
		o.LinesPerMap = max(1, c.Int("mapreduce.input.lineinputformat.linespermap", 1))
	}
	return o
}

// hadoopStreaming returns a streaming job that follows Hadoop Streaming's rules.
func hadoopStreaming(o StreamingOptions) (*Job, error) {
	conf := hadoop.Conf(o.Properties)
	rules, err := hadoop.NewRules(conf)
	if err != nil {
		return nil, err
	}
	j := &Job{
		Name: cmp.Or(o.Name, conf.Get("mapreduce.job.name", ""), "streaming"), Partitioner: rules.Partitioner,
		combinerUnsorted: true, hadoop: &hadoopJob{rules}, recipe: o.recipe(),
	}
	switch {
	case rules.SequenceOutput && rules.TypedOutput(o.Reducer):
		j.Output = Rows(format.Sequence + ",as=typed")
	case rules.SequenceOutput:
		j.Output = Rows(format.Sequence)
	}
	files := o.Reducer == ""
	if err := rules.CheckTyped(o.Mapper, o.Combiner, o.Reducer, !files); err != nil {
		return nil, err
	}
	if j.Mapper, err = hadoopMapper(o, rules, files); err != nil || files {
		return j, err
	}
	if j.Reducer, err = hadoopReducer(o, rules, "reducer", o.Reducer); err != nil {
		return nil, err
	}
	combiner := o.Combiner
	// As in Hadoop, the aggregators are the combiner, too, whatever the user names.
	if strings.EqualFold(o.Reducer, hadoop.Aggregate) {
		combiner = hadoop.Aggregate
	}
	if combiner != "" {
		j.Combiner, err = hadoopReducer(o, rules, "combiner", combiner)
	}
	return j, err
}

// hadoopMapper returns the mapper for a command or a built-in class. toFiles says that the
// job has no reduces.
func hadoopMapper(o StreamingOptions, rules *hadoop.Rules, toFiles bool) (func() Mapper, error) {
	class, err := hadoop.BuiltinClass(o.Mapper)
	if err != nil {
		return nil, err
	}
	return func() Mapper {
		b := hadoopBlocks{rules: rules}
		w := hadoopWriter{rules: rules, cut: &rules.MapOut, typed: rules.MapOut.Typed, toFile: toFiles}
		switch {
		case class != "":
			return &hadoopClassMapper{hadoopBlocks: b, w: w, class: class}
		case strings.TrimSpace(o.Mapper) == "":
			return &hadoopClassMapper{hadoopBlocks: b, w: w, class: hadoop.IdentityMapper, lines: rules.Input == hadoop.TextInput}
		}
		return &hadoopCommandMapper{hadoopCommand{command: command{role: "mapper", cmd: o.Mapper, stderr: o.Stderr}, w: w}, b}
	}, nil
}

// hadoopReducer returns the reducer or combiner for a command or a built-in class.
func hadoopReducer(o StreamingOptions, rules *hadoop.Rules, role, value string) (func() Reducer, error) {
	w := hadoopWriter{rules: rules, cut: &rules.ReduceOut, typed: rules.ReduceOut.Typed, toFile: role == "reducer"}
	if strings.EqualFold(value, hadoop.Aggregate) {
		return func() Reducer { return &hadoopAggregator{w: w} }, nil
	}
	class, err := hadoop.BuiltinClass(value)
	if err != nil {
		return nil, err
	}
	return func() Reducer {
		if class != "" {
			// A copy for each reducer: its buffer must not be shared by tasks that run at a time.
			w := w
			w.typed = rules.MapOut.Typed // the records pass unchanged
			return &hadoopClassReducer{w: w, class: class}
		}
		return &hadoopCommandReducer{hadoopCommand{command: command{role: role, cmd: value, stderr: o.Stderr}, w: w}}
	}, nil
}

// hadoopWriter emits the records of a mapper, combiner or reducer: with sort keys to the
// shuffle, or as lines of an output file.
// buf is used again for each record, which Emit copies, so a hadoopWriter belongs to one task.
type hadoopWriter struct {
	rules  *hadoop.Rules
	cut    *hadoop.Cut
	typed  bool // keys and values of records are typed bytes
	toFile bool
	buf    []byte
}

// record emits a record.
func (w *hadoopWriter) record(key, value []byte, out *Emitter) (err error) {
	// The file's writer divides key and value itself.
	if w.toFile && w.rules.SequenceOutput {
		out.Emit(key, value)
		return nil
	}
	if w.toFile && w.typed {
		if w.buf, err = format.AppendTypedText(w.buf[:0], key); err != nil {
			return err
		}
		if w.buf, err = format.AppendTypedText(append(w.buf, w.rules.Output...), value); err != nil {
			return err
		}
		out.Emit(w.buf, nil)
		return nil
	}
	if w.toFile {
		w.buf = w.rules.OutputLine(w.buf[:0], key, value)
		out.Emit(w.buf, nil)
		return nil
	}
	sortKey := w.rules.SortKey(w.buf, key)
	// Without an order sortKey is the caller's key, which must not become the buffer.
	if w.rules.Order != nil {
		w.buf = sortKey
	}
	out.Emit(sortKey, value)
	return nil
}

// line emits a line that a command has printed. A CR ends a line, too.
func (w *hadoopWriter) line(b []byte, out *Emitter) error {
	for {
		i := bytes.IndexByte(b, '\r')
		if i < 0 {
			break
		}
		key, value := w.cut.Line(b[:i])
		if err := w.record(key, value, out); err != nil {
			return err
		}
		if b = b[i+1:]; len(b) == 0 {
			return nil // CR LF
		}
	}
	key, value := w.cut.Line(b)
	return w.record(key, value, out)
}

// hadoopCommand is a mapper, combiner or reducer command in a working directory of its
// own.
type hadoopCommand struct {
	command
	w    hadoopWriter
	dir  string // removed at the end
	idle bool   // a reducer without input, whose output does not count
	// typed divides the output if it is typed bytes.
	typed format.TypedReader
}

// Start makes the working directory and starts the command in it.
func (c *hadoopCommand) Start(t *Task) (err error) {
	rules := c.w.rules
	c.line = func(b []byte) error {
		// As under Hadoop, the command of a reduce without records is started, and its output,
		// such as a total of 0, is dropped.
		if c.idle {
			return nil
		}
		if !c.w.cut.Typed {
			return c.w.line(b, c.out)
		}
		err := c.typed.Feed(b, func(key, value []byte) error { return c.w.record(key, value, c.out) })
		return c.named(err)
	}
	if c.dir, err = os.MkdirTemp("", "slotwise-task-"); err != nil {
		return storage.Disk(err)
	}
	defer func() {
		// Without a running command Finish is not called, and the directory would stay.
		if err != nil {
			_ = durable.RemoveTree(c.dir) // err is the reason
		}
	}()
	if err := linkCache(rules.Conf, c.dir); err != nil {
		return err
	}
	// Without a shell, as Hadoop's PipeMapRed: quotes group words, and $, | and > are characters.
	args := hadoop.SplitCommand(c.cmd)
	if len(args) == 0 {
		return fmt.Errorf("%s command %q has no words", c.role, c.cmd)
	}
	// The task's directory comes before PATH: jobs name their uploaded scripts without "./".
	args[0] = findCommand(args[0], c.dir)
	env := hadoopEnvironment(rules, t, c.dir)
	c.child, err = stream.Start(t.t.Ctx, stream.Config{
		Command: c.cmd, Args: args, Dir: c.dir, Role: c.role, Stderr: c.stderr, Count: t.t.Counters.Add, Alive: t.KeepAlive,
		Env: env, Prefix: rules.Prefix, GroupEnd: hadoop.GroupEnd, ReadsAll: true, AnyExit: !rules.ExitIsFailure,
		Raw: c.w.cut.Typed,
	})
	// All properties are in the environment, and the kernel's error does not say which one is
	// too long.
	if errors.Is(err, syscall.E2BIG) {
		err = fmt.Errorf("%w: the environment is too large; the largest variable is %s; -D stream.jobconf.truncate.limit=20000 shortens values", err, largest(env))
	}
	return err
}

// Finish waits for the end of the command and removes its working directory.
func (c *hadoopCommand) Finish(out *Emitter) error {
	defer durable.RemoveTree(c.dir)
	if err := c.command.Finish(out); err != nil {
		return explainExit(err)
	}
	return c.named(c.typed.End())
}

// named adds the command to an error about its output.
func (c *hadoopCommand) named(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s command %q: %w", c.role, c.cmd, err)
}

// feed writes the collected bytes and then b to the command.
func (c *hadoopCommand) feed(b []byte, out *Emitter) error {
	return explainExit(c.command.feed(b, out))
}

// explainExit puts the error of a command with an exit status in Hadoop's words.
func explainExit(err error) error {
	var exit *stream.ExitError
	if errors.As(err, &exit) && exit.Code > 0 {
		return &hadoopExitError{exit}
	}
	return err
}

// hadoopExitError is the error of a command with an exit status, in Hadoop's words.
type hadoopExitError struct{ *stream.ExitError }

// Error returns the text that Hadoop's users search for, and the command.
func (e *hadoopExitError) Error() string {
	return fmt.Sprintf("PipeMapRed.waitOutputThreads(): subprocess failed with code %d (%s)", e.Code, e.ExitError.Error())
}

// Unwrap returns the error of the command.
func (e *hadoopExitError) Unwrap() error { return e.ExitError }

// largest returns the name of the longest variable.
func largest(env []string) string {
	longest := ""
	for _, v := range env {
		if len(v) > len(longest) {
			longest = v
		}
	}
	name, _, _ := strings.Cut(longest, "=")
	return name
}

// findCommand returns the path of a command's first word: a file of the task's directory,
// else the first regular file in PATH. A word that is found nowhere is returned unchanged.
func findCommand(word, dir string) string {
	if filepath.IsAbs(word) {
		return word
	}
	for _, d := range append([]string{dir}, filepath.SplitList(os.Getenv("PATH"))...) {
		path := filepath.Join(d, word)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return word
}

// hadoopEnvironment returns the variables of a command: all properties of the job, those
// of the task, -cmdenv, and TMPDIR.
func hadoopEnvironment(rules *hadoop.Rules, t *Task, dir string) []string {
	conf := make(hadoop.Conf, len(rules.Conf)+32)
	for name, v := range rules.Conf {
		conf[name] = v
	}
	setTask(conf, t, dir)
	// Later variables win, so properties override the variables of the task's environment.
	env := append([]string{}, taskVariables(conf, t.IsMap())...)
	if root := conf.Get(hadoop.PropRoot, ""); root != "" {
		env = append(env, "SLOTWISE_HDFS_DIR="+root) // for hadoop fs in a task
	}
	// Hadoop puts all of the job's properties into the environment, with underscores for points.
	env = append(env, conf.Environment()...)
	for _, word := range strings.Split(conf.Get("stream.addenvironment", ""), " ") {
		if strings.Contains(word, "=") {
			env = append(env, word)
		}
	}
	// As under Hadoop, temporary files of a task are below its directory and are removed with it.
	tmp := filepath.Join(dir, "tmp")
	_ = os.Mkdir(tmp, 0o700) // a shipped file may have the name
	// PWD for commands that ask it before the system, such as sh, where the inherited one would be this
	// process's.
	return append(env, "PWD="+dir, "TMPDIR="+tmp)
}

// taskVariables returns the variables of mapreduce.map.env or mapreduce.reduce.env, whose
// form is A=x,B=$B:y.
func taskVariables(conf hadoop.Conf, isMap bool) []string {
	name := "mapreduce.reduce.env"
	if isMap {
		name = "mapreduce.map.env"
	}
	var env []string
	for _, v := range strings.Split(conf.Get(name, conf.Get("mapred.child.env", "")), ",") {
		if strings.Contains(v, "=") {
			env = append(env, os.ExpandEnv(strings.TrimSpace(v)))
		}
	}
	return env
}

// setTask sets the properties that describe the task.
func setTask(conf hadoop.Conf, t *Task, dir string) {
	// Hadoop's ids begin with the time at which its cluster started, and scripts cut them at the underscores.
	stamp, err := strconv.ParseInt(conf.Get(hadoop.PropStamp, ""), 10, 64)
	if err != nil {
		stamp = hadoop.ClusterStamp
	}
	id, err := hadoop.NumberOf(stamp, t.t.Attempt.Job.String())
	if err == nil {
		kind := byte('r')
		if t.t.Attempt.Kind == job.Map {
			kind = 'm'
		}
		conf.Set("mapreduce.job.id", id.Job())
		conf.Set("mapreduce.task.id", id.Task(kind, t.Index()))
		conf.Set("mapreduce.task.attempt.id", id.Attempt(kind, t.Index(), t.Try()))
	}
	conf.Set("mapreduce.task.ismap", strconv.FormatBool(t.IsMap()))
	conf.Set("mapreduce.task.partition", strconv.Itoa(t.Index()))
	conf.Set("mapreduce.job.maps", strconv.Itoa(t.Maps()))
	conf.Set("mapreduce.job.reduces", strconv.Itoa(t.Reduces()))
	conf.Set("mapreduce.job.name", t.JobName())
	conf.Set("mapreduce.job.local.dir", dir)
	// A split of several files has no single file to name.
	if s := t.t.Split; s != nil && len(s.Pieces) == 1 {
		p := &s.Pieces[0]
		conf.Set("mapreduce.map.input.file", hadoop.DisplayURI(p.URI, conf.Get(hadoop.PropRoot, "")))
		conf.Set("mapreduce.map.input.start", strconv.FormatInt(p.Offset, 10))
		conf.Set("mapreduce.map.input.length", strconv.FormatInt(p.Length, 10))
	}
}

// hadoopBlocks turns blocks of lines into records as Hadoop's line reader does: a CR ends a
// line, too, and a byte order mark at the start of a file is no data.
type hadoopBlocks struct {
	rules    *hadoop.Rules
	task     *engine.Task
	sequence bool // the lines are the records of a SequenceFile: key, TAB, value, with escapes
	record   []byte
}

// start notes the task. Of AutoInputFormat each split has files of one kind.
func (h *hadoopBlocks) start(t *Task) {
	h.task = t.t
	h.sequence = t.t.Split != nil && strings.HasPrefix(t.t.Split.Rows, format.Sequence)
}

// utf8Mark is the byte order mark of UTF-8.
var utf8Mark = []byte("\xef\xbb\xbf")

// clean returns a block in which every line ends with LF.
func (h *hadoopBlocks) clean(block []byte) []byte {
	if h.task.BlockOffset == 0 && !h.sequence { // the first record of a SequenceFile may begin with these bytes
		block = bytes.TrimPrefix(block, utf8Mark)
	}
	if bytes.IndexByte(block, '\r') >= 0 {
		// A copy, because the length of the block gives the offset of the next one.
		block = bytes.ReplaceAll(block, []byte("\r\n"), []byte("\n"))
		block = bytes.ReplaceAll(block, []byte("\r"), []byte("\n"))
	}
	// The last line of a file may lack its LF, and a command counts lines by it.
	if n := len(block); n > 0 && block[n-1] != '\n' {
		// The capacity is cut, because the block may be a file mapped into memory, behind which nothing may
		// be written.
		block = append(block[:n:n], '\n')
	}
	return block
}

// each calls fn with the key and the value of each line. The key is the line's offset unless the
// input has keys.
func (h *hadoopBlocks) each(block []byte, fn func(key, value []byte) error) (err error) {
	var number []byte
	return h.eachAt(block, func(offset int64, line []byte) error {
		if h.rules.Keyed(h.sequence) {
			return fn(h.divide(line))
		}
		number = strconv.AppendInt(number[:0], offset, 10)
		return fn(number, line)
	})
}

// divide returns the key and the value of a line of an input with keys. They are valid until the next call.
func (h *hadoopBlocks) divide(line []byte) (key, value []byte) {
	i := bytes.IndexByte(line, h.rules.KeyValue)
	switch {
	case i < 0:
		return line, line[len(line):]
	case h.sequence:
		// Both parts share one buffer. The key is cut off after the value has been appended, because
		// append may move the buffer.
		h.record = format.AppendUnescaped(h.record[:0], line[:i])
		n := len(h.record)
		h.record = format.AppendUnescaped(h.record, line[i+1:])
		return h.record[:n:n], h.record[n:]
	}
	return line[:i], line[i+1:]
}

// eachAt calls fn with the offset of each line and the line. The offset counts the stored
// bytes, with CR LF and the byte order mark, because programs seek to it.
func (h *hadoopBlocks) eachAt(block []byte, fn func(offset int64, line []byte) error) (err error) {
	at := 0 // in block
	input.Lines(h.clean(block), func(line []byte) bool {
		err = fn(h.task.BlockOffset+int64(at), line)
		// clean has removed the mark from the first line, and programs seek by stored bytes.
		if at == 0 && h.task.BlockOffset == 0 && bytes.HasPrefix(block, utf8Mark) {
			at = len(utf8Mark)
		}
		at += len(line)
		// clean has made one byte of these two, so the stored line is a byte longer.
		if bytes.HasPrefix(block[min(at, len(block)):], []byte("\r\n")) {
			at++
		}
		at++
		return err == nil
	})
	return err
}

// hadoopCommandMapper is a mapper command.
type hadoopCommandMapper struct {
	hadoopCommand
	hadoopBlocks
}

// Start starts the command.
func (m *hadoopCommandMapper) Start(t *Task) error {
	m.start(t)
	return m.hadoopCommand.Start(t)
}

// Map is not called, because MapBlock is.
func (m *hadoopCommandMapper) Map(_, value []byte, out *Emitter) error {
	return m.MapBlock(append(value[:len(value):len(value)], '\n'), out)
}

// MapBlock passes a block of lines to the command, with keys if the input format has
// them.
func (m *hadoopCommandMapper) MapBlock(block []byte, out *Emitter) error {
	rules := m.hadoopBlocks.rules
	switch {
	case rules.TypedMapIn:
		return m.mapTyped(block, out)
	// The values of an input without keys are its lines.
	case !rules.WithKey && !rules.KeyOnlyMapIn && !rules.Keyed(m.sequence):
		block = m.clean(block)
		return m.feed(block, out)
	}
	err := m.each(block, func(key, value []byte) error {
		switch {
		case rules.KeyOnlyMapIn:
			m.buf = append(m.buf, key...)
		case rules.WithKey:
			m.buf = append(append(append(m.buf, key...), rules.MapIn...), value...)
		default: // stream.map.input.ignoreKey
			m.buf = append(m.buf, value...)
		}
		m.buf = append(m.buf, '\n')
		return nil
	})
	if err != nil {
		return err
	}
	return m.feed(nil, out)
}

// mapTyped passes a block of lines to the command as typed bytes. As in Hadoop, the key is there
// for every input format: an offset is a number, all other text a string.
func (m *hadoopCommandMapper) mapTyped(block []byte, out *Emitter) error {
	h := &m.hadoopBlocks
	err := h.eachAt(block, func(offset int64, line []byte) error {
		if !h.rules.Keyed(h.sequence) {
			m.buf = format.AppendTypedString(format.AppendTypedLong(m.buf, offset), line)
			return nil
		}
		key, value := h.divide(line)
		// Keys and values of a SequenceFile are typed bytes already, unless they are read as text.
		if h.sequence && h.rules.Input != hadoop.AsTextInput {
			m.buf = append(append(m.buf, key...), value...)
		} else {
			m.buf = format.AppendTypedString(format.AppendTypedString(m.buf, key), value)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return m.feed(nil, out)
}

// hadoopCommandReducer is a reducer or combiner command.
type hadoopCommandReducer struct{ hadoopCommand }

// Start starts the command. Until the first record its output does not count.
func (r *hadoopCommandReducer) Start(t *Task) error {
	r.idle = true
	return r.hadoopCommand.Start(t)
}

// Reduce passes the records of a group to the command, one line or pair of typed values for each.
func (r *hadoopCommandReducer) Reduce(sortKey []byte, values iter.Seq[[]byte], out *Emitter) error {
	r.idle = false
	rules := r.w.rules
	key := rules.Key(sortKey)
	for v := range values {
		switch {
		case rules.TypedReduceIn && rules.MapOut.Typed:
			r.buf = append(append(r.buf, key...), v...)
		case rules.TypedReduceIn:
			r.buf = format.AppendTypedString(format.AppendTypedString(r.buf, key), v)
		case rules.KeyOnlyInput:
			r.buf = append(append(r.buf, key...), '\n')
		default:
			r.buf = append(append(append(append(r.buf, key...), rules.ReduceIn...), v...), '\n')
		}
		if len(r.buf) >= commandBuffer {
			if err := r.feed(nil, out); err != nil {
				return err
			}
		}
	}
	return nil
}

var (
	_ BlockMapper = (*hadoopCommandMapper)(nil)
	_ Starter     = (*hadoopCommandMapper)(nil)
	_ Finisher    = (*hadoopCommandReducer)(nil)
)
