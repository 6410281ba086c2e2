package report

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
)

// EventLog writes a line for each event of the tracker that led to something,
// and one below it for each effect, in the words that a real run and the test
// scripts use as well.
type EventLog struct{ w *bufio.Writer }

// NewEventLog makes a log.
func NewEventLog(w io.Writer) *EventLog { return &EventLog{bufio.NewWriterSize(w, 1<<16)} }

// Write takes an event; it is a sim.Config.Trace.
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

// Close writes what is left and returns the first error of all. The writer is the
// caller's to close.
func (l *EventLog) Close() error { return l.w.Flush() }
