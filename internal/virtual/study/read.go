package study

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/slotwise/slotwise/internal/base/suggest"
	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/internal/virtual/world"
	"github.com/slotwise/slotwise/policies/hadoop/hadoopconf"
	"github.com/slotwise/slotwise/sched"
)

// Workload is the jobs of a study.
type Workload struct {
	// Name is the user's spelling, for the report.
	Name   string
	Source workload.Source
	// Swaps are the changes of the policy that a job mix asks for.
	Swaps []workload.Swap
	// Assumed lists the assumptions about programs whose tasks or costs the mix
	// does not state. Warnings lists oddities of a trace.
	Assumed, Warnings []string
}

// WorkloadOptions scale a trace and add what a job mix may refer to.
type WorkloadOptions struct {
	// Options configures the readers of all formats. The profiles in a mix have priority over the
	// Profiles here, and these over the built-in ones.
	workload.Options
	Inputs Inputs
}

// Inputs opens what a workload names and the simulator does not know: the programs of a mix and
// the history of a master. The command line sets both functions. A workload that needs a
// missing one is refused.
type Inputs struct {
	// Complete states the tasks and costs that a mix leaves to its programs, for a cluster. It
	// returns a sentence for each assumption. Its errors name the file and the entry.
	Complete func(ctx context.Context, m *workload.Mix, on *workload.Cluster) (assumed []string, err error)
	// OpenHistory opens the history in a directory. ReadWorkload closes it.
	OpenHistory func(dir string) (History, error)
}

// History is an open history of a master or of run --history.
type History interface {
	// Jobs returns the ended jobs in the order of their numbers, without chains, whose
	// steps are jobs of their own.
	Jobs(ctx context.Context) iter.Seq2[*workload.PastJob, error]
	Close() error
}

// ReadWorkload reads a workload as a command line spells it: the file of a job
// mix, or a trace such as swim:FILE, perhaps compressed by gzip. A job mix may
// leave tasks and costs to its programs; they are assumed for this cluster.
func ReadWorkload(ctx context.Context, spec string, on *workload.Cluster, o WorkloadOptions) (*Workload, error) {
	format, path := workload.SplitSpec(spec)
	// SplitSpec takes an unknown prefix for a part of the name.
	if prefix, _, found := strings.Cut(spec, ":"); found && path == spec {
		if _, err := os.Stat(path); err != nil { // a file may have a colon in its name
			return nil, unknownFormat(prefix)
		}
	}
	if path == "" {
		return nil, fmt.Errorf("%s names no file", spec)
	}
	w := &Workload{Name: spec}
	var err error
	// A study holds the jobs of all seeds; tasks in full would be 64 bytes each.
	o.SWIM.Outline, o.Trace.Pack = true, true
	if format == workload.PastFormat {
		w.Source, err = readPast(ctx, path, o)
	} else {
		w.Source, err = readSource(format, path, o.Options)
	}
	if err != nil {
		return nil, err
	}
	switch source := w.Source.(type) {
	case *workload.Trace:
		w.Warnings = source.Warnings
	case *workload.Mix:
		w.Swaps = source.Swaps
		w.Assumed, err = complete(ctx, source, on, o.Inputs)
	}
	return w, err
}

// readPast reads the jobs of a history.
func readPast(ctx context.Context, dir string, o WorkloadOptions) (workload.Source, error) {
	if o.Inputs.OpenHistory != nil {
		past, err := o.Inputs.OpenHistory(dir)
		if err != nil {
			return nil, err
		}
		// ReadFolder reads all jobs before it returns.
		defer past.Close()
		o.Past = past.Jobs(ctx)
	}
	return workload.ReadFolder(workload.PastFormat, dir, nil, o.Options)
}

// complete states what a mix leaves to its programs.
func complete(ctx context.Context, m *workload.Mix, on *workload.Cluster, in Inputs) ([]string, error) {
	if in.Complete != nil {
		return in.Complete(ctx, m, on)
	}
	// A class without tasks would be simulated as a job that ends at once.
	for i := range m.Classes {
		if c := &m.Classes[i]; c.NeedsTasks() || c.NeedsReduces() || c.NeedsCosts() {
			return nil, fmt.Errorf("%s: its tasks or costs are unknown, because this program cannot plan the jobs of a mix; state maps and map-time, or work", c.Describe())
		}
	}
	return nil, nil
}

