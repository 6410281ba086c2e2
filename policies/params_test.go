package policies

import (
	"slices"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/sched"
)

// spellings has a valid value of each parameter that is not a word or a number.
var spellings = map[string][]string{
	"candidates": {"fifo,fair,place=greedy", "yarn, tumm"},
	"pools": {
		"pool p minMaps=2 maxMaps=9 weight=2.5; user ann maxRunningJobs=3; fairSharePreemptionTimeout=60",
		"pool a; pool b maxRunningJobs=1 schedulingMode=fifo minSharePreemptionTimeout=5; poolMaxJobsDefault=4; userMaxJobsDefault=2",
		"defaultPoolSchedulingMode=fifo; pool a schedulingMode=fair; pool b; defaultMinSharePreemptionTimeout=99999999999999",
		"defaultMinSharePreemptionTimeout=7; pool a minSharePreemptionTimeout=99999999999999; pool b maxReduces=0 minReduces=1",
		" ann:1/0/2.5; b:c:0/7/1;",
	},
	"queues":              {"ads,capacity=70,maximum-capacity=80;web,capacity=30,supports-priority=true,user-limit-factor=1.5,minimum-user-limit-percent=25"},
	"utility":             {"fifo * budget"},
	"balances":            {"ann:10,bob:0.5"},
	"features":            {"load, cpu"},
	"timers":              {"90s,5m"},
	"cutoffs":             {"90s,5m"},
	"capacities":          {".1, 0.2,0.7"},
	"lend-mode":           {"poolindependent"},
	"sepb-fraction":       {"0.29", "1e-9"},
	"target":              {"1e3"},
	"node-wait":           {"0", "90s"},
	"update-interval":     {"0.5s"},
	"feedback-period":     {"1h1m"},
	"slow-task-threshold": {"0.10"},
}

// For every parameter of every policy, printing a parsed value and parsing it
// again gives the same value. The samples are the default, the spellings above,
// every word that the parameter accepts, and some numbers.
func TestParametersRoundTrip(t *testing.T) {
	names := Names()
	used := map[string]bool{}
	for _, name := range names {
		info, err := Describe(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range info.Parts {
			for _, p := range part.Params {
				if p.Accepts == "" || p.Help == "" {
					t.Errorf("%s: parameter %s does not say what it accepts or does", part.Name, p.Name)
				}
				roundTrip(t, part.Name, p, used)
			}
		}
	}
	for name, texts := range spellings {
		for _, text := range texts {
			if !used[name+"="+text] {
				t.Errorf("no policy accepts %s=%s", name, text)
			}
		}
	}
}

func roundTrip(t *testing.T, part string, p sched.Param, used map[string]bool) {
	words := strings.FieldsFunc(p.Accepts, func(r rune) bool { return r == ' ' || r == ',' })
	samples := slices.Concat(spellings[p.Name], words, []string{p.Default, "0", "0.25", "1", "7"})
	accepted := 0
	for _, text := range samples {
		printed, err := p.Normalize(text)
		if err != nil {
			if text == p.Default {
				t.Errorf("%s: the default of %s is invalid: %v", part, p.Name, err)
			}
			continue
		}
		accepted++
		used[p.Name+"="+text] = true
		if again, err := p.Normalize(printed); err != nil || again != printed {
			t.Errorf("%s: %s=%q prints as %q, and that as %q, %v", part, p.Name, text, printed, again, err)
		}
	}
	if accepted < 2 {
		t.Errorf("%s: only the default of %s was tried; add a spelling", part, p.Name)
	}
}
