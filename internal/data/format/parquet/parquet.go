// Package parquet reads Parquet files as lines and writes lines as Parquet files, by the
// library of github.com/parquet-go/parquet-go. It reads the wanted columns only.
//
// The library is used below its typed readers: the footer, the pages and the values of a column. So the
// wanted columns are read in step, a row group is chosen by the offset of its first page, and chunks that the
// library reads wrongly can be replaced (transcode) before it sees them.
//
// The life of a file: checkEnd, the footer, groups (which row groups belong to the source), wanted (which of
// them the conditions need), transcode, and then rows.Next for each row.
package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	types "github.com/parquet-go/parquet-go/format"

	"github.com/slotwise/slotwise/internal/data/format"
)

// Format returns the format parquet.
func Format() *format.Format {
	return &format.Format{
		Name: format.Parquet, Suffixes: []string{".parquet"},
		Magic: func(head []byte) bool {
			// Text may begin with the letters, too; a Parquet file has a binary page header next.
			// The same rule as binaryAfter of package input, which refuses the file in programs without this
			// format.
			rest, ok := strings.CutPrefix(string(head), magic)
			return ok && strings.ContainsFunc(rest[:min(len(rest), 64)], func(r rune) bool { return r < ' ' && !strings.ContainsRune("\t\n\v\f\r", r) })
		},
		Divide: func(*format.Spec) bool { return true },
		Open:   open,
		Create: create, UTF8: true,
	}
}

// magic begins and ends a file. Before the last one is the length of the footer.
const magic = "PAR1"

// maxFooter bounds the footer in bytes. A file with thousands of columns and row groups has
// a few MiB.
const maxFooter = 256 << 20

// checkEnd returns an error if a file does not end like a Parquet file.
func checkEnd(src *format.Source) error {
	// The smallest file is two magics and a length of 4 bytes between. Below that the offsets here would be
	// negative.
	if src.Size < int64(2*len(magic)+4) {
		return fmt.Errorf("it is no Parquet file: it has %d bytes", src.Size)
	}
	var tail [8]byte
	// A ReaderAt may return io.EOF together with the last bytes of a file.
	if _, err := src.File.ReadAt(tail[:], src.Size-8); err != nil && err != io.EOF {
		return err
	}
	// A writer that died has no footer, since the footer comes last. PARE, of an encrypted footer, ends here
	// as well.
	if string(tail[4:]) != magic {
		return fmt.Errorf("it is no Parquet file, or it is truncated: its last bytes, at %d, are not %s", src.Size-4, magic)
	}
	// 12 bytes are two magics and the length of the footer.
	if n := int64(binary.LittleEndian.Uint32(tail[:])); n > min(src.Size-12, maxFooter) {
		return fmt.Errorf("the footer of %d bytes, as stated at byte %d, does not fit into the file: it is corrupt", n, src.Size-8)
	}
	return nil
}

// rows reads the rows of the row groups that belong to a source.
type rows struct {
	file   *parquet.File
	top    []*parquet.Column
	names  []string // of the columns of the file and of its path
	groups []int    // indexes of the row groups that are left
	group  int      // the current one
	left   int64    // rows of the current group
	line   *format.Line
	cols   []*column
}

// open implements format.Format.Open.
func open(src *format.Source, s *format.Spec) (format.Records, error) {
	// Before the library: it would allocate the footer's size, which is a number in the file.
	if err := checkEnd(src); err != nil {
		return nil, err
	}
	f, err := openFile(src.File, src.Size)
	if err != nil {
		return nil, fmt.Errorf("the footer: %w", err)
	}
	r := &rows{file: f}
	top := f.Root().Columns()
	r.names = make([]string, len(top))
	for i, c := range top {
		r.names[i] = c.Name()
	}
	r.top = top
	sel, err := s.Select(src, r.names)
	if err != nil {
		return nil, err
	}
	leaves := leavesOf(f.Metadata().Schema)
	// In the order of Line, which need not be the order of the file.
	for _, at := range sel.At {
		r.cols = append(r.cols, newColumn(top[at], leaves))
	}
	r.line, r.names = sel.Line, sel.Names
	all, err := groups(f.Metadata(), src)
	if err != nil {
		return nil, err
	}
	r.groups = r.wanted(f.Metadata(), all, s)
	// Only with conditions. Otherwise every job over Parquet would have two counters that say nothing.
	if src.CountGroups != nil && len(s.Where) > 0 {
		src.CountGroups(len(r.groups), len(all)-len(r.groups))
	}
	return r, r.transcode(src)
}

