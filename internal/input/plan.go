package input

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/slotwise/slotwise/internal/storage"
)

// ErrNoFiles is wrapped by the error for an input under which no file is left.
var ErrNoFiles = errors.New("no files found")

// DefaultSplitSize is used where Options.SplitSize is 0: large enough that the
// cost of a task does not show, small enough to balance load over workers.
const DefaultSplitSize = 32 << 20

// openCost is what opening a file costs, in bytes that could be read meanwhile.
// It bounds the number of small files in a split.
const openCost = 16 << 10

// slop is by how much, as a fraction of the split size, a file's last split
// may be larger than the rest, rather than leave a tiny one.
const slop = 10

// Bounds of the split size that ChooseSplitSize returns. Each core gets a few
// splits, and none outgrows the memory that a map may sort in.
const (
	minSplit     = 1 << 20
	maxSplit     = 128 << 20
	splitsPerMap = 4
	foldsPerMap  = 2 // of a job that folds: each task has a table to empty
)

// ChooseSplitSize returns the split size, in bytes, of a job whose user names
// none. mapSlots is the number of map slots of the cluster. folds means that the
// job declares how values fold; sorts means that its maps sort what they emit,
// each in buffer bytes of memory.
func ChooseSplitSize(total int64, mapSlots int, folds, sorts bool, buffer int64) int64 {
	perSlot := splitsPerMap
	if folds {
		perSlot = foldsPerMap
	}
	size := min(maxSplit, max(minSplit, total/int64(perSlot*max(1, mapSlots))))
	if sorts && !folds {
		size = min(size, max(minSplit, buffer*6/10))
	}
	return size
}

// rangeBytes is how much input one reduce of a totally ordered job gets, about.
const rangeBytes = 64 << 20

// ChooseReduces returns the number of reduces of a job whose user and program
// name none: one for each reduce slot, and more for a large input that is sorted
// as a whole.
func ChooseReduces(total int64, reduceSlots int, totalOrder bool) int {
	if totalOrder {
		return max(reduceSlots, min(512, int(total/rangeBytes)))
	}
	return reduceSlots
}

// Options say what to read and how to divide it.
type Options struct {
	// Schemes are the storage schemes that inputs may have; nil is local files.
	Schemes *storage.Schemes
	// Inputs are URIs or plain paths of files, directories and globs (*, ?,
	// [a-z], {a,b}). Directories are read with all that is below them; links
	// are followed. Names that begin with '.' or '_' are skipped unless named
	// directly. A file that two inputs name is read twice.
	Inputs []string
	// Include, if not empty, keeps only files that match one of its globs, and
	// Exclude drops files, and directories with all they hold, that match one
	// of its. A glob without a slash is matched against the base name, one
	// with a slash against the path below the input and the whole path; there
	// "**" stands for any directories.
	Include, Exclude []string
	// SplitSize is how many bytes a split should have, at most if it can be; 0
	// means DefaultSplitSize. A compressed file, a whole-file record and a run
	// cannot be divided.
	SplitSize int64
	// Format decides where files may be divided.
	Format Format
}

// Plan finds the input files and divides them into splits, in the order of
// their URIs whatever the order of the inputs. Large files are cut; small ones
// share a split. Empty files add nothing (but are a record each for Whole), so
// that a valid input may give no splits at all. An input under which no file
// is left is an error that wraps ErrNoFiles; one that does not exist or cannot
// be read is an error that names it.
func Plan(ctx context.Context, opts Options) ([]Split, error) {
	l, err := List(ctx, opts)
	if err != nil {
		return nil, err
	}
	return l.Split(ctx, opts.SplitSize)
}

// Listing is the files of an input, found but not yet divided: for callers
// that choose the split size by how much there is.
type Listing struct {
	Bytes int64 // of all files
	opts  Options
	files []found
}

// List finds the input files, with the errors that Plan describes. SplitSize
// is not used.
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
	slices.SortStableFunc(l.files, func(a, b found) int { return cmp.Compare(a.uri, b.uri) })
	for i := range l.files {
		l.Bytes += l.files[i].size
	}
	return l, nil
}

