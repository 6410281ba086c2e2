package tumm_test

import (
	"strings"
	"testing"

	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
)

// Every setting takes its values and refuses others by name; other names do too.
func TestSettings(t *testing.T) {
	for _, c := range []struct{ policy, name, good, bad string }{
		{"tumm", "feedback", "off literal telescoped", "on"}, {"tumm", "feedback.mode", "off", "x"},
		{"tumm", "alpha", "1 0.5 1.2", "0 -1 NaN Inf x"}, {"tumm", "feedback-period", "0s 3s", "-1s 3"},
		{"tumm", "feedback_period", "1m", "x"}, {"tumm", "remaining", "unfinished unassigned", "all"},
		{"htumm", "reduce-time", "full after_maps", "none"}, {"htumm", "fallback", "none any within_target", "both"},
		{"tumm", "task-times", "measured known", "guessed"}, {"tumm", "early-reduces", "on off", "yes"},
		{"htumm", "max-per-heartbeat", "0 1 9", "-1 x 1.5"}, {"htumm", "max-reduces-per-heartbeat", "0 1", "-1"},
		{"htumm", "min-per-type", "0 2", "-2"}, {"htumm", "htumm.min_per_type", "1", "x"},
	} {
		for _, v := range strings.Fields(c.good) {
			if _, err := policies.Build(c.policy, sched.Options{Set: map[string]string{c.name: v}}); err != nil {
				t.Errorf("%s %s=%s: %v", c.policy, c.name, v, err)
			}
		}
		for _, v := range strings.Fields(c.bad) {
			_, err := policies.Build(c.policy, sched.Options{Set: map[string]string{c.name: v}})
			if err == nil || !strings.Contains(err.Error(), "must be") || !strings.Contains(err.Error(), "parameter ") {
				t.Errorf("%s %s=%s: %v", c.policy, c.name, v, err)
			}
		}
	}
}
