package input

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/slotwise/slotwise/internal/data/storage"
)

// found is an input file.
type found struct {
	uri  string
	path string // within fs
	size int64  // bytes
	fs   storage.FS

	version storage.Version
}

// finder collects the files of one element of Options.Inputs.
type finder struct {
	ctx    context.Context
	opts   *Options
	scheme string // of the input, as the user wrote it
	fs     storage.FS
	files  []found
}

// find returns the files of one input: a file, a directory or a pattern.
func find(ctx context.Context, opts *Options, uri string) ([]found, error) {
	fsys, p, err := opts.Schemes.Resolve(uri)
	if err != nil {
		return nil, err
	}
	scheme, _ := storage.SplitURI(uri)
	f := &finder{ctx: ctx, opts: opts, scheme: scheme, fs: fsys}
	p = path.Clean(p)
	info, err := fsys.Stat(ctx, p)
	switch {
	case err == nil && info.Dir:
		err = f.directory(p)
	case err == nil:
		err = f.add(p, path.Base(p), info)
	// Only then: an existing file may have any of these characters in its name.
	case errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(p, globMeta):
		err = f.globs(p)
	}
	if err != nil {
		return nil, fmt.Errorf("input %s: %w", uri, err)
	}
	// An input without files is almost always a typing error, or a job before this one that has written
	// nothing. Inputs are counted one by one, so that the good ones do not hide it.
	if len(f.files) == 0 {
		return nil, fmt.Errorf("input %s: %w%s", uri, ErrNoFiles, opts.filters())
	}
	return f.files, nil
}

// filters describes the include and exclude patterns for an error message.
func (o *Options) filters() string {
	var s strings.Builder
	for _, p := range o.Include {
		fmt.Fprintf(&s, ", include %q", p)
	}
	for _, p := range o.Exclude {
		fmt.Fprintf(&s, ", exclude %q", p)
	}
	if s.Len() == 0 {
		return " (files whose names begin with '.' or '_' do not count)"
	}
	return " (with" + s.String()[1:] + ")"
}

// hidden applies Hadoop's rule: names that begin with '.' or '_' are markers or
// temporary files.
func hidden(name string) bool { return name[0] == '.' || name[0] == '_' }

// add adds a file, unless the filters exclude it or it cannot be read. rel is its path
// below the input directory.
func (f *finder) add(p, rel string, info storage.Info) error {
	keep := len(f.opts.Include) == 0
	for _, pat := range f.opts.Include {
		keep = keep || matches(pat, p, rel)
	}
	// Exclude wins over Include.
	for _, pat := range f.opts.Exclude {
		keep = keep && !matches(pat, p, rel)
	}
	if !keep {
		return nil
	}
	if info.Size < 0 {
		// List could not describe the entry. Stat returns the reason.
		if _, err := f.fs.Stat(f.ctx, p); err != nil {
			return err
		}
		return &fs.PathError{Op: "stat", Path: p, Err: fs.ErrInvalid}
	}
	if s, ok := f.fs.(storage.Sampled); ok {
		var err error
		if info, err = s.Sample(f.ctx, p); err != nil {
			return err
		}
	}
	f.files = append(f.files, found{uri: storage.JoinURI(f.scheme, p), path: p, size: info.Size, fs: f.fs, version: info.Version})
	return nil
}

// directory adds the files below a directory. It lists directories of one depth at the same time: a data set
// with a directory for each day of years, on a store with a round trip of 50 ms, would take minutes one by one.
func (f *finder) directory(dir string) error {
	real, err := f.canonical(dir)
	if err != nil {
		return err
	}
	for level := []subdir{{path: dir, above: []string{real}}}; len(level) > 0; {
		infos := make([][]storage.Info, len(level))
		err := atOnce(len(level), func(i int) (err error) {
			if err = context.Cause(f.ctx); err == nil {
				infos[i], err = f.fs.List(f.ctx, level[i].path)
			}
			return err
		})
		if err != nil {
			return err
		}
		var next []subdir
		for i := range level {
			if next, err = f.sort(&level[i], infos[i], next); err != nil {
				return err
			}
		}
		level = next
	}
	return nil
}

// canonical resolves the links in a path, where the file system has links.
func (f *finder) canonical(dir string) (string, error) {
	if l, ok := f.fs.(storage.Linked); ok {
		return l.Canonical(f.ctx, dir)
	}
	return dir, nil
}

// subdir is a directory below an input, or the input itself.
type subdir struct {
	path, rel string   // rel is the path below the input
	above     []string // canonical paths of the directory, which comes last, and of its ancestors below the input
}

// sort adds the files in a directory, and appends the directories in it to next.
func (f *finder) sort(d *subdir, infos []storage.Info, next []subdir) ([]subdir, error) {
	for _, info := range infos {
		name := path.Base(info.Path)
		if hidden(name) {
			continue
		}
		p, rel := path.Join(d.path, name), path.Join(d.rel, name)
		if !info.Dir {
			if err := f.add(p, rel, info); err != nil {
				return nil, err
			}
			continue
		}
		// Include does not prune: a file deep below a directory may match although the directory does not.
		if f.pruned(p, rel) {
			continue
		}
		// Without a link the canonical path grows by the name, which saves resolving each directory.
		real := path.Join(d.above[len(d.above)-1], name)
		if info.Link {
			var err error
			if real, err = f.canonical(p); err != nil {
				return nil, err
			}
		}
		// A link to an ancestor is a circle, and the walk reads the ancestor's files already. Behind a link to a
		// directory above the input, the input itself is such an ancestor.
		if slices.Contains(d.above, real) {
			continue
		}
		// The capacity is cut, because siblings append to the same slice.
		next = append(next, subdir{p, rel, append(d.above[:len(d.above):len(d.above)], real)})
	}
	return next, nil
}

// pruned reports whether a directory is excluded with its content.
func (f *finder) pruned(p, rel string) bool {
	return slices.ContainsFunc(f.opts.Exclude, func(pat string) bool { return matches(pat, p, rel) })
}

// matches applies an include or exclude pattern to a file. A pattern without a slash
// applies to the base name, any other to the path below the input and to the whole
// path.
func matches(pattern, p, rel string) bool {
	if !strings.Contains(pattern, "/") {
		ok, _ := path.Match(pattern, path.Base(p))
		return ok
	}
	pat := strings.Split(pattern, "/")
	// Below the input as rsync's filters work, and the whole path because users copy paths from listings.
	return matchParts(pat, strings.Split(rel, "/")) || matchParts(pat, strings.Split(p, "/"))
}

// matchParts compares a pattern and a path element by element. "**" matches any number
// of elements.
func matchParts(pat, parts []string) bool {
	for i, p := range pat {
		if p == "**" {
			// The rest of the pattern is tried behind each number of elements.
			for skip := range len(parts) - i + 1 {
				if matchParts(pat[i+1:], parts[i+skip:]) {
					return true
				}
			}
			return false
		}
		if i >= len(parts) {
			return false
		}
		if ok, _ := path.Match(p, parts[i]); !ok {
			return false
		}
	}
	return len(pat) == len(parts)
}
