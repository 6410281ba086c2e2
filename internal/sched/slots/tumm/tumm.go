package tumm

import (
	"fmt"
	"strconv"
	"time"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// TuMM splits the slots of a cluster of equal nodes: one pair of targets for the
// cluster, spread evenly. While the nodes are not equal, or have fewer than two
// slots, it keeps each node's own fixed split and says so.
type TuMM struct {
	base
	target  target
	sizes   []int // live nodes by number of slots
	trouble error // why the cluster cannot be split, or nil
	work    [job.Kinds]float64
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
	_ sched.Preempter       = (*TuMM)(nil)
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

// NodeJoined implements sched.NodeWatcher.
func (t *TuMM) NodeJoined(n *cluster.Node) { t.count(n, 1) }

// NodeLost implements sched.NodeWatcher.
func (t *TuMM) NodeLost(n *cluster.Node) { t.count(n, -1) }

// count keeps the histogram of sizes, from which it follows at once whether the
// nodes are equal.
func (t *TuMM) count(n *cluster.Node, by int) {
	for size(n) >= len(t.sizes) {
		t.sizes = append(t.sizes, 0)
	}
	t.sizes[size(n)] += by
	t.trouble = checkEqual(t.sizes)
	t.CapacityChanged()
}

// CapacityChanged implements sched.CapacityWatcher.
func (t *TuMM) CapacityChanged() {
	t.mon.stale = true
	if t.trouble == nil && t.view.Nodes().Open() > 0 {
		t.target.resize(t.capacity())
	}
}

// checkEqual says why TuMM cannot serve live nodes of these sizes (A10), or nil.
func checkEqual(sizes []int) error {
	seen := -1
	for size, nodes := range sizes {
		switch {
		case nodes == 0:
		case seen >= 0:
			return fmt.Errorf("tumm needs machines with equally many slots, and here some have %d and some %d; "+
				"policy htumm is made for unequal machines", seen, size)
		default:
			seen = size
		}
	}
	if seen >= 0 {
		return CheckSize(seen*sizes[seen], sizes[seen])
	}
	return nil
}

// plan brings the targets up to date if something has changed since the last
// time.
func (t *TuMM) plan(now time.Duration) {
	if !t.mon.stale {
		return
	}
	t.mon.stale = false
	t.work = t.mon.work()
	slots, nodes := t.capacity()
	t.target.update(t.work[job.Map], t.work[job.Reduce], slots, nodes, t.mon.changed(), now)
}

// capacity is S and k, both of the nodes that take work: were the others counted
// in k, the bounds of s_m would contradict each other, and a node could be left
// without a map slot for good.
func (t *TuMM) capacity() (slots, nodes int) {
	l := t.view.Nodes()
	return l.Slots(job.Map) + l.Slots(job.Reduce), l.Open()
}

// want is s_m and s_r.
func (t *TuMM) want() [job.Kinds]int {
	return [job.Kinds]int{t.target.mapSlots, t.target.slots - t.target.mapSlots}
}

// share is Algorithm 3, lines 1–4, for the round's node.
func (t *TuMM) share(r *sched.Round) [job.Kinds]int {
	if t.trouble != nil {
		return [job.Kinds]int{r.Node().Slots(job.Map), r.Node().Slots(job.Reduce)}
	}
	t.plan(r.Now())
	running := [job.Kinds]int{r.Jobs().Running(job.Map), r.Jobs().Running(job.Reduce)}
	return Share(t.want(), running, r.Nodes().Open(), size(r.Node()))
}

// Size implements sched.Sizer.
func (t *TuMM) Size(k job.Kind) int {
	if t.trouble != nil || t.target.slots == 0 {
		return t.view.Nodes().Slots(k)
	}
	return t.want()[k]
}

// Explain implements sched.Explainer.
func (t *TuMM) Explain(j *job.Job, _ job.Kind, _ time.Duration) string {
	switch {
	case !j.State().Live():
		return ""
	case t.trouble != nil:
		return fmt.Sprintf("%v; until then each machine keeps its own fixed split", t.trouble)
	case t.target.slots == 0:
		return ""
	}
	return fmt.Sprintf("%d of %d slots go to maps for now and %d to reduces%s", t.target.mapSlots, t.target.slots,
		t.target.slots-t.target.mapSlots, because(t.work))
}

// because says why slots are split as they are.
func because(work [job.Kinds]float64) string {
	if work[job.Map]+work[job.Reduce] <= 0 {
		return ""
	}
	return fmt.Sprintf(": maps have %s s of work left, reduces %s s", brief(work[job.Map]), brief(work[job.Reduce]))
}

// brief is a number without digits that say nothing.
func brief(x float64) string {
	if x < 10 {
		return strconv.FormatFloat(x, 'g', 2, 64)
	}
	return strconv.FormatFloat(x, 'f', 0, 64)
}
