// Package runfile reads and writes sorted, partitioned runs on disk: spills, map
// outputs, and the binary output between the jobs of a chain.
//
//	┌────────┬───────┬───────┬───┬───────┬───────┬────────┐
//	│ header │ block │ block │ … │ block │ index │ footer │
//	└────────┴───────┴───────┴───┴───────┴───────┴────────┘
//
// Blocks are in the order of partitions, and no block contains records of two
// partitions. Each block is compressed by itself and has a checksum, which also
// covers its offset in the file. So a flipped bit, a truncated file and a misplaced
// block are errors and never give wrong records.
//
// A key equal to the previous one is not written again. Keys that only share a
// prefix are written in full. A reader then returns slices of the decoded block,
// without copying or allocating, and compression removes most of the repetition.
//
// # Layout
//
// Fixed-size integers are little-endian, a uvarint is a base-128 integer with the least
// significant group first, and checksums are xxHash64 with seed 0. The columns are offset,
// bytes and content.
//
//	header, 8 bytes                          footer, 48 bytes
//	 0  7  slotrun                            0  8  offset of the index
//	 7  1  version, 1                         8  4  length of the index
//	                                         12  4  number of partitions
//	block                                    16  4  records of the largest block, bytes
//	 0  1  codec: 0 none, 1 LZ4 block,       20  4  stored length of the largest block
//	       2 S2 block, 3 Zstandard frame     24  8  checksum of the index
//	 1  4  length of the records             32  8  checksum of the 32 bytes before
//	 5  4  length of the stored bytes        40  8  slotrun.
//	 9  8  checksum
//	17     stored bytes
//
// A block ends when the next record would exceed the block size, 64 KiB by default; a
// larger record fills a block alone. The block's checksum is the hash of the stored bytes XOR
// the hash of 17 bytes: the first nine of the block and its offset as 8 bytes. A block
// that its codec does not make smaller is stored with codec 0.
//
// A record is a uvarint k, a uvarint v, k−1 bytes of key and v bytes of value. k is the
// key's length plus one; 0 repeats the key of the previous record and cannot begin a
// block. Within a partition keys ascend as unsigned bytes, and records with equal keys
// keep the order in which they were emitted. Key and value have at most 1 GiB together.
//
// The index has three uvarints for each partition, empty ones included: the bytes of its
// blocks, its records, and the bytes of its keys and values without framing. Partitions
// follow each other from offset 8 to the index. A file has at most 4,194,304 partitions,
// and its largest block at most 1 GiB and 10 bytes of records. The two largest lengths in
// the footer tell a merge how much memory each stream needs before it opens any.
//
// # Reading
//
// A reader verifies header, footer, index, and each block before it decompresses it. At
// the end of a partition the records and bytes must equal the counts in the index. A worker
// reads files that processes of jobs have written, so it requires the job's number of
// partitions, reads the index in pieces of 32 KiB, keeps one entry, and refuses an entry
// that promises more than its blocks can hold. An error names the file, the offset and
// the contradiction.
//
// # Sections
//
// A section is one partition that is copied to another machine: the unchanged bytes of its
// blocks, and seven 8-byte integers, which travel as 112 hexadecimal digits:
//
//	 0  offset of the partition in the file, which the blocks' checksums cover
//	 8  bytes of its blocks
//	16  number of records
//	24  bytes of keys and values
//	32  records of the largest block of the file, bytes
//	40  stored length of the largest block of the file
//	48  checksum of the 48 bytes before
//
// The checksums are verified while the bytes arrive, when the section can still be fetched
// again, and once more when the records are read.
package runfile
