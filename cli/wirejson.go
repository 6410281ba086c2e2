package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// printMessages prints messages as a JSON array with one message per line, for tools that read
// lines, such as grep and wc. It is printed as a whole: a list that fails half-way would be no
// JSON.
func printMessages[M proto.Message](w io.Writer, list []M) error {
	var b bytes.Buffer
	b.WriteString("[")
	for i, m := range list {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString("\n")
		writeMessage(&b, m.ProtoReflect())
	}
	if len(list) > 0 {
		b.WriteString("\n")
	}
	b.WriteString("]\n")
	_, err := w.Write(b.Bytes())
	return err
}

// printMessage prints a message as a JSON object on one line, so that a log of answers has one line
// each.
func printMessage(w io.Writer, m proto.Message) error {
	var b bytes.Buffer
	writeMessage(&b, m.ProtoReflect())
	b.WriteByte('\n')
	_, err := w.Write(b.Bytes())
	return err
}

// writeMessage writes a message as JSON for programs. Fields have the names and the order of the
// .proto files, and none is omitted: a script can tell a zero from a field of a newer version.
// Integers are numbers, which protojson would quote. Enums are in lower case without their prefix.
func writeMessage(b *bytes.Buffer, m protoreflect.Message) {
	// A message field that is not set.
	if !m.IsValid() {
		b.WriteString("null")
		return
	}
	b.WriteByte('{')
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if i > 0 {
			b.WriteByte(',')
		}
		writeJSON(b, f.Name())
		b.WriteByte(':')
		v := m.Get(f)
		switch {
		case f.IsList():
			writeList(b, f, v.List())
		case f.IsMap():
			writeMap(b, f.MapValue(), v.Map())
		default:
			writeValue(b, f, v)
		}
	}
	b.WriteByte('}')
}

// writeList writes a repeated field as an array.
func writeList(b *bytes.Buffer, f protoreflect.FieldDescriptor, l protoreflect.List) {
	b.WriteByte('[')
	for i := range l.Len() {
		if i > 0 {
			b.WriteByte(',')
		}
		writeValue(b, f, l.Get(i))
	}
	b.WriteByte(']')
}

// writeMap writes a map as an object with sorted keys.
func writeMap(b *bytes.Buffer, f protoreflect.FieldDescriptor, m protoreflect.Map) {
	values := map[string]protoreflect.Value{}
	m.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		values[k.String()] = v
		return true
	})
	b.WriteByte('{')
	for i, k := range slices.Sorted(maps.Keys(values)) {
		if i > 0 {
			b.WriteByte(',')
		}
		writeJSON(b, k)
		b.WriteByte(':')
		writeValue(b, f, values[k])
	}
	b.WriteByte('}')
}

// writeValue writes a single value of a field.
func writeValue(b *bytes.Buffer, f protoreflect.FieldDescriptor, v protoreflect.Value) {
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		writeMessage(b, v.Message())
	case protoreflect.EnumKind:
		writeJSON(b, enumName(f.Enum(), v.Enum()))
	// As protojson writes bytes.
	case protoreflect.BytesKind:
		writeJSON(b, base64.StdEncoding.EncodeToString(v.Bytes()))
	default:
		writeJSON(b, v.Interface())
	}
}

// enumName returns an enum value without its type's prefix: JOB_STATE_RUNNING
// of JobState is running. The unspecified value is "".
func enumName(d protoreflect.EnumDescriptor, n protoreflect.EnumNumber) string {
	// A newer master may send a value that this program does not know.
	v := d.Values().ByNumber(n)
	if v == nil || n == 0 {
		return ""
	}
	zero := string(d.Values().ByNumber(0).Name())
	prefix := strings.TrimSuffix(zero, "UNSPECIFIED")
	return strings.ToLower(strings.TrimPrefix(string(v.Name()), prefix))
}

// writeJSON writes a plain value. A number that JSON cannot represent becomes
// null.
func writeJSON(b *bytes.Buffer, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		text = []byte("null")
	}
	b.Write(text)
}
