package report

import (
	"encoding/csv"
	"errors"
	"io"
	"math"
	"reflect"
	"strconv"

	"github.com/parquet-go/parquet-go"

	"github.com/slotwise/slotwise/internal/virtual/sim"
)

// Table writes rows as CSV to one writer and as Parquet to another. After the first
// error it drops further rows, and Close returns that error.
type Table[T any] struct {
	csv     *csv.Writer
	parquet *parquet.GenericWriter[T]
	record  []string
	err     error
}

// rowGroup is the number of rows that the Parquet writer buffers in memory.
const rowGroup = 1 << 16

// NewTable returns a table whose columns are the fields of T, a struct of strings,
// numbers and booleans. Struct tags name the columns.
func NewTable[T any](csvOut, parquetOut io.Writer) *Table[T] {
	t := &Table[T]{csv: csv.NewWriter(csvOut),
		parquet: parquet.NewGenericWriter[T](parquetOut, parquet.Compression(&parquet.Zstd), parquet.MaxRowsPerRowGroup(rowGroup))}
	row := reflect.TypeFor[T]()
	// Parquet's library reads its own tag; CSV has this one, which must give the column the same name.
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
	// The same row to both at once: neither table has rows that the other lacks, wherever a write fails.
	t.err = errors.Join(t.csv.Write(t.record), err)
}

// cell formats a value for CSV, numbers without an exponent. A number that is unknown (NaN)
// is an empty cell, which pandas and spreadsheets read as missing.
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
	if math.IsNaN(v.Float()) {
		return ""
	}
	return strconv.FormatFloat(v.Float(), 'f', -1, 64)
}

// Close flushes the table. It does not close the writers.
func (t *Table[T]) Close() error {
	t.csv.Flush()
	return errors.Join(t.err, t.csv.Error(), t.parquet.Close())
}

// Attempts writes a run's attempts to a table, as a sim.Observer.
type Attempts struct{ *Table[AttemptRow] }

// Observe implements sim.Observer.
func (a Attempts) Observe(e *sim.Event) {
	if e.Kind == sim.AttemptEnded {
		a.Add(attemptOf(e))
	}
}
