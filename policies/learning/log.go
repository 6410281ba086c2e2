package learning

import (
	"time"

	"github.com/slotwise/slotwise/sched/job"
)

// Record is a labelled decision with its features, the prediction and the
// node's state afterwards, so that it can be labelled again under another rule.
// Its fields are part of the format of saved state.
type Record struct {
	Seq      int64 // from 1, over the whole life of the learner
	At       time.Duration
	Node     int32 // index
	Job      job.ID
	Kind     job.Kind
	Assigned bool    // a task was launched; otherwise all candidates were withheld
	Good     bool    // the label y: no overload followed
	P        float64 // the predicted probability of being good
	Utility  float64 // U(J) of the candidate
	Values   Values  // the features
	Seen     State   // the worst state of the node in the reports after it
}

// Accurate reports whether the decision was right: launched and good, or
// withheld and bad.
func (r *Record) Accurate() bool { return r.Assigned == r.Good }

// Log keeps the latest labelled decisions, oldest first. It is made of parts of equal length,
// so that growing never copies records: a copy of a full log takes milliseconds.
type Log struct {
	limit int        // records at most
	parts [][]Record // all have logPart records but the last
	n     int        // records in all; a ring once there are limit records
	first int        // index of the oldest record
}

// logPart is the number of records in a part of a log.
const logPart = 1024

// NewLog returns an empty log that keeps up to limit records.
func NewLog(limit int) *Log { return &Log{limit: limit} }

// Append adds a record and drops the oldest if the log is full.
func (l *Log) Append(r Record) {
	switch {
	case l.limit == 0:
	case l.n < l.limit:
		if l.n%logPart == 0 {
			l.parts = append(l.parts, make([]Record, 0, min(logPart, l.limit-l.n)))
		}
		last := &l.parts[len(l.parts)-1]
		*last = append(*last, r)
		l.n++
	default:
		// The oldest record's place; the next one is the oldest then.
		*l.at(l.first) = r
		l.first = (l.first + 1) % l.limit
	}
}

// Len returns the number of records kept.
func (l *Log) Len() int { return l.n }

// At returns the record at index i, 0 being the oldest. The caller may change
// it in place.
func (l *Log) At(i int) *Record { return l.at((l.first + i) % l.n) }

func (l *Log) at(i int) *Record { return &l.parts[i/logPart][i%logPart] }

// BlockSize is the number of decisions for which the paper reports one
// accuracy.
const BlockSize = 250

// maxBlocks is the number of accuracies kept, the latest ones.
const maxBlocks = 512

// Accuracy counts labelled decisions. In the paper's words:
//
//	           not overloaded   overloaded
//	assigned   successful       incorrect
//	withheld   false negative   refused
type Accuracy struct {
	Successful, Incorrect  uint64
	FalseNegative, Refused uint64
	// Blocks holds the share of accurate decisions in each block of BlockSize
	// decisions, the latest last.
	Blocks []float64
	// Tail counts the decisions of the unfinished block, and TailAccurate the
	// accurate ones among them.
	TailAccurate, Tail int
}

// Add counts a labelled decision.
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
			// Moved in place: 512 numbers once in 250 decisions cost less than a ring that every reader
			// must unroll.
			a.Blocks = append(a.Blocks[:0], a.Blocks[1:]...)
		}
		a.Blocks = append(a.Blocks, float64(a.TailAccurate)/BlockSize)
		a.TailAccurate, a.Tail = 0, 0
	}
}

// Labelled returns the number of decisions counted.
func (a *Accuracy) Labelled() uint64 {
	return a.Successful + a.Incorrect + a.FalseNegative + a.Refused
}

// Share returns the share of accurate decisions, or 0 before the first.
func (a *Accuracy) Share() float64 {
	if a.Labelled() == 0 {
		return 0
	}
	return float64(a.Successful+a.Refused) / float64(a.Labelled())
}

// Precision returns the share of launches that no overload followed, or 0
// before the first.
func (a *Accuracy) Precision() float64 {
	if a.Successful+a.Incorrect == 0 {
		return 0
	}
	return float64(a.Successful) / float64(a.Successful+a.Incorrect)
}
