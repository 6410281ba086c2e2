//go:build !amd64

package sortbuf

import "unsafe"

// prefetch does nothing on processors for which Go has no prefetch instruction.
func prefetch(unsafe.Pointer, *Entry, int, uint64, uint64) {}

// PrefetchLine does nothing on these processors.
func PrefetchLine(unsafe.Pointer) {}
