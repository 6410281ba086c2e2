package tumm

import (
	"fmt"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

const benchJobs, benchNodes = 1000, 100

// busy has 1,000 jobs on 100 full nodes: the first ones map and the rest are
// queued, or all jobs are in their reduce phase, the slowest case.
func busy(b *testing.B, s sched.Slots, reducing bool) *lab {
	l := newLab(b, s)
	for i := range benchNodes {
		l.join(i, [2]int{4, 2})
	}
	for range benchJobs {
		if reducing {
			l.submit(0, b.N/benchJobs+1000)
		} else {
			l.submit(b.N/benchJobs+1000, 0)
		}
	}
	for i := range benchNodes {
		l.beat(i)
	}
	return l
}

func parts() map[string]func() sched.Slots {
	return map[string]func() sched.Slots{
		"tumm":  func() sched.Slots { return newPlain() },
		"htumm": func() sched.Slots { return newHeter(0) },
	}
}

// BenchmarkIdleHeartbeat: no slot is free.
func BenchmarkIdleHeartbeat(b *testing.B) {
	for name, part := range parts() {
		b.Run(name, func(b *testing.B) {
			l := busy(b, part(), false)
			hb := &tracker.Heartbeat{Node: "n7"}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				l.Step(time.Duration(i), hb)
			}
		})
	}
}

// BenchmarkBusyHeartbeat: each heartbeat reports an end and gets a new task,
// with one job in the map phase or 1,000 in the reduce phase.
func BenchmarkBusyHeartbeat(b *testing.B) {
	for name, part := range parts() {
		for phase, reducing := range map[string]bool{"1map": false, "1000reducing": true} {
			b.Run(fmt.Sprint(name, "/", phase), func(b *testing.B) {
				l := busy(b, part(), reducing)
				report := make([]tracker.Report, 1)
				hb := &tracker.Heartbeat{Reports: report}
				b.ReportAllocs()
				b.ResetTimer()
				for i := range b.N {
					n := l.Nodes().Node(int32(i % benchNodes))
					hb.Node, report[0] = n.Name(), tracker.Report{Attempt: n.Attempts()[0].ID(), State: job.AttemptSucceeded}
					l.Step(time.Duration(i)*time.Millisecond, hb)
				}
			})
		}
	}
}

// A heartbeat that leads to nothing allocates nothing, with slots free or not.
func TestIdleHeartbeatDoesNotAllocate(t *testing.T) {
	for name, part := range parts() {
		for _, maps := range []int{2, 9} {
			l := newLab(t, part(), [2]int{2, 2})
			l.submit(maps, 3)
			hb := &tracker.Heartbeat{Node: "n0"}
			l.Step(0, hb)
			if n := testing.AllocsPerRun(100, func() { l.Step(1, hb) }); n != 0 {
				t.Errorf("%s, %d maps: %v allocations", name, maps, n)
			}
		}
	}
}
