package study

import (
	"math"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
	"github.com/slotwise/slotwise/internal/virtual/workload"
)

// Four runs of two jobs: the quantiles of the first job's times by hand, and the second succeeded once.
func TestSpread(t *testing.T) {
	jobs := []workload.Job{{Name: "a", Maps: []workload.Task{{Duration: time.Second}}}, {Name: "b", Maps: []workload.Task{{Duration: time.Second}}}}
	s := &Study{cfg: Config{Policies: NewPolicies(nil, []string{"fifo"})}}
	for i, x := range []float64{4, 1, 3, 2, 5} {
		r := &run{outcomes: &collect.Outcomes{Response: []float64{x, math.NaN()}}}
		r.Policy = "fifo"
		if i == 2 {
			r.outcomes.Response[1] = 7
		}
		s.runs, s.drafts = append(s.runs, r), append(s.drafts, &draft{jobs: jobs})
	}
	got := s.spread()
	if len(got) != 2 || got[0].Median != 3 || got[0].Least != 1 || got[0].Most != 5 || got[0].Runs != 5 || got[1].Median != 7 || got[1].Runs != 1 {
		t.Errorf("%+v", got)
	}
	other := []workload.Job{jobs[0], {Name: "b", Maps: []workload.Task{{Duration: 2 * time.Second}}}}
	s.drafts[3] = &draft{jobs: other}
	if got := s.spread(); got != nil {
		t.Errorf("seeds with other jobs: %+v", got)
	}
	s.drafts = s.drafts[:1]
	if got := s.spread(); got != nil {
		t.Errorf("one seed: %+v", got)
	}
}
