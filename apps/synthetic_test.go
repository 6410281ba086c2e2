package apps

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/big"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/mapreduce"
)

// radical is the definition of the Halton sequence: the digits of i mirrored
// at the point.
func radical(i, base int) float64 {
	x, unit := 0.0, 1.0
	for ; i > 0; i /= base {
		unit /= float64(base)
		x += unit * float64(i%base)
	}
	return x
}

func TestHalton(t *testing.T) {
	h := newHalton(1)
	for i := 1; i < 100_000; i++ {
		x, y := h.point()
		if math.Abs(x-radical(i, 2)) > 1e-15 || math.Abs(y-radical(i, 3)) > 1e-12 {
			t.Fatalf("point %d: %g, %g; want %g, %g", i, x, y, radical(i, 2), radical(i, 3))
		}
		h.next()
		if i%9973 == 0 && *h != *newHalton(uint64(i) + 1) {
			t.Fatalf("walking to %d and starting there differ", i+1)
		}
	}
}

func TestPi(t *testing.T) {
	const points = 12_000
	inside := 0
	for i := 1; i <= points; i++ {
		if math.Hypot(radical(i, 2)-0.5, radical(i, 3)-0.5) <= 0.5 {
			inside++
		}
	}
	if off := math.Abs(4*float64(inside)/points - math.Pi); off > 0.002 {
		t.Fatalf("the reference is off by %g", off)
	}
	want := fmt.Sprintf("pi\t%s\ninside\t%d\noutside\t%d\n", big.NewRat(4*int64(inside), points).FloatString(20), inside, points-inside)
	for _, tasks := range []int{1, 5, 12} {
		params := mapreduce.Params{"maps": strconv.Itoa(tasks), "samples": strconv.Itoa(points / tasks)}
		appTest{app: "pi", params: params, want: want, ordered: true}.run(t)
	}
}

func TestCPUActivity(t *testing.T) {
	// The same chain with big integers.
	p := big.NewInt(mersenne)
	squared := func(record string, n int) *big.Int {
		x := new(big.Int)
		for _, b := range []byte(record) {
			x.Mul(x, big.NewInt(257)).Add(x, big.NewInt(int64(b)+1)).Mod(x, p)
		}
		for range n {
			x.Mul(x, x).Add(x, big.NewInt(1)).Mod(x, p)
		}
		return x
	}
	want := func(records []string) string {
		sum := new(big.Int)
		for _, r := range records {
			sum.Add(sum, squared(r, 50))
		}
		sum.Mod(sum, new(big.Int).Lsh(big.NewInt(1), 64))
		return fmt.Sprintf("records\t%d\nchecksum\t%s\n", len(records), sum)
	}
	files := hardFiles()
	appTest{app: "cpuactivity", params: mapreduce.Params{"iterations": "50"}, files: files, want: want(textLines(files))}.run(t)
	var made []string
	for task := range 4 {
		for i := range 30 {
			made = append(made, fmt.Sprintf("%d/%d", task, i))
		}
	}
	appTest{app: "cpuload", params: mapreduce.Params{"iterations": "50", "maps": "4", "records": "30"}, want: want(made)}.run(t)
}

func TestTextWriter(t *testing.T) {
	const size = 20_000
	write := func(seed string) string {
		dir := t.TempDir()
		o := mapreduce.Options{Output: dir + "/out"}
		runVariant(t, appTest{app: "textwriter", params: mapreduce.Params{"maps": "3", "bytes": strconv.Itoa(size), "seed": seed}}, variant{}, o)
		return output(t, o.Output)
	}
	text := write("1")
	if n := len(text); n < 3*size || n > 3*(size+1200) {
		t.Errorf("%d bytes, want %d or little more", n, 3*size)
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	seen := map[string]bool{}
	for _, l := range lines {
		key, value, ok := strings.Cut(l, "\t")
		k, v := len(strings.Fields(key)), len(strings.Fields(value))
		if !ok || k < 5 || k > 10 || v < 10 || v > 100 {
			t.Fatalf("a line of %d and %d words: %q", k, v, l)
		}
		if seen[l] {
			t.Errorf("a line occurs twice: tasks write the same")
		}
		seen[l] = true
	}
	if write("1") != text {
		t.Error("the same seed gives another text")
	}
	if write("2") == text {
		t.Error("another seed gives the same text")
	}
	appTest{app: "textwriter", params: mapreduce.Params{"maps": "3", "bytes": strconv.Itoa(size)}, want: text, ordered: true}.run(t)
	if !bytes.Contains([]byte(text), []byte(madeUpWords(1)[0])) {
		t.Error("the most likely word is missing")
	}
}

// TestCancel starts jobs that would take hours and gives them up.
func TestCancel(t *testing.T) {
	server := webServer(t)
	for name, c := range map[string]struct {
		params mapreduce.Params
		files  map[string]string
	}{
		"pi":         {mapreduce.Params{"maps": "2", "samples": "1000000000000"}, nil},
		"cpuload":    {mapreduce.Params{"maps": "2", "records": "1000000000000"}, nil},
		"textwriter": {mapreduce.Params{"maps": "2", "bytes": "1000000000000"}, nil},
		"urlget":     {mapreduce.Params{"timeout": "10h"}, map[string]string{"urls": server.URL + "/slow\n"}},
		"urltodisk":  {mapreduce.Params{"timeout": "10h", "dir": t.TempDir()}, map[string]string{"urls": server.URL + "/slow\n"}},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		dir := t.TempDir()
		app, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		_, err = mapreduce.RunApp(ctx, app, c.params, mapreduce.Options{Inputs: writeFiles(t, dir, c.files), Output: filepath.Join(dir, "out")})
		if err == nil || ctx.Err() == nil {
			t.Errorf("%s: ended with %v", name, err)
		}
		if took := time.Since(begin); took > 4*time.Minute {
			t.Errorf("%s: it took %v to stop", name, took)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "*out*")); len(left) > 0 {
			t.Errorf("%s: left %v", name, left)
		}
	}
}
