package input

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/slotwise/slotwise/internal/base/retry"
	"github.com/slotwise/slotwise/internal/data/format"
	"github.com/slotwise/slotwise/internal/data/storage"
)

// ErrNoFiles is wrapped by the error for an input without files.
var ErrNoFiles = errors.New("no files found")

// DefaultSplitSize applies if Options.SplitSize is 0. At this size the overhead of a
// task is small, and the load still spreads evenly over workers.
const DefaultSplitSize = 32 << 20

// openCost is the cost of opening a file, expressed as bytes that could be read in the
// same time. It bounds the number of small files in a split.
// Without it a split of 32 MiB could have a million files of a few bytes, and one task would open all of
// them.
const openCost = 16 << 10

// slop: a file's last split may exceed the split size by 1/slop. That avoids a tiny
// split at the end.
const slop = 10

// Parameters of ChooseSplitSize. Each map slot gets a few splits, so that slots finish
// at about the same time.
const (
	minSplit     = 1 << 20
	maxSplit     = 128 << 20
	splitsPerMap = 4
	foldsPerMap  = 2 // for a job that folds: each task must write its table at the end
)

// ChooseSplitSize returns the split size in bytes for a job without an explicit one.
// mapSlots is the number of map slots of the cluster. folds says that the job declares
// an Aggregate. sorts says that each map sorts its output in buffer bytes of memory;
// then a split is small enough to be sorted without a spill.
func ChooseSplitSize(total int64, mapSlots int, folds, sorts bool, buffer int64) int64 {
	perSlot := splitsPerMap
	if folds {
		perSlot = foldsPerMap
	}
	size := min(maxSplit, max(minSplit, total/int64(perSlot*max(1, mapSlots))))
	// The index and the scratch space of the sort take the rest of the buffer.
	// A spill costs a write, a read and a merge of the whole output, more than the overhead of two smaller
	// tasks.
	if sorts && !folds {
		size = min(size, max(minSplit, buffer*6/10))
	}
	return size
}

// rangeBytes is the approximate input of one reduce of a totally ordered job.
const rangeBytes = 64 << 20

// ChooseReduces returns the number of reduces for a job without an explicit one: one
// for each reduce slot, and more for a large input in total order.
func ChooseReduces(total int64, reduceSlots int, totalOrder bool) int {
	if totalOrder {
		// More reduces than slots: in total order the ranges come from samples and differ in size, and small
		// ones even that out.
		return max(reduceSlots, min(512, int(total/rangeBytes)))
	}
	return reduceSlots
}

// Options select the input files and the size of splits.
type Options struct {
	// Schemes are the storage schemes that inputs may have; nil means local files.
	Schemes *storage.Schemes
	// Inputs are URIs or plain paths of files, directories and globs (*, ?, [a-z],
	// {a,b}). A directory includes all files below it, also through links. Names
	// that begin with '.' or '_' are skipped unless an input names them directly. If
	// two inputs name the same file, it is read twice.
	Inputs []string
	// Include and Exclude are globs. If Include is not empty, a file must match one
	// of its globs. Exclude drops files and whole directories that match one of its
	// globs. A glob without a slash applies to the base name. A glob with a slash
	// applies to the path below the input and to the whole path; "**" in it matches
	// any number of directories.
	Include, Exclude []string
	// SplitSize is the size of a split in bytes; 0 means DefaultSplitSize. A split
	// is larger if it holds a file that cannot be divided: a compressed file (except
	// lines in bzip2), a run file, or a file that is one record.
	SplitSize int64
	// Format determines where files may be divided.
	Format Format
	// Rows is the format of files whose records become the lines that Format reads; nil for
	// the choice by each file's first bytes.
	Rows *format.Spec
}

// Plan finds the input files and divides them into splits. The splits are in the order
// of the files' URIs, whatever the order of Options.Inputs. Large files are divided,
// and small files share a split. An empty file adds nothing, except as a record of
// format Whole, so the result may be empty.
//
// An input without files is an error that wraps ErrNoFiles. If an input does not exist
// or cannot be read, the error names it.
func Plan(ctx context.Context, opts Options) ([]Split, error) {
	l, err := List(ctx, opts)
	if err != nil {
		return nil, err
	}
	return l.Split(ctx, opts.SplitSize)
}

