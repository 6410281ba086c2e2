package input

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/slotwise/slotwise/internal/data/format"
	"github.com/slotwise/slotwise/internal/data/storage"
)

// HadoopOptions select and divide text files by the rules of Hadoop's FileInputFormat.
// A split never has more than one file, unless Combine is set.
type HadoopOptions struct {
	Schemes *storage.Schemes
	Inputs  []string // URIs of files, directories and globs
	// Recursive reads directories below directories. Without it such a directory is an
	// error, or is skipped with IgnoreDirs.
	Recursive, IgnoreDirs bool
	Maps                  int   // the wanted number of splits
	MinSize               int64 // the least size of a split in bytes
	LinesPerMap           int   // lines of each split; 0 divides by bytes
	Combine               bool  // small files share a split
	// Rows is as in Options.
	Rows *format.Spec
	// Sequences, if not nil, is the format of files that begin as SequenceFiles do. Rows is for all others.
	Sequences *format.Spec
}

// hadoopBlock is the size of an HDFS block in bytes, which bounds splits.
const hadoopBlock = 128 << 20

// PlanHadoop finds the input files and divides them into splits. The splits are in the
// order of falling sizes, as Hadoop numbers its maps.
func PlanHadoop(ctx context.Context, o *HadoopOptions) ([]Split, error) {
	files, err := o.list(ctx)
	if err != nil {
		return nil, err
	}
	total := int64(0)
	for i := range files {
		total += files[i].size
	}
	// Hadoop's formula: max(minSize, min(goalSize, blockSize)).
	// mapred.map.tasks is a hint by this formula: it can make splits smaller than a block, never larger. 1
	// keeps an input of a few bytes from splits without length.
	size := max(1, o.MinSize, min(total/int64(max(1, o.Maps)), hadoopBlock))
	var splits []Split
	// For AutoInputFormat, which decides file by file. The two kinds need different fields, so they are
	// planned apart and joined before the sort.
	if o.Sequences != nil {
		var sequences []found
		if sequences, files, err = o.separate(ctx, files); err != nil {
			return nil, err
		}
		if splits, err = o.cut(ctx, sequences, o.Sequences, size); err != nil {
			return nil, err
		}
	}
	others, err := o.cut(ctx, files, o.Rows, size)
	if err != nil {
		return nil, err
	}
	splits = append(splits, others...)
	// Stable, so that splits of one size keep the order of the files, and each client numbers the maps in the
	// same way.
	slices.SortStableFunc(splits, func(a, b Split) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return splits, nil
}

// separate divides files into SequenceFiles and others, by their first bytes.
func (o *HadoopOptions) separate(ctx context.Context, files []found) (sequences, others []found, err error) {
	// A second planner: its findings hold for o.Rows only, and cut plans with other rows.
	p := &planner{ctx: ctx, opts: &Options{Schemes: o.Schemes, Rows: o.Rows}}
	p.examine(files, func(*found) bool { return true })
	for i := range files {
		c, err := p.content(&files[i])
		if err != nil {
			return nil, nil, err
		}
		if c.rows != nil && c.rows.Name == format.Sequence {
			sequences = append(sequences, files[i])
		} else {
			others = append(others, files[i])
		}
	}
	return sequences, others, nil
}

// cut divides files of one format into splits.
func (o *HadoopOptions) cut(ctx context.Context, files []found, rows *format.Spec, size int64) ([]Split, error) {
	p := &planner{ctx: ctx, opts: &Options{Schemes: o.Schemes, Rows: rows}}
	// All files must have the first file's columns, so these are found before any split is made.
	err := p.findFirst(files)
	if err != nil {
		return nil, err
	}
	// Hadoop's CombineTextInputFormat without a maximum makes one split for each node. A block is the nearest
	// size that keeps several maps busy.
	if o.Combine {
		p.opts.SplitSize = hadoopBlock
		size = hadoopBlock
	}
	if o.LinesPerMap > 0 {
		size = 0 // cutLines reads each file, whatever its size
	}
	p.examine(files, p.opens(size))
	for i := range files {
		switch f := &files[i]; {
		case o.LinesPerMap > 0:
			err = p.cutLines(f, o.LinesPerMap)
		// add is slotwise's own packing, with its cost of opening a file.
		case o.Combine:
			err = p.add(f)
		default:
			err = p.cutHadoop(f, size)
		}
		if err != nil {
			return nil, err
		}
	}
	p.flush()
	return p.splits, nil
}

// list returns the files of all inputs. The error names every input that is wrong.
//
// Unlike List it does not sort: Hadoop reads inputs in the order of the command line.
func (o *HadoopOptions) list(ctx context.Context) (files []found, err error) {
	var errs []error
	for _, uri := range o.Inputs {
		some, err := o.find(ctx, uri)
		if err != nil {
			errs = append(errs, err)
		}
		files = append(files, some...)
	}
	return files, errors.Join(errs...)
}

// find returns the files of one input.
func (o *HadoopOptions) find(ctx context.Context, uri string) ([]found, error) {
	fsys, p, err := o.Schemes.Resolve(uri)
	if err != nil {
		return nil, err
	}
	// A missing input is no error yet: the two messages below are Hadoop's, which scripts search for.
	matches, glob, err := Glob(ctx, fsys, path.Clean(p))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("input %s: %w", uri, err)
	}
	// Also an input that is named directly: Hadoop's hidden file filter applies to the results of a glob, and
	// each input is one there.
	matches = slices.DeleteFunc(matches, func(i storage.Info) bool { return hidden(path.Base(i.Path)) })
	switch {
	case len(matches) == 0 && glob:
		return nil, fmt.Errorf("Input Pattern %s matches 0 files: %w", withScheme(uri), fs.ErrNotExist) //nolint:staticcheck // Hadoop's words
	case len(matches) == 0:
		return nil, fmt.Errorf("Input path does not exist: %s: %w", withScheme(uri), fs.ErrNotExist) //nolint:staticcheck // Hadoop's words
	}
	scheme, _ := storage.SplitURI(uri)
	w := &hadoopWalk{o: o, ctx: ctx, scheme: scheme, fs: fsys}
	for _, m := range matches {
		if !m.Dir {
			err = w.add(m)
		} else {
			err = w.directory(m.Path, 0)
		}
		if err != nil {
			return nil, err
		}
	}
	return w.files, nil
}

