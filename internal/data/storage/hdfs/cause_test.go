package hdfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/slotwise/slotwise/internal/data/storage"
)

// Failures that may pass are marked, answers about the request are not.
func TestUnavailable(t *testing.T) {
	f := &FS{authority: "nn:1"}
	for err, want := range map[error]bool{
		&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}:                  true,
		&os.PathError{Op: "create", Path: "/x", Err: os.ErrDeadlineExceeded}: true,
		io.EOF: true,
		fmt.Errorf("at byte 7: %w", io.ErrUnexpectedEOF):                                                          true,
		&remoteError{"create", "java.io.IOException", "could only be written to 0 of the 1 minReplication nodes"}: true,
		&remoteError{"create", "org.apache.hadoop.ipc.StandbyException", "standby"}:                               true,
		&remoteError{"create", "org.apache.hadoop.hdfs.protocol.DSQuotaExceededException", "quota"}:               false,
		&remoteError{"create", "org.apache.hadoop.hdfs.server.namenode.LeaseExpiredException", "no lease"}:        false,
		&os.PathError{Op: "create", Path: "/x", Err: fs.ErrPermission}:                                            false,
		fs.ErrNotExist: false, fs.ErrExist: false, fs.ErrClosed: false, errRoot: false, context.Canceled: false,
		syscall.ENOTDIR: false,
	} {
		if got := errors.Is(f.failed("write", "/x", err), storage.ErrUnavailable); got != want {
			t.Errorf("%v: marked as unavailable: %v", err, got)
		}
	}
	f.settings.user = "ann"
	err := f.failed("write", "/x", &os.PathError{Op: "create", Path: "/x", Err: fs.ErrPermission})
	if !errors.Is(err, storage.ErrDenied) || !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), `for the user "ann"`) {
		t.Errorf("a denied permission: %v", err)
	}
}
