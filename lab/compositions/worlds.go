package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/study"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	worldtable "github.com/slotwise/slotwise/internal/virtual/world"
)

// world is a cluster with a workload.
type world struct {
	name, what string
	chooses    bool
	cluster    string // as sim --cluster spells it; or a cluster of a paper, with paper
	model      string // as sim --world spells it
	set        [][2]string
	// jobs from..to of the trace, submitted load times as fast as recorded, or all at once if
	// load is 0.
	from, to int
	load     float64
	scale    float64 // of the trace's bytes
	paper    string  // a paper's generator, in place of the trace
}

// unequal is a cluster with as many slots as 20 nodes of 4 map and 2 reduce slots, on nodes of
// three sizes and speeds.
const unequal = `racks: 2
nodes:
  - {name: large, count: 7, maps: 8, reduces: 4, speed: 1.5}
  - {name: middle, count: 7, maps: 3, reduces: 1}
  - {name: small, count: 4, maps: 1, reduces: 1, speed: 0.5}
`

const equal = "nodes=20,maps=4,reduces=2,racks=2"

// free is the world of 23 November 2026: tasks are never slow, and reading far data costs
// nothing.
var free = [][2]string{{"straggler.computed", "false"}, {"distance.nic", "0"}, {"distance.oversubscription", "0"}}

// worlds returns all worlds. The trace has 5,894 jobs; the choosing worlds use its first
// 1,800 jobs, the confirming ones later jobs.
func worlds() []world {
	const scale = 0.15
	trace := func(name, what, cluster string, from, to int, load float64, set ...[2]string) world {
		return world{name: name, what: what, cluster: cluster, model: "slotwise", set: set, from: from, to: to, load: load, scale: scale}
	}
	// The search keeps half of its compositions after each world, so the cheapest comes first.
	list := []world{
		trace("batch", "300 jobs at once on equal nodes", equal, 0, 300, 0),
		trace("load3", "a trace's first hours on equal nodes, three times as dense", equal, 0, 800, 3),
		trace("unequal2", "later hours on nodes of three sizes and speeds, load 2", unequal, 800, 1600, 2),
		trace("narrow2", "nodes of one map and one reduce slot, load 2", "nodes=60,maps=1,reduces=1,racks=2", 800, 1800, 2),
		trace("load1", "the first hours, as dense as recorded", equal, 0, 1200, 1),
	}
	for i := range list {
		list[i].chooses = true
	}
	for _, load := range []float64{0.5, 1, 2, 4} {
		list = append(list,
			trace(fmt.Sprintf("later-load%g", load), "other hours of the trace on equal nodes", "nodes=20,maps=4,reduces=2,racks=2", 1800, 3000, load))
	}
	list = append(list,
		trace("later-free2", "the same at load 2 without slow attempts and costs of distance", equal, 1800, 3000, 2, free...),
		trace("later-unequal2", "the last hours on unequal nodes", unequal, 3800, 5000, 2),
		trace("later-many2", "the last hours, 50 nodes of 2 map and 1 reduce slot", "nodes=50,maps=2,reduces=1,racks=5", 3800, 5000, 2),
		trace("later-batch", "300 other jobs at once", equal, 4000, 4300, 0),
		trace("later-batch-unequal", "the same on unequal nodes", unequal, 4000, 4300, 0))
	paper := func(name, model string) world {
		return world{name: "paper-" + name, what: "the workload of the paper's experiment", paper: name, model: model}
	}
	return append(list, paper("tumm-mixed-random", "paper/tumm"), paper("modfair-b-15-shuffled", "paper/modfair"),
		paper("tyrex-hvw", "paper/tyrex"), paper("tyrex-mvw", "paper/tyrex"), paper("tyrex-lvw", "paper/tyrex"), paper("dynamicmr-10", "hadoop-1.2"))
}

// scene is a world with its jobs for one seed.
type scene struct {
	world   *world
	seed    uint64
	cluster workload.Cluster
	model   sim.ModelConfig
	jobs    []workload.Job
	// fixed says that other seeds have the same jobs.
	fixed bool
}

// open prepares a world for a seed.
func (w *world) open(ctx context.Context, s *settings, seed uint64) (*scene, error) {
	c := &scene{world: w, seed: seed}
	var err error
	if c.model, err = worldtable.Lookup(w.model); err != nil {
		return nil, err
	}
	for _, x := range w.set {
		if err := worldtable.Set(&c.model, x[0], x[1]); err != nil {
			return nil, err
		}
	}
	if w.paper != "" {
		return c, c.openPaper()
	}
	if c.cluster, err = readCluster(w.cluster); err != nil {
		return nil, err
	}
	o := study.WorkloadOptions{Options: workload.Options{Trace: workload.TraceOptions{Pools: workload.Naming{Hash: 8}}}}
	o.SWIM.DataScale = w.scale
	trace, err := study.ReadWorkload(ctx, "swim:"+s.trace, &c.cluster, o)
	if err != nil {
		return nil, fmt.Errorf("SLOTWISE_TRACES must name the folder of %s: %w", traceFile, err)
	}
	all, err := trace.Source.Jobs(seed)
	if err != nil {
		return nil, err
	}
	c.jobs, c.fixed = all[w.from:w.to], true
	first := c.jobs[0].Submit
	for i := range c.jobs {
		at := time.Duration(0)
		if w.load > 0 {
			at = time.Duration(float64(c.jobs[i].Submit-first) / w.load)
		}
		c.jobs[i].Submit = at
	}
	return c, nil
}

// openPaper draws the jobs of a paper's workload and takes the paper's cluster.
func (c *scene) openPaper() error {
	g, ok := workload.FindGenerator(c.world.paper)
	if !ok {
		return fmt.Errorf("no paper has a workload %s", c.world.paper)
	}
	for _, named := range workload.PaperClusters() {
		if named.Name == g.Cluster {
			c.cluster = named.Cluster
		}
	}
	var err error
	c.jobs, err = g.Source.Jobs(c.seed)
	return err
}

// readCluster reads a cluster in the short form or as YAML.
func readCluster(text string) (workload.Cluster, error) {
	if text == unequal {
		return workload.ReadCluster("unequal", strings.NewReader(text))
	}
	return workload.ParseCluster(text)
}
