package report

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
)

// EventLog writes a line for each tracker event that had effects, and one line below it
// for each effect. Live runs and test scripts use the same format.
type EventLog struct{ w *bufio.Writer }

// NewEventLog returns a log that writes to w.
func NewEventLog(w io.Writer) *EventLog { return &EventLog{bufio.NewWriterSize(w, 1<<16)} }

// Write writes an event and its effects. It is a sim.Config.Trace.
func (l *EventLog) Write(now time.Duration, ev tracker.Event, effects []tracker.Effect) {
	if len(effects) == 0 {
		switch e := ev.(type) {
		case *tracker.Tick:
			return
		case *tracker.Heartbeat:
			if len(e.Reports) == 0 {
				return
			}
		}
	}
	fmt.Fprintf(l.w, "%.3f %s\n", now.Seconds(), tracker.FormatEvent(ev))
	for i := range effects {
		fmt.Fprintf(l.w, "%.3f   %s\n", now.Seconds(), effects[i])
	}
}

// Close flushes the log and returns the first error of all writes. It does not close the
// underlying writer.
func (l *EventLog) Close() error { return l.w.Flush() }
