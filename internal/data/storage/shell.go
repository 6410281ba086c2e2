package storage

import (
	"context"
	"io"
	"os"
)

// Space is the size of a storage, in bytes.
type Space struct{ Total, Used, Free int64 }

// Sized is implemented by file systems whose size is known.
type Sized interface {
	// Space returns the size of the storage that holds a path.
	Space(ctx context.Context, path string) (Space, error)
}

// Quota limits a directory with everything below it. A negative number is no limit.
type Quota struct {
	Names int64 // files and directories
	Bytes int64 // on disks, each replica counted
}

// Limited is implemented by file systems whose directories may have quotas.
type Limited interface {
	// Quota returns the limits of a file or directory itself, not the limits of directories above.
	Quota(ctx context.Context, path string) (Quota, error)
}

// Summed is implemented by file systems that keep checksums of files.
type Summed interface {
	// Checksum returns the name of the algorithm and the checksum of a file. Only checksums of
	// one algorithm can be compared.
	Checksum(ctx context.Context, path string) (algorithm string, sum []byte, err error)
}

// Appender is implemented by file systems that can lengthen files.
type Appender interface {
	// Append opens an existing file for writing at its end. The bytes are stored for certain when
	// Close has returned nil. After an error the file may have a part of the bytes. One goroutine may use
	// the result, and must call Close after an error, too.
	Append(ctx context.Context, path string) (io.WriteCloser, error)
}

var (
	_ Sized    = Local{}
	_ Appender = Local{}
)

// Append implements Appender.
func (Local) Append(_ context.Context, path string) (io.WriteCloser, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0) //nolint:forbidigo // a file that the user names, as for the >> of a shell
	if err != nil {
		return nil, namesUser(err)
	}
	return &localAppend{f}, nil
}

// localAppend implements io.WriteCloser.
type localAppend struct{ *os.File }

// Close puts the bytes on the disk, because a crash of the machine would lose them otherwise.
func (f *localAppend) Close() error {
	err := f.Sync()
	if cerr := f.File.Close(); err == nil {
		err = cerr
	}
	return namesUser(err)
}
