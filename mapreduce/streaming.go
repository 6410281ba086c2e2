package mapreduce

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"

	"github.com/slotwise/slotwise/internal/data/stream"
	"github.com/slotwise/slotwise/internal/live/feature"
)

// StreamingOptions describe a job whose map and reduce functions are commands, in
// any language.
//
// A mapper reads the lines of its split on standard input. A reducer reads lines
// of key TAB value, sorted by key. Each line that they print is a record. The key
// ends before the line's first TAB; a line without TAB is a key without value. A
// line reaches the reducer exactly as the mapper printed it.
//
// On standard error, a line reporter:counter:GROUP,NAME,N adds N to a counter.
// All other lines go to Stderr, after the attempt's id if the job runs in this process. An exit status other than 0 fails the attempt.
type StreamingOptions struct {
	Name     string    // of the job; "streaming" if empty
	Mapper   string    // runs by sh -c; if empty, lines pass unchanged
	Reducer  string    // runs by sh -c; if empty, the job has no reduces
	Combiner string    // must print lines that the mapper could have printed, in any order
	Stderr   io.Writer // os.Stderr if nil
	// Properties, if not nil, are Hadoop's job properties. The job then follows the rules of
	// Hadoop Streaming instead of those above: commands run without a shell in a directory
	// of their own and find all properties in their environment, and properties choose
	// separators, partitioner and order. Properties that do not exist are ignored.
	Properties map[string]string
}

// recipe returns what another process needs to build the job.
func (o *StreamingOptions) recipe() *feature.Recipe {
	return &feature.Recipe{Streaming: &feature.Streaming{Mapper: o.Mapper, Reducer: o.Reducer, Combiner: o.Combiner, Properties: o.Properties}}
}

// Streaming returns a job that runs commands.
func Streaming(o StreamingOptions) (*Job, error) {
	if o.Stderr == nil {
		o.Stderr = os.Stderr
	}
	if o.Properties != nil {
		return hadoopStreaming(o)
	}
	if strings.TrimSpace(o.Mapper) == "" && strings.TrimSpace(o.Reducer) == "" {
		return nil, errors.New("streaming needs a mapper or a reducer command")
	}
	if o.Combiner != "" && o.Reducer == "" {
		return nil, errors.New("a combiner command needs a reducer command")
	}
	emit := emitRecord
	// The mapper's lines are the output then. Only a shuffle needs keys.
	if o.Reducer == "" {
		emit = emitLine
	}
	j := &Job{Name: o.Name, Mapper: func() Mapper { return newStreamMapper(o.Mapper, o.Stderr, emit) }}
	if j.Name == "" {
		j.Name = "streaming"
	}
	// A command may print its lines in any order.
	j.recipe, j.combinerUnsorted = o.recipe(), true
	if o.Reducer != "" {
		j.Reducer = func() Reducer { return newStreamReducer("reducer", o.Reducer, o.Stderr, emitLine) }
	}
	if o.Combiner != "" {
		j.Combiner = func() Reducer { return newStreamReducer("combiner", o.Combiner, o.Stderr, emitRecord) }
	}
	return j, nil
}

// command is a mapper or reducer that hands its records to a child process.
// line is made once in Start, because a closure for each call would be allocated. out is the emitter of the
// call in progress. buf has input that the child has not got yet.
type command struct {
	role, cmd string
	stderr    io.Writer
	child     *stream.Child
	emit      func(out *Emitter, line []byte)
	line      func([]byte) error
	out       *Emitter
	buf       []byte
}

// commandBuffer is the number of input bytes that are collected for one write to
// the child.
const commandBuffer = 256 << 10

// Start starts the child process.
func (c *command) Start(t *Task) (err error) {
	c.line = func(b []byte) error { c.emit(c.out, b); return nil }
	name := ""
	if t.t.SharesProcess { // else the lines are in the attempt's own log
		name = t.t.Attempt.String()
	}
	c.child, err = stream.Start(t.t.Ctx, stream.Config{
		Command: c.cmd, Role: c.role, Stderr: c.stderr, Name: name, Count: t.t.Counters.Add, Alive: t.KeepAlive,
		Env: []string{
			"SLOTWISE_JOB=" + t.JobName(),
			"SLOTWISE_ATTEMPT=" + t.t.Attempt.String(),
			fmt.Sprintf("SLOTWISE_TASK=%d", t.Index()),
			fmt.Sprintf("SLOTWISE_MAPS=%d", t.Maps()),
			fmt.Sprintf("SLOTWISE_REDUCES=%d", t.Reduces()),
		},
	})
	return err
}

