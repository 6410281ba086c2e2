// Package schemes says which storage there is: it registers the drivers of all
// URI schemes beyond local files. Every program that runs jobs calls it, for a
// split planned in one process is opened in another.
package schemes

import (
	"errors"
	"sync"

	"github.com/slotwise/slotwise/internal/storage"
	"github.com/slotwise/slotwise/internal/storage/hdfs"
	"github.com/slotwise/slotwise/internal/storage/s3"
)

// Register adds hdfs:// and s3:// to storage.Default. Calls after the first do nothing
// and return what it returned.
var Register = sync.OnceValue(func() error {
	return errors.Join(
		storage.Register("hdfs", hdfs.NewDriver()),
		storage.Register("s3", s3.NewDriver()),
	)
})
