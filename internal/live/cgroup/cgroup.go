// Package cgroup limits the processes of attempts with control groups of Linux,
// version 2: one group per attempt, below the group that a service manager or a
// container runtime has delegated to the worker.
//
//	the worker's own group        delegated: systemd Delegate=yes, or a container
//	├── slotwise-worker           the worker itself
//	├── slotwise-ID-j1_m_0_0.1    the process that was started for an attempt, and its descendants
//	└── slotwise-ID-j1_m_1_0.2
//
// ID is the origin of the worker's directory, so several workers can share a group. A
// group that has processes cannot give controllers to groups below it. Therefore Open
// moves the worker into a separate group.
package cgroup

import "errors"

// Limits are the limits of one group.
type Limits struct {
	// Memory is the most memory in bytes, without swap; 0 is no limit. If the group
	// needs more, the kernel kills all its processes.
	Memory int64
	// Weight is the group's share of the processors, relative to its siblings: 100 is
	// the kernel's default, and 1 to 10,000 are valid.
	Weight int
	// Processes is the greatest number of processes and threads; 0 is no limit.
	Processes int
}

// controllers are the controllers that Open requires.
var controllers = []string{"cpu", "memory", "pids"}

// errNoKill reports a kernel before 5.14, which has no cgroup.kill.
var errNoKill = errors.New("the kernel has no cgroup.kill")
