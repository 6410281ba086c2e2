package generate

import (
	"math/bits"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// made runs a kind twice, once with another number of cores than the other,
// and returns its files.
func made(t *testing.T, name string, size int64, params Params) map[string]string {
	t.Helper()
	kind, ok := Lookup(name)
	if !ok {
		t.Fatalf("no kind %q", name)
	}
	var files map[string]string
	for range 2 {
		dir := filepath.Join(t.TempDir(), "out")
		if err := kind.Run(t.Context(), Options{Size: size, Seed: 5, Dir: dir, Params: params}); err != nil {
			t.Fatal(err)
		}
		again := readDir(t, dir)
		for n, content := range files {
			if again[n] != content {
				t.Errorf("%s: %s differs from run to run", name, n)
			}
		}
		files = again
	}
	return files
}

func TestLineKinds(t *testing.T) {
	for _, c := range []struct {
		kind   string
		params Params
		line   string
		files  int
		slack  int // the longest line
	}{
		{"movies", nil, `^\d+:(\d+_[1-5](,\d+_[1-5])*)?$`, 1, 30_000},
		{"points", Params{"dimensions": "3"}, `^p\d+:-?\d+\.\d{3}(,-?\d+\.\d{3}){2}$`, 1, 50},
		{"graph", Params{"nodes": "1000"}, `^\d{1,3}\t\d{1,3}$`, 1, 10},
		{"documents", Params{"files": "7"}, `^[a-z]+( [a-z]+){4,14}$`, 7, 7 * 250},
	} {
		const size = 200_000
		files := made(t, c.kind, size, c.params)
		if len(files) != c.files {
			t.Errorf("%s: %d files, want %d", c.kind, len(files), c.files)
		}
		total := 0
		line := regexp.MustCompile(c.line)
		for name, content := range files {
			total += len(content)
			for l := range strings.SplitSeq(strings.TrimSuffix(content, "\n"), "\n") {
				if !line.MatchString(l) {
					t.Fatalf("%s, %s: %.100q", c.kind, name, l)
				}
			}
		}
		if total > size+c.files || total < size-c.slack {
			t.Errorf("%s: %d bytes, want %d", c.kind, total, size)
		}
	}
}

func TestIDsAreUnique(t *testing.T) {
	for kind, max := range map[string]int64{"movies": 1 << 20, "points": 1 << 16} {
		seen := map[string]bool{}
		for part0 := range int64(4) {
			var b strings.Builder
			var err error
			p := part{offset: part0 * max, size: max, seed: uint64(part0)}
			if kind == "movies" {
				err = movies(&b, p, nil)
			} else {
				err = writePoints(&b, p, [][]int64{{1}, {2}})
			}
			if err != nil {
				t.Fatal(err)
			}
			for l := range strings.Lines(b.String()) {
				id, _, _ := strings.Cut(l, ":")
				if seen[id] {
					t.Fatalf("%s: %s occurs twice", kind, id)
				}
				seen[id] = true
			}
		}
	}
}

// TestSkewed checks range and shape: each doubling is about as likely.
func TestSkewed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64Range(1, 1<<62).Draw(t, "n")
		r := rng{rapid.Uint64().Draw(t, "seed")}
		for range 20 {
			if i := r.skewed(n); i >= n {
				t.Fatalf("%d of %d", i, n)
			}
		}
	})
	r := rng{1}
	var counts [11]int
	for range 110_000 {
		counts[bits.Len64(r.skewed(1024))]++
	}
	for e, n := range counts {
		if n < 9500 || n > 10500 {
			t.Errorf("numbers of %d bits: %d times, want about 10000", e, n)
		}
	}
}

func TestThousandths(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(-1e9, 1e9).Draw(t, "n")
		s := string(appendThousandths(nil, n))
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || f != float64(n)/1000 || len(s)-strings.IndexByte(s, '.') != 4 {
			t.Fatalf("%d becomes %q", n, s)
		}
	})
}
