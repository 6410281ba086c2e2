package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/slotwise/slotwise/apps"
	"github.com/slotwise/slotwise/internal/data/generate"
	"github.com/slotwise/slotwise/internal/live/profile"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/lab/harness"
	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
)

const (
	// splitSize is the split size of all runs in bytes. Tasks take about 10 to
	// 300 ms.
	splitSize = 8 * harness.MiB
	// reduces is the number of reduces of each job.
	reduces = 2
	// profileSize is the size in MiB of the input that cost profiles are measured
	// on. A second measurement uses half the size.
	profileSize = 128
)

// program is an app with parameters, under a name that mixes and profiles use.
type program struct {
	name, app string
	params    mapreduce.Params
	kind      string // of input
	size      int    // MiB of input to profile; 0 is profileSize
}

// programs are the jobs that mixes consist of. They differ in the phase that costs
// most: maps, sorting, reduces or output.
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
	size    int           // MiB of input
	at      time.Duration // submission, since the start of the mix
	pool    string
	memory  int64 // limit of a task in bytes; 0 is none
}

// mix is a set of jobs under a policy.
type mix struct {
	name, policy string
	set          map[string]string // the policy's parameters
	jobs         []entry
	alone        bool // submit each job when the one before has ended
	calibrates   bool // its jobs read the inputs of the profiles
}

// quarter of a second is the unit of the submission times.
const quarter = 250 * time.Millisecond

// staggered are ten jobs submitted over three seconds.
var staggered = []entry{
	{"wordcount", 384, 0, "a", 0},
	{"sort", 192, quarter, "b", 0},
	{"grep", 384, 2 * quarter, "a", 0},
	{"index", 48, 3 * quarter, "c", 0},
	{"wordcount", 96, 4 * quarter, "b", 0},
	{"terasort", 128, 5 * quarter, "c", 0},
	{"ratings", 384, 6 * quarter, "a", 0},
	{"sort", 64, 8 * quarter, "b", 0},
	{"grep", 128, 10 * quarter, "c", 0},
	{"index", 24, 12 * quarter, "a", 0},
}

// mixes are all mixes in the order of the report.
var mixes = []mix{
	{name: "each alone", policy: "fifo", jobs: apart(staggered[:8]), alone: true},
	{name: "first come, first served", policy: "fifo", jobs: staggered},
	{name: "shared fairly", policy: "fair", jobs: staggered},
	{name: "slots lent", policy: "tumm", jobs: staggered},
	{name: "all at once", policy: "fair", jobs: together(staggered)},
}

// The names of the mixes of the second part.
const (
	everyPolicy  = "every policy"
	memoryLimits = "memory limits"
)

// wideMixes returns the mixes of the second part: the jobs of staggered under every policy
// that the local shell runs, then the same jobs with memory limits under Hadoop's policies.
func wideMixes() (list []mix) {
	for _, name := range policies.Names() {
		p, err := policies.Build(name, sched.Options{Live: true})
		if err != nil {
			continue // a reference, which only a simulation can run
		}
		if _, chooses := p.(sched.Chooser); chooses {
			continue // it needs forecasts, which the local shell does not make
		}
		list = append(list, mix{name: everyPolicy, policy: name, set: quickLearning(name), jobs: staggered})
	}
	for _, name := range []string{"fifo", "fair", "capacity"} {
		list = append(list, mix{name: memoryLimits, policy: name, jobs: limited(staggered)})
	}
	return list
}

// quickLearning returns the parameters of a policy for runs of seconds: policies that learn
// judge a node by the share of its processors that is busy, because a load average over a
// minute means nothing here.
func quickLearning(policy string) map[string]string {
	if !learns(policy) {
		return nil
	}
	return map[string]string{"profile": "quick", "target": "0", "cpu-limit": "0.95", "max-tasks": "8"}
}

// learns reports whether a policy learns from the load of nodes.
func learns(policy string) bool { return strings.HasPrefix(policy, "learning-") }

