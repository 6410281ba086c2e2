package repro

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/report"
	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// TestHeadlines checks, in their quick form, the claims that these papers are known
// for, and that the same seed gives the same report.
func TestHeadlines(t *testing.T) {
	for id, claims := range map[string][]string{
		"tyrex/fig3":     {"moving a job to the next partition costs nothing"},
		"learning/fig11": {"tasks per node: WordCount+10ms > URLGet > URLToDisk > CPUActivity > WordCount > TextWriter", "they are those printed, job by job"},
		"learning/fig8":  {"peaks of the load shrink over time"},
	} {
		t.Run(id, func(t *testing.T) {
			r := quickly(t, id).Report
			for _, text := range claims {
				if !slices.ContainsFunc(r.Claims, func(c Claim) bool { return c.Text == text && c.Verdict != Fails }) {
					t.Errorf("does not hold: %s", text)
				}
			}
			if again := makeQuick(t, id).Report; !reflect.DeepEqual(r, again) {
				t.Error("a second execution has another report")
			}
		})
	}
}

func TestModfairExample(t *testing.T) {
	r := quickly(t, "modfair/fig4-5").Report
	want := [][]string{{"FIFO", "40.0", "60.0", "80.0", "60.0", "60.0"}, {"Fair", "120.0", "120.0", "120.0", "120.0", "120.0"}}
	if !reflect.DeepEqual(r.Tables[0].Rows, want) || r.Claims[0].Verdict != AsPrint {
		t.Errorf("%v", r.Tables[0].Rows)
	}
}

// TestModfairOrders checks the orders of submission: the same jobs, and a shuffle
// that depends on the seed alone.
func TestModfairOrders(t *testing.T) {
	if got, want := mfOrdered(2, "ascending", 1), []int{6, 6, 10, 10, 16, 16, 21, 21, 25, 25}; !slices.Equal(got, want) {
		t.Errorf("ascending: %v", got)
	}
	if got := mfOrdered(1, "descending", 1); !slices.Equal(got, []int{25, 21, 16, 10, 6}) {
		t.Errorf("descending: %v", got)
	}
	a, b, c := mfOrdered(3, "shuffled", 1), mfOrdered(3, "shuffled", 1), mfOrdered(3, "shuffled", 2)
	if !slices.Equal(a, b) || slices.Equal(a, c) {
		t.Errorf("shuffled: %v and %v with seed 1, %v with seed 2", a, b, c)
	}
	if slices.Sort(a); !slices.Equal(a, mfOrdered(3, "ascending", 1)) {
		t.Errorf("the shuffled order has other jobs: %v", a)
	}
}

// TestModfairWorlds checks the runs of a test: where blocks are, the cores, and the
// names of the readings.
func TestModfairWorlds(t *testing.T) {
	if got, want := mfAssumed.String(), "promise, one node, 2 cores, 0.3 s"; got != want {
		t.Errorf("the assumed world is %q, want %q", got, want)
	}
	w := vary("", func(w *mfWorld) { w.holders, w.ownCores, w.beat = 2, true, "fixed:3s" })
	if got, want := w.String(), "promise, uniform, a core for each slot, 3 s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	r := mfTest{4, []int{3, 2, 1, 1}, w}.run(w.scheduler(mfFIFO))
	var hosts []string
	for _, m := range r.jobs[0].Maps {
		hosts = append(hosts, m.Hosts...)
	}
	if !slices.Equal(hosts, []string{"node1", "node2", "node1"}) || r.jobs[3].Pool != "p1" || r.cluster.Groups[0].Cores != 4 {
		t.Errorf("hosts %v, pool %s, %d cores", hosts, r.jobs[3].Pool, r.cluster.Groups[0].Cores)
	}
	for which, want := range []string{"original", "modified", "FIFO"} {
		s := w.scheduler(which)
		if s.policy(1); s.name != want {
			t.Errorf("scheduler %d is %s, want %s", which, s.name, want)
		}
	}
}

