package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// checkOutput looks that a job's output directory is right: as many parts as
// there must be, each once, _SUCCESS and nothing else, and all lines in them.
func checkOutput(dir string, w work, in *input) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var got []string
	kind := "part-r"
	if w.parts == 0 {
		kind = "part-m"
	}
	parts, success := 0, false
	for _, e := range entries { // in the order of their names
		if e.Name() == "_SUCCESS" {
			success = true
			continue
		}
		if e.Name() != fmt.Sprintf("%s-%05d", kind, parts) {
			return fmt.Errorf("%s where part %d should be", e.Name(), parts)
		}
		parts++
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(b)) {
			got = append(got, strings.TrimSuffix(line, "\n"))
		}
	}
	if !success || w.parts > 0 && parts != w.parts {
		return fmt.Errorf("%d parts, want %d; _SUCCESS: %t", parts, w.parts, success)
	}
	return sameLines(got, w.answer(in), w.sorted)
}

// sameLines compares lines, in any order unless they must be sorted.
func sameLines(got, want []string, sorted bool) error {
	if sorted && !slices.IsSorted(got) {
		return errors.New("the output is not in order")
	}
	slices.Sort(got)
	slices.Sort(want)
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Errorf("%d lines, want %d; line %d in order is %q, want %q", len(got), len(want), i, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		return fmt.Errorf("%d lines, want %d", len(got), len(want))
	}
	return nil
}

// nothingLeft looks for temporary files after everything has ended: beside
// outputs, in the directory for temporary files, and where workers keep what
// belongs to jobs, which all have ended.
func (c *cluster) nothingLeft(o *outcome) error {
	var left []string
	for _, pattern := range []string{"out/.*", "tmp/*", "master/*/*.tmp", "master/*/*.new", "master/files/upload-*",
		"disks/*/*.new", "disks/*/files/new-*"} {
		found, err := filepath.Glob(filepath.Join(c.dir, pattern))
		if err != nil {
			return err
		}
		left = append(left, found...)
	}
	for _, w := range c.workers {
		for _, d := range []string{"attempts", "outputs"} {
			err := filepath.WalkDir(filepath.Join(w.dir, d), func(path string, e fs.DirEntry, err error) error {
				if err == nil && filepath.Base(path) != d {
					left = append(left, path)
				}
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	left = slices.DeleteFunc(left, func(path string) bool { return o.forgotten(c, path) })
	if len(left) > 0 {
		return fmt.Errorf("files are left: %q", left)
	}
	return nil
}

// forgotten reports whether a path is the staged output of a job that failed
// because a fault had the master forget it.
func (o *outcome) forgotten(c *cluster, path string) bool {
	return slices.ContainsFunc(o.strikes, func(s strike) bool { return s.hit && s.kind.forgets }) &&
		slices.ContainsFunc(o.excused, func(said string) bool {
			name, _, _ := strings.Cut(said, ":")
			return strings.HasPrefix(path, filepath.Join(c.out(), "."+name+"."))
		})
}
