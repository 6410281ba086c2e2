// Package netshuffle transfers map outputs to reduces on other machines.
//
// A worker stores the outputs of finished maps as run files and serves their
// partitions with a Handler. A reduce has a Fetch. It learns from Update where
// outputs are, as maps finish, and fetches its partition of each over a bounded
// number of keep-alive connections into a bounded amount of memory and, beyond
// that, scratch files. Collect returns the records in the order of the maps, exactly
// as shuffle.Store does within one process.
//
// For one reduce, an output has these states:
//
//	          Update: location                   fetched, all checksums right
//	waiting ──────────────────► queued ◄──► busy ────────────────────────────► held
//	   ▲                          │ failure  │
//	   └──────────────────────────┴──────────┘
//	          Update: lost
//
// A fetched output stays valid even if the map runs again, because all successful
// attempts of a map write the same records.
//
// There are three kinds of failure:
//
//   - A worker cannot be reached. The Fetch pauses requests to it, twice as long
//     after each failure.
//   - A worker answers, but an output cannot be read. The Fetch pauses requests for
//     that output in the same way.
//   - An output is damaged or gone. The Fetch reports it at once as certain.
//
// After Config.Tries consecutive failures of the first two kinds, and after every
// second one from then on, the Fetch reports the output (Config.Report) and keeps
// trying. A report is a complaint: the tracker decides whether the map runs again.
// Collect fails when outputs were waiting to be fetched and no byte arrived for
// Config.Patience.
//
// Fetch.mu is the only lock. It is not held during I/O or callbacks.
package netshuffle
