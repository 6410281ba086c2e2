// Package examples runs the jobs in its folders by the commands in their READMEs and
// compares the results with simple counts.
package examples

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// bin holds the programs that the READMEs call by name.
var bin string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if bin, err = os.MkdirTemp("", "examples-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(bin)
		build := exec.Command("go", "build", "-ldflags=-s -w", "-o", bin, "../cmd/slotwise", "./wordlen")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

func TestWordlen(t *testing.T) {
	dir := t.TempDir()
	text := books(t, dir)
	want := make(map[string]int)
	for _, w := range strings.Fields(text) {
		want[fmt.Sprintf("%03d", utf8.RuneCountInString(w))]++
	}
	check(t, follow(t, "wordlen", dir, "lengths"), want)
}

func TestPython(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	dir := t.TempDir()
	text := books(t, dir)
	letters, words := make(map[string]int), make(map[string]int)
	for _, w := range strings.Fields(text) {
		first, _ := utf8.DecodeRuneInString(w)
		key := strings.ToLower(string(first))
		letters[key] += utf8.RuneCountInString(w)
		words[key]++
	}
	want := make(map[string]string)
	for key := range letters {
		want[key] = fmt.Sprintf("%.3f", float64(letters[key])/float64(words[key]))
	}
	check(t, follow(t, "python", dir, "means"), want)
}

func TestAwk(t *testing.T) {
	if _, err := exec.LookPath("awk"); err != nil {
		t.Skip("awk is not installed")
	}
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(1, 2))
	want := make(map[string]int)
	for file := range 3 {
		var log bytes.Buffer
		for range 1000 {
			status := []string{"200", "200", "200", "304", "404", "500"}[r.IntN(6)]
			sent := r.IntN(1 << 24)
			want[status] += sent
			fmt.Fprintf(&log, "10.0.0.%d - - [20/Nov/2026:12:00:00 +0000] \"GET /%d HTTP/1.1\" %s %d\n", r.IntN(255), r.IntN(99), status, sent)
		}
		write(t, filepath.Join(dir, "logs", fmt.Sprintf("access-%d.log", file)), log.Bytes())
	}
	check(t, follow(t, "awk", dir, "sent"), want)
}

// books writes random words of mixed case and scripts to files in dir/books
// and returns them all.
func books(t *testing.T, dir string) string {
	r := rand.New(rand.NewPCG(3, 4))
	letters := []rune("abcdeABCDEäöüßæøéñ")
	var all strings.Builder
	for file := range 3 {
		var b strings.Builder
		for range 2000 {
			for range 1 + r.IntN(12) {
				b.WriteRune(letters[r.IntN(len(letters))])
			}
			b.WriteString([]string{" ", "  ", "\n", "\n\n"}[r.IntN(4)])
		}
		b.WriteString("\n")
		write(t, filepath.Join(dir, "books", fmt.Sprintf("%d.txt", file)), []byte(b.String()))
		all.WriteString(b.String())
	}
	return all.String()
}

var shellBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")

// follow runs the commands in an example's README in dir, beside a copy of the
// example's files, and returns the text of the output directory.
func follow(t *testing.T, example, dir, output string) string {
	t.Helper()
	readme, err := os.ReadFile(filepath.Join(example, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := shellBlock.FindSubmatch(readme)
	if block == nil {
		t.Fatalf("%s/README.md has no commands", example)
	}
	if err := os.CopyFS(dir, os.DirFS(example)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-e", "-c", string(block[1]))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "LC_ALL=C.UTF-8")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", block[1], err, out)
	}
	return parts(t, filepath.Join(dir, output))
}

// parts returns the text of all files of an output directory.
func parts(t *testing.T, dir string) string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, "_SUCCESS")); err != nil {
		t.Error(err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "part-*"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no output files in %s: %v", dir, err)
	}
	var all strings.Builder
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(data)
	}
	return all.String()
}

// check compares lines of key TAB value, in any order, with a map.
func check[V any](t *testing.T, got string, want map[string]V) {
	t.Helper()
	lines := slices.Sorted(strings.Lines(got))
	var expected []string
	for k, v := range want {
		expected = append(expected, fmt.Sprintf("%s\t%v\n", k, v))
	}
	slices.Sort(expected)
	if !slices.Equal(lines, expected) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, ""), strings.Join(expected, ""))
	}
}

func write(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o666); err != nil {
		t.Fatal(err)
	}
}
