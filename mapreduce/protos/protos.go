// Package protos has a codec of Protobuf messages. A program links Protobuf only if it imports
// this package, or a feature that needs it.
package protos

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/mapreduce"
)

// Code returns a codec of the messages of a generated type, such as *pb.Visit.
//
// As keys the encodings are [mapreduce.KeyGrouped]: equal messages have equal encodings within one
// program, and all tasks of a job run one program. Fields that the type does not know are part
// of the encoding.
//
// A message that has no encoding, as one whose string is not UTF-8, fails the job with an error
// that names the type.
func Code[M proto.Message]() mapreduce.Codec[M] {
	c := codec[M]{}
	if any(c.message) == nil {
		c.err = errors.New("an interface names no message type: use a generated one, such as *pb.Visit")
	}
	return c
}

type codec[M proto.Message] struct {
	message M // nil, of which only the type is used
	err     error
}

// Limits implements mapreduce.Limited.
func (c codec[M]) Limits() (mapreduce.KeyUse, error) { return mapreduce.KeyGrouped, c.err }

// Append implements mapreduce.Codec.
func (codec[M]) Append(b []byte, v M) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(b, v)
	if err != nil {
		panic(mapreduce.Permanent(fmt.Errorf("a message of type %T has no encoding: %w", v, err)))
	}
	return b
}

// Decode implements mapreduce.Codec.
func (c codec[M]) Decode(b []byte) (M, error) {
	v := c.message.ProtoReflect().New().Interface().(M)
	if err := proto.Unmarshal(b, v); err != nil {
		return v, fmt.Errorf("%.100q is no message of type %T: %w", b, v, err)
	}
	return v, nil
}