// feed writes the collected bytes and then b to the child, and emits the lines
// that the child has printed meanwhile.
func (c *command) feed(b []byte, out *Emitter) error {
	c.out = out
	// First, because the bytes in buf came before b.
	if len(c.buf) > 0 {
		err := c.child.Feed(c.buf, c.line)
		if c.buf = c.buf[:0]; err != nil {
			return err
		}
	}
	// Feed also reads. Writing alone would block for ever once the pipe of the command's output is full and
	// the command waits for a reader.
	return c.child.Feed(b, c.line)
}

// Finish writes the remaining bytes, closes the child's input, and emits all lines
// until the child exits.
func (c *command) Finish(out *Emitter) error {
	if c.child == nil {
		return nil
	}
	// The child's processor time is known only after Close has waited for the child.
	defer func() {
		c.child.Close()
		out.task.t.Children.Add(int64(c.child.CPU()))
	}()
	if err := c.feed(nil, out); err != nil {
		return err
	}
	return c.child.Finish(c.line)
}

// emitRecord emits a line as a record whose value begins with the TAB. Key and
// value joined are then exactly the line.
func emitRecord(out *Emitter, line []byte) {
	if i := bytes.IndexByte(line, '\t'); i >= 0 {
		out.Emit(line[:i], line[i:])
		return
	}
	out.Emit(line, nil)
}

// emitLine emits a line for the output file.
func emitLine(out *Emitter, line []byte) { out.Emit(line, nil) }

// streamMapper is a mapper command.
type streamMapper struct{ command }

func newStreamMapper(cmd string, stderr io.Writer, emit func(*Emitter, []byte)) Mapper {
	if strings.TrimSpace(cmd) == "" {
		return lineMapper{}
	}
	return &streamMapper{command{role: "mapper", cmd: cmd, stderr: stderr, emit: emit}}
}

// MapBlock passes a block of lines to the child.
func (m *streamMapper) MapBlock(block []byte, out *Emitter) error {
	// A line end after the last line: the command would join it with the first line of the next file.
	if n := len(block); n > 0 && block[n-1] != '\n' {
		if err := m.feed(block, out); err != nil {
			return err
		}
		block = []byte{'\n'}
	}
	return m.feed(block, out)
}

// Map passes one line to the child.
func (m *streamMapper) Map(_, value []byte, out *Emitter) error {
	m.buf = append(append(m.buf, value...), '\n')
	if len(m.buf) < commandBuffer {
		return nil
	}
	return m.feed(nil, out)
}

// lineMapper replaces a missing mapper command.
type lineMapper struct{}

// Map emits the line as a record, as if the mapper were cat.
func (lineMapper) Map(_, line []byte, out *Emitter) error {
	emitRecord(out, line)
	return nil
}

// streamReducer is a reducer or combiner command.
type streamReducer struct{ command }

func newStreamReducer(role, cmd string, stderr io.Writer, emit func(*Emitter, []byte)) Reducer {
	return &streamReducer{command{role: role, cmd: cmd, stderr: stderr, emit: emit}}
}

// Reduce passes the lines of a group to the child.
func (r *streamReducer) Reduce(key []byte, values iter.Seq[[]byte], out *Emitter) error {
	for v := range values {
		// A long record is not copied: its parts go to the child from where they are. What is left for the buffer
		// is the line end.
		key, v := key, v
		if len(key)+len(v) >= commandBuffer {
			if err := r.feed(key, out); err != nil {
				return err
			}
			if err := r.feed(v, out); err != nil {
				return err
			}
			key, v = nil, nil
		}
		r.buf = append(append(append(r.buf, key...), v...), '\n')
		if len(r.buf) >= commandBuffer {
			if err := r.feed(nil, out); err != nil {
				return err
			}
		}
	}
	return nil
}
