// Package compression lets a program's jobs read and write more kinds of compressed
// files.
//
//	mapreduce.Main(job, compression.Codecs())
//
// Without it a program reads gzip, bzip2 and lz4 files, writes gzip files, and can
// compress intermediate data with lz4.
package compression

import (
	"github.com/slotwise/slotwise/internal/data/compression/codecs"
	"github.com/slotwise/slotwise/internal/live/feature"
	"github.com/slotwise/slotwise/mapreduce"
)

// Codecs returns the feature for reading zstd, xz, snappy and deflate files (.zst, .xz,
// .snappy, .sz, .deflate), for zstd output, and for zstd and s2 as codecs of intermediate
// data.
func Codecs() mapreduce.Feature {
	return feature.Feature{Codecs: codecs.All()}
}
