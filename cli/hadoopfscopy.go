package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/slotwise/slotwise/internal/data/storage"
)

// sourcesAndDst returns all arguments but the last, and the location that the last one names, which is the
// home if there is only one. If it names none, it prints the error and returns no sources.
func (c *fsCall) sourcesAndDst() ([]string, *location) {
	sources, typed := c.args[:len(c.args)-1], c.args[len(c.args)-1]
	// fs -put FILE copies to the home, and fs -cp and -mv take at least two arguments.
	if len(sources) == 0 {
		sources, typed = c.args, "."
	}
	dst, err := c.locate(typed)
	if err != nil {
		c.fail(typed, err)
		return nil, nil
	}
	return sources, dst
}

// put copies local files to a storage.
func (c *fsCall) put() error {
	sources, dst := c.sourcesAndDst()
	for _, s := range sources {
		if err := c.putOne(s, dst, len(sources) > 1); err != nil {
			c.fail(cmp.Or(failedAt(err), s), err)
		}
	}
	return nil
}

// pathError is an error about a path other than the argument, such as the destination. fail prints
// the path that an error is about, as Hadoop does.
type pathError struct {
	typed string
	err   error
}

func (e *pathError) Error() string { return e.err.Error() }
func (e *pathError) Unwrap() error { return e.err }

// failedAt returns the path that an error is about, or "".
func failedAt(err error) string {
	var p *pathError
	if errors.As(err, &p) {
		return p.typed
	}
	return ""
}

// localPath returns the local path of an argument, which may be a file: URI. All forms are taken,
// file:/a and file:///a, and a host is not: no tool writes one.
func localPath(arg string) string {
	if rest, ok := strings.CutPrefix(arg, "file:"); ok {
		return "/" + strings.TrimLeft(rest, "/")
	}
	return arg
}

// putOne copies one local file or directory, or standard input.
func (c *fsCall) putOne(source string, dst *location, many bool) error {
	if source == "-" {
		to, err := c.destination(dst, "-", many)
		if err != nil {
			return &pathError{dst.typed, err}
		}
		return c.write(to, c.input(), c.has("-f"))
	}
	// A source of put is a local name; a pattern has been expanded by the shell.
	local := &location{typed: source, fs: storage.Local{}, path: localPath(source)}
	to, err := c.destination(dst, local.base(), many)
	if err != nil {
		return &pathError{dst.typed, err}
	}
	return c.copyTree(local, false, to, c.has("-f"))
}

// copyTree copies a file, or a directory with its content. It refuses to copy a directory
// into itself, which would never end.
func (c *fsCall) copyTree(from *location, link bool, to *location, force bool) error {
	dir, p, same := from.path, to.path, from.fs == to.fs
	// The directory behind hdfs:/// has a local path, too: both names must be compared.
	if a, ok := from.fs.(storage.Aliased); ok && !same {
		p, same = a.Alias(c.ctx, dir, to.fs, p)
	}
	if same {
		// A link may lead back into the source. Only paths without links can be compared.
		if _, local := from.fs.(storage.Local); local {
			dir, p = resolved(dir), resolved(p)
		}
		if p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/") {
			return &pathError{to.typed, errInside}
		}
	}
	info, err := from.fs.Stat(c.ctx, from.path)
	if err != nil {
		return err
	}
	if !info.Dir {
		return c.copyTo(from, to, force)
	}
	return c.inside(from, link, func(entries []entry) error {
		// Only now, so that a destination inside the source is not one of the entries: it may be a
		// place of another name, such as a second mount, that no comparison finds.
		// An existing directory is merged into, as by Hadoop; its files are replaced only with -f.
		if err := c.makeDir(to, false); err != nil && !errors.Is(err, fs.ErrExist) {
			return &pathError{to.typed, err}
		}
		for _, e := range entries {
			child := to.at(path.Join(to.path, path.Base(e.location.path)))
			if err := c.copyTree(e.location, e.Link, child, force); err != nil {
				return err
			}
		}
		return nil
	})
}

// resolved returns the absolute form of a local path without links. The last element need not
// exist.
func resolved(p string) string {
	if abs, err := filepath.Abs(p); err == nil {
		p = abs
	}
	if all, err := filepath.EvalSymlinks(p); err == nil {
		return all
	}
	// The file itself is missing: it is made soon. Its directory decides where.
	if dir, err := filepath.EvalSymlinks(filepath.Dir(p)); err == nil {
		return filepath.Join(dir, filepath.Base(p))
	}
	return p
}

