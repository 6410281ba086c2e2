// Package sim runs the job tracker and a policy, the same code that schedules real jobs,
// on a virtual cluster with a virtual clock.
//
// The simulator is one more shell around tracker.Step. It has a queue of events ordered by
// (time, sequence number), translates each into an event of the tracker, and carries out
// the effects on virtual nodes. It makes no scheduling decision. A run begins with an empty
// cluster, or continues from the state of a live one (Start), as forecasts do.
//
//	queue.go    the queue of events: a 4-ary heap, and a ring for heartbeats
//	park.go     nodes without work, whose heartbeats are computed
//	run.go      Run: the loop
//	beat.go     heartbeats: their interval and the reports in them
//	start.go    runs that continue from a state
//	pulse.go    heartbeats of runs that continue
//	effect.go   the tracker's effects
//	attempt.go  attempts and their stages
//	gate.go     how reduces wait for the outputs of maps
//	station.go  a resource of a node, shared equally by its users
//	plant.go    the resources of a node together
//	crowd.go    more tasks than slots or processors
//	background.go  processors that other programs take
//	distance.go maps of a trace that read from other nodes
//	paging.go   the memory of machines, and tasks that wait for pages
//	load.go     the load that a node reports
//	network.go  NICs, rack uplinks and the core link, shared max-min fairly
//	failure.go  crashes of nodes, and the outputs lost with them
//	place.go    nodes, racks and the placement of blocks
//
// The name of a node is the name of its group, or "node", followed by its number in the
// cluster, from 1. Hosts in a workload are these names. The nodes go to the racks /rack1,
// /rack2, … in turn.
//
// # The model of a task
//
// A task with a given duration takes that long on a node of speed 1, unless the node runs
// more than its slots (crowd.go) or lacks memory (paging.go). A reduce with a given duration fetches during the fraction
// ModelConfig.ShuffleShare of this time, which cannot end before the last map.
//
// Other tasks have stages. Each stage uses one resource of the node:
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
// fair over these links, exactly; senders' disks, their NICs and the
// replicas of a job's output are not modelled.
package sim
