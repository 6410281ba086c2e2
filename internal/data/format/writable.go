package format

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// readVInt reads an integer as Hadoop's WritableUtils writes it: one byte for -112 to 127,
// else a byte with sign and length, and one to eight bytes.
func readVInt(r io.ByteReader) (int64, error) {
	first, err := r.ReadByte()
	if err != nil {
		return 0, err
	}
	n := int8(first)
	if n >= -112 {
		return int64(n), nil
	}
	negative := n < -120
	length := -112 - int(n)
	if negative {
		length = -120 - int(n)
	}
	var v uint64
	for range length {
		b, err := r.ReadByte()
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
		v = v<<8 | uint64(b)
	}
	if negative {
		return ^int64(v), nil
	}
	return int64(v), nil
}

// writable renders the keys or the values of a SequenceFile.
type writable struct {
	want   bool // the column is wanted
	render func(l *Line, b []byte) error
}

// writables renders the classes of keys and values, by simple name.
var writables = map[string]func(l *Line, b []byte) error{
	"Text":            renderText,
	"BytesWritable":   renderBytes,
	"NullWritable":    func(l *Line, b []byte) error { l.Null(); return exact(b, 0) },
	"BooleanWritable": fixedWidth(1, func(l *Line, b []byte) { l.Bool(b[0] != 0) }),
	"ByteWritable":    fixedWidth(1, func(l *Line, b []byte) { l.Int(int64(int8(b[0]))) }),
	"ShortWritable":   fixedWidth(2, func(l *Line, b []byte) { l.Int(int64(int16(binary.BigEndian.Uint16(b)))) }),
	"IntWritable":     fixedWidth(4, func(l *Line, b []byte) { l.Int(int64(int32(binary.BigEndian.Uint32(b)))) }),
	"LongWritable":    fixedWidth(8, func(l *Line, b []byte) { l.Int(int64(binary.BigEndian.Uint64(b))) }),
	"VIntWritable":    renderVInt,
	"VLongWritable":   renderVInt,
	"FloatWritable": fixedWidth(4, func(l *Line, b []byte) {
		renderFloat(l, float64(math.Float32frombits(binary.BigEndian.Uint32(b))), 32)
	}),
	"DoubleWritable": fixedWidth(8, func(l *Line, b []byte) {
		renderFloat(l, math.Float64frombits(binary.BigEndian.Uint64(b)), 64)
	}),
}

// newWritable returns the writable for a class.
func newWritable(class string) (*writable, error) {
	simple, ok := strings.CutPrefix(class, "org.apache.hadoop.io.")
	if render := writables[simple]; ok && render != nil {
		return &writable{render: render}, nil
	}
	return nil, fmt.Errorf("keys or values of class %q cannot be read; readable are Text, BytesWritable, NullWritable, and the Writables of numbers and booleans in org.apache.hadoop.io", class)
}

// append adds a key or value to a line.
func (w *writable) append(l *Line, b []byte) error {
	if !w.want {
		return nil
	}
	return w.render(l, b)
}

func exact(b []byte, n int) error {
	if len(b) != n {
		return fmt.Errorf("it has %d bytes and should have %d", len(b), n)
	}
	return nil
}

func fixedWidth(n int, add func(*Line, []byte)) func(*Line, []byte) error {
	return func(l *Line, b []byte) error {
		if err := exact(b, n); err != nil {
			return err
		}
		add(l, b)
		return nil
	}
}

// byteSlice implements io.ByteReader.
type byteSlice struct{ b []byte }

func (s *byteSlice) ReadByte() (byte, error) {
	if len(s.b) == 0 {
		return 0, io.EOF
	}
	c := s.b[0]
	s.b = s.b[1:]
	return c, nil
}

func renderVInt(l *Line, b []byte) error {
	s := &byteSlice{b}
	n, err := readVInt(s)
	if err != nil {
		return fmt.Errorf("an integer is cut off: %w", err)
	}
	l.Int(n)
	return exact(s.b, 0)
}

func renderText(l *Line, b []byte) error {
	s := &byteSlice{b}
	n, err := readVInt(s)
	if err != nil || n != int64(len(s.b)) {
		return fmt.Errorf("a Text of %d bytes states the length %d", len(s.b), n)
	}
	l.String(s.b)
	return nil
}

// renderBytes adds bytes: in raw lines as pairs of hexadecimal digits with spaces, as
// Hadoop prints them.
func renderBytes(l *Line, b []byte) error {
	if len(b) < 4 || int64(binary.BigEndian.Uint32(b)) != int64(len(b)-4) {
		return fmt.Errorf("a BytesWritable of %d bytes states another length", len(b))
	}
	if b = b[4:]; !l.raw {
		l.Bytes(b)
		return nil
	}
	text := make([]byte, 0, 3*len(b))
	for i, c := range b {
		if i > 0 {
			text = append(text, ' ')
		}
		text = hex.AppendEncode(text, []byte{c})
	}
	l.String(text)
	return nil
}

// renderFloat adds a number: in raw lines as Java prints it.
func renderFloat(l *Line, f float64, bits int) {
	if !l.raw {
		l.Float(f, bits)
		return
	}
	l.Number(JavaFloat(f, bits))
}

// JavaFloat returns a number of 32 or 64 bits in the notation of Java's Double.toString.
func JavaFloat(f float64, bits int) string {
	abs := math.Abs(f)
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	case abs == 0 || abs >= 1e-3 && abs < 1e7:
		s := strconv.FormatFloat(f, 'f', -1, bits)
		if !strings.Contains(s, ".") {
			s += ".0"
		}
		return s
	}
	digits, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, bits), "e")
	if !strings.Contains(digits, ".") {
		digits += ".0"
	}
	n, _ := strconv.Atoi(exponent)
	return digits + "E" + strconv.Itoa(n)
}
