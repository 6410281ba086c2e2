package apps

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/mapreduce"
)

// appTest runs an app over files in many ways that must not matter and
// compares its output with the result of an independent program.
type appTest struct {
	app     string
	params  mapreduce.Params
	files   map[string]string // by name; nil for an app without input
	want    string            // the output files one after the other
	ordered bool              // their lines must come in that order
	// small is a split size that cuts the input into some ten pieces.
	small int64
}

// variant is one way of running an app.
type variant struct {
	name    string
	options mapreduce.Options
	noFold  bool // do without the job's Aggregate and Combiner
}

func (a appTest) variants() []variant {
	small := a.small
	if small == 0 {
		small = 1 << 10
	}
	cluster := func(workers int, memory int64) mapreduce.ClusterOptions {
		return mapreduce.ClusterOptions{Workers: workers, Memory: memory << 20}
	}
	return []variant{
		{name: "default"},
		{name: "one reduce", options: mapreduce.Options{Reduces: 1, Cluster: cluster(1, 64)}},
		{name: "three reduces, small splits", options: mapreduce.Options{Reduces: 3, SplitSize: small}},
		{name: "seven reduces, tiny splits", options: mapreduce.Options{Reduces: 7, SplitSize: small/4 + 1, Cluster: cluster(2, 128)}},
		{name: "little memory, lz4", options: mapreduce.Options{Reduces: 2, Compress: "lz4", Cluster: cluster(2, 16)}},
		{name: "no fold, zstd", options: mapreduce.Options{Reduces: 3, SplitSize: small, Compress: "zstd"}, noFold: true},
	}
}

func (a appTest) run(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	in := writeFiles(t, dir, a.files)
	for i, v := range a.variants() {
		o := v.options
		o.Inputs, o.Output = in, filepath.Join(dir, fmt.Sprint("out", i))
		o.Cluster.TempDir = t.TempDir()
		runVariant(t, a, v, o)
		got := output(t, o.Output)
		want := a.want
		if !a.ordered {
			got, want = inLineOrder(got), inLineOrder(want)
		}
		if got != want {
			t.Errorf("%s, %s: output differs\n%s", a.app, v.name, firstDifference(got, want))
		}
		if left, _ := os.ReadDir(o.Cluster.TempDir); len(left) > 0 {
			t.Errorf("%s, %s: left %v", a.app, v.name, left)
		}
	}
}

func runVariant(t *testing.T, a appTest, v variant, o mapreduce.Options) {
	t.Helper()
	app, err := Lookup(a.app)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if v.noFold && app.Job != nil {
		p, err := app.Check(a.params)
		if err != nil {
			t.Fatal(err)
		}
		j, err := app.Job(p)
		if err != nil {
			t.Fatal(err)
		}
		j.Aggregate, j.Combiner = mapreduce.NoFold, nil
		_, err = mapreduce.Run(ctx, j, o)
		if err != nil {
			t.Fatalf("%s, %s: %v", a.app, v.name, err)
		}
		return
	}
	if _, err := mapreduce.RunApp(ctx, app, a.params, o); err != nil {
		t.Fatalf("%s, %s: %v", a.app, v.name, err)
	}
}

// writeFiles makes the input and returns its directory, if there are files.
func writeFiles(t *testing.T, dir string, files map[string]string) []string {
	t.Helper()
	if files == nil {
		return nil
	}
	in := filepath.Join(dir, "in")
	for name, content := range files {
		path := filepath.Join(in, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return []string{in}
}

// output returns the output files one after the other, in the order of their
// names.
func output(t *testing.T, dir string) string {
	t.Helper()
	parts, err := filepath.Glob(filepath.Join(dir, "part-*"))
	if err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	for _, p := range parts {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(b)
	}
	return all.String()
}

func inLineOrder(s string) string {
	lines := strings.SplitAfter(s, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range g {
		if i >= len(w) || g[i] != w[i] {
			return fmt.Sprintf("line %d of %d: %.200q\nwant (of %d): %.200q", i, len(g), g[i], len(w), w[min(i, len(w)-1)])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}

// counted formats counts as jobs do.
func counted[N int | int64](counts map[string]N) string {
	var b strings.Builder
	for k, n := range counts {
		fmt.Fprintf(&b, "%s\t%d\n", k, n)
	}
	return b.String()
}

// hardText is text with all that is awkward about text: no final LF, CRLF,
// empty lines, NUL and invalid UTF-8, a long line, words that repeat.
func hardText(seed uint32, lines int) string {
	words := []string{
		"the", "of", "and", "to", "zazezu", "x", "a\x00b", "\x00", "\xff\xfe", "naïve", "日本", "|", "a|b", "f(x)", "don't", "Ze", "zizozu!",
		"\x00\xff", "longer-word-than-the-others-by-far", "é", "1984",
	}
	spaces := []string{" ", " ", " ", "\t", "  ", "\v", "\f", " \r"}
	var b strings.Builder
	next := func(n int) int {
		seed = seed*1664525 + 1013904223
		return int(seed>>8) % n
	}
	for i := range lines {
		n := next(9)
		if i == lines/2 {
			n = 3000
		}
		for range n {
			b.WriteString(words[next(1+next(len(words)))])
			b.WriteString(spaces[next(len(spaces))])
		}
		switch {
		case i == lines-1:
			b.WriteString("last words")
		case next(7) == 0:
			b.WriteString("\r\n")
		default:
			b.WriteString("\n")
		}
	}
	return b.String()
}

// hardFiles are some files of such text, an empty one and ones in directories.
func hardFiles() map[string]string {
	return map[string]string{
		"a.txt": hardText(1, 200), "b.txt": "", "c/d.txt": hardText(2, 50), "c/e.txt": "\n", "f.txt": "one line without LF", "g.txt": hardText(3, 120),
	}
}

// textLines returns the lines of files in the order of their names.
func textLines(files map[string]string) (lines []string) {
	names := make([]string, 0, len(files))
	for n := range files {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		if content := strings.TrimSuffix(files[n], "\n"); files[n] != "" {
			lines = append(lines, strings.Split(content, "\n")...)
		}
	}
	return lines
}

func joinLines(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}
