package storage

import "time"

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
	// content has an ID of its own: on S3.
	ModTime int64
}

// Versioned is a File that knows its version when it was opened.
type Versioned interface {
	File
	Version() Version
}

// Rewritable is a Versioned file that another process can overwrite in place: the new content
// has the old ID, and looks like a file that has grown if it is longer.
type Rewritable interface {
	Versioned
	Rewritable()
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
// grown says that it is larger now.
func (v Version) Replaced(then Version, grown bool) bool {
	switch {
	case v == (Version{}) || then == (Version{}):
		return false
	case then.ModTime == 0:
		return v.ID != then.ID
	case sameTime(v.ModTime, then.ModTime):
		// The IDs do not count: some file systems of users give a file another one at each
		// mount, and all jobs on them would fail.
		return false
	case grown:
		return v.ID != then.ID
	}
	return true
}
