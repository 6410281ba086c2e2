package master

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/slotwise/slotwise/internal/base/bounds"
)

// The memory of a decoded message has little to do with its length: two bytes on the wire
// are an empty split, which takes more than a hundred bytes in memory, and a hundred
// kilobytes of gzip are a million of those. So the functions of this file estimate the
// memory of a message before it is decoded. They read it as a stream and keep nothing, and
// stop as soon as the message exceeds a bound.

// errCostly refuses a message.
var errCostly = fmt.Errorf("the message is refused: decoded it would take more than %d bytes of memory", bounds.Decoded)

// errNested refuses a message.
var errNested = fmt.Errorf("the message is refused: its parts are nested more than %d deep", bounds.Nested)

const (
	// These constants are upper bounds of what Go's decoder allocates: TestMessageCost decodes every field of every
	// message and compares.

	// elementCost is the memory in bytes of an element of a list beside the bytes of its
	// text: its header in a list that grows and leaves smaller ones behind as garbage, and the
	// allocator's rounding. Lists of bytes have the largest headers.
	elementCost, bytesCost = 96, 144
	// valueCost is the same for a value that is not in a list: its place is in the struct.
	valueCost = 24
	// packedCost is the factor between the length of a packed list of numbers and its memory:
	// a byte on the wire becomes up to 8 in a list that may have twice the capacity.
	packedCost = 16
)

// cost is the estimate of one message while it is read.
type cost struct {
	in   *bufio.Reader
	size int64 // bytes read so far
	sum  int64 // bytes of memory
}

// add adds n bytes of memory.
func (c *cost) add(n int64) error {
	if c.sum += n; c.sum > bounds.Decoded {
		return errCostly
	}
	return nil
}

// ReadByte implements io.ByteReader for varints.
func (c *cost) ReadByte() (byte, error) {
	b, err := c.in.ReadByte()
	if err == nil {
		c.size++
	}
	return b, err
}

// skip reads n bytes.
func (c *cost) skip(n int64) error {
	for n > 0 {
		done, err := c.in.Discard(int(min(n, 1<<20)))
		c.size += int64(done)
		if n -= int64(done); err != nil {
			return err
		}
	}
	return nil
}

