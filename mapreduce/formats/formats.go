// Package formats lets a program's jobs read Parquet and Avro files, and write Parquet files.
//
//	mapreduce.Main(job, formats.Readers())
//
// Without it a program reads and writes text, CSV, JSON lines and Hadoop's SequenceFiles.
package formats

import (
	"github.com/slotwise/slotwise/internal/data/format"
	"github.com/slotwise/slotwise/internal/data/format/avro"
	"github.com/slotwise/slotwise/internal/data/format/parquet"
	"github.com/slotwise/slotwise/internal/live/feature"
	"github.com/slotwise/slotwise/mapreduce"
)

// Readers returns the feature for reading Parquet and Avro files and for writing Parquet
// files.
func Readers() mapreduce.Feature {
	return feature.Feature{Formats: []*format.Format{parquet.Format(), avro.Format()}}
}
