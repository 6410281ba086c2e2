package tags

import (
	"fmt"
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// Held implements sched.Holder: the slots of the job's partition are all in use,
// or its reduces wait for maps longer than the job itself asked for.
func (t *Tags) Held(j *job.Job, k job.Kind) sched.Reason {
	if !t.open(j, k) {
		return sched.Reason{Code: sched.SlowStart, Have: j.Done(job.Map), Need: t.gate(j)}
	}
	// To the first partition all slots are open that others leave: if none is, the
	// cluster is full.
	part := t.rows[j.Seat()].part
	if t.parts[part].full(k) && !t.borrows(part, k) && (part > 0 || t.cfg.Lend == LendNone) {
		p := &t.parts[part]
		return sched.Reason{Code: sched.PartitionFull, Pool: p.name, Have: p.used[k], Need: p.limit[k]}
	}
	return sched.Reason{}
}

// Explain implements sched.Explainer: where the job is and what would move it on.
func (t *Tags) Explain(j *job.Job, k job.Kind, _ time.Duration) string {
	if len(t.parts) == 1 || j.Seat() >= len(t.rows) || t.rows[j.Seat()] == nil || t.rows[j.Seat()].job != j {
		return ""
	}
	r := t.rows[j.Seat()]
	text, spent := "partition "+t.parts[r.part].name, r.spent.Round(time.Millisecond)
	switch limit, ok := t.rule.timer(r.part); {
	case r.part == len(t.parts)-1:
		text += ", where the job is, is for all that need more time than the others allow"
	case ok:
		text += fmt.Sprintf(" is for jobs until their finished tasks have taken %v in all; those of this job have taken %v",
			limit.Round(time.Millisecond), spent)
	default:
		text += fmt.Sprintf(" keeps jobs of all sizes for now, because sizes are much alike; the finished tasks of this job "+
			"have taken %v", spent)
	}
	if t.view.Nodes().Slots(k) < len(t.parts) {
		text += fmt.Sprintf("; the cluster has too few %s slots to be split, so all partitions share them", k)
	}
	return text
}