// drain reads to the end.
func (c *cost) drain() error {
	for {
		if err := c.skip(1 << 20); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// readers are buffers of protoCost, which are larger than most messages.
var readers = sync.Pool{New: func() any { return bufio.NewReader(nil) }}

// protoCost reads an encoded message to the end of in and returns its length and an upper
// estimate of the memory that it takes when it is decoded, in bytes.
func protoCost(in io.Reader, d protoreflect.MessageDescriptor) (size, memory int64, err error) {
	b := readers.Get().(*bufio.Reader)
	b.Reset(in)
	defer func() {
		// The pool must not keep the body of a request alive.
		b.Reset(nil)
		readers.Put(b)
	}()
	c := &cost{in: b}
	err = c.add(structSize(d))
	if err == nil {
		err = c.message(d, math.MaxInt64, 1)
	}
	if err == nil || errors.Is(err, io.EOF) {
		// It is the end of the message, or damage. The decoder reports damage where this
		// reader has met it, so no later byte becomes a value. They count as bytes only.
		err = c.drain()
	}
	return c.size, c.sum, err
}

// message reads the fields of a message up to the position end.
func (c *cost) message(d protoreflect.MessageDescriptor, end int64, depth int) error {
	// The decoder recurses as this function does, and a stack that overflows ends the process.
	if depth > bounds.Nested {
		return errNested
	}
	// end may lie behind the end of the stream, which then ends the loop. A field that is longer than the
	// message around it is damage, too, and the decoder reports it.
	for c.size < end {
		tag, err := readVarint(c)
		if err != nil {
			return err
		}
		number, kind := protowire.DecodeTag(tag)
		if kind == protowire.EndGroupType {
			return nil // the end of the group that this call reads, or damage
		}
		var f protoreflect.FieldDescriptor // stays nil for an unknown field, which is kept as bytes
		if d != nil {
			f = d.Fields().ByNumber(number)
		}
		if err := c.field(f, kind, end, depth); err != nil {
			return err
		}
	}
	return nil
}

// field reads the value of a field.
func (c *cost) field(f protoreflect.FieldDescriptor, kind protowire.Type, end int64, depth int) error {
	// An element of a list costs more than its bytes on the wire: the decoder grows a slice,
	// and a short text or an empty message takes a pointer or a header each.
	own := int64(valueCost)
	switch {
	case f == nil || !f.IsList():
	case f.Kind() == protoreflect.BytesKind:
		own = bytesCost
	default:
		own = elementCost
	}
	// Before the value is read: a million empty fields have no values that would cost anything.
	if err := c.add(own); err != nil {
		return err
	}
	switch kind {
	case protowire.VarintType:
		_, err := readVarint(c)
		return err
	case protowire.Fixed32Type:
		return c.skip(4)
	case protowire.Fixed64Type:
		return c.skip(8)
	// Groups are a form that no message here uses. The decoder still descends into them, so the depth counts.
	case protowire.StartGroupType:
		return c.message(nil, end, depth+1)
	case protowire.BytesType:
	default:
		return io.EOF // damage, which the decoder reports
	}
	length, err := readVarint(c)
	if err != nil {
		return err
	}
	// A field cannot be longer than its message. Adding a longer one could overflow the position.
	if length > bounds.Message {
		return io.EOF // damage
	}
	n := int64(length)
	switch {
	case f != nil && f.Message() != nil:
		if err := c.add(structSize(f.Message())); err != nil {
			return err
		}
		return c.message(f.Message(), c.size+n, depth+1)
	// A list of numbers in one field: a byte on the wire may become a number of eight bytes.
	case f != nil && f.Kind() != protoreflect.StringKind && f.Kind() != protoreflect.BytesKind:
		err = c.add(packedCost * n)
	default:
		err = c.add(n)
	}
	if err != nil {
		return err
	}
	return c.skip(n)
}

// readVarint reads a number of at most ten bytes.
func readVarint(c *cost) (v uint64, err error) {
	for shift := 0; shift < 64; shift += 7 {
		b, err := c.ReadByte()
		if err != nil {
			return 0, err
		}
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v, nil
		}
	}
	return 0, io.EOF // damage
}

// structSizes has the memory of each message type without its fields' contents.
var structSizes sync.Map // of int64 by protoreflect.FullName

// structSize returns the bytes of the struct that a message is decoded into.
func structSize(d protoreflect.MessageDescriptor) int64 {
	if n, ok := structSizes.Load(d.FullName()); ok {
		return n.(int64)
	}
	n := int64(256) // an entry of a map, which has no Go type
	if t, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName()); err == nil {
		n = int64(reflect.TypeOf(t.Zero().Interface()).Elem().Size())
	}
	structSizes.Store(d.FullName(), n)
	return n
}

// jsonCost is protoCost for a message in JSON. It does not know which field is which, so it
// counts each object as the largest message. The decoder reports damage.
func jsonCost(in io.Reader) (size, memory int64, err error) {
	c := &cost{in: bufio.NewReader(in)}
	depth, inString := 0, false
	for {
		b, err := c.ReadByte()
		if err == io.EOF {
			return c.size, c.sum, nil
		}
		if err != nil {
			return c.size, c.sum, err
		}
		n := int64(1)
		switch {
		case inString && b == '\\':
			_, _ = c.ReadByte() // the next letter does not end the string; a missing one ends the loop
		case b == '"':
			inString = !inString
			n += elementCost / 2
		// Braces and commas in texts are data. Counting them would refuse harmless messages.
		case inString:
		case b == '{', b == '[':
			// The decoder calls itself for each level, so depth costs stack, which no estimate of
			// memory bounds.
			if depth++; depth > bounds.Nested {
				return c.size, c.sum, errNested
			}
			if n += elementCost; b == '{' {
				n += largestStruct
			}
		case b == '}', b == ']':
			depth--
		case b == ',':
			n += elementCost
		}
		if err := c.add(n); err != nil {
			return c.size, c.sum, err
		}
	}
}

// largestStruct is at least the structSize of each message that a request can hold. A test
// compares it.
const largestStruct = 512
