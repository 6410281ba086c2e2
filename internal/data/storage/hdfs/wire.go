package hdfs

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// message is an encoded message of Hadoop's protocols. The numbers of its fields are
// in Hadoop's files RpcHeader.proto, ClientNamenodeProtocol.proto, hdfs.proto and
// datatransfer.proto. The client library has generated types, but does not export them.
type message []byte

// The methods return the message, so requests read as a list of fields. append may write into the array of
// the receiver: a message from which two requests are built must be cloned.
func (m message) text(field protowire.Number, s string) message {
	return protowire.AppendString(protowire.AppendTag(m, field, protowire.BytesType), s)
}

func (m message) data(field protowire.Number, b []byte) message {
	return protowire.AppendBytes(protowire.AppendTag(m, field, protowire.BytesType), b)
}

func (m message) number(field protowire.Number, v uint64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), v)
}

// delimited appends messages, each with its length in front.
func delimited(b []byte, messages ...message) []byte {
	for _, m := range messages {
		b = protowire.AppendBytes(b, m)
	}
	return b
}

// fields are the fields of a received message, by number.
type fields map[protowire.Number][]field

// field is one value: of a number or of bytes.
type field struct {
	number uint64
	data   []byte
}

// parse decodes a message.
func parse(b []byte) (fields, error) {
	f := fields{}
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		b = b[n:]
		var v field
		// Fields of other kinds are skipped, as protobuf demands: newer servers add fields.
		switch kind {
		case protowire.VarintType:
			v.number, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			v.data, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		// A list, because a field may repeat: the DataNodes of a block, for example.
		f[number] = append(f[number], v)
		b = b[n:]
	}
	return f, nil
}

// number returns the last value of a numeric field, 0 if it is missing.
func (f fields) number(n protowire.Number) uint64 {
	// protobuf demands the last value of a field that should occur once.
	if v := f[n]; len(v) > 0 {
		return v[len(v)-1].number
	}
	return 0
}

// data returns the last value of a field of bytes, nil if it is missing.
func (f fields) data(n protowire.Number) []byte {
	if v := f[n]; len(v) > 0 {
		return v[len(v)-1].data
	}
	return nil
}

// maxAnswer bounds an answer of a NameNode, in bytes. A writer receives no
// answer of more than some kilobytes.
const maxAnswer = 16 << 20

// maxDelimited bounds a message of a DataNode, in bytes, with the length in front. An
// acknowledgement has some ten bytes for each DataNode, a refusal a text.
const maxDelimited = 64 << 10

// readDelimited reads a message with its length in front. r has a buffer of
// maxDelimited bytes. An error consumes nothing: after a deadline that expires in the
// middle of a message, the next call reads the same message from its start.
func readDelimited(r *bufio.Reader) (fields, error) {
	// Peek and not Read, for the promise above: a time-out must not lose the first half of an
	// acknowledgement.
	for want := 1; ; {
		if _, err := r.Peek(want); err != nil {
			return nil, err
		}
		// All that has arrived, since the length's own length is unknown.
		b, _ := r.Peek(r.Buffered()) // never fails
		size, n := protowire.ConsumeVarint(b)
		switch {
		case n < 0 && len(b) < binary.MaxVarintLen64:
			want = len(b) + 1
			continue
		case n < 0:
			return nil, protowire.ParseError(n)
		// Peek could never return a message larger than the buffer of r.
		case size > maxDelimited-binary.MaxVarintLen64:
			return nil, fmt.Errorf("a message of %d bytes is not accepted", size)
		}
		if want = n + int(size); len(b) < want {
			continue
		}
		// A copy, because the fields are slices of the bytes and the next read overwrites the buffer.
		m, err := parse(bytes.Clone(b[n:want]))
		_, _ = r.Discard(want) // is buffered
		return m, err
	}
}
