package generate

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// readDir returns the content of all files below dir by name.
func readDir(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(filepath.Join(dir, name))
		files[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// smallParts are the kinds made of parts, with parts small enough to make many.
var smallParts = []Kind{
	{Name: "text", Func: inParts("text-%05d.txt", 10_000, zipfText)},
	{Name: "records", Func: inParts("records-%05d.dat", 10_000, records)},
}

func TestSameBytesOnAnyNumberOfCores(t *testing.T) {
	for _, k := range smallParts {
		t.Run(k.Name, func(t *testing.T) {
			var first map[string]string
			for _, procs := range []int{1, 2, 7} {
				old := runtime.GOMAXPROCS(procs)
				dir := filepath.Join(t.TempDir(), "out")
				err := k.Run(t.Context(), Options{Size: 95_000, Seed: 7, Dir: dir})
				runtime.GOMAXPROCS(old)
				if err != nil {
					t.Fatal(err)
				}
				files := readDir(t, dir)
				if len(files) != 10 {
					t.Fatalf("%d files, want 10", len(files))
				}
				if first == nil {
					first = files
				} else if diff := cmp.Diff(first, files); diff != "" {
					t.Fatalf("GOMAXPROCS=%d changes the data", procs)
				}
			}
		})
	}
}

// So with every kind there is, whoever wrote it.
func TestKindsGiveTheSameBytes(t *testing.T) {
	for _, k := range Kinds() {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			var first map[string]string
			for range 2 {
				dir := filepath.Join(t.TempDir(), "out")
				if err := k.Run(t.Context(), Options{Size: 50_000, Seed: 11, Dir: dir}); err != nil {
					t.Fatal(err)
				}
				files := readDir(t, dir)
				if len(files) == 0 {
					t.Fatal("no files")
				}
				if first == nil {
					first = files
				} else if diff := cmp.Diff(first, files); diff != "" {
					t.Fatal("the second run differs")
				}
			}
		})
	}
}

// What users generated yesterday must come out again tomorrow: results and
// measurements refer to it.
func TestBytesNeverChange(t *testing.T) {
	var text, recs bytes.Buffer
	if err := zipfText(&text, part{size: 120, seed: derive(1, "part", 0)}, nil); err != nil {
		t.Fatal(err)
	}
	if err := records(&recs, part{offset: 4_096_000, size: 200, seed: derive(1, "part", 3)}, nil); err != nil {
		t.Fatal(err)
	}
	if got := text.String(); got != wantText {
		t.Errorf("text is %q", got)
	}
	if got := recs.String(); got != wantRecords {
		t.Errorf("records are %q", got)
	}
}

const (
	wantText = "er ac pigitiju er ac atejyguw\n" +
		"ac vub ixoc nymufu lodaz wo tysaweja egoz qec egututo ac nab er zatonon ale\n"
	wantRecords = "_-h2hKhx}K  0000000000000000000000000000A000  7777EEEEFFFFCCCC3333FFFF7777111111119999111188887777.\n" +
		"msP=.ijk+G  0000000000000000000000000000A001  44446666AAAACCCC7777222222225555CCCC5555AAAA3333EEEE.\n"
)

func TestSeedsDiffer(t *testing.T) {
	for _, k := range smallParts {
		seen := map[string]uint64{}
		for seed := range uint64(5) {
			dir := filepath.Join(t.TempDir(), fmt.Sprint(seed))
			if err := k.Run(t.Context(), Options{Size: 30_000, Seed: seed, Dir: dir}); err != nil {
				t.Fatal(err)
			}
			for name, content := range readDir(t, dir) {
				if other, dup := seen[content]; dup {
					t.Errorf("%s: %s of seed %d was there before, in seed %d", k.Name, name, seed, other)
				}
				seen[content] = seed
			}
		}
	}
}

