package sweep

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slotwise/slotwise/internal/tracker/autoscale"
	"github.com/slotwise/slotwise/internal/virtual/forecast"
	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/study"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// Cell is one run of a grid.
type Cell struct {
	plan    *Plan
	policy  *policyPoint
	cluster *clusterPoint
	world   *worldPoint
	source  *importPoint
	scale   *autoscale.Config // nil for a cluster of fixed size
	// Autoscale is the value of that axis.
	Autoscale string
	Load      float64
	Seed      uint64
	// Key is the digest of everything that the result depends on.
	Key string
}

// Policy returns the policy's name with the parameters that the study sets, or the name
// of the reference.
func (c *Cell) Policy() string { return c.policy.label }

// Reference reports whether the cell is a reference and no policy.
func (c *Cell) Reference() bool { return c.policy.reference != "" }

// Cluster and World return the names of these axes.
func (c *Cell) Cluster() string { return c.cluster.name }

// Import returns the rules of the import by which the cell differs from others, "" for none.
func (c *Cell) Import() string { return c.source.name }

// draw returns the jobs of the cell's seed.
func (c *Cell) draw() *draw { return c.source.draws[c.plan.seedOf(c.Seed)] }

// World returns the name of the world.
func (c *Cell) World() string { return c.world.name }

// draw is the jobs of one seed by one rule of import. All seeds of a trace share one draw.
type draw struct {
	seed        uint64
	source      workload.Source
	key         string // digest of the jobs
	origin      workload.Origin
	jobs, tasks int

	mu    sync.Mutex
	users int            // grounds that hold the list
	list  []workload.Job // nil if there are none
}

// seedOf returns the seed that the jobs of a run are drawn with.
// The jobs of a trace are the same for every seed, so one list and one digest serve all; the seed still
// selects the simulator's draws.
func (p *Plan) seedOf(seed uint64) uint64 {
	if p.fixed() {
		return p.Spec.Seeds.From
	}
	return seed
}

// fixed reports whether every seed has the same jobs.
func (p *Plan) fixed() bool { return study.WorkloadOf(p.Workload, nil).Fixed }

// drawAll draws the jobs of each import and seed once, for their digests.
func (p *Plan) drawAll() error {
	for _, x := range p.imports {
		for i := range p.Spec.Seeds.Count {
			seed := p.seedOf(p.Spec.Seeds.From + uint64(i))
			if x.draws[seed] != nil {
				continue
			}
			// Kept for their digest and counts alone: the lists of all seeds together may not fit into
			// memory.
			list, err := x.workload.Source.Jobs(seed)
			if err != nil {
				return fmt.Errorf("workload: %w", err)
			}
			d := &draw{seed: seed, source: x.workload.Source, key: study.DigestJobs(list), jobs: len(list)}
			if len(list) > 0 {
				d.origin = list[0].Origin // all jobs of a source have one
			}
			for i := range list {
				d.tasks += list[i].Count(job.Map) + list[i].Count(job.Reduce)
			}
			x.draws[seed] = d
		}
	}
	return nil
}

// hold returns the jobs of the draw and keeps them until the same number of releases.
func (d *draw) hold() ([]workload.Job, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.list == nil {
		var err error
		if d.list, err = d.source.Jobs(d.seed); err != nil {
			return nil, err
		}
	}
	d.users++
	return d.list, nil
}

func (d *draw) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.users--; d.users == 0 {
		d.list = nil
	}
}

// inputs is everything that the result of a cell depends on, for its digest.
type inputs struct {
	Format int
	// Another build may compute other numbers, so its results are others.
	Program string
	Jobs    string
	// Origin is not in Jobs: a world charges the maps of a trace for distance, but the same maps of a mix
	// cost nothing.
	Origin    workload.Origin `json:",omitempty"`
	Swaps     []workload.Swap
	Load      float64
	Cluster   workload.Cluster
	Model     sim.ModelConfig
	Autoscale *autoscale.Config `json:",omitempty"`
	// With the reference ideal no run of a job alone is needed, and reports differ.
	Slowdowns string
	Policy    string            `json:",omitempty"`
	Set       map[string]string `json:",omitempty"`
	Files     []string          `json:",omitempty"`
	Reference string            `json:",omitempty"`
	Seed      uint64
}

