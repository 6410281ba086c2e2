package master

import (
	"os"
	"testing"

	"github.com/slotwise/slotwise/internal/testkit/clustertest"
)

// TestMain runs many tests at a time: most wait for elections, leases and time-outs. Tests that
// measure times or memory run before them, one after the other.
func TestMain(m *testing.M) {
	clustertest.ManyAtOnce()
	os.Exit(m.Run())
}
