package cli

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/local"
	"github.com/slotwise/slotwise/internal/master/protocol"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// A slow start means the same whether a job runs in this process or is submitted to a
// master: the tracker gets the same number, and so starts reduces at the same time.
func TestSlowStartOfRunAndSubmit(t *testing.T) {
	for _, given := range []*float64{nil, proto.Float64(0), proto.Float64(0.5), proto.Float64(1)} {
		l := local.JobSpec{SlowStart: given}
		run := l.Core()
		submit, err := protocol.CoreSpec(&slotwisev1.JobSpec{SlowStart: given})
		if err != nil {
			t.Fatal(err)
		}
		if run.SlowStart != submit.SlowStart || given != nil && run.SlowStart != *given || given == nil && run.SlowStart >= 0 {
			t.Errorf("slow start %v: %g for run, %g for submit", given, run.SlowStart, submit.SlowStart)
		}
	}
}
