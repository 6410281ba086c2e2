package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/slotwise/slotwise/internal/data/storage"
)

// Failures that may pass are marked, answers about the request are not.
func TestUnavailable(t *testing.T) {
	for err, want := range map[error]bool{
		minio.ErrorResponse{StatusCode: 500, Code: "InternalError"}:                       true,
		minio.ErrorResponse{StatusCode: 503, Code: "SlowDown"}:                            true,
		minio.ErrorResponse{StatusCode: 429}:                                              true,
		minio.ErrorResponse{StatusCode: 408}:                                              true,
		minio.ErrorResponse{StatusCode: 403, Code: "AccessDenied"}:                        false,
		minio.ErrorResponse{StatusCode: 404, Code: minio.NoSuchBucket}:                    false,
		minio.ErrorResponse{StatusCode: 412, Code: "PreconditionFailed"}:                  false,
		minio.ErrorResponse{StatusCode: 501, Code: "NotImplemented"}:                      false,
		&url.Error{Op: "Put", Err: &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}}: true,
		&url.Error{Op: "Put", Err: io.EOF}:                                                true,
		&url.Error{Op: "Put", Err: context.Canceled}:                                      false,
		fmt.Errorf("at byte 7: %w", io.ErrUnexpectedEOF):                                  true,
		fmt.Errorf("at byte 7: %w", errSilent):                                            true,
		errFenced:                                                                         true,
		errBusy:                                                                           false, errUploadLost: false, errNotMade: false, errChanged: false, fs.ErrNotExist: false,
	} {
		if got := errors.Is(failed("write", "b/k", err), storage.ErrUnavailable); got != want {
			t.Errorf("%v: marked as unavailable: %v", err, got)
		}
	}
	if err := failed("write", "b/k", minio.ErrorResponse{StatusCode: 403}); !errors.Is(err, storage.ErrDenied) {
		t.Errorf("not marked as denied: %v", err)
	}
}
