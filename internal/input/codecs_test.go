package input

import (
	"github.com/slotwise/slotwise/internal/compression"
	"github.com/slotwise/slotwise/internal/compression/klauspost"
	"github.com/slotwise/slotwise/internal/compression/xz"
)

// The tests use all codecs. A program enables its codecs in the same way.
func init() {
	compression.Enable(klauspost.Codecs()...)
	compression.Enable(xz.Codecs()...)
}
