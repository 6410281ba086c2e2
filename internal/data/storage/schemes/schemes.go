// Package schemes is the set of all storage schemes, for the slotwise command.
// A program of a job's author picks its schemes itself, through the packages
// mapreduce/hdfs and mapreduce/s3.
package schemes

import (
	"sync"

	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/data/storage/hdfs"
	"github.com/slotwise/slotwise/internal/data/storage/s3"
)

// All returns the set of all schemes. Every call returns the same set, because
// drivers keep connections.
var All = sync.OnceValue(func() *storage.Schemes {
	var all *storage.Schemes
	for name, driver := range map[string]storage.Driver{"hdfs": hdfs.NewDriver(), "s3": s3.NewDriver()} {
		more, err := all.With(name, driver)
		if err != nil {
			panic(err) // two rows of the same name
		}
		all = more
	}
	return all
})
