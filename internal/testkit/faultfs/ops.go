package faultfs

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/slotwise/slotwise/internal/data/storage"
)

// Ops wraps the operations of a real file system for its stagings. They fail as
// its Faults say.
type Ops struct {
	Faults
	// NoExchange makes the file system one that cannot swap directories.
	NoExchange bool
	locks      struct {
		sync.Mutex
		held []io.Closer
	}
}

// Wrap returns operations that fail. Locks work if under has them.
func (o *Ops) Wrap(under storage.RenameOps) storage.RenameOps { return realOps{under, o} }

// Kill gives up the locks of the stopped process, as the system does.
func (o *Ops) Kill() {
	o.locks.Lock()
	defer o.locks.Unlock()
	for _, l := range o.locks.held {
		_ = l.Close() // may have been given up before
	}
	o.locks.held = nil
}

// realOps implements storage.RenameOps and all optional interfaces. A caller must not
// use an interface that the wrapped operations lack.
type realOps struct {
	storage.RenameOps
	o *Ops
}

// List implements storage.StageOps.
func (r realOps) List(ctx context.Context, dir, prefix string) ([]string, error) {
	if err := r.o.Reading(List, dir); err != nil {
		return nil, err
	}
	return r.RenameOps.List(ctx, dir, prefix)
}

// Exists implements storage.StageOps.
func (r realOps) Exists(ctx context.Context, path string) (bool, error) {
	if err := r.o.Reading(Stat, path); err != nil {
		return false, err
	}
	return r.RenameOps.Exists(ctx, path)
}

// Read implements storage.StageOps.
func (r realOps) Read(ctx context.Context, path string) ([]byte, error) {
	if err := r.o.Reading(Read, path); err != nil {
		return nil, err
	}
	return r.RenameOps.Read(ctx, path)
}

// Put implements storage.StageOps.
func (r realOps) Put(ctx context.Context, path string, content []byte) error {
	if err := r.o.Changing(Put, path); err != nil {
		return err
	}
	return r.RenameOps.Put(ctx, path, content)
}

// Remove implements storage.StageOps.
func (r realOps) Remove(ctx context.Context, path string) error {
	if err := r.o.Changing(Remove, path); err != nil {
		return err
	}
	return r.RenameOps.Remove(ctx, path)
}

// Touch implements storage.StageOps.
func (r realOps) Touch(ctx context.Context, root string) error {
	if err := r.o.Changing(Touch, root); err != nil {
		return err
	}
	return r.RenameOps.Touch(ctx, root)
}

// Mkdir implements storage.RenameOps.
func (r realOps) Mkdir(ctx context.Context, dir string) error {
	if err := r.o.Changing(Mkdir, dir); err != nil {
		return err
	}
	return r.RenameOps.Mkdir(ctx, dir)
}

// Rename implements storage.RenameOps.
func (r realOps) Rename(ctx context.Context, from, to string) error {
	if err := r.o.Changing(Rename, to); err != nil {
		return err
	}
	return r.RenameOps.Rename(ctx, from, to)
}

// CreateFile implements storage.RenameOps.
func (r realOps) CreateFile(ctx context.Context, path string) (storage.TempFile, error) {
	if err := r.o.Changing(Create, path); err != nil {
		return nil, err
	}
	return r.RenameOps.CreateFile(ctx, path)
}

// Exchange implements storage.Exchanger.
func (r realOps) Exchange(ctx context.Context, a, b string) error {
	if r.o.NoExchange {
		return errors.ErrUnsupported
	}
	if err := r.o.Changing(Exchange, b); err != nil {
		return err
	}
	return r.RenameOps.(storage.Exchanger).Exchange(ctx, a, b)
}

// FlushTree implements storage.Flusher. A process that is stopped at a flush leaves the
// same as one that is stopped before the next change.
func (r realOps) FlushTree(ctx context.Context, dir string, replaces bool) error {
	if err := r.o.Reading(Sync, dir); err != nil {
		return err
	}
	return r.RenameOps.(storage.Flusher).FlushTree(ctx, dir, replaces)
}

// FlushNames implements storage.Flusher.
func (r realOps) FlushNames(ctx context.Context, dir string, replaces bool) error {
	if err := r.o.Reading(SyncDir, dir); err != nil {
		return err
	}
	return r.RenameOps.(storage.Flusher).FlushNames(ctx, dir, replaces)
}

// Lock implements storage.Locker.
func (r realOps) Lock(ctx context.Context, root string, mode storage.LockMode) (io.Closer, error) {
	if err := r.o.Reading(Open, root); err != nil {
		return nil, err
	}
	l, err := r.RenameOps.(storage.Locker).Lock(ctx, root, mode)
	if err == nil {
		r.o.locks.Lock()
		defer r.o.locks.Unlock()
		r.o.locks.held = append(r.o.locks.held, l)
	}
	return l, err
}
