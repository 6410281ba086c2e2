package agent

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/bounds"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// A driver ends with an error of many megabytes. The heartbeat that reports it has a
// bounded size: the agent cannot leave out drivers as it leaves out attempts.
func TestDriverErrorIsBounded(t *testing.T) {
	g := New()
	ref := &slotwisev1.DriverRef{Chain: "chain-1", Try: 1}
	g.drive(nil, &slotwisev1.Drive{Driver: ref})
	long := strings.Repeat("é", 32<<20)
	g.EndDriver(idOf(ref), Failed, long, long, true)
	r := g.Heartbeat(0, nil)
	if n := proto.Size(r); n > 3*bounds.Text {
		t.Errorf("the heartbeat has %d bytes", n)
	}
	if d := r.Drivers[0]; d.State != Failed || !strings.HasPrefix(d.Error, "éé") || !strings.HasPrefix(d.LogTail, "éé") {
		t.Errorf("report %.100v", d)
	}
}
