package main

import "syscall"

// madvPopulateWrite is MADV_POPULATE_WRITE, of Linux 5.14.
const madvPopulateWrite = 23

// warm allocates size bytes of memory and frees them at once. A virtual machine
// gives memory that has been free for a while back to its host, and getting such a
// page again costs more time than sorting its content. No job should pay for that.
// The kernel first hands out the pages that were freed last, so the next run gets these pages.
// Errors are ignored: then the first round is slower.
func warm(size int) {
	b, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE)
	if err != nil {
		return
	}
	_ = syscall.Madvise(b, syscall.MADV_HUGEPAGE)
	_ = syscall.Madvise(b, madvPopulateWrite)
	_ = syscall.Munmap(b)
}
