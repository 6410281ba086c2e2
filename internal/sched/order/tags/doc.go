// Package tags serves jobs by size without knowing sizes beforehand: Tyrex's
// STATICTAGS and DYNAMICTAGS (Ghit and Epema, "Tyrex: Size-Based Resource
// Allocation in MapReduce Frameworks", CCGrid 2016).
//
// The slots of the cluster are split into K partitions of fixed capacity. Every
// job starts in the first; when the tasks that it completed in a partition have
// taken longer than the partition's timer, it moves to the next, keeping all
// work done. Its running tasks are not disturbed: they end in the partition that
// they were started in.
//
//	           s > T₁             s > T₂
//	submit ─► P₁ ─────► P₂ ─────► … ─────► P_K (T_K = ∞)
//	          └─ done    └─ done            └─ done
//
// What holds between two rounds:
//
//	of a partition   slots of a kind used ≤ its limit, but for slots taken before
//	                 the limit sank or under another policy, and lent ones
//	over partitions  Σ limits = slots of the cluster, per kind
//	of a job         partition only grows, by one per round
//
// A partition is a number of slots of each kind, not a set of nodes: any slot
// may serve any partition, so every node stays in reach of every job.
package tags
