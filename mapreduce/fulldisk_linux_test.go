package mapreduce_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slotwise/slotwise/mapreduce"
)

// TestFullDisk runs a job whose output, and one whose spills, don't fit.
func TestFullDisk(t *testing.T) {
	small := filepath.Join(t.TempDir(), "small")
	if err := os.Mkdir(small, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("needs leave to mount a small file system: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(small, 0) })
	identity := lines(func(_, line []byte, out *mapreduce.Emitter) error { out.Add(line, 1); return nil })
	var text bytes.Buffer
	for i := range 100_000 {
		fmt.Fprintf(&text, "%d: some text that is longer than the disk has room for\n", i)
	}
	f := newFixture(t, text.String())

	o := f.options()
	identity.Reducer = nil
	o.Output = filepath.Join(small, "out")
	if _, err := mapreduce.Run(context.Background(), identity, o); !errors.Is(err, syscall.ENOSPC) && !strings.Contains(errText(err), "no space left") {
		t.Errorf("output: %v", err)
	}
	o = f.options()
	o.SplitSize = 1 << 30
	o.Cluster.Memory, o.Cluster.Workers, o.Cluster.TempDir = 8<<20, 1, small
	identity.Reducer = mapreduce.SumText
	if _, err := mapreduce.Run(context.Background(), identity, o); !strings.Contains(errText(err), "no space left") {
		t.Errorf("spills: %v", err)
	}
	for _, dir := range []string{small, f.dir} {
		checkClean(t, dir)
	}
}
