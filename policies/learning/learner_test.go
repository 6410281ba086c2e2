package learning

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// bench is a learner with nodes whose loads the test reports.
type bench struct {
	*Learner
	book  *cluster.Book
	nodes []*cluster.Node
	now   time.Duration
}

func newBench(cfg Config, nodes int) *bench {
	b := &bench{Learner: New(cfg), book: cluster.NewBook()}
	for i := range nodes {
		n, _ := b.book.Join(cluster.Spec{Name: string(rune('a' + i)), Cores: 1}, 0)
		b.nodes = append(b.nodes, n)
	}
	return b
}

func (b *bench) report(i int, load float64) {
	b.now += time.Second
	b.book.Seen(b.nodes[i], cluster.Load{LoadAverage: load, MemoryFree: 0.5}, b.now)
	b.Report(b.nodes[i], b.now)
}

// live plays a random life: reports, decisions, lost nodes.
func (b *bench) live(t *rapid.T) (decided, dropped int) {
	waiting := make([]int, len(b.nodes))
	for range rapid.IntRange(1, 60).Draw(t, "steps") {
		i := rapid.IntRange(0, len(b.nodes)-1).Draw(t, "node")
		switch rapid.IntRange(0, 5).Draw(t, "what") {
		case 0:
			b.Forget(int32(i))
			dropped, waiting[i] = dropped+waiting[i], 0
		case 1, 2:
			d := Decision{Job: 1, Profile: rapid.SampledFrom(paperJobs).Draw(t, "profile"), Tasks: rapid.IntRange(0, 5).Draw(t, "tasks")}
			d.P = b.Predict(int32(i), d.Kind, d.Profile, d.Tasks).P()
			b.decide(int32(i), d, rapid.Bool().Draw(t, "assigned"))
			decided++
			if waiting[i]++; waiting[i] > b.cfg.Window*b.cfg.PerHeartbeat {
				waiting[i], dropped = waiting[i]-1, dropped+1
			}
		default:
			b.report(i, rapid.Float64Range(0, 2).Draw(t, "load"))
			if b.cfg.Window == 1 {
				waiting[i] = 0
			}
		}
		if got := len(b.node(int32(i)).waiting); got > b.cfg.Window*b.cfg.PerHeartbeat {
			t.Fatalf("%d decisions wait", got)
		}
	}
	for i := range b.nodes {
		dropped += len(b.node(int32(i)).waiting)
	}
	return decided, dropped
}

func drawConfig(t *rapid.T) Config {
	cfg := DefaultConfig()
	cfg.Classifier = rapid.SampledFrom([]string{NaiveBayes, PerceptronAlg}).Draw(t, "classifier")
	cfg.Smoothing = rapid.SampledFrom([]string{Laplace, Histogram}).Draw(t, "smoothing")
	cfg.Withheld = rapid.SampledFrom([]string{TrainAll, TrainFalseNegatives, TrainNone}).Draw(t, "withheld")
	cfg.PerHeartbeat = rapid.IntRange(1, 3).Draw(t, "k")
	return cfg
}

// Each decision is judged exactly once, unless its node is lost or tells nothing
// for long; and the log replays to the very same counts or weights.
func TestJudgedOnceAndReplayed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBench(drawConfig(t), 3)
		decided, dropped := b.live(t)
		if got := int(b.accuracy.Labelled()); got != decided-dropped || got != b.log.Len() {
			t.Fatalf("%d judged, %d logged, of %d decisions %d were dropped", got, b.log.Len(), decided, dropped)
		}
		before := b.model.save()
		b.relearn()
		if after := b.model.save(); !reflect.DeepEqual(before, after) {
			t.Fatalf("replayed to %+v, was %+v", after, before)
		}
	})
}

// A loaded learner gives the same predictions, log and counts, and continues
// with them. Any damage to the saved state is detected and changes nothing.
func TestSaveAndLoad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t)
		b := newBench(cfg, 2)
		b.live(t)
		b.Hints.Add(job.Map, paperJobs[0])
		state, err := b.Save()
		if err != nil {
			t.Fatal(err)
		}
		fresh := New(cfg)
		if err := fresh.Load(state); err != nil {
			t.Fatal(err)
		}
		again, err := fresh.Save()
		if err != nil || !slices.Equal(state, again) {
			t.Fatalf("saved again it differs (%v)", err)
		}
		damaged := slices.Clone(state)
		at := rapid.IntRange(0, len(state)-1).Draw(t, "at")
		damaged[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "flip"))
		if err := fresh.Load(damaged); err == nil {
			t.Fatalf("a change at %d was not noticed", at)
		}
		if err := fresh.Load(state[:at]); err == nil {
			t.Fatalf("%d of %d bytes were enough", at, len(state))
		}
		if after, _ := fresh.Save(); !slices.Equal(state, after) {
			t.Fatal("a refused state has changed something")
		}
	})
}

