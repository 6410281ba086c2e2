package local

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
)

// eventLog writes a line for each event that led to something, and one below it for each effect. A
// nil log writes nothing. It is buffered, so after a crash the last lines are missing; the loop
// must not wait for a disk for each event.
type eventLog struct{ w *bufio.Writer }

func newEventLog(w io.Writer) *eventLog {
	if w == nil {
		return nil
	}
	return &eventLog{bufio.NewWriter(w)}
}

func (l *eventLog) write(now time.Duration, ev tracker.Event, effects []tracker.Effect) {
	if l == nil {
		return
	}
	// The log is for reading, and most heartbeats and ticks change nothing.
	if hb, ok := ev.(*tracker.Heartbeat); ok && len(effects) == 0 && len(hb.Reports) == 0 {
		return
	}
	if _, ok := ev.(*tracker.Tick); ok && len(effects) == 0 {
		return
	}
	fmt.Fprintf(l.w, "%.3f %s\n", now.Seconds(), tracker.FormatEvent(ev))
	for _, e := range effects {
		fmt.Fprintf(l.w, "%.3f   %s\n", now.Seconds(), e)
	}
}

func (l *eventLog) flush() error {
	if l == nil {
		return nil
	}
	return l.w.Flush()
}
