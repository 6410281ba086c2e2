package hdfs

import (
	"cmp"
	"context"
	"io/fs"

	"github.com/colinmarc/hdfs/v2"

	"github.com/slotwise/slotwise/internal/base/retry"
	"github.com/slotwise/slotwise/internal/data/storage"
)

// encryptedWriter implements storage.TempFile where data transfers are encrypted, which
// only the client library can do. One goroutine uses it.
//
// The library cannot replace a DataNode that fails while a block is written to it.
// Then Write fails, and the job tries the task again. A node that is dead before
// the file's first byte is avoided by beginning a new file.
type encryptedWriter struct {
	ctx    context.Context
	fs     *FS
	first  string // the path that the caller chose
	path   string // the path in use; begins with first
	client *client
	// open is nil once the file is complete or given up. The client is released
	// then, not earlier: the lease on the file belongs to it.
	open    *hdfs.FileWriter
	written int64
}

// create begins a file. Each further try takes a new name, because the old one
// may be under the lease of a try whose answer was lost.
func (w *encryptedWriter) create() error {
	return w.fs.do(w.ctx, func(*hdfs.Client) (err error) {
		c, err := w.fs.acquire(w.ctx)
		if err != nil {
			return err
		}
		p := w.first
		// The first try has the caller's name, so without failures the name is the planned one.
		if w.path != "" {
			p += "-" + storage.NewToken()
		}
		w.path = p
		if w.open, err = newFile(c.Client, p, &w.fs.settings); err != nil {
			w.open = nil
			w.fs.release(c, false)
			return err
		}
		w.client = c
		return nil
	})
}

// newFile creates a file with the block size of the settings, or with the server's if that
// is 0.
func newFile(c *hdfs.Client, name string, s *settings) (*hdfs.FileWriter, error) {
	d, err := c.ServerDefaults()
	if err != nil {
		return nil, err
	}
	return c.CreateFile(name, d.Replication, cmp.Or(s.blockSize, d.BlockSize), s.fileMode())
}

// Path implements storage.TempFile.
func (w *encryptedWriter) Path() string { return w.path }

// Write implements io.Writer. While the NameNode asks for a later try, for example
// because earlier blocks are not replicated yet, Write waits and tries again. Before
// the file has any byte, it also replaces a file whose DataNode does not answer.
func (w *encryptedWriter) Write(p []byte) (int, error) {
	done := 0
	if w.open == nil {
		return 0, fs.ErrClosed
	}
	for failed := 0; done < len(p); {
		n, err := w.open.Write(p[done:])
		done += n
		w.written += int64(n)
		if err == nil {
			continue
		}
		failed++
		// The library may have lost bytes that it had accepted, and this writer does not keep them:
		// only a new attempt of the task can write them again.
		if failed == attempts || !isRetriable(err) && w.written > 0 {
			return done, err
		}
		if err := retry.Pause(w.ctx, firstPause, longestPause, failed); err != nil {
			return done, err
		}
		// The NameNode has answered, so the file is intact and the library continues it.
		if isRetriable(err) {
			continue
		}
		_ = w.Remove(w.ctx) // or the end of the staging removes it
		if err := w.create(); err != nil {
			return done, err
		}
	}
	return done, nil
}

// Close implements storage.TempFile. It waits until the DataNodes have reported
// the last block.
func (w *encryptedWriter) Close(ctx context.Context) error {
	return retry.Run(ctx, replication(func(err error) bool { return hdfs.IsErrReplicating(err) || isRetriable(err) }), func(context.Context) error {
		if err := w.open.Close(); err != nil {
			return err
		}
		w.open = nil
		w.fs.release(w.client, false)
		return nil
	})
}

// Remove implements storage.TempFile. What cannot be removed goes with the
// staging.
func (w *encryptedWriter) Remove(context.Context) error {
	ctx, cancel := cleaning(w.ctx)
	defer cancel()
	err := w.fs.remove(ctx, w.path)
	if w.open == nil {
		return nil
	}
	// While the file exists, Close would complete it although it is half written.
	if err == nil {
		_ = w.open.Close() // fails, but frees the connection to the DataNode
	}
	w.fs.release(w.client, false)
	w.open = nil
	return nil
}