// Listing holds the input files before they are divided. A caller that chooses the
// split size by the size of the input calls List and Listing.Split instead of Plan.
type Listing struct {
	Bytes int64 // size of all files
	Files int
	// Excluded is the number of files that were found and are not read, because their partitions do
	// not meet the conditions of Options.Rows. They are not in Files and Bytes.
	Excluded int
	opts     Options
	files    []found
}

// List finds the input files. It returns the errors that Plan describes and ignores
// Options.SplitSize.
func List(ctx context.Context, opts Options) (*Listing, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	l := &Listing{opts: opts}
	for _, uri := range opts.Inputs {
		some, err := find(ctx, &opts, uri)
		if err != nil {
			return nil, err
		}
		l.files = append(l.files, some...)
	}
	// Before the sizes are summed, so that the split size follows from the bytes that are read.
	if rows := opts.Rows; rows != nil && len(rows.Where) > 0 {
		before := len(l.files)
		l.files = slices.DeleteFunc(l.files, func(f found) bool { return rows.ExcludesFile(partitionsOf(f.uri, rows)) })
		l.Excluded = before - len(l.files)
	}
	l.Files = len(l.files)
	// Stable, so that a file that two inputs name is read in the order of the inputs.
	slices.SortStableFunc(l.files, func(a, b found) int { return cmp.Compare(a.uri, b.uri) })
	for i := range l.files {
		l.Bytes += l.files[i].size
	}
	return l, nil
}

// Split divides the files into splits of about size bytes; 0 means DefaultSplitSize.
func (l *Listing) Split(ctx context.Context, size int64) ([]Split, error) {
	opts := l.opts
	if opts.SplitSize = size; size == 0 {
		opts.SplitSize = DefaultSplitSize
	}
	p := &planner{ctx: ctx, opts: &opts}
	// Before examine, because every file is checked against this layout when it is opened.
	if err := p.findFirst(l.files); err != nil {
		return nil, err
	}
	// Only these files are opened. A plan of a million small files costs listings and 16 opens.
	p.examine(l.files, p.opens(opts.SplitSize))
	for i := range l.files {
		if err := p.add(&l.files[i]); err != nil {
			return nil, err
		}
	}
	p.flush()
	return p.splits, nil
}

// check returns an error if the options are not valid.
func (o *Options) check() error {
	if len(o.Inputs) == 0 {
		return errors.New("no input files given")
	}
	if o.SplitSize < 0 {
		return fmt.Errorf("the split size must not be negative: %d", o.SplitSize)
	}
	for _, p := range slices.Concat(o.Include, o.Exclude) {
		if _, err := path.Match(p, ""); err != nil {
			return fmt.Errorf("pattern %q: %w", p, err)
		}
	}
	if o.Rows != nil && o.Rows.Name != format.Auto && o.Rows.Name != format.Text {
		if !o.Format.lines() {
			return fmt.Errorf("format %s is for jobs that read lines, and this job reads its input as %v", o.Rows.Name, o.Format)
		}
		if _, err := format.Get(o.Rows.Name); err != nil {
			return err
		}
	}
	return o.Format.check()
}

// planner packs files into splits.
type planner struct {
	ctx    context.Context
	opts   *Options
	splits []Split

	small       Split // collects small files
	weight      int64 // bytes of small, and openCost for each of its files
	largest     found // the largest file of small, whose hosts small should run on
	largestSize int64

	first *format.Layout      // see Split.First; nil before findFirst
	known map[string]examined // by URI, the files that planning has opened
}

// examined is the result of opening a file during planning: its content, or the reason why it cannot be read.
type examined struct {
	content content
	err     error
}

// maxProbes is the number of undivided files whose first bytes planning looks at. A
// mistake in the choice of the input usually shows in the first file, before the job
// starts. The content of all other files is checked when a map opens them.
const maxProbes = 16

