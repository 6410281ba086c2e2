package apps

import (
	"context"
	"fmt"
	"iter"
	"math/big"
	"math/bits"
	"strconv"

	"github.com/slotwise/slotwise/mapreduce"
)

// piEstimator estimates π by a quasi-Monte Carlo method, as PiEstimator of
// Hadoop's examples does: points of the two-dimensional Halton sequence (bases
// 2 and 3) fill the unit square evenly; the share of those inside the circle
// in it is near π/4.
//
//	parameters  maps: number of map tasks; samples: points of each
//	output      pi TAB estimate; inside TAB points; outside TAB points
//
// Task i takes the points from i·samples on, so the result depends on the
// number of points alone.
var piEstimator = &mapreduce.App{
	Name:    "pi",
	Summary: "estimates pi by counting points in a circle",
	Writes:  "pi TAB estimate",
	Small:   true,
	Params: []mapreduce.Param{
		{Name: "maps", Default: "10", Help: "number of map tasks"},
		{Name: "samples", Default: "1000000", Help: "points of each map task"},
	},
	Job: func(p mapreduce.Params) (*mapreduce.Job, error) {
		tasks, err := p.Int("maps", 1)
		if err != nil {
			return nil, err
		}
		samples, err := p.Int("samples", 1)
		if err != nil {
			return nil, err
		}
		return &mapreduce.Job{
			Name:      "pi",
			Synthetic: int(tasks),
			Mapper: func() mapreduce.Mapper {
				return mapreduce.MapperFunc(func(_, task []byte, out *mapreduce.Emitter) error {
					return countPoints(task, samples, out)
				})
			},
			Aggregate:   mapreduce.Sum,
			Partitioner: oneReduce,
			Reducer:     func() mapreduce.Reducer { return &piWriter{} },
			Reduces:     1,
		}, nil
	},
}

// threes is 3^40, the largest power of 3 that fits into 64 bits: what the
// fractions of base 3 are counted in.
const threes = 12157665459056928801

// halton walks the points of the Halton sequence. Coordinates are kept as
// integers, in units of 2^-64 and 3^-40, so that nothing is rounded on the way.
// third is the sum of digits[i] · 3^(39-i), which next keeps up to date by one addition or one subtraction
// for each digit that changes.
type halton struct {
	index  uint64
	third  uint64
	digits [40]uint8 // of index in base 3, least first
}

// newHalton returns the walk whose first point has this index.
func newHalton(index uint64) *halton {
	h := &halton{index: index}
	unit := uint64(threes)
	for i := range h.digits {
		unit /= 3
		h.digits[i] = uint8(index % 3)
		h.third += unit * (index % 3)
		index /= 3
	}
	return h
}

// point returns the coordinates of the point, both at least 0 and less than 1.
func (h *halton) point() (x, y float64) {
	return float64(bits.Reverse64(h.index)) / (1 << 64), float64(h.third) / threes
}

// next goes to the next point: one is added to the first digit, which is the
// most significant one of the mirrored number, and carried to the right. That
// takes one and a half steps on average.
func (h *halton) next() {
	h.index++
	unit := uint64(threes / 3)
	for i := range h.digits {
		if h.digits[i] < 2 {
			h.digits[i]++
			h.third += unit
			return
		}
		h.digits[i] = 0
		h.third -= 2 * unit
		unit /= 3
	}
}

// countPoints counts the points of one task.
func countPoints(task []byte, samples int64, out *mapreduce.Emitter) error {
	n, err := strconv.ParseUint(string(task), 10, 32)
	if err != nil {
		return fmt.Errorf("task %q has no number", task)
	}
	var inside int64
	// Each task begins where the one before it ends, so ten tasks of 100 points see the points of one task of
	// 1,000.
	h := newHalton(n*uint64(samples) + 1) // point 0 is the corner
	ctx := out.Task().Context()
	for i := range samples {
		// The context is looked at rarely, because a point takes a few nanoseconds.
		if i%(1<<20) == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		x, y := h.point()
		x, y = x-0.5, y-0.5
		// The conversions keep the product from being fused with the sum: a point on the circle must not be
		// inside on one processor and outside on another.
		if float64(x*x)+float64(y*y) <= 0.25 {
			inside++
		}
		h.next()
	}
	out.Add([]byte("inside"), inside)
	out.Add([]byte("outside"), samples-inside)
	return nil
}

// piWriter writes the estimate and the counts.
type piWriter struct{ inside, outside int64 }

// Reduce takes a count.
func (w *piWriter) Reduce(key []byte, values iter.Seq[[]byte], _ *mapreduce.Emitter) error {
	if string(key) == "inside" {
		w.inside = total(values)
	} else {
		w.outside = total(values)
	}
	return nil
}

// Finish writes the result; only the reduce that got the counts has one.
func (w *piWriter) Finish(out *mapreduce.Emitter) error {
	if w.inside+w.outside == 0 {
		return nil
	}
	// A fraction, because Hadoop's example prints 20 decimals and a float64 has 15.
	pi := big.NewRat(w.inside, w.inside+w.outside)
	pi.Mul(pi, big.NewRat(4, 1))
	write := func(name, value string) { out.Emit([]byte(name), []byte(value)) }
	write("pi", pi.FloatString(20))
	write("inside", strconv.FormatInt(w.inside, 10))
	write("outside", strconv.FormatInt(w.outside, 10))
	return nil
}