// copyTo copies one file.
func (c *fsCall) copyTo(from, to *location, force bool) error {
	f, err := from.fs.Open(c.ctx, from.path)
	if err != nil {
		return err
	}
	defer f.Close()
	return c.write(to, io.NewSectionReader(f, 0, f.Size()), force)
}

// write writes a new file. With force it replaces an old one. The file gets its name at Commit,
// when it is complete, so an interrupt or an error leaves the old one, and no file that looks
// whole.
func (c *fsCall) write(to *location, r io.Reader, force bool) error {
	e, err := to.editor()
	if err != nil {
		return err
	}
	// Asked first for Hadoop's words; CreateFile decides, since another process may create the file
	// meanwhile.
	exists, dir, err := c.exists(to)
	switch {
	case err != nil:
		return &pathError{to.typed, err}
	case exists && dir:
		return &pathError{to.typed, errIsDir}
	case exists && !force:
		return &pathError{to.typed, fs.ErrExist}
	}
	w, err := e.CreateFile(c.ctx, to.path, force)
	if err != nil {
		return &pathError{to.typed, err}
	}
	defer w.Discard()
	if err := c.copyBytes(w, r); err != nil {
		return err
	}
	if err := w.Commit(); err != nil {
		return &pathError{to.typed, err}
	}
	return nil
}

// copyBytes copies r to w, until r ends or the user interrupts the command.
func (c *fsCall) copyBytes(w io.Writer, r io.Reader) error {
	_, err := io.Copy(w, interruptible{c.ctx, r})
	return err
}

// interruptible is a reader that fails when its context has ended. Local files and standard input do
// not know contexts.
type interruptible struct {
	ctx context.Context
	r   io.Reader
}

// Read implements io.Reader. It checks the context after the read: an interrupt also ends the
// program that writes to a pipe, and the end of the pipe must not pass for the end of the data.
func (i interruptible) Read(b []byte) (int, error) {
	n, err := i.r.Read(b)
	if i.ctx.Err() != nil {
		return 0, context.Cause(i.ctx)
	}
	return n, err
}

// input returns a reader of standard input. An interrupt ends a read that waits for a slow
// program; another goroutine then waits in vain until the process exits.
func (c *fsCall) input() io.Reader {
	r, w := io.Pipe()
	go func() {
		_, err := io.Copy(w, c.in)
		w.CloseWithError(err)
	}()
	context.AfterFunc(c.ctx, func() { r.CloseWithError(context.Cause(c.ctx)) })
	return r
}

// get copies files to the local disk. The local path is not expanded, as in Hadoop, and does not go
// through locate: a default file system in HADOOP_CONF_DIR does not concern it.
func (c *fsCall) get() error {
	sources, typed := c.args[:len(c.args)-1], c.args[len(c.args)-1]
	if len(sources) == 0 {
		sources, typed = c.args, "."
	}
	if typed == "-" {
		c.each(sources, c.print)
		return nil
	}
	dst := &location{typed: typed, fs: storage.Local{}, path: localPath(typed)}
	c.each(sources, func(e entry) error {
		// For each source again, because the copy of the first one may have made the destination.
		to, err := c.destination(dst, e.base(), len(sources) > 1)
		if err != nil {
			// The error is about the destination, so the message names it and not the source.
			c.fail(typed, err)
			return nil
		}
		if err := c.copyTree(e.location, false, to, c.has("-f")); err != nil {
			c.fail(cmp.Or(failedAt(err), e.typed), err)
		}
		return nil
	})
	return nil
}

// cp copies between storages.
func (c *fsCall) cp() error {
	sources, dst := c.sourcesAndDst()
	c.each(sources, func(e entry) error {
		to, err := c.destination(dst, e.base(), len(sources) > 1)
		if err == nil {
			err = c.copyTree(e.location, false, to, c.has("-f"))
		}
		if err != nil {
			// An error that names no path is about the destination: expand has found the source.
			c.fail(cmp.Or(failedAt(err), dst.typed), err)
		}
		return nil
	})
	return nil
}

// mv renames files and directories.
func (c *fsCall) mv() error {
	sources, dst := c.sourcesAndDst()
	c.each(sources, func(e entry) error {
		ed, err := dst.editor()
		if err != nil {
			return err
		}
		// A move across storages would be a copy and a removal, which a kill can part.
		if e.location.fs != dst.fs {
			return errTwoSources
		}
		to, err := c.destination(dst, e.base(), len(sources) > 1)
		if err == nil {
			err = c.keepsRoot(e.location)
		}
		if err == nil {
			err = ed.Move(c.ctx, e.location.path, to.path)
		}
		if err != nil {
			c.fail(dst.typed, err)
		}
		return nil
	})
	return nil
}
