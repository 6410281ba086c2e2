package main

import "syscall"

// populate makes mmap read a file's pages at once instead of at the first access to each.
const populate = syscall.MAP_POPULATE
