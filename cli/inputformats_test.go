package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// writeRows is a Python program in which DuckDB writes the same table in several formats, and
// prints its rows. Texts have quotes, separators, line ends and backslashes.
const writeRows = `
import duckdb, json
db = duckdb.connect()
db.execute("set enable_progress_bar=false") # it is printed to standard output when a query takes two seconds
db.execute(r"""create table t as select i as id, case when i % 5 = 0 then null else
    'a "b", ' || i || case when i % 3 = 0 then chr(10) else '' end || chr(9) || '\N' || chr(233) end as name,
    i / 4 as part from range(1, 301) r(i)""")
db.execute("copy t to 'a.csv' (header, force_quote (name))")
db.execute("copy t to 'b.csv' (header, delimiter ';', nullstr 'NONE')")
db.execute("copy t to 'c.json' (format json)")
db.execute("copy t to 'd.parquet' (format parquet, row_group_size 64, compression zstd)")
db.execute("copy t to 'e.parquet' (format parquet, parquet_version v2, compression snappy)")
print(json.dumps(db.execute("select id, name, part from t order by id").fetchall()))
`

// readRows is a Python program in which DuckDB prints the rows of the files that slotwise has
// written, by the name of their directory.
const readRows = `
import duckdb, json
db = duckdb.connect()
db.execute("set enable_progress_bar=false") # it is printed to standard output when a query takes two seconds
out = {}
for name, call in {
    "csv": "read_csv('csv/part-*', header=true, columns={'id': 'bigint', 'name': 'varchar', 'part': 'double'})",
    "json": "read_json('json/part-*', columns={'id': 'bigint', 'name': 'varchar', 'part': 'double'})",
    "parquet": "read_parquet('parquet/part-*')",
}.items():
    out[name] = db.execute(f"select id, name, part from {call} order by id").fetchall()
print(json.dumps(out))
`

// TestFormatsWithDuckDB: slotwise reads the files that DuckDB writes, record for record, and
// DuckDB reads the files that slotwise writes from them.
func TestFormatsWithDuckDB(t *testing.T) {
	python := pandas(t, "duckdb")
	t.Chdir(t.TempDir())
	var rows [][]any
	if err := json.Unmarshal(runPython(t, python, writeRows), &rows); err != nil || len(rows) != 300 {
		t.Fatalf("%d rows: %v", len(rows), err)
	}
	for file, format := range map[string]string{
		"a.csv": "csv", "b.csv": "csv,separator=;", "c.json": "json", "d.parquet": "auto", "e.parquet": "auto",
	} {
		slotwise(t, "run", "--mapper", "cat", "--input", file, "--format", format, "--columns", "id,name,part", "--split-size", "2KiB", "--output", file+".out", "-q")
		got := partLines(t, file+".out")
		want := make([]string, len(rows))
		for i, row := range rows {
			want[i] = line(row, map[string]string{"b.csv": "NONE"}, file)
		}
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d lines, first %q; want %q", file, len(got), slices.Concat(got, []string{""})[0], want[0])
		}
	}
	for _, format := range []string{"csv", "json", "parquet"} {
		slotwise(t, "run", "--mapper", "cat", "--input", "d.parquet", "--columns", "id,name,part", "--split-size", "2KiB", "--output", format,
			"--output-format", format, "--output-columns", "id:int,name,part:float", "-q")
	}
	var read map[string][][]any
	if err := json.Unmarshal(runPython(t, python, readRows), &read); err != nil || len(read) != 3 {
		t.Fatalf("%d formats: %v", len(read), err)
	}
	for format, got := range read {
		if !slices.EqualFunc(got, rows, slices.Equal[[]any]) {
			t.Errorf("DuckDB reads %d rows of %s, which differ", len(got), format)
		}
	}
}

// runPython runs a Python program and returns its standard output.
func runPython(t *testing.T, python, program string) []byte {
	t.Helper()
	c := exec.CommandContext(t.Context(), python, "-c", program)
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// line returns the line that slotwise makes of a row. Files of CSV have no null but a text.
func line(row []any, nulls map[string]string, file string) string {
	fields := make([]string, len(row))
	for i, v := range row {
		switch v := v.(type) {
		case nil:
			null, isText := nulls[file]
			if fields[i] = `\N`; isText {
				fields[i] = null
			}
		case string:
			fields[i] = strings.NewReplacer(`\`, `\\`, "\t", `\t`, "\n", `\n`).Replace(v)
		default:
			number, _ := json.Marshal(v)
			if fields[i] = string(number); i == 2 && !strings.HasSuffix(file, ".parquet") && !strings.Contains(fields[i], ".") {
				fields[i] += ".0" // as DuckDB prints it
			}
		}
	}
	return strings.Join(fields, "\t")
}

// partLines returns the lines of a job's output, sorted.
func partLines(t *testing.T, dir string) (lines []string) {
	t.Helper()
	parts, err := filepath.Glob(filepath.Join(dir, "part-*"))
	if err != nil || len(parts) == 0 {
		t.Fatal(parts, err)
	}
	for _, p := range parts {
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		for l := range strings.Lines(string(text)) {
			lines = append(lines, strings.TrimSuffix(l, "\n"))
		}
	}
	slices.Sort(lines)
	return lines
}

// TestAlignedOnCluster: on a cluster, attempts on different workers align their files with the
// input's first file, which no map needs to open. A file with another column fails the
// job at once and is named beside the first file.
func TestAlignedOnCluster(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.StartWorker("w1")
	c.StartWorker("w2")
	var ab, ba strings.Builder
	var want []string
	ab.WriteString("a,b\xff\n")
	ba.WriteString("b\xff,a\n")
	for i := range 300 {
		fmt.Fprintf(&ab, "a%d,b%d\n", i, i)
		fmt.Fprintf(&ba, "b%d,a%d\n", i, i)
		want = append(want, fmt.Sprintf("a%d\tb%d", i, i), fmt.Sprintf("a%d\tb%d", i, i))
	}
	c.Write("in/1.csv", ab.String())
	c.Write("in/2.csv", ba.String())
	in, out := filepath.Join(c.Dir, "in"), filepath.Join(c.Dir, "out")
	args := []string{"--mapper", "cat", "--input", in, "--exclude", "part=0", "--format", "csv,lines=single", "--split-size", "2KiB", "--output", out, "--overwrite"}
	c.Must(args...)
	if got := partLines(t, out); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("%d lines, first %.200q", len(got), got)
	}
	// Partitions, conditions and missing columns travel with the job.
	c.Write("in/part=0/0.csv", "a,c\nx,1\ny,2\n")
	c.Must("--mapper", "cat", "--input", in, "--format", "csv", "--missing", "null", "--where", "c>=2", "--columns", "part,a", "--output", out, "--overwrite")
	if got := partLines(t, out); !slices.Equal(got, []string{"0\ty"}) {
		t.Errorf("with --missing and --where: %.200q", got)
	}
	other := c.Write("in/3.csv", "a,c\n1,2\n")
	status, text := c.Submit(args...)
	if status != 1 || !strings.Contains(text, other) || !strings.Contains(text, filepath.Join(in, "1.csv")) || !strings.Contains(text, "it also has c") || !strings.Contains(text, "failed and is not tried again") {
		t.Errorf("exit status %d: %s", status, text)
	}
}
