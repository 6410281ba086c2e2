// Package tumm changes how many slots of a node run maps and how many run reduces
// as the remaining work demands: TuMM for clusters of equal nodes and H_TuMM for
// unequal ones (Yao, Wang, Sheng, Tan, Mi: Self-Adjusting Slot Configurations for
// Homogeneous and Heterogeneous Hadoop Clusters, IEEE Trans. Cloud Computing
// 2015).
//
// Under first come, first served about two jobs are active: one runs its maps,
// and the job before it its reduces. Both phases end at the same time if slots
// are split between the kinds in proportion to the remaining work. Remaining work
// is the number of remaining tasks times the mean time of finished ones. The
// parts of the paper are in these files:
//
//	workload monitor, Algorithm 2    monitor.go    means, remaining work, phases
//	target, Eq. 4–7                  target.go     s_m and s_r of the cluster
//	slot assigner, Algorithm 3       target.go     a node's split and its next kind
//	prior knowledge, 4.1             tumm.go       task times that a simulation states
//	H_TuMM's assigner, Algorithm 4   target.go     a node's split from its own means
//	the policies themselves          node.go, tumm.go, htumm.go    what both share, and each
//
// The total of a node never changes: its maps and reduces together are at most
// its map and reduce slots together. A running task keeps its slot when the split
// changes, so a kind may run more than its target for a while.
//
// # Guarantees
//
// Both policies never fill a node beyond its total and kill no task for a new
// split. With the fallbacks within_target and any, a task that can run will run:
// TuMM's bounds leave each node a slot of each kind.
package tumm
