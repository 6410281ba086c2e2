// Package pages provides what the web console shows (package source) where no master runs:
//
//	archive.go  a history, of a master or of runs
//	view.go     the clusters that run in this process
//	visitor.go  who has sent a request
//
// A View is the observer of the clusters of this process, and keeps the history of ended jobs.
// Requests for pages read the tracker in the cluster's loop, some tasks at a time. A job's
// record is made in the loop when the job ends, and written by another goroutine.
//
// To show more about a run: add a method to source.Source, whose implementations here are View for
// jobs that run, which reads the tracker with inspect, and Archive for ended ones. Nothing here
// blocks a loop: an answer about all tasks of a job is read in parts, and a history is written by
// another goroutine.
package pages
