package master

import (
	"testing"
	"testing/synctest"
	"time"
)

// A reader that something new is there for is not answered at once, unless it was
// the last there is.
func TestSettleFor(t *testing.T) {
	const pace = time.Second
	tests := []struct {
		name       string
		some, last time.Duration // when an output comes, and the last; 0 is never
		want       time.Duration // when the reader has waited enough
	}{
		{"more may come", 100 * time.Millisecond, 0, pace},
		{"all have come", 100 * time.Millisecond, 300 * time.Millisecond, 300 * time.Millisecond},
		{"the first is the last", 0, 200 * time.Millisecond, 200 * time.Millisecond},
		{"late", 2 * pace, 0, 2 * pace},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				some, all := make(chan struct{}), make(chan struct{})
				l := &outputLog{some: some, all: all}
				m := &Master{stopped: make(chan struct{})}
				start := time.Now()
				go func() { // the loop; the clock is the bubble's
					for _, e := range []struct {
						at   time.Duration
						last bool
					}{{tt.some, false}, {tt.last, true}} {
						if e.at > 0 {
							time.Sleep(e.at - time.Since(start))
							l.add(outputEvent{}, e.last)
						}
					}
				}()
				<-some
				m.settleFor(t.Context(), &outputNews{some, all, pace}, start)
				if took := time.Since(start); took != tt.want {
					t.Errorf("waited for %v, not %v", took, tt.want)
				}
			})
		})
	}
}
