package cli

import (
	"sync"

	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/mapreduce/compression"
	"github.com/slotwise/slotwise/mapreduce/hdfs"
	"github.com/slotwise/slotwise/mapreduce/nodeload"
	"github.com/slotwise/slotwise/mapreduce/remote"
	"github.com/slotwise/slotwise/mapreduce/s3"
)

// features returns all features of package mapreduce: the command line runs jobs
// on every storage and on clusters. Every call returns the same features, because
// storage drivers keep connections.
var features = sync.OnceValue(func() []mapreduce.Feature {
	return []mapreduce.Feature{hdfs.Storage(), s3.Storage(), compression.Codecs(), nodeload.Meter(), remote.Client()}
})