// add divides a large file into splits, and adds a small one to p.small.
func (p *planner) add(f *found) error {
	// An empty file has no line and no fixed record. As a whole file it is one record with an empty value.
	if f.size == 0 && p.opts.Format.Kind != Whole {
		return nil
	}
	size := p.opts.SplitSize
	if f.size > size {
		cut, rows, err := p.divisible(f)
		if err != nil {
			return err
		}
		if cut {
			// Small files that come before this one must be in an earlier split: the pieces are in the
			// order of URIs.
			p.flush()
			return p.cut(f, rows)
		}
	} else if err := p.probe(f); err != nil {
		return err
	}
	// A file that cannot be divided and is larger than a split passes here alone: the split is closed before
	// it, and the next file closes it again.
	if len(p.small.Pieces) > 0 && p.weight+f.size+openCost > size {
		p.flush()
	}
	p.small.Pieces = append(p.small.Pieces, f.piece(0, f.size))
	p.small.Bytes += f.size
	p.weight += f.size + openCost
	// The hosts of the largest file decide for the split: for the others a read over the network costs less.
	if f.size >= p.largestSize {
		p.largest, p.largestSize = *f, f.size
	}
	return nil
}

func (f *found) piece(off, n int64) Piece {
	return Piece{URI: f.uri, Offset: off, Length: n, FileSize: f.size, Version: f.version}
}

// divisible reports whether a file may be divided, and Split.Rows for its splits. It opens
// the file to identify its content, so add calls it only for files that are larger than a
// split.
func (p *planner) divisible(f *found) (cut bool, rows string, err error) {
	// A run file has one index at its end, and its partitions are sorted alone; a whole file is a record.
	if k := p.opts.Format.Kind; k == Whole || k == Runs {
		return false, "", nil
	}
	c, err := p.content(f)
	if err != nil {
		return false, "", err
	}
	// Fixed records of a bzip2 file cannot be divided: their borders are counted from the start of the
	// content.
	switch blocks := c.codec.divides() && p.opts.Format.lines(); {
	case c.rows != nil:
		return (c.codec == nil || blocks) && c.rows.Divide(p.spec()), p.spec().As(c.rows.Name).String(), nil
	// Rows is then "text" and not "": the task of a piece opens the codec only for a split that names its
	// content (begin).
	case blocks:
		return true, p.spec().As(format.Text).String(), nil
	}
	return c.codec == nil, "", nil
}

// spec returns the user's choice of Rows, with the layout of the first file.
func (p *planner) spec() *format.Spec {
	spec := autoSpec
	if p.opts.Rows != nil {
		spec = p.opts.Rows
	}
	// As copies: the user's Spec is shared with other plans.
	if p.first != nil {
		spec = spec.As(spec.Name)
		spec.First = p.first
	}
	return spec
}

// autoSpec identifies formats by a file's first bytes.
var autoSpec = &format.Spec{Name: format.Auto, Separator: ','}

// opens returns a function that says which files planning opens: those larger than a split, and the first
// maxProbes others.
func (p *planner) opens(size int64) func(*found) bool {
	// A counter in a closure: examine asks in the order of the files, so the same files are probed in each
	// plan.
	probed := 0
	return func(f *found) bool {
		switch {
		case f.size > size:
			return p.opts.Format.Kind != Whole && p.opts.Format.Kind != Runs
		case f.size == 0 || !p.opts.Format.lines() || probed == maxProbes || codecByName(f.uri) != nil:
			return false
		}
		probed++
		return true
	}
}

// examine opens some of the files, several at a time, for content and probe. One after the other, a thousand
// files on a store with a round trip of 50 ms would take minutes. An error waits until the file's turn comes, so
// which one a user sees does not depend on which answer came first.
func (p *planner) examine(files []found, some func(*found) bool) {
	var list []*found
	for i := range files {
		if f := &files[i]; some(f) {
			// findFirst may have opened it already.
			if _, ok := p.known[f.uri]; !ok {
				list = append(list, f)
			}
		}
	}
	all := make([]*examined, len(list))
	// The error is dropped here, because add returns it when the file's turn comes.
	_ = atOnce(len(list), func(i int) error {
		c, err := p.open(list[i], func(storage.File, *content) error { return nil })
		all[i] = &examined{c, err}
		return err
	})
	for i, f := range list {
		if all[i] != nil { // else it comes after a file with an error, and its turn never comes
			p.know(f, *all[i])
		}
	}
}

// know keeps what planning found in a file.
func (p *planner) know(f *found, e examined) {
	if p.known == nil {
		p.known = map[string]examined{}
	}
	p.known[f.uri] = e
}

