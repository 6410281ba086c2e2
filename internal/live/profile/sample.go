package profile

import (
	"math"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/mapreduce"
)

// sample holds the counts of one run of a job. Sizes are in bytes.
type sample struct {
	name              string // of the job
	maps, reduces     int
	read, readRecords int64 // by the maps
	emitted, records  int64 // by the map function
	left              int64 // of the emitted bytes, read by the reduces
	written           int64 // by the reduces
	outRecords        int64 // of the reduces, or of the maps of a job without
	mapCPU, reduceCPU time.Duration
	bareCPU           time.Duration // 0 if not measured
	plan              time.Duration // before the job was submitted
	beside            float64       // CPU of the process divided by the CPU of its tasks
}

// newSample reads the counters of a result.
func newSample(r *mapreduce.Result) sample {
	c := r.Counters
	ms := func(name string) time.Duration { return time.Duration(c[name]) * time.Millisecond }
	s := sample{
		maps: r.Maps, reduces: r.Reduces, read: c["map.input_bytes"], readRecords: c["map.input_records"],
		emitted: c["map.output_bytes"], records: c["map.output_records"],
		left: c["reduce.input_bytes"], written: c["reduce.file_bytes"], outRecords: c["reduce.output_records"],
		mapCPU: ms("map.cpu_ms"), reduceCPU: ms("reduce.cpu_ms"), beside: 1,
	}
	if r.Reduces == 0 {
		s.left, s.outRecords = c["map.file_bytes"], s.records
	}
	if s.emitted == 0 { // a fold counts no bytes
		s.emitted = s.left
	}
	return s
}

// numbers lists the fields of a profile that are ratios of bytes, with their
// value in a sample.
var numbers = []struct {
	of    func(*workload.Profile) *float64
	value func(*sample) float64
}{
	{func(p *workload.Profile) *float64 { return &p.Plan }, func(s *sample) float64 { return s.plan.Seconds() }},
	{func(p *workload.Profile) *float64 { return &p.MapSelectivity }, func(s *sample) float64 { return over(s.emitted, s.read) }},
	{func(p *workload.Profile) *float64 { return &p.CombinerRatio }, func(s *sample) float64 { return over(s.left, s.emitted) }},
	{func(p *workload.Profile) *float64 { return &p.Split }, func(s *sample) float64 { return over(s.read, int64(s.maps)) }},
	{func(p *workload.Profile) *float64 { return &p.ReduceSelectivity }, func(s *sample) float64 { return over(s.written, s.left) }},
	{func(p *workload.Profile) *float64 { return &p.InputRecord }, func(s *sample) float64 { return over(s.read, s.readRecords) }},
	{func(p *workload.Profile) *float64 { return &p.MapRecord }, func(s *sample) float64 { return over(s.emitted, s.records) }},
	{func(p *workload.Profile) *float64 { return &p.OutputRecord }, func(s *sample) float64 { return over(s.written, s.outRecords) }},
}

// group holds the samples of equal runs: with the same inputs and the same
// split size.
type group struct {
	fine    bool // splits smaller than asked for
	samples []sample
}

// profileOf makes a profile from the groups of a job. Ratios are medians over
// the runs with the requested splits; costs are fitted to the medians of all
// groups.
func profileOf(groups []group) (p workload.Profile) {
	var coarse []sample
	for _, g := range groups {
		if !g.fine {
			coarse = append(coarse, g.samples...)
		}
	}
	// Only of the requested splits: a combiner folds less in a smaller map, so the fine runs have other ratios.
	for _, n := range numbers {
		*n.of(&p) = middle(coarse, n.value)
	}
	p.CombinerDecay = decay(groups)
	mapCosts(&p, groups)
	reduceCosts(&p, groups)
	return p
}

