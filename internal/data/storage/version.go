package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/slotwise/slotwise/internal/base/retry"
)

// Version identifies the content of a file, so that a reader recognises a file that was
// replaced after a job had been planned. The zero value is an unknown version.
//
// A file that has only grown, as logs do, is still the same: jobs read the bytes that it had
// when they were planned.
type Version struct {
	// ID is the file's: another file under the same name has another one. 0 means that the
	// storage has none.
	ID uint64
	// ModTime is the time of the last change in nanoseconds since 1970. It is 0 where every
	// content has its own ID: on S3.
	ModTime int64
	// Sample is a hash of the file's first and last bytes, never 0. Only Sampled.Sample sets it. It
	// tells a file that has grown from one that was overwritten in place: both have the old ID,
	// and more bytes. 0 is not compared.
	Sample uint64
}

// Versioned is a File that knows its version when it was opened.
type Versioned interface {
	File
	Version() Version
}

// Mappable is a File that can be mapped into memory. Only local files can, on Linux.
type Mappable interface {
	File
	// Map maps n bytes of the file from off, which is a multiple of the page size. Writing to them
	// does not change the file. Reading a page beyond the file's present end raises SIGBUS. The
	// mapping lasts until Unmap, also when the file has been closed.
	Map(off int64, n int) ([]byte, error)
	Unmap(b []byte) error
}

// Sampled is implemented by file systems whose files other programs can overwrite in place. A
// job samples each of its files when it is planned, so a file that it may not read is an error
// at its start and not near its end.
type Sampled interface {
	// Sample describes a file, with Version.Sample. The error names the path if the file cannot
	// be read.
	Sample(ctx context.Context, path string) (Info, error)
}

// Rewritable is an open file of a Sampled file system.
type Rewritable interface {
	Versioned
	// Current returns the version, without Sample, and the size that the file has now.
	Current() (Version, int64, error)
}

// sampleEnd is the number of bytes at each end of a file of which Version.Sample is a hash.
const sampleEnd = 32 << 10

// sampleBuffers holds slices of sampleEnd bytes, because a job may sample very many files.
var sampleBuffers = sync.Pool{New: func() any { return new([sampleEnd]byte) }}

// sampleOf returns Version.Sample of a file that has, or had, a size in bytes.
func sampleOf(f io.ReaderAt, size int64) (uint64, error) {
	b := sampleBuffers.Get().(*[sampleEnd]byte)
	defer sampleBuffers.Put(b)
	hash := xxhash.New()
	// Up to twice sampleEnd the two ranges are the whole file.
	for _, off := range []int64{0, max(sampleEnd, size-sampleEnd)} {
		want := int(max(0, min(sampleEnd, size-off)))
		n, err := f.ReadAt(b[:want], off)
		if n < want {
			return 0, err
		}
		_, _ = hash.Write(b[:n]) // never fails
	}
	return hash.Sum64() | 1, nil
}

// CheckUnchanged returns an error unless an open file is the one that had a version and a size
// in bytes when the job was planned, or this file with more bytes behind them. A reader calls
// it when it has opened the file and, because a file may be overwritten meanwhile, again when
// it has read it.
func CheckUnchanged(f File, then Version, size int64) error {
	v, versioned := f.(Versioned)
	var now Version
	nowSize := f.Size()
	if versioned {
		now = v.Version()
	}
	local, rewritable := f.(Rewritable)
	if rewritable {
		var err error
		if now, nowSize, err = local.Current(); err != nil {
			return err
		}
	}
	if nowSize < size {
		return retry.Permanent(fmt.Errorf("it shrank from %d to %d bytes since the job was planned", size, nowSize))
	}
	replaced := versioned && now.Replaced(then, nowSize > size)
	// A sample is read only if something else has changed: most files have not.
	if now.Sample = then.Sample; !replaced && rewritable && then.Sample != 0 && (now != then || nowSize != size) {
		sample, err := sampleOf(f, size)
		if err != nil {
			return err
		}
		replaced = sample != then.Sample
	}
	if replaced {
		return retry.Permanent(errors.New("it was replaced since the job was planned: run the job again, when the job that writes this file has ended"))
	}
	return nil
}

// sameTime compares two times to the digits that both have: machines may reach one disk by
// protocols with different ones, such as whole seconds.
func sameTime(a, b int64) bool {
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond, 100} {
		if u := int64(unit); a%u == 0 || b%u == 0 {
			return a/u == b/u
		}
	}
	return a == b
}

// Replaced reports whether a file that has version v now is not the one that had version then.
// grown says that it is larger now. Samples are CheckUnchanged's to compare.
func (v Version) Replaced(then Version, grown bool) bool {
	sampled := then.Sample != 0
	switch v.Sample = then.Sample; {
	case v == (Version{Sample: v.Sample}) || then == (Version{}):
		return false
	case then.ModTime == 0:
		return v.ID != then.ID
	case sampled && sameTime(v.ModTime, then.ModTime):
		// The IDs do not count: some file systems of users give a file another one at each
		// mount, and all jobs on them would fail. HDFS has no samples, and its IDs do count: a
		// copy may have the time of the file that it replaces.
		return false
	case v.ID != then.ID:
		return true
	}
	return !grown && !sameTime(v.ModTime, then.ModTime)
}