// probe returns an error if a file cannot be read in the job's format, as far as its name
// or, if examine has opened it, its first bytes show that.
func (p *planner) probe(f *found) error {
	// By the name alone, for every file: it costs nothing, and finds the archive among thousands of files
	// that no probe opens.
	if err := refuseName(f.uri, p.opts.Format, p.spec()); err != nil {
		return fmt.Errorf("input %s: %w", f.uri, err)
	}
	return p.known[f.uri].err
}

// content identifies the content of a file, which it opens if examine has not.
func (p *planner) content(f *found) (content, error) {
	if e, ok := p.known[f.uri]; ok {
		return e.content, e.err
	}
	return p.open(f, func(storage.File, *content) error { return nil })
}

// open identifies the content of a file, and calls look with the open file.
func (p *planner) open(f *found, look func(storage.File, *content) error) (c content, err error) {
	if err = refuseName(f.uri, p.opts.Format, p.spec()); err == nil {
		var file storage.File
		if file, err = f.fs.Open(p.ctx, f.path); err == nil {
			if c, err = contentOf(file, f.uri, p.opts.Format, p.spec()); err == nil {
				err = look(file, &c)
			}
			err = errors.Join(err, file.Close())
		}
	}
	if err != nil {
		return content{}, fmt.Errorf("input %s: %w", f.uri, err)
	}
	return c, nil
}

// findFirst sets p.first to the layout of the first file that has one. It opens this file
// without reading records, so a wrong column or a damaged header is an error before the job
// starts, also in an input of one file.
func (p *planner) findFirst(files []found) error {
	// Other formats, such as whole files, have no columns.
	if !p.opts.Format.lines() || p.spec().Name == format.Text {
		return nil
	}
	for i := range files {
		if err := p.refuseEmpty(&files[i]); err != nil {
			return err
		}
	}
	// Empty files have no columns, and must not decide.
	files = slices.DeleteFunc(slices.Clone(files), func(f found) bool { return f.size == 0 })
	// Any file may have further columns, so every file is opened. JSON records name their fields.
	if p.spec().Missing == format.MissingNull && p.spec().Name != format.JSON {
		return p.unite(files)
	}
	for i := range files {
		var columns []string
		c, err := p.open(&files[i], func(file storage.File, c *content) (err error) {
			columns, err = p.columns(file, files[i].uri, c)
			return err
		})
		if err != nil {
			return err
		}
		p.know(&files[i], examined{content: c})
		// With one file, with chosen columns, and with fields that have names, nothing needs to be aligned.
		if len(files) == 1 || len(p.spec().Columns) > 0 || c.rows != nil && c.rows.Name == format.JSON {
			return nil
		}
		// A file of text decides, too: with First.Columns nil a later file with columns is an error and not a
		// change of lines.
		if c.rows == nil || len(columns) > 0 {
			p.first = &format.Layout{File: files[i].uri, Columns: columns}
			return nil
		}
		// A CSV file without a header has no records either: the next file decides.
	}
	return nil
}

// openFiles is the number of files that planning opens at a time.
const openFiles = 16

