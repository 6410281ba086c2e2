package policies

import (
	"testing"

	"github.com/slotwise/slotwise/internal/tracker/trackertest"
)

// TestTraces plays the scripts of testdata, a directory for each policy.
func TestTraces(t *testing.T) { trackertest.Run(t, "testdata", Build) }
