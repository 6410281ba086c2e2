package hdfs

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/colinmarc/hdfs/v2"

	"github.com/slotwise/slotwise/internal/storage"
	"github.com/slotwise/slotwise/internal/storage/readahead"
)

// replicationLimit is how long the last block may take to be reported by the
// DataNodes that have it.
const replicationLimit = time.Minute

// writer implements storage.Writer.
//
// The client cannot replace a DataNode that fails while a block is written to
// it; then Write fails, and the task is tried again. Only a node that is dead
// from the start of the file is avoided, by beginning anew.
type writer struct {
	ctx     context.Context
	staging *staging
	client  *client
	w       *hdfs.FileWriter
	tmp     string
	name    string
	once    sync.Once
	written int64
}

// create begins the temporary file.
func (w *writer) create() error {
	f := w.staging.fs
	return f.do(w.ctx, func(*hdfs.Client) (err error) {
		c, err := f.acquire()
		if err != nil {
			return err
		}
		w.tmp = path.Join(w.staging.root, tmpDir, storage.TempPrefix(w.name)+storage.NewToken())
		if w.w, err = newFile(c.Client, w.tmp, f.settings.blockSize); err != nil {
			f.release(c, false)
			return err
		}
		w.client = c
		return nil
	})
}

func newFile(c *hdfs.Client, name string, blockSize int64) (*hdfs.FileWriter, error) {
	if blockSize == 0 {
		return c.Create(name)
	}
	d, err := c.ServerDefaults()
	if err != nil {
		return nil, err
	}
	return c.CreateFile(name, d.Replication, blockSize, fileMode)
}

func (w *writer) failed(op string, err error) error {
	return w.staging.fs.failed(op, path.Join(w.staging.target, w.name), err)
}

// Write implements storage.Writer.
func (w *writer) Write(p []byte) (int, error) {
	done := 0
	for failed := 0; done < len(p); {
		n, err := w.w.Write(p[done:])
		done += n
		w.written += int64(n)
		if err == nil {
			continue
		}
		failed++
		if failed == attempts || !later(err) && w.written > 0 {
			return done, w.failed("write", err)
		}
		if err := readahead.Sleep(w.ctx, backoff, failed); err != nil {
			return done, w.failed("write", err)
		}
		if !later(err) {
			w.drop()
			if err := w.create(); err != nil {
				return done, w.failed("write", err)
			}
		}
	}
	return done, nil
}

// drop removes the temporary file and gives up the connection. Closing the file
// of a writer that failed would fail, too, and nobody misses it.
func (w *writer) drop() {
	if w.w == nil {
		return
	}
	f := w.staging.fs
	if f.remove(context.WithoutCancel(w.ctx), w.tmp) == nil {
		_ = w.w.Close() // frees the connection to the DataNode
	}
	f.release(w.client, false)
	w.w = nil
}

// Commit implements storage.Writer.
func (w *writer) Commit() error {
	err := w.failed("commit", fs.ErrClosed)
	w.once.Do(func() { err = w.commit() })
	return err
}

func (w *writer) commit() error {
	s := w.staging
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.mu.done {
		w.drop()
		return w.failed("commit", fs.ErrClosed)
	}
	if err := w.close(); err != nil {
		w.drop()
		return w.failed("write", err)
	}
	defer s.fs.release(w.client, false)
	err := s.mkdirBelow(w.ctx, path.Dir(w.name))
	if err == nil {
		err = w.fence()
	}
	if err == nil {
		err = s.fs.rename(w.ctx, w.tmp, path.Join(s.root, dataDir, w.name))
	}
	if err != nil {
		// The staging's end removes the file if this cannot.
		_ = s.fs.remove(context.WithoutCancel(w.ctx), w.tmp)
		return w.failed("commit", err)
	}
	return nil
}

// fence removes what others of a shared staging write under the same name, so that
// one that stands still has nothing to rename when it goes on.
func (w *writer) fence() error {
	s := w.staging
	if s.token == "" {
		return nil
	}
	list, err := s.fs.List(w.ctx, path.Dir(w.tmp))
	if err != nil {
		return err
	}
	for _, e := range list {
		name := path.Base(e.Path)
		if !strings.HasPrefix(name, storage.TempPrefix(w.name)) || name == path.Base(w.tmp) {
			continue
		}
		if err := s.fs.remove(w.ctx, path.Join(path.Dir(w.tmp), name)); err != nil {
			return err
		}
	}
	return nil
}

// close closes the file, waiting until its last block has been reported.
func (w *writer) close() error {
	deadline := time.Now().Add(replicationLimit)
	for failed := 1; ; failed++ {
		err := w.w.Close()
		if !hdfs.IsErrReplicating(err) && !later(err) || time.Now().After(deadline) {
			return err
		}
		if err := readahead.Sleep(w.ctx, backoff/5, failed); err != nil {
			return err
		}
	}
}

// Discard implements storage.Writer.
func (w *writer) Discard() error {
	w.once.Do(w.drop)
	return nil
}

// put writes a small file whole.
func (f *FS) put(ctx context.Context, p, content string) error {
	return f.do(ctx, func(c *hdfs.Client) error {
		if err := c.RemoveAll(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		w, err := c.Create(p)
		if err != nil {
			return err
		}
		if _, err = strings.NewReader(content).WriteTo(w); err != nil {
			return err
		}
		for failed := 1; ; failed++ {
			if err := w.Close(); !hdfs.IsErrReplicating(err) || failed == attempts {
				return err
			}
			if err := readahead.Sleep(ctx, backoff/5, failed); err != nil {
				return err
			}
		}
	})
}