// TestModfairRow computes changes and gains from outcomes by hand.
func TestModfairRow(t *testing.T) {
	out := func(seconds ...int) (list []outcome) {
		for _, s := range seconds {
			jobs := []sim.JobResult{{Submitted: time.Second, Ended: time.Duration(s+1) * time.Second}, {Ended: time.Duration(s) * time.Second}}
			list = append(list, outcome{Result: &sim.Result{Jobs: jobs, Maps: [5]int64{cluster.NODE: 1, cluster.ANY: 3}}})
		}
		return list
	}
	r := mfRow{out(100, 300), out(100), out(400)}
	if r.time(mfOriginal) != 200 || r.gain() != -0.5 || r.change(mfFIFO, mfModified) != -0.75 || r.local(mfFIFO) != 0.25 {
		t.Errorf("time %v, gain %v, change %v, local %v", r.time(mfOriginal), r.gain(), r.change(mfFIFO, mfModified), r.local(mfFIFO))
	}
	m := mfMeans([]mfRow{r, {out(100), out(150), nil}})
	if m.better != 1 || m.gain != 0 || mfGainRange([]mfRow{r, r}) != "-50.0 % to -50.0 %" {
		t.Errorf("%+v, %s", m, mfGainRange([]mfRow{r, r}))
	}
}

// TestTyrexClasses checks that jobs of all classes together have the mean and CV² of
// Table II.
func TestTyrexClasses(t *testing.T) {
	for _, w := range tyWorkloads() {
		sum, squares := 0.0, 0.0
		large := w.largeClass()
		for _, c := range []struct {
			n      int
			mean   float64
			spread float64
		}{{w.tiny.Count, w.tiny.Work.A, w.tiny.Work.B}, {w.short.Count, w.short.Work.A, w.short.Work.B}, {large.Count, large.Work.A, large.Work.B}} {
			sum += float64(c.n) * c.mean
			squares += float64(c.n) * (c.mean*c.mean + c.spread*c.spread)
		}
		m := sum / tyJobs
		if got := squares/tyJobs/(m*m) - 1; math.Abs(got-w.cv2) > 1e-6 || math.Abs(sum/3600-w.cpu) > 1e-6 {
			t.Errorf("%s: CV² %v, work %v h", w.name, got, sum/3600)
		}
	}
}

// TestTyrexJobs checks that drawn jobs keep their work when it is divided into tasks
// of other lengths.
func TestTyrexJobs(t *testing.T) {
	x, w := newLab(t), tyWorkloads()[0]
	long := w.draw(x, 1, 0.7, 1)
	w.shorter = 4
	short := w.draw(x, 1, 0.7, 0.05)
	for i := range long {
		a, b := tySize(&long[i]), tySize(&short[i])
		if math.Abs(a-b) > 0.01*a+0.1 || len(short[i].Maps) < len(long[i].Maps) || len(long[i].Reduces) < 1 || short[i].SlowStart != 0.05 {
			t.Fatalf("job %d: %.2f s in %d maps, then %.2f s in %d", i, a, len(long[i].Maps), b, len(short[i].Maps))
		}
	}
	if got := equalTasks(10, 3); len(got) != 3 || got[0].Duration != 3333*time.Millisecond {
		t.Errorf("10 s in tasks of 3 s: %v", got)
	}
	if got := equalTasks(1, 30); len(got) != 1 || got[0].Duration != time.Second {
		t.Errorf("1 s in tasks of 30 s: %v", got)
	}
}

// TestTyrexWatch follows two jobs through the partitions.
func TestTyrexWatch(t *testing.T) {
	w := &tyWatch{last: make([]int32, 2), inP1: make([]float64, 2)}
	for _, e := range []sim.Event{
		{Kind: sim.AttemptStarted, Job: 0, Label: 1},
		{Kind: sim.AttemptEnded, Job: 0, Label: 1, At: 5 * time.Second},
		{Kind: sim.AttemptStarted, Job: 0, Label: 2, At: 5 * time.Second},
		{Kind: sim.AttemptEnded, Job: 0, Label: 2, Started: 5 * time.Second, At: 7 * time.Second},
		{Kind: sim.AttemptStarted, Job: 1, Label: 1},
		{Kind: sim.AttemptEnded, Job: 1, Label: 1, At: 3 * time.Second},
		{Kind: sim.AttemptEnded, Job: 1, Label: 0, At: 9 * time.Second}, // of a policy without partitions
	} {
		w.Observe(&e)
	}
	if w.busy != [2]float64{8, 2} || !slices.Equal(w.last, []int32{2, 1}) || !slices.Equal(w.inP1, []float64{5, 3}) {
		t.Errorf("%+v", w)
	}
	var o tyOutcome
	jobs := []sim.JobResult{{Ended: 20 * time.Second}, {Submitted: 10 * time.Second, Ended: 20 * time.Second}}
	o.add(&tyBatch{alone: []float64{10, 10}}, outcome{Result: &sim.Result{Jobs: jobs, Ended: 20 * time.Second, Makespan: 20 * time.Second}, run: &run{probe: w}}, 0.3)
	if o.doneFirst[0] != 0.5 || o.use1[0] != 8/(0.3*tySlots*10) || o.passing[0] != 5/(0.3*tySlots*10) || o.worst[0] != 2 || o.tail[0] != 10 {
		t.Errorf("%+v", o)
	}
}

