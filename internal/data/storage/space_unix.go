//go:build unix

package storage

import (
	"context"
	"io/fs"
	"syscall"
)

// Space implements Sized: the size of the disk.
func (Local) Space(_ context.Context, path string) (Space, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return Space{}, namesUser(&fs.PathError{Op: "statfs", Path: path, Err: err})
	}
	block := int64(st.Bsize)
	total, free := int64(st.Blocks)*block, int64(st.Bfree)*block //nolint:gosec // no disk has 8 EiB
	return Space{Total: total, Used: total - free, Free: free}, nil
}
