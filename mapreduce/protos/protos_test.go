package protos_test

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/mapreduce/protos"
)

// Decoded messages equal the encoded ones, and equal ones with maps in them have equal encodings.
func TestCode(t *testing.T) {
	c := protos.Code[*structpb.Struct]()
	fields := map[string]any{"a": 1.5, "b": "text", "c": []any{true, nil}, "d": "", "e": 1.0, "f": 2.0}
	var first []byte
	for range 20 {
		m, err := structpb.NewStruct(fields)
		if err != nil {
			t.Fatal(err)
		}
		code := c.Append([]byte("x"), m)[1:]
		if first == nil {
			first = code
		}
		if !bytes.Equal(code, first) {
			t.Fatalf("two encodings: %q, %q", code, first)
		}
		if got, err := c.Decode(code); err != nil || !proto.Equal(got, m) {
			t.Fatalf("%v comes back as %v, %v", m, got, err)
		}
	}
	if _, err := c.Decode([]byte("\xff")); err == nil || !strings.Contains(err.Error(), "no message of type *structpb.Struct") {
		t.Errorf("bad bytes: %v", err)
	}
	if _, err := protos.Code[proto.Message]().(mapreduce.Limited).Limits(); err == nil {
		t.Error("an interface was accepted")
	}
	defer func() {
		if err, _ := recover().(error); err == nil || !strings.Contains(err.Error(), "UTF-8") {
			t.Errorf("a string that is not UTF-8: %v", err)
		}
	}()
	c.Append(nil, &structpb.Struct{Fields: map[string]*structpb.Value{"\xff": nil}})
}
