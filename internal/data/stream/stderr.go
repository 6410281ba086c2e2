package stream

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/slotwise/slotwise/internal/base/counters"
)

// keptStderr is the number of bytes from the end of a child's standard error that
// ExitError keeps.
const keptStderr = 1 << 10

// maxStderrLine is the length limit of a line in bytes. A longer one, such as binary
// data, is passed on in pieces of that length.
const maxStderrLine = 64 << 10

// stderrLog passes a child's standard error on, line by line. It consumes Hadoop's
// reporter lines:
//
//	reporter:counter:<group>,<name>,<amount>
//	reporter:status:<text>
type stderrLog struct {
	to     io.Writer
	prefix string
	// groupEnd is Config.GroupEnd.
	groupEnd string
	count    func(name string, n int64)
	status   func(text string)
	alive    func()
	name     string // Config.Name
	line     []byte
	last     []byte
	binary   atomic.Bool // binaryMatches was called; both outputs are read at a time
}

// stderrAtOnce is the number of bytes of standard error that are read at once.
const stderrAtOnce = 4 << 10

// ReadFrom implements io.ReaderFrom. Package exec copies standard error by it, instead of
// allocating 32 KiB for each command, most of which print nothing there.
func (l *stderrLog) ReadFrom(r io.Reader) (total int64, err error) {
	b := make([]byte, stderrAtOnce)
	for {
		n, err := r.Read(b)
		// Its result is dropped: it never fails, and a log that cannot be written must not fail the task.
		l.Write(b[:n])
		total += int64(n)
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// Write implements io.Writer for the child's standard error.
func (l *stderrLog) Write(b []byte) (int, error) {
	n := len(b)
	l.alive()
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 && len(l.line)+len(b) < maxStderrLine {
			l.line = append(l.line, b...)
			return n, nil
		}
		end := i + 1
		if i < 0 {
			end = len(b)
		}
		end = min(end, maxStderrLine-len(l.line))
		l.line = append(l.line, b[:end]...)
		l.flush()
		b = b[end:]
	}
}

// flush handles the line collected so far.
func (l *stderrLog) flush() {
	// line stays valid until the next Write, and l.to writes it before that.
	line := l.line
	l.line = l.line[:0]
	if len(line) == 0 {
		return
	}
	if rest, ok := bytes.CutPrefix(line, []byte(l.prefix+"status:")); ok {
		if l.status != nil {
			l.status(strings.TrimSpace(string(rest)))
		}
		return
	}
	// A malformed report is passed on as text, so that its author sees it.
	if rest, ok := bytes.CutPrefix(line, []byte(l.prefix+"counter:")); ok && l.counter(string(rest)) {
		return
	}
	// Reports are not kept: a user who reads the error wants the messages between them.
	l.last = append(l.last, line...)
	if len(l.last) > keptStderr {
		l.last = append(l.last[:0], l.last[len(l.last)-keptStderr:]...)
	}
	if bytes.HasSuffix(bytes.TrimSpace(line), binaryOnStderr) {
		l.binaryMatches()
	}
	if l.to == nil {
		return
	}
	if l.name != "" { // in one call, so that the lines of several commands stay whole
		line = append([]byte(l.name+": "), line...)
	}
	l.to.Write(line)
}

// binaryOnStderr ends the line that GNU grep prints from version 3.5 on instead of the lines that
// match in binary data, such as "grep: (standard input): binary file matches".
var binaryOnStderr = []byte(": binary file matches")

// binaryMatches counts, once for each command, that the command has left out lines. Its exit
// status is 0, so without the counter no user would know that the result is incomplete.
func (l *stderrLog) binaryMatches() {
	if l.count != nil && l.binary.CompareAndSwap(false, true) {
		l.count(counters.BinaryMatches, 1)
	}
}

// counter adds to a counter. It reports false if s is not group,name,amount.
func (l *stderrLog) counter(s string) bool {
	// Hadoop splits at every comma, too, and ignores a line that does not give three parts.
	f := strings.Split(strings.TrimSpace(s), ",")
	if len(f) != 3 {
		return false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(f[2]), 10, 64)
	if err != nil {
		return false
	}
	if l.count != nil {
		l.count(f[0]+l.groupEnd+f[1], n)
	}
	return true
}

// tail returns the end of the standard error in one line.
func (l *stderrLog) tail() string {
	return strings.ReplaceAll(strings.TrimSpace(string(l.last)), "\n", " | ")
}
