package master

import (
	"time"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// stats counts what metrics tell.
type stats struct {
	syncs     int64
	syncTime  time.Duration
	jobsEnded map[slotwisev1.JobState]int64
}

func (s *stats) synced(took time.Duration) {
	s.syncs++
	s.syncTime += took
}

func (s *stats) ended(state slotwisev1.JobState) {
	if s.jobsEnded == nil {
		s.jobsEnded = map[slotwisev1.JobState]int64{}
	}
	s.jobsEnded[state]++
}