// TestTyrexTimerRow checks the percentiles of timers and the share in the paper's
// range.
func TestTyrexTimerRow(t *testing.T) {
	w, tb := &tyWorkloads()[0], newTable("", "")
	if m := tyTimerRow(tb, w, "with zeros", []float64{0, 40, 100, 200, 400, 0}); m != 100 {
		t.Errorf("median %g, want 100", m)
	}
	if m := tyTimerRow(tb, w, "C", []float64{0, 0}); m != 0 {
		t.Errorf("median %g without timers", m)
	}
	if tb.Rows[0][5] != "50.0 %" || tb.Rows[0][6] != "50 to 300" || tb.Rows[1][2] != Missing {
		t.Errorf("%v", tb.Rows)
	}
}

// TestLearningLoads checks that the tasks of a job add 4/m to the load on average.
func TestLearningLoads(t *testing.T) {
	for _, j := range lnPrinted {
		sum := 0.0
		for _, m := range j.make(1, 0, 4000, time.Minute).Maps {
			sum += m.CPU.Seconds() / m.Duration.Seconds() / 4000
		}
		if math.Abs(sum*j.tasks/lnCores-1) > 0.05 {
			t.Errorf("%s: %v per task, want %v", j.name, sum, lnCores/j.tasks)
		}
	}
	chain := lnFind("Grep").chain(1, 3, 10, time.Minute)
	if chain[0].After != nil || !slices.Equal(chain[2].After, []int{1}) || chain[2].Name != "Grep3" {
		t.Errorf("%+v", chain[2])
	}
}

// TestLearningWatch integrates running tasks and describes load samples.
func TestLearningWatch(t *testing.T) {
	w := &lnWatch{middle: 10 * time.Second, samples: []lnSample{{0, 9}, {time.Second, 0.5}, {2 * time.Second, 1.5}, {3 * time.Second, 9}}}
	if l := w.load(time.Second, 3*time.Second, 1); l != (lnLoad{1, 1.5, 0.75, 0.5}) {
		t.Errorf("load %+v", l)
	}
	if l := w.load(time.Hour, 2*time.Hour, 1); l != (lnLoad{}) {
		t.Errorf("load of no samples %+v", l)
	}
	w.Observe(&sim.Event{Kind: sim.AttemptStarted, At: 4 * time.Second})
	w.Observe(&sim.Event{Kind: sim.AttemptStarted, At: 12 * time.Second})
	w.Observe(&sim.Event{Kind: sim.AttemptEnded, At: 20 * time.Second})
	if w.half != 6 || w.running.Area(20*time.Second) != 6+10+8-4+4-8 && w.running.Area(20*time.Second) != 24 {
		t.Errorf("half %g, area %g", w.half, w.running.Area(20*time.Second))
	}
}

