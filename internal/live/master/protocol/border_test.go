package protocol

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/slotwise/slotwise/internal/base/bounds"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// borderSpec returns a job at the bounds: anything more of anything is refused.
func borderSpec() *slotwisev1.JobSpec {
	s := &slotwisev1.JobSpec{
		Name: strings.Repeat("n", bounds.Name), User: strings.Repeat("u", bounds.Name), Pool: strings.Repeat("p", bounds.Name),
		Output: strings.Repeat("o", bounds.URI), MaxAttempts: bounds.Attempts, TaskTimeoutMs: bounds.TimeoutMs,
		Program: &slotwisev1.Program{
			App: strings.Repeat("a", bounds.Name), Params: numbered(bounds.Parameters), Cuts: [][]byte{make([]byte, bounds.Cuts)},
			Streaming: &slotwisev1.Streaming{Mapper: strings.Repeat("m", bounds.Setting)},
		},
	}
	s.Program.Params["0"] = strings.Repeat("v", bounds.Setting)
	for range bounds.Shipped {
		s.Program.Files = append(s.Program.Files, &slotwisev1.ShippedFile{Name: strings.Repeat("f", bounds.Name)})
	}
	p := &slotwisev1.Split{Hosts: make([]string, bounds.Hosts), Pieces: make([]*slotwisev1.Piece, bounds.Pieces)}
	for i := range p.Pieces {
		p.Pieces[i] = &slotwisev1.Piece{Uri: "u"}
	}
	p.Pieces[0].Uri, p.Hosts[0] = strings.Repeat("i", bounds.URI), strings.Repeat("h", bounds.Name)
	s.Splits = []*slotwisev1.Split{p}
	return s
}

// Each value may be at its bound and not beyond.
func TestCheckSpec(t *testing.T) {
	if err := CheckSpec(borderSpec()); err != nil {
		t.Fatalf("a job at the bounds: %v", err)
	}
	negative := borderSpec() // means that no task times out
	negative.TaskTimeoutMs = -bounds.TimeoutMs
	if err := CheckSpec(negative); err != nil {
		t.Errorf("the negative bound: %v", err)
	}
	for what, change := range map[string]func(s *slotwisev1.JobSpec){
		"name":          func(s *slotwisev1.JobSpec) { s.Name += "n" },
		"user":          func(s *slotwisev1.JobSpec) { s.User += "u" },
		"pool":          func(s *slotwisev1.JobSpec) { s.Pool += "p" },
		"output":        func(s *slotwisev1.JobSpec) { s.Output += "o" },
		"line":          func(s *slotwisev1.JobSpec) { s.Output = "a\nb" },
		"priority":      func(s *slotwisev1.JobSpec) { s.Priority = strings.Repeat("x", 1<<20) },
		"digest":        func(s *slotwisev1.JobSpec) { s.Digest = strings.Repeat("x", bounds.Name+1) },
		"output codec":  func(s *slotwisev1.JobSpec) { s.OutputCodec = strings.Repeat("x", bounds.Name+1) },
		"shuffle codec": func(s *slotwisev1.JobSpec) { s.ShuffleCodec = strings.Repeat("x", bounds.Name+1) },
		"attempts":      func(s *slotwisev1.JobSpec) { s.MaxAttempts++ },
		"timeout":       func(s *slotwisev1.JobSpec) { s.TaskTimeoutMs++ },
		"never":         func(s *slotwisev1.JobSpec) { s.TaskTimeoutMs = math.MinInt64 },
		"below":         func(s *slotwisev1.JobSpec) { s.TaskTimeoutMs = -bounds.TimeoutMs - 1 },
		"program":       func(s *slotwisev1.JobSpec) { s.Program = nil },
		"app":           func(s *slotwisev1.JobSpec) { s.Program.App += "a" },
		"step":          func(s *slotwisev1.JobSpec) { s.Program.Step = strings.Repeat("x", bounds.Name+1) },
		"executable":    func(s *slotwisev1.JobSpec) { s.Program.Executable = strings.Repeat("x", bounds.Name+1) },
		"parameters":    func(s *slotwisev1.JobSpec) { s.Program.Params["another"] = "" },
		"parameter":     func(s *slotwisev1.JobSpec) { s.Program.Params["0"] += "v" },
		"properties":    func(s *slotwisev1.JobSpec) { s.Program.Streaming.Properties = numbered(bounds.Parameters + 1) },
		"parameter name": func(s *slotwisev1.JobSpec) {
			s.Program.Params = map[string]string{strings.Repeat("x", bounds.Name+1): ""}
		},
		"mapper":         func(s *slotwisev1.JobSpec) { s.Program.Streaming.Mapper += "m" },
		"files":          func(s *slotwisev1.JobSpec) { s.Program.Files = append(s.Program.Files, s.Program.Files[0]) },
		"file name":      func(s *slotwisev1.JobSpec) { s.Program.Files[0].Name += "f" },
		"cuts":           func(s *slotwisev1.JobSpec) { s.Program.Cuts = append(s.Program.Cuts, []byte("k")) },
		"pieces":         func(s *slotwisev1.JobSpec) { s.Splits[0].Pieces = append(s.Splits[0].Pieces, s.Splits[0].Pieces[0]) },
		"piece":          func(s *slotwisev1.JobSpec) { s.Splits[0].Pieces[0].Uri += "i" },
		"hosts":          func(s *slotwisev1.JobSpec) { s.Splits[0].Hosts = append(s.Splits[0].Hosts, "h") },
		"host":           func(s *slotwisev1.JobSpec) { s.Splits[0].Hosts[0] += "h" },
		"negative split": func(s *slotwisev1.JobSpec) { s.Splits[0].Bytes = -1 },
		"negative maps":  func(s *slotwisev1.JobSpec) { s.Splits, s.Synthetic = nil, -1 },
		"both":           func(s *slotwisev1.JobSpec) { s.Synthetic = 1 },
		"split": func(s *slotwisev1.JobSpec) {
			for i := range s.Splits[0].Pieces[:500] {
				s.Splits[0].Pieces[i] = &slotwisev1.Piece{Uri: strings.Repeat("i", bounds.URI)}
			}
		},
		"spec": func(s *slotwisev1.JobSpec) {
			for name := range s.Program.Params {
				s.Program.Params[name] = strings.Repeat("v", bounds.Setting)
			}
		},
	} {
		s := borderSpec()
		change(s)
		err := CheckSpec(s)
		var refused *Error
		if !errors.As(err, &refused) || refused.Code != InvalidArgument || len(err.Error()) > 2000 {
			t.Errorf("%s: %.300v", what, err)
		}
	}
}

