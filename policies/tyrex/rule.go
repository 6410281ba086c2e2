package tyrex

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// static is the rule of STATICTAGS: a job moves when its partial size exceeds
// the timer of its partition. A size grows only when a task completes, so the
// rule examines only jobs that have completed one since the last check.
type static struct {
	timers []time.Duration
	grown  []*member // jobs that have completed a task since the last check
}

// enter implements rule. After a change of policy a job may enter with work that is enough to move
// at once.
func (s *static) enter(r *member) {
	if r.spent > 0 {
		s.grow(r, 0)
	}
}

// grow implements rule.
func (s *static) grow(r *member, _ time.Duration) {
	if !r.listed {
		r.listed = true
		s.grown = append(s.grown, r)
	}
}

// leave implements rule. STATICTAGS keeps no sizes of jobs that have left.
func (s *static) leave(r *member, _ bool) {
	if r.listed {
		r.listed = false
		// The search is short: the list holds the jobs with a task that has completed since the last round.
		s.grown = slices.Delete(s.grown, slices.Index(s.grown, r), slices.Index(s.grown, r)+1)
	}
}

func (*static) repositioned(*job.Job) {}

// due implements rule: the jobs with s_{j,k} > T_k (section IV-C).
func (s *static) due(t *Tags, list []*member) []*member {
	for _, r := range s.grown {
		// Cleared also for jobs that stay: the next task that they complete lists them again.
		r.listed = false
		if limit, ok := s.timer(r.part); ok && r.spent > limit {
			list = append(list, r)
		}
	}
	s.grown = s.grown[:0]
	// grown is in the order of task ends, which depends on the order of reports within a heartbeat. Jobs
	// enter the next partition in the order of this list, and are served in it for ever.
	slices.SortFunc(list, func(a, b *member) int {
		return cmp.Or(cmp.Compare(a.part, b.part), t.compare(a.job, b.job))
	})
	return list
}

// timer implements rule. The last partition's timer is infinite (reading 6 in README.md).
func (s *static) timer(part int) (time.Duration, bool) {
	if part >= len(s.timers) {
		return 0, false
	}
	return s.timers[part], true
}

// dynamic is the rule of DYNAMICTAGS: in a partition whose job sizes vary much,
// the jobs above the optimal cut-off point of the sizes move.
type dynamic struct {
	cfg   DynamicConfig
	parts []sizeTracker // all but the last partition, which no job leaves
	t     *Tags
}

// sizeTracker holds the sizes that decide in one partition.
type sizeTracker struct {
	sample sample
	// history holds the sizes with which the latest jobs left, oldest first, in
	// milliseconds.
	history []int64
	// grown holds the jobs of a size above 0, the only ones that can exceed a
	// cut-off point.
	grown *sched.SortedJobs
	// cutoff is p* in milliseconds, or +Inf while the sizes are similar.
	cutoff float64
}

// NewDynamic returns DYNAMICTAGS, or an error that describes the mistake in the
// configuration.
func NewDynamic(c DynamicConfig) (*Learner, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	d := &dynamic{cfg: c, parts: make([]sizeTracker, len(c.Capacities[job.Map])-1)}
	// The lists of grown jobs sort by entry numbers, which the order keeps.
	d.t = newTags(c.Config, d)
	for i := range d.parts {
		d.parts[i].grown = sched.NewSortedJobs(d.t.compare)
		d.parts[i].cutoff = math.Inf(1)
	}
	return &Learner{Tags: d.t, d: d}, nil
}

// size returns a partial size in the unit of samples.
func size(spent time.Duration) int64 { return min(spent.Milliseconds(), maxSize) }

// counts reports whether a live job's size belongs to the sample.
func (d *dynamic) counts(x int64) bool { return x > 0 || d.cfg.Sample.Zeros }

