package input

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// globMeta are the characters that make a path a pattern. A path that exists
// as it is written is never taken as one.
const globMeta = `*?[{\`

// maxBraces bounds the patterns that {a,b} alternatives may multiply to.
const maxBraces = 10_000

// globs takes in what a pattern with alternatives matches. A file that several
// alternatives match is taken once.
func (f *finder) globs(pattern string) error {
	patterns, err := braces(pattern)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, p := range patterns {
		if _, err := path.Match(p, ""); err != nil {
			return fmt.Errorf("%w in %q", err, p)
		}
		root := "."
		if path.IsAbs(p) {
			root = "/"
		}
		if err := f.glob(root, strings.Split(strings.TrimPrefix(p, "/"), "/"), seen); err != nil {
			return err
		}
	}
	return nil
}

// glob matches the parts of a pattern below dir.
func (f *finder) glob(dir string, parts []string, seen map[string]bool) error {
	if len(parts) == 0 {
		return f.globbed(dir, seen)
	}
	part := parts[0]
	if !strings.ContainsAny(part, globMeta) {
		return f.glob(path.Join(dir, part), parts[1:], seen)
	}
	infos, err := f.fs.List(f.ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, info := range infos {
		name := path.Base(info.Path)
		// A wildcard does not match a hidden name unless it is spelled so.
		if hidden(name) && part[0] != name[0] {
			continue
		}
		if ok, _ := path.Match(part, name); !ok || (len(parts) > 1 && !info.Dir) {
			continue
		}
		if err := f.glob(path.Join(dir, name), parts[1:], seen); err != nil {
			return err
		}
	}
	return nil
}

// globbed takes in one match. What does not exist was spelled out after a
// wildcard, as in */data.txt, and is no match.
func (f *finder) globbed(p string, seen map[string]bool) error {
	if seen[p] {
		return nil
	}
	seen[p] = true
	info, err := f.fs.Stat(f.ctx, p)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Dir:
		return f.directory(p)
	}
	return f.add(p, path.Base(p), info)
}

// braces expands the alternatives of a pattern: a{b,c{d,e}} gives ab, acd and
// ace. A backslash takes the meaning from the next character.
func braces(s string) ([]string, error) {
	open, depth, from := -1, 0, 0
	var alts []string
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			i++
		case c == '{':
			if depth == 0 {
				open, from = i, i+1
			}
			depth++
		case c == ',' && depth == 1:
			alts = append(alts, s[from:i])
			from = i + 1
		case c == '}' && depth > 0:
			if depth--; depth == 0 {
				return expand(s[:open], append(alts, s[from:i]), s[i+1:])
			}
		}
	}
	if depth > 0 {
		return nil, fmt.Errorf("%q has a { without its }", s)
	}
	return []string{s}, nil
}

// expand joins each alternative with what stands before and after it.
func expand(before string, alts []string, after string) ([]string, error) {
	tails, err := braces(after)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, alt := range alts {
		heads, err := braces(before + alt)
		if err != nil {
			return nil, err
		}
		for _, h := range heads {
			for _, t := range tails {
				if all = append(all, h+t); len(all) > maxBraces {
					return nil, fmt.Errorf("the {…} of the pattern give more than %d paths", maxBraces)
				}
			}
		}
	}
	return all, nil
}
