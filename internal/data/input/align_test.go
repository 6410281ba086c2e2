package input

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/avro"
	"github.com/twmb/avro/ocf"

	"github.com/slotwise/slotwise/internal/data/format"
)

// tableFile returns a file of a format with the given columns. Row i has the value NAME-i in
// the column NAME.
func tableFile(t testing.TB, kind string, columns []string, rows int) []byte {
	t.Helper()
	var b bytes.Buffer
	if kind == "avro" {
		var fields []string
		for _, c := range columns {
			fields = append(fields, fmt.Sprintf(`{"name": %q, "type": "string"}`, c))
		}
		schema, err := avro.Parse(`{"type": "record", "name": "r", "fields": [` + strings.Join(fields, ",") + `]}`)
		must(t, err)
		w, err := ocf.NewWriter(&b, schema)
		must(t, err)
		for i := range rows {
			record := map[string]any{}
			for _, c := range columns {
				record[c] = fmt.Sprintf("%s-%d", c, i)
			}
			must(t, w.Encode(record))
		}
		must(t, w.Close())
		return b.Bytes()
	}
	o, err := format.ParseOutput(kind + ",columns=" + strings.Join(columns, ","))
	must(t, err)
	w, err := format.NewWriter(&b, o, "none")
	must(t, err)
	for i := range rows {
		fields := make([]string, len(columns))
		for j, c := range columns {
			fields[j] = fmt.Sprintf("%s-%d", c, i)
		}
		must(t, w.Write([]byte(strings.Join(fields, "\t")), nil))
	}
	must(t, w.Close())
	return b.Bytes()
}

// TestAlignedColumns: files with the same columns in another order are read in the order of
// the first file, in every format, for any splits. A column that one file lacks or has in
// addition is an error that names both files; a choice of columns that all have is none.
func TestAlignedColumns(t *testing.T) {
	const rows = 40
	for _, c := range []struct{ kind, rows string }{
		{"csv", "csv"}, {"csv", "csv,lines=single"}, {"parquet", "auto"}, {"parquet", "parquet"}, {"avro", "auto"}, {"avro", "avro"},
	} {
		dir := t.TempDir()
		for i, columns := range [][]string{{"b", "a", "c"}, {"a", "b", "c"}, {"b", "a", "c"}, {"c", "a", "b"}} {
			write(t, dir, fmt.Sprintf("f%d.%s", i, c.kind), tableFile(t, c.kind, columns, rows))
		}
		if c.kind == "csv" {
			write(t, dir, "e.csv", nil)
			write(t, dir, "e2.csv", []byte("\n"))
			write(t, dir, "z.csv.gz", gz(t, tableFile(t, c.kind, []string{"a", "c", "b"}, rows)))
		}
		for _, size := range []int64{60, 300, 0} {
			got, err := rowLines(t, dir, c.rows, size)
			must(t, err)
			if want := rows * len(dataFiles(t, dir)); len(got) != want {
				t.Errorf("%s, splits of %d: %d rows, want %d", c.rows, size, len(got), want)
			}
			for i, line := range got {
				if want := fmt.Sprintf("b-%d\ta-%d\tc-%d", i%rows, i%rows, i%rows); line != want {
					t.Fatalf("%s, splits of %d, row %d: got %q, want %q", c.rows, size, i, line, want)
				}
			}
		}
		for _, x := range []struct {
			columns []string
			want    string
		}{{[]string{"a", "b"}, "it lacks c"}, {[]string{"b", "a", "c", "d"}, "it also has d"}, {[]string{"b", "a", "C"}, "it lacks c, it also has C"}} {
			other := write(t, dir, "g."+c.kind, tableFile(t, c.kind, x.columns, rows))
			for _, size := range []int64{60, 0} {
				_, err := rowLines(t, dir, c.rows, size)
				if first := filepath.Join(dir, "f0."+c.kind); err == nil || !strings.Contains(err.Error(), other) || !strings.Contains(err.Error(), first) || !strings.Contains(err.Error(), x.want) {
					t.Errorf("%s, splits of %d: got %v, want both files and %s", c.rows, size, err, x.want)
				}
				got, err := rowLines(t, dir, c.rows+",columns=a", size)
				must(t, err)
				if !slices.Contains(got, "a-7") || slices.ContainsFunc(got, func(s string) bool { return !strings.HasPrefix(s, "a-") }) {
					t.Errorf("%s with a chosen column: %q", c.rows, got)
				}
			}
		}
	}
}

// dataFiles returns the files of a directory that have rows.
func dataFiles(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "[fz]*"))
	must(t, err)
	return files
}

// TestAlignedEdges checks files whose columns have no names, the same name twice, or none at
// all.
func TestAlignedEdges(t *testing.T) {
	parquet := string(tableFile(t, "parquet", []string{"key", "value"}, 2))
	for _, c := range []struct{ one, two, rows, want, err string }{
		{"1,2\n", "3,4\n", "csv,header=no", "1\t2|3\t4", ""},
		{"1,2\n", "3,4,5\n", "csv,header=no", "", "it also has 3"},
		{"1,2\n", "3\n", "csv,header=no", "", "it lacks 2"},
		{"1,2\n", "3,4,5\n", "csv,header=no,columns=2", "2|4", ""},
		{"1,2\n", "\n\n", "csv,header=no", "1\t2", ""},
		{"\n\n", "1,2\n", "csv,header=no", "1\t2", ""},
		{"x\n", "\n\n", "csv,header=no", "x|\\N|\\N", ""},
		{"a,a\n1,2\n", "a,a\n3,4\n", "csv", "1\t2|3\t4", ""},
		{"a,a,b\n1,2,0\n", "a,b,a\n3,4,0\n", "csv", "", "a name stands for several columns: a"},
		{`{"a":1,"b":2}`, `{"b":3,"c":4}`, "json", `{"a":1,"b":2}|{"b":3,"c":4}`, ""},
		{`{"a":1,"b":2}`, `{"b":3,"c":4}`, "json,columns=b,a", "2\t1|3\t\\N", ""},
		{"text\n", "more\n", "", "text|more", ""},
		{"text\n", parquet, "", "", "one, the first file of the input, is text"},
		{parquet, "text\n", "", "", "one, the first file of the input, has the columns key, value"},
		{parquet, "text\n", "text", "", "it is a Parquet file"},
	} {
		dir := t.TempDir()
		write(t, dir, "one", []byte(c.one))
		two := write(t, dir, "two", []byte(c.two))
		for _, size := range []int64{3, 0} {
			got, err := rowLines(t, dir, c.rows, size)
			if c.err != "" {
				if c.rows == "text" {
					two = dir
				}
				if err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), two) {
					t.Errorf("%q and %q as %q: got %v, want %s", c.one, c.two, c.rows, err, c.err)
				}
				continue
			}
			if joined := strings.Join(got, "|"); err != nil || joined != c.want {
				t.Errorf("%q and %q as %q: got %q (%v), want %q", c.one, c.two, c.rows, joined, err, c.want)
			}
		}
	}
}
