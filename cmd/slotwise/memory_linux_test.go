package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/slotwise/slotwise/internal/console"
)

// TestMemoryLimit counts ten million distinct words and sorts text, both
// several times what may be kept in memory, and looks at the most that the
// process ever occupied. The race detector would occupy much more, so a program
// without it is built.
func TestMemoryLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const words, limit, slack = 10_000_000, 32 << 20, 64 << 20
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	start := func(name string, args ...string) *os.ProcessState {
		c := exec.Command(name, args...)
		if b, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v\n%s", name, args[0], err, b)
		}
		return c.ProcessState
	}
	start("go", "build", "-o", path("slotwise"), ".")
	start(path("slotwise"), "generate", "text", "--size", "96MiB", "--output", path("text"), "--quiet")
	writeWords(t, path("words"), words)
	for _, job := range [][]string{{"wordcount", path("words")}, {"sort", path("text")}} {
		end := start(path("slotwise"), "run", job[0], job[1], "--output", path(job[0]),
			"--memory", fmt.Sprint(limit), "--workers", "2", "--temp-dir", dir, "--quiet")
		if peak := end.SysUsage().(*syscall.Rusage).Maxrss << 10; peak > limit+slack {
			t.Errorf("%s: peak of %s with a limit of %s", job[0], console.Bytes(peak), console.Bytes(limit))
		}
	}
	checkCounts(t, path("wordcount"), words)
}

// writeWords writes n distinct words in no order, a line each.
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

// checkCounts checks that each word is there once, in order within each file.
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
