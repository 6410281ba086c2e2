// Package job holds what the tracker knows of jobs, their tasks and the
// attempts at those tasks.
//
// The package draws one wall: everything that can be reached from a *Job or a
// *List only reads. All changes go through a *Book, which the tracker alone
// owns, so a policy that is handed jobs cannot change one; the compiler sees to
// it. Nothing here reads a clock, and nothing depends on the order of a map.
//
// Costs: every count is kept as it changes; finding the best pending task of a
// job for a node is O(1) amortised over the life of the job.
package job