// TestSlots checks the changes to jobs and clusters for experiments on slots.
func TestSlots(t *testing.T) {
	jobs := func() []workload.Job {
		return []workload.Job{{Maps: []workload.Task{{Duration: 10 * time.Second}, {Duration: 10 * time.Second}}, Reduces: []workload.Task{{Duration: 4 * time.Second}}, Request: job.Request{SlowStart: -1}}}
	}
	before := jobs()
	after := contendedBy(0.5, slices.Clone(before), 1)
	for i, m := range after[0].Maps {
		total := float64(m.Input)/diskRate + m.CPU.Seconds()
		if m.Duration != 0 || total < 9 || total > 11 || before[0].Maps[i].Duration != 10*time.Second {
			t.Errorf("map %d takes %.2f s: %+v", i, total, m)
		}
	}
	if r := contendedReduces(0.25, jobs())[0].Reduces[0]; r.Duration != 0 || r.Output != diskRate || r.CPU != 3*time.Second {
		t.Errorf("reduce %+v", r)
	}
	if r := stretchedReduces(0.5, jobs())[0].Reduces[0]; r.Duration != 2*time.Second {
		t.Errorf("reduce %+v", r)
	}
	if v := varied(0.3, jobs(), 1)[0]; v.Maps[0].Duration == v.Maps[1].Duration || v.Maps[0].Duration < 7*time.Second || v.Maps[0].Duration > 13*time.Second {
		t.Errorf("maps of %v and %v", v.Maps[0].Duration, v.Maps[1].Duration)
	}
	c := withDisks(withSlots(paperCluster("tumm"), 3, 1))
	if g := c.Groups[0]; g.MapSlots != 3 || g.ReduceSlots != 1 || g.Cores < 4 || g.DiskBandwidth <= 0 || paperCluster("tumm").Groups[0].MapSlots == 3 {
		t.Errorf("%+v", g)
	}
	if got := slotsOf(c); !slices.Equal(got, []int{4, 4, 4, 4}) {
		t.Errorf("slots %v", got)
	}
}

// TestDynamicMRTables checks improvements and the range that a figure shows.
func TestDynamicMRTables(t *testing.T) {
	if got := improved(3*time.Second, 2*time.Second); got != "2.0 (+50.0 %)" {
		t.Error(got)
	}
	spans := [][]time.Duration{{4, 2}, {3, 3}}
	if got := improvements(spans, 0, 1); !slices.Equal(got, []float64{1, 0}) {
		t.Errorf("improvements %v", got)
	}
	x := newLab(t)
	x.exp.claims = map[string]claimData{"gain": {By: "size: 46 to 115 %"}}
	dynDraw(x, "dynamicmr-x", "X", "gain", []string{"a", "b"}, []scheduler{dynPI}, spans)
	f := x.Figures[0]
	if !slices.Equal(f.Series[0].Y, []float64{100, 0}) || f.Limits[0] != (report.Limit{Name: "paper, least (46 %)", At: 46}) || f.Limits[1].At != 115 {
		t.Errorf("%+v", f)
	}
}

// TestVarying counts the nodes whose number of maps changed while they were full.
func TestVarying(t *testing.T) {
	jobs := []workload.Job{{Maps: slices.Repeat([]workload.Task{{Duration: time.Second}}, 4), Reduces: []workload.Task{{Duration: time.Second}}, Request: job.Request{SlowStart: -1}}}
	r := run{cluster: withSlots(paperCluster("tumm"), 1, 1), jobs: jobs, scheduler: tummStatic}
	o := newLab(t).play(r)[0]
	if n := o.watch.varying(); n != 0 {
		t.Errorf("%d nodes vary although each has one map slot", n)
	}
	if use := o.slotUse(); use <= 0 || use > 1 {
		t.Errorf("use of slots %g", use)
	}
	if m := o.watch.times[""][job.Reduce]; m.n != 1 {
		t.Errorf("%d reduces", m.n)
	}
	w := &watch{low: []int{0, 2, 1}, high: []int{3, 2, 2}}
	if n := w.varying(); n != 2 {
		t.Errorf("%d nodes vary, want 2", n)
	}
}

// TestText checks the helpers of evidence and tables.
func TestText(t *testing.T) {
	if got := joined(joined("", "a"), "b"); got != "a; b" || orNone("") != "none, so this is unexplained" || orNone(got) != got {
		t.Errorf("%q, %q", got, orNone(""))
	}
	if got := strings.Join(cells(fixed(1), 1, 2.25), " "); got != "1.0 2.2" {
		t.Errorf("cells %q", got)
	}
	if got := byWorkload([]float64{0.1, -0.2, 0}); got != "HVW +10.0 %; MVW -20.0 %; LVW +0.0 %" {
		t.Errorf("by workload %q", got)
	}
	if mean(nil) != 0 || gain(10, 8) != 0.19999999999999996 || speedup(10, 8) != 0.25 {
		t.Errorf("%g, %g, %g", mean(nil), gain(10, 8), speedup(10, 8))
	}
}
