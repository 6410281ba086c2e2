package profile

import (
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/workload"
	"github.com/slotwise/slotwise/mapreduce"
)

// sample is what one run of a job says. Sizes are in bytes.
type sample struct {
	maps              int
	read, readRecords int64 // by the maps
	emitted, records  int64 // by the map function
	left              int64 // of that, for the reduces
	written           int64 // by the reduces
	outRecords        int64
	mapCPU, reduceCPU time.Duration
	bareCPU           time.Duration // 0 if not measured
	beside            float64       // CPU of the process over that of its tasks
}

// newSample reads a result's counters.
func newSample(r *mapreduce.Result) sample {
	c := r.Counters
	ms := func(name string) time.Duration { return time.Duration(c[name]) * time.Millisecond }
	s := sample{
		maps: r.Maps, read: c["map.input_bytes"], readRecords: c["map.input_records"],
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

// numbers are the fields of a profile by what a sample says of them.
var numbers = []struct {
	of    func(*workload.Profile) *float64
	value func(*sample) float64
}{
	{func(p *workload.Profile) *float64 { return &p.MapCPU }, func(s *sample) float64 {
		cpu := s.mapCPU
		if s.bareCPU > 0 {
			cpu = min(cpu, s.bareCPU)
		}
		return perMB(cpu, s.read) * s.beside
	}},
	{func(p *workload.Profile) *float64 { return &p.SortCPU }, func(s *sample) float64 {
		if s.bareCPU == 0 {
			return 0 // it is in the maps' CPU
		}
		return perMB(max(0, s.mapCPU-s.bareCPU), s.emitted) * s.beside
	}},
	{func(p *workload.Profile) *float64 { return &p.ReduceCPU }, func(s *sample) float64 {
		return perMB(s.reduceCPU, s.left) * s.beside
	}},
	{func(p *workload.Profile) *float64 { return &p.MapSelectivity }, func(s *sample) float64 { return over(s.emitted, s.read) }},
	{func(p *workload.Profile) *float64 { return &p.CombinerRatio }, func(s *sample) float64 { return over(s.left, s.emitted) }},
	{func(p *workload.Profile) *float64 { return &p.ReduceSelectivity }, func(s *sample) float64 { return over(s.written, s.left) }},
	{func(p *workload.Profile) *float64 { return &p.InputRecord }, func(s *sample) float64 { return over(s.read, s.readRecords) }},
	{func(p *workload.Profile) *float64 { return &p.MapRecord }, func(s *sample) float64 { return over(s.emitted, s.records) }},
	{func(p *workload.Profile) *float64 { return &p.OutputRecord }, func(s *sample) float64 { return over(s.written, s.outRecords) }},
}

// median makes a profile of which each number is the median over the samples,
// taken as a ratio in each: sums would be those of the largest run.
func median(samples []sample) (p workload.Profile) {
	for _, n := range numbers {
		values := make([]float64, len(samples))
		for i := range samples {
			values[i] = n.value(&samples[i])
		}
		slices.Sort(values)
		m := len(values) / 2
		if len(values)%2 == 1 {
			*n.of(&p) = values[m]
		} else {
			*n.of(&p) = (values[m-1] + values[m]) / 2
		}
	}
	return p
}

// perMB is seconds for each 10⁶ bytes; 0 of nothing.
func perMB(cpu time.Duration, bytes int64) float64 {
	if bytes == 0 {
		return 0
	}
	return cpu.Seconds() / (float64(bytes) / 1e6)
}

// over is a ratio, 0 of nothing.
func over(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}
