// Package faultrun plays whole clusters in memory that suffer whatever can go
// wrong, thousands of them a minute, each from one seed: the true tracker and the
// true journal, and models of the rest, a master and its disk, workers, the network
// between them, shared storage and clients. All of it is in the tests.
//
//	go test ./internal/faultrun -seeds 100000
//	go test ./internal/faultrun -seed 4711 -v
//
// the second of which plays one again and prints what happens.
//
// Messages are delayed, overtake each other, are lost and come twice. Workers die,
// come back with or without what they held, freeze and wake when nobody expects
// them. The master dies at any operation on its disk, or between two; its disk runs
// full; its machine loses what was not synced. After a while all that stops, and
// then the following must have held or hold:
//
//   - each job that a client was told of ends, with one verdict for ever;
//   - a job that succeeded has exactly one committed output of each task, and
//     never two attempts at a time that may commit one;
//   - what was done and acknowledged is not done again, and what runs is not given
//     up, as long as its worker lives and is heard of;
//   - no attempt is launched twice;
//   - nothing runs or is held for jobs that have ended;
//   - all counts of the tracker equal a recount, also after each restart.
package faultrun
