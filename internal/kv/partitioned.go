package kv

// Partitioned is one map task's finished output, wherever it lives: a sorted
// buffer or table still in memory, or a run file on disk. What merges and
// serves map output reads all of them through it.
//
// A Partitioned is read-only. Several goroutines may read different
// partitions, or the same one through Streams of their own, at once. Release
// gives back its memory or file; it may be called more than once, but only
// when no Stream obtained from it is in use, and none may be asked for after.
type Partitioned interface {
	// Partition streams partition p (counted from 0) in key order. The
	// caller closes the Stream.
	Partition(p int) (Stream, error)

	// Size tells how many records partition p holds and how many bytes
	// their keys and values have together, without any framing.
	Size(p int) (records, bytes int64)

	// Release frees what the output occupies.
	Release()
}
