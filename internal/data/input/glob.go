package input

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// globMeta are the characters of patterns. A path with them is a pattern only if no
// file has that exact path.
const globMeta = `*?[{\`

// maxBraces bounds the number of patterns that {a,b} alternatives expand to.
const maxBraces = 10_000

// globs adds the files that a pattern matches. It adds a file once, even if several
// alternatives match it.
func (f *finder) globs(pattern string) error {
	patterns, err := validPatterns(pattern)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, p := range patterns {
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

// CheckGlob returns an error if a pattern of input files is not valid.
func CheckGlob(pattern string) error {
	_, err := validPatterns(pattern)
	return err
}

// validPatterns replaces the {a,b} alternatives of a pattern by one pattern for each. It
// returns an error if a pattern is not valid.
func validPatterns(pattern string) ([]string, error) {
	patterns, err := braces(pattern)
	if err != nil {
		return nil, err
	}
	for _, p := range patterns {
		if _, err := path.Match(p, ""); err != nil {
			return nil, fmt.Errorf("%w in %q", err, p)
		}
	}
	return patterns, nil
}

// glob adds the files below dir that the rest of a pattern matches. parts are the
// elements of the rest.
func (f *finder) glob(dir string, parts []string, seen map[string]bool) error {
	if len(parts) == 0 {
		return f.globbed(dir, seen)
	}
	part := parts[0]
	// A plain element needs no listing, which may be long or not permitted.
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
		// A wildcard does not match '.' or '_' at the beginning of a name.
		// A pattern that begins with the character itself asks for such names, as in a shell.
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

// globbed adds one match. The path may not exist if a name follows a wildcard, as in
// */data.txt; then it is no match.
func (f *finder) globbed(p string, seen map[string]bool) error {
	if seen[p] {
		return nil
	}
	// Marked before Stat: a missing file that two alternatives name costs one request.
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

// braces expands the alternatives of a pattern: a{b,c{d,e}} yields ab, acd and ace. A
// backslash makes the next character literal.
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
		// Commas of inner braces belong to the alternative and are expanded with it.
		case c == ',' && depth == 1:
			alts = append(alts, s[from:i])
			from = i + 1
		// A } without a { is an ordinary character, as in a shell.
		case c == '}' && depth > 0:
			if depth--; depth == 0 {
				return expand(s[:open], append(alts, s[from:i]), s[i+1:])
			}
		}
	}
	if depth > 0 {
		return nil, fmt.Errorf("%q has a { without a matching }", s)
	}
	return []string{s}, nil
}

// expand joins each alternative with the text before and after the braces.
func expand(before string, alts []string, after string) ([]string, error) {
	// The rest first and once: its expansions are the same for all alternatives.
	tails, err := braces(after)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, alt := range alts {
		// Inner braces of the alternative are expanded here; before has none.
		heads, err := braces(before + alt)
		if err != nil {
			return nil, err
		}
		for _, h := range heads {
			for _, t := range tails {
				if all = append(all, h+t); len(all) > maxBraces {
					return nil, fmt.Errorf("the {…} of the pattern expand to more than %d paths", maxBraces)
				}
			}
		}
	}
	return all, nil
}
