package tyrex

import (
	"strings"
	"testing"

	"github.com/slotwise/slotwise/sched"
)

func TestSettings(t *testing.T) {
	read := map[string]func(*sched.Kit) (sched.Order, error){"static": ReadStatic, "dynamic": ReadDynamic}
	for _, c := range []struct{ order, set, wrong string }{
		{"static", "", ""},
		{"dynamic", "", ""},
		{"static", "capacities=1 timers=", ""},
		{"static", "capacities=0.1,0.2,0.7 timers=10s,2m", ""},
		{"static", "map-capacities=0.2,0.8 reduce-capacities=0.5,0.5", ""},
		{"dynamic", "threshold=1.5 sample=live window=0 lend=true reduce-gate=0.05", ""},
		{"static", "capacities=0.3,0.8", "sum to 1.1"},
		{"static", "capacities=0,1", `"0" is not a number above 0`},
		{"static", "capacities=x,1", `bad value "x,1"`},
		{"static", "capacities=NaN,1", `"NaN" is not a number above 0`},
		{"static", "reduce-capacities=1", "2 partitions of map slots, but 1 of reduce slots"},
		{"static", "timers=", "0 given, but 2 partitions need 1"},
		{"static", "timers=10s,20s", "2 given, but 2 partitions need 1"},
		{"static", "timers=0s", `"0s" is not a duration above 0`},
		{"static", "capacities=0.1,0.2,0.7 timers=20s,20s", "20s does not rise above 20s"},
		{"static", "timers=20", "bad value"},
		{"static", "lend=maybe", "bad value"},
		{"static", "reduce-gate=1.5", "from 0 to 1"},
		{"dynamic", "threshold=-1", "must be a number of at least 0"},
		{"dynamic", "threshold=NaN", "must be a number of at least 0"},
		{"dynamic", "sample=all", "must be one of departed+zeros, departed"},
		{"dynamic", "window=-1", "must be a whole number of at least 0"},
	} {
		set := map[string]string{}
		for _, f := range strings.Fields(c.set) {
			k, v, _ := strings.Cut(f, "=")
			set[k] = v
		}
		_, err := read[c.order](sched.NewKit(sched.Options{Set: set}))
		if c.wrong == "" && err != nil || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
			t.Errorf("%s %s: %v, want %q", c.order, c.set, err, c.wrong)
		}
	}
}
