package learning

import "github.com/slotwise/slotwise/sched/job"

// maxHint is the highest rating of a job's use of a resource.
const maxHint = 10

// middle is the rating assumed before any job has declared one. Its value does
// not matter, because all jobs get the same.
const middle = 5

// Hints counts the declared resource hints and guesses missing ones from them:
// the most frequent value, and of several equally frequent values the lowest
// (reading 3 in README.md).
type Hints struct {
	count [job.Kinds][4][maxHint + 1]uint32
}

// ratings returns pointers to the hints, in the order of Hints.count.
func ratings(p *job.Ratings) [4]*uint8 {
	return [...]*uint8{&p.CPU, &p.Memory, &p.Disk, &p.Network}
}

// Add counts the hints that a job declares for its tasks of a kind.
func (h *Hints) Add(k job.Kind, p job.Ratings) {
	for i, v := range ratings(&p) {
		if *v > 0 {
			h.count[k][i][min(*v, maxHint)]++
		}
	}
}

// Fill returns the hints with missing ones filled in. The caller keeps the
// result for the life of the job, because a later call may return other values.
func (h *Hints) Fill(k job.Kind, p job.Ratings) job.Ratings {
	for i, v := range ratings(&p) {
		switch {
		case *v == 0:
			*v = mode(&h.count[k][i])
		case *v > maxHint:
			*v = maxHint
		}
	}
	return p
}

// mode returns the most frequent rating.
func mode(count *[maxHint + 1]uint32) uint8 {
	best := 0
	for v := 1; v <= maxHint; v++ {
		if count[v] > 0 && (best == 0 || count[v] > count[best]) {
			best = v
		}
	}
	if best == 0 {
		return middle
	}
	return uint8(best)
}
