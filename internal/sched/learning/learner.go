package learning

import (
	"time"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
)

// Learner holds the one classifier of a cluster, taught by all its nodes, and
// the decisions that wait to be judged. What holds:
//
//	each decision is judged once, by the next Window reports of its own node,
//	unless the node is lost or joins anew before
//	decisions that wait, per node ≤ Window · (PerHeartbeat + what is refilled)
//	size is bounded by the configuration and the number of nodes
type Learner struct {
	// Hints guesses the profiles of jobs that declare none.
	Hints Hints

	cfg      Config
	model    Classifier
	log      *Log
	accuracy Accuracy
	seq      int64
	nodes    []node
	vector   Vector // reused
}

// node is what is known of a node, by its index.
type node struct {
	values   Values // its features as last reported
	state    State
	known    bool // it has reported a load since it joined
	over     bool
	waiting  []decision
	refusals int // successive ones that no overload followed
	idle     int // successive ones while it ran nothing
}

// decision waits to be judged.
type decision struct {
	rec  Record
	left int // heartbeats to come
}

// Decision is what a policy tells the learner of what it decided on a node.
type Decision struct {
	Job     job.ID
	Kind    job.Kind
	Task    int32       // the task's index; meaningless if withheld
	Profile job.Profile // as filled in at the job's submission
	Tasks   int         // that ran on the node before this one
	P       float64     // what was predicted
	Utility float64
}

// New returns a learner without history. The configuration must be a checked
// one.
func New(cfg Config) *Learner {
	return &Learner{cfg: cfg, model: cfg.newClassifier(), log: NewLog(cfg.LogSize)}
}

// Config returns how the learner works now.
func (l *Learner) Config() Config { return l.cfg }

// Accuracy returns how the decisions turned out so far.
func (l *Learner) Accuracy() Accuracy { return l.accuracy }

// Log returns the judged decisions, for reading.
func (l *Learner) Log() *Log { return l.log }

// Model returns the classifier, for reading.
func (l *Learner) Model() Classifier { return l.model }

func (l *Learner) node(index int32) *node {
	for int(index) >= len(l.nodes) {
		l.nodes = append(l.nodes, node{})
	}
	return &l.nodes[index]
}

// Forget drops what is known of a node that is lost or has joined anew. Its
// decisions are not judged.
func (l *Learner) Forget(index int32) {
	n := l.node(index)
	*n = node{waiting: n.waiting[:0]}
}

// Known reports whether the node has told its load since it joined.
func (l *Learner) Known(index int32) bool { return l.node(index).known }

// Over reports whether the node was overloaded by its last report.
func (l *Learner) Over(index int32) bool { return l.node(index).over }

// Report takes a node's load from a heartbeat and judges the decisions that
// waited for it. One that tells nothing of the load, such as a report sent
// between heartbeats, changes nothing.
func (l *Learner) Report(n *cluster.Node, now time.Duration) {
	load := n.Load()
	if load == (cluster.Load{}) {
		return
	}
	x := l.node(n.Index())
	x.values.setNode(n.Spec(), load)
	x.state, x.known = StateOf(n.Spec().Cores, load), true
	x.over = l.cfg.Rule.Overloaded(x.state)
	kept := x.waiting[:0]
	for i := range x.waiting {
		d := &x.waiting[i]
		d.rec.Seen.worst(x.state)
		if d.left--; d.left > 0 {
			kept = append(kept, *d)
			continue
		}
		l.judge(&d.rec, x, now)
	}
	x.waiting = kept
}

// judge labels a decision, writes it down and learns from it.
func (l *Learner) judge(r *Record, x *node, now time.Duration) {
	l.seq++
	r.Seq, r.At = l.seq, now
	r.Good = !l.cfg.Rule.Overloaded(r.Seen)
	l.accuracy.Add(r.Assigned, r.Good)
	l.log.Append(*r)
	l.learn(r)
	if !r.Assigned && r.Good {
		x.refusals++
	} else {
		x.refusals = 0
	}
}

