package apps

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/slotwise/slotwise/mapreduce"
)

// tableRow reads the columns of a line without allocating. It keeps the first error
// in err, so a mapper can read all its columns and check for an error once.
// cut is valid until the next line. A task has one tableRow, so no column may be kept.
type tableRow struct {
	table   string // for errors
	sep     byte
	columns int // number of columns that are needed; further ones are ignored
	line    []byte
	cut     [16][]byte
	err     error
	key     []byte // buffers for the emitted record, reused for each line
	value   []byte
}

// split cuts a line into the columns that are needed and returns their number.
func (r *tableRow) split(line []byte) int {
	r.line = line
	rest := line
	// Only the columns that the query needs: lineitem has 16, and the last is a comment of up to 44
	// characters.
	for n := range r.columns {
		end := bytes.IndexByte(rest, r.sep)
		if end < 0 {
			// dbgen ends each row with a separator; some other tools end it with the last column.
			r.cut[n] = rest
			return n + 1
		}
		r.cut[n], rest = rest[:end], rest[end+1:]
	}
	return r.columns
}

// short returns the error for a line with too few columns.
func (r *tableRow) short(columns int) error {
	return fmt.Errorf("%s: row %q has %d columns, not %d", r.table, clip(r.line), columns, r.columns)
}

// text returns a column as bytes. Columns are counted from 0.
func (r *tableRow) text(column int) []byte { return r.cut[column] }

// integer returns a column that holds a whole number.
func (r *tableRow) integer(column int) int64 {
	n, ok := parseDecimal(r.cut[column], 0)
	if !ok {
		r.fail(column, "a whole number")
	}
	return n
}

// hundredths returns a column that holds an amount with up to two decimals, in
// hundredths: money in cents. Floating point would make sums depend on the
// order of their terms.
func (r *tableRow) hundredths(column int) int64 {
	n, ok := parseDecimal(r.cut[column], 2)
	if !ok {
		r.fail(column, "an amount with two decimals")
	}
	return n
}

// date returns a column that holds a date like 1996-01-02, which compares as
// its text does.
func (r *tableRow) date(column int) []byte {
	d := r.cut[column]
	if len(d) != len("1996-01-02") || d[4] != '-' || d[7] != '-' {
		r.fail(column, "a date like 1996-01-02")
	}
	return d
}

func (r *tableRow) fail(column int, want string) {
	// The first error, since the columns after a missing separator are wrong as well.
	if r.err == nil {
		r.err = fmt.Errorf("%s: column %d of row %q is not %s", r.table, column+1, clip(r.line), want)
	}
}

// clip shortens a quotation in an error.
func clip(line []byte) []byte { return line[:min(len(line), 200)] }

// parseDecimal reads digits with an optional sign and up to scale decimals, and
// returns their value times ten to the scale. It takes no more than 17 digits,
// so that nothing overflows.
func parseDecimal(s []byte, scale int) (n int64, ok bool) {
	negative := len(s) > 0 && s[0] == '-'
	if negative {
		s = s[1:]
	}
	// 18 characters with a point in them; SQL's numbers have a digit before the point.
	if len(s) == 0 || len(s) > 18 || s[0] == '.' {
		return 0, false
	}
	decimals := -1 // before the point
	for _, c := range s {
		switch {
		case c == '.' && decimals < 0 && scale > 0:
			decimals = 0
			continue
		case c < '0' || c > '9' || decimals == scale:
			return 0, false
		case decimals >= 0:
			decimals++
		}
		// Two more decimals below then stay under 2^63.
		if n = 10*n + int64(c-'0'); n > 1e16 {
			return 0, false
		}
	}
	for decimals = max(decimals, 0); decimals < scale; decimals++ {
		n *= 10
	}
	if negative {
		n = -n
	}
	return n, true
}

// appendHundredths appends n/100 with two decimals.
func appendHundredths(out []byte, n int64) []byte {
	if n < 0 {
		out, n = append(out, '-'), -n
	}
	out = strconv.AppendInt(out, n/100, 10)
	return append(out, '.', byte('0'+n/10%10), byte('0'+n%10))
}

// tableMapper calls row for each line of a table.
type tableMapper struct {
	tableRow
	row func(r *tableRow, out *mapreduce.Emitter)
}

// Map reads a line. An empty one is no row.
func (m *tableMapper) Map(_, line []byte, out *mapreduce.Emitter) error {
	if len(line) == 0 {
		return nil
	}
	if n := m.split(line); n < m.columns {
		return m.short(n)
	}
	m.row(&m.tableRow, out)
	return m.err
}

// rowsOf makes mappers of a '|'-separated table of which the first columns are
// needed. What row emits of a line with an error never leaves the task, since
// the error fails it.
func rowsOf(table string, columns int, row func(r *tableRow, out *mapreduce.Emitter)) func() mapreduce.Mapper {
	return func() mapreduce.Mapper {
		return &tableMapper{tableRow: tableRow{table: table, sep: '|', columns: columns}, row: row}
	}
}
