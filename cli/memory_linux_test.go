package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/base/terminal"
)

// TestMemoryLimit counts two million distinct words and sorts 48 MiB of text, and checks the peak
// memory of the process. Without the limit the peaks are 205 and 131 MiB. The program has no race
// detector, which would use much more memory.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const words, limit, slack = 2_000_000, 32 << 20, 64 << 20
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	start := func(name string, args ...string) (peak int64) {
		var said bytes.Buffer
		c := exec.Command(name, args...)
		c.Stdout, c.Stderr = &said, &said
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		for {
			select {
			case err := <-ended:
				if err != nil {
					t.Fatalf("%s %s: %v\n%s", name, args[0], err, &said)
				}
				return peak
			case <-time.After(5 * time.Millisecond):
				peak = max(peak, highWater(c.Process.Pid))
			}
		}
	}
	linkProgram(t, dir)
	start(path("slotwise"), "generate", "text", "--size", "48MiB", "--output", path("text"), "--quiet")
	writeWords(t, path("words"), words)
	for _, job := range [][]string{{"wordcount", path("words")}, {"sort", path("text")}} {
		peak := start(path("slotwise"), "run", job[0], job[1], "--output", path(job[0]),
			"--memory", fmt.Sprint(limit), "--workers", "2", "--temp-dir", dir, "--quiet")
		if peak == 0 || peak > limit+slack {
			t.Errorf("%s: peak of %s with a limit of %s", job[0], terminal.Bytes(peak), terminal.Bytes(limit))
		}
	}
	checkCounts(t, path("wordcount"), words)
}

// highWater returns the peak memory of a process in bytes, 0 if it has ended.
// The number in the exit status is useless here, because it includes the memory
// of the process that forked it.
func highWater(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kib, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, _ := strconv.ParseInt(kib, 10, 64)
	return n << 10
}

// writeWords writes n distinct words in mixed order, one per line.
func writeWords(t *testing.T, name string, n int) {
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(f)
	for i := range n {
		fmt.Fprintf(w, "%07d\n", i*7_777_777%n) // which has no factor in common with n
	}
	if err := errors.Join(w.Flush(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// checkCounts checks that each word is present once, in order within each file.
func checkCounts(t *testing.T, dir string, n int) {
	parts, err := filepath.Glob(filepath.Join(dir, "part-*"))
	if err != nil {
		t.Fatal(err)
	}
	seen, found := make([]bool, n), 0
	for _, p := range parts {
		f, err := os.Open(p)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		last := -1
		for lines := bufio.NewScanner(f); lines.Scan(); found++ {
			word, ok := strings.CutSuffix(lines.Text(), "\t1")
			k, err := strconv.Atoi(word)
			if !ok || err != nil || len(word) != 7 || k <= last || seen[k] {
				t.Fatalf("%s: line %q after %d", p, lines.Text(), last)
			}
			seen[k], last = true, k
		}
	}
	if found != n {
		t.Errorf("%d words of %d", found, n)
	}
}
