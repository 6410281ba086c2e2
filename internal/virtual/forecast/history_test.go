package forecast

import (
	"fmt"
	"math"
	"testing"

	"github.com/slotwise/slotwise/sched/job"
)

// historyOf returns the history of jobs that have ended, each with reduces of the given times.
func historyOf(names []string, seconds [][]float64) *history {
	s := &State{}
	for i, name := range names {
		s.Past = append(s.Past, Past{ID: job.ID(i + 1), Name: fmt.Sprint(name, "-", i), Spec: job.Spec{Reduces: len(seconds[i])},
			Times: Times{Seconds: [job.Kinds][]float64{nil, seconds[i]}, Nodes: [job.Kinds][]int32{nil, make([]int32, len(seconds[i]))}}})
	}
	return newHistory(s)
}

// spreadOf returns the standard deviation of the predicted log median of one more job of a name.
func (h *history) spreadOf(name string) float64 {
	return math.Sqrt(h.predict(&donor{id: 1000, stems: stems(name + "-1000"), times: &Times{}, tasks: [job.Kinds]int{0, 2}}, job.Reduce).variance)
}

// TestNamesDifferByThemselves: jobs of one name come again with the same times, and jobs of another name have nothing
// else in common. The second do not widen the answers about the first.
func TestNamesDifferByThemselves(t *testing.T) {
	var names []string
	var times [][]float64
	for i := range 20 {
		x := math.Exp(float64(i%5) - 2) // a different job each time
		names, times = append(names, "nightly", "adhoc"), append(times, []float64{6, 6, 6, 6}, []float64{x, x, x, x})
	}
	h := historyOf(names, times)
	if nightly, adhoc := h.spreadOf("nightly"), h.spreadOf("adhoc"); nightly > 0.7*adhoc || nightly > 0.6 {
		t.Errorf("spread of nightly %.2f, of adhoc %.2f", nightly, adhoc)
	}
}

// TestLuckOfFewTasks: jobs of a name have two reduces each, whose times differ by luck alone. Their medians differ, and
// the jobs do not.
func TestLuckOfFewTasks(t *testing.T) {
	d := draw(1)
	var names []string
	var times [][]float64
	for range 40 {
		v := make([]float64, 2)
		for i := range v {
			v[i] = 6 * math.Exp(0.35*d.normal())
		}
		names, times = append(names, "nightly"), append(times, v)
	}
	if got := historyOf(names, times).spreadOf("nightly"); got > 0.18 { // 0.29 if the luck of the medians were a difference of the jobs
		t.Errorf("spread %.3f", got)
	}
}
