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
// # Requests
//
// A worker serves the outputs over HTTP/1.1:
//
//	GET /v1/outputs/<job>/<map attempt>/<reduce index>
//	Slotwise-Proof: <64 hexadecimal digits>
//	Range: bytes=<n>-                                   (to resume)
//
// The proof is the HMAC-SHA-256 of the path under the job's secret, which the master
// creates and gives to the workers that run the job's attempts. Names consist of letters,
// digits, _ and -. Links that leave the directory of outputs are not followed.
//
//	200, 206  the partition's blocks, or their bytes from n on; the header Slotwise-Section
//	          describes them (a section of package runfile)
//	400       malformed path or range
//	403       wrong proof, or unknown job
//	404       the output or the partition does not exist
//	410       the output exists, but its index is damaged
//	500       the output cannot be opened
//
// # What a reduce does
//
// It fetches five outputs at once, two from one worker, while maps still finish. Outputs
// that fit into its memory stay there; the others are appended to five scratch files, so
// memory and open files do not grow with the number of maps. Outputs on its own worker
// are verified and read from their files.
//
//	A connection breaks.      Request the rest at once, up to four times as long as each
//	                          attempt brought bytes.
//	A checksum is wrong.      Fetch once more; if it is wrong again, report at once.
//	404 or 410                Report at once.
//	No connection, or no      Pause requests to the worker: 250 ms, then twice as long each
//	answer within 30 s        time up to 20 s, less up to half of it at random. Report all
//	                          outputs wanted from it after the fourth failure and every
//	                          second one from then on.
//	Other status, no bytes    The same for this output alone.
//	A new location            Cancel the request and fetch from there.
//	The local disk fails.     The attempt fails.
//	No byte for 8 minutes     The attempt fails, if outputs are waiting.
//
// Fetch.mu is the only lock. It is not held during I/O or callbacks.
package netshuffle
