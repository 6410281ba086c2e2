package apps

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/mapreduce"
)

// TestExactSumRoundsOnce divides to slightly less than half of a bit: what 53 bits would round to the half.
func TestExactSumRoundsOnce(t *testing.T) {
	const n, whole = 1<<40 + 1, 1<<30 + 1
	sum := new(big.Int).Mul(big.NewInt(whole), big.NewInt(n))
	sum.Add(sum, big.NewInt((n-1)/2))
	var s exactSum
	for i := range 3 {
		limb := new(big.Int).Rsh(sum, uint(32*i))
		s.limbs[i] = limb.And(limb, big.NewInt(math.MaxUint32)).Int64()
	}
	if got := s.over(n); got != math.Float64frombits(whole) {
		t.Errorf("%d units, want %d", math.Float64bits(got), uint64(whole))
	}
}

// TestExactSum compares with rational numbers and with another order.
func TestExactSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.OneOf(rapid.Float64(), rapid.Float64Range(-10, 10), rapid.SampledFrom([]float64{
			0, 1e308, -1e308, math.MaxFloat64, -math.MaxFloat64, 5e-324, -5e-324, 1, -1, 0x1p-1022,
		}))
		numbers := rapid.SliceOfN(number, 1, 30).Draw(t, "numbers")
		n := rapid.Int64Range(1, 100).Draw(t, "n")
		var forth, back, joined exactSum
		want := new(big.Rat)
		for i, x := range numbers {
			want.Add(want, new(big.Rat).SetFloat64(x))
			forth.add(x)
			back.add(numbers[len(numbers)-1-i])
		}
		parts := []exactSum{{}, {}}
		for i, x := range numbers {
			parts[i%2].add(x)
		}
		for _, p := range parts {
			p.carry()
			for i, l := range p.limbs {
				joined.limbs[i] += l
			}
		}
		f, _ := want.Quo(want, new(big.Rat).SetInt64(n)).Float64()
		for name, s := range map[string]*exactSum{"forth": &forth, "back": &back, "joined": &joined} {
			if got := s.over(n); got != f {
				t.Fatalf("%s: %g, want %g", name, got, f)
			}
		}
	})
}

func TestParseVector(t *testing.T) {
	for line, want := range map[string]string{
		"1,2.5,-3e2": "1,2.5,-300", "p:1,2": "1,2", "7\t0.1": "0.1", "a:b:1, 2 \r": "1,2", "": "", "a": "", "1,,2": "", "1,": "", "1,NaN": "", "Inf": "", "p:": "",
	} {
		v, ok := parseVector(nil, []byte(line))
		if got := string(appendVector(nil, v)); ok != (want != "") || ok && got != want {
			t.Errorf("%q: %v, %v", line, v, ok)
		}
	}
}

// blobs makes points around centres, some without a name, and lines
// that are no points.
func blobs(n int, centres [][]float64) (text string, points [][]float64, lines []string) {
	rng := rand.New(rand.NewPCG(3, 4))
	var b strings.Builder
	for i := range n {
		p := make([]float64, len(centres[0]))
		for d, c := range centres[i%len(centres)] {
			p[d] = c + rng.NormFloat64()
		}
		line := string(appendVector(nil, p))
		if i%3 > 0 {
			line = "p" + strconv.Itoa(i) + ":" + line
		}
		points, lines = append(points, p), append(lines, line)
		b.WriteString(line + "\n")
		if i%100 == 0 {
			b.WriteString("no point\n1,2,3,4,5,6,7,8\n\n")
		}
	}
	return b.String(), points, lines
}

var centres = [][]float64{{0, 0, 0}, {10, 0, -10}, {0, 1e6, 0}, {-9, 5, 5}}

// plainNearest is the definition.
func plainNearest(cs [][]float64, p []float64) (best int) {
	dist := func(c []float64) float64 {
		s := 0.0
		for i := range c {
			s += math.Pow(c[i]-p[i], 2)
		}
		return math.Sqrt(s)
	}
	for i := range cs {
		if dist(cs[i]) < dist(cs[best]) {
			best = i
		}
	}
	return best
}

func writeCentroids(t *testing.T, cs [][]float64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "centroids")
	var b []byte
	for _, c := range cs {
		b = append(appendVector(b, c), '\n')
	}
	if err := os.WriteFile(path, b, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestClassification(t *testing.T) {
	text, points, lines := blobs(900, centres)
	var want strings.Builder
	for i, p := range points {
		fmt.Fprintf(&want, "%d\t%s\n", plainNearest(centres, p), lines[i])
	}
	params := mapreduce.Params{"centroids": writeCentroids(t, centres)}
	appTest{app: "classification", params: params, files: map[string]string{"points": text}, want: want.String(), small: 5000}.run(t)
}

func TestCosine(t *testing.T) {
	for _, c := range []struct {
		a, b []float64
		want float64
	}{
		{[]float64{1, 0}, []float64{5, 0}, 0}, {[]float64{1, 0}, []float64{0, 2}, 1}, {[]float64{1, 1}, []float64{-2, -2}, 2}, {[]float64{0, 0}, []float64{1, 2}, 1},
	} {
		if got := cosineDistance(c.a, c.b); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v to %v: %g, want %g", c.a, c.b, got, c.want)
		}
	}
}