// numbered returns a map of n elements.
func numbered(n int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprint(i)] = ""
	}
	return m
}

// Policies and registrations are bounded, too.
func TestCheckOthers(t *testing.T) {
	long := strings.Repeat("x", bounds.URI+1)
	for what, err := range map[string]error{
		"policy":    CheckPolicy(long, nil),
		"parameter": CheckPolicy("fifo", map[string]string{"a": strings.Repeat("x", bounds.Setting+1)}),
		"bytes":     CheckPolicy("fifo", map[string]string{"a": "\xff"}),
		"address":   checkRegister(&slotwisev1.RegisterRequest{Worker: "w", Address: long}),
		"host":      checkRegister(&slotwisev1.RegisterRequest{Worker: "w", Host: long}),
		"rack":      checkRegister(&slotwisev1.RegisterRequest{Worker: "w", Rack: long}),
	} {
		if err == nil {
			t.Errorf("%s of %d bytes is accepted", what, len(long))
		}
	}
	if err := CheckPolicy("fair", map[string]string{"a": "b"}); err != nil {
		t.Error(err)
	}
}

// TestKillReason kills an attempt of a job whose errors have used up their bytes. The reason is an error like others.
func TestKillReason(t *testing.T) {
	c := populated(t)
	c.jobs[1].errors = bounds.JobErrors + 1
	a := c.tracker.Jobs().Get(1).Oldest(job.Map)
	c.Handle(time.Second, &KillAttempt{Call: 9, Attempt: a.ID(), Reason: strings.Repeat("x", bounds.Text)})
	if a.State() != job.AttemptKilled || len(a.Error()) > bounds.Short {
		t.Errorf("%v with an error of %d bytes", a.State(), len(a.Error()))
	}
}

// An outbox that is larger than a message leaves in parts, in order, and completely.
func TestLargeOutbox(t *testing.T) {
	s := &session{}
	const n = 3000
	for i := range n {
		s.outbox = append(s.outbox, &slotwisev1.Action{Number: int64(i + 1), What: &slotwisev1.Action_Kill{
			Kill: &slotwisev1.Kill{Attempt: "j1_m_0_0", Reason: strings.Repeat("r", bounds.Text)}}})
	}
	s.outbox[7].GetKill().Reason = strings.Repeat("r", 2*bounds.Batch) // goes alone
	parts, last := 0, int64(0)
	for len(s.outbox) > 0 {
		list := s.actions()
		size := proto.Size(&slotwisev1.HeartbeatResponse{Actions: list})
		if len(list) == 0 || list[0].Number != last+1 || size > bounds.Batch*11/10 && len(list) > 1 {
			t.Fatalf("after %d: %d actions, %d bytes", last, len(list), size)
		}
		last = list[len(list)-1].Number
		s.outbox = s.outbox[len(list):]
		parts++
	}
	if last != n || parts < 10 {
		t.Errorf("%d actions in %d parts", last, parts)
	}
}

