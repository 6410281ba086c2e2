package cli

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/testkit/clustertest"
)

// filesOf runs a study and returns all files that it writes, by name.
func filesOf(t *testing.T) map[string][]byte {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "out")
	var stdout, stderr bytes.Buffer
	args := []string{"sim", "--workload", "../examples/sim/mix.yaml", "--cluster", "nodes=20,maps=4,reduces=2,racks=2", "--policy",
		"fair,dynamicmr-pi,fifo,speculate=late", "--seeds", "2", "--explain", "--quiet", "--out", dir}
	if code := execute(t.Context(), args, &stdout, &stderr); code != exitOK {
		t.Fatalf("status %d: %s", code, stderr.String())
	}
	files := map[string][]byte{"standard output": stdout.Bytes()}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files[name], err = os.ReadFile(filepath.Join(dir, name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// All that a study writes, tables and pictures too, is the same the second time,
// on one processor. It does not run beside other tests, because GOMAXPROCS holds for all tests.
func TestSimFilesAreTheSameAgain(t *testing.T) {
	first := filesOf(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	again := filesOf(t)
	kinds := map[string]int{}
	for name, data := range first {
		kinds[filepath.Ext(name)]++
		if !bytes.Equal(data, again[name]) {
			t.Errorf("%s differs", name)
		}
	}
	for _, kind := range []string{".csv", ".parquet", ".json", ".txt", ".svg"} {
		if kinds[kind] == 0 {
			t.Errorf("no %s among %d files", kind, len(first))
		}
	}
	if len(first) != len(again) || kinds[".svg"] == 1 {
		t.Errorf("%d files, then %d: %v", len(first), len(again), kinds)
	}
}

// A study that is interrupted ends with all that it has started, and leaves no file.
func TestSimIsInterrupted(t *testing.T) {
	for _, reference := range []string{"alone", "ideal"} { // in the first phase, and in the second
		dir := t.TempDir()
		before := runtime.NumGoroutine()
		ctx, cancel := context.WithCancelCause(t.Context())
		watch := time.AfterFunc(50*time.Millisecond, func() { cancel(terminal.ErrInterrupted) })
		defer watch.Stop()
		var stderr bytes.Buffer
		begun := time.Now()
		code := execute(ctx, []string{"sim", "--workload", "testdata/endless.yaml", "--cluster", "nodes=2000,maps=1,reduces=1",
			"--policy", "fifo,fair", "--reference", reference, "--out", filepath.Join(dir, "out"), "--quiet"}, io.Discard, &stderr)
		if code != exitInterrupted || stderr.String() != "slotwise: interrupted\n" {
			t.Errorf("%s: status %d: %s", reference, code, stderr.String())
		}
		if took := time.Since(begun); took > 4*time.Minute {
			t.Errorf("%s: it took %v", reference, took)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: %v was left behind (%v)", reference, left, err)
		}
		// A goroutine that has sent its result may live a moment longer.
		clustertest.Eventually(t, reference+": as few goroutines as before", func() bool { return runtime.NumGoroutine() <= before })
	}
}
