package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// input is the input of all jobs.
type input struct {
	dir   string
	lines []string // its content
}

// The size of the input.
const (
	inputLines = 24_000
	lineWords  = 3
)

// makeInput writes the input: two files with words of a skewed distribution.
func makeInput(dir string) (*input, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	in := &input{dir: dir}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range inputLines {
		var words []string
		for range lineWords {
			words = append(words, fmt.Sprintf("w%d", rnd.IntN(40)*rnd.IntN(40)))
		}
		in.lines = append(in.lines, strings.Join(words, " "))
	}
	for i, half := range [][]string{in.lines[:inputLines/2], in.lines[inputLines/2:]} {
		text := strings.Join(half, "\n") + "\n"
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), []byte(text), 0o666); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// work is a kind of job: its command line and its expected output.
type work struct {
	name   string
	args   []string
	parts  int                      // number of part files; 0 means one for each map
	sorted bool                     // the concatenated part files are sorted
	answer func(in *input) []string // the expected lines in any order
}

// works are all kinds of jobs.
var works = []work{
	{name: "wordcount", args: []string{"wordcount", "--split-size", "48KiB", "--reduces", "3"}, parts: 3, answer: counts},
	{name: "compressed", args: []string{"wordcount", "--split-size", "64KiB", "--reduces", "2", "--compress", "lz4"}, parts: 2, answer: counts},
	{name: "sort", args: []string{"sort", "--split-size", "48KiB", "--reduces", "3"}, parts: 3, sorted: true, answer: all},
	{name: "stream", args: []string{"--mapper", "tr w W", "--reducer", "uniq -c", "--split-size", "64KiB", "--reduces", "2"}, parts: 2, answer: distinct},
	{name: "grep", args: []string{"grep", "--param", "regex=w1[0-9]* w2", "--split-size", "48KiB"}, answer: matching},
	{name: "slow", args: []string{"--mapper", "sleep 0.5; cat", "--reducer", "sleep 0.8; cat", "--split-size", "48KiB", "--reduces", "3"}, parts: 3, answer: all},
}

// mixes are the sets of jobs of one run, by name.
var mixes = [][]string{
	{"slow", "wordcount"},
	{"sort", "slow", "grep"},
	{"stream", "slow", "compressed"},
	{"slow", "sort", "stream", "grep"},
}

// jobNamed returns the entry of works with a name, which must exist.
func jobNamed(name string) work {
	return works[slices.IndexFunc(works, func(w work) bool { return w.name == name })]
}

// all is the answer of jobs that keep every line.
func all(in *input) []string { return slices.Clone(in.lines) }

// counts is the answer of a word count.
func counts(in *input) []string {
	n := map[string]int{}
	for _, line := range in.lines {
		for w := range strings.FieldsSeq(line) {
			n[w]++
		}
	}
	return formatted(n, "%[1]s\t%[2]d")
}

// distinct is the answer of uniq -c after tr w W.
func distinct(in *input) []string {
	n := map[string]int{}
	for _, line := range in.lines {
		n[strings.ReplaceAll(line, "w", "W")]++
	}
	return formatted(n, "%7[2]d %[1]s")
}

// formatted formats each key and its count.
func formatted(n map[string]int, format string) []string {
	var out []string
	for k, v := range n {
		out = append(out, fmt.Sprintf(format, k, v))
	}
	return out
}

// matching is the answer of the grep, computed without its regular expression.
func matching(in *input) []string {
	var out []string
	for _, line := range in.lines {
		w := strings.Fields(line)
		for i := range len(w) - 1 {
			if strings.HasPrefix(w[i], "w1") && strings.HasPrefix(w[i+1], "w2") {
				out = append(out, line)
				break
			}
		}
	}
	return out
}
