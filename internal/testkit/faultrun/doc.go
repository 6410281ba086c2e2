// Package faultrun runs whole clusters in memory under every fault that can occur,
// thousands of clusters a minute, each from one seed. All code is in the tests.
//
//	go test ./internal/testkit/faultrun -seeds 30000 -masters 3
//	go test ./internal/testkit/faultrun -seed 4711 -v
//
// The second command repeats one run and prints what happens in it.
//
// What runs is the product's own code: the master's protocol core with its tracker,
// restore and snapshots (internal/live/master/protocol), the agreement of three masters
// (internal/live/master/replica with etcd's raft), the journal, and the worker's
// half of the protocol (internal/live/worker/agent). They exchange the messages of the
// wire. Simulated are the clock, the network, the master's disk, the processes of
// attempts, shared storage, the history, and users.
//
// Messages and replies are delayed, overtake each other, are lost and repeated.
// Workers are killed, start again with or without the map outputs on their disk,
// freeze, and wake up long after the master has given them up. There is one master or three.
// Three have clocks that differ by up to a fifth in rate and by ten seconds; they freeze, lose
// connections in one or both directions, and hand the leadership over. Their disks are slow, and a sync
// fails, after which the process must end. A master is killed at any disk operation, between two
// operations and while it commits a job's output; its disk runs full; its machine loses writes that were not synced; its wall clock jumps by up
// to a day between two lives. Attempts fail for every cause that the wire knows, some
// with error texts larger than a master keeps. Operations of the shared
// storage fail, before or after they take effect; some take effect long after their master has lost
// the leadership. Users kill jobs, also during their
// commit, drain nodes, and move jobs. Some submit chains, whose drivers crash, too. After
// a while the faults stop. Then these
// promises must have been kept:
//
//   - Each accepted job ends, with one final state for ever, and a request has one
//     job.
//   - A job that succeeded has published exactly one committed output per task; the
//     output of a job that failed or was killed is never published. Two attempts
//     that may commit the same task never exist at the same time.
//   - An attempt whose success the worker knows to be acknowledged does not run
//     again, and a running attempt is not given up, as long as its worker lives and
//     the master hears from it.
//   - No attempt is launched twice.
//   - All masters commit the same entries. Nothing leaves a master of an earlier term than one
//     that leads. A master acts within 30 seconds while the same majority runs, on disks that work,
//     and all are connected. Once the faults have stopped, a master leads within 20 seconds.
//   - Each ended job and chain is in the histories of a majority, with one outcome in all.
//   - An output is published once.
//   - Each accepted chain ends, with one final state for ever. A step of a chain is one
//     job, however many drivers submit it. A chain that succeeded has published its
//     output, and its directory is removed after the last write into it.
//   - Nothing runs or is held for a job that has ended.
//   - All counts of the tracker and of the protocol core equal a recount, after one
//     of five batches, and after each if one seed runs alone.
package faultrun
