package browser

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/slotwise/slotwise/internal/testkit/clustertest"
	"github.com/slotwise/slotwise/lab/harness"
)

// binary is the product, built from this tree.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "browser")
	if err == nil {
		binary = filepath.Join(dir, "slotwise")
		err = harness.Build(context.Background(), binary)
	}
	status := 1
	if err == nil {
		status = m.Run()
	} else {
		fmt.Fprintln(os.Stderr, err)
	}
	os.RemoveAll(dir)
	os.Exit(status)
}

// newTestCluster starts a master with flags and waits until it serves.
func newTestCluster(t *testing.T, flags ...string) *clustertest.Cluster {
	c := clustertest.New(t, binary)
	c.Flags = flags
	c.StartMaster("127.0.0.1:0")
	return c
}
