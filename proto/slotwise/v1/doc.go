// Package slotwisev1 holds the messages that master, workers, attempts and clients
// exchange. It is generated from the .proto files beside it, which say what each message
// and field means, by proto/generate.sh.
//
//	client                   server   protocol
//	worker                   master   frames with WorkerCall, and WorkerService, in worker.proto
//	commands and programs    master   ClientService in client.proto; PUT, GET, HEAD /files/SHA256
//	worker                   attempt  two pipes, attempt.proto
//	reduce; readers of logs  worker   HTTP: /v1/outputs/…, /v1/logs/…
//
// journal.proto has the records of the master's journal. A reduce's requests are described
// in internal/data/shuffle/netshuffle.
//
// # Calls
//
// The services use Connect over HTTP: a call is a POST of one message in protobuf or JSON,
// so any HTTP client can make it. Over TLS they also accept gRPC.
//
//	curl -H 'Content-Type: application/json' -d '{"job": "j1"}' \
//	  http://127.0.0.1:7077/slotwise.v1.ClientService/Job
//
// A token or a certificate identifies the caller. A message has at most 64 MiB. An error
// has one of Connect's codes and a sentence for users. After unavailable and after a broken
// connection a client repeats the call with growing pauses; every call may be repeated.
// Another error is the master's answer, which a repeated call does not change.
//
// A worker's calls for each task, Heartbeat, AskCommit, JobForWorker and MapOutputs, are frames on one
// connection, which internal/live/frames describes. They also exist as calls of the service, for workers of the
// previous release and programs in other languages, and do the same.
//
// # Sessions
//
// Register begins a session and ends an earlier one of the same worker. The worker sends
// its name, address and slots, and lists every attempt that it runs and every map output
// that it holds. The master declares lost what it expected there and did not find listed,
// orders the worker to kill attempts that it does not want, and names ended jobs in
// drop_jobs. Everything else continues. Registering again answers every doubt:
//
//	The master was restarted, or had given the worker up: the next heartbeat gets
//	  register_again. After a restart attempts and outputs continue; a worker that was
//	  given up kills and removes them, because they were given up with it.
//	The worker was restarted: the master sees another incarnation. Its attempts are lost,
//	  the outputs on its disk continue.
//	Another process registered under the name: the older one gets register_again. A lock on
//	  the worker's directory prevents this unless names are set by hand.
//	The master is another one (master in the answer differs): the worker kills and removes
//	  everything of the former master and registers once more.
//
// # Heartbeats
//
// A worker numbers its heartbeats (seq) and keeps one under way. The master holds its
// answer for up to wait_ms and answers as soon as there is an action other than drop_job. To report
// something meanwhile, above all the end of an attempt, the worker sends a second heartbeat without
// wait_ms. The master answers it at once, with the actions that it leads to, and keeps holding the
// first. So a task costs one call. A second heartbeat with wait_ms takes the place of the first, which
// is answered without actions. If heartbeats overtake each other, only ends of attempts count from
// the older one.
//
//	worker                                  master
//	  │ 7: wait 500 ms, acked 3                │
//	  │───────────────────────────────────────►│ no action: held
//	  │               to 7: action 4, a launch │ a task starts
//	  │◄───────────────────────────────────────│
//	  │ 8: wait 500 ms, acked 4,               │
//	  │    j1_m_0_0 running                    │
//	  │───────────────────────────────────────►│ held
//	  │ 9: acked 4, j1_m_0_0 succeeded         │
//	  │───────────────────────────────────────►│ 9 is written to the journal
//	  │               to 9: action 5, a launch │
//	  │◄───────────────────────────────────────│ 8 is still held
//
// A heartbeat names every attempt that runs, and every ended one until an answer confirms
// its end. An attempt whose launch was acknowledged and that is not named is lost, so a
// lost launch costs one heartbeat and not a time-out. leaving announces an orderly end: the
// worker's attempts and outputs are lost at once. After the node timeout without a
// heartbeat the master gives the worker up. A master that did not run itself for a quarter of it or longer gives all
// workers half of it to be heard again. Each answer names the longest silence that the
// master wants: 500 ms, or 3 ms for each worker if that is longer.
//
// # Actions
//
// An action is a launch, a kill, the removal of an ended job's files, or the start or stop
// of a chain's driver. The master numbers them from 1 within a session. Every answer repeats
// all actions that acked does not cover, in order, and the worker skips those that it has
// carried out. A launch holds the attempt, its slot and its split; the first one of a job in a
// session also holds what all its attempts share, or JobForWorker returns it. Every heartbeat lists the worker's drivers: a driver
// that is not listed is lost, and one that is not its chain's current driver is stopped.
//
// MapOutputs reads a log of where each map's output is, or that it is lost. A worker reads
// it once for all reduces of a job, from a cursor on. reset means that the cursor is from
// an earlier life of the master: the worker forgets the outputs that it knows.
//
// AskCommit has the same answer however often it is repeated. At most one attempt of a task
// has the permission at any time, and the permission is in the journal before the answer
// leaves. Other attempts that ask are refused and killed. If the attempt dies before it has
// succeeded, another may get the permission and replaces the staged files.
//
// KeepLogs carries the ends of logs and is repeated until it is answered. The master ignores
// logs of attempts that did not run on that worker. The answer names jobs whose logs have
// reached their bound; the worker then sends logs of failed attempts only.
//
// # Attempts
//
// The worker starts the job's executable with SLOTWISE_ATTEMPT=1, or =driver for the driver
// of a chain. A program in another language can be that executable if it speaks this
// protocol; streaming commands need not.
//
//	ToAttempt                                  FromAttempt
//	order or drive, first                      progress, also ticks without progress
//	map_outputs, to a reduce                   fetch_failure, by a reduce
//	commit: the answer                         ask_commit
//	stop; a second later it is killed          done: result, counters, name of the output
//
// An attempt that ends without done has failed. final in done says that another driver
// would fail with the same error.
//
// # Submitting
//
// Cluster returns what a client needs to plan a job. The client asks by HEAD whether the
// master has a file and sends it by PUT if not; the master verifies the content. Submit
// carries the job with all its splits and a request_id: the same id of the same user
// returns the same job, also after a restart. Job with wait_ms and after is answered when
// the job's revision is above after. SubmitChain submits a chain, whose id then takes the
// place of a job's in Job, Kill, SetPriority, Move, Explain and History. Its driver submits
// the steps by Submit with the field chain. A step is identified by chain and output; digest
// covers its parameters and inputs, and a step with another digest is refused.
//
// # Changing the messages
//
// The number of a field is never used again. Fields are only added, and a message without
// them means the same as before.
package slotwisev1
