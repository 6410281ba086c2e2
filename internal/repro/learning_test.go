package repro

import (
	"math"
	"reflect"
	"testing"
	"time"
)

// A task of a job adds 4/m to the load on average.
func TestLearningLoads(t *testing.T) {
	for i := range lnFig11 {
		x, sum := &lnFig11[i], 0.0
		j := x.run(1, 0, 4000, time.Minute)
		for _, m := range j.Maps {
			sum += m.CPU.Seconds() / m.Duration.Seconds() / 4000
		}
		if math.Abs(sum*x.tasks/lnCores-1) > 0.05 {
			t.Errorf("%s: %v a task, want %v", x.name, sum, lnCores/x.tasks)
		}
	}
}

// The claims that these papers stand for, in their quick form; and the same seed
// gives the same report.
func TestHeadlines(t *testing.T) {
	for id, claims := range map[string][]string{ // order does not matter: each is a test of its own
		"tyrex/fig3":     {"moving a job to the next partition costs nothing"},
		"learning/fig11": {"tasks per node: WordCount+10ms > URLGet > URLToDisk > CPUActivity > WordCount > TextWriter", "they are those printed, job by job"},
		"learning/fig8":  {"peaks of the load shrink over time"},
	} {
		t.Run(id, func(t *testing.T) {
			r := quickly(t, id)
			for _, text := range claims {
				held := false
				for _, c := range r.Claims {
					held = held || c.Text == text && c.Verdict != Fails
				}
				if !held {
					t.Errorf("does not hold: %s", text)
				}
			}
			if again := quickly(t, id); !reflect.DeepEqual(r, again) {
				t.Error("a second run has another report")
			}
		})
	}
}