// Split divides the files into splits of about size bytes, of DefaultSplitSize
// if it is 0.
func (l *Listing) Split(ctx context.Context, size int64) ([]Split, error) {
	opts := l.opts
	if opts.SplitSize = size; size == 0 {
		opts.SplitSize = DefaultSplitSize
	}
	p := &planner{ctx: ctx, opts: &opts}
	for i := range l.files {
		if err := p.add(&l.files[i]); err != nil {
			return nil, err
		}
	}
	p.flush()
	return p.splits, nil
}

func (o *Options) check() error {
	if len(o.Inputs) == 0 {
		return errors.New("no input is named")
	}
	if o.SplitSize < 0 {
		return fmt.Errorf("the split size must not be negative: %d", o.SplitSize)
	}
	for _, p := range slices.Concat(o.Include, o.Exclude) {
		if _, err := path.Match(p, ""); err != nil {
			return fmt.Errorf("pattern %q: %w", p, err)
		}
	}
	return o.Format.check()
}

// planner packs files into splits.
type planner struct {
	ctx    context.Context
	opts   *Options
	splits []Split

	small  Split // the split that small files are being put into
	weight int64 // its bytes and what opening its files costs
	main   found // its largest file, where it should run
	mainN  int64
}

// add puts a file into splits of its own or into the one of small files.
func (p *planner) add(f *found) error {
	if f.size == 0 && p.opts.Format.Kind != Whole {
		return nil
	}
	size := p.opts.SplitSize
	if f.size > size {
		cut, err := p.divisible(f)
		if err != nil {
			return err
		}
		if cut {
			p.flush()
			return p.cut(f)
		}
	}
	if len(p.small.Pieces) > 0 && p.weight+f.size+openCost > size {
		p.flush()
	}
	p.small.Pieces = append(p.small.Pieces, f.piece(0, f.size))
	p.small.Bytes += f.size
	p.weight += f.size + openCost
	if f.size >= p.mainN {
		p.main, p.mainN = *f, f.size
	}
	return nil
}

func (f *found) piece(off, n int64) Piece {
	return Piece{URI: f.uri, Offset: off, Length: n, FileSize: f.size}
}

// divisible tells whether a file may be cut. Only files that are larger than a
// split are asked, so that small ones need not be opened here.
func (p *planner) divisible(f *found) (bool, error) {
	if k := p.opts.Format.Kind; k == Whole || k == Runs {
		return false, nil
	}
	file, err := f.fs.Open(p.ctx, f.path)
	if err != nil {
		return false, fmt.Errorf("input %s: %w", f.uri, err)
	}
	c, err := codecOf(file, f.uri, p.opts.Format)
	if err = errors.Join(err, file.Close()); err != nil {
		return false, fmt.Errorf("input %s: %w", f.uri, err)
	}
	return c == nil, nil
}

// cut makes splits of a large file.
func (p *planner) cut(f *found) error {
	size := p.opts.SplitSize
	if f := p.opts.Format; f.Kind == Fixed {
		rec := int64(f.RecordLen)
		size = max(1, size/rec) * rec
	}
	for off := int64(0); off < f.size; {
		n := min(size, f.size-off)
		if rest := f.size - off - n; rest <= size/slop {
			n += rest
		}
		p.splits = append(p.splits, Split{
			Pieces: []Piece{f.piece(off, n)}, Bytes: n, Hosts: p.hosts(f, off, n),
		})
		off += n
	}
	return context.Cause(p.ctx)
}

// flush ends the split of small files.
func (p *planner) flush() {
	if len(p.small.Pieces) > 0 {
		p.small.Hosts = p.hosts(&p.main, 0, p.main.size)
		p.splits = append(p.splits, p.small)
	}
	p.small, p.weight, p.mainN = Split{}, 0, 0
}

// hosts asks where a part of a file lies. Not to know costs speed only, so an
// error is no reason to fail: reading will tell.
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
