package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestSmallDisk gives a worker a disk of a few MiB. The task that fills it
// fails with that reason and leaves the disk empty. The master counts the failure at
// once, because by default a full disk does not count for minutes.
func TestSmallDisk(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, "--storage-retry", "0")
	disk := filepath.Join(c.dir, "disk")
	if err := os.Mkdir(disk, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("none", disk, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("a small disk cannot be made: %v", err)
	}
	defer syscall.Unmount(disk, syscall.MNT_DETACH)
	w := &testWorker{c.start("w1", "worker", "--master", c.url, "--dir", filepath.Join(disk, "w"), "--name", "w1",
		"--map-slots", "1", "--reduce-slots", "1", "--memory", "64MiB", "--min-free", "1MiB"), disk}
	w.says("registered")
	var text strings.Builder
	for i := range 500_000 {
		fmt.Fprintf(&text, "%016d\n", i)
	}
	c.write("in.txt", text.String())
	status, out := c.submit("sort", "in.txt", "--output", "out", "--split-size", "16MiB", "--max-attempts", "1")
	if status != exitFailed || !strings.Contains(out, "no space left on device") {
		t.Errorf("exit status %d: %s", status, out)
	}
	c.write("small.txt", "b\na\n")
	c.must("sort", "small.txt", "--output", "small")
}
