package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slotwise/slotwise/internal/testkit/clustertest"
)

// TestSmallDisk gives a worker a disk of a few MiB. The task that fills it
// fails with that reason and leaves the disk empty. The master counts the failure at
// once, because by default a full disk does not count for minutes.
func TestSmallDisk(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, "--storage-retry", "0")
	disk := filepath.Join(c.Dir, "disk")
	if err := os.Mkdir(disk, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("none", disk, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("a small disk cannot be made: %v", err)
	}
	defer syscall.Unmount(disk, syscall.MNT_DETACH)
	w := &clustertest.Worker{Process: c.Start("w1", "worker", "--master", c.URL, "--dir", filepath.Join(disk, "w"), "--name", "w1",
		"--map-slots", "1", "--reduce-slots", "1", "--memory", "64MiB", "--min-free", "1MiB"), Dir: disk}
	w.Says("registered")
	var text strings.Builder
	for i := range 500_000 {
		fmt.Fprintf(&text, "%016d\n", i)
	}
	c.Write("in.txt", text.String())
	status, out := c.Submit("sort", "in.txt", "--output", "out", "--split-size", "16MiB", "--max-attempts", "1")
	if status != exitFailed || !strings.Contains(out, "no space left on device") {
		t.Errorf("exit status %d: %s", status, out)
	}
	c.Write("small.txt", "b\na\n")
	c.Must("sort", "small.txt", "--output", "small")
}