// limited returns the entries with a memory limit for the tasks of every second one, so that
// such a task occupies two slots of wideShape.
func limited(list []entry) []entry {
	out := slices.Clone(list)
	for i := 0; i < len(out); i += 2 {
		out[i].memory = wideSlot * 3 / 2
	}
	return out
}

// apart returns the entries, all submitted at the start of a run of their own.
func apart(list []entry) []entry {
	out := append([]entry(nil), list...)
	for i := range out {
		out[i].at = 0
	}
	return out
}

// together returns the entries submitted 25 ms apart: almost at once, but in an
// order that does not depend on chance.
func together(list []entry) []entry {
	out := append([]entry(nil), list...)
	for i := range out {
		out[i].at = time.Duration(i) * 25 * time.Millisecond
	}
	return out
}

// input returns the directory of the input of a kind and a size in MiB. The inputs
// of mixes and of profiles differ.
func (s *settings) input(kind string, size int, forProfile bool) string {
	use := "mix"
	if forProfile {
		use = "profile"
	}
	return filepath.Join(s.data, fmt.Sprintf("%s-%s-%d", use, kind, s.bytes(size)))
}

// bytes converts a size in MiB to bytes and applies the -scale flag.
func (s *settings) bytes(size int) int64 { return int64(s.scale * float64(size) * harness.MiB) }