// TestDescription has workers get a job's description without a copy, and large ones only when they ask.
func TestDescription(t *testing.T) {
	for length, brief := range map[int]bool{100: true, maxDescription: false} {
		spec := &slotwisev1.JobSpec{User: "u", Splits: []*slotwisev1.Split{{}}, Program: &slotwisev1.Program{Params: map[string]string{"x": strings.Repeat("x", length)}}}
		j := &jobEntry{spec: spec, maps: 1}
		d := j.describe()
		if d.Spec.Program != spec.Program || d.Spec.User != "u" || d.Spec.Splits != nil || len(spec.Splits) != 1 || j.brief != brief || j.describe() != d {
			t.Errorf("%d bytes: %v, brief: %v", length, d.Spec.User, j.brief)
		}
	}
}

// TestOutputPlace compares spellings of outputs.
func TestOutputPlace(t *testing.T) {
	for uri, want := range map[string]string{
		"/a/b": "file:///a/b/", "file:///a/b/": "file:///a/b/", "FILE:///a//b/.": "file:///a/b/", "/": "file:///", "file:/a/b": "file:///a/b/",
		"a/b": "file://./a/b/", "./a/b": "file://./a/b/", "s3://B/k": "s3://b/k/", "hdfs://nn:1/../a": "hdfs://nn:1/a/", "hdfs://nn": "hdfs://nn/",
	} {
		if got := outputPlace(uri); got != want {
			t.Errorf("%s: %s, want %s", uri, got, want)
		}
	}
}

// TestEveryTextIsBounded sets every text of the messages that users and workers send to a
// megabyte, one at a time, and every list to many elements. The message must be refused. So
// a field that is added without a bound fails here. TestCheckSpec checks the number of a
// map's elements.
func TestEveryTextIsBounded(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	// These fields have no bound of their own.
	free := map[string]string{
		"JobSpec.splits":       "bounds of tasks; each split is bounded",
		"JobSpec.program.cuts": "all keys together have bounds.Cuts, 16 MiB",
	}
	for _, c := range []struct {
		valid func() proto.Message
		check func(proto.Message) error
		many  int // more elements than any list may have
	}{
		{
			func() proto.Message {
				return &slotwisev1.JobSpec{Name: "n", User: "u", Program: &slotwisev1.Program{App: "a"}}
			},
			func(m proto.Message) error { return CheckSpec(m.(*slotwisev1.JobSpec)) },
			max(bounds.Pieces, bounds.Shipped, bounds.Hosts) + 1,
		},
		{
			func() proto.Message { return &slotwisev1.RegisterRequest{Worker: "w", Address: "w:1"} },
			func(m proto.Message) error { return checkRegister(m.(*slotwisev1.RegisterRequest)) },
			bounds.Held + 1,
		},
	} {
		if err := c.check(c.valid()); err != nil {
			t.Fatal(err)
		}
		paths := fieldPaths(c.valid().ProtoReflect().Descriptor(), nil)
		if len(paths) < 10 {
			t.Errorf("%T has %d texts and lists", c.valid(), len(paths))
		}
		for _, path := range paths {
			m := c.valid()
			name := string(m.ProtoReflect().Descriptor().Name())
			for _, f := range path {
				name += "." + string(f.Name())
			}
			if free[name] != "" {
				delete(free, name)
				continue
			}
			fillPath(m.ProtoReflect(), path, long, 1)
			if err := c.check(m); err == nil && isText(path[len(path)-1]) {
				t.Errorf("the length of %s has no bound", name)
			}
			if !path[len(path)-1].IsList() {
				continue
			}
			m = c.valid()
			many := c.many
			if name == "RegisterRequest.outputs" {
				many *= 2 // its bound is twice the others'
			}
			fillPath(m.ProtoReflect(), path, "x", many)
			if err := c.check(m); err == nil {
				t.Errorf("the number of %s has no bound", name)
			}
		}
	}
	for name := range free {
		t.Errorf("%s is no field", name)
	}
}

