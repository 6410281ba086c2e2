package apps

import (
	"github.com/slotwise/slotwise/internal/compression"
	"github.com/slotwise/slotwise/internal/compression/klauspost"
)

// The tests use all codecs. A program enables those that it wants in the same
// way.
func init() { compression.Enable(klauspost.Codecs()...) }
