// Package profile measures what an app costs, for the simulator: it runs the
// app on this machine as any other job is run and makes a workload.Profile of
// what its tasks counted.
//
// Two kinds of runs give two kinds of numbers:
//
//	whole   the unchanged job: CPU of maps and of reduces, bytes and records at
//	        each step
//	bare    the maps alone, with their output discarded: CPU of reading and of
//	        the map function, and the emitted bytes before any folding
//
// The CPU of the whole's maps minus the CPU of the bare maps is the cost of
// sorting, folding, combining, spilling and merging. The process also uses CPU
// outside its tasks, mostly for garbage collection; it is distributed over them.
//
// Each run is made with the requested split size and with a finer one. A cost that
// changes although the bytes are the same is paid for each task, or for each
// comparison in a merge of more runs. The time of a map of x MB, and the time of a
// reduce of y MB from n maps, are fitted by
//
//	map     start + x·cpu
//	reduce  start + y·(cpu + merge·log₂ n)
//
// with the least squares of relative errors and no term below zero.
//
// Costs are processor time, not slot time, so that other work on the machine
// affects them only through the caches. Each number is the median over the runs.
package profile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/mapreduce"
)

// Options configures a measurement.
type Options struct {
	// Sizes are sets of inputs. Each set is measured, and the profile is the
	// median over all runs.
	Sizes [][]string
	// Runs is the number of runs on each set, after a first run that only warms
	// up; 0 means 3.
	Runs int
	// Job holds the options of all runs; Measure sets inputs and output.
	// SplitSize should equal the split size of later jobs, because the effect of a fold or
	// a combiner depends on it.
	Job mapreduce.Options
	// Done, if set, is called after each run with the number of finished runs
	// and of all runs.
	Done func(done, all int)
}

// ErrNoInput means that an app reads no input and so has no cost per byte.
var ErrNoInput = errors.New("it reads no input, so it has no cost for each MB of it")

// ErrEmpty means that the input has no bytes.
var ErrEmpty = errors.New("the input is empty: there is nothing to measure on")

const defaultRuns = 3

