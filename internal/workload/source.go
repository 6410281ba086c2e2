package workload

import (
	"fmt"
	"math/rand/v2"

	"github.com/slotwise/slotwise/internal/job"
)

// Source makes the jobs of a run: a mix, a generator, or what was read from a
// trace. The same seed gives the same jobs. The slice is the caller's; its tasks
// may be shared between calls and must not be changed.
type Source interface {
	Jobs(seed uint64) ([]Job, error)
}

// JobList is a Source of jobs that do not depend on the seed.
type JobList []Job

// Jobs returns a copy of the list.
func (l JobList) Jobs(uint64) ([]Job, error) { return append([]Job(nil), l...), nil }

// Limits that keep a slip of the pen (a size in bytes where blocks were meant)
// from filling the memory.
const (
	// MaxTasks is how many maps or reduces a job may have.
	MaxTasks = 1 << 20
	// MaxJobs is how many jobs a source may have.
	MaxJobs = 1 << 22
	// MaxTotal is how many tasks all jobs of a source may have together.
	MaxTotal = 1 << 25
)

// checkTasks says if a job has too many tasks of a kind. It must be asked before
// they are made.
func checkTasks(kind job.Kind, n float64) error {
	if !(n <= MaxTasks) {
		return fmt.Errorf("%.0f %ss, a job may have %d", n, kind, MaxTasks)
	}
	return nil
}

// generator returns a generator for a use, known by its name, and a subject.
// What is drawn for one does not depend on what is drawn for others.
func generator(seed uint64, use string, subject int) *rand.Rand {
	h := uint64(14695981039346656037) // FNV-1a
	for i := range len(use) {
		h = (h ^ uint64(use[i])) * 1099511628211
	}
	return rand.New(rand.NewPCG(spread(seed^spread(h)), spread(uint64(subject))))
}

// spread spreads a number over all bits (the finisher of SplitMix64).
func spread(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// split cuts bytes into maps of a block each, the last one with the rest; one
// map of nothing if there are none.
func split(bytes, block int64) ([]Task, error) {
	n := max(1, bytes/block)
	if bytes > block && bytes%block != 0 {
		n++
	}
	if err := checkTasks(job.Map, float64(n)); err != nil {
		return nil, err
	}
	tasks := make([]Task, n)
	for i := range tasks {
		tasks[i].Input = min(block, bytes)
		bytes -= tasks[i].Input
	}
	return tasks, nil
}

// share returns the part of a total that the i-th of n gets, such that all
// parts together are the total and no two differ by more than 1.
func share(total int64, i, n int) int64 {
	part := total / int64(n)
	if int64(i) < total%int64(n) {
		part++
	}
	return part
}
