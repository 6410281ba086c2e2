package pages

import (
	"errors"
	"testing"

	"github.com/slotwise/slotwise/internal/live/master/protocol"
	"github.com/slotwise/slotwise/sched/job"
)

// TestReadAttempts reads a job of three pages; one that the tracker forgets after the first; and
// one whose cluster ends after the first.
func TestReadAttempts(t *testing.T) {
	page := func(from int) []protocol.Execution {
		return []protocol.Execution{{ID: job.AttemptID{TaskID: job.TaskID{Job: 1, Index: int32(from)}}}}
	}
	for _, c := range []struct {
		name      string
		forgotten int // index from which on the tracker does not know the job
		ended     int // index from which on there is no cluster
		want      int // attempts
		known     bool
	}{
		{name: "whole", forgotten: 9, ended: 9, want: 3, known: true},
		{name: "forgotten", forgotten: 1, ended: 9},
		{name: "unknown", ended: 9},
		{name: "cluster ended", forgotten: 9, ended: 1},
	} {
		calls := 0
		out, known, err := readAttempts(func(from int) ([]protocol.Execution, int, bool, error) {
			if calls++; calls > 3 {
				t.Fatalf("%s: a fourth call, from %d", c.name, from)
			}
			switch {
			case from >= c.ended:
				return nil, 0, false, errEnded
			case from >= c.forgotten:
				return nil, 0, false, nil
			}
			return page(from), (from + 1) % 3, true, nil
		})
		if len(out) != c.want || known != c.known || errors.Is(err, errEnded) != (c.ended == 1) {
			t.Errorf("%s: %d attempts, known %v, %v", c.name, len(out), known, err)
		}
	}
}
