package main

import (
	"bytes"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/workload"
)

// Small inputs on a machine of which nothing is known: times mean little, but
// every job ends in both worlds, each simulated task is one that really ran, and
// nothing is wrong by orders of magnitude.
func TestStructure(t *testing.T) {
	s := &settings{data: t.TempDir(), scale: 0.01, rounds: 1, tries: 1, workers: 2, log: io.Discard}
	if err := s.makeInputs(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := &report{settings: s}
	for i := range programs {
		p, err := s.profile(t.Context(), &programs[i])
		if err != nil {
			t.Fatal(err)
		}
		r.profiles = append(r.profiles, p)
	}
	m, err := s.compareMix(t.Context(), &mixes[1], r.profiles)
	if err != nil {
		t.Fatal(err)
	}
	r.mixes = append(r.mixes, *m)
	const slack = 100 // ms, of starts and interruptions, beside a factor
	for _, j := range m.jobs {
		real, simulated := j.real[0].Milliseconds(), j.simulated.Milliseconds()
		if simulated > 20*real+slack || real > 20*simulated+20*slack {
			t.Errorf("%s: %d ms, simulated %d ms", j.entry.program, real, simulated)
		}
	}
	var out bytes.Buffer
	r.print(&out)
	for _, want := range []string{"| wordcount | 7.68 |", "at the median", "## first come, first served: policy fifo"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report has no %q:\n%s", want, out.String())
		}
	}
}

// The simulator sees the tasks that the local shell runs.
func TestTasks(t *testing.T) {
	s := &settings{data: t.TempDir(), scale: 0.03, rounds: 1, tries: 1, workers: 2, log: io.Discard}
	m := &mix{"two", "fifo", []entry{{"terasort", 700, 0, ""}, {"grep", 200, 0, ""}}}
	for _, e := range m.jobs {
		kind := map[string]string{"terasort": "records", "grep": "text"}[e.program]
		if err := s.makeInput(t.Context(), kind, e.size, false); err != nil {
			t.Fatal(err)
		}
	}
	profiles := make([]workload.Profile, len(programs))
	for i := range profiles {
		profiles[i] = exact(programs[i].name)
	}
	real, virtual, err := s.jobs(t.Context(), m, profiles)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct{ maps, reduces int }{{3, reduces}, {1, 0}} {
		v := virtual[i]
		if len(v.Maps) != want.maps || len(v.Reduces) != want.reduces || v.Name != real[i].Name {
			t.Errorf("%s: %d maps, %d reduces, want %v", v.Name, len(v.Maps), len(v.Reduces), want)
		}
		var bytes int64
		for _, x := range v.Maps {
			bytes += x.Input
		}
		if size := s.bytes(m.jobs[i].size); bytes > size || bytes < size-1000 {
			t.Errorf("%s: maps of %d bytes, input of %d", v.Name, bytes, size)
		}
	}
}

// By hand: a core-second for each 10 MB, maps of 80 and 20 MB on two cores, then
// two reduces of 50 MB.
func TestSimulate(t *testing.T) {
	p := exact("x")
	v := workload.Job{Name: "x", SlowStart: -1, Maps: []workload.Task{p.MapTask(80e6), p.MapTask(20e6)},
		Reduces: []workload.Task{p.ReduceTask(50e6, 2), p.ReduceTask(50e6, 2)}}
	r := &mixReport{mix: &mix{policy: "fifo"}, jobs: make([]jobReport, 1)}
	if err := (&settings{workers: 2}).simulate(r, []workload.Job{v}); err != nil {
		t.Fatal(err)
	}
	const want = 13 * time.Second
	if got := r.jobs[0].simulated; got < want || got > want+10*time.Millisecond {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestOthers(t *testing.T) {
	if got := busy("cpu  100 1 20 5000 30 4 5 6 70 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n"); got != 1360*time.Millisecond {
		t.Errorf("busy for %v", got)
	}
	if got := busy("no such file"); got != 0 {
		t.Errorf("busy for %v", got)
	}
	at := time.Unix(100, 0)
	a := usage{at, time.Second, 5 * time.Second}
	b := usage{at.Add(time.Duration(runtime.NumCPU()) * time.Second), 2 * time.Second, 7 * time.Second}
	if got, want := b.others(a), 1/float64(runtime.NumCPU()*runtime.NumCPU()); math.Abs(got-want) > 1e-9 {
		t.Errorf("others had %g, want %g", got, want)
	}
}

// exact is a profile of a core-second for each 10 MB at each step, nothing lost
// on the way.
func exact(name string) workload.Profile {
	return workload.Profile{App: name, MapCPU: 0.1, MapSelectivity: 1, CombinerRatio: 1, ReduceCPU: 0.1, ReduceSelectivity: 1}
}
