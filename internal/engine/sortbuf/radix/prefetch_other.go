//go:build !amd64

package radix

import "unsafe"

// prefetch does nothing where there is no instruction for it in Go's reach:
// then the processor's own guesses have to do.
func prefetch(unsafe.Pointer, *Entry, int, uint64, uint64) {}
