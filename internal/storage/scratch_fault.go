package storage

import (
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"syscall"
)

// FaultOp is the kind of operation on a scratch file that a Fault is for.
type FaultOp int

// The operations that can be made to fail.
const (
	FaultCreate FaultOp = iota
	FaultWrite
	FaultRead
)

// FaultKind is what happens to an operation.
type FaultKind int

// The ways to fail. Fail and NoSpace return an error that names the file;
// ShortWrite writes half and returns one; NoSpace writes half, as a full disk
// does; FlipBit changes a bit of what is read and says nothing.
const (
	Fail FaultKind = iota
	ShortWrite
	NoSpace
	FlipBit
)

// Fault makes one operation of a FaultScratch fail.
type Fault struct {
	Op   FaultOp
	Kind FaultKind
	Name string // substring of the file's name; empty matches all
	Nth  int    // which of the matching operations, from 1; 0 is every one
}

// FaultScratch is a Scratch for tests in which chosen operations fail.
type FaultScratch struct {
	under Scratch
	mu    struct {
		sync.Mutex
		faults []Fault
		seen   []int // matching operations so far, per fault
		fired  int
	}
}

// NewFaultScratch wraps a scratch. The FaultScratch owns it from now on.
func NewFaultScratch(under Scratch, faults ...Fault) *FaultScratch {
	s := &FaultScratch{under: under}
	s.mu.faults = faults
	s.mu.seen = make([]int, len(faults))
	return s
}

// Fired returns how many operations have been made to fail.
func (s *FaultScratch) Fired() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.fired
}

// hit returns the fault that the operation meets, if any.
func (s *FaultScratch) hit(op FaultOp, name string) (f Fault, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, c := range s.mu.faults {
		if c.Op != op || !strings.Contains(name, c.Name) {
			continue
		}
		s.mu.seen[i]++
		if !ok && (c.Nth == 0 || c.Nth == s.mu.seen[i]) {
			f, ok = c, true
			s.mu.fired++
		}
	}
	return f, ok
}

// Create makes a file below, whose operations may fail.
func (s *FaultScratch) Create(name string) (ScratchFile, error) {
	if f, ok := s.hit(FaultCreate, name); ok {
		return nil, f.err("create", name)
	}
	f, err := s.under.Create(name)
	if err != nil {
		return nil, err
	}
	return &faultFile{ScratchFile: f, s: s, name: name}, nil
}

// Close closes the scratch below.
func (s *FaultScratch) Close() error { return s.under.Close() }

func (f Fault) err(op, name string) error {
	cause := error(syscall.EIO)
	if f.Kind == NoSpace {
		cause = syscall.ENOSPC
	}
	return &fs.PathError{Op: op, Path: name, Err: cause}
}

type faultFile struct {
	ScratchFile
	s    *FaultScratch
	name string
}

func (f *faultFile) Write(b []byte) (int, error) {
	fault, ok := f.s.hit(FaultWrite, f.name)
	if !ok {
		return f.ScratchFile.Write(b)
	}
	n := 0
	if fault.Kind == ShortWrite || fault.Kind == NoSpace {
		var err error
		if n, err = f.ScratchFile.Write(b[:len(b)/2]); err != nil {
			return n, err
		}
	}
	return n, fault.err("write", f.name)
}

func (f *faultFile) ReadAt(b []byte, off int64) (int, error) {
	fault, ok := f.s.hit(FaultRead, f.name)
	if !ok {
		return f.ScratchFile.ReadAt(b, off)
	}
	if fault.Kind != FlipBit {
		return 0, fault.err("read", fmt.Sprintf("%s at %d", f.name, off))
	}
	n, err := f.ScratchFile.ReadAt(b, off)
	if n > 0 {
		b[n/2] ^= 0x10
	}
	return n, err
}
