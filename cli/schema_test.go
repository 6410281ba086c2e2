package cli

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// writeUnions is a Python program that writes random tables whose files have different columns, in each
// format, and prints the columns, their types and the rows that DuckDB finds with union_by_name. SEED is
// replaced. DuckDB reads Avro only with an extension, so the rows of Avro files are compared with Parquet's.
const writeUnions = `
import duckdb, fastavro, json, os, random
random.seed(SEED)
db = duckdb.connect()
db.execute("set threads=1")
db.execute("set enable_progress_bar=false") # it is printed to standard output when a query takes two seconds
columns = {"id": "bigint", "name": "varchar", "share": "double", "day": "date", "ok": "boolean", "cost": "decimal(9,2)"}
avro = {"bigint": "long", "varchar": "string", "double": "double", "boolean": "boolean", "date": {"type": "int", "logicalType": "date"},
    "decimal(9,2)": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}}
names = {"bigint": "int", "varchar": "string", "double": "float", "date": "date", "boolean": "bool", "decimal(9,2)": "decimal(9,2)"}
cases = []
for n in range(6):
    for kind in ["parquet", "csv", "json", "avro"]:
        os.makedirs(f"{n}/{kind}")
    for f in range(random.randint(2, 4)):
        some = random.sample(list(columns), random.randint(1, len(columns)))
        fields = {"id": "i", "name": "'n\t' || i", "share": "i / 3.0::double + 0.5", "day": "date '2024-01-01' + i::int", "ok": "i % 2 = 0", "cost": "i::decimal(9,2) / 4 + 0.01"}
        rows = db.sql("select " + ", ".join(f"(case when random() < 0.2 and i > 0 then null else {fields[c]} end)::{columns[c]} as {c}" for c in some) + f" from range({random.randint(1, 30)}) r(i)")
        db.execute("create or replace table t as select * from rows")
        for kind in ["parquet", "csv", "json"]:
            db.execute(f"copy t to '{n}/{kind}/{f}.{kind}' (format {kind}" + (", header)" if kind == "csv" else ")"))
        schema = {"type": "record", "name": "r", "fields": [{"name": c, "type": ["null", avro[columns[c]]]} for c in some]}
        with open(f"{n}/avro/{f}.avro", "wb") as out:
            fastavro.writer(out, schema, [dict(zip(some, row)) for row in db.execute("from t").fetchall()], codec=random.choice(["null", "deflate", "bzip2", "xz"]))
    found = db.sql(f"from read_parquet('{n}/parquet/*', union_by_name=true)")
    texts = db.sql("select " + ", ".join(f"{c}::varchar" for c in found.columns) + " from found").fetchall()
    cases.append({"Columns": found.columns, "Types": [names[str(t).lower()] for t in found.types], "Rows": texts})
print(json.dumps(cases))
`

// TestUnionWithDuckDB: files with different columns are read as DuckDB reads them by name, in each format, and
// schema prints their columns and types.
func TestUnionWithDuckDB(t *testing.T) {
	python := pandas(t, "duckdb", "fastavro")
	t.Chdir(t.TempDir())
	seed := os.Getenv("SLOTWISE_SEED")
	if seed == "" {
		seed = "1"
	}
	var cases []struct {
		Columns, Types []string
		Rows           [][]any
	}
	if err := json.Unmarshal(runPython(t, python, strings.Replace(writeUnions, "SEED", seed, 1)), &cases); err != nil {
		t.Fatal(err)
	}
	for n, c := range cases {
		want := make([]string, len(c.Rows))
		for i, row := range c.Rows {
			want[i] = line(row, nil, ".parquet")
		}
		slices.Sort(want)
		for _, format := range []string{"parquet", "csv", "json", "avro"} {
			dir := string(rune('0'+n)) + "/" + format
			args := []string{"run", "--mapper", "cat", "--input", dir, "--format", format, "--missing", "null", "--output", dir + ".out", "-q"}
			if format == "json" { // otherwise a line is the line of the file
				args = append(args, "--columns", strings.Join(c.Columns, ","))
			}
			mustRun(t, args...)
			got := partLinesOrNone(t, dir+".out")
			for i, l := range got {
				got[i] = asDuckDB(l, c.Types)
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s: %d lines, want %d\ngot  %.300q\nwant %.300q", dir, len(got), len(want), got, want)
			}
			var s struct {
				Columns []struct {
					Name, Type string
					Files      int
					Without    []string `json:"missing_in"`
				}
			}
			if err := json.Unmarshal([]byte(mustRun(t, "schema", dir, "-o", "json")), &s); err != nil {
				t.Fatal(err)
			}
			var names, types []string
			files, err := os.ReadDir(dir)
			for _, x := range s.Columns {
				names, types = append(names, x.Name), append(types, x.Type)
				if err != nil || x.Files+len(x.Without) != len(files) {
					t.Errorf("%s: column %s is in %d files and lacks in %q, of %d files", dir, x.Name, x.Files, x.Without, len(files))
				}
			}
			wantTypes := slices.Clone(c.Types)
			for i, k := range wantTypes {
				if strings.HasPrefix(k, "decimal") && (format == "csv" || format == "json") {
					wantTypes[i] = "float"
				}
			}
			if !slices.Equal(names, c.Columns) || !slices.Equal(types, wantTypes) {
				t.Errorf("%s: schema prints %q with the types %q, want %q with %q", dir, names, types, c.Columns, wantTypes)
			}
		}
	}
}

// asDuckDB returns a line with whole floating-point numbers as DuckDB prints them.
func asDuckDB(l string, types []string) string {
	fields := strings.Split(l, "\t")
	for i, f := range fields {
		if types[i] == "float" && f != `\N` && !strings.ContainsAny(f, ".e") {
			fields[i] = f + ".0"
		}
	}
	return strings.Join(fields, "\t")
}
