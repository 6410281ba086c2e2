// Package hdfs lets a program's jobs read and write hdfs:// paths.
//
//	mapreduce.Main(job, hdfs.Storage())
package hdfs

import (
	"github.com/slotwise/slotwise/internal/data/storage/hdfs"
	"github.com/slotwise/slotwise/internal/live/feature"
	"github.com/slotwise/slotwise/mapreduce"
)

// Storage returns the feature for hdfs://host:port/path. A URI without a host,
// as hdfs:///path, takes the name node from Hadoop's configuration files, which
// are found through the environment variables HADOOP_CONF_DIR and HADOOP_HOME.
//
// All jobs of a process share one connection to each name node, and later jobs reuse it.
func Storage() mapreduce.Feature {
	return feature.Feature{Scheme: "hdfs", Driver: hdfs.Driver()}
}
