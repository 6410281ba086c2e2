package tumm_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/policies/tumm"
	"github.com/slotwise/slotwise/sched"
)

// Each page has a row for each parameter, with its default, and no other rows.
func TestPages(t *testing.T) {
	for name, params := range map[string][]sched.Param{"tumm": tumm.Params(), "htumm": tumm.HeterParams()} {
		page, err := os.ReadFile("../../docs/policies/" + name + ".md")
		if err != nil {
			t.Fatal(err)
		}
		var got, want []string
		for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| `([^`]+)` \\| .").FindAllStringSubmatch(string(page), -1) {
			got = append(got, m[1]+" "+m[2])
		}
		for _, p := range params {
			want = append(want, p.Name+" "+p.Default)
		}
		if !slices.Equal(got, want) {
			t.Errorf("the page of %s has the parameters\n%v, want\n%v", name, got, want)
		}
	}
}

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
