package protocol

import (
	"testing"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
)

// TestRevisionOfUse compares states whose numbers have the same sum: pages that show one of them must notice the other.
func TestRevisionOfUse(t *testing.T) {
	p, err := policies.Build("fifo", sched.Options{})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int64][]int64{}
	for _, revisions := range [][]int64{nil, {5, 7}, {6, 6}, {7, 5}, {13}, {4, 7, 0}} {
		c := &Core{tracker: tracker.New(tracker.Config{}, p)}
		for _, r := range revisions {
			c.live = append(c.live, &jobEntry{revision: r, unsaved: true})
		}
		got := c.Use().Revision
		if other, known := seen[got]; known || got < 0 || got >= 1<<53 {
			t.Errorf("jobs with %v and with %v have the revision %d", revisions, other, got)
		}
		seen[got] = revisions
	}
}
