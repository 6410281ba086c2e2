package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The programs do the same work as their naive twins, on any division of the input.
func TestPrograms(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.SampledFrom([]string{"a", "zazam", "xzezizou", "zz", "zizu", "\x01", "ééééééé", "longer than eight", "longer than seven", "\t", "  "})
		text := rapid.Custom(func(t *rapid.T) string {
			return strings.Join(rapid.SliceOfN(word, 0, 4).Draw(t, "words"), rapid.SampledFrom([]string{" ", "\t"}).Draw(t, "space"))
		})
		var all []string
		args := []string{"-keys", "64", "-threads", fmt.Sprint(rapid.IntRange(1, 3).Draw(t, "threads")), filepath.Join(dir, "out")}
		for i := range rapid.IntRange(1, 3).Draw(t, "files") {
			lines := rapid.SliceOfN(text, 0, 20).Draw(t, "lines")
			all = append(all, lines...)
			name := filepath.Join(dir, fmt.Sprint(i))
			if err := os.WriteFile(name, []byte(strings.Join(append(lines, ""), "\n")), 0o666); err != nil {
				t.Fatal(err)
			}
			args = append(args, name)
		}
		for name, naive := range map[string]func([]string) []string{"wordcount": naiveCount, "sort": naiveSort, "grep": naiveGrep} {
			if err := run(append([]string{name}, args...)); err != nil {
				t.Fatal(err)
			}
			out, err := os.ReadFile(filepath.Join(dir, "out"))
			if err != nil {
				t.Fatal(err)
			}
			got := strings.SplitAfter(string(out), "\n")
			got = got[:len(got)-1]
			if name == "wordcount" {
				slices.Sort(got)
			}
			if want := naive(all); !slices.Equal(got, want) {
				t.Fatalf("%s: %q, want %q", name, got, want)
			}
		}
	})
}

func naiveCount(lines []string) (out []string) {
	counts := map[string]int{}
	for _, l := range lines {
		for _, w := range strings.FieldsFunc(l, func(r rune) bool { return r <= ' ' }) {
			counts[w]++
		}
	}
	for w, n := range counts {
		out = append(out, fmt.Sprintf("%s\t%d\n", w, n))
	}
	slices.Sort(out)
	return out
}

func naiveSort(lines []string) (out []string) {
	lines = slices.Clone(lines)
	slices.Sort(lines)
	for _, l := range lines {
		out = append(out, l+"\n")
	}
	return out
}

func naiveGrep(lines []string) (out []string) {
	re := regexp.MustCompile("z[aeiou]z[aeiou][mz]")
	for _, l := range lines {
		if re.MatchString(l) {
			out = append(out, l+"\n")
		}
	}
	return out
}

func TestUsage(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	for _, tt := range []struct {
		args []string
		want string // in the error; "" for none
	}{
		{nil, "the first argument"},
		{[]string{"join"}, "the first argument"},
		{[]string{"sort", out}, "usage"},
		{[]string{"sort", "-threads", "0", out, empty}, "usage"},
		{[]string{"sort", out, empty + ".missing"}, "no such file"},
		{[]string{"sort", out, empty}, ""},
		{[]string{"wordcount", out, empty}, ""},
		{[]string{"grep", out, empty}, ""},
	} {
		err := run(tt.args)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%q: %v, want %q", tt.args, err, tt.want)
		}
	}
	if b, err := os.ReadFile(out); err != nil || !bytes.Equal(b, nil) {
		t.Errorf("output of an empty file: %q, %v", b, err)
	}
}
