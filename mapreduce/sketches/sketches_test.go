package sketches_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/mapreduce/mrtest"
	"github.com/slotwise/slotwise/mapreduce/sketches"
)

// distinctJob counts the distinct second words of lines for each first word.
func distinctJob() *mapreduce.Job {
	d := sketches.Distinct[string]{Key: mapreduce.StringCode}
	return &mapreduce.Job{
		Name: "distinct", Input: mapreduce.KeyValue, Combiner: d.Combiner(),
		Mapper: d.Mapper(func(key, value []byte, out *mapreduce.TypedEmitter[string, []byte]) error {
			out.Put(string(key), value)
			return nil
		}),
		Reducer: d.Reducer(func(key string, n uint64, out *mapreduce.Emitter) error {
			out.Emit([]byte(key), strconv.AppendUint(nil, n, 10))
			return nil
		}),
	}
}

// Counts of known sets are within the stated error, also when sets of several maps overlap, and
// the same through the combiner, which mrtest compares.
func TestDistinct(t *testing.T) {
	sizes := []int{1, 2, 100, 3000, 5000, 20000}
	var text strings.Builder
	for _, n := range sizes {
		for i := range n + n/3 { // a third of the elements twice
			fmt.Fprintf(&text, "%d\telement %d of %d\n", n, i%n, n)
		}
	}
	out, err := mrtest.Run(distinctJob(), map[string][]byte{"f": []byte(text.String())})
	if err != nil {
		t.Fatal(err)
	}
	var squares float64
	for _, r := range out {
		want, _ := strconv.ParseFloat(string(r.Key), 64)
		got, _ := strconv.ParseFloat(string(r.Value), 64)
		off := got/want - 1
		if squares += off * off; math.Abs(off) > 3*sketches.DistinctError || want <= 3000 && math.Abs(off) > 0.001 {
			t.Errorf("%v elements count as %v", want, got)
		}
	}
	if rms := math.Sqrt(squares / float64(len(sizes))); len(out) != len(sizes) || rms > 1.5*sketches.DistinctError {
		t.Errorf("%d counts, with a standard error of %v", len(out), rms)
	}
}

// quantileJob prints quantiles of the numbers of each key.
func quantileJob(relative float64) *mapreduce.Job {
	q := sketches.Quantiles[string]{Key: mapreduce.StringCode, Error: relative}
	return &mapreduce.Job{
		Name: "quantiles", Input: mapreduce.KeyValue, Combiner: q.Combiner(),
		Mapper: q.Mapper(func(key, value []byte, out *mapreduce.TypedEmitter[string, float64]) error {
			x, err := strconv.ParseFloat(string(value), 64)
			out.Put(string(key), x)
			return err
		}),
		Reducer: q.Reducer(func(key string, s sketches.Summary, out *mapreduce.Emitter) error {
			line := fmt.Appendf(nil, "%d", s.Count())
			for _, share := range shares {
				line = fmt.Appendf(line, " %v", s.Quantile(share))
			}
			out.Emit([]byte(key), line)
			return nil
		}),
	}
}

var shares = []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999, 1}

// Quantiles of numbers that are spread in several ways are within the stated error of the exact
// ones.
func TestQuantiles(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	numbers := map[string]func(i int) float64{
		"even":     func(i int) float64 { return float64(i) - 1000 },
		"same":     func(int) float64 { return 42 },
		"heavy":    func(int) float64 { return math.Pow(1-r.Float64(), -2) },
		"normal":   func(int) float64 { return r.NormFloat64() },
		"sorted":   func(i int) float64 { return math.Exp(float64(i) / 500) },
		"zeros":    func(i int) float64 { return float64(i % 2 * i) },
		"negative": func(int) float64 { return -math.Exp(r.NormFloat64()) },
	}
	for _, relative := range []float64{0.05, 0.01, 0.001} {
		exact := map[string][]float64{}
		var text strings.Builder
		for name, draw := range numbers {
			for i := range 1500 {
				x := draw(i)
				exact[name] = append(exact[name], x)
				fmt.Fprintf(&text, "%s\t%v\n", name, x)
			}
			slices.Sort(exact[name])
		}
		out, err := mrtest.Run(quantileJob(relative), map[string][]byte{"f": []byte(text.String())})
		if err != nil || len(out) != len(numbers) {
			t.Fatal(len(out), err)
		}
		for _, record := range out {
			sorted, got := exact[string(record.Key)], strings.Fields(string(record.Value))
			if got[0] != "1500" {
				t.Errorf("%s: %s numbers", record.Key, got[0])
			}
			for i, share := range shares {
				// A rank between two numbers may mean either.
				rank := share * float64(len(sorted)-1)
				x, err := strconv.ParseFloat(got[i+1], 64)
				near := func(want float64) bool { return math.Abs(x-want) <= relative*math.Abs(want)*(1+1e-9) }
				if low, high := sorted[int(rank)], sorted[int(math.Ceil(rank))]; err != nil || !near(low) && !near(high) {
					t.Errorf("%s: quantile %v is %v, exactly %v or %v, the error %v is allowed", record.Key, share, x, low, high, relative)
				}
			}
		}
	}
}

// Numbers and errors that no sketch can have fail the job.
func TestQuantilesErrors(t *testing.T) {
	for _, c := range []struct {
		relative float64
		text     string
		want     string
	}{{0.7, "a\t1\n", "Quantiles.Error is 0.7"}, {0, "a\tNaN\n", "NaN has no place in quantiles"}, {0, "a\t+Inf\n", "+Inf has no place"}} {
		if _, err := mrtest.Run(quantileJob(c.relative), map[string][]byte{"f": []byte(c.text)}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// Values that no mapper of the job has made are errors.
func TestForeignValues(t *testing.T) {
	for _, job := range []*mapreduce.Job{distinctJob(), quantileJob(0)} {
		job.Mapper = mapreduce.IdentityMapper
		for _, text := range []string{"a\t", "a\thello", "a\t\x01hello", "a\t\x01"} {
			if out, err := mrtest.Run(job, map[string][]byte{"f": []byte(text)}); err == nil {
				t.Errorf("%s of %q: %q", job.Name, text, mrtest.Text(out))
			}
		}
	}
}
