package main

import (
	"bytes"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/job"
)

// TestStructure compares small inputs on a machine of unknown speed and load. Times
// mean nothing there, but every job must end in the real and in the simulated run,
// and the processor times of their tasks must have the same order of magnitude.
func TestStructure(t *testing.T) {
	s := &settings{data: t.TempDir(), scale: 0.01, rounds: 1, tries: 1, shape: shape{workers: 2, maps: 1, reduces: 1}, log: io.Discard}
	if err := s.makeInputs(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := &report{settings: s}
	var err error
	if r.mixes, r.profiles, err = s.compareRounds(t.Context(), []*mix{&mixes[0], &mixes[1]}); err != nil {
		t.Fatal(err)
	}
	if s.speed <= 0 || s.speed > 20 || len(r.mixes[0].rounds) != 1 {
		t.Errorf("speed %v, %d rounds", s.speed, len(r.mixes[0].rounds))
	}
	// Other work on the machine lengthens processor times but does not multiply them.
	const factor, slack = 20, 0.05 // seconds, of starts
	for _, m := range r.mixes {
		for i := range m.jobs {
			j := &m.rounds[0].jobs[i]
			real, simulated := j.realPhases, j.simulatedPhases
			if j.real <= 0 || j.simulated <= 0 {
				t.Errorf("%s, %s: %v, simulated %v", m.mix.name, m.jobs[i].Name, j.real, j.simulated)
			}
			for _, c := range [][2]float64{{real.mapCPU, simulated.mapCPU}, {real.reduceCPU, simulated.reduceCPU}} {
				if c[0] > factor*c[1]+slack || c[1] > factor*c[0]+slack {
					t.Errorf("%s, %s: a task of %.3f s, simulated %.3f s", m.mix.name, m.jobs[i].Name, c[0], c[1])
				}
			}
		}
	}
	var out bytes.Buffer
	r.print(&out)
	for _, want := range []string{"| wordcount | 3.84 |", "at the median", "| wordcount | 4 |", "## first come, first served: policy fifo"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report has no %q:\n%s", want, out.String())
		}
	}
	checkParts(t, r)
}

