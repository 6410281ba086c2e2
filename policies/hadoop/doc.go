// Package hadoop holds the parts of Hadoop's schedulers: slots (static, unified), the order fifo, place
// (greedy, delay, missed) and speculate (gap, late). README.md describes the policies that consist of these
// parts. The papers' policies use these parts, too. The fair and the capacity order are packages of their
// own beside this one.
//
// # Speculative copies
//
// A copy is worth its slot if the attempt is stuck or much slower than its siblings, the
// other tasks of its kind in the job. Gap and Late examine an attempt at each heartbeat of
// its node. It gets a copy if it is its task's only attempt, has no permission to commit,
// and
//
//	stalled    it had shown no sign of life for max(Stall, patience) when its node
//	           last reported, and its siblings show that this is unusual; or
//	slow       it is older than the lag, and its progress (Gap) or its rate (Late) is
//	           too low in comparison with its siblings'
//
//	patience = min(1 min, 1.5 · mean time of the finished siblings), 0 without any
//	lag      = max(5 s, patience), or 1 min while no sibling has finished
//
// Hadoop's lag is always a minute, and counts from the job's submission in 1.2.1
// (LagSinceJob). For tasks of a second this means that a stuck task
// delays its job by a minute. A comparison with siblings cannot find a stuck task that has
// no siblings, or that got stuck when it was almost done. The first condition finds these.
//
// A node that is silent reports nothing about its attempts. Therefore the heartbeat of a
// node also checks on the node before it in the cluster's list. If that node has been
// silent for Stall, and for two heartbeats of the node that checks, its attempts are
// examined as if it had reported that nothing has changed.
package hadoop
