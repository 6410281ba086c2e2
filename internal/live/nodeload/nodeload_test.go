package nodeload

import (
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/sched/cluster"
)

// fake is a source whose counters a test sets.
type fake struct {
	cpu  cpuTime
	disk map[string]uint64
	net  map[string]uint64
	bad  error
}

func (f *fake) sampler() *Sampler {
	return &Sampler{read: source{
		average:   func() (float64, error) { return 1.5, f.bad },
		processes: func() (int, error) { return 80, nil },
		memory:    func() (float64, int64, error) { return 0.25, 1 << 30, nil },
		swap:      func() (float64, int64) { return 0.5, 1 << 20 },
		space:     func() int64 { return 1000 },
		cpu:       func() (*cpuTime, error) { c := f.cpu; return &c, nil },
		disk:      func() (map[string]uint64, error) { return f.disk, f.bad },
		net:       func() (map[string]uint64, error) { return f.net, nil },
	}}
}

// A rate is growth over time. Devices that appear, disappear or reset add nothing.
func TestRates(t *testing.T) {
	f := &fake{cpu: cpuTime{10, 100}, disk: map[string]uint64{"a": 1000, "b": 7}, net: map[string]uint64{"e": 50}}
	s := f.sampler()
	machine := cluster.Machine{Memory: 1 << 30, Swap: 1 << 20, Disks: 2, Arch: cluster.ArchOf(runtime.GOARCH)}
	first, err := s.Sample(0)
	if want := (cluster.Load{LoadAverage: 1.5, Processes: 80, MemoryFree: 0.25, SwapFree: 0.5, DiskFree: 1000, Machine: machine}); first != want || err != nil {
		t.Errorf("first sample %+v, %v; want %+v", first, err, want)
	}
	f.cpu = cpuTime{13, 104}
	f.disk, f.net = map[string]uint64{"a": 3000, "b": 5, "new": 1 << 40}, map[string]uint64{"e": 60}
	machine.Disks = 3
	want := cluster.Load{LoadAverage: 1.5, Processes: 80, MemoryFree: 0.25, CPU: 0.75, DiskRate: 1000, NetworkRate: 5,
		SwapFree: 0.5, DiskFree: 1000, Machine: machine}
	for range 2 { // the second at the same time
		if got, err := s.Sample(2 * time.Second); got != want || err != nil {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	}
	f.cpu = cpuTime{12, 103} // started again
	if got, _ := s.Sample(3 * time.Second); got.CPU != 0 || got.DiskRate != 0 {
		t.Errorf("after counters have gone back: %+v", got)
	}
}

// A value that cannot be read is 0 and named in the error; the others are valid.
func TestErrors(t *testing.T) {
	f := &fake{bad: errors.New("no such thing"), disk: map[string]uint64{"a": 1}}
	s := f.sampler()
	got, err := s.Sample(0)
	if err == nil || !strings.Contains(err.Error(), "load average: no such thing") || !strings.Contains(err.Error(), "disks") {
		t.Errorf("error %v", err)
	}
	if got.Processes != 80 || got.MemoryFree != 0.25 {
		t.Errorf("got %+v", got)
	}
}

// A sample of this machine has plausible values and notices a busy processor.
func TestMachine(t *testing.T) {
	s, start := New(t.TempDir()), time.Now()
	if _, err := s.Sample(0); err != nil {
		t.Fatal(err)
	}
	sink := 0.0
	for time.Since(start) < 300*time.Millisecond {
		sink += math.Sqrt(float64(time.Since(start)))
	}
	l, err := s.Sample(time.Since(start))
	if err != nil {
		t.Fatal(err)
	}
	if !(l.CPU > 0.01 && l.CPU <= 1) || !(l.MemoryFree > 0 && l.MemoryFree < 1) || l.LoadAverage < 0 ||
		l.Processes < 1 || l.DiskRate < 0 || l.NetworkRate < 0 || l.Machine.Memory <= 0 || l.DiskFree <= 0 || sink == 0 {
		t.Errorf("%+v", l)
	}
}

func BenchmarkSample(b *testing.B) {
	s := New(b.TempDir())
	for i := range b.N {
		if _, err := s.Sample(time.Duration(i)); err != nil {
			b.Fatal(err)
		}
	}
}
