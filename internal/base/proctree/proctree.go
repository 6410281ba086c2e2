// Package proctree finds and kills trees of processes: a task's process and all its
// descendants, even if they have created process groups or sessions of their own.
//
// A process that calls Adopt becomes the parent of its descendants' orphans. So every
// process that its descendants start remains below it as long as it lives.
package proctree

import "time"

// Process describes a process.
type Process struct {
	PID, Parent int
	Resident    int64  // bytes in memory
	Started     uint64 // clock ticks since the boot; together with PID it is unique
	CPU         time.Duration
	Ended       bool // a zombie: its parent has not called wait yet
}

// Table is a snapshot of all visible processes, by pid.
type Table map[int]Process

// Below returns the descendants of a process, parents before children.
func (t Table) Below(pid int) []Process {
	children := make(map[int][]Process, len(t))
	for _, p := range t {
		// One pass over the table and one over the tree. A search for the children of each process would be
		// quadratic in the machine's processes.
		children[p.Parent] = append(children[p.Parent], p)
	}
	var out []Process
	// Processes end and pids are used again while the table is read, so parents may form a circle.
	seen := map[int]bool{pid: true}
	for todo := []int{pid}; len(todo) > 0; todo = todo[1:] {
		for _, c := range children[todo[0]] {
			if !seen[c.PID] {
				seen[c.PID] = true
				out = append(out, c)
				todo = append(todo, c.PID)
			}
		}
	}
	return out
}

// Use sums the resident memory in bytes and the processor time of a process and its
// descendants. Pages that several processes share count several times. Ended processes do
// not count.
func (t Table) Use(pid int) (resident int64, cpu time.Duration) {
	resident, cpu = t[pid].Resident, t[pid].CPU
	for _, p := range t.Below(pid) {
		resident += p.Resident
		cpu += p.CPU
	}
	return resident, cpu
}
