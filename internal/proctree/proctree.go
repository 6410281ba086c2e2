// Package proctree finds and ends trees of processes: a task's process, what
// that has started, and so on, in whatever process groups and sessions those
// have put themselves.
//
// A process that calls Adopt becomes the parent of its descendants' orphans.
// So everything that an adopter's descendants ever start stays below it, until
// it dies itself.
package proctree

import "time"

// Process is what is known of a process.
type Process struct {
	PID, Parent int
	Resident    int64  // bytes in memory
	Started     uint64 // in clock ticks since the boot: with PID, unique
	CPU         time.Duration
	Ended       bool // only its parent has not taken note yet
}

// Table is a snapshot of all processes that can be seen.
type Table map[int]Process

// Below returns the descendants of a process, parents before children.
func (t Table) Below(pid int) []Process {
	children := make(map[int][]Process, len(t))
	for _, p := range t {
		children[p.Parent] = append(children[p.Parent], p)
	}
	var out []Process
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

// Use sums the memory in bytes and the processor time of a process and all
// below it. Pages that several of them share count several times; what has
// ended counts no more.
func (t Table) Use(pid int) (resident int64, cpu time.Duration) {
	resident, cpu = t[pid].Resident, t[pid].CPU
	for _, p := range t.Below(pid) {
		resident += p.Resident
		cpu += p.CPU
	}
	return resident, cpu
}
