package sweep

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/slotwise/slotwise/internal/tracker/autoscale"
	"github.com/slotwise/slotwise/internal/virtual/report"
	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/study"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/internal/virtual/world"
	"github.com/slotwise/slotwise/sched"
)

// Options complete a plan's file.
type Options struct {
	Registry *sched.Registry
	// Dir is the directory of the study file, to which the names of files in it are
	// relative.
	Dir string
	// Inputs opens programs and histories that the workload names.
	Inputs study.Inputs
	// Record, if set, says which program and command make the study and has its file. The plan
	// adds the rest.
	Record *report.Record
	// Program identifies the build of the program. Another build runs all cells again,
	// because its policies or simulator may differ.
	Program string
}

// Plan is a study with all its inputs read.
type Plan struct {
	Spec *Spec
	// Workload is the workload by the first rules of import.
	Workload *study.Workload
	// Cells are in the order in which they run: all cells of a seed together.
	Cells []*Cell
	// Warnings holds a sentence for each oddity of the inputs.
	Warnings []string

	options  Options
	clusters []*clusterPoint
	worlds   []*worldPoint
	scales   []string // values of autoscale
	policies []*policyPoint
	imports  []*importPoint
	grounds  map[groundKey]*ground
	record   *report.Record // nil without Options.Record
}

// clusterPoint, worldPoint and policyPoint are the values of the axes of the grid.
type clusterPoint struct {
	name    string
	cluster workload.Cluster
}

// importPoint is the workload by one choice of the rules of import: data-scale and trace-set.
type importPoint struct {
	name      string // the rules that differ between the points; "" if there is one point
	dataScale float64
	set       map[string]string
	workload  *study.Workload
	draws     map[uint64]*draw // by seed
}

type worldPoint struct {
	name  string
	model sim.ModelConfig
}

type policyPoint struct {
	label string // the name with the parameters that the study sets
	name  string
	set   map[string]string
	// policies builds the policy. It is nil for a reference.
	policies *study.Policies
	// files are digests of Hadoop's files that configure the policy.
	files     []string
	reference string
}

