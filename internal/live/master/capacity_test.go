package master

import (
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/live/machines"
	"github.com/slotwise/slotwise/internal/tracker/autoscale"
)

// TestCapacity follows one job through the messages to the autoscaler.
func TestCapacity(t *testing.T) {
	r := newRig(t, Config{})
	w := r.worker("w1", 2, 1)
	load := func() autoscale.Input {
		t.Helper()
		in, err := r.m.Load(t.Context())
		if err != nil || len(in.Workers) != 1 {
			t.Fatal(in, err)
		}
		return in
	}
	if in := load(); in.Busy || in.Demand != (autoscale.Slots{}) || in.Workers[0].Slots != (autoscale.Slots{2, 1}) || !in.Workers[0].Registered {
		t.Errorf("idle: %+v", in)
	}
	r.submit(r.spec(2, 1, t.TempDir()+"/out"))
	w.awaitLaunch("j1_m_0_0")
	if in := load(); !in.Busy || in.Demand[0] != 2 || in.Workers[0].Running == 0 {
		t.Errorf("running: %+v", in)
	}
	if err := r.m.Drain(t.Context(), "w1", false); err != nil {
		t.Error(err)
	}
	if in := load(); !in.Workers[0].Drained {
		t.Errorf("drained: %+v", in)
	}
	if err := r.m.Drain(t.Context(), "w1", true); err != nil {
		t.Error(err)
	}
	if err := r.m.Drain(t.Context(), "none", false); err != nil {
		t.Errorf("a worker that is not registered: %v", err)
	}
	w.heartbeat(time.Millisecond, w.succeeded("j1_m_0_0"))
	if in := load(); in.Workers[0].Outputs != 1 {
		t.Errorf("one map is done: %+v", in)
	}
}

// TestPlaces shows the pods of workers on their pages: nothing without a provider of machines,
// and "unknown" for a worker that the provider does not list.
func TestPlaces(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.worker("w1", 1, 1)
	r.worker("w2", 1, 1)
	if body, _ := r.page("/ui/nodes/w1"); strings.Contains(body, "Runs in") {
		t.Errorf("without a provider: %s", body)
	}
	r.m.SetFleet(machines.Fleet{Machines: []machines.Machine{{Name: "w1", Place: "pod w1 in namespace ns"}, {Name: "w9", Place: "pod w9"}}})
	for name, want := range map[string]string{"w1": "pod w1 in namespace ns", "w2": unknownPlace} {
		if body, _ := r.page("/ui/nodes/" + name); !strings.Contains(body, "Runs in") || !strings.Contains(body, want) {
			t.Errorf("%s, without %q: %s", name, want, body)
		}
	}
}
