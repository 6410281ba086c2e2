package main

import "syscall"

// madvPopulateWrite is MADV_POPULATE_WRITE, of Linux 5.14.
const madvPopulateWrite = 23

// warm has the system hand out so much memory and takes it back. A virtual
// machine gives memory that has been free for a while to its host, and to get a
// page again costs more than to sort what goes into it: that is the machine's
// history and no job's cost. What was freed last is handed out first. Where
// that fails, the first round pays.
func warm(size int) {
	b, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE)
	if err != nil {
		return
	}
	_ = syscall.Madvise(b, syscall.MADV_HUGEPAGE)
	_ = syscall.Madvise(b, madvPopulateWrite)
	_ = syscall.Munmap(b)
}
