package report

import (
	"encoding/csv"
	"errors"
	"io"
	"reflect"
	"strconv"

	"github.com/parquet-go/parquet-go"

	"github.com/slotwise/slotwise/internal/sim"
)

// Table takes the rows of one table and writes them as CSV and as Parquet, each
// to a writer of its own. Rows are written as they come. The first error stays:
// later rows are dropped, and Close returns it.
type Table[T any] struct {
	csv     *csv.Writer
	parquet *parquet.GenericWriter[T]
	record  []string
	err     error
}

// rowGroup is how many rows Parquet keeps in memory until it writes them.
const rowGroup = 1 << 16

// NewTable begins a table. Columns are the fields of T, a struct of strings,
// numbers and truth values, with tags for their names.
func NewTable[T any](csvOut, parquetOut io.Writer) *Table[T] {
	t := &Table[T]{csv: csv.NewWriter(csvOut),
		parquet: parquet.NewGenericWriter[T](parquetOut, parquet.Compression(&parquet.Zstd), parquet.MaxRowsPerRowGroup(rowGroup))}
	row := reflect.TypeFor[T]()
	for i := range row.NumField() {
		t.record = append(t.record, row.Field(i).Tag.Get("csv"))
	}
	t.err = t.csv.Write(t.record)
	return t
}

// Add writes a row.
func (t *Table[T]) Add(row T) {
	if t.err != nil {
		return
	}
	v := reflect.ValueOf(row)
	for i := range t.record {
		t.record[i] = cell(v.Field(i))
	}
	_, err := t.parquet.Write([]T{row})
	t.err = errors.Join(t.csv.Write(t.record), err)
}

// cell is a value as CSV: numbers in full, without an exponent.
func cell(v reflect.Value) string {
	switch v.Kind() {
	case reflect.String:
		return v.String()
	case reflect.Int64:
		return strconv.FormatInt(v.Int(), 10)
	case reflect.Uint64:
		return strconv.FormatUint(v.Uint(), 10)
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	}
	return strconv.FormatFloat(v.Float(), 'f', -1, 64)
}

// Close writes what is left. The writers are the caller's to close.
func (t *Table[T]) Close() error {
	t.csv.Flush()
	return errors.Join(t.err, t.csv.Error(), t.parquet.Close())
}

// Attempts is the table of a run's attempts, as an observer.
type Attempts struct{ *Table[Attempt] }

// Observe implements sim.Observer.
func (a Attempts) Observe(e *sim.Event) {
	if e.Kind == sim.AttemptEnded {
		a.Add(attemptOf(e))
	}
}
