package hdfs

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/testkit/serverstest"
	"github.com/slotwise/slotwise/internal/testkit/storagetest"
)

// open returns a new FS for a URI, and the path in it.
func open(t *testing.T, uri string) (*FS, string) {
	t.Helper()
	_, rest := storage.SplitURI(uri)
	f, p, err := newDriver().Open(rest)
	if err != nil {
		t.Fatal(err)
	}
	return f.(*FS), p
}

// environment is held while openOn has changed the environment.
var environment sync.Mutex

// openOn is open with the environment of a private HDFS. Parallel tests may call it: an FS
// does not read the environment after it is opened.
func openOn(t *testing.T, c *serverstest.PrivateHDFS, uri string) (*FS, string) {
	t.Helper()
	environment.Lock()
	defer environment.Unlock()
	for _, e := range c.Env() {
		name, value, _ := strings.Cut(e, "=")
		old, present := os.LookupEnv(name)
		must(t, os.Setenv(name, value)) //nolint:usetesting // t.Setenv forbids parallel tests
		defer func() {
			if present {
				must(t, os.Setenv(name, old)) //nolint:usetesting // t.Setenv forbids parallel tests
			} else {
				must(t, os.Unsetenv(name))
			}
		}()
	}
	return open(t, uri)
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