// readSource reads the file or the folder of a workload.
func readSource(format, path string, o workload.Options) (workload.Source, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		files, err := folderFiles(path)
		if err != nil {
			return nil, err
		}
		return workload.ReadFolder(format, path, files, o)
	}
	in, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return workload.Read(format, path, in, o)
}

// folderFiles lists the files in a folder and its subfolders, without checksums and hidden
// files.
func folderFiles(folder string) ([]workload.File, error) {
	var files []workload.File
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), ".") || strings.HasSuffix(d.Name(), ".crc") {
			return err
		}
		// Opened one after the other by the importer, or a folder of thousands of logs would use up the file
		// handles.
		files = append(files, workload.File{Name: path, Open: func() (io.ReadCloser, error) { return Open(path) }})
		return nil
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s: is an empty folder", folder)
	}
	return files, err
}

// unknownFormat returns the error for a prefix that names no format.
func unknownFormat(prefix string) error {
	var known []string
	for _, f := range workload.Formats() {
		known = append(known, f[0])
	}
	if best := suggest.Nearest(prefix, known); best != "" {
		return fmt.Errorf("unknown format %q; did you mean %q?", prefix, best)
	}
	return fmt.Errorf("unknown format %q; known: %s", prefix, strings.Join(known, ", "))
}

// Open opens a file for reading. If its name ends with .gz, it is decompressed.
func Open(path string) (io.ReadCloser, error) {
	file, err := os.Open(path)
	if err != nil || !strings.HasSuffix(path, ".gz") {
		return file, err
	}
	z, err := gzip.NewReader(file)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), file.Close())
	}
	return struct {
		io.Reader
		io.Closer
	}{z, file}, nil
}

// ReadCluster reads a cluster as a command line spells it: a file, a file with changes for
// all of its nodes (nodes.json,maps=4,reduces=2) or, if no file has the name, the short
// form nodes=20,maps=4,reduces=2. Errors begin with "cluster".
func ReadCluster(spec string) (workload.Cluster, error) {
	name, changes := spec, ""
	// A file first: an existing file may have a name that looks like the short form.
	file, err := os.Open(spec)
	if err != nil {
		// nodes.json,maps=4: a name with changes. In the short form the part before the first comma has an =.
		if name, changes, _ = strings.Cut(spec, ","); changes != "" && !strings.Contains(name, "=") {
			file, err = os.Open(name)
		} else if strings.Contains(spec, "=") {
			return workload.ParseCluster(spec)
		}
	}
	if err != nil {
		return workload.Cluster{}, fmt.Errorf("cluster: %w", err)
	}
	defer file.Close()
	c, err := workload.ReadCluster(name, file)
	if err == nil && changes != "" {
		if err = c.Amend(changes); err != nil {
			err = fmt.Errorf("%s: %w", spec, err)
		}
	}
	if err != nil {
		return c, fmt.Errorf("cluster: %w", err)
	}
	if maps, reduces := c.Slots(); maps+reduces == 0 {
		return c, fmt.Errorf("cluster: %s: states no slots; write %s,maps=4,reduces=2", spec, name)
	}
	return c, nil
}

// ReadWorld reads a world as a command line spells it: the name of a world or a file.
func ReadWorld(spec string) (sim.ModelConfig, error) {
	model, unknown := world.Lookup(spec)
	if unknown == nil {
		return model, nil
	}
	file, err := os.Open(spec)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !strings.Contains(spec, "/"):
		return model, fmt.Errorf("%w; there is no such file either", unknown)
	case err != nil:
		return model, fmt.Errorf("%s: %w", spec, errors.Unwrap(err))
	}
	defer file.Close()
	return world.Read(spec, file)
}

// Policies are the policies that a study compares, each with its parameters and
// configurations. Build makes a fresh one for each run.
type Policies struct {
	registry *sched.Registry
	list     []*policy
}

// policy is one policy of a study.
type policy struct {
	spec  string
	set   map[string]string
	confs []any // accepted by at least one part of the policy
}

// NewPolicies returns the policies of some names or compositions.
func NewPolicies(registry *sched.Registry, specs []string) *Policies {
	p := &Policies{registry: registry}
	for _, spec := range specs {
		p.list = append(p.list, &policy{spec: spec, set: map[string]string{}})
	}
	return p
}

// Specs returns the names or compositions, in order.
func (p *Policies) Specs() []string {
	var list []string
	for _, m := range p.list {
		list = append(list, m.spec)
	}
	return list
}

