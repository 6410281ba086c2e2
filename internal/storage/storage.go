// Package storage is the small file interface that jobs read from and write
// to: local directories now, HDFS and S3 behind the same seven methods.
//
// Writing is transactional at two levels. A file made by Staging.Create is
// invisible until its writer commits, and a job's whole output directory is
// invisible until the staging commits: a reader sees all of a job's output or
// none of it, and a second attempt of a task is harmless.
package storage

import (
	"context"
	"io"
	"time"
)

// Info describes one file or directory.
type Info struct {
	Path    string // as Open accepts it
	Size    int64  // bytes; 0 for directories, -1 if listed but not a readable file (a dangling link, a pipe)
	ModTime time.Time
	Dir     bool
	Link    bool // set by List for symbolic links; the other fields tell of what it leads to
}

// File is an open file for reading. ReadAt may be called from several
// goroutines at once.
type File interface {
	io.ReaderAt
	io.Closer
	Size() int64
}

// Writer is a file being written. Nothing is visible under its name until
// Commit has returned nil; Discard (or a crash) leaves nothing behind. Exactly
// one of Commit and Discard ends a writer; Discard after either is a no-op, so
// it can be deferred.
type Writer interface {
	io.Writer
	Commit() error
	Discard() error
}

// FS is a file system. Paths are those of the file system's own URIs without
// the scheme. Errors name the path and wrap io/fs errors (fs.ErrNotExist,
// fs.ErrPermission, …) so that callers can tell them apart.
type FS interface {
	Open(ctx context.Context, path string) (File, error)
	Stat(ctx context.Context, path string) (Info, error)
	// List returns the entries of a directory sorted by name, hidden ones too.
	List(ctx context.Context, dir string) ([]Info, error)
	// Stage begins a job's output directory. It fails with fs.ErrExist if dir
	// exists, is not empty and overwrite is false.
	Stage(ctx context.Context, dir string, overwrite bool) (Staging, error)
	// StageShared is Stage for an output that several processes write. Any of
	// them that knows dir and token gets at it by Reopen. It belongs to nobody's
	// life: only Commit or Abort, in whichever process, ends it, and other
	// stagings of the same target leave it alone (see SharedTTL). Staging again
	// under a token that is in use reopens it, so a caller that cannot tell
	// whether its first try went through may try again. See NewToken.
	StageShared(ctx context.Context, dir, token string, overwrite bool) (Staging, error)
	// Reopen returns a shared staging, also one whose Commit was interrupted.
	// After a Commit that went through it returns one whose Commit returns nil
	// and whose Create fails with fs.ErrClosed. It fails with fs.ErrNotExist if
	// there is no such staging: it was never begun, it was aborted, or it was
	// committed and a later job has since replaced its output.
	Reopen(ctx context.Context, dir, token string) (Staging, error)
	// Remove removes a file or a directory with all it holds; removing what
	// does not exist is no error.
	Remove(ctx context.Context, path string) error
}

// Staging is an output directory that nobody sees yet.
type Staging interface {
	// Create begins a file; name is relative and has no "..". Two attempts may
	// create the same name at once; the last Commit wins, whole. In a shared
	// staging of a file system with renames, a Commit also shuts out all writers
	// of the name that were begun before: theirs fails from then on. So an attempt
	// that was given up while it stood still cannot replace its successor's file,
	// even if it had been allowed to commit.
	Create(ctx context.Context, name string) (Writer, error)
	// Commit makes the directory visible under its final name at once, with a
	// _SUCCESS file in it, replacing an old one only now. The file is empty, or
	// holds the token if the staging is shared; the Commit of a shared staging
	// may be repeated, in this process or after Reopen in another, until one
	// returns nil. What fails with fs.ErrExist will go on failing.
	Commit(ctx context.Context) error
	// Abort removes everything staged and leaves an old directory as it was.
	// It is a no-op after Commit. A file committed in another process at the
	// same time may fail, but leaves nothing behind.
	Abort(ctx context.Context) error
}

// Located is implemented by file systems that know which hosts hold a part of
// a file.
type Located interface {
	// Hosts returns the hosts holding most of the bytes [off, off+n), best
	// first; none if unknown.
	Hosts(ctx context.Context, path string, off, n int64) ([]string, error)
}

// Scratch makes the temporary files of one task or job: spills and map
// outputs. They never outlive the scratch.
type Scratch interface {
	// Create makes a new file to be written once and then read.
	Create(name string) (ScratchFile, error)
	// Close removes every file made.
	Close() error
}

// ScratchFile is written from the start to the end, then read at any offset.
type ScratchFile interface {
	io.Writer
	io.ReaderAt
	// Close closes and removes the file.
	Close() error
}
