package input

import (
	"github.com/slotwise/slotwise/internal/data/compression"
	libraries "github.com/slotwise/slotwise/internal/data/compression/codecs"
)

// The tests use all codecs. A program enables its codecs in the same way.
func init() {
	compression.Enable(libraries.All()...)
}