// State of another classifier is refused; under another rule it is learned anew.
func TestLoadForeign(t *testing.T) {
	l, _, _ := trace(t)
	state, err := l.Save()
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(*Config){
		func(c *Config) { c.Classifier = PerceptronAlg },
		func(c *Config) { c.Smoothing = Histogram },
		func(c *Config) { c.Space = Space{JobCPU, Busy} },
	} {
		cfg := l.Config()
		change(&cfg)
		if err := New(cfg).Load(state); err == nil || !strings.Contains(err.Error(), "features=cpu,load") {
			t.Errorf("%s: %v", cfg.identity(), err)
		}
	}
	cfg := l.Config()
	cfg.Rule.Target = 1.25
	other := New(cfg)
	if err := other.Load(state); err != nil {
		t.Fatal(err)
	}
	if g, b := other.model.(*Bayes).Counts(); g != 4 || b != 0 {
		t.Errorf("under the other rule %d good, %d bad", g, b)
	}
	cfg.LogSize = 2
	short := New(cfg)
	if err := short.Load(state); err != nil || short.log.Len() != 2 || short.log.At(1).Seq != 4 {
		t.Errorf("a shorter log has %d records (%v)", short.log.Len(), err)
	}
	if err := l.Load(nil); err == nil {
		t.Error("nothing was taken for a state")
	}
}

