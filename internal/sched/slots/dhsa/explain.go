package dhsa

import (
	"fmt"
	"time"

	"github.com/slotwise/slotwise/internal/job"
)

// Explain implements sched.Explainer: what lending and balance have to do with
// the wait.
func (d *DHSA) Explain(j *job.Job, k job.Kind, _ time.Duration) string {
	if d.view == nil || !j.Launchable(k) {
		return ""
	}
	other := k.Other()
	slots, used := d.view.Nodes().Slots(k), d.used(k)
	idle := d.view.Nodes().Slots(other) - d.used(other)
	switch {
	case used < slots:
		return fmt.Sprintf("%d %s slots are free on machines that already run their part of the load, or that other "+
			"tasks are served first on", slots-used, k)
	case idle > 0 && d.quota(other) == 0:
		return fmt.Sprintf("%d %s slots are idle and none may run %ss", idle, other, k)
	case idle > 0 && !d.MayLend(other):
		return fmt.Sprintf("%d %s slots are idle, but the %d that may run %ss all do", idle, other, d.quota(other), k)
	case d.lent(k) > 0:
		return fmt.Sprintf("%d of the %s slots run %ss that borrowed them and give them back when they end",
			d.lent(k), k, other)
	}
	return ""
}
