package mem

import (
	"syscall"
	"unsafe"
)

// hugeFrom is the smallest reservation that asks for huge pages.
const hugeFrom = hugePage

// madvPopulateWrite is MADV_POPULATE_WRITE, of Linux 5.14.
const madvPopulateWrite = 23

func reserve(size int64) (mapping, buf []byte, err error) {
	if size == 0 {
		return []byte{}, nil, nil
	}
	extra := 0
	if size >= hugeFrom {
		extra = hugePage
	}
	mapping, err = syscall.Mmap(-1, 0, int(size)+extra,
		syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE)
	if err != nil {
		return nil, nil, err
	}
	if extra == 0 {
		return mapping, mapping, nil
	}
	start := 0
	if off := int(uintptr(unsafe.Pointer(&mapping[0])) % hugePage); off != 0 {
		start = hugePage - off
	}
	buf = mapping[start : start+int(size) : start+int(size)]
	// Only advice: without huge pages everything works, a little slower.
	_ = syscall.Madvise(buf, syscall.MADV_HUGEPAGE)
	return mapping, buf, nil
}

// discard drops the pages of b; they read as zero afterwards.
func discard(b []byte) {
	if len(b) > 0 {
		_ = syscall.Madvise(b, syscall.MADV_DONTNEED)
	}
}

// populate may fail, on an older kernel; then pages come when touched.
func populate(b []byte) {
	if len(b) > 0 {
		_ = syscall.Madvise(b, madvPopulateWrite)
	}
}

func unmap(b []byte) {
	if len(b) > 0 {
		_ = syscall.Munmap(b)
	}
}
