package merge

import (
	"github.com/slotwise/slotwise/internal/compression"
	"github.com/slotwise/slotwise/internal/compression/klauspost"
)

// The tests use all codecs.
func init() { compression.Enable(klauspost.Codecs()...) }