// Counts and weights that cannot be are refused, even if the frame is whole.
func TestLoadImpossible(t *testing.T) {
	bayes, perceptron := toy(Laplace), NewPerceptron(2, 0, 1)
	good := bayes.save()
	for name, m := range map[string]model{
		"counts too many": {Good: good.Good, Bad: good.Bad + 1, Counts: good.Counts},
		"counts missing":  {Good: 0, Bad: 0, Counts: [][]uint64{{}, {}}},
		"weights":         perceptron.save(),
	} {
		if bayes.load(m) == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if perceptron.load(good) == nil || perceptron.load(model{Weights: []float64{1}}) == nil {
		t.Error("a perceptron takes anything")
	}
	if !reflect.DeepEqual(bayes.save(), good) {
		t.Error("a refused model has changed something")
	}
}

// With a window a decision is wrong if any of the next heartbeats is overloaded.
func TestJudgeWindow(t *testing.T) {
	for _, c := range []struct {
		loads []float64
		good  bool
	}{{[]float64{0.5, 0.5, 0.5}, true}, {[]float64{0.5, 1.5, 0.5}, false}, {[]float64{0.5, 0.5, 1.5}, false}} {
		cfg := DefaultConfig()
		cfg.Window = 3
		b := newBench(cfg, 1)
		b.report(0, 0)
		b.Assigned(0, Decision{})
		for i, load := range c.loads {
			if b.log.Len() != 0 {
				t.Fatalf("judged after %d of 3 heartbeats", i)
			}
			b.report(0, load)
		}
		if b.log.Len() != 1 || b.log.At(0).Good != c.good {
			t.Errorf("%v: %+v", c.loads, b.log.At(0))
		}
	}
}

// A report without load labels no decision and does not make a node known. A node
// that joins again has no decisions to label.
func TestUnknownLoad(t *testing.T) {
	b := newBench(DefaultConfig(), 1)
	silent := func() { b.book.Seen(b.nodes[0], cluster.Load{}, b.now); b.Report(b.nodes[0], b.now) }
	silent()
	if b.Known(0) {
		t.Error("known without a report")
	}
	b.report(0, 0.5)
	b.Assigned(0, Decision{})
	silent()
	if b.log.Len() != 0 || !b.Known(0) {
		t.Error("silence was taken for a report")
	}
	b.Forget(0)
	b.report(0, 0.5)
	if b.log.Len() != 0 {
		t.Error("a decision outlived its node")
	}
}

func TestEscape(t *testing.T) {
	cfg := DefaultConfig()
	cfg.IdleEscape, cfg.Withheld = true, TrainNone
	b := newBench(cfg, 1)
	b.report(0, 0.81)
	for i := range 4 {
		if got := b.Escape(0, true); got != (i == 3) {
			t.Errorf("after %d refusals: %v", i, got)
		}
		b.Withheld(0, Decision{})
		b.report(0, 0.81)
	}
	if b.Escape(0, false) {
		t.Error("a node with a task escapes")
	}
	b.report(0, 0.8)
	b.Forget(0)
	b.report(0, 0.8)
	if !b.Escape(0, true) {
		t.Error("a calm node does not")
	}
}

// A node that others keep busy gets a task after some patience; one that runs
// something, or under the paper's rule, does not.
func TestPatience(t *testing.T) {
	for _, patience := range []int{0, 3} {
		cfg := DefaultConfig()
		cfg.Patience = patience
		b := newBench(cfg, 1)
		for i := range 5 {
			b.report(0, 9)
			if got := b.Escape(0, true); got != (patience > 0 && i >= patience) || b.Escape(0, false) {
				t.Errorf("patience %d, after %d refusals: %v", patience, i, got)
			}
			b.Withheld(0, Decision{})
		}
		b.Assigned(0, Decision{})
		if b.Escape(0, true) {
			t.Error("patience does not begin again")
		}
	}
}

// A reduce that waits for maps is no work: a node that runs nothing else is idle. When the
// maps are done, the reduce runs.
func TestWaitingReducesAreNoWork(t *testing.T) {
	b := newBench(DefaultConfig(), 1)
	jobs := job.NewBook(b.book, 10)
	j := jobs.Add(job.Spec{Splits: make([]job.Split, 1), Reduces: 2, Request: job.Request{SlowStart: -1}}, 0)
	n := b.nodes[0]
	start := func(k job.Kind) *job.Attempt {
		a := jobs.Start(j.Fresh(k), job.Launch{Node: n.Index(), Slot: k}, 0)
		b.book.Start(n, a)
		return a
	}
	check := func(when string, waiting int, idle bool) {
		t.Helper()
		if WaitingReduces(n) != waiting || Idle(n) != idle {
			t.Errorf("%s: %d waiting, want %d; idle %v, want %v", when, WaitingReduces(n), waiting, Idle(n), idle)
		}
	}
	check("at first", 0, true)
	start(job.Reduce)
	check("with a reduce", 1, true)
	m := start(job.Map)
	check("with a map", 1, false)
	b.book.Stop(n, m)
	jobs.Succeed(m, 0, 0)
	check("after the map", 0, false)
}

func TestRuleWithSeveralLimits(t *testing.T) {
	any := Rule{Target: 1, CPU: 0.9, Memory: 0.8, Disk: 100, Network: 10}
	for _, s := range []State{{Load: 2}, {CPU: 0.95}, {Memory: 0.9}, {Disk: 101}, {Network: 11}} {
		all := any
		all.All = true
		if !any.Overloaded(s) || all.Overloaded(s) {
			t.Errorf("%+v", s)
		}
	}
	above := State{Load: 2, CPU: 1, Memory: 1, Disk: 101, Network: 11}
	if any.All = true; !any.Overloaded(above) || (Rule{}).Overloaded(above) {
		t.Error("all limits crossed")
	}
	if (Rule{}).Check() == nil || (Rule{Target: -1}).Check() == nil || any.Check() != nil {
		t.Error("checks")
	}
	l, _, _ := trace(t)
	if l.SetRule(Rule{}) == nil || l.Config().Rule.Target != 1 {
		t.Error("a bad rule was taken")
	}
}

func TestAccuracyBlocks(t *testing.T) {
	var a Accuracy
	if a.Share() != 0 || a.Precision() != 0 {
		t.Error("before the first")
	}
	for i := range BlockSize * (maxBlocks + 3) {
		a.Add(true, i%BlockSize < i/BlockSize%BlockSize)
	}
	if len(a.Blocks) != maxBlocks || a.Blocks[0] != 3.0/BlockSize || a.Tail != 0 {
		t.Errorf("%d blocks from %v on", len(a.Blocks), a.Blocks[0])
	}
}

func TestLogKeepsTheLatest(t *testing.T) {
	for _, limit := range []int{3, logPart - 1, logPart, logPart + 1, 2*logPart + 7} {
		l := NewLog(limit)
		for i := range 3 * logPart {
			l.Append(Record{Seq: int64(i)})
			n := min(i+1, limit)
			if l.Len() != n || l.At(0).Seq != int64(i+1-n) || l.At(n-1).Seq != int64(i) || l.At(n/2).Seq != int64(i+1-n+n/2) {
				t.Fatalf("limit %d, after %d: %d from %d to %d", limit, i, l.Len(), l.At(0).Seq, l.At(n-1).Seq)
			}
		}
	}
	none := NewLog(0)
	if none.Append(Record{}); none.Len() != 0 {
		t.Error("a log of none keeps something")
	}
}

// All invalid parameters are named in one error. The overload rule is checked
// when each value is valid by itself.
func TestReadReportsAllErrors(t *testing.T) {
	bad := map[string]string{"smoothing": "x", "train-withheld": "x", "rank": "x", "log-size": "-1", "judge-window": "1001", "features": "",
		"tasks-per-heartbeat": "0", "max-tasks": "0", "target": "-1", "patience": "-1"}
	_, err := ReadBayes(sched.NewKit(sched.Options{Set: bad}))
	for name := range bad {
		if err == nil || !strings.Contains(err.Error(), "parameter "+name+": bad value") {
			t.Errorf("%s is missing in: %v", name, err)
		}
	}
	// More tasks than a node may have slots: the numbers of decisions that wait would overflow.
	for _, name := range []string{"tasks-per-heartbeat", "max-tasks"} {
		if _, err := ReadBayes(sched.NewKit(sched.Options{Set: map[string]string{name: "9223372036854775807"}})); err == nil {
			t.Errorf("%s has no upper bound", name)
		}
	}
	if _, err := ReadPerceptron(sched.NewKit(sched.Options{Set: map[string]string{"learning-rate": "0", "bias": "NaN"}})); err == nil ||
		!strings.Contains(err.Error(), "learning-rate") || !strings.Contains(err.Error(), "bias") {
		t.Errorf("perceptron: %v", err)
	}
	if _, err := ReadBayes(sched.NewKit(sched.Options{Set: map[string]string{"target": "0"}})); err == nil || !strings.Contains(err.Error(), "no limit") {
		t.Errorf("a rule without limits: %v", err)
	}
}

func TestParse(t *testing.T) {
	for _, bad := range []string{"", "cpu,heat", "cpu,cpu"} {
		if _, err := ParseFeatures(bad); err == nil {
			t.Errorf("features %q were taken", bad)
		}
	}
	if s, err := ParseFeatures(" load, cpu"); err != nil || s.String() != "load,cpu" {
		t.Errorf("%v, %v", s, err)
	}
	if f, err := ParseUtility("fifo * budget"); err != nil || !slices.Equal(f, []string{FIFO, Budget}) {
		t.Errorf("%v, %v", f, err)
	}
	if _, err := ParseUtility("fifo*"); err == nil {
		t.Error("an empty factor was taken")
	}
}

// A decision records the features of the machine that the node has reported, and the
// classifier tells machines apart by them. A report of the machine alone is no load.
func TestMachineFeatures(t *testing.T) {
	cfg := DefaultConfig()
	var err error
	if cfg.Space, err = ParseFeatures("free_swap,disk_space,total_memory,total_swap,disks,architecture,os_version"); err != nil {
		t.Fatal(err)
	}
	b := newBench(cfg, 1)
	load := cluster.Load{Machine: cluster.Machine{Memory: 7 << 30, Swap: 1 << 30, Disks: 3, Arch: cluster.ArchOf("arm64"), Kernel: cluster.KernelOf("6.8.0-45-generic")}}
	b.book.Seen(b.nodes[0], load, 0)
	b.Report(b.nodes[0], 0)
	if b.Known(0) {
		t.Error("a report without load was taken")
	}
	load.SwapFree, load.DiskFree = 0.45, 31<<30
	b.book.Seen(b.nodes[0], load, 0)
	b.Report(b.nodes[0], 0)
	b.Assigned(0, Decision{Job: 1})
	b.report(0, 0.5)
	var v Vector
	cfg.Space.Encode(&b.Log().At(0).Values, &v)
	if got, want := v.Bins[:len(cfg.Space)], []uint16{4, 5, 3, 1, 3, 2, 30}; !slices.Equal(got, want) {
		t.Errorf("bins %v, want %v", got, want)
	}
	if cluster.ArchOf("sparc") != 0 {
		t.Error("an unknown architecture has a number")
	}
	for version, want := range map[string]int32{"5.15": 5015, "3.10.0-1160.el7": 3010, "6.1-rc2": 6001, "": 0, "10": 0, "a.b": 0, "1.99999": 0, "1.1000": 1999} {
		if got := cluster.KernelOf(version); got != want {
			t.Errorf("version %q is %d, want %d", version, got, want)
		}
	}
}
