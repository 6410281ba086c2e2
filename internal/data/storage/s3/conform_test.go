package s3

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/testkit/serverstest"
	"github.com/slotwise/slotwise/internal/testkit/storagetest"
)

// TestMain shortens the client's pauses before it repeats a request.
func TestMain(m *testing.M) {
	minio.DefaultRetryUnit, minio.DefaultRetryCap = 5*time.Millisecond, 50*time.Millisecond
	os.Exit(m.Run())
}

// open returns a new FS for a URI, and the path in it. It reads the environment with the variables of env.
func open(t *testing.T, env []string, uri string) (f *FS, p string) {
	t.Helper()
	serverstest.With(t, env, func() {
		_, rest := storage.SplitURI(uri)
		opened, inner, err := newDriver().Open(rest)
		must(t, err)
		f, p = opened.(*FS), inner
	})
	return f, p
}

// leftovers returns the incomplete uploads and the claims below dir, which listings
// do not show.
func leftovers(t *testing.T, f *FS, dir string) []string {
	t.Helper()
	var left []string
	bucket, key := split(dir)
	for u := range f.c.ListIncompleteUploads(t.Context(), bucket, key+"/", true) {
		if u.Err != nil {
			t.Fatal(u.Err)
		}
		left = append(left, bucket+"/"+u.Key+" (upload)")
	}
	err := f.each(t.Context(), dir, true, func(o minio.ObjectInfo) bool {
		if strings.Contains("/"+o.Key+"/", "/"+publishingDir+"/") {
			left = append(left, bucket+"/"+o.Key)
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return left
}

func TestConforms(t *testing.T) {
	t.Parallel()
	server := serverstest.S3(t)
	uri := server.URI("conform-" + storage.NewToken())
	f, dir := open(t, server.Env(), uri)
	t.Cleanup(func() {
		if err := f.Remove(context.Background(), dir); err != nil {
			t.Error(err)
		}
	})
	storagetest.Run(t, storagetest.Target{
		New:       func() storage.FS { f, _ := open(t, server.Env(), uri); return f },
		Dir:       dir,
		Leftovers: func(t *testing.T) []string { return leftovers(t, f, dir) },
	})
}