func TestTextShape(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int64Range(0, 50_000).Draw(t, "size")
		seed := rapid.Uint64().Draw(t, "seed")
		var b bytes.Buffer
		if err := zipfText(&b, part{size: size, seed: seed}, nil); err != nil {
			t.Fatal(err)
		}
		const longestLine = maxLineWords * (maxWordLen + 1)
		if n := int64(b.Len()); n > size || n <= size-longestLine {
			t.Fatalf("%d bytes, want at most %d and no line less", n, size)
		}
		for line := range strings.Lines(b.String()) {
			words := strings.Split(strings.TrimSuffix(line, "\n"), " ")
			if !strings.HasSuffix(line, "\n") || len(words) < minLineWords || len(words) > maxLineWords {
				t.Fatalf("line %q", line)
			}
			for _, w := range words {
				if len(w) < 2 || len(w) > maxWordLen || strings.Trim(w, "abcdefghijklmnopqrstuvwxyz") != "" {
					t.Fatalf("word %q", w)
				}
			}
		}
	})
}

func TestTextFollowsZipf(t *testing.T) {
	v := zipfWords()
	counts := map[string]float64{}
	r := rng{1}
	const draws = 400_000
	for range draws {
		w := v.draw(&r)
		counts[string(w.text[:w.n-1])]++
	}
	weights := zipfWeights(vocabularySize)
	for _, rank := range []int{1, 2, 3, 10, 50, 100} {
		w := v.words[rank-1]
		got, want := counts[string(w.text[:w.n-1])], draws*weights[rank-1]
		if math.Abs(got-want) > 5*math.Sqrt(want) {
			t.Errorf("word of rank %d: drawn %.0f times, want about %.0f", rank, got, want)
		}
	}
	// How many of the words come up at least once.
	want := 0.0
	for _, p := range weights {
		want += 1 - math.Exp(-draws*p)
	}
	if got := float64(len(counts)); math.Abs(got-want) > 0.01*want {
		t.Errorf("%.0f different words, want about %.0f", got, want)
	}
}

// The alias table must give each word its probability: added up over the
// cells, not estimated.
func TestAliasTableIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOfN(rapid.Float64Range(0.001, 1), 1, 50).Draw(t, "weights")
		var sum float64
		for _, x := range p {
			sum += x
		}
		for i := range p {
			p[i] /= sum
		}
		got := make([]float64, len(p))
		for i, c := range makeAlias(p) {
			keep := float64(c.keep) / (1 << 32)
			got[i] += keep / float64(len(p))
			got[c.other] += (1 - keep) / float64(len(p))
		}
		for i := range p {
			if math.Abs(got[i]-p[i]) > 1e-8 {
				t.Fatalf("index %d: probability %g, want %g", i, got[i], p[i])
			}
		}
	})
}

func TestVocabulary(t *testing.T) {
	v := zipfWords()
	seen := map[word]bool{}
	last := uint8(0)
	for i, w := range v.words {
		if seen[w] {
			t.Fatalf("word %q is there twice", w.text)
		}
		seen[w] = true
		if w.n < last {
			t.Fatalf("word %d is shorter than a more frequent one", i)
		}
		last = w.n
	}
	if len(seen) != vocabularySize {
		t.Fatalf("%d words", len(seen))
	}
}

func TestRecords(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	if err := smallParts[1].Run(t.Context(), Options{Size: 25_199, Seed: 3, Dir: dir}); err != nil {
		t.Fatal(err)
	}
	shape := regexp.MustCompile(`^[ -~]{10}  [0-9A-F]{32}  ([0-9A-F])[0-9A-F]{51}\.$`)
	files := readDir(t, dir)
	row := 0
	for i := range len(files) {
		s := bufio.NewScanner(strings.NewReader(files[fmt.Sprintf("records-%05d.dat", i)]))
		for ; s.Scan(); row++ {
			if !shape.MatchString(s.Text()) {
				t.Fatalf("record %q", s.Text())
			}
			if want := fmt.Sprintf("%032X", row); s.Text()[12:44] != want {
				t.Fatalf("row %s, want %s", s.Text()[12:44], want)
			}
		}
	}
	if row != 251 {
		t.Fatalf("%d records, want the 251 that fit", row)
	}
}

func TestKeysUseAllPrintableCharacters(t *testing.T) {
	var seen [256]int
	r := rng{5}
	var key [keyLen / 2]byte
	const n = 95 * 400
	for range n / len(key) {
		putKey(key[:], r.next())
		for _, c := range key {
			seen[c]++
		}
	}
	for c, got := range seen {
		if printable := c >= ' ' && c <= '~'; !printable && got > 0 || printable && (got < 280 || got > 520) {
			t.Errorf("character %q: %d times, want about 400", rune(c), got)
		}
	}
}