// enter implements rule.
func (d *dynamic) enter(r *member) {
	// The last partition has no cut-off point, so it needs no sample.
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

// grow implements rule. It replaces the job's size in the sample.
func (d *dynamic) grow(r *member, before time.Duration) {
	if r.part == len(d.parts) {
		return
	}
	p, old, x := &d.parts[r.part], size(before), size(r.spent)
	// Sizes count in whole milliseconds, and a shorter task changes none.
	if old == x {
		return
	}
	if d.counts(old) {
		p.sample.remove(old)
	}
	// x is above 0 here, so it counts under every setting of sample.
	p.sample.add(x)
	// A job of size 0 was in no list: it can exceed no cut-off point.
	p.grown.Add(r.job)
}

// leave implements rule. With keep the size stays in the sample as a departed job's (reading 2 in
// README.md).
func (d *dynamic) leave(r *member, keep bool) {
	if r.part == len(d.parts) {
		return
	}
	p, x := &d.parts[r.part], size(r.spent)
	p.grown.Remove(r.job)
	if d.counts(x) {
		p.sample.remove(x)
	}
	// A job that failed had more work than its size says, and would pull the cut-off point down.
	if keep {
		d.remember(p, x)
	}
}

// remember adds a departure to the history and drops departures beyond the
// window. It keeps the history whether or not the sample uses it, so that saved
// state is complete under any setting.
func (d *dynamic) remember(p *sizeTracker, x int64) {
	p.history = append(p.history, x)
	if d.departed(x) {
		p.sample.add(x)
	}
	for d.cfg.Window > 0 && len(p.history) > d.cfg.Window {
		if d.departed(p.history[0]) {
			p.sample.remove(p.history[0])
		}
		// append copies the rest to a new array when this one is full, so dropped sizes are freed in time.
		p.history = p.history[1:]
	}
}

// departed reports whether the size of a departed job belongs to the sample.
func (d *dynamic) departed(x int64) bool { return d.cfg.Sample.Departed && d.counts(x) }

func (d *dynamic) repositioned(j *job.Job) {
	if r := d.t.members[j.Seat()]; r.part < len(d.parts) {
		d.parts[r.part].grown.Reposition(j)
	}
}

// due implements rule. It examines all partitions before any job moves.
func (d *dynamic) due(t *Tags, list []*member) []*member {
	// All samples are those before any move. A job that has just moved would otherwise count in two
	// partitions, and could move twice in one batch.
	for i := range d.parts {
		p := &d.parts[i]
		// The point follows from the sample alone, and the jobs beyond it have moved. Most tasks are of
		// large jobs, which have left these partitions, so most rounds walk through no sample.
		if !p.sample.changed {
			continue
		}
		p.sample.changed = false
		// The old point must go: a job in a partition of similar sizes has no timer, and Explain reads this
		// field.
		if p.cutoff = math.Inf(1); !p.sample.exceeds(d.cfg.Threshold) {
			continue
		}
		// Section IV-D: the jobs with s > p* move. The others stay in the sample until they end, so later
		// decisions still see them.
		p.cutoff = p.sample.cutoff()
		for _, j := range p.grown.Jobs() {
			if r := t.members[j.Seat()]; float64(size(r.spent)) > p.cutoff {
				list = append(list, r)
			}
		}
	}
	return list
}

// timer implements rule: p* of the last decision.
func (d *dynamic) timer(part int) (time.Duration, bool) {
	if part >= len(d.parts) || math.IsInf(d.parts[part].cutoff, 1) {
		return 0, false
	}
	return time.Duration(d.parts[part].cutoff * float64(time.Millisecond)), true
}

// load replaces the histories and computes the samples from them and the live
// jobs.
func (d *dynamic) load(histories [][]int64) {
	for i := range d.parts {
		p := &d.parts[i]
		// Marked as changed even if nothing is added below: the cut-off point is of the former sample.
		p.sample, p.history = sample{changed: true}, nil
		for _, j := range d.t.parts[i].all.Jobs() {
			if x := size(d.t.members[j.Seat()].spent); d.counts(x) {
				p.sample.add(x)
			}
		}
		for _, x := range histories[i] {
			d.remember(p, x)
		}
		p.history = slices.Clip(p.history)
	}
}

// Learner is DYNAMICTAGS: Tags that save the sizes of past jobs.
type Learner struct {
	*Tags
	d *dynamic
}

var (
	_ sched.Order    = (*Learner)(nil)
	_ sched.Stateful = (*Learner)(nil)
)

const (
	stateKind    = "slotwise-tags"
	stateVersion = 1
)

// learned is the saved state: for each partition but the last, the partial
// sizes in milliseconds with which jobs left it, oldest first. The sizes of
// live jobs are not saved; they follow from the completed tasks that the
// tracker keeps.
type learned struct {
	Kind     string    `json:"kind"`
	Version  int       `json:"version"`
	Departed [][]int64 `json:"departed_ms"`
}

// Save implements sched.Stateful.
func (l *Learner) Save() ([]byte, error) {
	state := learned{Kind: stateKind, Version: stateVersion, Departed: make([][]int64, len(l.d.parts))}
	for i := range l.d.parts {
		state.Departed[i] = append([]int64{}, l.d.parts[i].history...)
	}
	return json.Marshal(state)
}

// Load implements sched.Stateful. It rejects state that is damaged, of another
// kind, or of another number of partitions, and then changes nothing.
func (l *Learner) Load(state []byte) error {
	var read learned
	if err := json.Unmarshal(state, &read); err != nil {
		return fmt.Errorf("this state was not saved by dynamictags, or it is damaged: %w", err)
	}
	switch {
	case read.Kind != stateKind:
		return fmt.Errorf("this state was not saved by dynamictags: its kind is %q", read.Kind)
	case read.Version != stateVersion:
		return fmt.Errorf("this state has version %d; only version %d can be read", read.Version, stateVersion)
	case len(read.Departed) != len(l.d.parts):
		return fmt.Errorf("this state was saved by dynamictags with %d size partitions; the policy has %d", len(read.Departed)+1, len(l.d.parts)+1)
	}
	for _, sizes := range read.Departed {
		for _, x := range sizes {
			if x < 0 || x > maxSize {
				return fmt.Errorf("state of dynamictags is damaged: a size of %d ms", x)
			}
		}
	}
	l.d.load(read.Departed)
	return nil
}