// Build makes a policy with all that it has been given.
func (p *Policies) Build(spec string, seed uint64) (sched.Policy, error) {
	i := slices.IndexFunc(p.list, func(m *policy) bool { return m.spec == spec })
	if i < 0 {
		return nil, fmt.Errorf("%s is not a policy of this study", spec)
	}
	m := p.list[i]
	made, err := p.registry.Build(spec, sched.Options{Seed: seed, Set: m.set})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", spec, err)
	}
	for _, conf := range m.confs {
		if _, err := reconfigure(made, conf); err != nil {
			return nil, fmt.Errorf("%s: %w", spec, err)
		}
	}
	return made, nil
}

// Check builds every policy once, which finds unknown names and wrong parameters.
func (p *Policies) Check() error {
	for _, m := range p.list {
		if _, err := p.Build(m.spec, 0); err != nil {
			return err
		}
	}
	return nil
}

// reconfigure gives a policy a configuration. It reports whether any of its parts
// accepts configurations of that type.
func reconfigure(p sched.Policy, conf any) (bool, error) {
	accepted := false
	// Each part that takes configurations, since a composition may mix Hadoop's parts.
	for _, r := range sched.HooksOf(p).Configs {
		ok, err := r.Reconfigure(conf)
		if err != nil {
			return true, err
		}
		accepted = accepted || ok
	}
	return accepted, nil
}

// Set gives parameters to the policies that have all these parameters. It
// returns an error if there is no such policy.
func (p *Policies) Set(set map[string]string) error {
	accepted := false
	for _, m := range p.list {
		known, err := p.parameters(m.spec)
		if err != nil {
			return err
		}
		fits := true
		for _, name := range slices.Sorted(maps.Keys(set)) {
			// All or none: a policy that has one of two parameters of a --set would otherwise differ from
			// what the user wrote.
			fits = fits && slices.Contains(known, name)
		}
		if fits {
			maps.Copy(m.set, set)
			accepted = true
		}
	}
	if !accepted {
		return errNotTaken
	}
	return nil
}

// errNotTaken reports a parameter or a configuration that no policy of the study has.
var errNotTaken = errors.New("none of the policies has it")

// parameters returns the names and aliases of a policy's parameters.
func (p *Policies) parameters(spec string) ([]string, error) {
	info, err := p.registry.Describe(spec)
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w", spec, err)
	}
	var names []string
	for _, part := range info.Parts {
		for _, p := range part.Params {
			names = append(append(names, p.Name), p.Aliases...)
		}
	}
	if len(info.Profiles) > 0 {
		names = append(names, "profile")
	}
	return names, nil
}

// UsePools gives the pools of a file of Hadoop's Fair Scheduler to the policies
// with pools. It returns warnings about the file.
func (p *Policies) UsePools(file string) (warnings []string, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	conf, odd, err := hadoopconf.ReadAllocations(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	accepted := false
	for _, m := range p.list {
		// Only a built policy can answer: its parts decide, and they may be of other packages.
		made, err := p.Build(m.spec, 0)
		if err != nil {
			return nil, err
		}
		ok, err := reconfigure(made, conf)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if ok {
			m.confs = append(m.confs, conf)
			accepted = true
		}
	}
	if !accepted {
		return nil, fmt.Errorf("%s: %s no such pools: choose --policy fair", file, p.subject())
	}
	return describe(file, odd), nil
}

// UseQueues gives the queues of a file of Hadoop's Capacity Scheduler to the
// policies with queues. It returns warnings about the file.
func (p *Policies) UseQueues(file string) (warnings []string, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	props, odd, err := hadoopconf.ReadProperties(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	set, more, err := hadoopconf.CapacitySettings(props, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	err = p.Set(set)
	if errors.Is(err, errNotTaken) {
		return nil, fmt.Errorf("%s: %s no queues: choose --policy capacity", file, p.subject())
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return describe(file, append(odd, more...)), nil
}

// subject returns the beginning of a sentence about all policies, such as "the policy fifo
// has".
func (p *Policies) subject() string {
	if len(p.list) == 1 {
		return "the policy " + p.list[0].spec + " has"
	}
	return "the policies " + strings.Join(p.Specs(), ", ") + " have"
}

// describe returns warnings about a file as sentences.
func describe(file string, warnings []hadoopconf.Warning) []string {
	var list []string
	for _, w := range warnings {
		list = append(list, fmt.Sprintf("%s: %v", file, w))
	}
	return list
}
