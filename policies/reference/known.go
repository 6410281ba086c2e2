package reference

import (
	"cmp"
	"math"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// Known is an order of jobs whose sizes are known in advance, the smallest first. No
// scheduler of a live cluster knows the sizes, so Known is a reference for comparisons. It
// ignores priorities and pools.
//
// SRPT ranks a job by its remaining work (shortest remaining processing time). On one
// server that can be preempted at any time, no order has a smaller mean response time
// (Schrage 1968). On many slots it is a strong reference and no bound. The remaining work is,
// for each kind, the work of the job times the share of its tasks that is unfinished. A task
// counts in full until it succeeds.
//
// PSJF ranks a job by its whole work (preemptive shortest job first), which never changes.
//
// A job whose size is not known counts one second for each task.
//
// A smaller job gets slots as tasks of larger jobs end, so nothing is lost. With
// KnownConfig.Preempt, tasks of larger jobs are killed for its sake.
type Known struct {
	*sched.SortedOrder
	cfg       KnownConfig
	remaining bool
	view      *sched.View
	sizes     []size // by job seat
	victims   []sched.Victim
}

// size holds Known's statistics of one job.
type size struct {
	work [job.Kinds]float64 // seconds of all tasks of a kind
	rank float64            // the key of the order, in seconds
	// asked says, by kind, that attempts were killed for the job and none of its tasks of that
	// kind has started since.
	asked [job.Kinds]bool
}

var (
	_ sched.Order         = (*Known)(nil)
	_ sched.SizeReader    = (*Known)(nil)
	_ sched.Starter       = (*Known)(nil)
	_ sched.JobWatcher    = (*Known)(nil)
	_ sched.ChangeWatcher = (*Known)(nil)
	_ sched.TaskWatcher   = (*Known)(nil)
	_ sched.Periodic      = (*Known)(nil)
	_ sched.Preempter     = (*Known)(nil)
)

// KnownConfig holds the parameters of SRPT and PSJF.
type KnownConfig struct {
	// Preempt kills tasks of larger jobs when a smaller job has pending tasks and too few
	// slots are free. The killed tasks start again from the beginning.
	Preempt bool
	// PreemptInterval is the time between two rounds of preemption. It is above 0.
	PreemptInterval time.Duration
}

func (c *KnownConfig) bind() sched.Bindings {
	return sched.Bindings{
		sched.Bind(&c.Preempt, sched.Bool(), sched.Param{Name: "kill-larger", Default: "false", Tune: []string{"false", "true"},
			Help: "Whether tasks of larger jobs are killed for a smaller one that waits: true or false. With false it gets slots as " +
				"tasks end, and no work is lost. true repeats the killed tasks, which pays where tasks are long."}),
		sched.Bind(&c.PreemptInterval, sched.PositiveDuration(), sched.Param{Name: "kill-interval", Default: "5s",
			Help: "With kill-larger=true: the time between two rounds of killing. Freed slots are filled at the next heartbeats."}),
	}
}

// KnownParams documents the parameters of SRPT and PSJF.
func KnownParams() []sched.Param { return new(KnownConfig).bind().Params() }

// ReadSRPT returns SRPT with the parameters that the user has set.
func ReadSRPT(k *sched.Kit) (sched.Order, error) { return readKnown(k, true) }

// ReadPSJF returns PSJF with the parameters that the user has set.
func ReadPSJF(k *sched.Kit) (sched.Order, error) { return readKnown(k, false) }

func readKnown(k *sched.Kit, remaining bool) (sched.Order, error) {
	x := &Known{remaining: remaining}
	if err := k.Read(x.cfg.bind()); err != nil {
		return nil, err
	}
	x.SortedOrder = sched.NewSortedOrder(func(a, b *job.Job) int {
		return cmp.Compare(x.sizes[a.Seat()].rank, x.sizes[b.Seat()].rank)
	})
	return x, nil
}

// Start implements sched.Starter.
func (x *Known) Start(v *sched.View, _ time.Duration) { x.view = v }

// JobAdded implements sched.JobWatcher.
func (x *Known) JobAdded(j *job.Job) {
	for j.Seat() >= len(x.sizes) {
		x.sizes = append(x.sizes, size{})
	}
	s := &x.sizes[j.Seat()]
	*s = size{work: [job.Kinds]float64{float64(j.Total(job.Map)), float64(j.Total(job.Reduce))}}
	s.rank = x.rank(j)
	x.SortedOrder.JobAdded(j)
}

// Know implements sched.SizeReader.
func (x *Known) Know(j *job.Job, work [job.Kinds]time.Duration) {
	for k, d := range work {
		x.sizes[j.Seat()].work[k] = d.Seconds()
	}
	x.reposition(j)
}

// TaskStarted implements sched.TaskWatcher.
func (x *Known) TaskStarted(a *job.Attempt, _ time.Duration) {
	x.sizes[a.Job().Seat()].asked[a.Kind()] = false
}

// TaskEnded implements sched.TaskWatcher.
func (x *Known) TaskEnded(a *job.Attempt, _ time.Duration) {
	// Under PSJF the rank is the whole work, and a failed attempt does not change the remaining work.
	if x.remaining && a.State() == job.AttemptSucceeded {
		x.reposition(a.Job())
	}
}

// reposition moves a job to where it belongs now that its size has changed. The lists are
// searched by the old rank, so it changes between the two calls.
func (x *Known) reposition(j *job.Job) {
	rank := x.rank(j)
	if rank == x.sizes[j.Seat()].rank {
		return
	}
	x.SortedOrder.JobRemoved(j)
	x.sizes[j.Seat()].rank = rank
	x.SortedOrder.JobAdded(j)
}

// rank returns the work of a job in seconds: the remaining work under SRPT, else the whole
// work.
func (x *Known) rank(j *job.Job) float64 {
	sum := 0.0
	for k, work := range x.sizes[j.Seat()].work {
		total := j.Total(job.Kind(k))
		switch {
		case total == 0:
		case x.remaining:
			sum += work * float64(j.Unfinished(job.Kind(k))) / float64(total)
		default:
			sum += work
		}
	}
	return sum
}

// Interval implements sched.Periodic. Without preemption nothing is periodic.
func (x *Known) Interval() time.Duration {
	if !x.cfg.Preempt {
		return math.MaxInt64
	}
	return x.cfg.PreemptInterval
}

// Update implements sched.Periodic. It chooses the attempts to kill.
func (x *Known) Update(time.Duration) {
	if !x.cfg.Preempt {
		return
	}
	for k := range job.Kind(job.Kinds) {
		x.chooseVictims(k)
	}
}

// chooseVictims chooses attempts of the largest jobs, newest first, for the pending tasks of
// smaller jobs. After a job has had attempts killed, it must start a task before more are
// killed: perhaps it could not use the slots, because of its nodes or of the policy's slots.
func (x *Known) chooseVictims(k job.Kind) {
	free := x.view.Nodes().Slots(k) - x.view.Jobs().OccupiedOn(job.Map, k) - x.view.Jobs().OccupiedOn(job.Reduce, k)
	jobs := x.Jobs()
	last, next := len(jobs)-1, (*job.Attempt)(nil) // the job that loses attempts, and its next one to lose
	for i, j := range jobs {
		if !j.Launchable(k) {
			continue
		}
		want := j.Pending(k) * j.Width()
		// Smaller jobs come first and take the free slots in this account, as they will at the next
		// heartbeats.
		free -= want
		// Free slots suffice so far. A job that had attempts killed before must show that it can use the
		// slots.
		if free >= 0 || x.sizes[j.Seat()].asked[k] {
			continue
		}
		for short := min(want, -free); short > 0; {
			// From the largest job down, each attempt once: next and last stay where they are for the
			// following jobs.
			for next == nil && last > i {
				next = jobs[last].Newest(k)
				if next == nil {
					last--
				}
			}
			if next == nil || last <= i {
				return // no larger job has an attempt left
			}
			// An attempt in a lent slot would free one of the other kind.
			if next.Slot() == k && x.rank(jobs[last]) > x.rank(j) {
				x.victims = append(x.victims, sched.Victim{Attempt: next})
				x.sizes[j.Seat()].asked[k] = true
				short -= next.Width()
				free += next.Width()
			}
			if next = next.Prev(); next == nil {
				last--
			}
		}
	}
}

// Preempt implements sched.Preempter.
func (x *Known) Preempt(time.Duration) []sched.Victim {
	v := x.victims
	x.victims = nil
	return v
}
