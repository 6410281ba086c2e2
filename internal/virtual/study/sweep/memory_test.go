package sweep

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/slotwise/slotwise/internal/virtual/sim"
)

// heap returns the live memory.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// probe measures the live memory when the first job of a run ends.
type probe struct {
	once sync.Once
	live int64
}

func (*probe) Phase(string, int) {}

func (p *probe) Observe(e *sim.Event) {
	if e.Kind == sim.JobEnded {
		p.once.Do(func() { p.live = heap() })
	}
}

// The estimate of a run's memory is not below what a run with all jobs alive needs, and not
// many times above it.
func TestEstimate(t *testing.T) {
	dir := t.TempDir()
	const heavy = "classes:\n  - {name: x, count: 20, maps: 10000, map-time: {uniform: [5s, 15s]}}\n"
	if err := os.WriteFile(filepath.Join(dir, "mix.yaml"), []byte(heavy), 0o666); err != nil {
		t.Fatal(err)
	}
	p := mustPlan(t, dir, "workload: mix.yaml\nclusters: ['nodes=500,maps=4,reduces=1']\npolicies: ['fair,speculate=none']\nreference: ideal\nreferences: [none]\n")
	before := heap()
	watch := &probe{}
	if err := p.Run(context.Background(), open(t, dir), RunOptions{Workers: 1, Progress: watch}); err != nil {
		t.Fatal(err)
	}
	c := p.Cells[0]
	need, estimate := watch.live-before, c.estimate()+c.drawn()
	t.Logf("needs %d MiB, estimated %d MiB", need>>20, estimate>>20)
	if need > estimate*11/10 || estimate > 4*need {
		t.Errorf("a run needs %d MiB and is estimated to need %d MiB", need>>20, estimate>>20)
	}
}
