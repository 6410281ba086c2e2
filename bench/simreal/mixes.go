package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/slotwise/slotwise/apps"
	"github.com/slotwise/slotwise/internal/generate"
	"github.com/slotwise/slotwise/internal/profile"
	"github.com/slotwise/slotwise/internal/workload"
	"github.com/slotwise/slotwise/mapreduce"
)

const (
	mib = 1 << 20
	// splitSize is that of all runs: tasks of some 10 to 300 ms.
	splitSize = 8 * mib
	// reduces is how many each job has: fewer, longer ones would hide errors.
	reduces = 2
	// profileSize is the input of which profiles are measured, in MiB; once in
	// full, once half of it.
	profileSize = 128
)

// program is an app with parameters, under a name of ours.
type program struct {
	name, app string
	params    mapreduce.Params
	kind      string // of input
	size      int    // MiB of input to profile, profileSize if 0
}

// programs are what mixes are made of. They differ in what they weigh on: maps,
// sorting, reduces, output.
var programs = []program{
	{name: "wordcount", app: "wordcount", kind: "text"},
	{name: "sort", app: "sort", kind: "text"},
	{name: "terasort", app: "terasort", kind: "records"},
	{name: "grep", app: "grep", params: mapreduce.Params{"regex": "e.*r.*x"}, kind: "text"},
	{name: "ratings", app: "histogramratings", kind: "movies"},
	{name: "index", app: "invertedindex", kind: "documents", size: 48},
}

// entry is a job of a mix.
type entry struct {
	program string
	size    int // MiB of input
	at      time.Duration
	pool    string
}

// mix is jobs under a policy.
type mix struct {
	name, policy string
	jobs         []entry
	alone        bool // each job by itself, when the one before has ended
}

// quarter of a second is what the mixes' times are counted in.
const quarter = 250 * time.Millisecond

var staggered = []entry{
	{"wordcount", 384, 0, "a"},
	{"sort", 192, quarter, "b"},
	{"grep", 384, 2 * quarter, "a"},
	{"index", 48, 3 * quarter, "c"},
	{"wordcount", 96, 4 * quarter, "b"},
	{"terasort", 128, 5 * quarter, "c"},
	{"ratings", 384, 6 * quarter, "a"},
	{"sort", 64, 8 * quarter, "b"},
	{"grep", 128, 10 * quarter, "c"},
	{"index", 24, 12 * quarter, "a"},
}

var mixes = []mix{
	{name: "each alone", policy: "fifo", jobs: apart(staggered[:8]), alone: true},
	{name: "first come, first served", policy: "fifo", jobs: staggered},
	{name: "shared fairly", policy: "fair", jobs: staggered},
	{name: "slots lent", policy: "tumm", jobs: staggered},
	{name: "all at once", policy: "fair", jobs: together(staggered)},
}

// apart has no job wait for the time of another.
func apart(list []entry) []entry {
	out := append([]entry(nil), list...)
	for i := range out {
		out[i].at = 0
	}
	return out
}

// together submits all jobs at the start, one soon after the other so that their
// order is no matter of chance.
func together(list []entry) []entry {
	out := append([]entry(nil), list...)
	for i := range out {
		out[i].at = time.Duration(i) * 25 * time.Millisecond
	}
	return out
}

// input is the directory of an input, one for each kind and size. Jobs of the
// mixes have others than profiles.
func (s *settings) input(kind string, size int, forProfile bool) string {
	use := "mix"
	if forProfile {
		use = "profile"
	}
	return filepath.Join(s.data, fmt.Sprintf("%s-%s-%d", use, kind, s.bytes(size)))
}

// bytes is a size in MiB at our scale.
func (s *settings) bytes(size int) int64 { return int64(s.scale * float64(size) * mib) }

// makeInputs makes all that is not there yet.
func (s *settings) makeInputs(ctx context.Context) error {
	for i := range programs {
		p := &programs[i]
		for _, size := range p.sizes() {
			if err := s.makeInput(ctx, p.kind, size, true); err != nil {
				return err
			}
		}
		for _, m := range mixes {
			for _, e := range m.jobs {
				if e.program != p.name {
					continue
				}
				if err := s.makeInput(ctx, p.kind, e.size, false); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// sizes are those of the inputs to profile.
func (p *program) sizes() []int {
	size := profileSize
	if p.size > 0 {
		size = p.size
	}
	return []int{size, size / 2}
}

func (s *settings) makeInput(ctx context.Context, kind string, size int, forProfile bool) error {
	dir := s.input(kind, size, forProfile)
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	k, ok := generate.Lookup(kind)
	if !ok {
		return fmt.Errorf("no inputs of kind %s", kind)
	}
	o := generate.Options{Size: s.bytes(size), Seed: uint64(size), Dir: dir}
	if forProfile {
		o.Seed += 1000
	}
	if kind == "documents" {
		// Files as large as splits, so that a file is not a task.
		o.Params = map[string]string{"files": fmt.Sprint(max(1, o.Size/splitSize))}
	}
	fmt.Fprintf(s.log, "input %s\n", dir)
	return k.Run(ctx, o)
}

// cluster is what all real runs have.
func (s *settings) cluster() mapreduce.ClusterOptions {
	return mapreduce.ClusterOptions{Workers: s.workers, TempDir: s.data}
}

// profile measures a program, again if the machine was not quiet.
func (s *settings) profile(ctx context.Context, p *program) (workload.Profile, error) {
	app, err := apps.Lookup(p.app)
	if err != nil {
		return workload.Profile{}, err
	}
	o := profile.Options{Runs: s.rounds, Job: mapreduce.Options{Cluster: s.cluster(), SplitSize: splitSize, Reduces: reduces}}
	for _, size := range p.sizes() {
		o.Sizes = append(o.Sizes, []string{s.input(p.kind, size, true)})
	}
	var best workload.Profile
	had := -1.
	for try := 0; try < s.tries && had < s.quiet; try++ {
		c := startClock()
		list, err := profile.Measure(ctx, app, p.params, o)
		c.stop()
		if err != nil {
			return best, err
		}
		if x := c.had(); x > had {
			had, best = x, list[0]
		}
	}
	fmt.Fprintf(s.log, "profile of %s: had %.1f %% of the time\n", p.name, 100*had)
	best.App = p.name
	return best, nil
}
