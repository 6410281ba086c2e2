package sim

import (
	"time"

	"github.com/slotwise/slotwise/sched/job"
)

// progress returns the progress that the attempt reports, from 0 to 1. A map weighs its
// stages by the time that they take alone. A reduce has thirds for shuffle, merge and
// reduce, as in Hadoop.
func (s *sim) progress(nd *node, a *attempt) float64 {
	switch {
	case (len(s.hanging) > 0 || s.cfg.Start != nil) && a.hangs:
		return a.hangsAt
	case a.current == a.count: // it waits until it may commit
		return 1
	case a.reading():
		return s.readProgress(a)
	case a.paged:
		return s.pagedProgress(nd, a)
	case a.plain && a.current < a.count-1: // it starts
		return 0
	case a.gate:
		return s.gateProgress(a)
	// The usual case, on a timer: one subtraction and one division.
	case a.plain && a.station < 0:
		return part(s.now-a.zero, a.seconds)
	case a.plain:
		return fraction(a.read+a.stages[a.current].span-s.timeLeft(a), a.span)
	}
	return s.stageProgress(nd, a)
}

// stageProgress returns the progress of an attempt with stages.
func (s *sim) stageProgress(nd *node, a *attempt) float64 {
	st := &a.stages[a.current]
	switch {
	case a.id.Kind == job.Map:
		return s.staged(nd, a, 0)
	case st.use == useShuffle:
		if st.amount == 0 {
			return 0
		}
		got := a.got
		if a.fetching {
			got += a.transfer - s.machine(a).plant.station[a.station].left(a.self, s.now)
		}
		return min(1, got/st.amount) / 3
	case a.current < 2:
		return 0
	}
	return 1./3 + 2./3*s.staged(nd, a, 2)
}

// fraction returns d / span, but less than 1: only an ended attempt reports 1. Most reduces that wait
// for maps have waited for longer than they fetch, which needs no division.
func fraction(d, span time.Duration) float64 {
	if d >= span && span > 0 {
		return almost
	}
	return part(d, span.Seconds())
}

// almost is the highest progress of an attempt that runs.
const almost = 0.9999

// part is fraction for a span in seconds.
func part(d time.Duration, span float64) float64 {
	if span <= 0 {
		return 0
	}
	return min(almost, d.Seconds()/span)
}

// staged returns the fraction of the work of the stages from one on that is done.
func (s *sim) staged(nd *node, a *attempt, from uint8) float64 {
	done, all := 0., 0.
	for i := from; i < a.count; i++ {
		st := &a.stages[i]
		all += st.alone
		switch {
		case i < a.current:
			done += st.alone
		case i == a.current && a.station >= 0:
			left := s.machine(a).plant.station[a.station].left(a.self, s.now)
			done += float64(st.alone * (1 - left/st.amount))
		}
	}
	if all == 0 {
		return 0
	}
	return min(1, done/all)
}

// gateProgress returns the progress of a reduce of given duration. The shuffle is a third
// and follows the maps; the rest is in proportion to time.
func (s *sim) gateProgress(a *attempt) float64 {
	done, fetched := s.now-a.zero, s.now-a.from // done is the time since the end of the fetches, negative before it
	switch {
	case !a.open:
		maps := float64(a.job.done) / float64(len(a.job.spec.Maps))
		return min(maps, fraction(fetched, a.shuffle)) / 3
	case a.station >= 0: // what the clock still owes beyond the rest belongs to the fetches
		done = a.afterGate() - s.timeLeft(a)
		fetched = a.shuffle + done
	}
	if done < 0 {
		return fraction(fetched, a.shuffle) / 3
	}
	return 1./3 + 2./3*part(done, a.seconds)
}
