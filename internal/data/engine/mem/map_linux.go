package mem

import (
	"syscall"
	"unsafe"
)

// madvPopulateWrite is MADV_POPULATE_WRITE, of Linux 5.14.
const madvPopulateWrite = 23

// reserve maps size bytes of address space, which take no memory before they are touched. buf is
// the part that may be used; release needs mapping.
func reserve(size int64) (mapping, buf []byte, err error) {
	// mmap rejects a length of 0. The slice is not nil, because a nil mapping means a released Region.
	if size == 0 {
		return []byte{}, nil, nil
	}
	extra := 0
	if size > hugePage { // room to align the start
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
	// A huge page must begin at a multiple of its size. The system aligns the mapping to small pages
	// only.
	if off := int(uintptr(unsafe.Pointer(&mapping[0])) % hugePage); off != 0 {
		start = hugePage - off
	}
	return mapping, mapping[start : start+int(size) : start+int(size)], nil
}

// adviseHuge asks for huge pages. It is only advice: without them everything works, a
// little slower.
func adviseHuge(b []byte) {
	if len(b) > 0 {
		_ = syscall.Madvise(b, syscall.MADV_HUGEPAGE)
	}
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
