package learning

import "github.com/slotwise/slotwise/internal/job"

// maxHint is the heaviest rating of a job's use of a resource.
const maxHint = 10

// middle is assumed while no job has said anything. Any constant does: it is
// the same for all.
const middle = 5

// Hints counts what jobs said of their tasks, to guess what those that say
// nothing would have said: the most frequent value, of two equally frequent ones
// the lesser (A1, reading Q3).
type Hints struct {
	count [job.Kinds][4][maxHint + 1]uint32
}

func ratings(p *job.Profile) [4]*uint8 {
	return [...]*uint8{&p.CPU, &p.Memory, &p.Disk, &p.Network}
}

// Add counts what a job declares for its tasks of a kind.
func (h *Hints) Add(k job.Kind, p job.Profile) {
	for i, v := range ratings(&p) {
		if *v > 0 {
			h.count[k][i][min(*v, maxHint)]++
		}
	}
}

// Fill replaces what a profile leaves out. The answer must be kept for the life
// of the job, since it changes as other jobs come.
func (h *Hints) Fill(k job.Kind, p job.Profile) job.Profile {
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
