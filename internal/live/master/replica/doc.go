// Package replica is a master's part in the group of masters of one cluster: it decides
// which master leads, and which journal records are committed. The consensus is
// go.etcd.io/raft/v3, whose core is pure like this package: time is an argument, the storage is
// an interface, and messages are values. So the fault runs (internal/testkit/faultrun) drive the
// code that runs in production.
//
// One master is a group of one: it leads at once, and a record is committed when it is durable.
//
// # What a master does with it
//
//	follower ── elected, own entry committed ──► leader: restores a core from the committed
//	    ▲                                          records, gives it messages, proposes the
//	    │                                          records of each batch as one entry
//	    └── term lost ◄─ discards the core, whose last steps may be uncommitted ──┘
//
// Replies and instructions of a batch leave when all entries proposed so far are committed and
// the lease is valid. A batch without records waits for the entries before it, because it may
// have read their changes.
//
// # Members and their directories
//
// A member is a directory, not an address. Raft relies on members that never forget their votes and the
// entries that it has acknowledged: one that forgot them could vote twice in a term, or elect a leader that
// misses committed entries. So the id of a member is a random number that is made with its directory, and is
// kept in its journal. All messages carry the ids of both ends.
//
//   - The masters of a new cluster (--bootstrap) ask each other for their ids. The one with the least address
//     writes the list of all as its first entry, and the others take that list from one that has it. Before
//     that a master has no voters, so it does not vote and does not campaign.
//   - A master that is added later (--join) has no voters either. masters add asks it for its id, which is
//     recorded in the journal as a learner's. It receives the journal, and then votes.
//   - A master that has lost its directory has another id, whichever flag it is started with. Step drops
//     messages to its former id, and nothing else could make it vote or acknowledge. To the group it is like a dead
//     master until masters remove and masters add.
//   - An id that was removed is never added again, and Step drops its messages, so a removed master that
//     returns disturbs no election. The others answer that it was removed, and it ends.
//
// So no set of votes or acknowledgements contains a member that has forgotten something, and the arguments of
// raft hold. Only a copy of a directory that is older than the directory can break this: a backup of one of
// several masters must not be put back while the others live.
//
// # The lease
//
// A leader that was stopped and continues does not know that another one was elected. So
// nothing leaves it without a lease: in each heartbeat interval it asks all members to confirm
// that it leads, and the answers of a majority extend the lease to Lease after the question was
// sent. A member that has heard of a leader votes for no other one for Election, also when it
// has just started and may have forgotten a leader. Lease is three quarters of Election. The one
// exception is a transfer of leadership: the leader that requested a transfer never uses a lease again in its
// term.
//
// Why no other master leads under a lease: the leader sends the question at the real time q. A member
// of the majority hears it at h ≥ q, and gives no vote until Election has passed on its clock. Any
// other majority includes such a member. The lease ends when Lease has passed since q on the leader's
// clock. So the rule holds if the leader's clock counts at least three quarters of the time that the
// member's clock counts. Three cases:
//
//   - Both run: clocks of machines differ by parts in a thousand.
//   - The process is stopped (SIGSTOP, a debugger, no processor time): its clock continues.
//   - The machine is suspended: CLOCK_MONOTONIC does not advance and would keep a lease alive for as
//     long as the suspension lasts. Therefore the owner's clock on Linux is CLOCK_BOOTTIME, which counts
//     that time. A suspended member with this clock votes no earlier than Election in real time. With
//     a clock that does not advance it votes later, which is safe, too.
//
// Two cases are left in which a clock cannot help. A hypervisor may stop a virtual machine with all its
// clocks, and a process may be stopped between the look at the lease and the request that it permits.
// internal/data/storage/fence.go says which late requests are harmless then, and which are not.
//
// # The contract with clients and workers
//
//   - A master that does not lead answers each call of ClientService and WorkerService with
//     Unavailable and the detail NotLeader: the leader's address, empty while there is none, and
//     the term. The caller tries that address, or else the next of its list.
//   - The answers to Register and Heartbeat carry the leader's term. A worker remembers the
//     highest one and refuses orders of a lower one. Terms grow with each election. A master
//     without peers has terms, too, one for each start.
//   - The pages of a follower redirect to the leader.
//   - Instructions for storage are carried out only under the lease, and the shell has the term
//     (Master.Term) for storage that can compare it.
//   - All other state of a leader dies with its term: sessions, held calls, tokens of drivers,
//     cursors. Workers register again, and callers repeat their requests, as after a restart.
//
// # Time
//
// The owner passes the time of a clock that never runs backwards and that counts while the process is
// stopped, and where the system has such a clock while the machine is suspended.
//
// Followers do not use raft's own timers, whose randomness has no seed. The package counts the
// time since the leader was heard, and lets raft forget the leader or campaign. A leader uses
// raft's ticks, which have no randomness: it steps down if no majority answers for Election.
package replica