func TestEmptyDataSetHasOneEmptyFile(t *testing.T) {
	for _, k := range smallParts {
		dir := filepath.Join(t.TempDir(), k.Name)
		if err := k.Run(t.Context(), Options{Dir: dir}); err != nil {
			t.Fatal(err)
		}
		for name, content := range readDir(t, dir) {
			if content != "" {
				t.Errorf("%s is not empty", name)
			}
		}
		if n := len(readDir(t, dir)); n != 1 {
			t.Errorf("%s: %d files", k.Name, n)
		}
	}
}

func TestCancelLeavesNothing(t *testing.T) {
	for _, k := range append(smallParts, Kind{Func: oneFile("x", endless)}) {
		parent := t.TempDir()
		ctx, cancel := context.WithCancelCause(t.Context())
		stopped := errors.New("stopped by the test")
		err := k.Run(ctx, Options{
			Size: 1 << 20, Dir: filepath.Join(parent, "out"),
			Progress: func(int64) { cancel(stopped) },
		})
		if !errors.Is(err, stopped) {
			t.Errorf("%s: error %v", k.Name, err)
		}
		if left := readDir(t, parent); len(left) > 0 {
			t.Errorf("%s leaves %d files", k.Name, len(left))
		}
		if entries, _ := os.ReadDir(parent); len(entries) > 0 {
			t.Errorf("%s leaves %v", k.Name, entries)
		}
	}
}

// endless writes until it cannot.
func endless(w io.Writer, _ int64, _ uint64, _ Params) error {
	for {
		if _, err := w.Write(make([]byte, 4096)); err != nil {
			return err
		}
	}
}

func TestFailureKeepsTheOldData(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "out")
	old := oneFile("text-00000.txt", func(w io.Writer, _ int64, _ uint64, _ Params) error {
		_, err := io.WriteString(w, "old")
		return err
	})
	if err := old(t.Context(), Options{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"out/text-00000.txt": "old"}
	if err := old(t.Context(), Options{Dir: dir}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("second run: error %v, want one that the directory exists", err)
	}
	broken := errors.New("broken")
	failing := oneFile("movies-00000.txt", func(io.Writer, int64, uint64, Params) error { return broken })
	if err := failing(t.Context(), Options{Dir: dir, Overwrite: true}); !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
	if diff := cmp.Diff(want, readDir(t, parent)); diff != "" {
		t.Errorf("after a failure:\n%s", diff)
	}
	fresh := oneFile("movies-00000.txt", func(w io.Writer, size int64, _ uint64, _ Params) error {
		_, err := io.WriteString(w, "new")
		return err
	})
	if err := fresh(t.Context(), Options{Dir: dir, Overwrite: true}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"out/movies-00000.txt": "new"}, readDir(t, parent)); diff != "" {
		t.Errorf("after overwriting:\n%s", diff)
	}
}

// TestOverwriteItsOwn: each kind replaces what it has made, so no kind makes a file whose name
// Overwrite does not know.
func TestOverwriteItsOwn(t *testing.T) {
	for _, k := range Kinds() {
		dir := filepath.Join(t.TempDir(), "out")
		for range 2 {
			if err := k.Run(t.Context(), Options{Size: 10_000, Dir: dir, Overwrite: true}); err != nil {
				t.Errorf("%s: %v", k.Name, err)
			}
		}
	}
}

// TestOverwriteKeepsForeignFiles: a directory with anything that no kind makes is replaced
// with Force only. The error names the first such file.
func TestOverwriteKeepsForeignFiles(t *testing.T) {
	text, _ := Lookup("text")
	for _, foreign := range []string{"thesis.tex", "sub/deep/thesis.tex", "text-1.txt", "text-00000.txt.orig", "atext-00000.txt", "text-0000x.txt", "part-r-00000", "lineitem.tbl/x", "notes.tbl"} {
		parent := t.TempDir()
		dir := filepath.Join(parent, "out")
		path := filepath.Join(dir, foreign)
		err := text.Run(t.Context(), Options{Size: 10, Dir: dir})
		if err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("mine"), 0o600)); err != nil {
			t.Fatal(err)
		}
		err = text.Run(t.Context(), Options{Size: 10, Seed: 2, Dir: dir, Overwrite: true})
		if named := (*ForeignFileError)(nil); !errors.As(err, &named) || named.File != foreign {
			t.Errorf("%s: %v", foreign, err)
		}
		if b, err := os.ReadFile(path); string(b) != "mine" {
			t.Errorf("%s: it has %q, %v", foreign, b, err)
		}
		if err := text.Run(t.Context(), Options{Size: 10, Seed: 2, Dir: dir, Force: true}); err != nil {
			t.Errorf("%s with Force: %v", foreign, err)
		}
		if left := readDir(t, parent); len(left) != 1 {
			t.Errorf("%s: left after Force: %v", foreign, left)
		}
	}
}

