package protocol

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/bounds"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// borderSpec returns a job at the bounds: anything more of anything is refused.
func borderSpec() *slotwisev1.JobSpec {
	s := &slotwisev1.JobSpec{
		Name: strings.Repeat("n", bounds.Name), User: strings.Repeat("u", bounds.Name), Pool: strings.Repeat("p", bounds.Name),
		Output: strings.Repeat("o", bounds.URI), MaxAttempts: bounds.Attempts, TaskTimeoutMs: bounds.TimeoutMs,
		Program: &slotwisev1.Program{
			App: strings.Repeat("a", bounds.Name), Params: map[string]string{}, Cuts: [][]byte{make([]byte, bounds.Cuts)},
			Streaming: &slotwisev1.Streaming{Mapper: strings.Repeat("m", bounds.Setting)},
		},
	}
	for i := range bounds.Parameters {
		s.Program.Params[fmt.Sprint(i)] = ""
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
		"program":       func(s *slotwisev1.JobSpec) { s.Program = nil },
		"app":           func(s *slotwisev1.JobSpec) { s.Program.App += "a" },
		"step":          func(s *slotwisev1.JobSpec) { s.Program.Step = strings.Repeat("x", bounds.Name+1) },
		"executable":    func(s *slotwisev1.JobSpec) { s.Program.Executable = strings.Repeat("x", bounds.Name+1) },
		"parameters":    func(s *slotwisev1.JobSpec) { s.Program.Params["another"] = "" },
		"parameter":     func(s *slotwisev1.JobSpec) { s.Program.Params["0"] += "v" },
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

// Policies and registrations are bounded, too.
func TestCheckOthers(t *testing.T) {
	long := strings.Repeat("x", bounds.URI+1)
	for what, err := range map[string]error{
		"policy":    CheckPolicy(long, nil),
		"parameter": CheckPolicy("fifo", map[string]string{"a": strings.Repeat("x", bounds.Setting+1)}),
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
