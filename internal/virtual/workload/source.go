package workload

import (
	"fmt"
	"math/rand/v2"

	"github.com/slotwise/slotwise/sched/job"
	"github.com/slotwise/slotwise/sched/portable"
)

// Source makes the jobs of a run: a mix, a generator, or a trace. The same seed
// gives the same jobs. The caller owns the slice; its tasks may be shared
// between calls and must not be changed.
type Source interface {
	Jobs(seed uint64) ([]Job, error)
}

// JobList is a Source of jobs that do not depend on the seed.
type JobList []Job

// Jobs returns a copy of the list.
func (l JobList) Jobs(uint64) ([]Job, error) { return append([]Job(nil), l...), nil }

// Limits of a source. They keep a typing error (a size in bytes where blocks were
// meant) from filling the memory.
const (
	// MaxTasks bounds the maps, and the reduces, of a job.
	MaxTasks = 1 << 20
	// MaxJobs bounds the jobs of a source.
	MaxJobs = 1 << 22
	// MaxTotal bounds the tasks of all jobs of a source together.
	MaxTotal = 1 << 25
)

// checkTasks returns an error if a job would have too many tasks of a kind.
// Callers check before they allocate the tasks.
func checkTasks(kind job.Kind, n float64) error {
	if !(n <= MaxTasks) {
		return fmt.Errorf("%.0f %ss, a job may have %d", n, kind, MaxTasks)
	}
	return nil
}

// generator returns a random generator for a purpose and a subject. Each pair
// has an independent stream, so that draws for one subject do not change those
// for another.
func generator(seed uint64, use string, subject int) *rand.Rand {
	// Mixed twice, since seeds 1, 2, 3 and subjects 0, 1, 2 differ in a few bits, and PCG's first draws would
	// be alike.
	return rand.New(rand.NewPCG(portable.Mix(seed^hash(use)), portable.Mix(uint64(subject))))
}

// hash returns the FNV-1a hash of a text, mixed.
func hash(text string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	return portable.Mix(h)
}

// split divides bytes into maps of one block each, the last with the rest. It
// returns one empty map for 0 bytes.
func split(bytes, block int64) ([]Task, error) {
	// An empty input has one map, as in Hadoop: the job must run to make its empty output.
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

// share returns the i-th of n parts of a total. The parts add up to the total
// and differ by at most 1.
func share(total int64, i, n int) int64 {
	part := total / int64(n)
	if int64(i) < total%int64(n) {
		part++
	}
	return part
}
