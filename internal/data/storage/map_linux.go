package storage

import (
	"os"
	"syscall"
)

var _ Mappable = (*localFile)(nil)

// Map implements Mappable. MAP_POPULATE would copy each page, because the mapping can be written.
func (f *localFile) Map(off int64, n int) ([]byte, error) {
	c, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var b []byte
	cerr := c.Control(func(fd uintptr) {
		b, err = syscall.Mmap(int(fd), off, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE)
	})
	if cerr != nil {
		return nil, cerr
	}
	if err != nil {
		return nil, &os.PathError{Op: "mmap", Path: f.Name(), Err: err}
	}
	return b, nil
}

// Unmap implements Mappable.
func (f *localFile) Unmap(b []byte) error { return os.NewSyscallError("munmap", syscall.Munmap(b)) }
