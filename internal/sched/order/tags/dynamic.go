package tags

import (
	"math"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// dynamic is the rule of DYNAMICTAGS: in a partition whose sizes vary much, the
// jobs beyond the optimal cut-off point of the sizes move on.
type dynamic struct {
	cfg   DynamicConfig
	parts []judged // all but the last partition, which nobody leaves
	t     *Tags
}

// judged is what decides in one partition.
type judged struct {
	sample sample
	// history holds the sizes with which the last jobs left, oldest first.
	history []int64
	// grown holds the jobs with a size above 0, the only ones that can exceed
	// a cut-off point.
	grown *sched.SortedJobs
	// cutoff is p*, in milliseconds; +Inf while the sizes are alike.
	cutoff float64
}

// NewDynamic returns DYNAMICTAGS, or what is wrong with its configuration.
func NewDynamic(c DynamicConfig) (*Learner, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	d := &dynamic{cfg: c, parts: make([]judged, len(c.Capacities[job.Map])-1)}
	d.t = newTags(c.Config, d)
	for i := range d.parts {
		d.parts[i].grown = sched.NewSortedJobs(d.t.compare)
		d.parts[i].cutoff = math.Inf(1)
	}
	return &Learner{Tags: d.t, d: d}, nil
}

// size is a partial size as samples hold it.
func size(spent time.Duration) int64 { return min(spent.Milliseconds(), maxSize) }

// counts reports whether a live job's size belongs to the sample.
func (d *dynamic) counts(x int64) bool { return x > 0 || d.cfg.Sample.Zeros }

func (d *dynamic) enter(r *row) {
	if r.part == len(d.parts) {
		return
	}
	p, x := &d.parts[r.part], size(r.spent)
	if d.counts(x) {
		p.sample.add(x)
	}
	if x > 0 {
		p.grown.Add(r.job)
	}
}

func (d *dynamic) grow(r *row, before time.Duration) {
	if r.part == len(d.parts) {
		return
	}
	p, old, x := &d.parts[r.part], size(before), size(r.spent)
	if old == x {
		return
	}
	if d.counts(old) {
		p.sample.remove(old)
	}
	p.sample.add(x)
	p.grown.Add(r.job)
}

func (d *dynamic) leave(r *row, keep bool) {
	if r.part == len(d.parts) {
		return
	}
	p, x := &d.parts[r.part], size(r.spent)
	p.grown.Remove(r.job)
	if d.counts(x) {
		p.sample.remove(x)
	}
	if keep {
		d.remember(p, x)
	}
}

// remember adds a departure to the history and forgets what the window no longer
// holds. The history is kept whether or not the sample uses it, so that what was
// saved under one setting is whole under another.
func (d *dynamic) remember(p *judged, x int64) {
	p.history = append(p.history, x)
	if d.departed(x) {
		p.sample.add(x)
	}
	for d.cfg.Window > 0 && len(p.history) > d.cfg.Window {
		if d.departed(p.history[0]) {
			p.sample.remove(p.history[0])
		}
		p.history = p.history[1:]
	}
}

// departed reports whether the size of a job that has left belongs to the sample.
func (d *dynamic) departed(x int64) bool { return d.cfg.Sample.Departed && d.counts(x) }

func (d *dynamic) moved(j *job.Job) {
	if r := d.t.rows[j.Seat()]; r.part < len(d.parts) {
		d.parts[r.part].grown.Reposition(j)
	}
}

// due implements rule. All partitions are judged before anything moves.
func (d *dynamic) due(t *Tags, list []*row) []*row {
	for i := range d.parts {
		p := &d.parts[i]
		if p.cutoff = math.Inf(1); !p.sample.exceeds(d.cfg.Threshold) {
			continue
		}
		p.cutoff = p.sample.cutoff()
		for _, j := range p.grown.Jobs() {
			if r := t.rows[j.Seat()]; float64(size(r.spent)) > p.cutoff {
				list = append(list, r)
			}
		}
	}
	return list
}

func (d *dynamic) timer(part int) (time.Duration, bool) {
	if part >= len(d.parts) || math.IsInf(d.parts[part].cutoff, 1) {
		return 0, false
	}
	return time.Duration(d.parts[part].cutoff * float64(time.Millisecond)), true
}

// load replaces the histories and makes the samples anew from them and the live
// jobs.
func (d *dynamic) load(histories [][]int64) {
	for i := range d.parts {
		p := &d.parts[i]
		p.sample, p.history = sample{}, nil
		for _, j := range d.t.parts[i].all.Jobs() {
			if x := size(d.t.rows[j.Seat()].spent); d.counts(x) {
				p.sample.add(x)
			}
		}
		for _, x := range histories[i] {
			d.remember(p, x)
		}
		p.history = slices.Clip(p.history)
	}
}
