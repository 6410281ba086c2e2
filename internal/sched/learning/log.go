package learning

import (
	"time"

	"github.com/slotwise/slotwise/internal/job"
)

// Record is a decision that was judged: what was known, what was said, what was
// done and what came of it. All of it is kept, so that it can be labelled anew
// under another rule.
type Record struct {
	Seq      int64 // from 1, over the whole life of the learner
	At       time.Duration
	Node     int32
	Job      job.ID
	Kind     job.Kind
	Assigned bool // a task was launched; otherwise all were withheld
	Good     bool // the label y: no overload followed
	Task     int32
	P        float64 // what the classifier said
	Utility  float64
	Values   Values // the features
	Seen     State  // of the node when it was judged
}

// Accurate reports whether the node's state bore the decision out.
func (r *Record) Accurate() bool { return r.Assigned == r.Good }

// Log keeps the last judged decisions, oldest first.
type Log struct {
	limit   int
	records []Record // a ring once it has limit entries
	first   int
}

// NewLog returns an empty log that keeps up to limit records.
func NewLog(limit int) *Log { return &Log{limit: limit} }

// Append adds a record; the oldest makes room.
func (l *Log) Append(r Record) {
	switch {
	case l.limit == 0:
	case len(l.records) < l.limit:
		l.records = append(l.records, r)
	default:
		l.records[l.first] = r
		l.first = (l.first + 1) % l.limit
	}
}

// Len is the number of records kept.
func (l *Log) Len() int { return len(l.records) }

// At returns a record, 0 being the oldest; it may be changed in place.
func (l *Log) At(i int) *Record { return &l.records[(l.first+i)%len(l.records)] }

// BlockSize is over how many decisions the paper takes its accuracies.
const BlockSize = 250

// maxBlocks is how many accuracies are kept, the latest.
const maxBlocks = 512

// Accuracy counts what became of decisions. In the paper's words:
//
//	           not overloaded   overloaded
//	assigned   successful       incorrect
//	withheld   false negative   refused
type Accuracy struct {
	Successful, Incorrect  uint64
	FalseNegative, Refused uint64
	// Blocks is the share of accurate decisions in each BlockSize of them, the
	// latest last.
	Blocks []float64
	// TailAccurate of Tail decisions of the block that is not full yet were
	// accurate.
	TailAccurate, Tail int
}

// Add counts a judged decision.
func (a *Accuracy) Add(assigned, good bool) {
	switch {
	case assigned && good:
		a.Successful++
	case assigned:
		a.Incorrect++
	case good:
		a.FalseNegative++
	default:
		a.Refused++
	}
	if assigned == good {
		a.TailAccurate++
	}
	if a.Tail++; a.Tail == BlockSize {
		if len(a.Blocks) == maxBlocks {
			a.Blocks = append(a.Blocks[:0], a.Blocks[1:]...)
		}
		a.Blocks = append(a.Blocks, float64(a.TailAccurate)/BlockSize)
		a.TailAccurate, a.Tail = 0, 0
	}
}

// Judged is the number of decisions counted.
func (a *Accuracy) Judged() uint64 {
	return a.Successful + a.Incorrect + a.FalseNegative + a.Refused
}

// Share is the share of all decisions that were accurate, 0 before the first.
func (a *Accuracy) Share() float64 {
	if a.Judged() == 0 {
		return 0
	}
	return float64(a.Successful+a.Refused) / float64(a.Judged())
}

// Precision is the share of assignments that no overload followed, 0 before the
// first.
func (a *Accuracy) Precision() float64 {
	if a.Successful+a.Incorrect == 0 {
		return 0
	}
	return float64(a.Successful) / float64(a.Successful+a.Incorrect)
}
