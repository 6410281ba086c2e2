// Package faultfs makes storage fail on purpose. Tests use it to see how code behaves
// when a disk is full, a file cannot be read, a write is torn, a process is killed in
// the middle of a commit, or a crash loses unsynced data.
//
// Faults decides which operations fail. It drives four kinds of storage:
//
//	FS       a wrapper of any storage.FS (inputs, outputs)
//	Scratch  a wrapper of any storage.Scratch (spills)
//	Disk     a disk in memory that forgets unsynced data (journal, history)
//	Tree     a file system in memory on such a disk (staged output)
package faultfs

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
)

// Op is a kind of operation.
type Op string

// The operations. Each has a path: the file or directory that it works on, or the new
// path for Rename and Copy. In a staging of an FS it is the path that the file will
// have once published.
const (
	Any    Op = "any"
	Change Op = "change" // any operation that changes the storage

	Open Op = "open" // an existing file
	Read Op = "read"
	Stat Op = "stat"
	List Op = "list"

	Create   Op = "create"
	Write    Op = "write"
	Sync     Op = "sync"    // of a file's data
	SyncDir  Op = "syncdir" // of a directory's names
	Rename   Op = "rename"
	Exchange Op = "exchange"
	Copy     Op = "copy"
	Mkdir    Op = "mkdir"
	Put      Op = "put"
	Touch    Op = "touch"
	Remove   Op = "remove"

	Stage   Op = "stage"
	Reopen  Op = "reopen"
	Commit  Op = "commit"  // of one file
	Discard Op = "discard" // of one file
	Publish Op = "publish" // of a staging
	Abort   Op = "abort"   // of a staging
)

// Rule makes operations fail. A failing operation has no effect on the storage,
// with two exceptions: a failing Discard or Abort still cleans up, and a failing
// Write writes half of its bytes, as a full disk does.
type Rule struct {
	Op   Op     // which kind; Any and Change match several
	Path string // substring of the path; "" matches all
	Nth  int    // only the Nth match, counted from 1; 0 is every match
	Err  error  // what the operation returns, wrapped with its kind and path; nil is syscall.EIO

	// FlipBit makes a Read succeed with one bit changed.
	FlipBit bool
	// Call, if set, runs before the operation, which then succeeds unless Err is
	// set. It may use the same storage.
	Call func()
}

// ErrStopped is the error of all operations after the last one that StopAfter
// permits.
var ErrStopped = errors.New("the process has been stopped")

// Faults decides which operations fail. The zero value lets all succeed. It is
// safe for concurrent use.
type Faults struct {
	faults struct {
		sync.Mutex
		rules   []*armed
		last    string // the operation that failed last, as "op path"
		changes int    // operations so far that change the storage
		stops   bool   // StopAfter is in force
		stopAt  int    // the number of changes that succeed
		stopped bool   // an operation has been refused since
	}
}

// armed is a rule with how often it has matched and how often it has fired.
type armed struct {
	Rule
	matches, fired int
}

// Inject adds rules. If several rules match an operation, the first one that fires
// decides, but each counts the match.
func (f *Faults) Inject(rules ...Rule) {
	f.faults.Lock()
	defer f.faults.Unlock()
	for _, r := range rules {
		f.faults.rules = append(f.faults.rules, &armed{Rule: r})
	}
}

// Reset removes all rules and lets a stopped process continue.
func (f *Faults) Reset() {
	f.faults.Lock()
	defer f.faults.Unlock()
	f.faults.rules, f.faults.last = nil, ""
	f.faults.stops, f.faults.stopped = false, false
}

// Fired returns how many operations the rules have made to fail. A test that
// injects a fault checks it: otherwise it may test nothing.
func (f *Faults) Fired() int {
	f.faults.Lock()
	defer f.faults.Unlock()
	n := 0
	for _, r := range f.faults.rules {
		n += r.fired
	}
	return n
}

