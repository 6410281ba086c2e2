package learning

import (
	"math"
	"time"

	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// Learner holds the classifier of a cluster, which learns from all nodes, and
// the decisions that wait for their label. A decision is to launch a candidate,
// or to withhold the best of several bad ones. Invariants:
//
//	each decision gets one label, from the next Window reports of its node,
//	unless the node is lost or joins again before
//	waiting decisions of a node ≤ Window · (PerHeartbeat + refilled tasks)
//	memory is bounded by the configuration and the number of nodes
//
// All methods are called by the tracker's goroutine. Each change follows from a
// call, so equal calls lead to equal learners.
type Learner struct {
	// Hints guesses the resource hints of jobs that declare none.
	Hints Hints

	cfg      Config
	model    Classifier
	log      *Log
	accuracy Accuracy
	seq      int64 // number of labelled decisions
	nodes    []node
	values   Values // of the last prediction
	vector   Vector // the same, encoded
	encoded  encoded
	ofJob    []jobFeature
}

// node is the learner's record of a node.
type node struct {
	values   Values // its features in the last report
	state    State
	known    bool       // it has reported a load since it joined
	over     bool       // it was overloaded in the last report
	waiting  []decision // oldest first
	refusals int        // successive withheld decisions that no overload followed
	idle     int        // successive withheld decisions while it was idle; see Idle
}

// jobFeature is a feature in use that a candidate's job decides, with the codes of its values, which
// are whole numbers.
type jobFeature struct {
	at    int // index in Config.Space
	of    Feature
	codes [1 << 8]code
}

// encoded says which node and how many tasks there the features of Learner.vector describe.
type encoded struct {
	node  int32 // -1 for none
	tasks int
}

// decision is a decision that waits for its label.
type decision struct {
	rec  Record
	left int // heartbeats until then
}

// Decision describes a decision of the order about one candidate.
type Decision struct {
	Job     job.ID
	Kind    job.Kind
	Profile job.Ratings // the resource hints, as filled in at submission
	Tasks   int         // running on the node before this one
	Busy    bool        // the node runs more than reduces that wait for maps; only of withheld decisions
	P       float64     // the predicted probability of being good
	Utility float64
}

// New returns an untrained learner.
func New(cfg Config) *Learner {
	l := &Learner{cfg: cfg, model: cfg.newClassifier(), log: NewLog(cfg.LogSize), encoded: encoded{node: -1}}
	for i, f := range cfg.Space {
		// The features of the job are encoded once. The ones of the node change with each report.
		if f > JobNetwork && f != TaskKind {
			continue
		}
		j := jobFeature{at: i, of: f}
		for v := range j.codes {
			j.codes[v] = f.encode(float64(v))
		}
		l.ofJob = append(l.ofJob, j)
	}
	return l
}

// Config returns the present configuration.
func (l *Learner) Config() Config { return l.cfg }

// Accuracy returns how past decisions turned out.
func (l *Learner) Accuracy() Accuracy { return l.accuracy }

// Log returns the labelled decisions. The caller must not change them.
func (l *Learner) Log() *Log { return l.log }

// Model returns the classifier. Only tests train it directly.
func (l *Learner) Model() Classifier { return l.model }

// node returns the record of a node, which it adds if it is new. The pointer is valid until another
// node is added.
func (l *Learner) node(index int32) *node {
	for int(index) >= len(l.nodes) {
		l.nodes = append(l.nodes, node{})
	}
	return &l.nodes[index]
}

// Forget drops the record of a node that is lost or has joined again. Its
// waiting decisions get no label.
func (l *Learner) Forget(index int32) {
	n := l.node(index)
	// Reading 9 in README.md. A node that joins again may be another machine, and its first load says
	// nothing about tasks that died.
	*n = node{waiting: n.waiting[:0]}
	l.encoded.node = -1
}

// Known reports whether the node has reported a load since it joined.
func (l *Learner) Known(index int32) bool { return l.node(index).known }

// Over reports whether the node was overloaded by its last report.
func (l *Learner) Over(index int32) bool { return l.node(index).over }

// Report takes the node's load from a heartbeat and labels the decisions that
// it completes. A heartbeat without load, such as one sent between two regular
// ones, changes nothing.
func (l *Learner) Report(n *cluster.Node, now time.Duration) {
	load := n.Load()
	// Heartbeats in between carry only news of tasks. Labelled by a missing load, every decision would be
	// good.
	if !load.Measured() {
		return
	}
	x := l.node(n.Index())
	x.values.setNode(n.Spec(), load)
	// The node's encoded features are out of date.
	l.encoded.node = -1
	x.state, x.known = StateOf(n.Spec().Cores, load), true
	x.over = l.cfg.overloaded(x.state)
	kept := x.waiting[:0]
	for i := range x.waiting {
		d := &x.waiting[i]
		// The label counts the worst state of the window: an overload that has passed was one.
		d.rec.Seen.worst(x.state)
		if d.left--; d.left > 0 {
			kept = append(kept, *d)
			continue
		}
		l.label(&d.rec, x, now)
	}
	x.waiting = kept
}

// label labels a decision, logs it and trains the classifier with it.
func (l *Learner) label(r *Record, x *node, now time.Duration) {
	l.seq++
	r.Seq, r.At = l.seq, now
	// Of all reports in the window, and not of the last one: see Seen.
	r.Good = !l.cfg.overloaded(r.Seen)
	l.accuracy.Add(r.Assigned, r.Good)
	l.log.Append(*r)
	// After Append: relearn trains from the log in the same order, so it must hold every decision that was
	// learned.
	l.learn(r)
	// A decision to launch nothing that no overload followed may have been needless; see Escape.
	if !r.Assigned && r.Good {
		x.refusals++
	} else {
		x.refusals = 0
	}
}

// learn trains the classifier with a labelled decision, if Config.Withheld
// permits.
func (l *Learner) learn(r *Record) {
	// Reading 5 in README.md: a classifier that has become too cautious launches nothing, and
	// without examples of withheld decisions it would never learn that it was wrong.
	if !r.Assigned && (l.cfg.Withheld == TrainNone || l.cfg.Withheld == TrainFalseNegatives && !r.Good) {
		return
	}
	l.cfg.Space.Encode(&r.Values, &l.vector)
	// The scratch vector holds the record's features now, and not the node's.
	l.encoded.node = -1
	l.model.Train(&l.vector, r.Good)
}

// Predict returns the prediction for one more task of a kind with the given
// resource hints on a node that runs tasks tasks.
func (l *Learner) Predict(index int32, k job.Kind, p job.Ratings, tasks int) Prediction {
	// The candidates of an offer differ in their jobs' features alone.
	if now := (encoded{index, tasks}); l.encoded != now {
		l.encoded, l.values = now, l.valuesOf(index, k, p, tasks)
		l.cfg.Space.Encode(&l.values, &l.vector)
		return l.model.Predict(&l.vector)
	}
	l.values.setTask(k, p)
	for i := range l.ofJob {
		j := &l.ofJob[i]
		l.vector.set(j.at, j.codes[uint8(l.values[j.of])])
	}
	return l.model.Predict(&l.vector)
}

// valuesOf returns the features of one more task on a node.
func (l *Learner) valuesOf(index int32, k job.Kind, p job.Ratings, tasks int) Values {
	v := l.node(index).values
	v.setTask(k, p)
	v[Tasks] = float64(tasks)
	return v
}

// Weight returns the factor that the utility is multiplied by: the probability
// of being good, or the paper's shortened product.
func (l *Learner) Weight(v Prediction) float64 {
	// Reading 11 in README.md: the product without P(F) orders jobs by how common their features
	// are.
	if l.cfg.Rank == RankJoint {
		return v.Joint()
	}
	return v.P()
}

// MostWeight returns an upper bound of Weight, which is faster to compute. It takes a prediction whose
// log odds are not lower, and its weight.
func (l *Learner) MostWeight(v, top Prediction, weight float64) float64 {
	if l.cfg.Rank == RankJoint {
		return math.Inf(1)
	}
	return v.MostP(top, weight)
}

// Assigned records the decision to launch a task.
func (l *Learner) Assigned(index int32, d Decision) { l.decide(index, d, true) }

// Withheld records that all candidates were bad and that the best one, d, was
// withheld.
func (l *Learner) Withheld(index int32, d Decision) { l.decide(index, d, false) }

// decide records a decision, which waits for the node's next reports.
func (l *Learner) decide(index int32, d Decision, assigned bool) {
	x := l.node(index)
	// A busy node's load may come from its own tasks, so a refusal there is no sign of another
	// cause.
	if x.idle++; assigned || d.Busy {
		x.idle = 0
	}
	if len(x.waiting) >= l.limit() {
		// The node has launched tasks but has not reported its load since.
		x.waiting = append(x.waiting[:0], x.waiting[1:]...)
	}
	x.waiting = append(x.waiting, decision{left: l.cfg.Window, rec: Record{
		Node: index, Job: d.Job, Kind: d.Kind, Assigned: assigned, P: d.P, Utility: d.Utility,
		Values: l.valuesOf(index, d.Kind, d.Profile, d.Tasks)}})
}

// limit returns the most decisions of a node that may wait.
func (l *Learner) limit() int {
	if l.cfg.Refill {
		// Refill launches at most as many as have ended, and no more can end than run at once.
		most := l.cfg.MaxTasks
		if most == AutoTasks {
			most = mostTasks
		}
		return l.cfg.Window * (l.cfg.PerHeartbeat + job.Kinds*most)
	}
	return l.cfg.Window * l.cfg.PerHeartbeat
}

// WaitingReduces counts the node's reduces whose job has unfinished maps. They fetch what
// there is and then wait: they hold a slot and cause hardly any load.
func WaitingReduces(n *cluster.Node) (count int) {
	if n.Running(job.Reduce) == 0 {
		return 0
	}
	for _, a := range n.Attempts() {
		if a.Kind() == job.Reduce && !a.Job().MapsDone() {
			count++
		}
	}
	return count
}

// Idle reports whether the node runs nothing but reduces that wait for maps. Refusing tasks
// to such a node cannot lower its load, and the reduces may wait for those very tasks.
func Idle(n *cluster.Node) bool {
	return n.Running(job.Map) == 0 && n.Running(job.Reduce) == WaitingReduces(n)
}

// The conditions of Config.IdleEscape.
const (
	maxRefusals = 3
	idleShare   = 0.8
)

// Escape reports whether a node gets a task although all candidates are bad. idle is
// the result of Idle.
func (l *Learner) Escape(index int32, idle bool) bool {
	x := l.node(index)
	switch {
	case !idle:
		return false
	// Even if the node is above its limits: it runs nothing of ours, so the load is not ours to lower.
	case l.cfg.Patience > 0 && x.idle >= l.cfg.Patience:
		return true
	}
	// Both conditions say that the node bears a task: its load is well below the target now, or refusals in
	// a row were each followed by no overload.
	return l.cfg.IdleEscape && (x.state.Load <= float64(idleShare*l.cfg.Rule.Target) || x.refusals >= maxRefusals)
}

// SetRule changes the overload rule. It forgets everything learned under the
// old rule, labels the logged decisions again and learns from them in order. An
// invalid rule changes nothing.
func (l *Learner) SetRule(r Rule) error {
	r.Evaluator = l.cfg.Rule.Evaluator // a part of the program, as which the policy was built
	if err := r.Check(); err != nil {
		return err
	}
	// A reload of an unchanged file must not cost the training of 65,536 decisions.
	if r == l.cfg.Rule {
		return nil
	}
	l.cfg.Rule = r
	// over was judged by the old rule, and hard-gate reads it before the next report.
	for i := range l.nodes {
		l.nodes[i].over = l.nodes[i].known && l.cfg.overloaded(l.nodes[i].state)
	}
	l.relearn()
	return nil
}

// relearn trains a fresh classifier from the log.
func (l *Learner) relearn() {
	l.model.Reset()
	for i := range l.log.Len() {
		r := l.log.At(i)
		// Reading 12 in README.md: under another rule the same report may mean the opposite.
		r.Good = !l.cfg.overloaded(r.Seen)
		l.learn(r)
	}
}

// Decider marks an order that asks a Learner for predictions and reports its
// decisions to it. Slots that rely on a learner require such an order.
type Decider interface{ Decides() }
