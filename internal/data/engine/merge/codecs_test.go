package merge

import (
	"github.com/slotwise/slotwise/internal/data/compression"
	"github.com/slotwise/slotwise/internal/data/compression/klauspost"
)

// The tests use all codecs.
func init() { compression.Enable(klauspost.Codecs()...) }
