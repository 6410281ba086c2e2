package machines

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/tracker/autoscale"
)

// fake is a provider and a cluster in memory, whose machines are workers at once. It
// writes the calls that change something to log.
type fake struct {
	fleet   Fleet
	demand  int
	drained map[string]bool
	running map[string]int
	log     []string
	fail    error
}

// start makes the machines that are missing.
func (f *fake) start() {
	for i := 0; len(f.fleet.Machines) < f.fleet.Replicas; i++ {
		name := fmt.Sprintf("w%d", i)
		if !slices.ContainsFunc(f.fleet.Machines, func(m Machine) bool { return m.Name == name }) {
			f.fleet.Machines = append(f.fleet.Machines, Machine{Name: name})
		}
	}
}

func (f *fake) Fleet(context.Context) (Fleet, error) {
	f.start()
	out := f.fleet
	out.Machines = slices.Clone(out.Machines)
	return out, f.fail
}

func (f *fake) Scale(_ context.Context, n int, first ...string) error {
	f.log = append(f.log, fmt.Sprintf("scale %d %v", n, first))
	f.fleet.Replicas = n
	f.fleet.Machines = slices.DeleteFunc(f.fleet.Machines, func(m Machine) bool { return slices.Contains(first, m.Name) })
	return nil
}

func (f *fake) Mark(_ context.Context, name string, leaving bool) error {
	f.log = append(f.log, fmt.Sprintf("mark %s %v", name, leaving))
	for i := range f.fleet.Machines {
		if f.fleet.Machines[i].Name == name {
			f.fleet.Machines[i].Leaving = leaving
		}
	}
	return nil
}

func (f *fake) Load(context.Context) (autoscale.Input, error) {
	f.start()
	in := autoscale.Input{Demand: autoscale.Slots{f.demand, 0}}
	for _, m := range f.fleet.Machines {
		in.Workers = append(in.Workers, autoscale.Worker{Name: m.Name, Registered: true, Drained: f.drained[m.Name], Running: f.running[m.Name], Slots: autoscale.Slots{2, 1}})
	}
	return in, nil
}

func (f *fake) Drain(_ context.Context, worker string, undo bool) error {
	f.log = append(f.log, fmt.Sprintf("drain %s undo=%v", worker, undo))
	f.drained[worker] = !undo
	return nil
}

// TestLoop grows a cluster, shrinks it, and changes its mind.
func TestLoop(t *testing.T) {
	s, err := autoscale.New(autoscale.Config{Min: 1, Max: 4})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	f := &fake{fleet: Fleet{Replicas: 1}, drained: map[string]bool{}, running: map[string]int{"w0": 1, "w1": 1, "w2": 2}}
	seen := Fleet{}
	l := &Loop{Cluster: f, Provider: f, Scaler: s, Log: slog.New(slog.NewTextHandler(&text, nil)), Seen: func(x Fleet) { seen = x }}
	now := time.Duration(0)
	step := func(demand int, want ...string) []string {
		t.Helper()
		f.log, f.demand = nil, demand
		now += time.Minute
		trouble, err := l.step(t.Context(), now)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(f.log, want) {
			t.Errorf("with demand %d: %q, want %q", demand, f.log, want)
		}
		return trouble
	}
	step(100, "scale 4 []")
	if seen.Replicas != 1 {
		t.Errorf("the fleet that the loop reports is %+v", seen)
	}
	step(5, "mark w3 true", "drain w3 undo=false")
	step(5, "scale 3 [w3]")
	step(1, "mark w0 true", "drain w0 undo=false", "mark w1 true", "drain w1 undo=false")
	step(1)
	step(3, "drain w1 undo=true", "mark w1 false")
	f.running["w0"] = 0
	step(3, "scale 2 [w0]")

	// A worker that is not ready would be removed in place of an idle one.
	f.fleet.Machines[0].Unready = true
	f.fleet.Machines = append(f.fleet.Machines, Machine{Name: "w9", Leaving: true})
	f.fleet.Replicas, f.drained["w9"] = 3, true
	trouble := step(3)
	if len(trouble) != 1 || !strings.Contains(trouble[0], "would be removed first: w1") {
		t.Errorf("trouble %q", trouble)
	}
	f.fleet.Machines[0].Unready = false
	step(3, "scale 2 [w9]")

	// A trouble is logged once.
	f.fail = errors.New("no permission")
	for range 3 {
		_, err := l.step(t.Context(), now)
		l.report([]string{err.Error()})
	}
	if n := strings.Count(text.String(), "no permission"); n != 1 {
		t.Errorf("the trouble was logged %d times:\n%s", n, text.String())
	}
}