// transcode checks the chunks of the wanted columns, and replaces the file if the library
// would read a chunk wrongly.
func (r *rows) transcode(src *format.Source) error {
	wrong, err := checkChunks(r.file.Metadata(), r.cols)
	if err != nil || len(wrong) == 0 {
		return err
	}
	t, size, err := transcode(src, r.file.Metadata(), wrong)
	if err != nil {
		return err
	}
	if r.file, err = openFile(t, size); err != nil {
		return fmt.Errorf("the footer: %w", err)
	}
	return nil
}

// openFile opens a file without its indexes, which are not used.
func openFile(f io.ReaderAt, size int64) (*parquet.File, error) {
	return parquet.OpenFile(f, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
}

// groups returns the indexes of the row groups that start in the source. A group that starts
// outside the file is an error: no source would have its rows.
func groups(f *types.FileMetaData, src *format.Source) (all []int, err error) {
	// The first column's first page is the group's position, as in parquet-mr, which uses the middle of the
	// group instead of its start. Either rule gives each group to one split.
	for i, g := range f.RowGroups {
		start := int64(0)
		if len(g.Columns) > 0 {
			m := &g.Columns[0].MetaData
			start = m.DataPageOffset
			// A dictionary precedes the data. min, because a careless footer may state an offset behind them.
			if m.DictionaryPageOffset > 0 {
				start = min(start, m.DictionaryPageOffset)
			}
		}
		// All groups are tested by every source, so a damaged offset fails the job whichever splits it has.
		if start < 0 || start >= src.Size {
			return nil, fmt.Errorf("row group %d starts at byte %d of %d: the footer is corrupt", i, start, src.Size)
		}
		// Without wanted columns, as when all are in the path, no column's end would stop the count.
		if g.NumRows < 0 {
			return nil, fmt.Errorf("row group %d has %d rows: the footer is corrupt", i, g.NumRows)
		}
		if start >= src.From && start < src.To {
			all = append(all, i)
		}
	}
	return all, nil
}

// Next implements format.Records.
func (r *rows) Next(buf []byte) ([]byte, error) {
	// A loop, since a row group may have no rows.
	for r.left == 0 {
		if len(r.groups) == 0 {
			return buf, io.EOF
		}
		if err := r.nextGroup(); err != nil {
			return buf, err
		}
	}
	// The footer's number of rows is the truth for all columns. A column with more values than that is not
	// noticed, one with fewer is an error below.
	r.left--
	r.line.Begin(buf)
	for _, c := range r.cols {
		if err := c.append(r.line); err != nil {
			// io.EOF would end the file here without an error, and lose the rest of the row group.
			if err == io.EOF {
				err = errors.New("it has fewer values than the row group has rows")
			}
			return buf, fmt.Errorf("row group %d, column %s: %w", r.group, c.name, err)
		}
	}
	return r.line.End(), nil
}

// nextGroup begins the next row group.
func (r *rows) nextGroup() error {
	r.group, r.groups = r.groups[0], r.groups[1:]
	g := r.file.RowGroups()[r.group]
	r.left = g.NumRows()
	chunks := g.ColumnChunks()
	for _, c := range r.cols {
		for _, leaf := range c.leaves {
			if err := leaf.open(chunks[leaf.index]); err != nil {
				return fmt.Errorf("row group %d, column %s: %w", r.group, c.name, err)
			}
		}
	}
	return nil
}

// Types returns the columns of the file and their types.
func (r *rows) Types() []format.ColumnType {
	leaves := leavesOf(r.file.Metadata().Schema)
	out := make([]format.ColumnType, len(r.top))
	for i, c := range r.top {
		out[i] = format.ColumnType{Name: c.Name(), Type: typeOf(c, leaves)}
	}
	return out
}

// typeOf returns the type of a column as package format names it.
func typeOf(c *parquet.Column, leaves []*types.SchemaElement) string {
	if !c.Leaf() || c.Repeated() {
		// A column for its shape alone. Its leaves are never opened.
		column := newColumn(c, leaves)
		switch {
		case column.node.repeated || column.node.shape == list || column.node.shape == bareList:
			return "list"
		case column.node.shape == mapping:
			return "map"
		}
		return "record"
	}
	k := newKind(c, leaves)
	// What a value means comes first: decimals and dates are stored as integers and bytes.
	switch {
	case k.decimal:
		return fmt.Sprintf("decimal(%d,%d)", k.precision, k.scale)
	case k.uuid:
		return "uuid"
	case k.layout == time.DateOnly:
		return "date"
	case k.layout == format.TimeOfDay:
		return "time"
	case k.layout == format.LocalTime:
		return "timestamp"
	case k.layout == format.UTCTime:
		return "timestamp UTC"
	case k.physical == parquet.Boolean:
		return "bool"
	case k.physical == parquet.Int32 || k.physical == parquet.Int64:
		return "int"
	case k.physical == parquet.Float || k.physical == parquet.Double || k.half:
		return "float"
	case k.text:
		return "string"
	}
	return "bytes"
}

// Columns implements format.Records.
func (r *rows) Columns() []string { return r.names }

// Close implements format.Records.
func (r *rows) Close() error {
	var errs []error
	for _, c := range r.cols {
		for _, leaf := range c.leaves {
			errs = append(errs, leaf.close())
		}
	}
	return errors.Join(errs...)
}

// leaf reads the values of one column chunk after the other.
type leaf struct {
	index  int
	kind   *kind
	pages  parquet.Pages // nil before the first chunk
	page   parquet.Page  // nil between pages
	values parquet.ValueReader
	buf    [256]parquet.Value
	at, n  int // the rest of buf

	row []parquet.Value // of a nested column, the values of the current row
}

// open begins a column chunk.
func (l *leaf) open(c parquet.ColumnChunk) error {
	// The error of the chunk before comes first, but the next one is set up all the same, so that Close finds
	// a consistent leaf.
	err := l.close()
	l.pages, l.values, l.at, l.n = c.Pages(), nil, 0, 0
	return err
}

// close ends a column chunk.
func (l *leaf) close() error {
	if l.pages == nil {
		return nil
	}
	// Before the pages are closed: a page holds buffers of the reader that it came from.
	l.release()
	err := l.pages.Close()
	l.pages = nil
	return err
}

// release ends a page, whose memory the library reuses.
func (l *leaf) release() {
	if l.page != nil {
		parquet.Release(l.page)
		l.page, l.values = nil, nil
	}
}

// peek returns the next value without consuming it. At the end of the chunk the error is
// io.EOF.
func (l *leaf) peek() (*parquet.Value, error) {
	for l.at == l.n {
		// Also behind a page that has ended. A page without values is skipped by the same loop.
		if l.values == nil {
			page, err := l.pages.ReadPage()
			if err != nil {
				return nil, err
			}
			l.page, l.values = page, page.Values()
		}
		// 256 values at a time make the library's call cheap beside the decoding. Values of byte arrays are
		// slices of the page, so the page must live until the next ReadPage.
		n, err := l.values.ReadValues(l.buf[:])
		l.at, l.n = 0, n
		// Values may arrive together with io.EOF. They are returned first, and the next call returns
		// the error.
		if n > 0 {
			break
		}
		if err == io.EOF {
			l.release()
		} else if err != nil {
			return nil, err
		}
	}
	return &l.buf[l.at], nil
}

// readRow collects the values of a row of a nested column.
func (l *leaf) readRow() error {
	l.row = l.row[:0]
	for {
		v, err := l.peek()
		// The last row of a chunk has no successor that would show its end.
		if err == io.EOF && len(l.row) > 0 {
			return nil
		}
		if err != nil {
			return err
		}
		// Repetition level 0 begins a row.
		if len(l.row) > 0 && v.RepetitionLevel() == 0 {
			return nil
		}
		// A copy: the next page may reuse the memory of the value's bytes.
		l.row = append(l.row, v.Clone())
		l.at++
	}
}

// column renders one column of the file's top level.
type column struct {
	name   string
	node   *node // of a nested column; else nil
	leaves []*leaf
}

func newColumn(c *parquet.Column, leaves []*types.SchemaElement) *column {
	out := &column{name: c.Name()}
	if c.Leaf() && !c.Repeated() {
		out.leaves = []*leaf{{index: c.Index(), kind: newKind(c, leaves)}}
		return out
	}
	out.node = newNode(c, leaves, out)
	return out
}

// append adds the column's value of the current row to a line.
func (c *column) append(l *format.Line) error {
	if c.node == nil {
		leaf := c.leaves[0]
		v, err := leaf.peek()
		if err != nil {
			return err
		}
		leaf.at++
		// The definition level decides about null. kind.append gets values only.
		if v.IsNull() {
			l.Null()
			return nil
		}
		return leaf.kind.append(l, v)
	}
	for _, leaf := range c.leaves {
		if err := leaf.readRow(); err != nil {
			return err
		}
	}
	values := make([][]parquet.Value, len(c.leaves))
	for i, leaf := range c.leaves {
		values[i] = leaf.row
	}
	v, err := c.node.build(values, 0, 0)
	if err != nil {
		return err
	}
	return l.Any(v)
}