// atOnce calls fn for the numbers from 0 to n-1, openFiles calls at a time. It returns the error of the
// lowest number whose call failed, so the error is the same in each run. After an error it begins no further calls.
func atOnce(n int, fn func(i int) error) error {
	errs := make([]error, n)
	var failed atomic.Bool
	var wait sync.WaitGroup
	turn := make(chan struct{}, openFiles)
	for i := 0; i < n && !failed.Load(); i++ {
		// Taken before the goroutine starts, so that their number is bounded and not only their open files.
		turn <- struct{}{}
		wait.Go(func() {
			defer func() { <-turn }()
			if errs[i] = fn(i); errs[i] != nil {
				failed.Store(true)
			}
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// unite sets p.first to the columns of all files, in the order in which they first occur: a column that a
// file lacks is null there. A chosen column that no file has is an error.
func (p *planner) unite(files []found) error {
	type one struct {
		columns []string
		content content
	}
	all := make([]one, len(files))
	err := atOnce(len(files), func(i int) (err error) {
		o := &all[i]
		o.content, err = p.open(&files[i], func(file storage.File, c *content) (err error) {
			o.columns, err = p.columns(file, files[i].uri, c)
			return err
		})
		return err
	})
	if err != nil {
		return err
	}
	// In the order of the files: columns are then the same in each run, whichever file was read first.
	var union []string
	known := map[string]bool{}
	file, text := "", ""
	for i := range all {
		o := &all[i]
		p.know(&files[i], examined{content: o.content})
		switch {
		// Remembered, and refused below only if other files have columns.
		case o.content.rows == nil:
			text = files[i].uri
			continue
		case len(o.columns) == 0:
			continue
		}
		file = cmp.Or(file, files[i].uri)
		for _, c := range o.columns {
			if !known[c] {
				known[c] = true
				union = append(union, c)
			}
		}
	}
	switch {
	case len(union) == 0:
		return nil
	case text != "":
		return fmt.Errorf("input %s: it is text without columns, and %s has columns: read them by different jobs, or exclude one of them", text, file)
	}
	wanted := slices.Clone(p.spec().Columns)
	for _, w := range p.spec().Where {
		wanted = append(wanted, w.Column)
	}
	for _, c := range wanted {
		if !known[c] {
			return fmt.Errorf("input %s: the input has no column %q in any of its files (%d)", file, c, len(files))
		}
	}
	// With chosen columns each file is read in their order, and a column that it lacks is null.
	if len(p.spec().Columns) == 0 && len(files) > 1 {
		p.first = &format.Layout{File: file, Columns: union}
	}
	return nil
}

// refuseEmpty returns an error for an empty file of a binary format. Every writer of such a
// format writes at least a header, so a crash has left the file.
func (p *planner) refuseEmpty(f *found) error {
	if f.size > 0 {
		return nil
	}
	var kind *format.Format
	if name := p.spec().Name; name != format.Auto {
		kind, _ = format.Get(name)
	} else {
		kind = format.BySuffix(path.Ext(f.uri))
	}
	if kind == nil || !kind.Binary() {
		return nil
	}
	return retry.Permanent(fmt.Errorf("input %s: it is empty, and so no file of format %s, which has a header even without records: remove it, or exclude it from the input", f.uri, kind.Name))
}

// columns returns the names of a file's columns, nil for a file of lines.
func (p *planner) columns(file storage.File, uri string, c *content) (names []string, err error) {
	if c.rows == nil {
		return nil, nil
	}
	// From and To stay 0: no group belongs to this source, so the formats read their headers alone.
	src := &format.Source{File: file, Size: file.Size(), Decompress: decompress, Partitions: partitionsOf(uri, p.spec())}
	if !c.rows.Binary() {
		src.Text = io.NewSectionReader(file, 0, file.Size())
		if c.codec != nil {
			if src.Text, err = c.codec.decode(src.Text); err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, closeText(src)) }()
		}
	}
	return format.Columns(src, p.spec().As(c.rows.Name))
}

// cut divides a large file into splits with the given Rows.
func (p *planner) cut(f *found, rows string) error {
	size := p.opts.SplitSize
	if f := p.opts.Format; f.Kind == Fixed {
		rec := int64(f.RecordLen)
		// Borders between records save the task the read of a record that the next split has. Correctness
		// does not need it.
		size = max(1, size/rec) * rec
	}
	for off := int64(0); off < f.size; {
		n := min(size, f.size-off)
		if rest := f.size - off - n; rest <= size/slop {
			n += rest
		}
		p.splits = append(p.splits, Split{
			Pieces: []Piece{f.piece(off, n)}, Bytes: n, Hosts: p.hosts(f, off, n), Rows: rows, First: p.first,
		})
		off += n
	}
	return context.Cause(p.ctx)
}

// flush adds p.small to the splits and begins another one.
func (p *planner) flush() {
	if len(p.small.Pieces) > 0 {
		p.small.Hosts, p.small.Rows, p.small.First = p.hosts(&p.largest, 0, p.largest.size), p.spec().String(), p.first
		p.splits = append(p.splits, p.small)
	}
	p.small, p.weight, p.largestSize = Split{}, 0, 0
}

// hosts returns the hosts of a part of a file. It ignores errors: without hosts the
// task only runs slower, and if the file is unreadable, the task reports it.
func (p *planner) hosts(f *found, off, n int64) []string {
	l, ok := f.fs.(storage.Located)
	if !ok {
		return nil
	}
	h, err := l.Hosts(p.ctx, f.path, off, n)
	if err != nil {
		return nil
	}
	return h
}