// Measure runs an app several times and returns its profile. A chain of jobs
// gives one profile for each job, under the job's name.
func Measure(ctx context.Context, app *mapreduce.App, params mapreduce.Params, o Options) (_ []workload.Profile, err error) {
	if app.Reads == "" {
		return nil, fmt.Errorf("%s: %w", app.Name, ErrNoInput)
	}
	if len(o.Sizes) == 0 {
		return nil, errors.New("no input is given")
	}
	if o.Runs == 0 {
		o.Runs = defaultRuns
	}
	temp, err := os.MkdirTemp(o.Job.Cluster.TempDir, "slotwise-profile-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	// For each input one run to warm up, and each other run with two sizes of splits.
	m := &measurement{app: app, params: params, o: o, out: filepath.Join(temp, "out"), all: len(o.Sizes) * (2*o.Runs + 1)}
	for _, inputs := range o.Sizes {
		if err := m.set(ctx, inputs); err != nil {
			return nil, err
		}
	}
	return m.profiles(), nil
}

// measurement collects the samples of the runs of an app.
type measurement struct {
	app       *mapreduce.App
	params    mapreduce.Params
	o         Options
	out       string
	done, all int
	names     []string // of the jobs, in the order in which they first ended
	groups    map[string][]group
	bytes     int64 // of input, of all runs that count
}

// finer is the number of pieces that fine runs make of a split. Costs per task,
// and per comparison in a merge, show only if the number of tasks changes while
// the bytes do not.
const finer = 4

// set runs the app on a set of inputs: once to warm up, then alternately with
// the requested splits and with fine ones.
func (m *measurement) set(ctx context.Context, inputs []string) error {
	size := m.o.Job.SplitSize
	// The first round reads the files into the page cache and is not counted: the simulator adds the time of
	// disks itself.
	list, err := m.round(ctx, inputs, size)
	if err != nil {
		return err
	}
	fine := size / finer
	// No size was requested, so the fine splits follow from the size that the warm-up had.
	if size == 0 {
		fine = list[0].read / int64(max(1, list[0].maps)) / finer
	}
	for _, s := range list {
		m.open(s.name)
	}
	// Alternately, so that a machine that gets slower during the measurement affects both sizes alike.
	for range m.o.Runs {
		for at, size := range []int64{size, max(1, fine)} {
			list, err := m.round(ctx, inputs, size)
			if err != nil {
				return err
			}
			for _, s := range list {
				m.add(s, at == 1)
			}
		}
	}
	return nil
}

// round runs the app once, whole and bare, with splits of a size.
func (m *measurement) round(ctx context.Context, inputs []string, split int64) ([]sample, error) {
	o := m.o.Job
	o.Inputs, o.Output, o.Overwrite, o.SplitSize = inputs, m.out, true, split
	before, used := processCPU(), time.Duration(0)
	// Closing the cluster is not part of the job, so the last reading is taken
	// when the last job ends.
	o.Progress = func(mapreduce.Progress) { used = processCPU() - before }
	results, err := mapreduce.RunApp(ctx, m.app, m.params, o)
	if err != nil {
		return nil, err
	}
	var list []sample
	var tasks, planned, ended time.Duration
	for _, r := range results {
		s := newSample(r)
		// The time from the end of the step before. Planning reads sizes and block locations, and no slot is in use
		// meanwhile.
		s.name, s.plan = r.Job, max(0, r.Submitted-ended)
		ended = r.Ended
		tasks += s.mapCPU + s.reduceCPU
		planned += s.plan
		list = append(list, s)
	}
	if list[0].maps == 0 || list[0].read == 0 {
		return nil, ErrEmpty
	}
	// The input of a chain's later steps is gone when the chain has ended. Without reduces nothing is sorted, so
	// the whole run is a bare one.
	if m.app.Chain == nil && results[0].Reduces > 0 {
		if err := m.bare(ctx, o, &list[0]); err != nil {
			return nil, err
		}
	}
	for i := range list {
		if tasks > 0 {
			// What the process used beyond its tasks, such as the collector, is spread over them in
			// proportion.
			// Never below 1: the process's time includes its tasks', so less is an error of measurement.
			list[i].beside = max(1, (used-planned).Seconds()/tasks.Seconds())
		}
	}
	m.done++
	if m.o.Done != nil {
		m.o.Done(m.done, m.all)
	}
	return list, nil
}

// open begins two groups of samples of a job: one for the requested splits, one
// for fine ones.
func (m *measurement) open(name string) {
	if m.groups == nil {
		m.groups = make(map[string][]group)
	}
	if m.groups[name] == nil {
		m.names = append(m.names, name)
	}
	m.groups[name] = append(m.groups[name], group{}, group{fine: true})
}

// add adds a sample to the last group of its kind.
func (m *measurement) add(s sample, fine bool) {
	list := m.groups[s.name]
	if len(list) == 0 { // a job that the first run did not have
		m.open(s.name)
		list = m.groups[s.name]
	}
	// open has added the two groups of this set last.
	at := len(list) - 2
	if fine {
		at++
	} else {
		m.bytes += s.read
	}
	list[at].samples = append(list[at].samples, s)
}

// profiles makes a profile from each job's samples. The only job of an app gets
// the app's name.
func (m *measurement) profiles() []workload.Profile {
	var out []workload.Profile
	for _, name := range m.names {
		p := profileOf(m.groups[name])
		p.App = name
		if m.app.Chain == nil {
			p.App = m.app.Name
		}
		runs, maps := 0, 0
		for _, g := range m.groups[name] {
			if n := len(g.samples); n > 0 && !g.fine {
				runs += n
				maps = g.samples[n-1].maps
			}
		}
		p.Source = fmt.Sprintf("measured: median of %d runs, %.1f MB of input in the mean, %d maps; as many with splits of a quarter", runs,
			float64(m.bytes)/1e6/float64(max(1, runs)), maps)
		out = append(out, p)
	}
	return out
}
