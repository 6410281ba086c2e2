package examples

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The first command of the README counts words correctly. The test replaces only the
// program, by one that is already built, and the input, by a part of the Go sources.
func TestReadmeCommand(t *testing.T) {
	const start = "go run ./cmd/slotwise run wordcount "
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(readme), "\n    "+start)
	if !ok {
		t.Fatalf("README.md has no command %q", start)
	}
	flags, _, _ := strings.Cut(rest, "\n")

	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for _, pkg := range []string{"strconv", "time", "encoding"} {
		from := filepath.Join(strings.TrimSpace(string(out)), "src", pkg)
		if err := os.CopyFS(filepath.Join(root, "src", pkg), os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}

	dir := t.TempDir()
	cmd := exec.Command("sh", "-e", "-c", "slotwise run wordcount "+flags)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOROOT="+root, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	check(t, parts(t, filepath.Join(dir, "counts")), countWords(t, root))
}

// countWords counts the words of all Go files below root. It skips hidden directories,
// like a job that reads a directory.
func countWords(t *testing.T, root string) map[string]int {
	counts := make(map[string]int)
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case p != root && strings.HasPrefix(d.Name(), "_"), strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case filepath.Ext(p) != ".go":
			return nil
		}
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		asciiSpace := func(r rune) bool { return strings.ContainsRune(" \t\n\v\f\r", r) }
		for _, w := range strings.FieldsFunc(string(data), asciiSpace) {
			counts[w]++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(counts) < 1000 {
		t.Fatalf("only %d words", len(counts))
	}
	return counts
}
