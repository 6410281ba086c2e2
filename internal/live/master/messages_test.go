package master

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/testkit/clustertest"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
)

// inputs returns the messages that requests carry.
func inputs() (list []protoreflect.MessageDescriptor) {
	for _, f := range []protoreflect.FileDescriptor{slotwisev1.File_slotwise_v1_client_proto, slotwisev1.File_slotwise_v1_worker_proto} {
		for i := range f.Services().Len() {
			for k := range f.Services().Get(i).Methods().Len() {
				list = append(list, f.Services().Get(i).Methods().Get(k).Input())
			}
		}
	}
	return list
}

// smallest is the shortest encoding of a value of a field.
func smallest(f protoreflect.FieldDescriptor) []byte {
	switch {
	case f.Message() != nil, f.IsPacked():
		return []byte{0} // an empty message, or an empty list
	case f.Kind() == protoreflect.StringKind, f.Kind() == protoreflect.BytesKind:
		return []byte{1, 'x'}
	case f.Kind() == protoreflect.DoubleKind, f.Kind() == protoreflect.Fixed64Kind, f.Kind() == protoreflect.Sfixed64Kind:
		return make([]byte, 8)
	case f.Kind() == protoreflect.FloatKind, f.Kind() == protoreflect.Fixed32Kind, f.Kind() == protoreflect.Sfixed32Kind:
		return make([]byte, 4)
	}
	return []byte{1}
}

func wireType(f protoreflect.FieldDescriptor) protowire.Type {
	switch {
	case f.Message() != nil, f.IsPacked(), f.Kind() == protoreflect.StringKind, f.Kind() == protoreflect.BytesKind:
		return protowire.BytesType
	case len(smallest(f)) == 8:
		return protowire.Fixed64Type
	case len(smallest(f)) == 4:
		return protowire.Fixed32Type
	}
	return protowire.VarintType
}

// Whatever field of whatever message is repeated, the estimate covers all that decoding
// allocates. The memory of the wire is left out.
func TestMessageCost(t *testing.T) {
	const n = 50_000
	tried := 0
	var visit func(top, d protoreflect.MessageDescriptor, path []protoreflect.FieldDescriptor)
	check := func(top protoreflect.MessageDescriptor, path []protoreflect.FieldDescriptor, element []byte) {
		wire := bytes.Repeat(element, n)
		for i := len(path) - 1; i >= 0; i-- { // the repeated field is inside these
			wire = protowire.AppendBytes(protowire.AppendTag(nil, path[i].Number(), protowire.BytesType), wire)
		}
		size, memory, err := protoCost(bytes.NewReader(wire), top)
		if err != nil || size != int64(len(wire)) {
			t.Errorf("%s, %x: %d bytes are read as %d: %v", top.Name(), element, len(wire), size, err)
		}
		typ, err := protoregistry.GlobalTypes.FindMessageByName(top.FullName())
		if err != nil {
			t.Fatal(err)
		}
		m := typ.New().Interface()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := proto.Unmarshal(wire, m); err != nil {
			t.Fatalf("%s, %x: %v", top.Name(), element, err)
		}
		runtime.ReadMemStats(&after)
		if got := int64(after.TotalAlloc - before.TotalAlloc); got > memory+size+64<<10 {
			t.Errorf("%s, %x at %v: decoding allocates %d bytes, and the estimate is %d for %d bytes", top.Name(), element, path, got, memory, size)
		}
		tried++
	}
	visit = func(top, d protoreflect.MessageDescriptor, path []protoreflect.FieldDescriptor) {
		if n := structSize(d); n > largestStruct {
			t.Errorf("%s takes %d bytes, more than %d", d.Name(), n, largestStruct)
		}
		for i := range d.Fields().Len() {
			f := d.Fields().Get(i)
			check(top, path, append(protowire.AppendTag(nil, f.Number(), wireType(f)), smallest(f)...))
			if f.IsPacked() {
				check(top, path, append(protowire.AppendTag(nil, f.Number(), protowire.BytesType), protowire.AppendBytes(nil, bytes.Repeat([]byte{1}, 80))...))
			}
			if f.Message() != nil && len(path) < 4 && !f.IsMap() {
				visit(top, f.Message(), append(path[:len(path):len(path)], f))
			}
		}
		check(top, path, protowire.AppendVarint(protowire.AppendTag(nil, 9999, protowire.VarintType), 1)) // unknown
	}
	for _, d := range inputs() {
		visit(d, d, nil)
	}
	if tried < 200 {
		t.Errorf("only %d fields were tried", tried)
	}
}

