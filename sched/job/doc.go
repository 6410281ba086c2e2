// Package job holds the state of jobs, tasks and attempts.
//
// The package separates reading from writing. All methods of Job, Task, Attempt and
// List only read. All changes go through a Book, which the tracker owns. A policy gets
// jobs but no Book, so it cannot change a job; the compiler enforces this. Nothing
// here reads a clock, and no result depends on the iteration order of a map.
//
// Costs: counts are updated with each change, so reading one is O(1). Finding the best
// pending task of a job for a node is O(1), amortised over the life of the job.
package job
