package cli

import (
	"testing"

	"github.com/slotwise/slotwise/internal/virtual/metrics"
	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
	"github.com/slotwise/slotwise/internal/virtual/report"
	"github.com/slotwise/slotwise/internal/virtual/study"
	"github.com/slotwise/slotwise/internal/virtual/study/search"
	"github.com/slotwise/slotwise/policies"
)

// A composition is recommended only if the held-out jobs say beyond doubt that it is better by one
// measure and worse by none; else a named policy may be. Settings go with the policy that has them.
func TestRecommend(t *testing.T) {
	pair := func(policy, measure string, low, high, holm float64) collect.Pair {
		p := collect.Pair{Policy: policy, Measure: measure, Holm: holm, Ratio: metrics.Ratio{Ratio: (low + high) / 2, Low: low, High: high}}
		p.Known = true
		return p
	}
	better, worse := pair("tuned", "makespan", 0.5, 0.9, 0.01), pair("tuned", "response.mean", 1.1, 1.5, 0.01)
	local := pair("tuned", "maps.local", 1.1, 1.5, 0.01) // better large
	many := pair("tuned", "makespan", 0.5, 0.9, 0.2)     // not beyond doubt among many comparisons
	fair := pair("fair", "response.mean", 0.5, 0.8, 0.01)
	found := search.Candidate{Policy: "slots=tumm,order=fair", Set: map[string]string{"fallback": "any"}}
	objective, err := search.ParseObjective("response.mean+slowdown.p95")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		heldOut []collect.Pair
		pairs   []collect.Pair
		want    string
	}{
		{"better", []collect.Pair{better}, []collect.Pair{fair}, found.String()},
		{"better large", []collect.Pair{local}, nil, found.String()},
		{"worse by another measure", []collect.Pair{better, worse}, nil, ""},
		{"in doubt", []collect.Pair{many}, nil, ""},
		{"a named one", []collect.Pair{worse}, []collect.Pair{fair}, "fair pools=pool a minMaps=1"},
		{"a named one, worse by another measure", nil, []collect.Pair{fair, pair("fair", "makespan", 1.5, 1.9, 0.01)}, ""},
		{"a named one, better by another measure only", nil, []collect.Pair{pair("fair", "makespan", 0.5, 0.9, 0.01)}, ""},
	} {
		a := pastAnswer{Comparison: study.Comparison{Study: &report.Study{Pairs: c.pairs}}, Search: &search.Tuning{Best: found, HeldOut: c.heldOut},
			installed: "fair", set: map[string]string{"pools": "pool a minMaps=1", "alpha": "2"}}
		got := ""
		if a.recommend(objective, policies.Builtin(), nil); a.Recommended != nil {
			got = a.Recommended.String()
		}
		if got != c.want {
			t.Errorf("%s: recommended %q, want %q", c.name, got, c.want)
		}
	}
	if got := installCommand(&search.Candidate{Policy: "fair", Set: map[string]string{"pools": "pool x's", "a": "1"}}); got != `slotwise policy fair --set 'a=1' --set 'pools=pool x'\''s'` {
		t.Error(got)
	}
}
