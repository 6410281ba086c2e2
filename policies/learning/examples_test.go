package learning

import (
	"math"
	"testing"
	"time"

	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// Worked examples of the classifiers and their labels. Examples of choosing a job are
// beside the order, and examples of a whole cluster beside the table of policies.

// near fails unless two numbers agree to nine digits.
func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*max(1, math.Abs(want)) {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

func bins(b ...uint16) *Vector {
	v := &Vector{}
	copy(v.Bins[:], b)
	return v
}

// toy is the history H: good {(3,0),(3,1),(5,1)}, bad {(10,2)}. A value v of the
// first feature, a hint, is in bin v−1.
func toy(smoothing string) *Bayes {
	b := NewBayes([]int{10, 4}, smoothing)
	for _, v := range []*Vector{bins(2, 0), bins(2, 1), bins(4, 1)} {
		b.Train(v, true)
	}
	b.Train(bins(9, 2), false)
	return b
}

type prediction struct {
	at   *Vector
	p    float64
	good bool
}

func expect(t *testing.T, c Classifier, list ...prediction) {
	t.Helper()
	for _, x := range list {
		v := c.Predict(x.at)
		near(t, "P", v.P(), x.p)
		if v.Good != x.good {
			t.Errorf("%v: good is %v", x.at.Bins[:2], v.Good)
		}
	}
}

func TestNB_E1_NoHistory(t *testing.T) {
	b := NewBayes([]int{10, 4}, Laplace)
	v := b.Predict(bins(6, 2))
	near(t, "joint", v.Joint(), 0.0125)
	near(t, "ln joint", math.Log(v.Joint()), -4.382026634673881)
	expect(t, b, prediction{bins(6, 2), 0.5, true})
	expect(t, NewBayes([]int{10, 4}, Histogram), prediction{bins(6, 2), 1, true})
}

func TestNB_E2_Laplace(t *testing.T) {
	b := toy(Laplace)
	near(t, "joint", b.Predict(bins(2, 1)).Joint(), 6.0/91)
	near(t, "joint", b.Predict(bins(9, 2)).Joint(), 2.0/273)
	expect(t, b, prediction{bins(2, 1), 990.0 / 1081, true}, prediction{bins(9, 2), 55.0 / 237, false},
		prediction{bins(6, 3), 110.0 / 201, true})
}

func TestNB_E3_Histogram(t *testing.T) {
	expect(t, toy(Histogram), prediction{bins(2, 1), 4.0 / 7, true}, prediction{bins(9, 2), 0.25, false},
		prediction{bins(6, 3), 0.25, false})
	for _, good := range []bool{true, false} {
		b := NewBayes([]int{10, 4}, Histogram)
		for range 4 {
			b.Train(bins(1, 1), good)
		}
		want := prediction{bins(1, 1), 0, false}
		if good {
			want.p, want.good = 1, true
		}
		expect(t, b, want)
	}
}

func TestNB_E4_PosteriorIsNotJoint(t *testing.T) {
	b := NewBayes([]int{10}, Laplace)
	for value, times := range map[uint16]int{5: 6, 2: 2} {
		for range times {
			b.Train(bins(value-1), true)
		}
	}
	for range 4 {
		b.Train(bins(4), false)
	}
	a, c := b.Predict(bins(4)), b.Predict(bins(1))
	near(t, "joint of A", a.Joint(), 0.25)
	near(t, "P of A", a.P(), 49.0/74)
	near(t, "joint of B", c.Joint(), 3.0/28)
	near(t, "P of B", c.P(), 21.0/26)
	for _, rank := range []string{RankPosterior, RankJoint} {
		l := &Learner{cfg: Config{Rank: rank}}
		if picksB := l.Weight(c) > l.Weight(a); picksB != (rank == RankPosterior) {
			t.Errorf("ranked by %s, B goes first: %v", rank, picksB)
		}
	}
	if !(1.5*a.P() > c.P()) {
		t.Error("A does not go first with one and a half times the utility")
	}
	near(t, "EU of A", 1.5*a.P(), 0.993243243243)
}

// All bad, and then better. The learner is given H, and its features are
// free to be two numbers.
func TestLearner_E6_Recovery(t *testing.T) {
	for _, c := range []struct {
		withheld string
		p        float64
		good     bool
	}{{TrainAll, 275.0 / 499, true}, {TrainFalseNegatives, 275.0 / 499, true}, {TrainNone, 55.0 / 237, false}} {
		b := toy(Laplace)
		l := &Learner{cfg: Config{Withheld: c.withheld, Rule: Rule{Target: 1}, Space: Space{JobCPU, Tasks}}, model: b, log: NewLog(9)}
		values := Values{JobCPU: 10, Tasks: 2}
		expect(t, b, prediction{bins(9, 2), 55.0 / 237, false})
		l.label(&Record{Values: values, Seen: State{Load: 0.6}}, &node{}, 0)
		expect(t, b, prediction{bins(9, 2), c.p, c.good})
		if a := l.Accuracy(); a.FalseNegative != 1 || a.Share() != 0 {
			t.Errorf("accuracy %+v", a)
		}
	}
}

// trace plays a sequence of decisions and labels, and returns the learner and its node.
func trace(t *testing.T) (*Learner, *cluster.Node, *cluster.Book) {
	cfg := DefaultConfig()
	cfg.Space = Space{JobCPU, Load}
	l, book := New(cfg), cluster.NewBook()
	n, _ := book.Join(cluster.Spec{Name: "n", Cores: 4}, 0)
	heavy := job.Ratings{CPU: 10}
	for i, step := range []struct {
		load, p  float64
		assigned bool
	}{{0, 0.5, true}, {0.32, 4000.0 / 4561, true}, {4.4, 0.5, true}, {4.8, 832.0 / 2515, false}, {4.5, 689.0 / 5177, false}} {
		at := time.Duration(5*i) * time.Second
		book.Seen(n, cluster.Load{LoadAverage: step.load, MemoryFree: 1}, at)
		l.Report(n, at)
		v := l.Predict(n.Index(), job.Map, heavy, i)
		near(t, "P", v.P(), step.p)
		if v.Good != step.assigned {
			t.Errorf("at %v: good is %v", at, v.Good)
		}
		d := Decision{Job: 1, Profile: heavy, Tasks: i, P: v.P(), Utility: 1}
		if v.Good {
			l.Assigned(n.Index(), d)
		} else {
			l.Withheld(n.Index(), d)
		}
	}
	return l, n, book
}

func TestLearner_E8_Trace(t *testing.T) {
	l, _, _ := trace(t)
	if g, b := l.model.(*Bayes).Counts(); g != 1 || b != 3 {
		t.Errorf("%d good, %d bad examples", g, b)
	}
	if a := l.Accuracy(); a.Successful != 1 || a.Incorrect != 2 || a.Refused != 1 || a.Share() != 0.5 || a.Precision() != 1.0/3 {
		t.Errorf("accuracy %+v", a)
	}
}

func TestLearner_E9_Relearn(t *testing.T) {
	l, n, _ := trace(t)
	if err := l.SetRule(Rule{Target: 1.25}); err != nil {
		t.Fatal(err)
	}
	if g, b := l.model.(*Bayes).Counts(); g != 4 || b != 0 {
		t.Errorf("%d good, %d bad examples", g, b)
	}
	l.node(n.Index()).values[Load] = 1.1
	near(t, "P", l.Predict(n.Index(), job.Map, job.Ratings{CPU: 10}, 0).P(), 6250.0/6439)
	if err := l.SetRule(Rule{Target: 1}); err != nil {
		t.Fatal(err)
	}
	if g, b := l.model.(*Bayes).Counts(); g != 1 || b != 3 {
		t.Errorf("back at the old target: %d good, %d bad examples", g, b)
	}
}

func TestRule_E10_Overload(t *testing.T) {
	for _, c := range []struct {
		load   float64
		cores  int
		target float64
		want   bool
	}{{4, 4, 1, false}, {4.01, 4, 1, true}, {6.2, 4, 1.5, true}, {6.2, 4, 1.6, false}, {6.2, 8, 1, false}} {
		if got := (Rule{Target: c.target}).Overloaded(StateOf(c.cores, cluster.Load{LoadAverage: c.load})); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	for _, c := range []struct {
		f    Feature
		v    float64
		want uint16
	}{{Load, 0.999, 9}, {Load, 1, 10}, {Load, 7.3, 49}, {Tasks, 40, 31}, {Load, 0.3, 3}, {Load, math.NaN(), 0}, {Load, -1, 0},
		{Load, math.Inf(1), 49}, {JobCPU, 1, 0}, {JobCPU, 10, 9}, {JobCPU, 0, 0}, {LoadFine, 4.8, 48}, {LoadFine, 0.01, 1},
		{Busy, 1, 9}, {FreeMemory, 0.3, 3}, {Cores, 1, 0}, {Cores, 4, 2}, {Cores, 5, 3}, {Speed, 1, 4}} {
		var out Vector
		var v Values
		v[c.f] = c.v
		Space{c.f}.Encode(&v, &out)
		if out.Bins[0] != c.want {
			t.Errorf("%v of %v is in bin %d, want %d", c.f, c.v, out.Bins[0], c.want)
		}
	}
}

func xs(x ...float64) *Vector {
	v := &Vector{}
	copy(v.X[:], x)
	return v
}

func margin(t *testing.T, p *Perceptron, v *Vector, want float64) {
	t.Helper()
	near(t, "z", p.margin(v), want)
	if got := p.Predict(v).Good; got != (want > 0) {
		t.Errorf("good is %v at z = %v", got, want)
	}
}

func weights(t *testing.T, p *Perceptron, want ...float64) {
	t.Helper()
	for i, w := range p.Weights() {
		near(t, "weight", w, want[i])
	}
}

func TestPerceptron_E11(t *testing.T) {
	p, f := NewPerceptron(3, 0.2, 1), xs(0.5, 0.25, 0.1)
	margin(t, p, f, 0.2)
	near(t, "P", p.Predict(f).P(), 0.549833997312478)
	p.Train(f, false)
	weights(t, p, -0.5, -0.25, -0.1)
	margin(t, p, f, -0.1225)
	p.Train(f, true) // withheld, and no overload followed
	weights(t, p, 0, 0, 0)
	margin(t, p, f, 0.2)
	p.weights[0] = -0.4
	margin(t, p, xs(0.5), 0)
	none := NewPerceptron(3, 0, 1)
	margin(t, none, f, 0)
	none.Train(f, true)
	weights(t, none, 0.5, 0.25, 0.1)
	margin(t, none, f, 0.3225)
}

func TestPerceptron_E12_Run(t *testing.T) {
	p := NewPerceptron(3, 0.2, 1)
	for _, s := range []struct {
		f    *Vector
		good bool
		z    float64
		w    [3]float64
	}{{xs(0.3, 0, 0), true, 0.2, [3]float64{}}, {xs(1, 1.1, 0.3), false, 0.2, [3]float64{-1, -1.1, -0.3}},
		{xs(1, 0.2, 0.1), true, -1.05, [3]float64{0, -0.9, -0.2}}, {xs(0.3, 0.5, 0.1), true, -0.27, [3]float64{0.3, -0.4, -0.1}}} {
		margin(t, p, s.f, s.z)
		p.Train(s.f, s.good)
		weights(t, p, s.w[:]...)
	}
}

// paperJobs are the rows of Fig. 7: CPU, memory, disk, network.
var paperJobs = []job.Ratings{{CPU: 3, Memory: 5, Disk: 5, Network: 3}, {CPU: 5, Memory: 6, Disk: 8, Network: 5},
	{CPU: 1, Memory: 6, Disk: 6, Network: 4}, {CPU: 3, Memory: 4, Disk: 6, Network: 7}, {CPU: 3, Memory: 5, Disk: 7, Network: 8},
	{CPU: 10, Memory: 5, Disk: 5, Network: 3}}

func TestHints_E13_Mode(t *testing.T) {
	var all, one, none Hints
	for _, p := range paperJobs {
		all.Add(job.Map, p)
	}
	heavy := job.Ratings{CPU: 10, Memory: 9, Disk: 8, Network: 7}
	one.Add(job.Map, heavy)
	for _, c := range []struct {
		h          *Hints
		k          job.Kind
		give, want job.Ratings
	}{{&all, job.Map, job.Ratings{}, job.Ratings{CPU: 3, Memory: 5, Disk: 5, Network: 3}},
		{&all, job.Map, job.Ratings{CPU: 9}, job.Ratings{CPU: 9, Memory: 5, Disk: 5, Network: 3}},
		{&one, job.Map, job.Ratings{}, heavy},
		{&one, job.Reduce, job.Ratings{CPU: 77}, job.Ratings{CPU: 10, Memory: 5, Disk: 5, Network: 5}},
		{&none, job.Map, job.Ratings{}, job.Ratings{CPU: 5, Memory: 5, Disk: 5, Network: 5}}} {
		if got := c.h.Fill(c.k, c.give); got != c.want {
			t.Errorf("%+v becomes %+v, want %+v", c.give, got, c.want)
		}
	}
}

func TestUtility_E14(t *testing.T) {
	near(t, "deficit", DedicatedUtility(0.5, 0.2), 0.3)
	near(t, "literal", LiteralUtility(0.5, 0.2), 1/0.3)
	for _, a := range []float64{0.5, 0.6} {
		if DedicatedUtility(0.5, a) != 0 || LiteralUtility(0.5, a) != 0 {
			t.Errorf("a share of %v is worth something", a)
		}
	}
	for balance, want := range map[float64]float64{10: 1, 0: 0, -1: 0} {
		near(t, "budget", BudgetUtility(balance), want)
	}
	for done, want := range map[int]float64{7: 0, 8: 1} {
		near(t, "gate", GateUtility(done, 160, 0.05), want)
	}
	near(t, "product", 2*GateUtility(7, 160, 0.05), 0)
	if FIFOUtility(0) != 0 || FIFOUtility(-time.Second) != 0 || FIFOUtility(90*time.Second) != 90 {
		t.Error("age")
	}
	if PriorityUtility(0) != 1 || PriorityUtility(2) != 16 || PriorityUtility(-1) != 0.25 {
		t.Error("priority")
	}
}
