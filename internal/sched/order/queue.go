// Package order holds the parts that say whose turn it is.
package order

import (
	"slices"

	"github.com/slotwise/slotwise/internal/job"
)

// Queue is a list of jobs kept sorted as jobs come and go. compare must be a
// total order; changing what it reads of a job in the queue must be followed by
// Moved.
type Queue struct {
	jobs    []*job.Job
	compare func(a, b *job.Job) int
}

// NewQueue returns an empty queue.
func NewQueue(compare func(a, b *job.Job) int) *Queue { return &Queue{compare: compare} }

// Jobs returns the queue in order. The slice must not be changed and holds
// until the next change.
func (q *Queue) Jobs() []*job.Job { return q.jobs }

// Add puts a job in its place; one that is there already stays.
func (q *Queue) Add(j *job.Job) {
	at, found := slices.BinarySearchFunc(q.jobs, j, q.compare)
	if !found {
		q.jobs = slices.Insert(q.jobs, at, j)
	}
}

// Remove takes a job out, if it is there.
func (q *Queue) Remove(j *job.Job) {
	if at, found := slices.BinarySearchFunc(q.jobs, j, q.compare); found {
		q.jobs = slices.Delete(q.jobs, at, at+1)
	}
}

// Moved puts a job in its place again after what compare reads has changed. It
// costs the length of the queue.
func (q *Queue) Moved(j *job.Job) {
	if at := slices.Index(q.jobs, j); at >= 0 {
		q.jobs = slices.Delete(q.jobs, at, at+1)
		q.Add(j)
	}
}
