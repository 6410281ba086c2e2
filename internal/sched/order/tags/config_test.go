package tags

import (
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/sched/order"
	"github.com/slotwise/slotwise/internal/sched/place"
	"github.com/slotwise/slotwise/internal/sched/slots"
	"github.com/slotwise/slotwise/internal/sched/speculate"
	"github.com/slotwise/slotwise/sched"
)

// registry knows both orders and little else.
func registry(t *testing.T) *sched.Registry {
	g, err := sched.NewRegistry(sched.Table{
		Slots: []sched.Part[sched.Slots]{{Name: "static", Params: slots.StaticParams, New: slots.ReadStatic}},
		Order: []sched.Part[sched.Order]{
			{Name: "fifo", New: func(*sched.Kit) (sched.Order, error) { return order.NewFIFO(), nil }},
			{Name: "static", Params: StaticParams(), New: ReadStatic},
			{Name: "dynamic", Params: DynamicParams(), New: ReadDynamic},
		},
		Place: []sched.Part[sched.Place]{{Name: "greedy", Params: []sched.Param{place.OffRack}, New: place.ReadGreedy}},
		Speculate: []sched.Part[sched.Speculate]{{Name: "none",
			New: func(*sched.Kit) (sched.Speculate, error) { return &speculate.None{}, nil }}},
		Policies: []sched.Row{{Name: "fifo", Slots: "static", Order: "fifo", Place: "greedy", Speculate: "none"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestSettings(t *testing.T) {
	g := registry(t)
	for _, c := range []struct{ order, set, wrong string }{
		{"static", "", ""},
		{"dynamic", "", ""},
		{"static", "capacities=1 timers=", ""},
		{"static", "capacities=0.1,0.2,0.7 timers=10s,2m", ""},
		{"static", "map-capacities=0.2,0.8 reduce-capacities=0.5,0.5", ""},
		{"dynamic", "threshold=1.5 sample=live window=0 lend=true reduce-gate=0.05", ""},
		{"static", "capacities=0.3,0.8", "sum to 1.1"},
		{"static", "capacities=0,1", "0 is not positive"},
		{"static", "capacities=x,1", `bad value "x,1"`},
		{"static", "capacities=NaN,1", "is not positive"},
		{"static", "reduce-capacities=1", "2 partitions of map slots, but 1 of reduce slots"},
		{"static", "timers=", "0 given, but 2 partitions need 1"},
		{"static", "timers=10s,20s", "2 given, but 2 partitions need 1"},
		{"static", "timers=0s", "does not rise above 0s"},
		{"static", "capacities=0.1,0.2,0.7 timers=20s,20s", "20s does not rise above 20s"},
		{"static", "timers=20", "bad value"},
		{"static", "lend=maybe", "bad value"},
		{"static", "reduce-gate=1.5", "from 0 to 1"},
		{"dynamic", "threshold=-1", "must be from 0"},
		{"dynamic", "threshold=NaN", "must be from 0"},
		{"dynamic", "sample=all", "must be departed+zeros"},
		{"dynamic", "window=-1", "window -1 is negative"},
		{"dynamic", "timers=10s", "unknown parameter"},
	} {
		set := map[string]string{}
		for _, f := range strings.Fields(c.set) {
			k, v, _ := strings.Cut(f, "=")
			set[k] = v
		}
		_, err := g.Build("fifo,order="+c.order, sched.Options{Set: set})
		if c.wrong == "" && err != nil || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
			t.Errorf("%s %s: %v, want %q", c.order, c.set, err, c.wrong)
		}
	}
}