// format is the version of results on disk.
const format = 2

// inputs returns the inputs that all policies share.
func (c *Cell) inputs() inputs {
	p := c.plan
	return inputs{Format: format, Program: p.options.Program, Jobs: c.draw().key, Origin: c.draw().origin, Swaps: p.Workload.Swaps,
		Load: c.Load, Cluster: c.cluster.cluster, Model: c.world.model, Slowdowns: p.Spec.Reference, Seed: c.Seed}
}

// digest returns the key of the cell's result.
func (c *Cell) digest() string {
	in := c.inputs()
	// The label is left out: another spelling of the same parameters is the same run.
	in.Policy, in.Set, in.Files, in.Reference, in.Autoscale = c.policy.name, c.policy.set, c.policy.files, c.policy.reference, c.scale
	return in.digest()
}

func (in *inputs) digest() string {
	b, err := json.Marshal(in)
	if err != nil {
		panic(err) // all fields are plain values
	}
	sum := sha256.Sum256(b)
	// 128 bits: a key is all that a result is found by.
	return hex.EncodeToString(sum[:16])
}

// groundKey identifies what all policies of a comparison share.
type groundKey struct {
	seed    uint64
	load    float64
	cluster *clusterPoint
	world   *worldPoint
	source  *importPoint
}

func (c *Cell) ground() groundKey { return groundKey{c.Seed, c.Load, c.cluster, c.world, c.source} }

// ground is the common part of all runs of a comparison: the jobs at a load, and how long
// each takes alone.
// Memory has three levels: a draw is the list of jobs of a seed, a ground is the same jobs at a load with
// their times alone on a cluster and in a world, and a run is a simulation. A ground holds its draw, and a
// cell its ground; each is freed with its last user. Plan.fill lists cells so that users of one draw follow
// each other, and gate lets cells run while draws and runs fit into the limit.
type ground struct {
	mu     sync.Mutex
	left   int // cells that have not used it yet
	jobs   []workload.Job
	alone  []time.Duration
	bounds collect.Bounds
}

// prepare returns the cell's ground and makes it on the first call. Each call must be
// followed by finish.
func (c *Cell) prepare(g *ground, store *Store, stop func() error) error {
	// Held during the runs of jobs alone: other cells of the ground need the result and would make it again.
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.jobs != nil {
		return nil
	}
	base, err := c.draw().hold()
	if err != nil {
		return err
	}
	// A copy of the jobs at this load; the tasks are shared with all other loads.
	jobs := scaled(base, c.Load)
	if g.alone, err = c.alone(jobs, store, stop); err != nil {
		c.draw().release()
		return err
	}
	g.jobs, g.bounds = jobs, collect.BoundsOf(&c.cluster.cluster, jobs, c.world.model)
	return nil
}

// finish drops the ground after its last cell.
func (c *Cell) finish(g *ground) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.left--; g.left == 0 && g.jobs != nil {
		g.jobs, g.alone = nil, nil
		c.draw().release()
	}
}

// scaled returns jobs that arrive as often as a load says.
func scaled(jobs []workload.Job, load float64) []workload.Job {
	out := slices.Clone(jobs)
	for i := range out {
		out[i].Submit = time.Duration(float64(out[i].Submit) / load)
	}
	return out
}

// alone returns the time that each job takes alone, from the store if it is there. The
// load does not matter.
func (c *Cell) alone(jobs []workload.Job, store *Store, stop func() error) ([]time.Duration, error) {
	if c.plan.Spec.Reference == study.Ideal {
		return collect.Ideal(&c.cluster.cluster, jobs, c.world.model), nil
	}
	in := c.inputs()
	// The load does not change the time alone, so all loads of a study share one result; "alone" is no
	// policy's name.
	in.Load, in.Policy = 0, "alone"
	key := in.digest()
	var list []time.Duration
	if ok, err := store.load(key, &list); ok && err == nil {
		return list, nil // a damaged result is replaced below
	}
	list, err := collect.Alone(sim.Config{Cluster: c.cluster.cluster, Jobs: jobs, Seed: c.Seed, Model: c.world.model, Stop: stop},
		func() (sched.Policy, error) { return policies.Parse("fifo") })
	if err != nil {
		return nil, fmt.Errorf("reference alone: %w; reference: ideal needs no run", err)
	}
	return list, store.save(key, list)
}