// TestEveryNameIsVisible puts characters that a terminal obeys or hides into every text of the
// messages that users and workers send, one at a time, and into the keys of maps. The message
// must be refused, so a name that is added without the check fails here. Texts that are no
// names are listed; commands escape them when they print them.
func TestEveryNameIsVisible(t *testing.T) {
	noName := map[string]string{
		"JobSpec.output": "a path", "JobSpec.program.streaming.mapper": "a command", "JobSpec.program.streaming.reducer": "a command",
		"JobSpec.program.streaming.combiner": "a command", "JobSpec.program.streaming.properties": "values", "JobSpec.program.params": "values",
		"JobSpec.program.cuts": "keys", "JobSpec.splits.pieces.uri": "a path", "JobSpec.splits.rows": "a format, which may name a tab as separator",
		"JobSpec.layouts.file": "a path", "JobSpec.layouts.columns": "names of columns, which are data",
		"JobSpec.output_rows": "a format, which may name a tab as separator", "RegisterRequest.dir": "a path",
	}
	for _, c := range []struct {
		valid func() proto.Message
		check func(proto.Message) error
	}{
		{
			func() proto.Message {
				return &slotwisev1.JobSpec{Name: "n", User: "u", Program: &slotwisev1.Program{App: "a"}}
			},
			func(m proto.Message) error { return CheckSpec(m.(*slotwisev1.JobSpec)) },
		},
		{
			func() proto.Message { return &slotwisev1.RegisterRequest{Worker: "w", Address: "w:1"} },
			func(m proto.Message) error { return checkRegister(m.(*slotwisev1.RegisterRequest)) },
		},
	} {
		for _, path := range fieldPaths(c.valid().ProtoReflect().Descriptor(), nil) {
			f := path[len(path)-1]
			name := string(c.valid().ProtoReflect().Descriptor().Name())
			for _, f := range path {
				name += "." + string(f.Name())
			}
			for _, hidden := range []string{"\x1b[31m", "\a", "\u009b2J", "\u2028", "\u202e"} {
				text := "a" + hidden + "b"
				if isText(f) && noName[name] == "" {
					m := c.valid()
					fillPath(m.ProtoReflect(), path, text, 1)
					if c.check(m) == nil {
						t.Errorf("%s may be %+q", name, text)
					}
				}
				if f.IsMap() {
					m := c.valid()
					mutable(m.ProtoReflect(), path).Map().Set(protoreflect.ValueOfString(text).MapKey(), protoreflect.ValueOfString("v"))
					if c.check(m) == nil {
						t.Errorf("a key of %s may be %+q", name, text)
					}
				}
			}
			if noName[name] != "" {
				noName[name] = "seen"
			}
		}
	}
	for name, seen := range noName {
		if seen != "seen" {
			t.Errorf("%s is no field", name)
		}
	}
	for _, name := range []string{"a\x1bb", "a\u2028b"} {
		if CheckPolicy(name, nil) == nil || CheckPolicy("fair", map[string]string{name: ""}) == nil {
			t.Errorf("a policy or its parameter may be %+q", name)
		}
	}
}

// mutable returns the last field of a path, which is a map or list.
func mutable(m protoreflect.Message, path []protoreflect.FieldDescriptor) protoreflect.Value {
	for _, f := range path[:len(path)-1] {
		m = m.Mutable(f).Message()
	}
	return m.Mutable(path[len(path)-1])
}

// fieldPaths lists the paths from a message to all of its texts, lists and maps, through its
// messages and lists of messages.
func fieldPaths(d protoreflect.MessageDescriptor, above []protoreflect.FieldDescriptor) (all [][]protoreflect.FieldDescriptor) {
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		path := append(slices.Clone(above), f)
		if isText(f) || f.IsList() {
			all = append(all, path)
		}
		if f.Message() != nil && !f.IsMap() {
			all = append(all, fieldPaths(f.Message(), path)...)
		}
	}
	return all
}

// isText reports whether a field is a text, or a list or map of texts.
func isText(f protoreflect.FieldDescriptor) bool {
	if f.IsMap() {
		f = f.MapValue()
	}
	return f.Kind() == protoreflect.StringKind || f.Kind() == protoreflect.BytesKind
}

// fillPath sets the last field of a path to a text, to a map of one text, or to a list of many
// texts or messages.
func fillPath(m protoreflect.Message, path []protoreflect.FieldDescriptor, text string, many int) {
	for _, f := range path[:len(path)-1] {
		if f.IsList() {
			m = m.Mutable(f).List().AppendMutable().Message()
		} else {
			m = m.Mutable(f).Message()
		}
	}
	f := path[len(path)-1]
	value := protoreflect.ValueOfString(text)
	if f.Kind() == protoreflect.BytesKind {
		value = protoreflect.ValueOfBytes([]byte(text))
	}
	switch {
	case f.IsMap():
		m.Mutable(f).Map().Set(protoreflect.ValueOfString("k").MapKey(), value)
	case f.IsList():
		l := m.Mutable(f).List()
		if !isText(f) {
			value = l.NewElement() // all elements may be the same message
		}
		for range many {
			l.Append(value)
		}
	default:
		m.Set(f, value)
	}
}
