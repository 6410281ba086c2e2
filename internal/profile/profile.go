// Package profile measures what an app costs, for the simulator: it runs the
// app on this machine as any other job is run and makes a workload.Profile of
// what its tasks counted.
//
// Two kinds of runs give two kinds of numbers:
//
//	whole   the job as it is: CPU of maps and of reduces, bytes and records at
//	        each step
//	bare    the maps alone, with what they emit thrown away: CPU of reading and
//	        of the map function, and what it emits before anything is folded
//
// The CPU of the whole's maps less that of the bare ones is that of sorting,
// folding, combining, spilling and merging. What the process uses beside its
// tasks (collecting garbage, most of all) is spread over them.
//
// Costs are processor time, not slot time, so that a machine with other work
// does not spoil them by more than the caches that it takes away. Each number is
// the median over the runs.
package profile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/slotwise/slotwise/internal/workload"
	"github.com/slotwise/slotwise/mapreduce"
)

// Options say what to measure on.
type Options struct {
	// Sizes are sets of inputs, each of which is measured; the profile is the
	// median over the runs on all of them.
	Sizes [][]string
	// Runs is how often each set is run after a first run that does not count;
	// 3 if 0.
	Runs int
	// Job are the options that all runs have; inputs and output are ours to set.
	// SplitSize should be what later jobs will have: what a fold or a combiner
	// leaves depends on it.
	Job mapreduce.Options
	// Done, if set, is called after each run with how many are done, of all.
	Done func(done, all int)
}

// ErrNoInput says that an app has no cost by the byte.
var ErrNoInput = errors.New("it reads no input, so it has no cost for each MB of it")

const defaultRuns = 3

// Measure runs an app and returns its profile; that of a chain has one for each
// of its jobs, by their names.
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
	m := &measurement{app: app, params: params, o: o, out: filepath.Join(temp, "out"), all: len(o.Sizes) * (o.Runs + 1)}
	for _, inputs := range o.Sizes {
		for run := range o.Runs + 1 {
			if err := m.round(ctx, inputs, run > 0); err != nil {
				return nil, err
			}
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
	samples   map[string][]sample
	bytes     int64 // of input, of all runs that count
}

// round runs the app once, whole and bare.
func (m *measurement) round(ctx context.Context, inputs []string, counts bool) error {
	o := m.o.Job
	o.Inputs, o.Output, o.Overwrite = inputs, m.out, true
	before := processCPU()
	results, err := mapreduce.RunApp(ctx, m.app, m.params, o)
	used := processCPU() - before
	if err != nil {
		return err
	}
	var list []sample
	var tasks time.Duration
	for _, r := range results {
		s := newSample(r)
		tasks += s.mapCPU + s.reduceCPU
		list = append(list, s)
	}
	if m.app.Chain == nil && results[0].Reduces > 0 {
		if err := m.bare(ctx, o, &list[0]); err != nil {
			return err
		}
	}
	for i := range list {
		if tasks > 0 && used > tasks {
			list[i].beside = used.Seconds() / tasks.Seconds()
		}
		if counts {
			m.add(results[i].Job, list[i])
		}
	}
	m.done++
	if m.o.Done != nil {
		m.o.Done(m.done, m.all)
	}
	return nil
}

// add keeps a sample of the job called name.
func (m *measurement) add(name string, s sample) {
	if m.samples == nil {
		m.samples = make(map[string][]sample)
	}
	if m.samples[name] == nil {
		m.names = append(m.names, name)
	}
	m.samples[name] = append(m.samples[name], s)
	m.bytes += s.read
}

// profiles makes a profile of each job's samples. The only job of an app has
// the app's name.
func (m *measurement) profiles() []workload.Profile {
	var out []workload.Profile
	for _, name := range m.names {
		p := median(m.samples[name])
		p.App = name
		if m.app.Chain == nil {
			p.App = m.app.Name
		}
		n := len(m.samples[name])
		p.Source = fmt.Sprintf("measured: median of %d runs, %.1f MB of input in the mean, %d maps", n,
			float64(m.bytes)/1e6/float64(max(1, n)), m.samples[name][n-1].maps)
		out = append(out, p)
	}
	return out
}
