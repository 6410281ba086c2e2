package input

import (
	"github.com/slotwise/slotwise/internal/data/compression"
	"github.com/slotwise/slotwise/internal/data/compression/klauspost"
	"github.com/slotwise/slotwise/internal/data/compression/xz"
)

// The tests use all codecs. A program enables its codecs in the same way.
func init() {
	compression.Enable(klauspost.Codecs()...)
	compression.Enable(xz.Codecs()...)
}