// TestFileThatComesMeanwhile: a file that somebody puts into the directory while the data are
// being made stays.
func TestFileThatComesMeanwhile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	path := filepath.Join(dir, "thesis.tex")
	slow := oneFile("text-00000.txt", func(w io.Writer, _ int64, _ uint64, _ Params) error {
		return os.WriteFile(path, []byte("mine"), 0o600)
	})
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := slow(t.Context(), Options{Dir: dir, Overwrite: true}); !errors.As(err, new(*ForeignFileError)) {
		t.Errorf("%v", err)
	}
	if b, err := os.ReadFile(path); string(b) != "mine" {
		t.Errorf("it has %q, %v", b, err)
	}
}

func TestProgressAddsUp(t *testing.T) {
	for _, k := range smallParts {
		var last int64
		dir := filepath.Join(t.TempDir(), "out")
		err := k.Run(t.Context(), Options{Size: 77_000, Dir: dir, Progress: func(n int64) {
			if n < last {
				t.Errorf("%s: progress goes back from %d to %d", k.Name, last, n)
			}
			last = n
		}})
		if err != nil {
			t.Fatal(err)
		}
		var sum int64
		for _, content := range readDir(t, dir) {
			sum += int64(len(content))
		}
		if last != sum {
			t.Errorf("%s: told of %d bytes, wrote %d", k.Name, last, sum)
		}
	}
}

func TestKinds(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range Kinds() {
		if seen[k.Name] || k.Name != strings.ToLower(k.Name) || k.Summary == "" || k.Func == nil {
			t.Errorf("kind %+v", k)
		}
		seen[k.Name] = true
		err := k.Run(t.Context(), Options{Dir: t.TempDir(), Params: Params{"nonsense": "1"}})
		var unknown *UnknownParamError
		if !errors.As(err, &unknown) || unknown.Name != "nonsense" {
			t.Errorf("%s: a parameter that it lacks gives %v", k.Name, err)
		}
	}
	if _, ok := Lookup("no such kind"); ok {
		t.Error("a kind was found that does not exist")
	}
}

func TestParams(t *testing.T) {
	p := Params{"n": "12", "f": "0.5", "bad": "x", "nan": "NaN"}
	for _, tt := range []struct {
		name string
		min  int64
		ok   bool
	}{{"n", 12, true}, {"n", 13, false}, {"bad", 0, false}, {"absent", 0, false}, {"f", 0, false}} {
		if _, err := p.Int(tt.name, tt.min); (err == nil) != tt.ok {
			t.Errorf("Int(%s, %d): error %v", tt.name, tt.min, err)
		}
	}
	for name, ok := range map[string]bool{"n": true, "f": true, "bad": false, "nan": false} {
		if _, err := p.Float(name); (err == nil) != ok {
			t.Errorf("Float(%s): error %v", name, err)
		}
	}
}

func BenchmarkText(b *testing.B) {
	p := part{size: 1 << 20, seed: 1}
	b.SetBytes(p.size)
	for b.Loop() {
		if err := zipfText(io.Discard, p, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// oneFile makes a data set of a single file, which f writes. f must return the errors of w.
func oneFile(name string, f func(w io.Writer, size int64, seed uint64, params Params) error) func(context.Context, Options) error {
	return func(ctx context.Context, o Options) error {
		return inDir(o, func(dir string) error {
			m := &meter{ctx: ctx, progress: o.Progress}
			return writeFile(m, dir, name, func(w io.Writer) error {
				b := bufio.NewWriterSize(w, 1<<18)
				if err := f(b, o.Size, derive(o.Seed, name, 0), o.Params); err != nil {
					return err
				}
				return b.Flush()
			})
		})
	}
}