func (l *Learner) learn(r *Record) {
	if !r.Assigned && (l.cfg.Withheld == TrainNone || l.cfg.Withheld == TrainFalseNegatives && !r.Good) {
		return
	}
	l.cfg.Space.Encode(&r.Values, &l.vector)
	l.model.Train(&l.vector, r.Good)
}

// Predict judges one more task of that profile on a node that runs so many.
func (l *Learner) Predict(index int32, p job.Profile, tasks int) Verdict {
	v := l.values(index, p, tasks)
	l.cfg.Space.Encode(&v, &l.vector)
	return l.model.Predict(&l.vector)
}

func (l *Learner) values(index int32, p job.Profile, tasks int) Values {
	v := l.node(index).values
	v.setJob(p)
	v[Tasks] = float64(tasks)
	return v
}

// Weight is the factor of a utility that the configuration takes from a
// verdict.
func (l *Learner) Weight(v Verdict) float64 {
	if l.cfg.Rank == RankJoint {
		return v.Joint
	}
	return v.P
}

// Assigned notes that a task was launched, to be judged.
func (l *Learner) Assigned(index int32, d Decision) { l.decide(index, d, true) }

// Withheld notes that all candidates were bad and the best of them, d, got
// nothing, to be judged.
func (l *Learner) Withheld(index int32, d Decision) { l.decide(index, d, false) }

func (l *Learner) decide(index int32, d Decision, assigned bool) {
	x := l.node(index)
	if x.idle++; assigned || d.Tasks > 0 {
		x.idle = 0
	}
	if len(x.waiting) >= l.limit() {
		// Only a node that has launched without reporting its load since.
		x.waiting = append(x.waiting[:0], x.waiting[1:]...)
	}
	x.waiting = append(x.waiting, decision{left: l.cfg.Window, rec: Record{
		Node: index, Job: d.Job, Kind: d.Kind, Task: d.Task, Assigned: assigned, P: d.P, Utility: d.Utility,
		Values: l.values(index, d.Profile, d.Tasks)}})
}

// limit is how many decisions of a node may wait.
func (l *Learner) limit() int {
	if l.cfg.Refill {
		return l.cfg.Window * (l.cfg.PerHeartbeat + job.Kinds*l.cfg.MaxTasks)
	}
	return l.cfg.Window * l.cfg.PerHeartbeat
}

// maxRefusals and idleShare say when IdleEscape steps in.
const (
	maxRefusals = 3
	idleShare   = 0.8
)

// Escape reports whether a node that runs so many tasks gets one though all
// candidates are bad.
func (l *Learner) Escape(index int32, tasks int) bool {
	x := l.node(index)
	switch {
	case tasks > 0:
		return false
	case l.cfg.Patience > 0 && x.idle >= l.cfg.Patience:
		return true
	}
	return l.cfg.IdleEscape && (x.state.Load <= float64(idleShare*l.cfg.Rule.Target) || x.refusals >= maxRefusals)
}

// SetRule changes when a node is overloaded. What was learned under the old rule
// is forgotten, and the logged decisions are labelled and learned anew, in
// order. A bad rule changes nothing.
func (l *Learner) SetRule(r Rule) error {
	if err := r.Check(); err != nil {
		return err
	}
	if r == l.cfg.Rule {
		return nil
	}
	l.cfg.Rule = r
	for i := range l.nodes {
		l.nodes[i].over = l.nodes[i].known && r.Overloaded(l.nodes[i].state)
	}
	l.relearn()
	return nil
}

// relearn trains a fresh classifier with the log.
func (l *Learner) relearn() {
	l.model.Reset()
	for i := range l.log.Len() {
		r := l.log.At(i)
		r.Good = !l.cfg.Rule.Overloaded(r.Seen)
		l.learn(r)
	}
}

// Decider is an order that asks a Learner for predictions and tells it what was
// decided. The method does nothing but say so.
type Decider interface{ Decides() }
