// Package history keeps a record of every ended job and chain, for lists, reports and
// explanations, across restarts of the master.
//
// The records are in a SQLite database, DIR/history/history.db, which any program that
// knows SQLite can read while a master writes. A write is durable when Put returns: the
// database has a write-ahead log, which is flushed first. After a kill or a loss of power
// each entry is there whole or not at all. The log needs shared memory, so DIR must be on
// a local disk.
//
//	store.go   the database: Put, Get, the limits
//	logs.go    the ends of attempts' logs
//	damage.go  what becomes of a damaged database
//	read.go    one job, and all jobs
//	query.go   lists
//	snapshot.go  a copy of the database, for backups
//
// # Tables
//
//	runs     id: twice the number of the job, plus one for a chain; submitted, ended: ms
//	         since the Unix epoch; state: number of JobState; user, pool; search: id and
//	         name in lower case; bytes: what the entry takes
//	records  id; status: the last JobStatus; whole: the HistoryJob with the tasks of a job
//	         of at most 2,000 tasks, or the steps of a chain
//	parts    id; part: 0, 1, …; tasks: a HistoryJob with up to 2,000 tasks of a larger job,
//	         in order
//	logs     run: as id in runs; name of the attempt or driver; user of the job; ended in
//	         ms; size: bytes printed; bytes that the row takes; packed: the last 64 KiB of
//	         the log, compressed
//
// status, whole, tasks and packed are compressed with zstd, whose frames have checksums.
// Many tasks share a value because no list searches for single attempts: an attempt takes
// 38 bytes, where a separate row took 68, and a job of 100,000 attempts would hold the
// database's write lock for half a second. A job's state is read without its tasks.
//
// PRAGMA user_version is the version, 2. A database of another version is refused.
//
// # Limits
//
// Beyond Limits, the jobs that ended first are removed when a job is added, at the start
// and once an hour, and at most 250,000 entries are kept. The file reuses the space and
// does not shrink. Logs that arrive together are one transaction. A job's logs have at most
// 16 MiB, compressed; beyond that only logs of failed attempts are kept, up to 32 MiB.
// Logs have a bound and an age of their own, beyond which the oldest are removed.
package history
