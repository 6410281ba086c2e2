//go:build !linux

package mem

// Elsewhere a region is ordinary memory. Large blocks come fresh from the
// operating system there too, so untouched pages cost nothing, but they are
// returned only when the collector gets to them.

func reserve(size int64) (mapping, buf []byte, err error) {
	b := make([]byte, size)
	return b, b, nil
}

func discard(b []byte) { clear(b) }

func populate([]byte) {}

func adviseHuge([]byte) {}

func unmap([]byte) {}
