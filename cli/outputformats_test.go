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

// readCodecs is a Python program that decompresses the files of output directories with pyarrow, and reads
// Avro files with fastavro. It prints their lines.
const readCodecs = `
import fastavro, glob, json, pyarrow as pa, struct, sys
def blocks(data, codec):
    out, at = b"", 0
    while at < len(data):
        size, packed = struct.unpack(">ii", data[at:at + 8])
        out += pa.Codec(codec).decompress(data[at + 8:at + 8 + packed], size).to_pybytes()
        at += 8 + packed
    return out
out = {}
for dir in sys.argv[1:]:
    lines = []
    for name in glob.glob(dir + "/part-*"):
        with open(name, "rb") as f:
            if name.endswith(".avro"):
                lines += [f"{r['word']}\t{r['count']}" for r in fastavro.reader(f)]
            elif dir == "text-lz4":
                lines += pa.CompressedInputStream(f, "lz4").read().decode().splitlines()
            else:
                lines += blocks(f.read(), "snappy" if name.endswith(".snappy") else "lz4_raw").decode().splitlines()
    out[dir] = sorted(lines)
print(json.dumps(out))
`

// TestCodecsInPython: other programs read the output that is compressed with snappy and lz4, in blocks of
// Hadoop and in frames, and Avro files with each codec.
func TestCodecsInPython(t *testing.T) {
	python := pandas(t, "fastavro")
	t.Chdir(t.TempDir())
	var text strings.Builder
	for i := range 60_000 { // several blocks
		fmt.Fprintf(&text, "word%d caf\u00e9%d\n", i*i%77_777, i)
	}
	if err := os.WriteFile("in", []byte(text.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	slotwise(t, "run", "wordcount", "in", "--output", "plain", "--reduces", "2", "-q")
	want := partLines(t, "plain")
	dirs := []string{"text-snappy", "text-lz4", "text-lz4-hadoop", "avro-none", "avro-deflate", "avro-zstd", "avro-snappy"}
	for _, dir := range dirs {
		format, codec, _ := strings.Cut(dir, "-")
		args := []string{"run", "wordcount", "in", "--output", dir, "--reduces", "2", "--output-format", format, "--output-compress", codec, "-q"}
		if format == "avro" {
			args = append(args, "--output-columns", "word,count:int")
		}
		slotwise(t, args...)
		slotwise(t, "run", "--mapper", "cat", "--input", dir, "--output", dir+"-again", "-q")
		if got := partLines(t, dir+"-again"); !slices.Equal(got, want) {
			t.Errorf("%s: slotwise reads %d lines, want %d", dir, len(got), len(want))
		}
	}
	// fastavro reads zstd and snappy only with other modules.
	dirs = slices.DeleteFunc(dirs, func(dir string) bool { return dir == "avro-zstd" || dir == "avro-snappy" })
	c := exec.Command(python, append([]string{"-c", readCodecs}, dirs...)...)
	c.Stderr = os.Stderr
	printed, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got map[string][]string
	if err := json.Unmarshal(printed, &got); err != nil || len(got) != len(dirs) {
		t.Fatal(err)
	}
	for dir, lines := range got {
		if slices.Sort(lines); !slices.Equal(lines, want) {
			t.Errorf("%s: Python reads %d lines, want %d", dir, len(lines), len(want))
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
