// Package sim runs the job tracker and a policy, the very ones that run for
// real, on a virtual cluster with a virtual clock.
//
// The simulator is one more shell around tracker.Step: it keeps a queue of
// events ordered by (time, sequence number), turns each into an event of the
// tracker, and carries the effects out on virtual nodes. It decides nothing that
// a scheduler decides.
//
//	queue.go    what happens next: a 4-ary heap, and a lane for heartbeats
//	run.go      Run: the loop
//	beat.go     heartbeats: what a node reports and what it gets
//	effect.go   what the tracker's effects do
//	attempt.go  the life of an attempt: its stages, one after another
//	gate.go     reduces and the outputs of maps: what they wait for
//	station.go  a resource of a node, shared equally by those who use it
//	plant.go    the resources of a node together
//	load.go     what a node says of how busy it is
//	network.go  NICs, rack uplinks and the core link, shared max-min fairly
//	failure.go  nodes that crash and return, outputs that are lost with them
//	place.go    where blocks lie
//
// Nodes are called by the name of their group, or "node", and their number in the
// whole cluster from 1: the hosts that a workload gives mean these. They go to
// the racks /rack1, /rack2, … in turn.
//
// # The model of a task
//
// A task whose workload gives a duration takes that long on a node of speed 1,
// whatever runs beside it. A reduce of that sort spends ModelConfig.ShuffleShare
// of it fetching, which cannot end before the last map has.
//
// Other tasks go through stages, each of which uses one resource of the node:
//
//	map     start · read (disk, or NIC and racks) · CPU · sort and spill (disk)
//	reduce  start · shuffle (NIC and racks) · merge (disk) · CPU · write (disk)
//
// The nodes of a group that is together are workers on one machine and share its
// processors, disk and NIC. A processor serves a task at most at the speed of one core, and is shared
// equally by more tasks than cores; disks are shared equally. The network is a
// tree of full-duplex links, seen from the receivers, who are where the traffic
// of MapReduce comes together: the NIC of the receiving node, the downlink of
// its rack and the core link. A read from a node of the same rack uses the NIC
// alone; one from another rack uses all three. The fetches of a reduce come
// from all nodes at once, so they are one transfer that weighs on the downlink
// with the fraction of the nodes that are in other racks. Rates are max-min
// fair over these links, exactly; senders' disks and NICs are not modelled, nor
// are the replicas of a job's output.
package sim
