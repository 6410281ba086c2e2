package kv

// Partitioned is the finished output of one map task: a sorted buffer or table in
// memory, or a run file on disk. Merging and serving map outputs is the same for all
// of them.
//
// A Partitioned is read-only. Several goroutines may read it at a time, each through
// its own Stream. Release returns its memory or file. It may be called more than
// once, but only when no Stream is in use, and Partition must not be called after
// it.
type Partitioned interface {
	// Partition streams partition p (counted from 0) in key order. The
	// caller closes the Stream.
	Partition(p int) (Stream, error)

	// Size returns the number of records in partition p and the total size of their
	// keys and values in bytes, without framing.
	Size(p int) (records, bytes int64)

	// Release returns the output's memory or removes its file.
	Release()
}
