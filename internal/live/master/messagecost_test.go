package master

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/base/bounds"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// The largest job that a planner makes is accepted: as many tasks as there may be, three hosts
// for each, with names as long as the wire's bound on the message allows.
func TestCostOfLargestJob(t *testing.T) {
	t.Parallel()
	spec := &slotwisev1.JobSpec{Name: "n", Output: "hdfs:///o", Program: &slotwisev1.Program{App: "x"}}
	for i := range bounds.JobTasks {
		s := &slotwisev1.Split{Bytes: 1 << 27, Pieces: []*slotwisev1.Piece{{
			Uri:    fmt.Sprintf("hdfs://namenode/warehouse/%s/part-%05d", strings.Repeat("day=1/", 15), i/10),
			Offset: int64(i) << 27, Length: 1 << 27, FileSize: 1 << 40,
		}}}
		for k := range 3 {
			s.Hosts = append(s.Hosts, fmt.Sprintf("ip-10-0-%03d-%03d.eu-central-1.compute.internal", k, i%250))
		}
		spec.Splits = append(spec.Splits, s)
	}
	r := &slotwisev1.SubmitRequest{RequestId: "a", Spec: spec}
	b, err := proto.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(b); n > bounds.Message || n < bounds.Message*8/10 {
		t.Fatalf("the message has %d bytes, so it is not the largest of at most %d", n, bounds.Message)
	}
	size, memory, err := protoCost(bytes.NewReader(b), r.ProtoReflect().Descriptor())
	if err != nil {
		t.Fatal(err)
	}
	if need := memory + 3*size; need > bounds.Share(bounds.Memory, 0) {
		t.Errorf("the message needs %d bytes, more than one user may hold", need)
	}
}