// Maps with distinct keys, and a message in JSON.
func TestMessageCostOfMaps(t *testing.T) {
	const n = 50_000
	p := &slotwisev1.SubmitRequest{Spec: &slotwisev1.JobSpec{Program: &slotwisev1.Program{Params: map[string]string{}}}}
	for i := range n {
		p.Spec.Program.Params[fmt.Sprint(i)] = ""
	}
	for range n {
		p.Spec.Splits = append(p.Spec.Splits, &slotwisev1.Split{})
	}
	wire, err := proto.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	text, err := protojson.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	_, inProto, err := protoCost(bytes.NewReader(wire), p.ProtoReflect().Descriptor())
	if err != nil {
		t.Fatal(err)
	}
	_, inJSON, err := jsonCost(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		what     string
		estimate int64
		decode   func() error
	}{
		{"protobuf", inProto + int64(len(wire)), func() error { return proto.Unmarshal(wire, &slotwisev1.SubmitRequest{}) }},
		{"JSON", inJSON + int64(len(text)), func() error { return protojson.Unmarshal(text, &slotwisev1.SubmitRequest{}) }},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := x.decode(); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if got := int64(after.TotalAlloc - before.TotalAlloc); got > x.estimate {
			t.Errorf("%s: decoding allocates %d bytes, and the estimate is %d", x.what, got, x.estimate)
		}
	}
}

// The largest job and the longest list of map outputs that a master accepts are within the
// bound.
func TestLargestMessages(t *testing.T) {
	largest := &slotwisev1.SubmitRequest{Spec: &slotwisev1.JobSpec{Program: &slotwisev1.Program{}}}
	for i := range bounds.JobTasks {
		largest.Spec.Splits = append(largest.Spec.Splits, &slotwisev1.Split{
			Pieces: []*slotwisev1.Piece{{Uri: fmt.Sprintf("hdfs://namenode:8020/data/logs/2026/11/24/part-%06d.gz", i), Offset: 1 << 40, Length: 128 << 20}},
			Hosts:  []string{"host-000001", "host-000002", "host-000003"},
		})
	}
	outputs := &slotwisev1.RegisterRequest{}
	for i := range bounds.Held {
		outputs.Outputs = append(outputs.Outputs, &slotwisev1.HeldOutput{Attempt: fmt.Sprintf("j12345_m_%d_0", i), Bytes: 1 << 40})
	}
	for _, m := range []proto.Message{largest, outputs} {
		wire, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		_, memory, err := protoCost(bytes.NewReader(wire), m.ProtoReflect().Descriptor())
		if err != nil {
			t.Errorf("%s of %d bytes: %v", m.ProtoReflect().Descriptor().Name(), len(wire), err)
		}
		t.Logf("%s of %d MiB: %d MiB of memory", m.ProtoReflect().Descriptor().Name(), len(wire)>>20, memory>>20)
	}
}

// Random bytes end the estimate, and none is read twice.
func TestMessageCostOfGarbage(t *testing.T) {
	d := (&slotwisev1.SubmitRequest{}).ProtoReflect().Descriptor()
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "bytes")
		if size, _, err := protoCost(bytes.NewReader(b), d); err == nil && size != int64(len(b)) {
			t.Fatalf("%d bytes are read as %d", len(b), size)
		}
		if size, _, err := jsonCost(bytes.NewReader(b)); err == nil && size != int64(len(b)) {
			t.Fatalf("%d bytes of JSON are read as %d", len(b), size)
		}
	})
}

