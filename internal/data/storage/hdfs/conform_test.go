package hdfs

import (
	"context"
	"testing"

	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/testkit/serverstest"
	"github.com/slotwise/slotwise/internal/testkit/storagetest"
)

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

func TestConforms(t *testing.T) {
	c := serverstest.HDFS(t)
	uri := c.URI("/conform-" + storage.NewToken())
	f, dir := open(t, c.Env(), uri)
	t.Cleanup(func() {
		if err := f.Remove(context.Background(), dir); err != nil {
			t.Log(err)
		}
	})
	storagetest.Run(t, storagetest.Target{
		New:       func() storage.FS { f, _ := open(t, c.Env(), uri); return f },
		Dir:       dir,
		Forbidden: []string{"colon:at@tilde~"},
	})
}
