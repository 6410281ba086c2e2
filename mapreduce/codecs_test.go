package mapreduce_test

import (
	"github.com/slotwise/slotwise/internal/data/compression"
	"github.com/slotwise/slotwise/internal/data/compression/codecs"
)

// The tests use all codecs.
func init() { compression.Enable(codecs.All()...) }
