package sim

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/workload"
)

// A run ends within a few thousand events after Stop has returned an error. Other runs
// continue.
func TestStop(t *testing.T) {
	stopped := errors.New("that will do")
	var configs []Config
	for range 3 {
		configs = append(configs, Config{Cluster: uniformCluster(20, 2, 1), Policy: policy(t, "fifo"),
			Jobs: []workload.Job{plain(200, 10*time.Second, 5, time.Second), plain(200, 10*time.Second, 0, 0)}})
	}
	asked, events := 0, 0
	configs[0].Stop = func() error {
		if asked++; asked > 2 {
			return stopped
		}
		return nil
	}
	configs[0].Observer = observe(func(*Event) { events++ })
	configs[1].Stop = func() error { return nil }
	configs[2].Jobs[1].Maps[0].Duration = -time.Second
	results, errs := RunEach(configs, 0)
	if errs[0] != stopped || results[0] != nil || asked != 3 || events == 0 || events > 4*stopEvery {
		t.Errorf("result %v, error %v, asked %d times, %d events", results[0], errs[0], asked, events)
	}
	if errs[1] != nil || results[1].Succeeded != len(configs[1].Jobs) {
		t.Errorf("the run beside it: %+v, %v", results[1], errs[1])
	}
	if errs[2] == nil || !strings.Contains(errs[2].Error(), "negative") || results[2] != nil {
		t.Errorf("a bad run: %v", errs[2])
	}
	configs[0].Stop = func() error { return stopped }
	configs[0].Policy = policy(t, "fifo")
	if _, err := Run(configs[0]); err != stopped {
		t.Errorf("stopped before the first event: %v", err)
	}
}

// A fault of one run is its error, and the others end. The master simulates for its console.
func TestFault(t *testing.T) {
	var configs []Config
	for i := range 3 {
		c := Config{Cluster: uniformCluster(2, 2, 1), Policy: policy(t, "fifo"), Jobs: []workload.Job{plain(4, time.Second, 0, 0)}}
		if i == 1 {
			c.Observer = observe(func(*Event) { panic("division by zero slots") })
		}
		configs = append(configs, c)
	}
	for _, workers := range []int{0, 1} {
		results, errs := RunEach(configs, workers)
		if errs[1] == nil || results[1] != nil || !strings.Contains(errs[1].Error(), "division by zero slots") || !strings.Contains(errs[1].Error(), "stop_test.go") {
			t.Errorf("the run with a fault: %v, %v", results[1], errs[1])
		}
		if errs[0] != nil || errs[2] != nil || results[0].Succeeded != 1 || results[2].Succeeded != 1 {
			t.Errorf("the runs beside it: %v, %v", errs[0], errs[2])
		}
	}
}