// mapCosts fits the time of a map of x MB by start + rate·x, for whole maps and
// for bare ones. The difference of the rates is the cost of sorting.
func mapCosts(p *workload.Profile, groups []group) {
	line := func(cpu func(*sample) time.Duration) (start, rate float64) {
		var points []point
		for _, g := range groups {
			x := middle(g.samples, func(s *sample) float64 { return over(s.read, int64(s.maps)) / 1e6 })
			points = append(points, point{[]float64{1, x}, middle(g.samples, func(s *sample) float64 {
				return cpu(s).Seconds() * s.beside / float64(max(1, s.maps))
			})})
		}
		// In the order of preference: a rate alone, with a start, and a start alone, which says
		// that the size does not matter.
		c := fit(points, [][]int{{1}, {0, 1}, {0}})
		if len(c) == 0 {
			return 0, 0
		}
		return c[0], c[1]
	}
	start, whole := line(func(s *sample) time.Duration { return s.mapCPU })
	_, bare := line(func(s *sample) time.Duration { return s.bareCPU })
	p.MapStart, p.MapCPU = start, whole
	// bare is 0 if it was not measured, and then all of the maps' time counts as the map function's.
	if bare > 0 && p.MapSelectivity > 0 {
		// The two fits have their own errors. A negative cost of sorting would make the simulator run backwards.
		p.MapCPU = min(bare, whole)
		p.SortCPU = (whole - p.MapCPU) / p.MapSelectivity
	}
}

// reduceCosts fits the time of a reduce of y MB from n maps by
// start + y·(rate + merge·MergeDepth(n)).
func reduceCosts(p *workload.Profile, groups []group) {
	var points []point
	for _, g := range groups {
		y := middle(g.samples, func(s *sample) float64 { return over(s.left, int64(s.reduces)) / 1e6 })
		depth := middle(g.samples, func(s *sample) float64 { return workload.MergeDepth(s.maps) })
		points = append(points, point{[]float64{1, y, y * depth}, middle(g.samples, func(s *sample) float64 {
			return s.reduceCPU.Seconds() * s.beside / float64(max(1, s.reduces))
		})})
	}
	// The order decides between fits that are equally good: first few terms, then a merge before a start.
	if c := fit(points, [][]int{{1}, {1, 2}, {0, 1}, {2}, {0, 2}, {0}, {0, 1, 2}}); len(c) > 0 {
		p.ReduceStart, p.ReduceCPU, p.MergeCPU = c[0], c[1], c[2]
	}
}

// decay returns the exponent by which the combiner's ratio falls with the size
// of a map: the negative slope of log(ratio) over log(size).
func decay(groups []group) float64 {
	var n, sx, sy, sxx, sxy float64
	for _, g := range groups {
		x := middle(g.samples, func(s *sample) float64 { return over(s.read, int64(s.maps)) })
		r := middle(g.samples, func(s *sample) float64 { return over(s.left, s.emitted) })
		if x <= 0 || r <= 0 {
			continue
		}
		lx, ly := math.Log(x), math.Log(r)
		n, sx, sy, sxx, sxy = n+1, sx+lx, sy+ly, sxx+lx*lx, sxy+lx*ly
	}
	spread := n*sxx - sx*sx
	if n == 0 || spread < 1e-6*n*n { // all of about one size
		return 0
	}
	// The least squares of a line through the points (log size, log ratio).
	d := -(n*sxy - sx*sy) / spread
	if d < 1e-3 {
		return 0 // too small to be more than the effect of cut splits
	}
	return d
}

// middle returns the median of a value over the samples. A mean would be
// dominated by the largest run.
func middle(samples []sample, value func(*sample) float64) float64 {
	if len(samples) == 0 {
		return 0
	}
	values := make([]float64, len(samples))
	for i := range samples {
		values[i] = value(&samples[i])
	}
	slices.Sort(values)
	m := len(values) / 2
	if len(values)%2 == 1 {
		return values[m]
	}
	return (values[m-1] + values[m]) / 2
}

// over returns a/b, or 0 if b is 0.
func over(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}
