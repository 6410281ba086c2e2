// Package tumm re-types the slots of nodes as the work left demands: TuMM for
// clusters of equal nodes and H_TuMM for unequal ones (Yao, Wang, Sheng, Tan,
// Mi: Self-Adjusting Slot Configurations for Homogeneous and Heterogeneous
// Hadoop Clusters, IEEE Trans. Cloud Computing 2015).
//
// Under first come, first served about two jobs are active: one runs its maps,
// the one before it its reduces. Both phases end together if slots are split
// between the kinds in proportion to the work left, which is the number of tasks
// left times the mean time of those that finished. The parts of the paper and
// where they are:
//
//	workload monitor, Algorithm 2    monitor.go    means, remaining work, phases
//	target, Eq. 4–7                  target.go     s_m and s_r of the cluster
//	slot assigner, Algorithm 3       assign.go     a node's split and its next kind
//	H_TuMM's assigner, Algorithm 4   assign.go     a node's split from its own means
//
// A node's total never changes: maps and reduces of a node together are at most
// its map and reduce slots together. A running task keeps its slot when the
// split changes, so a kind may run more than its target for a while.
//
// # Promises
//
// Both never fill a node beyond its total, and kill nothing for a new split.
// With the fallbacks within_target and any, whatever can run will run: TuMM's
// bounds leave each node a slot of each kind, and where all slots may become
// reduce slots, a reduce that waits for a map to be made again gives way if
// nothing else would (see Preempt).
package tumm
