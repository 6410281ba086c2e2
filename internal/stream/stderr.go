package stream

import (
	"bytes"
	"io"
	"strconv"
	"strings"
)

// keptStderr is how many bytes at the end of a child's messages are kept for
// the error that its failure makes.
const keptStderr = 1 << 10

// maxStderrLine is how long a line of a child's messages may become, in bytes;
// what is longer, such as binary data, is passed on in pieces of that length.
const maxStderrLine = 64 << 10

// stderrLog passes on a child's messages line by line, but takes out Hadoop's
// reporter lines:
//
//	reporter:counter:<group>,<name>,<amount>
//	reporter:status:<text>
type stderrLog struct {
	to    io.Writer
	count func(name string, n int64)
	alive func()
	line  []byte
	last  []byte
}

// Write takes more of the messages.
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

// flush handles the line gathered so far.
func (l *stderrLog) flush() {
	line := l.line
	l.line = l.line[:0]
	if len(line) == 0 || bytes.HasPrefix(line, []byte("reporter:status:")) {
		return
	}
	if rest, ok := bytes.CutPrefix(line, []byte("reporter:counter:")); ok && l.counter(string(rest)) {
		return
	}
	l.last = append(l.last, line...)
	if len(l.last) > keptStderr {
		l.last = append(l.last[:0], l.last[len(l.last)-keptStderr:]...)
	}
	if l.to != nil {
		l.to.Write(line)
	}
}

// counter reads group,name,amount.
func (l *stderrLog) counter(s string) bool {
	f := strings.Split(strings.TrimSpace(s), ",")
	if len(f) != 3 {
		return false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(f[2]), 10, 64)
	if err != nil {
		return false
	}
	if l.count != nil {
		l.count(f[0]+"."+f[1], n)
	}
	return true
}

// tail returns the last messages in one line.
func (l *stderrLog) tail() string {
	return strings.ReplaceAll(strings.TrimSpace(string(l.last)), "\n", " | ")
}
