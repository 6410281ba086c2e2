package hdfs

import (
	"context"
	"testing"

	"github.com/slotwise/slotwise/internal/storage"
	"github.com/slotwise/slotwise/internal/storage/serverstest"
	"github.com/slotwise/slotwise/internal/storage/storagetest"
)

// open returns a new FS for a URI, and the path in it.
func open(t *testing.T, uri string) (*FS, string) {
	t.Helper()
	_, rest := storage.SplitURI(uri)
	f, p, err := NewDriver()(rest)
	if err != nil {
		t.Fatal(err)
	}
	return f.(*FS), p
}

func TestConforms(t *testing.T) {
	c := serverstest.HDFS(t)
	serverstest.Setenv(t, c.Env())
	uri := c.URI("/conform-" + storage.NewToken())
	f, dir := open(t, uri)
	t.Cleanup(func() {
		if err := f.Remove(context.Background(), dir); err != nil {
			t.Log(err)
		}
	})
	storagetest.Run(t, storagetest.Target{
		New:       func() storage.FS { f, _ := open(t, uri); return f },
		Dir:       dir,
		Forbidden: []string{"colon:at@tilde~"},
	})
}
