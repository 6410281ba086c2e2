package learning

// recentDecisions is the number of labelled decisions that Confidence looks at.
const recentDecisions = 100

// Confidence returns the mean probability that the learner gave to its latest labelled
// decisions when it took them, the share that turned out right, and their number.
func (l *Learner) Confidence() (certain, accurate float64, decisions int) {
	decisions = min(recentDecisions, l.log.Len())
	if decisions == 0 {
		return 0, 0, 0
	}
	for i := l.log.Len() - decisions; i < l.log.Len(); i++ {
		r := l.log.At(i)
		// P is the probability of being good, and a withheld task was predicted to be bad.
		if r.Assigned {
			certain += r.P
		} else {
			certain += 1 - r.P
		}
		if r.Accurate() {
			accurate++
		}
	}
	return certain / float64(decisions), accurate / float64(decisions), decisions
}

// NodeRecord holds the learner's statistics of one node.
type NodeRecord struct {
	Known    bool    // it has reported a load since it joined
	Over     bool    // it was overloaded in the last report
	Load     float64 // by processor, in the last report
	Waiting  int     // decisions that wait for their label
	Refusals int     // successive withheld decisions that no overload followed
}

// Inspect returns the learner's record of a node.
func (l *Learner) Inspect(index int32) NodeRecord {
	if int(index) >= len(l.nodes) {
		return NodeRecord{}
	}
	n := &l.nodes[index]
	return NodeRecord{Known: n.known, Over: n.over, Load: n.state.Load, Waiting: len(n.waiting), Refusals: n.refusals}
}
