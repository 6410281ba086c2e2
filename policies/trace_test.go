package policies

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/slotwise/slotwise/internal/tracker/trackertest"
)

// TestTraces plays the scripts of testdata, a directory for each policy. The
// directory rapid is where a failed property leaves how to repeat it.
func TestTraces(t *testing.T) {
	dirs, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		if d.Name() != "rapid" {
			t.Run(d.Name(), func(t *testing.T) { trackertest.Run(t, filepath.Join("testdata", d.Name()), Build) })
		}
	}
}