// checkParts checks that a run replaces its part of the page and keeps the other, and that it
// replaces no other file.
func checkParts(t *testing.T, r *report) {
	name := filepath.Join(t.TempDir(), "page.md")
	for _, r.settings.wide = range []bool{true, false, true, false} {
		if err := r.replacePart(name); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	plain, wide := strings.Index(string(page), plainHeading), strings.Index(string(page), wideHeading)
	if plain != 0 || wide < 0 || strings.Count(string(page), plainHeading) != 1 || strings.Count(string(page), wideHeading) != 1 {
		t.Errorf("the parts are at %d and %d of\n%s", plain, wide, page)
	}
	if err := os.WriteFile(name, []byte("notes"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := r.replacePart(name); err == nil {
		t.Error("a file that is no report was replaced")
	}
}

// TestShape checks the flags -workers and -slots.
func TestShape(t *testing.T) {
	s := &settings{wide: true}
	if err := s.setShape(3, "4+1"); err != nil || s.shape != (shape{3, 4, 1, 15 * wideSlot}) {
		t.Errorf("%+v, %v", s.shape, err)
	}
	for _, slots := range []string{"2", "2+", "0+2", "2+2+2", "x"} {
		if s.setShape(0, slots) == nil {
			t.Errorf("-slots %s is accepted", slots)
		}
	}
	if s.setShape(-1, "") == nil {
		t.Error("-workers -1 is accepted")
	}
}

// TestTasks checks that the simulator gets the tasks that the local shell runs.
func TestTasks(t *testing.T) {
	s := &settings{data: t.TempDir(), scale: 0.03, rounds: 1, tries: 1, shape: shape{workers: 2, maps: 1, reduces: 1}, log: io.Discard}
	m := &mix{name: "two", policy: "fifo", jobs: []entry{{"terasort", 700, 0, "", 0}, {"grep", 200, 0, "", 0}}}
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

// TestOrder checks that a simulation uses the mix's policy and the submission times
// of the round: a short job that follows a long one of another pool overtakes it
// under fair and not under fifo. In a real run that would depend on timing, so the
// tests of internal/virtual/sim compare the decisions.
func TestOrder(t *testing.T) {
	p := exact("x")
	jobs := []workload.Job{{Name: "long", Request: job.Request{Pool: "a"}}, {Name: "short", Request: job.Request{Pool: "b"}}}
	for range 16 {
		jobs[0].Maps = append(jobs[0].Maps, p.MapTask(splitSize))
	}
	jobs[1].Maps = jobs[0].Maps[:5]
	for _, policy := range []string{"fifo", "fair"} {
		x := round{jobs: []jobTimes{{}, {submitted: 200 * time.Millisecond}}}
		if err := (&settings{shape: shape{workers: 2, maps: 1, reduces: 1}}).simulate(&mix{policy: policy}, jobs, &x, 1, 0); err != nil {
			t.Fatal(err)
		}
		long, short := &x.jobs[0], &x.jobs[1]
		if overtakes := short.submitted+short.simulated < long.simulated; overtakes != (policy == "fair") {
			t.Errorf("%s: the short job overtakes: %v", policy, overtakes)
		}
	}
}

// TestSimulate compares with a time computed by hand. A core-second processes
// 10 MB; maps of 80 and 20 MB run on two cores, then two reduces of 50 MB. The job
// is submitted at 1 s, and planning takes another second.
func TestSimulate(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("the simulated machine has as many cores as this one")
	}
	p := exact("x")
	v := workload.Job{Name: "x", Plan: time.Second, Maps: []workload.Task{p.MapTask(80e6), p.MapTask(20e6)},
		Reduces: []workload.Task{p.ReduceTask(50e6, 2), p.ReduceTask(50e6, 2)}}
	x := round{jobs: []jobTimes{{submitted: time.Second}}}
	if err := (&settings{shape: shape{workers: 2, maps: 1, reduces: 1}}).simulate(&mix{policy: "fifo", alone: true}, []workload.Job{v}, &x, 1, 0); err != nil {
		t.Fatal(err)
	}
	const want = 14 * time.Second
	if got := x.jobs[0].simulated; got < want || got > want+10*time.Millisecond {
		t.Errorf("%v, want %v", got, want)
	}
	if p := x.jobs[0].simulatedPhases; math.Abs(p.start-1) > 0.01 || math.Abs(p.maps-8) > 0.01 || math.Abs(p.rest-5) > 0.01 || math.Abs(p.reduce-5) > 0.01 {
		t.Errorf("phases %+v", p)
	}
}

// TestClock checks that the clock pauses while a single thread waits, and for the
// share of two cores that two or more threads do not get.
func TestClock(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		ran, waited, want time.Duration
	}{
		{0, 0, 10 * ms},       // asleep
		{10 * ms, 0, 10 * ms}, // one thread, undisturbed
		{4 * ms, 6 * ms, 4 * ms},
		{1 * ms, 1 * ms, 9 * ms},    // mostly asleep
		{20 * ms, 20 * ms, 10 * ms}, // four threads with both cores
		{10 * ms, 30 * ms, 5 * ms},  // four threads with half of both cores
	} {
		got := processor{c.ran, c.waited}.own(10*ms, 2)
		if d := got - c.want; d < -ms/1000 || d > ms/1000 {
			t.Errorf("ran %v and waited %v: %v, want %v", c.ran, c.waited, got, c.want)
		}
	}
	if got := working([]processor{{9 * ms, ms}, {ms / 10, 8 * ms}, {8 * ms, 0}}); got != (processor{17*ms + ms/10, ms}) {
		t.Errorf("working threads: %v", got)
	}
	c := &clock{wall: []time.Duration{0, 10, 20}, own: []time.Duration{0, 5, 15}}
	for wall, want := range map[time.Duration]time.Duration{0: 0, 4: 2, 10: 5, 15: 10, 20: 15, 25: 20} {
		if got := c.at(wall); got != want {
			t.Errorf("at %d: %d, want %d", wall, got, want)
		}
	}
	if got := c.share(); math.Abs(got-0.75) > 1e-9 {
		t.Errorf("share %g", got)
	}
}

// TestContention checks the factors with numbers computed by hand. Alone the first app takes 3 s in tasks and
// 1 s outside, the second 4 s and none. Together the first takes 4.5 s and the second 4 s in tasks, and
// the process 1.5 s outside, all of which belongs to the first.
func TestContention(t *testing.T) {
	sec := time.Second
	run := func(cpu, planned time.Duration, tasks ...float64) usage {
		x, jobs := round{cpu: cpu}, make([]workload.Job, len(tasks))
		for i, each := range tasks {
			x.jobs = append(x.jobs, jobTimes{realPhases: phases{mapCPU: each / 2}})
			jobs[i].Maps = make([]workload.Task, 2)
		}
		jobs[0].Plan = planned
		return usageOf(&x, jobs)
	}
	alone := []usage{run(6*sec, 2*sec, 3), run(4*sec, 0, 4)}
	if got := run(12*sec, 2*sec, 4.5, 4).over(alone); math.Abs(got[0]-1.5) > 1e-9 || math.Abs(got[1]-1) > 1e-9 {
		t.Errorf("factors %v, want 1.5 and 1", got)
	}
	p := scaled([]workload.Profile{exact("x"), exact("y")}, []float64{1.5, 1})
	if got := p[0].MapTask(100e6).CPU + p[0].ReduceTask(100e6, 1).CPU; got != 30*sec {
		t.Errorf("the costs of 20 s times 1.5 are %v", got)
	}
	jobs := []workload.Job{{Plan: sec, Maps: []workload.Task{{CPU: 2 * sec}}}, {Reduces: []workload.Task{{CPU: sec}}}}
	if got := planning(&mix{}, jobs); math.Abs(got-0.25) > 1e-9 || planning(&mix{alone: true}, jobs) != 0 {
		t.Errorf("planning takes %v of the cores, want a quarter, and none of those of a job alone", got)
	}
	r := &mixReport{jobs: []workload.Job{{Maps: []workload.Task{{CPU: sec}, {CPU: sec}}, Reduces: []workload.Task{{CPU: sec}}}, {Maps: []workload.Task{{CPU: sec}}}},
		rounds: []round{{cpu: 5 * sec}, {cpu: 5 * sec}, {cpu: 10 * sec}}}
	if got := r.cpuRatio(); math.Abs(got-1.25) > 1e-9 {
		t.Errorf("real over simulated is %g, want 1.25", got)
	}
}

// TestOrdered checks that only pairs whose ends are clearly apart count.
func TestOrdered(t *testing.T) {
	x := round{jobs: []jobTimes{{real: 100, simulated: 200}, {real: 104, simulated: 100}, {submitted: 50, real: 150, simulated: 100}}}
	if same, all := x.ordered(); same != 1 || all != 2 {
		t.Errorf("%d of %d, want 1 of 2", same, all)
	}
}

// exact returns a cost profile of one core-second for each 10 MB at each step, in
// which every step writes as many bytes as it reads.
func exact(name string) workload.Profile {
	return workload.Profile{App: name, MapCPU: 0.1, MapSelectivity: 1, CombinerRatio: 1, ReduceCPU: 0.1, ReduceSelectivity: 1}
}

// Launches are aligned by job and kind; which of a job's equal tasks starts does not matter.
func TestAgreement(t *testing.T) {
	real := launches("0.1 submit x\n0.1   launch j1_m_0_0 on w1 NONE\n0.2   launch j1_m_1_0 on w2 NONE\n0.3   launch j2_m_0_0 on w1 NONE\n0.4   launch j1_r_0_0 on w1\n")
	simulated := launches("0.1   launch j1_m_1_0 on n1 NODE\n0.3   launch j1_r_0_0 on n1\n0.2   launch j2_m_0_0 on n2 NODE\n0.3   launch j1_m_0_0 on n1 NODE\n")
	same, all, first := agreement(real, simulated)
	if same != 2 || all != 4 || first != "launch 2: j1_m for j2_m" {
		t.Errorf("%d of %d, %q", same, all, first)
	}
	if same, all, first := agreement(real, real); same != 4 || all != 4 || first != "" {
		t.Errorf("itself: %d of %d, %q", same, all, first)
	}
}

// TestSpeed checks that a change of the machine's speed counts only beyond the deviation of the reference times.
func TestSpeed(t *testing.T) {
	ms := func(list ...int) (out []time.Duration) {
		for _, v := range list {
			out = append(out, time.Duration(v)*time.Millisecond)
		}
		return out
	}
	for _, c := range []struct {
		beside, mix []time.Duration
		want        float64
	}{
		{ms(100, 100, 100), ms(125, 125), 0.8},
		{ms(100, 100, 100), ms(50, 50), 2},
		{ms(90, 100, 110), ms(115, 117), 1}, // 16 % above, with a standard error of 9 %
		{ms(90, 100, 110), ms(130, 120), 0.8},
	} {
		g := ground{references: c.beside}
		if got := g.speedSince(c.mix...); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%v, then %v: %g, want %g", c.beside, c.mix, got, c.want)
		}
	}
}

// TestGiven checks that tasks get the real mean and keep their ratios, and that the rest of the process's time is outside of tasks.
func TestGiven(t *testing.T) {
	sec := time.Second
	jobs := []workload.Job{{Maps: []workload.Task{{CPU: sec}, {CPU: 3 * sec}}, Reduces: []workload.Task{{CPU: sec}}}}
	x := &round{cpu: 10 * sec, jobs: []jobTimes{{realPhases: phases{mapCPU: 3, reduceCPU: 2}}}}
	got := given(jobs, x)[0]
	if got.Maps[0].CPU != 1500*time.Millisecond || got.Maps[1].CPU != 4500*time.Millisecond || got.Reduces[0].CPU != 2*sec || jobs[0].Maps[0].CPU != sec {
		t.Errorf("maps %v, reduces %v, the argument's %v", got.Maps, got.Reduces, jobs[0].Maps)
	}
	if o := outside(x, jobs); math.Abs(o-0.2) > 1e-9 {
		t.Errorf("outside %g, want 0.2", o)
	}
}

// TestChosen checks lists of mixes.
func TestChosen(t *testing.T) {
	for _, c := range []struct {
		only, except string
		want         int
	}{
		{"", "", 18}, {"fifo", "", 2}, {"memory,tumm", "", 4}, {"", "learning-nb,learning-perceptron", 16}, {"memory", "fair", 2},
	} {
		s, n := &settings{only: c.only, except: c.except}, 0
		for _, m := range wideMixes() {
			if s.chosen(m) {
				n++
			}
		}
		if n != c.want {
			t.Errorf("-mix %q -except %q: %d mixes, want %d", c.only, c.except, n, c.want)
		}
	}
}
