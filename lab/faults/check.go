package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// checkOutput checks a job's output directory in a store: the expected number of part
// files, each once, _SUCCESS, no other file, and the expected lines.
func checkOutput(s store, dir string, w work, in *input) error {
	names, err := s.names(dir)
	if err != nil {
		return err
	}
	var got []string
	kind := "part-r"
	if w.parts == 0 {
		kind = "part-m"
	}
	parts, success := 0, false
	for _, name := range names { // in order
		if name == "_SUCCESS" {
			success = true
			continue
		}
		if name != fmt.Sprintf("%s-%05d", kind, parts) {
			return fmt.Errorf("%s where part %d should be", name, parts)
		}
		parts++
		b, err := s.read(path.Join(dir, name))
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

// sameLines compares lines. If sorted is true, got must also be in order. It sorts
// both slices.
func sameLines(got, want []string, sorted bool) error {
	if sorted && !slices.IsSorted(got) {
		return errors.New("the output is not sorted")
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

// nothingLeft returns an error if a temporary file is left after all processes have
// ended. It looks beside the outputs, in TMPDIR, in the master's directory, and where
// workers keep attempts and map outputs.
func (c *cluster) nothingLeft(o *outcome) error {
	left, err := c.store.leftovers()
	if err != nil {
		return err
	}
	for _, pattern := range []string{"tmp/*", "master/*/*.tmp", "master/*/*.new", "master/files/upload-*",
		"disks/*/*.new", "disks/*/files/new-*"} {
		found, err := filepath.Glob(filepath.Join(c.dir, pattern))
		if err != nil {
			return err
		}
		left = append(left, found...)
	}
	for _, w := range c.workers {
		for _, d := range []string{"attempts", "outputs"} {
			err := filepath.WalkDir(filepath.Join(w.dir, d), func(file string, e fs.DirEntry, err error) error {
				if err == nil && filepath.Base(file) != d {
					left = append(left, file)
				}
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	left = slices.DeleteFunc(left, o.lostStaging)
	if len(left) > 0 {
		return fmt.Errorf("files are left behind: %q", left)
	}
	return nil
}

// lostStaging reports whether a path is the staged output of a job that failed
// because the master lost its journal records. The master cannot know about it.
func (o *outcome) lostStaging(file string) bool {
	return slices.ContainsFunc(o.injections, func(s injection) bool { return s.hit && s.kind.losesRecords }) &&
		slices.ContainsFunc(o.explained, func(message string) bool {
			name, _, _ := strings.Cut(message, ":")
			return strings.HasPrefix(file, path.Join("out", "."+name+"."))
		})
}
