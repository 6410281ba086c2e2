// Package s3 lets a program's jobs read and write s3:// paths.
//
//	mapreduce.Main(job, s3.Storage())
package s3

import (
	"github.com/slotwise/slotwise/internal/data/storage/s3"
	"github.com/slotwise/slotwise/internal/live/feature"
	"github.com/slotwise/slotwise/mapreduce"
)

// Storage returns the feature for s3://bucket/key. The server and the
// credentials come from the environment variables and files that AWS tools
// read; docs/storage.md lists them.
//
// All jobs of a process share its connections to the server, and later jobs reuse them.
func Storage() mapreduce.Feature {
	return feature.Feature{Scheme: "s3", Driver: s3.Driver()}
}