// Outcome is the result of a cell. Jobs without a value have -1.
type Outcome struct {
	Report *collect.Report `json:"report,omitempty"`
	// Error says why the run failed.
	Error    string    `json:"error,omitempty"`
	Response []float64 `json:"response_s,omitempty"`
	Waiting  []float64 `json:"waiting_s,omitempty"`
}

// run makes the run of a cell.
func (c *Cell) run(g *ground, stop func() error, progress sim.Observer) (*Outcome, error) {
	if c.policy.reference == study.RefBound {
		return c.bound(g), nil
	}
	cfg := sim.Config{Cluster: c.cluster.cluster, Jobs: g.jobs, Seed: c.Seed, Model: c.world.model, Autoscale: c.scale, Stop: stop}
	k, o := collect.New(&cfg.Cluster, g.jobs, g.alone, false), collect.NewOutcomes(g.alone)
	// Without autoscaling every machine is paid for until the last job has ended.
	if c.scale == nil {
		k.PayForAll()
	}
	observers := sim.Observers{k, o}
	if progress != nil {
		observers = append(observers, progress)
	}
	err := c.equip(&cfg)
	switch {
	// A reference may not be possible for a workload. The sweep's own policies must run all the
	// same.
	case err != nil && c.Reference():
		return &Outcome{Error: err.Error()}, nil
	case err != nil:
		return nil, err
	}
	cfg.Observer = observers
	forecast.Choosing(&cfg)
	result, err := sim.Run(cfg)
	// A run that was stopped has no result. Stored as an error, it would never be made again.
	if stopped := stop(); stopped != nil {
		return nil, stopped
	}
	if err != nil {
		return &Outcome{Error: err.Error()}, nil
	}
	// The warm-up is left out later (Result): it depends on all policies of the point.
	out := &Outcome{Report: k.Report(result, g.bounds), Response: known(o.Response), Waiting: known(o.Waiting)}
	out.Report.Policy, out.Report.Seed = c.Policy(), c.Seed
	if err := out.Report.Check(); err != nil {
		return &Outcome{Error: err.Error()}, nil
	}
	return out, nil
}

// bound returns lower bounds in the form of a result.
func (c *Cell) bound(g *ground) *Outcome {
	r, responses := study.BoundOf(&c.cluster.cluster, g.jobs, c.world.model, g.alone)
	r.Policy, r.Seed = c.Policy(), c.Seed
	return &Outcome{Report: r, Response: responses, Waiting: make([]float64, len(g.jobs))}
}

// equip adds the policy of the cell and its swaps to a run, or a reference.
func (c *Cell) equip(cfg *sim.Config) (err error) {
	if c.Reference() {
		return study.Equip(c.policy.reference, cfg)
	}
	if cfg.Policy, err = c.policy.policies.Build(c.policy.name, c.Seed); err != nil {
		return err
	}
	for i, x := range c.plan.Workload.Swaps {
		p, err := c.plan.options.Registry.Build(x.Policy, sched.Options{Seed: c.Seed, Set: x.Set})
		if err != nil {
			return fmt.Errorf("workload: swap %d: %w", i+1, err)
		}
		cfg.Swaps = append(cfg.Swaps, sim.Swap{At: x.At, Policy: p})
	}
	return nil
}

// known replaces NaN, which JSON does not have, by -1, in place.
// -1 is possible because all these numbers are times, which are never negative.
func known(values []float64) []float64 {
	for i, v := range values {
		if v != v {
			values[i] = -1
		}
	}
	return values
}

// Describe returns the inputs of the cell in words, for lists.
func (c *Cell) Describe() string {
	return fmt.Sprintf("%s on %s, seed %d", c.Policy(), c.point().title(), c.Seed)
}

// parameters returns the parameters that the study sets, as name=value,name=value.
func (c *Cell) parameters() string {
	var list []string
	for _, key := range slices.Sorted(maps.Keys(c.policy.set)) {
		list = append(list, key+"="+c.policy.set[key])
	}
	return strings.Join(list, ",")
}

// name returns the policy's name without parameters, or the reference's.
func (c *Cell) name() string { return cmp.Or(c.policy.name, c.policy.label) }
