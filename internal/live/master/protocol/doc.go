// Package protocol is the pure core of the master: the conversations with
// workers and users as a state machine around the tracker.
//
//	Handle(now, message) → replies, journal records, instructions
//
// Like the tracker it has no clock, goroutine, lock, I/O or random number of its
// own. The shell (internal/live/master) turns RPCs into messages, makes the records
// durable, and only then lets replies leave and carries instructions out. The fault runs
// (internal/testkit/faultrun) drive the same code with a virtual clock, a journal in
// memory and a network that loses, repeats and reorders.
//
// # Order of messages
//
//	worker              shell               core               storage
//	  │ Register          │                   │                   │
//	  │──────────────────►│ Register ────────►│                   │
//	  │   session         │◄──────── records, │                   │
//	  │◄───────── (fsync) │          reply    │                   │
//	  │ Heartbeat 1       │                   │                   │
//	  │──────────────────►│ Heartbeat ───────►│ held: no action   │
//	  │                   │ Submit ──────────►│                   │
//	  │                   │◄────── StageOutput│                   │
//	  │                   │──────────────────────────────────────►│
//	  │                   │ Staged ──────────►│ accepted, launch  │
//	  │  to 1: launch (1) │◄── records, reply │                   │
//	  │◄───────── (fsync) │                   │                   │
//	  │ Heartbeat 2,      │                   │                   │
//	  │   acked 1, done   │                   │                   │
//	  │──────────────────►│ Heartbeat ───────►│ last task done    │
//	  │                   │◄───── CommitOutput│                   │
//	  │                   │──────────────────────────────────────►│
//	  │                   │ OutputFinished ──►│                   │
//	  │                   │◄───── WriteHistory│                   │
//	  │                   │ HistoryWritten ──►│ finished          │
//	  │  to 2: drop job(2)│◄── records, reply │                   │
//	  │◄───────── (fsync) │                   │                   │
//
// # What may go wrong
//
// Any request or reply may be lost, delayed, repeated or overtaken. The master may
// die between any two records. A worker may die, freeze, or return with or without its
// files. These rules make each message safe:
//
//   - A Register carries the worker's incarnation and a number. One that was
//     overtaken by a later one is refused (Aborted). A new session invalidates
//     the older one: everything sent in that gets register_again.
//   - A Heartbeat carries a sequence number. From one that was overtaken only ends
//     of attempts count, and ends are idempotent: the tracker ignores the end of
//     an attempt that has ended.
//   - Actions for a worker wait in its session's outbox, numbered from 1, until a
//     heartbeat acknowledges them. Every reply repeats the whole outbox, and
//     workers skip numbers that they have carried out. A launch in the outbox may
//     not have arrived yet, so its attempt is not missed in heartbeats.
//   - Permission to commit, accepted jobs and ended attempts are in the journal
//     before a reply reveals them. Repeating AskCommit or Submit (with the same
//     request id) has the same answer, also after a restart.
//   - Instructions are idempotent. Restore repeats the instructions that were not finished when
//     the master died.
//
// # Invariants
//
//	a worker has at most one current session
//	an outbox holds actions with consecutive numbers, all above the acknowledged one
//	an attempt is in its worker's alive list from its launch until the worker, or
//	  the worker's loss, says that it is gone
//	a job's output is committed or aborted only when none of its attempts is alive,
//	  or Config.Grace has passed
//	every call gets one reply
//
// # The files
//
// core.go takes a message to its handler, and message.go declares all messages. worker.go has the sessions and
// outboxes of workers, submit.go the way of a request to an accepted job, jobs.go a job's outputs and end,
// outputs.go the logs of map outputs that reduces read, room.go the bounds on jobs and tasks, and chain*.go the
// chains. journal.go makes records and facts.go translates the tracker's; restore.go applies them and compact.go
// shortens them. What only reads is in status.go, listing.go, describe.go, slow.go and forecast.go; advice.go
// words it. border.go and wire.go check what comes from outside, and check.go the invariants above.
package protocol
