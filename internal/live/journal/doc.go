// Package journal keeps a log of records on disk. A record survives every crash
// that happens after Sync has returned. The master writes the tracker's facts to a
// journal and replays them after a restart. Records are opaque bytes here; journal.proto
// in proto/slotwise/v1 defines the master's.
//
// After a crash, whichever unsynced bytes the disk has kept:
//
//   - synced records are replayed, in order and once;
//   - unsynced records are replayed up to some point, and the rest is cut off;
//   - a snapshot has replaced its segments entirely, or not at all.
//
// A crash can damage only the last batch. Open refuses a journal with any other
// damage and names the file and the offset.
//
// # Files
//
// A journal is a directory:
//
//	log-NNNNNNNNNNNNNNNN        a segment; 16 decimal digits, from 1, without gaps
//	snapshot-NNNNNNNNNNNNNNNN   replaces all segments with lower numbers
//	log-….tmp, snapshot-….tmp   unfinished; Open removes them
//	lock                        empty; locked while the journal is open
//
// The snapshot with the highest number counts, with the segment of the same number and
// all later ones. Files with lower numbers are leftovers, which Open removes. A file is a
// header and batches. Fixed-size integers are little-endian, a uvarint is a base-128
// integer with the least significant group first, and checksums are xxHash64 with seed 0.
//
//	header, 32 bytes                       batch
//	 0  7  slotjnl                          0  4  length of the records
//	 7  1  version, 1                       4  8  checksum of the records
//	 8  7  number of the file              12  8  checksum of the 12 bytes before,
//	15  1  l: segment, s: snapshot                the salt and the batch's offset
//	16  8  salt: random, one for each file 20     records: length as a uvarint, bytes
//	24  8  checksum of the 24 bytes before
//
// The records that become durable together form one batch; beyond 4 MiB a batch is
// written early. A record has at most 1 GiB. A batch of a segment holds at least one
// record, and an empty batch ends a snapshot. The second checksum makes a batch valid at
// one offset of one file only, so bytes that an older file has left on the disk, or that a
// user has put into a record, are not taken for a batch.
//
// # Writing
//
// A segment is flushed after each batch and before the next, so at most one batch, the
// last, is partly on disk. At 64 MiB the next segment begins; its header and its name are
// durable before its first batch is written. A snapshot takes five steps:
//
//  1. all records are made durable;
//  2. the next segment begins; records may be appended to it during the next steps;
//  3. the snapshot of all earlier records is written to a .tmp file and flushed;
//  4. it receives its name, and the directory is flushed: from here on it counts;
//  5. the log forgets the files that it replaces, and they are removed.
//
// After an error while writing or flushing, the bytes on the disk are unknown, so the
// journal refuses records until it is opened again. Only an error in step 3, such as a
// full disk, is harmless. Before each new segment, and whenever the owner asks, the
// journal compares the open segment with the file at its path. It refuses records if they
// differ, because a restart would not find records in a directory that was moved away.
//
// # Opening
//
// Open reads and verifies every file that counts.
//
//   - The last segment may end in an incomplete batch. If no head of a batch follows, the
//     write was interrupted before the records were acknowledged: the rest is cut off and
//     reported. If a head follows, the batch was durable once and the disk has damaged it:
//     Open refuses the journal.
//   - What remains of the last segment is copied with a new salt, flushed, and renamed over
//     it before anything is replayed. After a failed flush, Linux returns the batch to
//     readers and forgets that the disk does not have it, so flushing the old file again
//     would succeed and write nothing. The copy needs at most 64 MiB and a batch.
//   - A last segment no longer than a header, with an incomplete header, is created again.
//   - A missing file, or damage in the snapshot, an earlier segment or a header, is refused.
//
// One case cannot be recognised: a durable last batch that was damaged later looks like
// an interrupted write, and is cut off.
package journal
