//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package secure

import "math"

// descriptors returns a large number: this system has no such limit.
func descriptors() int64 { return math.MaxInt32 }
