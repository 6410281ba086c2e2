package agent

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/base/bounds"
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

// A driver's name has one spelling, and no other name becomes part of a path.
func TestParseDriver(t *testing.T) {
	for _, id := range []DriverID{{"chain-1", 1}, {"chain-12", 1<<31 - 1}} {
		if got, ok := ParseDriver(id.String()); got != id || !ok {
			t.Errorf("%v: %v, %v", id, got, ok)
		}
	}
	for _, bad := range []string{"", "chain-1", "chain-1_", "chain-1_0", "chain-1_01", "chain-_1", "chain-1_-1", "j1_m_0_0", "chain-1/../x_1", "../chain-1_1", "chain-1_1.old"} {
		if got, ok := ParseDriver(bad); ok {
			t.Errorf("%q is %v", bad, got)
		}
	}
}
