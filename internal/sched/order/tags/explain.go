package tags

import (
	"fmt"
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/sched"
)

// Held implements sched.Holder: the slots of the job's partition are all in use,
// or its reduces wait for maps longer than the job itself asked for.
func (t *Tags) Held(j *job.Job, k job.Kind) sched.Reason {
	if !t.open(j, k) {
		return sched.Reason{Code: sched.SlowStart, Have: j.Done(job.Map), Need: t.gate(j)}
	}
	if p := &t.parts[t.rows[j.Seat()].part]; !t.cfg.Lend && p.full(k) {
		return sched.Reason{Code: sched.PartitionFull, Pool: p.name, Have: p.used[k], Need: p.limit[k]}
	}
	return sched.Reason{}
}

// Explain implements sched.Explainer: where the job is and what would move it on.
func (t *Tags) Explain(j *job.Job, _ job.Kind, _ time.Duration) string {
	if j.Seat() >= len(t.rows) || t.rows[j.Seat()] == nil || t.rows[j.Seat()].job != j {
		return ""
	}
	r := t.rows[j.Seat()]
	p := &t.parts[r.part]
	text := fmt.Sprintf("it is in partition %s, for ", p.name)
	switch limit, ok := t.rule.timer(r.part); {
	case r.part == len(t.parts)-1 && r.part == 0:
		return ""
	case r.part == len(t.parts)-1:
		text += "the largest jobs"
	case ok:
		text += fmt.Sprintf("jobs whose tasks there took %v at most together", limit.Round(time.Millisecond))
	default:
		text += "jobs of any size as long as their sizes are alike"
	}
	return text + fmt.Sprintf("; its own took %v", r.spent.Round(time.Millisecond))
}
