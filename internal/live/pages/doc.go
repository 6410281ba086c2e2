// Package pages provides what the web console shows (package source) where no master runs:
//
//	archive.go  a history, of a master or of runs
//	view.go     the clusters that run in this process
//	visitor.go  who has sent a request
//
// A View is the observer of the clusters of this process, and keeps the history of ended jobs.
// Requests for pages read the tracker in the cluster's loop, some tasks at a time. A job's
// record is made in the loop when the job ends, and written by another goroutine.
package pages
