package fair

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// updateClocks records for each pool whether it has its minimum and half its
// fair share now.
func (f *Order) updateClocks(now time.Duration) {
	for _, p := range f.pools {
		for k := range p.side {
			s := &p.side[k]
			// Hadoop's isStarvedForMinShare: a pool that wants less than its minimum is not starved.
			if s.running >= min(s.min, s.demand) {
				s.atMin = now
			}
			// Hadoop's isStarvedForFairShare truncates: a pool of 3 slots is not starved with 1.
			if s.running >= int(math.Floor(math.Min(s.share/2, float64(s.demand)))) {
				s.atHalf = now
			}
		}
	}
}

// Starving reports whether the job's pool has run too few maps for longer than
// its timeouts. The place part then starts the job's maps without waiting for
// better nodes. Without preemption there are no timeouts, and no pool starves.
func (f *Order) Starving(j *job.Job, now time.Duration) bool {
	// Without preemption nothing moves the clocks, so every pool of a file with timeouts would soon starve.
	if !f.cfg.Preempt {
		return false
	}
	p := f.jobs[j.Seat()].pool
	s := &p.side[job.Map]
	return now-s.atMin > p.limits.MinTimeout || now-s.atHalf > f.cfg.Pools.FairTimeout
}

// checkPreemption chooses the attempts to kill, at most once per
// PreemptInterval.
func (f *Order) checkPreemption(now time.Duration) {
	// Victims that the tracker has not taken yet still run, and would be counted as missing a
	// second time.
	if !f.cfg.Preempt || now-f.checked < f.cfg.PreemptInterval || len(f.victims) > 0 {
		return
	}
	f.checked = now
	for k := range job.Kind(job.Kinds) {
		var starving []*pool
		want := 0
		for _, p := range f.pools {
			// One sum for all pools: the victims are the newest tasks of the whole cluster, whichever pool
			// starves.
			if n := p.missing(k, now, f.cfg.Pools.FairTimeout); n > 0 {
				want += n
				starving = append(starving, p)
			}
		}
		if want > 0 {
			f.chooseVictims(k, want, reclaimed(starving, k, want))
		}
	}
}

// reclaimed says which pools reclaim a number of slots, as Victim.For. The slot of a victim may go to any of
// them.
func reclaimed(pools []*pool, k job.Kind, slots int) string {
	// Three names at most, since every victim keeps the text.
	const most = 3
	var names []string
	for _, p := range pools[:min(len(pools), most)] {
		names = append(names, strconv.Quote(p.name))
	}
	if more := len(pools) - most; more > 0 {
		names = append(names, fmt.Sprint(more, " more"))
	}
	who, whose := "pool "+names[0], "its time-out"
	if last := len(names) - 1; last > 0 {
		who, whose = "pools "+strings.Join(names[:last], ", ")+" and "+names[last], "their time-outs"
	}
	unit := "slots"
	if slots == 1 {
		unit = "slot"
	}
	return fmt.Sprintf("%s, which lacked %d %s %s for longer than %s", who, slots, k, unit, whose)
}

// missing returns how many slots the pool may reclaim from other pools.
func (p *pool) missing(k job.Kind, now, fairTimeout time.Duration) int {
	s, target := &p.side[k], 0
	// Both clocks are in Hadoop's tasksToPreempt, and the larger claim counts.
	if now-s.atMin > p.limits.MinTimeout {
		target = min(s.min, s.demand)
	}
	// As in Hadoop: the time-out starts below half of the share, and the whole share may then be
	// reclaimed.
	if now-s.atHalf > fairTimeout {
		target = max(target, int(math.Min(s.share, float64(s.demand))))
	}
	return max(0, target-s.running)
}

// chooseVictims adds the newest attempts of pools above their fair share to the
// victims, at most want tasks. A pool loses only tasks above its share.
// Attempts that no node has reported yet are spared, because they may not have
// started. For each of them claimed says who needs the slot.
func (f *Order) chooseVictims(k job.Kind, want int, claimed string) {
	var tasks []*job.Attempt
	left := make(map[*pool]int)
	for _, p := range f.pools {
		s := &p.side[k]
		// A pool that has no more than its share loses nothing.
		if left[p] = s.running; float64(s.running) <= s.share {
			continue
		}
		for _, x := range s.list {
			// All attempts of the pool, because the newest may be of any job. The cost is once per
			// PreemptInterval while some pool starves.
			for a := x.job.Oldest(k); a != nil; a = a.Next() {
				if a.Reported() {
					tasks = append(tasks, a)
				}
			}
		}
	}
	// The newest attempts have the least work to lose.
	slices.SortStableFunc(tasks, func(a, b *job.Attempt) int {
		return cmp.Or(cmp.Compare(b.Started(), a.Started()), cmp.Compare(b.Seq(), a.Seq()))
	})
	for _, a := range tasks {
		p := f.jobs[a.Job().Seat()].pool
		if want <= 0 {
			return
		}
		// Compared before the kill: a pool of 5 slots whose share is 4.5 loses one and runs 4, as in
		// Hadoop. Without the count of the tasks left, the newest of one pool would all be killed.
		if float64(left[p]) > p.side[k].share {
			f.victims = append(f.victims, sched.Victim{Attempt: a, For: claimed})
			left[p] -= a.Width()
			want -= a.Width()
		}
	}
}

// Preempt implements sched.Preempter.
func (f *Order) Preempt(time.Duration) []sched.Victim {
	v := f.victims
	// They are handed over once. The tracker kills them in the same step, and their ends follow as events.
	f.victims = nil
	return v
}
