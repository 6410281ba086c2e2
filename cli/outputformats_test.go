package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// readParts is a Python program that prints the rows of output directories as JSON, by the
// modules csv and json, and by pyarrow.
const readParts = `
import csv, glob, json, sys
import pyarrow.dataset, pyarrow.parquet
def parts(dir, end):
    return sorted(glob.glob(dir + "/part-*" + end))
out = {"csv": [], "json": []}
for name in parts("csv", ".csv"):
    with open(name, newline="", encoding="utf-8") as f:
        out["csv"] += [[r["word"], int(r["count"])] for r in csv.DictReader(f)]
for name in parts("json", ".json"):
    with open(name, encoding="utf-8") as f:
        out["json"] += [[r["word"], r["count"]] for r in map(json.loads, f)]
for dir in sys.argv[1:]:
    for name in parts(dir, ".parquet"):
        pyarrow.parquet.ParquetFile(name)  # each part is whole
    t = pyarrow.dataset.dataset(dir, format="parquet").to_table()
    assert t.schema.names == ["word", "count"] and str(t.schema.field("count").type) == "int64", t.schema
    out[dir] = [list(r) for r in zip(*t.to_pydict().values())]
for rows in out.values():
    rows.sort()
print(json.dumps(out))
`

// TestOutputFormatsInPython: other programs read what wordcount writes in each format. Some
// parts are empty, and words have quotes, commas and backslashes.
func TestOutputFormatsInPython(t *testing.T) {
	python := pandas(t)
	dir := t.TempDir()
	text := strings.Repeat("the \"mat\", \\N caf\u00e9\n", 3) + "\\\" end,\n"
	if err := os.WriteFile(filepath.Join(dir, "in"), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	const want = `[["\"mat\",",3],["\\N",3],["\\\"",1],["café",3],["end,",1],["the",3]]`
	dirs := []string{"parquet", "parquet-gzip", "parquet-zstd"}
	for _, out := range append(dirs[:3:3], "csv", "json") {
		format, codec, _ := strings.Cut(out, "-")
		if codec == "" {
			codec = "none"
		}
		slotwise(t, "run", "wordcount", filepath.Join(dir, "in"), "--output", filepath.Join(dir, out), "--reduces", "9",
			"--output-format", format, "--output-columns", "word,count:int", "--output-compress", codec, "-q")
	}
	c := exec.Command(python, append([]string{"-c", readParts}, dirs...)...)
	c.Dir, c.Stderr = dir, os.Stderr
	printed, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]json.RawMessage
	if err := json.Unmarshal(printed, &got); err != nil || len(got) != 5 {
		t.Fatalf("%s: %v", printed, err)
	}
	for format, rows := range got {
		if sameRows(t, rows, want); t.Failed() {
			t.Errorf("%s: %s", format, rows)
		}
	}
}

// sameRows compares rows of JSON, which one side sorts by code points.
func sameRows(t *testing.T, got json.RawMessage, want string) {
	t.Helper()
	var g, w [][]any
	if err := json.Unmarshal(got, &g); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatal(err)
	}
	if len(g) != len(w) {
		t.Errorf("%d rows, want %d", len(g), len(w))
	}
	for _, row := range w {
		if !slices.ContainsFunc(g, func(x []any) bool { return slices.Equal(x, row) }) {
			t.Errorf("no row %v", row)
		}
	}
}

// TestOutputFormatOnCluster: the workers write the format that the submitter asks for, also
// as the last step of a chain, whose input has a format, too.
func TestOutputFormatOnCluster(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.StartWorker("w1", "--drivers", "1")
	in := c.Write("in.txt", "the cat\ncat the mat\n")
	c.Must("wordcount", in, "--output", "parquet", "--output-format", "parquet", "--output-columns", "word,count:int", "--output-compress", "zstd")
	c.Must("--mapper", "cat", "--input", filepath.Join(c.Dir, "parquet"), "--output", "back")
	if got := c.Lines("back"); !slices.Equal(got, []string{"cat\t2", "mat\t1", "the\t2"}) {
		t.Errorf("parquet: %q", got)
	}
	points := c.Write("points.json", `{"p":"a:1,2","id":1}`+"\n"+`{"p":"b:1,4","id":2}`+"\n"+`{"p":"c:9,8","id":3}`+"\n")
	c.Must("kmeans", points, "--format", "json", "--columns", "p", "--param", "k=2", "--output", "k", "--output-format", "json", "--output-columns", "cluster:int,centroid")
	got := c.Lines("k")
	if len(got) != 2 || !json.Valid([]byte(got[0])) || !strings.HasPrefix(got[0], `{"cluster":0,"centroid":"`) {
		t.Errorf("a chain: %q", got)
	}
}
