// Package storage defines the file systems that jobs read their input from and write
// their output to, and implements local directories. HDFS and S3 are in packages
// below.
//
// Writing is transactional at two levels. A file made by Staging.Create is
// invisible until its Writer commits, and the whole output directory is invisible
// until the Staging commits. So readers see all of a job's output or nothing,
// and a second attempt of a task is harmless. staging.go describes the protocol,
// which all file systems share.
//
// The package also has Scratch, the temporary files of one process.
package storage

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"time"
)

// Info describes one file or directory.
type Info struct {
	Path    string // in the form that Open accepts
	Size    int64  // bytes; 0 for a directory; -1 in a List for an unreadable entry (a dangling link, a pipe)
	ModTime time.Time
	Dir     bool
	Link    bool    // List sets it for a symbolic link; the other fields describe the link's target
	Version Version // of a file, if the storage knows it
	// Status has the facts that HDFS keeps of a file. It is nil for other storage, and shared
	// by copies of the Info: no caller changes it.
	Status *Status
}

// Status has the facts of a file that only HDFS keeps.
type Status struct {
	Mode         fs.FileMode // permissions, and fs.ModeSticky
	Owner, Group string
	Replication  int   // copies of each block; 0 for a directory
	BlockSize    int64 // bytes
}

// File is a file open for reading. Several goroutines may call ReadAt at once. The
// context given to Open ends reads too.
type File interface {
	io.ReaderAt
	io.Closer
	// Size returns the size in bytes when the file was opened.
	Size() int64
}

// Writer is a file being written. Nothing is visible under its name until Commit
// has returned nil. Discard, or a crash, leaves nothing behind. Exactly one of
// Commit and Discard ends a Writer. Discard after either is a no-op, so callers can
// defer it. One goroutine calls Write.
type Writer interface {
	io.Writer
	Commit() error
	Discard() error
}

// FS is a file system. A path is a URI of the file system without the scheme.
// Errors name the path and wrap an error of io/fs where one fits (fs.ErrNotExist,
// fs.ErrPermission, …). Several goroutines may use an FS at once.
type FS interface {
	// Open opens a file for reading. It fails for a directory.
	Open(ctx context.Context, path string) (File, error)
	// Stat describes a file or directory.
	Stat(ctx context.Context, path string) (Info, error)
	// List returns the entries of a directory, including hidden ones, sorted by
	// name.
	List(ctx context.Context, dir string) ([]Info, error)
	// Stage begins an output directory that this process alone writes. It fails
	// with fs.ErrExist if dir holds files that replace does not permit to remove.
	Stage(ctx context.Context, dir string, replace Replace) (Staging, error)
	// StageShared begins an output directory that several processes write. Each
	// process opens it by Reopen with dir and token. The staging survives the
	// process that began it: only a Commit or an Abort ends it, or neglect for
	// SharedTTL. If the token is in use, StageShared reopens that staging, so a
	// caller that does not know whether its first call succeeded may repeat it.
	// NewToken returns tokens.
	StageShared(ctx context.Context, dir, token string, replace Replace) (Staging, error)
	// Reopen opens a shared staging, even if its Commit was interrupted. If the
	// staging has been committed, Reopen returns one whose Commit returns nil and
	// whose Create fails with fs.ErrClosed. Reopen fails with fs.ErrNotExist if the
	// staging was never begun, was aborted, or was committed and a later job has
	// replaced its output.
	Reopen(ctx context.Context, dir, token string) (Staging, error)
	// Remove removes a file, or a directory with its content. A path that does not
	// exist is no error.
	Remove(ctx context.Context, path string) error
}

// ErrPublished is the error of an Abort that comes too late: the output is visible.
var ErrPublished = errors.New("the output is published already")

// Staging is an output directory that is not visible yet.
type Staging interface {
	// Create begins a file; name is relative and has no "..". Several attempts may
	// write the same name at once, and the last Commit wins, whole. In a shared
	// staging a Commit also shuts out all writers of the name that began earlier:
	// their Commit fails from then on. So an attempt that was delayed and given up
	// cannot replace its successor's file, even if it was granted the commit.
	Create(ctx context.Context, name string) (Writer, error)
	// Commit publishes the directory under its final name, with a _SUCCESS file in
	// it, and replaces an old output only now. It fails with fs.ErrExist if the target
	// has files by now that the Replace of the staging does not permit to remove. _SUCCESS is empty, or holds the
	// token if the staging is shared. The Commit of a shared staging may be
	// repeated, in this process or another, until one returns nil. A Commit that
	// fails with fs.ErrExist fails with it every time.
	Commit(ctx context.Context) error
	// Abort removes everything staged and leaves, or restores, the old output. If the
	// output is published already, by this process or another one, Abort leaves it alone
	// and fails with ErrPublished, every time: a Commit whose answer was lost may have
	// taken effect. If another process commits a file at the same time, its Commit may
	// fail, and leaves nothing behind.
	Abort(ctx context.Context) error
}

// Located is implemented by file systems that know which hosts hold the data of a
// file.
type Located interface {
	// Hosts returns the hosts that hold most of the n bytes at off, the best host
	// first. It returns none if no host is known.
	Hosts(ctx context.Context, path string, off, n int64) ([]string, error)
}

// Scratch creates temporary files for spills and map outputs. The files never
// outlive the Scratch.
type Scratch interface {
	// Create creates a file.
	Create(name string) (ScratchFile, error)
	// Close removes all files.
	Close() error
}

// ScratchFile is a temporary file. It is written once from start to end and then
// read at any offset.
type ScratchFile interface {
	io.Writer
	io.ReaderAt
	// Close closes and removes the file.
	Close() error
}