// withScheme returns a URI with its scheme, for messages.
func withScheme(uri string) string {
	if scheme, _ := storage.SplitURI(uri); scheme == "" && path.IsAbs(uri) {
		return "file:" + uri
	}
	return uri
}

// hadoopWalk collects the files of one input.
type hadoopWalk struct {
	o      *HadoopOptions
	ctx    context.Context
	scheme string
	fs     storage.FS
	files  []found
}

// add adds a file. A negative size marks an entry whose status the listing could not read, such as
// a broken link.
func (w *hadoopWalk) add(i storage.Info) error {
	if i.Size < 0 {
		_, err := w.fs.Stat(w.ctx, i.Path)
		return cmp.Or(err, fmt.Errorf("input %s cannot be read", i.Path))
	}
	w.files = append(w.files, found{uri: storage.JoinURI(w.scheme, i.Path), path: i.Path, size: i.Size, fs: w.fs, version: i.Version})
	return nil
}

// maxDepth bounds the directories above each other, because links can form a circle.
const maxDepth = 100

// directory adds the files of a directory.
func (w *hadoopWalk) directory(dir string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("input %s: more than %d directories below each other", dir, maxDepth)
	}
	infos, err := w.fs.List(w.ctx, dir)
	if err != nil {
		return err
	}
	for _, i := range infos {
		switch {
		case hidden(path.Base(i.Path)):
		case !i.Dir:
			err = w.add(i)
		case w.o.Recursive:
			err = w.directory(i.Path, depth+1)
		case !w.o.IgnoreDirs:
			err = fmt.Errorf("Not a file: %s (-D mapreduce.input.fileinputformat.input.dir.recursive=true reads directories below the input)", //nolint:staticcheck // Hadoop's words
				withScheme(storage.JoinURI(w.scheme, i.Path)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// cutHadoop divides a file while the rest is more than a tenth larger than a split.
func (p *planner) cutHadoop(f *found, size int64) error {
	cut, rows := f.size > size, p.spec().String()
	if cut {
		var err error
		if cut, rows, err = p.divisible(f); err != nil {
			return err
		}
	} else if err := p.probe(f); f.size > 0 && err != nil {
		return err
	}
	off := int64(0)
	// Hadoop's SPLIT_SLOP of 1.1, in whole numbers.
	for cut && (f.size-off)*10 > size*11 {
		p.piece(f, off, size, rows)
		off += size
	}
	// Hadoop runs a map for an empty file, too.
	if off < f.size || f.size == 0 {
		p.piece(f, off, f.size-off, rows)
	}
	return context.Cause(p.ctx)
}

// piece adds a split of one piece.
func (p *planner) piece(f *found, off, n int64, rows string) {
	p.splits = append(p.splits, Split{Pieces: []Piece{f.piece(off, n)}, Bytes: n, Hosts: p.hosts(f, off, n), Rows: rows, First: p.first})
}

// cutLines divides a file into splits of n lines. It reads the file.
func (p *planner) cutLines(f *found, n int) error {
	// NLineInputFormat makes no split for an empty file.
	if f.size == 0 {
		return nil
	}
	// A split of lines is a range of bytes of the file, which a compressed file does not have.
	if cut, rows, err := p.divisible(f); err != nil || !cut || rows != "" {
		return errors.Join(err, p.errUndivided(f, err != nil))
	}
	// With the reader of the tasks, so that plan and task agree about what a line is.
	r, err := Open(p.ctx, p.opts.Schemes, Split{Pieces: []Piece{f.piece(0, f.size)}, Bytes: f.size}, Format{}, 0)
	if err != nil {
		return err
	}
	defer r.Close()
	from, lines := int64(0), 0
	for {
		block, err := r.NextBlock()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		// The offset of the block, which the loop moves to the byte behind each LF: a split begins exactly at
		// a line.
		at := r.Offset()
		for {
			i := bytes.IndexByte(block, '\n')
			if i < 0 {
				break
			}
			block, at = block[i+1:], at+int64(i)+1
			if lines++; lines == n {
				p.piece(f, from, at-from, "")
				from, lines = at, 0
			}
		}
	}
	// The rest has fewer lines, or ends without an LF.
	if from < f.size {
		p.piece(f, from, f.size-from, "")
	}
	return nil
}

// errUndivided returns an error unless ok: lines of compressed files cannot be counted
// into splits.
func (p *planner) errUndivided(f *found, ok bool) error {
	if ok {
		return nil
	}
	return fmt.Errorf("input %s: a compressed file, or one with records of another format, cannot be divided into splits of lines", f.uri)
}

// Glob returns the files and directories that a path within a file system names, sorted
// by path, hidden ones included. glob says that the path is a pattern; else the error is
// the error of Stat.
func Glob(ctx context.Context, fsys storage.FS, p string) (matches []storage.Info, glob bool, err error) {
	info, err := fsys.Stat(ctx, p)
	// A name that exists is no pattern, whatever characters it has.
	if err == nil || !errors.Is(err, fs.ErrNotExist) || !strings.ContainsAny(p, globMeta) {
		info.Path = p
		if err != nil {
			return nil, false, err
		}
		return []storage.Info{info}, false, nil
	}
	patterns, err := braces(p)
	if err != nil {
		return nil, true, err
	}
	g := &globber{ctx: ctx, fs: fsys, seen: map[string]bool{}}
	for _, pattern := range patterns {
		if _, err := path.Match(pattern, ""); err != nil {
			return nil, true, fmt.Errorf("%w in %q", err, pattern)
		}
		root := "."
		if path.IsAbs(pattern) {
			root = "/"
		}
		if err := g.expand(root, strings.Split(strings.TrimPrefix(pattern, "/"), "/")); err != nil {
			return nil, true, err
		}
	}
	slices.SortFunc(g.matches, func(a, b storage.Info) int { return cmp.Compare(a.Path, b.Path) })
	return g.matches, true, nil
}

// globber expands patterns.
type globber struct {
	ctx     context.Context
	fs      storage.FS
	seen    map[string]bool
	matches []storage.Info
}

// expand adds what matches the elements of a pattern below dir.
func (g *globber) expand(dir string, parts []string) error {
	plain := 0
	// Elements without a pattern need no listing, which may not be permitted and may be long.
	for plain < len(parts) && !strings.ContainsAny(parts[plain], globMeta) {
		dir = path.Join(dir, parts[plain])
		plain++
	}
	if parts = parts[plain:]; len(parts) == 0 {
		info, err := g.fs.Stat(g.ctx, dir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		info.Path = dir
		return cmp.Or(err, g.match(info))
	}
	infos, err := g.fs.List(g.ctx, dir)
	if err != nil {
		// The directory was removed since the pattern was expanded to it, or is no directory. Neither is a
		// match.
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	for _, i := range infos {
		name := path.Base(i.Path)
		// Hidden names match here, unlike in slotwise's globs: hadoop fs -ls '_*' lists them, and find
		// removes them afterwards.
		if ok, _ := path.Match(parts[0], name); !ok || len(parts) > 1 && !i.Dir {
			continue
		}
		if i.Path = path.Join(dir, name); len(parts) > 1 {
			err = g.expand(i.Path, parts[1:])
		} else {
			err = g.match(i)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// match adds a match once.
func (g *globber) match(i storage.Info) error {
	if !g.seen[i.Path] {
		g.seen[i.Path] = true
		g.matches = append(g.matches, i)
	}
	return nil
}