// makeInputs generates the inputs that do not exist yet.
func (s *settings) makeInputs(ctx context.Context) error {
	for i := range programs {
		p := &programs[i]
		for _, size := range p.sizes() {
			if err := s.makeInput(ctx, p.kind, size, true); err != nil {
				return err
			}
		}
		for _, m := range s.mixes() {
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

// sizes returns the sizes in MiB of the inputs that the program is profiled on.
func (p *program) sizes() []int {
	size := profileSize
	if p.size > 0 {
		size = p.size
	}
	return []int{size, size / 2}
}

// makeInput generates an input unless its directory exists.
func (s *settings) makeInput(ctx context.Context, kind string, size int, forProfile bool) error {
	dir := s.input(kind, size, forProfile)
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	k, ok := generate.Lookup(kind)
	if !ok {
		return fmt.Errorf("there is no generator for inputs of kind %s", kind)
	}
	o := generate.Options{Size: s.bytes(size), Seed: uint64(size), Dir: dir}
	if forProfile {
		o.Seed += 1000
	}
	if kind == "documents" {
		// Files of the size of a split. By default they would be smaller, and each
		// would be a task.
		o.Params = map[string]string{"files": fmt.Sprint(max(1, o.Size/splitSize))}
	}
	fmt.Fprintf(s.log, "input %s\n", dir)
	return k.Run(ctx, o)
}

// cluster returns the options of a real cluster.
func (s *settings) cluster(x shape) mapreduce.ClusterOptions {
	return mapreduce.ClusterOptions{Workers: x.workers, MapSlots: x.maps, ReduceSlots: x.reduces, Memory: x.memory, TempDir: s.data}
}

// calibration returns a mix of all programs at once, each on the larger input of its profile.
func calibration() *mix {
	m := &mix{name: "calibration", policy: policies.Default, calibrates: true}
	for i := range programs {
		m.jobs = append(m.jobs, entry{program: programs[i].name, size: programs[i].sizes()[0]})
	}
	return m
}

// measureContention measures by how much each program takes more processor time beside others than its
// profile says, which was measured with one app alone. It runs calibration twice in each round: every program
// alone, and all together. No judged mix reads these inputs.
//
// Let Tₐ be the processor time that app a's tasks count alone and Tₐ' the same beside others, and
// Oₐ and O what the process uses outside of its tasks, planning excepted. Work outside of tasks is mostly the
// collection of garbage. It is charged to the apps in proportion to their share of it alone, so the factor is
//
//	(Tₐ' + O·Oₐ/ΣO) / (Tₐ + Oₐ)
//
// and the median over the rounds counts.
func (s *settings) measureContention(ctx context.Context, profiles []workload.Profile) ([]float64, error) {
	m := calibration()
	real, jobs, err := s.jobs(ctx, m, profiles)
	if err != nil {
		return nil, err
	}
	factors := make([][]float64, len(programs))
	for range s.rounds {
		alone := make([]usage, len(programs))
		for i := range programs {
			x, err := s.runJobs(ctx, m, real[i:i+1], jobs[i:i+1])
			if err != nil {
				return nil, err
			}
			alone[i] = usageOf(&x, jobs[i:i+1])
		}
		x, err := s.runJobs(ctx, m, real, jobs)
		if err != nil {
			return nil, err
		}
		for i, f := range usageOf(&x, jobs).over(alone) {
			factors[i] = append(factors[i], f)
		}
	}
	var list []float64
	for i, f := range factors {
		list = append(list, harness.Median(f))
		fmt.Fprintf(s.log, "%s beside others: %.3f of its processor time alone, median of %.3f\n", programs[i].name, list[i], f)
	}
	return list, nil
}

// usage is processor time in seconds: of the tasks of each job of a run, and of the process
// outside of tasks and without planning.
type usage struct {
	tasks   []float64
	outside float64
}

// usageOf returns the processor time of a run. Planning counts with the time that the profiles state.
func usageOf(x *round, jobs []workload.Job) usage {
	u := usage{outside: x.cpu.Seconds()}
	for i := range jobs {
		p := &x.jobs[i].realPhases
		u.tasks = append(u.tasks, float64(len(jobs[i].Maps))*p.mapCPU+float64(len(jobs[i].Reduces))*p.reduceCPU)
		u.outside -= u.tasks[i] + jobs[i].Plan.Seconds()
	}
	u.outside = max(0, u.outside)
	return u
}

// over returns the factors of contention, by the usage of each job alone.
func (u usage) over(alone []usage) (list []float64) {
	outside := 0.0
	for i := range alone {
		outside += alone[i].outside
	}
	for i := range alone {
		a, more := &alone[i], 0.0
		if outside > 0 {
			more = u.outside * a.outside / outside
		}
		list = append(list, (u.tasks[i]+more)/(a.tasks[0]+a.outside))
	}
	return list
}

// scaled returns profiles whose costs are multiplied by a factor for each.
func scaled(profiles []workload.Profile, factors []float64) []workload.Profile {
	list := slices.Clone(profiles)
	for i := range list {
		p := &list[i]
		for _, cost := range []*float64{&p.MapStart, &p.MapCPU, &p.SortCPU, &p.ReduceStart, &p.ReduceCPU, &p.MergeCPU} {
			*cost *= factors[i]
		}
	}
	return list
}

// profile measures the cost profile of a program. It repeats the measurement up to
// -tries times if the machine was not quiet, and returns the quietest one. The cluster has the
// shape of the mixes, because tasks take more processor time where they share the caches.
func (s *settings) profile(ctx context.Context, p *program) (workload.Profile, error) {
	app, err := apps.Lookup(p.app)
	if err != nil {
		return workload.Profile{}, err
	}
	o := profile.Options{Runs: s.rounds, Job: mapreduce.Options{Cluster: s.cluster(s.shape), SplitSize: splitSize, Reduces: reduces}}
	for _, size := range p.sizes() {
		o.Sizes = append(o.Sizes, []string{s.input(p.kind, size, true)})
	}
	var best workload.Profile
	share := -1.
	for try := 0; try < s.tries && share < s.quiet; try++ {
		c := startClock()
		list, err := profile.Measure(ctx, app, p.params, o)
		c.stop()
		if err != nil {
			return best, err
		}
		if x := c.share(); x > share {
			share, best = x, list[0]
		}
	}
	fmt.Fprintf(s.log, "profile of %s: the clock ran %.1f %% of the time\n", p.name, 100*share)
	best.App = p.name
	return best, nil
}