// NewPlan reads all inputs of a study and lists its cells.
func NewPlan(ctx context.Context, s *Spec, o Options) (*Plan, error) {
	p := &Plan{Spec: s, options: o, grounds: make(map[groundKey]*ground)}
	for _, step := range []func() error{p.readClusters, p.readWorlds, p.readScales, p.readPolicies,
		func() error { return p.readWorkloads(ctx) }, p.drawAll, p.fill, p.makeRecord} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// path returns the name of a file in the study relative to the working directory.
func (p *Plan) path(name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(p.options.Dir, name)
}

// readClusters expands the axis of clusters.
func (p *Plan) readClusters() error {
	for i, a := range p.Spec.Clusters {
		if err := p.readCluster(&a); err != nil {
			return fmt.Errorf("clusters: entry %d: %w", i+1, err)
		}
	}
	return unique("clusters", p.clusters, func(c *clusterPoint) string { return c.name })
}

// readCluster adds the clusters of an entry.
func (p *Plan) readCluster(a *ClusterAxis) error {
	// Without a spec the axes make the whole cluster; change then demands slots.
	base := workload.Cluster{Racks: 1, Groups: []workload.NodeGroup{{Name: "node", Count: 1}}}
	name := ""
	if a.Spec != "" {
		spec := a.Spec
		// The name of a file, which is beside the plan. The short form has an = and is no name.
		if !strings.Contains(spec, "=") {
			spec = p.path(spec)
		}
		var err error
		if base, err = study.ReadCluster(spec); err != nil {
			return err
		}
		name = a.Spec
	}
	axes := map[string][]string{"nodes": a.Nodes, "slots": a.Slots, "division": a.Division, "racks": a.Racks}
	maps.DeleteFunc(axes, func(_ string, v []string) bool { return len(v) == 0 })
	if len(axes) == 0 {
		p.clusters = append(p.clusters, &clusterPoint{name, base})
		return nil
	}
	// With several groups it is not clear whose nodes the axis counts.
	if len(base.Groups) != 1 {
		return fmt.Errorf("%s has %d groups of nodes; nodes, slots and division change a cluster with one", a.Spec, len(base.Groups))
	}
	for _, set := range combinations(axes) {
		c := base
		c.Groups = slices.Clone(base.Groups)
		if err := change(&c, set); err != nil {
			return err
		}
		g := c.Groups[0]
		// The whole short form in the name: rows of a table must say which nodes they are of.
		p.clusters = append(p.clusters, &clusterPoint{strings.TrimPrefix(fmt.Sprintf("%s nodes=%d,maps=%d,reduces=%d,racks=%d", name, g.Count, g.MapSlots, g.ReduceSlots, c.Racks), " "), c})
	}
	return nil
}

// change gives a cluster of one group other nodes, slots and racks.
func change(c *workload.Cluster, set map[string]string) error {
	g := &c.Groups[0]
	slots, nodes, racks := g.MapSlots+g.ReduceSlots, g.Count, c.Racks
	for name, to := range map[string]*int{"nodes": &nodes, "slots": &slots, "racks": &racks} {
		if text, given := set[name]; given {
			n, err := strconv.Atoi(text)
			if *to = n; err != nil || n < 1 || n > 1<<16 {
				return fmt.Errorf("%s: %q must be a whole number from 1 to %d", name, text, 1<<16)
			}
		}
	}
	c.Resize(nodes, racks)
	division, given := set["division"]
	switch left, right, both := strings.Cut(division, "+"); {
	// Slots alone do not say how many are for maps, and keeping the old share would be a guess.
	case !given && set["slots"] != "":
		return errors.New("slots: needs division, the share of map slots, such as 0.67")
	case !given:
	// A division such as 4+2 states the slots itself.
	case both:
		m, err1 := strconv.Atoi(strings.TrimSpace(left))
		r, err2 := strconv.Atoi(strings.TrimSpace(right))
		if err1 != nil || err2 != nil || m < 0 || r < 0 || m+r < 1 || m+r > 1<<16 {
			return fmt.Errorf("division: %q must be map slots + reduce slots, such as 4+2", division)
		}
		if set["slots"] != "" && m+r != slots {
			return fmt.Errorf("division: %s is not a division of %d slots; write a share of map slots, such as 0.67", division, slots)
		}
		g.MapSlots, g.ReduceSlots = m, r
	default:
		share, err := strconv.ParseFloat(division, 64)
		if err != nil || !(share >= 0 && share <= 1) {
			return fmt.Errorf("division: %q must be as 4+2, or a share of map slots from 0 to 1", division)
		}
		g.MapSlots = int(share*float64(slots) + 0.5)
		g.ReduceSlots = slots - g.MapSlots
	}
	if g.MapSlots+g.ReduceSlots == 0 {
		return errors.New("the nodes have no slots: give slots and division, or a spec with maps and reduces")
	}
	return nil
}

// readWorlds expands the axis of worlds.
func (p *Plan) readWorlds() error {
	for i, a := range p.Spec.Worlds {
		name := cmp.Or(a.Name, world.Default)
		base, err := world.Lookup(name)
		// A known name first: a file called slotwise beside the study must not replace the world.
		if _, missing := os.Stat(p.path(name)); err != nil && missing == nil {
			base, err = study.ReadWorld(p.path(name))
		}
		if err != nil {
			return fmt.Errorf("worlds: entry %d: %w", i+1, err)
		}
		sets, err := settings(a.Set)
		if err != nil {
			return fmt.Errorf("worlds: %s: %w", name, err)
		}
		for _, set := range sets {
			w := &worldPoint{label(name, set), base}
			for _, key := range slices.Sorted(maps.Keys(set)) {
				if err := world.Set(&w.model, key, set[key]); err != nil {
					return fmt.Errorf("worlds: %s: %w", name, err)
				}
			}
			p.worlds = append(p.worlds, w)
		}
	}
	return unique("worlds", p.worlds, func(w *worldPoint) string { return w.name })
}

// readScales reads the axis of autoscale.
func (p *Plan) readScales() error {
	p.scales = p.Spec.Autoscale
	for _, text := range p.scales {
		for _, c := range p.clusters {
			// For every cluster, since min may exceed the nodes of a small one.
			if _, err := scaleOf(text, &c.cluster); err != nil {
				return fmt.Errorf("autoscale: %s on %s: %w", text, c.name, err)
			}
		}
	}
	return unique("autoscale", p.scales, func(text string) string { return text })
}

// scaleOf returns the settings of a value of autoscale for a cluster, or nil for a cluster of
// fixed size.
func scaleOf(text string, c *workload.Cluster) (*autoscale.Config, error) {
	if text == fixedSize {
		return nil, nil
	}
	for setting := range strings.SplitSeq(text, ",") {
		if name, _, _ := strings.Cut(strings.TrimSpace(setting), "="); name == "max" {
			return nil, errors.New("leave out max, which is the number of nodes of the cluster")
		}
	}
	cfg, err := autoscale.Parse(fmt.Sprintf("%s,max=%d", text, c.Nodes()))
	return &cfg, err
}

// readPolicies expands the axis of policies and adds the references.
func (p *Plan) readPolicies() error {
	pools, queues := 0, 0
	for i, a := range p.Spec.Policies {
		sets, err := settings(a.Set)
		if err != nil {
			return fmt.Errorf("policies: entry %d: %w", i+1, err)
		}
		for _, set := range sets {
			q := &policyPoint{label: label(a.Name, set), name: a.Name, set: set,
				policies: study.NewPolicies(p.options.Registry, []string{a.Name})}
			for _, key := range slices.Sorted(maps.Keys(set)) {
				// One by one, so that the error names the key.
				if err := q.policies.Set(map[string]string{key: set[key]}); err != nil {
					return fmt.Errorf("policies: %s: %s: %w", a.Name, key, err)
				}
			}
			// Built once here, so a wrong parameter is an error of the plan and not of the thousandth run.
			if err := q.policies.Check(); err != nil {
				return fmt.Errorf("policies: %w", err)
			}
			pools += p.configure(q, p.Spec.FairScheduler, q.policies.UsePools)
			queues += p.configure(q, p.Spec.CapacityScheduler, q.policies.UseQueues)
			p.policies = append(p.policies, q)
		}
	}
	// A file that no policy accepts is a mistake; the error of the first policy says which.
	if file := p.path(p.Spec.FairScheduler); file != "" && pools == 0 {
		_, err := p.policies[0].policies.UsePools(file)
		return fmt.Errorf("fair-scheduler: %w", err)
	}
	if file := p.path(p.Spec.CapacityScheduler); file != "" && queues == 0 {
		_, err := p.policies[0].policies.UseQueues(file)
		return fmt.Errorf("capacity-scheduler: %w", err)
	}
	if err := unique("policies", p.policies, func(q *policyPoint) string { return q.label }); err != nil {
		return err
	}
	for _, r := range p.Spec.References {
		if r != "none" {
			p.policies = append(p.policies, &policyPoint{label: study.ReferenceNames[r], reference: r})
		}
	}
	return nil
}

// configure gives a policy one of Hadoop's files, if it accepts the file, and returns how
// many policies do.
// Its errors are dropped on purpose: if no policy takes the file, the caller reports the first policy's error.
func (p *Plan) configure(q *policyPoint, file string, use func(string) ([]string, error)) int {
	if file == "" {
		return 0
	}
	// Not an error here: a file of pools is for the policies with pools, and others of the study have none.
	warnings, err := use(p.path(file))
	if err != nil {
		return 0
	}
	b, err := os.ReadFile(p.path(file))
	if err != nil {
		return 0
	}
	// The content and not the name: an edited file of pools is another policy.
	sum := sha256.Sum256(b)
	q.files = append(q.files, hex.EncodeToString(sum[:]))
	for _, w := range warnings {
		if !slices.Contains(p.Warnings, w) {
			p.Warnings = append(p.Warnings, w)
		}
	}
	return 1
}

// readWorkloads reads the jobs by each choice of the rules of import. Tasks that a mix leaves
// open are assumed for the first cluster.
func (p *Plan) readWorkloads(ctx context.Context) error {
	s := p.Spec
	o := study.WorkloadOptions{Inputs: p.options.Inputs}
	o.Trace.Limit = s.Limit
	for _, name := range s.Profiles {
		file, err := os.Open(p.path(name))
		if err != nil {
			return fmt.Errorf("profiles: %w", err)
		}
		list, err := workload.ReadProfiles(name, file)
		file.Close() // it was only read
		if err != nil {
			return fmt.Errorf("profiles: %w", err)
		}
		o.Profiles = append(o.Profiles, list...)
	}
	sets, err := settings(s.TraceSet)
	if err != nil {
		return fmt.Errorf("trace-set: %w", err)
	}
	scales := s.DataScale
	if len(scales) == 0 {
		scales = []float64{1}
	}
	// Before the reading: each combination reads the trace again.
	if n := len(sets) * len(scales); n > maxImports {
		return fmt.Errorf("data-scale and trace-set have %d combinations, at most %d are possible", n, maxImports)
	}
	for _, scale := range scales {
		for _, set := range sets {
			x := &importPoint{name: p.importName(scale, set), dataScale: scale, set: set, draws: make(map[uint64]*draw)}
			if x.workload, err = p.readWorkload(ctx, o, x); err != nil {
				return err
			}
			for _, w := range x.workload.Warnings {
				if x.name != "" {
					w = x.name + ": " + w
				}
				p.Warnings = append(p.Warnings, w)
			}
			p.imports = append(p.imports, x)
		}
	}
	// The first combination gives the study its name, its swaps, and whether its jobs are fixed. All
	// combinations are of one file, so they agree in these.
	p.Workload = p.imports[0].workload
	return unique("data-scale and trace-set", p.imports, func(x *importPoint) string { return x.name })
}

// maxImports bounds the rules of import of a study, each of which reads the trace again.
const maxImports = 100

// importName names the rules that differ between the imports of the study.
func (p *Plan) importName(scale float64, set map[string]string) string {
	varied := make(map[string]string)
	for name, v := range set {
		if list, ok := p.Spec.TraceSet[name].([]any); ok && len(list) > 1 {
			varied[name] = v
		}
	}
	if len(p.Spec.DataScale) > 1 {
		varied["data-scale"] = strconv.FormatFloat(scale, 'g', -1, 64)
	}
	return strings.TrimPrefix(label("", varied), " ")
}

// readWorkload reads the jobs by one choice of the rules of import.
func (p *Plan) readWorkload(ctx context.Context, o study.WorkloadOptions, x *importPoint) (*study.Workload, error) {
	s := p.Spec
	o.SWIM.DataScale = x.dataScale
	for _, name := range slices.Sorted(maps.Keys(x.set)) {
		if err := o.SetTrace(name, x.set[name]); err != nil {
			return nil, fmt.Errorf("trace-set: %w", err)
		}
	}
	format, path := workload.SplitSpec(s.Workload)
	spec := p.path(path)
	if path != s.Workload {
		spec = format + ":" + spec
	}
	w, err := study.ReadWorkload(ctx, spec, &p.clusters[0].cluster, o)
	if err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	// As the study spells it, for tables that are the same in every directory.
	w.Name = s.Workload
	return w, nil
}

// fill lists the cells.
func (p *Plan) fill() error {
	s := p.Spec
	n := len(p.imports) * s.Seeds.Count * len(s.Loads) * len(p.clusters) * len(p.worlds) * len(p.scales) * len(p.policies)
	if n > maxCells {
		return fmt.Errorf("the grid has %d runs, at most %d are possible", n, maxCells)
	}
	// The seed outside of all other axes: cells of one seed share its list of jobs, which can then be freed.
	// The policies innermost: they share the times alone (ground).
	for _, x := range p.imports {
		for i := range s.Seeds.Count {
			for _, load := range s.Loads {
				for _, c := range p.clusters {
					for _, w := range p.worlds {
						at := Cell{plan: p, cluster: c, world: w, source: x, Load: load, Seed: s.Seeds.From + uint64(i)}
						if err := p.fillPoint(at); err != nil {
							return err
						}
					}
				}
			}
		}
	}
	return nil
}

// fillPoint lists the cells of all policies and settings of autoscale at a point of the other axes.
func (p *Plan) fillPoint(at Cell) error {
	for _, scale := range p.scales {
		cfg, err := scaleOf(scale, &at.cluster.cluster)
		if err != nil {
			return err
		}
		for _, q := range p.policies {
			cell := at
			// The text as well as the settings: max is the number of nodes, so one text is another config on
			// each cluster, and points of the grid are found by the text.
			cell.policy, cell.scale, cell.Autoscale = q, cfg, scale
			cell.Key = cell.digest()
			p.Cells = append(p.Cells, &cell)
		}
	}
	return nil
}

// makeRecord completes Options.Record: settings, files, and digests of the resolved inputs.
func (p *Plan) makeRecord() error {
	if p.options.Record == nil {
		return nil
	}
	r := *p.options.Record
	r.Settings = p.Spec.settings()
	for use, names := range map[string][]string{"profiles": p.Spec.Profiles, "fair-scheduler": {p.Spec.FairScheduler},
		"capacity-scheduler": {p.Spec.CapacityScheduler}, "clusters": p.clusterFiles(), "worlds": p.worldFiles()} {
		for _, name := range names {
			if name == "" {
				continue
			}
			f, err := study.FileOf(use, p.path(name))
			if err != nil {
				return fmt.Errorf("%s: %w", use, err)
			}
			// As the study spells it: a record must not depend on the directory in which somebody runs it.
			f.Name = name
			r.Files = append(r.Files, f)
		}
	}
	_, path := workload.SplitSpec(p.Spec.Workload)
	f, err := study.FileOf("workload", p.path(path))
	if err != nil {
		return fmt.Errorf("workload: %w", err)
	}
	f.Name = path
	r.Files = append(r.Files, f)
	// A map's order would give another record, and so another digest, in each run.
	slices.SortFunc(r.Files, func(a, b report.File) int { return cmp.Or(cmp.Compare(a.Use, b.Use), cmp.Compare(a.Name, b.Name)) })
	for _, x := range p.imports {
		for _, seed := range slices.Sorted(maps.Keys(x.draws)) {
			name := fmt.Sprintf("seed %d", seed)
			if p.fixed() {
				name = "every seed"
			}
			if x.name != "" {
				name += ", " + x.name
			}
			d := x.draws[seed]
			r.Jobs = append(r.Jobs, report.Digest{Name: fmt.Sprintf("%s (%d)", name, d.jobs), Digest: d.key[:16]})
		}
	}
	for _, c := range p.clusters {
		r.Clusters = append(r.Clusters, study.ClusterDigest(c.name, c.cluster))
	}
	for _, w := range p.worlds {
		r.Worlds = append(r.Worlds, study.WorldOf(w.name, w.model))
	}
	p.record = &r
	return nil
}

// clusterFiles and worldFiles return the axes' entries that are files.
func (p *Plan) clusterFiles() (names []string) {
	for _, a := range p.Spec.Clusters {
		// A file with changes, such as nodes.json,maps=4, counts by its name.
		name, _, _ := strings.Cut(a.Spec, ",")
		if name != "" && !strings.Contains(name, "=") {
			names = append(names, name)
		}
	}
	return names
}

func (p *Plan) worldFiles() (names []string) {
	for _, a := range p.Spec.Worlds {
		if _, err := os.Stat(p.path(a.Name)); a.Name != "" && err == nil {
			names = append(names, a.Name)
		}
	}
	return names
}

// settings returns each combination of the values of some parameters, at least the empty
// one.
func settings(set map[string]any) ([]map[string]string, error) {
	axes := make(map[string][]string)
	for name, v := range set {
		list, ok := v.([]any)
		if !ok {
			list = []any{v}
		}
		for _, item := range list {
			// Texts, numbers and truth values become text, as a command line has them; null would become
			// "<nil>".
			switch item.(type) {
			case []any, map[string]any, nil:
				return nil, fmt.Errorf("%s: should be a value or a list of values", name)
			}
			axes[name] = append(axes[name], fmt.Sprint(item))
		}
		// An empty list would multiply the grid by 0.
		if len(list) == 0 {
			return nil, fmt.Errorf("%s: has no values", name)
		}
	}
	return combinations(axes), nil
}

// combinations returns every choice of one value for each name, in the order of names and
// values.
// The last name varies fastest, so rows of one value of the first name are together.
func combinations(axes map[string][]string) []map[string]string {
	all := []map[string]string{{}}
	for _, name := range slices.Sorted(maps.Keys(axes)) {
		var next []map[string]string
		for _, set := range all {
			for _, v := range axes[name] {
				with := maps.Clone(set)
				with[name] = v
				next = append(next, with)
			}
		}
		all = next
	}
	return all
}

// label returns a name with its parameters.
func label(name string, set map[string]string) string {
	for _, key := range slices.Sorted(maps.Keys(set)) {
		name += " " + key + "=" + set[key]
	}
	return name
}

// unique returns an error if two points of an axis have the same name.
// Rows, plots and pairs know a point by its name alone.
func unique[T any](axis string, points []T, name func(T) string) error {
	seen := make(map[string]bool)
	for _, x := range points {
		if seen[name(x)] {
			return fmt.Errorf("%s: %s is there twice", axis, name(x))
		}
		seen[name(x)] = true
	}
	return nil
}
