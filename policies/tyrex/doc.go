// Package tyrex schedules jobs by size without knowing their sizes in advance:
// Tyrex's STATICTAGS and DYNAMICTAGS (Ghit and Epema, "Tyrex: Size-Based Resource
// Allocation in MapReduce Frameworks", CCGrid 2016).
//
// The slots of the cluster are split into K size partitions of fixed capacity
// (Tyrex calls them partitions; they have nothing to do with the partitions of
// map output). Every job starts in the first. When its completed tasks of a
// partition have taken longer than the partition's timer, the job moves to the
// next one and keeps all work done. Its running tasks continue and end in the
// partition that they started in.
//
//	           s > T₁             s > T₂
//	submit ─► P₁ ─────► P₂ ─────► … ─────► P_K (T_K = ∞)
//	          └─ done    └─ done            └─ done
//
// Invariants between two rounds:
//
//	per partition    used slots of a kind ≤ its limit, except slots taken before
//	                 the limit sank or under another policy, and borrowed ones
//	all partitions   Σ limits = slots of the cluster, per kind
//	per job          the partition only grows, by one per round
//
// A partition is a number of slots of each kind and not a set of nodes. Any slot
// may serve any partition, so every job can use every node.
package tyrex
