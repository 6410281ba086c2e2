package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/lab/harness"
)

// testBench makes a bench in a temporary directory and a data set of one file.
func testBench(t *testing.T) (*bench, dataset) {
	b := newBench(&settings{rounds: 3, scale: 1, data: t.TempDir(), workers: 1})
	d := dataset{"text", 12, filepath.Join(b.data, "text-12")}
	write(t, filepath.Join(d.dir, "a"), "b a\na\nb c d\n")
	return b, d
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestMeasure(t *testing.T) {
	b, d := testBench(t)
	tests := []struct {
		name    string
		ours    string
		theirs  string
		same    sameness
		missing string
		want    string // in the error; "" for none
	}{
		{"equal", "sort {in} > {out}", "sort {in} > {out}", exactly, "", ""},
		{"a directory of parts", "mkdir {out}; (head -n 1; touch {out}/_SUCCESS) < {in} > {out}/part-0; tail -n +2 {in} > {out}/part-1", "cat {in} > {out}", exactly, "", ""},
		{"another order", "sort {in} > {out}", "cat {in} > {out}", exactly, "", "differ"},
		{"any order", "sort {in} > {out}", "cat {in} > {out}", asSorted, "", ""},
		{"other lines", "sort {in} > {out}", "tail -n 1 {in} > {out}", asSorted, "", "differ"},
		{"other padding", "echo ' 1 a' > {out}", "echo '1 a' > {out}", uniqCounts, "", ""},
		{"a broken pipe part", "cat {in} > {out}", "false | cat > {out}", exactly, "", "exit status 1"},
		{"a missing tool", "cat {in} > {out}", "no-such-tool", exactly, "no-such-tool is not installed", ""},
		{"not compared", "echo 1 > {out}", "echo 2 > {out}", notAtAll, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := func(s string) string { return strings.ReplaceAll(s, "{in}", d.files()) }
			r := row{name: "x", same: tt.same, limits: []limit{{seconds: 100, aim: 100}}, contestants: []contestant{
				pipe("a", d, in(tt.ours)), pipe("b", d, in(tt.theirs)),
			}}
			r.contestants[1].missing = tt.missing
			res, err := b.measure(context.Background(), r)
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Fatalf("error %v, want one with %q", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !res.ok() || len(res.Timings[0].Runs) != 3 || res.Timings[0].Seconds <= 0 || res.Timings[0].PeakRSS < harness.MiB {
				t.Errorf("result %+v, timing %+v", res, res.Timings[0])
			}
			if left, _ := filepath.Glob(filepath.Join(b.data, "out-*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestCancel(t *testing.T) {
	b, d := testBench(t)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	r := row{name: "x", contestants: []contestant{pipe("a", d, "sleep 600 | cat")}}
	if _, err := b.measure(ctx, r); err == nil {
		t.Error("no error")
	}
	if took := time.Since(start); took > 4*time.Minute {
		t.Errorf("took %v: a child outlived its parent", took)
	}
}

func TestJudge(t *testing.T) {
	ours := &timing{Name: "slotwise", own: true, Seconds: 2, Bytes: 100, PeakRSS: 50 * harness.MiB}
	tests := []struct {
		name       string
		limit      limit
		others     []*timing
		ok, aim    bool
		skip       bool
		wantInText string
	}{
		{"fast enough", limit{against: "x", must: 1.5, aim: 2}, []*timing{{Name: "x", Seconds: 3.1}}, true, false, false, "1.55× x"},
		{"as aimed", limit{against: "x", must: 1.5, aim: 2}, []*timing{{Name: "x", Seconds: 4}}, true, true, false, "2.00× x"},
		{"too slow", limit{against: "x", must: 1.5}, []*timing{{Name: "x", Seconds: 2.9}}, false, false, false, "must ≥ 1.50"},
		{"only an aim", limit{against: "x", aim: 2}, []*timing{{Name: "x", Seconds: 2}}, true, false, false, "1.00× x"},
		{"nobody there", limit{against: "x", must: 1.5}, []*timing{{Name: "x", Missing: "gone"}}, true, false, true, "gone"},
		{"a misspelt peer", limit{against: "y", must: 1.5}, []*timing{{Name: "x"}}, false, false, true, "no such"},
		{"in time", limit{seconds: 2, aim: 1}, nil, true, false, false, "2000 ms"},
		{"late", limit{seconds: 1.9}, nil, false, false, false, "2000 ms"},
		{"flat", limit{flat: 0.15}, []*timing{{Seconds: 21, Bytes: 1000, own: true}, {Seconds: 1, Bytes: 1000}}, true, true, false, "within 5 %"},
		{"growing", limit{flat: 0.15}, []*timing{{Seconds: 24, Bytes: 1000, own: true}}, false, false, false, "within 20 %"},
		{"within memory", limit{memory: 50 * harness.MiB}, []*timing{{PeakRSS: 60 * harness.MiB}}, true, true, false, "peak 50 MiB"},
		{"too much", limit{memory: 49 * harness.MiB}, nil, false, false, false, "peak 50 MiB"},
		{"one of all", limit{memoryAll: 50 * harness.MiB}, []*timing{{PeakRSS: 60 * harness.MiB}}, false, false, false, "peak 60 MiB"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := tt.limit.judge(append([]*timing{ours}, tt.others...))
			if v.OK != tt.ok || v.Aim != tt.aim || v.Skip != tt.skip || !strings.Contains(v.Text, tt.wantInText) {
				t.Errorf("%+v, want ok %v, aim %v, skip %v, %q", v, tt.ok, tt.aim, tt.skip, tt.wantInText)
			}
		})
	}
}

// Every limit of every row names a contestant of the row, and our command is
// always the first.
func TestRows(t *testing.T) {
	b, _ := testBench(t)
	b.slow = true
	for _, r := range b.rows() {
		if c := r.contestants[0]; !strings.HasPrefix(c.shell+strings.Join(c.argv, " "), b.binary()) {
			t.Errorf("%s: the first contestant is not ours: %v", r.name, c)
		}
		for _, l := range r.limits {
			var ts []*timing
			for _, c := range r.contestants {
				ts = append(ts, &timing{Name: c.name, Seconds: 1, Bytes: 1})
			}
			if v := l.judge(ts); v.Skip {
				t.Errorf("%s: %s", r.name, v.Text)
			}
		}
	}
}

func TestHalves(t *testing.T) {
	for name, files := range map[string][]string{
		"one file":  {"a\nbb\nccc\ndddd\n"},
		"one line":  {"a\n"},
		"no LF":     {"a\nbb"},
		"two files": {"a\nb\n", "c\n"},
		"three":     {"a\n", "b\n", "c\n"},
	} {
		t.Run(name, func(t *testing.T) {
			d := dataset{"text", 1, filepath.Join(t.TempDir(), "d")}
			for i, text := range files {
				write(t, filepath.Join(d.dir, string(rune('a'+i))), text)
			}
			if err := d.cut(); err != nil {
				t.Fatal(err)
			}
			var got string
			for _, pattern := range d.halves() {
				names, _ := filepath.Glob(pattern)
				if len(names) == 0 {
					t.Errorf("%s: no files", pattern)
				}
				for _, name := range names {
					data, err := os.ReadFile(name)
					if err != nil {
						t.Fatal(err)
					}
					got += string(data)
				}
			}
			if want := strings.Join(files, ""); got != want {
				t.Errorf("halves hold %q, want %q", got, want)
			}
		})
	}
}

func TestSummary(t *testing.T) {
	var out strings.Builder
	printSummary(&out, []*result{
		{Row: "a", Timings: []*timing{
			{Name: "slotwise", Seconds: 2, Bytes: 4 * harness.MiB, PeakRSS: 7 * harness.MiB},
			{Name: "sort | uniq", Seconds: 3, Bytes: 4 * harness.MiB},
			{Name: "bigger", Seconds: 3, Bytes: 8 * harness.MiB},
			{Name: "gone", Missing: "gone"},
		}, Outcomes: []outcome{{Text: "1.50× sort", OK: true}}},
		{Row: "b", Error: "it\nbroke"},
	})
	want := "| a | 2.000 s | 2 | 0.0 | 7 MiB | sort \\| uniq 1.50, bigger 0.75, gone missing | ok 1.50× sort |\n" +
		"| b | | | | | | FAILED: it broke |\n"
	if !strings.HasSuffix(out.String(), want) {
		t.Errorf("got\n%s\nwant at the end\n%s", out.String(), want)
	}
}

func TestFirstHalf(t *testing.T) {
	for _, tt := range []struct {
		sizes []int64
		want  int
	}{
		{[]int64{1, 1}, 1},
		{[]int64{9, 1}, 1},
		{[]int64{1, 9}, 1},
		{[]int64{0, 0, 0}, 2},
		{[]int64{5, 5, 5, 5}, 2},
		{[]int64{5, 5, 5, 5, 1}, 2},
		{[]int64{5, 5, 5, 5, 5, 5, 5, 5, 1}, 4},
		{[]int64{1, 1, 1, 9}, 3},
	} {
		if got := firstHalf(tt.sizes); got != tt.want {
			t.Errorf("firstHalf(%v) = %d, want %d", tt.sizes, got, tt.want)
		}
	}
}

// Each shape has the size that was asked for and the words or lines that its name promises,
// and a directory that exists is left alone.
func TestShapes(t *testing.T) {
	dir := t.TempDir()
	read := func(kind string, size int64) string {
		t.Helper()
		name := filepath.Join(dir, kind)
		if created, err := generateShape(t.Context(), "", kind, size, name); err != nil || !created {
			t.Fatalf("%s: %v, %v", kind, created, err)
		}
		if created, err := generateShape(t.Context(), "", kind, 1, name); err != nil || created {
			t.Fatalf("%s, a second time: %v, %v", kind, created, err)
		}
		b, err := os.ReadFile(filepath.Join(name, "part-0"))
		if err != nil || int64(len(b)) < size || int64(len(b)) > size+200 {
			t.Fatalf("%s: %d bytes, want %d; %v", kind, len(b), size, err)
		}
		return string(b)
	}
	words := strings.Fields(read("distinct", 1<<20))
	seen := map[string]bool{}
	for _, w := range words {
		seen[w] = true
	}
	if len(seen) != len(words) || len(words) != 1<<20/distinctLen {
		t.Errorf("%d distinct words of %d", len(seen), len(words))
	}
	if text := read("one-word", 1<<16); 2*strings.Count(text, "always ") != len(strings.Fields(text)) {
		t.Error("the same word is not each second one")
	}
	if text := read("long-words", 1<<16); len(strings.Fields(text)) != 1 || !strings.HasSuffix(text, "\n") {
		t.Error("an input smaller than a long word is not one line with one word")
	}
	for _, l := range strings.SplitAfter(strings.TrimSpace(read("equal", 1<<16)), "\n") {
		if strings.TrimSpace(l) != strings.TrimSpace(equalLine) || len(equalLine) != 100 {
			t.Fatalf("%q of %d bytes", l, len(equalLine))
		}
	}
	for _, l := range strings.Fields(read("prefix", 1<<16)) {
		if !strings.HasPrefix(l, commonPrefix) || len(commonPrefix) != 100 {
			t.Fatalf("%q, prefix of %d bytes", l, len(commonPrefix))
		}
	}
}