// A message that is small on the wire and large in memory is refused in every encoding,
// before it is decoded; so are deep ones, long ones and damaged ones. Ordinary messages pass
// in every encoding.
func TestMessages(t *testing.T) {
	r := newRig(t, Config{})
	zip := func(b []byte) []byte {
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		_, _ = w.Write(b)
		_ = w.Close()
		return z.Bytes()
	}
	frame := func(flags byte, b []byte) []byte {
		return append([]byte{flags, byte(len(b) >> 24), byte(len(b) >> 16), byte(len(b) >> 8), byte(len(b))}, b...)
	}
	bomb := protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), bytes.Repeat([]byte{0x32, 0}, 10<<20))
	jsonBomb := []byte(`{"spec":{"splits":[{}` + strings.Repeat(",{}", 3<<20) + `]}}`)
	long := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), make([]byte, bounds.Message+10))
	groups := bytes.Repeat([]byte{0x9b, 0x06}, 100_000) // field 99, a group in a group
	for _, x := range []struct {
		what, kind, header, coding string
		body                       []byte
		want                       string
	}{
		{"bomb", "application/proto", "Content-Encoding", "gzip", zip(bomb), "bytes of memory"},
		{"bomb", "application/proto", "", "", bomb, "bytes of memory"},
		{"bomb", "application/grpc", "Grpc-Encoding", "gzip", frame(1, zip(bomb)), "bytes of memory"},
		{"bomb", "application/grpc-web+proto", "", "", frame(0, bomb), "bytes of memory"},
		{"bomb", "application/json", "Content-Encoding", "gzip", zip(jsonBomb), "bytes of memory"},
		{"deep", "application/proto", "", "", groups, "deep"},
		{"deep", "application/json", "", "", []byte(strings.Repeat("[", 100_000)), "deep"},
		{"long", "application/proto", "", "", long, "limit"},
		{"long", "application/proto", "Content-Encoding", "gzip", zip(long), "limit"},
		{"damaged", "application/proto", "Content-Encoding", "gzip", []byte("no gzip"), "decompressed"},
		{"damaged", "application/proto", "Content-Encoding", "gzip", zip(bomb)[:100], "decompressed"},
		{"damaged", "application/proto", "Content-Encoding", "br", []byte("x"), "br"},
		{"framed", "application/grpc", "", "", []byte{0, 0, 0, 1}, ""},
		{"get", "application/proto", "", "", []byte{}, ""},
	} {
		method := http.MethodPost
		if x.what == "get" {
			method = http.MethodGet
		}
		req, err := http.NewRequest(method, r.srv.URL+slotwisev1connect.ClientServiceSubmitProcedure, bytes.NewReader(x.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", x.kind)
		if x.header != "" {
			req.Header.Set(x.header, x.coding)
		}
		resp, err := r.srv.Client().Do(req)
		if err != nil {
			if x.what == "long" { // the master has closed the connection
				continue
			}
			t.Errorf("%s as %s: %v", x.what, x.kind, err)
			continue
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		said := string(text) + resp.Header.Get("Grpc-Message") + resp.Trailer.Get("Grpc-Message")
		if said == "" || resp.StatusCode == http.StatusOK && !strings.Contains(x.kind, "grpc") || !strings.Contains(strings.ReplaceAll(said, "%20", " "), x.want) {
			if x.what != "get" || resp.StatusCode != http.StatusMethodNotAllowed {
				t.Errorf("%s as %s: %s %q, want %q", x.what, x.kind, resp.Status, said, x.want)
			}
		}
	}
	for _, opts := range [][]connect.ClientOption{nil, {connect.WithSendGzip()}, {connect.WithProtoJSON()}, {connect.WithProtoJSON(), connect.WithSendGzip()},
		{connect.WithGRPCWeb()}, {connect.WithGRPCWeb(), connect.WithSendGzip()}} {
		c := slotwisev1connect.NewClientServiceClient(r.srv.Client(), r.srv.URL, opts...)
		spec := r.spec(1, 0, "")
		spec.Program.Params = map[string]string{"long": strings.Repeat("x", bounds.Setting)}
		if _, err := c.Submit(t.Context(), &slotwisev1.SubmitRequest{RequestId: newToken(), Spec: spec}); err != nil {
			t.Errorf("an ordinary message: %v", err)
		}
		s, err := c.Log(t.Context(), &slotwisev1.LogRequest{Attempt: "j1_m_0_0"})
		if err == nil {
			for s.Receive() {
			}
			err = s.Err()
		}
		if connect.CodeOf(err) != connect.CodeNotFound {
			t.Errorf("a stream: %v", err)
		}
	}
	// The handler of a stream gives its room back after the client has read the end.
	for _, q := range r.m.messages {
		clustertest.Eventually(t, "all room is given back", func() bool { return q.arriving.Used() == 0 && q.memory.Used() == 0 })
	}
}

// Heartbeats of workers of the previous release, and of other programs, are requests in any format.
func TestHeartbeatFormats(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	good, err := proto.Marshal(&slotwisev1.HeartbeatRequest{Session: "none"})
	if err != nil {
		t.Fatal(err)
	}
	zipped := func(b []byte) []byte {
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		if _, err := w.Write(b); err != nil || w.Close() != nil {
			t.Fatal(err)
		}
		return z.Bytes()
	}
	for name, x := range map[string]struct {
		kind, coding string
		body         []byte
		status       int
		answer       string
	}{
		"binary":             {"application/proto", "", good, 200, "\x08\x01"}, // register_again
		"compressed":         {"application/proto", "gzip", zipped(good), 200, "\x08\x01"},
		"JSON":               {"application/json", "", []byte(`{"session":"none"}`), 200, `{"registerAgain":true`},
		"damaged":            {"application/proto", "", []byte{0x0a, 5}, 400, `"code":"invalid_argument"`},
		"damaged compressed": {"application/proto", "gzip", zipped([]byte{0x0a, 5}), 400, `"code":"invalid_argument"`},
		"a wrong name":       {"application/proto", "", []byte{0x2a, 3, 0x0a, 1, 'x'}, 400, `"code":"invalid_argument"`},
	} {
		req, err := http.NewRequest(http.MethodPost, r.srv.URL+slotwisev1connect.WorkerServiceHeartbeatProcedure, bytes.NewReader(x.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", x.kind)
		if x.coding != "" {
			req.Header.Set("Content-Encoding", x.coding)
		}
		resp, err := r.srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		if resp.Body.Close(); err != nil || resp.StatusCode != x.status || !strings.Contains(string(got), x.answer) {
			t.Errorf("%s: status %d, %q, %v", name, resp.StatusCode, got, err)
		}
	}
}