// LastFired returns the operation that a rule made to fail last, as "op path".
func (f *Faults) LastFired() string {
	f.faults.Lock()
	defer f.faults.Unlock()
	return f.faults.last
}

// StopAfter ends the process after n more changing operations, as a kill does. The
// changing operation after those fails, a Write after half of its bytes. From then
// on every operation fails with ErrStopped, until Reset.
func (f *Faults) StopAfter(n int) {
	f.faults.Lock()
	defer f.faults.Unlock()
	// Counted from here, so that a test stops a process at each operation after its set-up.
	f.faults.stops, f.faults.stopAt, f.faults.stopped = true, f.faults.changes+n, false
}

// Stopped reports whether an operation has been refused because of StopAfter.
func (f *Faults) Stopped() bool {
	f.faults.Lock()
	defer f.faults.Unlock()
	return f.faults.stopped
}

// Changes returns the number of changing operations so far.
func (f *Faults) Changes() int {
	f.faults.Lock()
	defer f.faults.Unlock()
	return f.faults.changes
}

// Changing is called before an operation that changes the storage. An error means
// that the operation fails.
func (f *Faults) Changing(op Op, path string) error {
	f.faults.Lock()
	// The first operation too many ends the process, and what a dead process asks for counts no more:
	// Changes says how many points there are to stop at.
	if f.faults.stops && f.faults.changes >= f.faults.stopAt {
		f.faults.stopped = true
	}
	if !f.faults.stopped {
		f.faults.changes++
	}
	f.faults.Unlock()
	_, err := f.check(op, path, true)
	return err
}

// Reading is called before an operation that changes nothing.
func (f *Faults) Reading(op Op, path string) error {
	_, err := f.check(op, path, false)
	return err
}

// check returns whether the bytes of a Read are to be damaged, and the error that
// the operation fails with.
func (f *Faults) check(op Op, path string, changes bool) (flip bool, err error) {
	f.faults.Lock()
	if f.faults.stopped {
		f.faults.Unlock()
		return false, fmt.Errorf("%s %s: %w", op, path, ErrStopped)
	}
	var fires *armed
	for _, r := range f.faults.rules {
		if r.Op != Any && r.Op != op && !(r.Op == Change && changes) || !strings.Contains(path, r.Path) {
			continue
		}
		// All rules count, also after one has fired, so Nth means the same whichever other rules
		// there are.
		r.matches++
		if fires == nil && (r.Nth == 0 || r.Nth == r.matches) {
			r.fired++
			fires = r
			f.faults.last = string(op) + " " + path
		}
	}
	f.faults.Unlock()
	if fires == nil {
		return false, nil
	}
	// Outside the lock, because Call may use the file system.
	if fires.Call != nil {
		fires.Call()
		// A rule with a Call alone is a moment and no fault: a test does something while the operation is
		// under way.
		if fires.Err == nil {
			return false, nil
		}
	}
	if fires.FlipBit {
		return true, nil
	}
	cause := fires.Err
	if cause == nil {
		cause = syscall.EIO
	}
	return false, fmt.Errorf("%s %s: injected: %w", op, path, cause)
}

// read calls readAt, which fails or damages its bytes if a rule says so.
func (f *Faults) read(path string, p []byte, off int64, readAt func([]byte, int64) (int, error)) (int, error) {
	flip, err := f.check(Read, path, false)
	if err != nil {
		return 0, err
	}
	n, err := readAt(p, off)
	if flip && n > 0 {
		p[n/2] ^= 0x10
	}
	return n, err
}

// write calls write, with half of the bytes if a rule makes it fail.
func (f *Faults) write(path string, p []byte, write func([]byte) (int, error)) (int, error) {
	// Before Changing, which may be the call that stops the process.
	dead := f.Stopped()
	err := f.Changing(Write, path)
	if err == nil {
		return write(p)
	}
	// Only the Write that the process dies in, or that a rule refuses, is torn.
	if dead {
		return 0, err
	}
	n, _ := write(p[:len(p)/2])
	return n, err
}
