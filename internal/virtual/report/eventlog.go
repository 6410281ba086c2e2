package report

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/sched/job"
)

// EventLog records the tracker events that had effects, and their effects.
type EventLog interface {
	// Write records an event and its effects. It is a sim.Config.Trace.
	Write(now time.Duration, ev tracker.Event, effects []tracker.Effect)
	// Close flushes the log and returns the first error of all writes. It does not close the
	// underlying writer.
	Close() error
}

// NewEventLog returns a log that writes to w: Parquet if the name of the file ends in
// .parquet, else text.
func NewEventLog(name string, w io.Writer) EventLog {
	if strings.HasSuffix(name, ".parquet") {
		return newParquetLog(w)
	}
	return &textLog{bufio.NewWriterSize(w, 1<<16)}
}

// silent reports whether logs leave an event out: a tick, or a heartbeat without reports,
// that had no effects.
func silent(ev tracker.Event, effects []tracker.Effect) bool {
	if len(effects) > 0 {
		return false
	}
	// Ticks and idle heartbeats are most of a run's events. A submission without effects stays: it is input.
	switch e := ev.(type) {
	case *tracker.Tick:
		return true
	case *tracker.Heartbeat:
		return len(e.Reports) == 0
	}
	return false
}

// textLog writes a line for each event and one line below it for each effect. Live runs and
// test scripts use the same format.
type textLog struct{ w *bufio.Writer }

func (l *textLog) Write(now time.Duration, ev tracker.Event, effects []tracker.Effect) {
	if silent(ev, effects) {
		return
	}
	fmt.Fprintf(l.w, "%.3f %s\n", now.Seconds(), tracker.FormatEvent(ev))
	for i := range effects {
		fmt.Fprintf(l.w, "%.3f   %s\n", now.Seconds(), effects[i])
	}
}

func (l *textLog) Close() error { return l.w.Flush() }

// Happening is a row of an event log in Parquet: an event, or one of its effects. The effects
// of an event follow it and have its step. Columns that make no sense for a kind are empty.
// Parquet is for queries over millions of events. Text has the whole line, so nothing of the text form is
// lost.
type Happening struct {
	Step    int64   `parquet:"step"` // number of the event in the log, from 1
	Time    float64 `parquet:"time_s"`
	Effect  bool    `parquet:"effect"`
	Kind    string  `parquet:"kind,dict"`
	Job     string  `parquet:"job,dict"`
	Attempt string  `parquet:"attempt"`
	Task    string  `parquet:"task,dict"` // map or reduce
	Node    string  `parquet:"node,dict"`
	Slot    string  `parquet:"slot,dict"`     // of a launch
	Level   string  `parquet:"locality,dict"` // of the launch of a map
	Copy    bool    `parquet:"copy"`
	State   string  `parquet:"state,dict"` // of a job that is done
	Reports int64   `parquet:"reports"`    // number of attempts that a heartbeat reports on
	Text    string  `parquet:"text"`       // the line of the text form, without the time
}

// parquetLog writes rows in batches.
type parquetLog struct {
	w    *parquet.GenericWriter[Happening]
	rows []Happening
	step int64
	err  error
}

// logBatch is the number of rows that a parquetLog collects before it writes them.
const logBatch = 1 << 10

func newParquetLog(w io.Writer) *parquetLog {
	return &parquetLog{w: parquet.NewGenericWriter[Happening](w, parquet.Compression(&parquet.Zstd), parquet.MaxRowsPerRowGroup(rowGroup))}
}

func (l *parquetLog) Write(now time.Duration, ev tracker.Event, effects []tracker.Effect) {
	if silent(ev, effects) {
		return
	}
	l.step++
	row := eventRow(ev)
	row.Step, row.Time = l.step, now.Seconds()
	l.rows = append(l.rows, row)
	for i := range effects {
		row := effectRow(&effects[i])
		row.Step, row.Time = l.step, now.Seconds()
		l.rows = append(l.rows, row)
	}
	if len(l.rows) >= logBatch {
		l.flush()
	}
}

func (l *parquetLog) flush() {
	if l.err == nil {
		_, l.err = l.w.Write(l.rows)
	}
	// Also after an error, or the rows of a long run would fill the memory.
	l.rows = l.rows[:0]
}

func (l *parquetLog) Close() error {
	l.flush()
	return errors.Join(l.err, l.w.Close())
}

// eventRow returns the row of an event, without its step and time.
func eventRow(ev tracker.Event) Happening {
	r := Happening{Text: tracker.FormatEvent(ev)}
	switch e := ev.(type) {
	case *tracker.Submit:
		r.Kind = "submit"
	case *tracker.Join:
		r.Kind, r.Node = "join", e.Node.Name
	case *tracker.Heartbeat:
		r.Kind, r.Node, r.Reports = "heartbeat", e.Node, int64(len(e.Reports))
	case *tracker.AskCommit:
		r.Kind = "ask commit"
		r.about(e.Attempt)
	case *tracker.FetchFailed:
		r.Kind = "fetch failed"
		r.about(e.Map)
	case *tracker.CommitEnded:
		r.Kind, r.Job = "committed", e.Job.String()
	case *tracker.AbortEnded:
		r.Kind, r.Job = "aborted", e.Job.String()
	default: // ticks are the only other events of a simulation
		r.Kind, _, _ = strings.Cut(r.Text, " ")
	}
	return r
}

// effectRow returns the row of an effect, without its step and time.
func effectRow(e *tracker.Effect) Happening {
	r := Happening{Effect: true, Kind: e.Kind.String(), Node: e.Node, Text: e.String()}
	if e.Attempt.Job != 0 {
		r.about(e.Attempt)
	} else if e.Job != 0 {
		r.Job = e.Job.String()
	}
	switch e.Kind {
	case tracker.Launch:
		r.Slot, r.Copy = e.Slot.String(), e.Speculative
		if e.Attempt.Kind == job.Map {
			r.Level = e.Level.String()
		}
	case tracker.JobDone:
		r.State = e.State.String()
	}
	return r
}

// about fills in the columns of an attempt.
func (r *Happening) about(id job.AttemptID) {
	r.Job, r.Attempt, r.Task = id.Job.String(), id.String(), id.Kind.String()
}