// lloyd is the algorithm in a few lines, with rational sums.
func lloyd(points, cs [][]float64, iterations int) [][]float64 {
	for range iterations {
		next := make([][]float64, len(cs))
		sums := map[[2]int]*big.Rat{}
		counts := map[int]int64{}
		for _, p := range points {
			c := plainNearest(cs, p)
			counts[c]++
			for d, x := range p {
				if sums[[2]int{c, d}] == nil {
					sums[[2]int{c, d}] = new(big.Rat)
				}
				sums[[2]int{c, d}].Add(sums[[2]int{c, d}], new(big.Rat).SetFloat64(x))
			}
		}
		for c := range cs {
			next[c] = append([]float64(nil), cs[c]...)
			for d := range next[c] {
				if counts[c] > 0 {
					next[c][d], _ = new(big.Rat).Quo(sums[[2]int{c, d}], new(big.Rat).SetInt64(counts[c])).Float64()
				}
			}
		}
		cs = next
	}
	return cs
}

func TestKMeans(t *testing.T) {
	text, points, lines := blobs(400, centres)
	files := map[string]string{"points": text}
	begin := [][]float64{{0, 0, 1}, {1, 0, 0}, {0, 9e5, 0}, {-1, 1, 1}, {1e9, 1e9, 1e9}} // the last gets no point
	path := writeCentroids(t, begin)
	const iterations = 3
	end := lloyd(points, begin, iterations)
	var want, assigned strings.Builder
	for i, c := range end {
		fmt.Fprintf(&want, "%d\t%s\n", i, appendVector(nil, c))
	}
	for i, p := range points {
		fmt.Fprintf(&assigned, "%d\t%s\n", plainNearest(end, p), lines[i])
	}
	params := mapreduce.Params{"centroids": path, "iterations": strconv.Itoa(iterations)}
	appTest{app: "kmeans", params: params, files: files, want: want.String(), ordered: true, small: 3000}.run(t)

	params = mapreduce.Params{"centroids": path, "iterations": strconv.Itoa(iterations), "assign": "true"}
	dir := t.TempDir()
	o := mapreduce.Options{Inputs: writeFiles(t, dir, files), Output: filepath.Join(dir, "out")}
	runVariant(t, appTest{app: "kmeans", params: params}, variant{}, o)
	if got := inLineOrder(output(t, o.Output)); got != inLineOrder(assigned.String()) {
		t.Errorf("assigned points differ: %s", firstDifference(got, inLineOrder(assigned.String())))
	}
}

// TestKMeansPick lets the app begin by itself: the result is a fixed point of
// the algorithm, the same for any splits, and another for another seed.
func TestKMeansPick(t *testing.T) {
	text, points, _ := blobs(300, centres)
	files := map[string]string{"points": text + text} // every point twice
	results := map[string]string{}
	for _, split := range []int64{0, 3000} {
		for _, seed := range []string{"1", "2"} {
			dir := t.TempDir()
			o := mapreduce.Options{Inputs: writeFiles(t, dir, files), Output: filepath.Join(dir, "out"), SplitSize: split, Reduces: 2}
			app, _ := Lookup("kmeans")
			done, err := mapreduce.RunApp(context.Background(), app, mapreduce.Params{"k": "4", "seed": seed, "iterations": "50"}, o)
			if err != nil {
				t.Fatal(err)
			}
			if len(done) >= 50 {
				t.Errorf("seed %s: %d jobs; it did not come to rest", seed, len(done))
			}
			got := output(t, o.Output)
			if before, ok := results[seed]; ok && before != got {
				t.Errorf("seed %s, splits of %d: %s\nwithout: %s", seed, split, got, before)
			}
			results[seed] = got
			cs, err := readCentroids(t.Context(), &mapreduce.Files{}, o.Output)
			if err != nil || len(cs) != 4 {
				t.Fatalf("seed %s: %d centroids, %v", seed, len(cs), err)
			}
			var again strings.Builder
			for i, c := range lloyd(points, cs, 1) {
				fmt.Fprintf(&again, "%d\t%s\n", i, appendVector(nil, c))
			}
			if got != again.String() {
				t.Errorf("seed %s: no fixed point: %s\nnext: %s", seed, got, again.String())
			}
		}
	}
	if results["1"] == results["2"] {
		t.Log("both seeds lead to the same clusters")
	}
}

func TestKMeansOfNothing(t *testing.T) {
	dir := t.TempDir()
	app, _ := Lookup("kmeans")
	o := mapreduce.Options{Inputs: writeFiles(t, dir, map[string]string{"f": "no point\n"}), Output: filepath.Join(dir, "out")}
	if _, err := mapreduce.RunApp(context.Background(), app, nil, o); err == nil || !strings.Contains(err.Error(), "no points") {
		t.Errorf("it ended with %v", err)
	}
}

func TestBadCentroids(t *testing.T) {
	for _, content := range []string{"", "1,2\n3\n", "x\n"} {
		path := filepath.Join(t.TempDir(), "c")
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := readCentroids(t.Context(), &mapreduce.Files{}, path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v", content, err)
		}
	}
	if _, err := readCentroids(t.Context(), &mapreduce.Files{}, filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("a missing file was read")
	}
}
