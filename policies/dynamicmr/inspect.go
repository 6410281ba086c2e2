package dynamicmr

import (
	"time"

	"github.com/slotwise/slotwise/sched"
)

var _ sched.Inspectable = (*Preschedule)(nil)

// Inspect implements sched.Inspectable.
func (p *Preschedule) Inspect(time.Duration) (i sched.Insight) {
	if !p.cfg.Enabled {
		return i
	}
	const chart = "prescheduling"
	i.Show(sched.Measure{Name: "maps in reduce slots near their data", Unit: "slots", Help: "Reduce slots that prescheduling lent to maps (P2).", Chart: chart}, float64(p.preLent))
	i.Show(sched.Measure{Name: "reduces in map slots in return", Unit: "slots", Help: "Map slots that reduces got in return (P3).", Chart: chart}, float64(p.returned))
	return i
}
