package sortbuf

import "unsafe"

// prefetch starts loading, for each of n entries, the cache lines that the
// bytes base+position<<shift … +span lie in. It never faults, whatever the
// addresses, and changes nothing but the time that the loads take later.
//
//go:noescape
func prefetch(base unsafe.Pointer, entries *Entry, n int, shift, span uint64)

// PrefetchLine starts loading the cache line at p. It never faults, and changes nothing but the time that
// the load takes later.
//
//go:noescape
func PrefetchLine(p unsafe.Pointer)
