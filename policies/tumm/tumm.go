package tumm

import (
	"fmt"
	"strconv"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// TuMM splits the slots of a cluster. One pair of targets holds for the cluster and
// is spread over the nodes in proportion to their slots. While nodes have fewer than
// two slots on average, each node keeps its own fixed split, and Explain says why.
type TuMM struct {
	base
	target       target
	unsplittable error              // why the cluster cannot be split, or nil
	work         [job.Kinds]float64 // remaining work at the last update, in slot·seconds
}

var (
	_ sched.Slots           = (*TuMM)(nil)
	_ sched.Consulter       = (*TuMM)(nil)
	_ sched.Starter         = (*TuMM)(nil)
	_ sched.JobWatcher      = (*TuMM)(nil)
	_ sched.ChangeWatcher   = (*TuMM)(nil)
	_ sched.TaskWatcher     = (*TuMM)(nil)
	_ sched.NodeWatcher     = (*TuMM)(nil)
	_ sched.CapacityWatcher = (*TuMM)(nil)
	_ sched.Sizer           = (*TuMM)(nil)
	_ sched.Explainer       = (*TuMM)(nil)
	_ sched.Stateful        = (*TuMM)(nil)
)

// NewTuMM returns TuMM without jobs or nodes.
func NewTuMM(o Options) *TuMM {
	t := &TuMM{target: target{mode: o.Feedback, alpha: o.Alpha, period: o.Period}}
	t.cfg = o.Config
	t.mon = newMonitor(&t.cfg, false)
	t.split = t.share
	return t
}

// Informed is TuMM with prior knowledge of the workload (section 4.1 of the paper): ω' is the
// number of remaining tasks times the job's own mean time, which a simulation states when the
// job is submitted.
type Informed struct{ *TuMM }

var _ sched.SizeReader = (*Informed)(nil)

// Know implements sched.SizeReader.
func (t *Informed) Know(j *job.Job, work [job.Kinds]time.Duration) { t.mon.know(j, work) }

// NodeJoined implements sched.NodeWatcher.
func (t *TuMM) NodeJoined(*cluster.Node) { t.CapacityChanged() }

// NodeLost implements sched.NodeWatcher.
func (t *TuMM) NodeLost(*cluster.Node) { t.CapacityChanged() }

// CapacityChanged implements sched.CapacityWatcher.
func (t *TuMM) CapacityChanged() {
	// The work has not changed, but the targets are parts of S and k.
	t.mon.stale = true
	slots, nodes := t.capacity()
	// Without open nodes the split stays for the nodes that return.
	if nodes == 0 {
		return
	}
	if t.unsplittable = CheckSize(slots, nodes); t.unsplittable == nil {
		t.target.resize(slots, nodes)
	}
}

// plan updates the targets if something has changed since the last call.
func (t *TuMM) plan(now time.Duration) {
	if !t.mon.stale {
		return
	}
	t.mon.stale = false
	t.work = t.mon.work()
	slots, nodes := t.capacity()
	t.target.update(t.work[job.Map], t.work[job.Reduce], slots, nodes, t.mon.changed(), now)
}

// Quiet implements sched.Quiet. Each plan is a step of the feedback, so its time matters: the
// next round must plan if anything has changed since the last one, or if a job's turn is over.
func (t *TuMM) Quiet() bool {
	return t.mon.head == nil && (!t.mon.stale || t.unsplittable != nil)
}

// capacity returns S and k, both of the nodes that take work. If k counted the
// others too, the bounds of s_m would contradict each other, and a node could
// permanently lack a map slot.
func (t *TuMM) capacity() (slots, nodes int) {
	l := t.view.Nodes()
	return l.Slots(job.Map) + l.Slots(job.Reduce), l.Open()
}

// targets returns s_m and s_r.
func (t *TuMM) targets() [job.Kinds]int {
	return [job.Kinds]int{t.target.mapSlots, t.target.slots - t.target.mapSlots}
}

// share is Algorithm 3, lines 1–4, for the round's node.
func (t *TuMM) share(r *sched.Round) [job.Kinds]int {
	// The bounds of s_m contradict each other.
	// Equations 4 and 5 have no solution with both bounds, so Hadoop's fixed slots stay. Returning an error
	// instead would stop a master whose workers have just begun to register.
	if t.unsplittable != nil {
		return [job.Kinds]int{r.Node().Slots(job.Map), r.Node().Slots(job.Reduce)}
	}
	t.plan(r.Now())
	running := [job.Kinds]int{r.Jobs().Occupied(job.Map), r.Jobs().Occupied(job.Reduce)}
	return Share(t.targets(), running, t.target.slots, size(r.Node()))
}

// Size implements sched.Sizer.
func (t *TuMM) Size(k job.Kind) int {
	if t.unsplittable != nil || t.target.slots == 0 {
		return t.view.Nodes().Slots(k)
	}
	return t.targets()[k]
}

// Explain implements sched.Explainer.
func (t *TuMM) Explain(j *job.Job, _ job.Kind, _ time.Duration) string {
	switch {
	case !j.State().Live():
		return ""
	case t.unsplittable != nil:
		return fmt.Sprintf("%v; until then each machine keeps its own fixed split", t.unsplittable)
	case t.target.slots == 0:
		return ""
	}
	return fmt.Sprintf("%d of %d slots go to maps for now and %d to reduces%s", t.target.mapSlots, t.target.slots,
		t.target.slots-t.target.mapSlots, workText(t.work))
}

// workText describes the remaining work, which determines the split.
func workText(work [job.Kinds]float64) string {
	if work[job.Map]+work[job.Reduce] <= 0 {
		return ""
	}
	return fmt.Sprintf(": maps have %s s of work left, reduces %s s", shortNumber(work[job.Map]), shortNumber(work[job.Reduce]))
}

// shortNumber prints x with two significant digits, or as a whole number above
// 10.
func shortNumber(x float64) string {
	if x < 10 {
		return strconv.FormatFloat(x, 'g', 2, 64)
	}
	return strconv.FormatFloat(x, 'f', 0, 64)
}
