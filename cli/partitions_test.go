package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// writePartitions is a Python program in which DuckDB writes a random table in directories of partitions,
// and prints the records that meet random conditions. Values of partitions contain characters that paths
// cannot contain, or are null. SEED is replaced.
const writePartitions = `
import duckdb, json, random
random.seed(SEED)
db = duckdb.connect()
db.execute("set threads=1")
db.execute("set enable_progress_bar=false") # it is printed to standard output when a query takes two seconds
kinds = ["a b", "x/y", "50%", "ä=ö", "", None, "Z"]
rows = []
for i in range(800):
    rows.append((i - 100, random.choice([None, round(random.uniform(-3, 40), 2), float(random.randint(0, 9))]),
        random.choice([None, "", "rome", "Rome", "oslo\tx", "10", "9.5", "kyiv"]),
        "2024-0%d-%02d" % (random.randint(1, 9), random.randint(1, 28)),
        "2024-05-%02d 08:30:%02d%s" % (random.randint(1, 9), random.randint(0, 59), random.choice(["", ".25", ".123456"])),
        i / 7 if i % 5 else None, random.choice([0, 1, 2, 10, None]), random.choice(kinds[:4] + kinds[5:])))
db.execute("create table t (id bigint, fare decimal(9,2), city varchar, day date, moment timestamp, share double, part int, kind varchar)")
db.executemany("insert into t values (?, ?, ?, ?, ?, ?, ?, ?)", rows)
db.execute("create table o as select * from t order by part, kind, id")
db.execute("copy o to 'parquet' (format parquet, partition_by (part, kind), row_group_size 16)")
db.execute("copy o to 'csv' (format csv, header, partition_by (part, kind))")
number = lambda: random.choice([str(random.randint(-110, 710)), "%.2f" % random.uniform(-3, 40), "1e1"])
def condition():
    op = random.choice(["=", "!=", "<", "<=", ">", ">="])
    pick = random.randint(0, 8)
    if pick < 3:
        c, v = random.choice(["id", "id", "fare", "share"]), number()
        return c + op + v, f"{c} {op} {v}"
    if pick == 3:
        v = random.choice(["rome", "S", "oslo\tx", "10", ""])
        return f"city {op} '{v}'", f"city {op} '{v}'"
    if pick == 4:
        v = "2024-0%d-%02d" % (random.randint(1, 9), random.randint(1, 28))
        return f"day{op}{v}", f"day {op} date '{v}'"
    if pick == 5:
        v = "2024-05-%02dT08:30:%02d" % (random.randint(1, 9), random.randint(0, 59))
        return f"moment{op}{v}", f"moment {op} timestamp '{v}'"
    if pick == 6:
        v = str(random.choice([0, 1, 2, 3, 10]))
        return f"part{op}{v}", f"part {op} {v}"
    if pick == 7:
        c = random.choice(["part", "kind", "city", "fare"])
        null = random.choice([True, False])
        return c + ("=" if null else "!=") + "\\N", f"{c} is {'' if null else 'not '}null"
    v = random.choice(["a b", "x/y", "50%", "ä=ö", "Z"])
    return f"kind{op}'{v}'", f"kind {op} '{v}'"
cases = []
for i in range(40):
    both = [condition() for _ in range(random.randint(1, 2))]
    found = db.execute("select id, part, kind from t where " + " and ".join(b for _, b in both) + " order by id").fetchall()
    cases.append({"Where": [a for a, _ in both], "Rows": found})
print(json.dumps(cases))
`

// TestPartitionsWithDuckDB: for random conditions slotwise and DuckDB find the same records in directories of
// partitions, and slotwise skips files and row groups.
func TestPartitionsWithDuckDB(t *testing.T) {
	python := pandas(t, "duckdb")
	t.Chdir(t.TempDir())
	seed := os.Getenv("SLOTWISE_SEED")
	if seed == "" {
		seed = "1"
	}
	var cases []struct {
		Where []string
		Rows  [][]any
	}
	if err := json.Unmarshal(runPython(t, python, strings.Replace(writePartitions, "SEED", seed, 1)), &cases); err != nil {
		t.Fatal(err)
	}
	found, files, groups := 0, int64(0), int64(0)
	for i, c := range cases {
		var want []string
		for _, row := range c.Rows {
			want = append(want, line(row, nil, ".parquet"))
		}
		slices.Sort(want)
		found += len(want)
		for _, format := range []string{"parquet", "csv"} {
			args := []string{"run", "--mapper", "cat", "--input", format, "--format", format, "--columns", "id,part,kind", "--output", fmt.Sprint(format, i, ".out"), "-o", "json"}
			// In CSV an empty text of the table and null may look alike, and a column has no type.
			if format == "csv" && slices.ContainsFunc(c.Where, func(w string) bool { return strings.HasPrefix(w, "moment") || strings.HasPrefix(w, "city") }) {
				continue
			}
			for _, w := range c.Where {
				args = append(args, "--where", w)
			}
			var r struct {
				Jobs []struct {
					User map[string]int64 `json:"user_counters"`
				} `json:"jobs"`
			}
			if err := json.Unmarshal([]byte(mustRun(t, args...)), &r); err != nil {
				t.Fatal(err)
			}
			files += r.Jobs[0].User["files skipped by conditions"]
			groups += r.Jobs[0].User["row groups skipped by conditions"]
			if got := partLinesOrNone(t, fmt.Sprint(format, i, ".out")); !slices.Equal(got, want) {
				t.Errorf("%s, %q: %d lines, want %d\ngot  %.300q\nwant %.300q", format, c.Where, len(got), len(want), got, want)
			}
		}
	}
	if found == 0 || files == 0 || groups == 0 {
		t.Errorf("%d records found, %d files and %d row groups skipped", found, files, groups)
	}
}

// partLinesOrNone is partLines for an output that may have no files.
func partLinesOrNone(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), "part-") }) {
		return nil
	}
	return partLines(t, dir)
}
