// Package compression lets a program's jobs compress with zstd and s2.
//
//	mapreduce.Main(job, compression.Codecs())
//
// Without it a program reads gzip and bzip2 files, writes gzip files, and can
// compress intermediate data with lz4.
package compression

import (
	"github.com/slotwise/slotwise/internal/compression/klauspost"
	"github.com/slotwise/slotwise/mapreduce"
)

// Codecs returns the feature for zstd files (.zst), zstd output, and zstd and s2
// as codecs of intermediate data.
func Codecs() mapreduce.Feature {
	return mapreduce.Feature{Codecs: klauspost.Codecs()}
}
