// Package netshuffle brings map outputs to reduces on other machines.
//
// A worker keeps the outputs of finished maps as run files and serves their
// partitions with a Handler. A reduce has a Fetch: it is told where outputs
// are as maps finish (Update), fetches its partition of each over a bounded
// number of kept-alive connections into a bounded amount of memory and, beyond
// that, scratch files, and gives the reduce their records in the order of the
// maps (Collect), exactly as shuffle.Store does within one process.
//
// An output goes through these states, for one reduce:
//
//	          Update: a place                    fetched, all checksums right
//	waiting ──────────────────► queued ◄──► busy ────────────────────────────► held
//	   ▲                          │ failure  │
//	   └──────────────────────────┴──────────┘
//	          Update: lost
//
// What is held stays, whatever happens to the output afterwards: all attempts of
// a map that succeed give the same records.
//
// Failures are of three kinds. A worker that cannot be reached is left alone for
// a while that doubles each time. An output that cannot be had from a worker
// that answers is left alone likewise. Config.Tries failures in a row are reported
// (Config.Report), and every second one from then on, while the fetch tries on:
// a report is only a complaint, and the one who hears it decides whether to make
// the output again. Third, an output
// that is damaged or gone is reported at once, as such. Everything ends when
// there has been something to fetch and nothing was received for
// Config.Patience.
//
// Lock order: Fetch.mu is the only lock; no I/O and no callback happens under
// it.
package netshuffle
