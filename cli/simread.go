package cli

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/slotwise/slotwise/apps"
	"github.com/slotwise/slotwise/internal/hadoopconf"
	"github.com/slotwise/slotwise/internal/jobmix"
	"github.com/slotwise/slotwise/internal/workload"
	"github.com/slotwise/slotwise/sched"
)

// readWorkload reads what --workload names. A job mix may leave tasks and costs to
// its programs; assumed says what was assumed of them for this cluster.
func (f *simFlags) readWorkload(ctx context.Context, cluster *workload.Cluster, warn func(string)) (source workload.Source, assumed []string, err error) {
	format, path := workload.SplitSpec(f.workload)
	if prefix, _, found := strings.Cut(f.workload, ":"); found && path == f.workload {
		if _, err := os.Stat(path); err != nil { // it may be a file with a colon in its name
			return nil, nil, unknown("sort of --workload", prefix, formatNames())
		}
	}
	if path == "" {
		return nil, nil, misuse("--workload %s: names no file", f.workload)
	}
	if err := f.checkScales(format); err != nil {
		return nil, nil, err
	}
	in, err := openText(path)
	if err != nil {
		return nil, nil, misuse("--workload: %w", err)
	}
	defer in.Close()
	source, err = workload.Read(format, path, in, workload.Options{
		Trace: workload.TraceOptions{TimeScale: f.timeScale, Limit: f.limit},
		SWIM:  workload.SWIMOptions{DataScale: f.dataScale},
	})
	if err != nil {
		return nil, nil, misuse("--workload: %w", err)
	}
	if trace, ok := source.(*workload.Trace); ok {
		for _, w := range trace.Warnings {
			warn(w)
		}
	}
	if mix, ok := source.(*workload.Mix); ok {
		if assumed, err = jobmix.Assume(ctx, mix, clusterSlots(cluster), apps.Lookup); err != nil {
			return nil, nil, misuse("--workload: %w", err)
		}
	}
	return source, assumed, nil
}

// clusterSlots adds up the slots of a virtual cluster.
func clusterSlots(c *workload.Cluster) (all jobmix.Cluster) {
	all.Features = features()
	for _, g := range c.Groups {
		all.MapSlots += g.Count * g.MapSlots
		all.ReduceSlots += g.Count * g.ReduceSlots
	}
	return all
}

// checkScales refuses what a format knows nothing of.
func (f *simFlags) checkScales(format string) error {
	drawn := format == "mix" || format == "synth"
	switch {
	case drawn && f.limit > 0:
		return misuse("--limit: is for traces, and a %s says itself how many jobs there are", format)
	case drawn && f.timeScale != 1:
		return misuse("--time-scale: is for traces, and a %s says itself when jobs come", format)
	case format != "swim" && f.dataScale != 1:
		return misuse("--data-scale: is for swim traces")
	}
	return nil
}

// formatNames are the formats that --workload can name.
func formatNames() []string {
	var names []string
	for _, f := range workload.Formats() {
		names = append(names, f[0])
	}
	return names
}

// openText opens a file, which may be compressed by gzip.
func openText(path string) (io.ReadCloser, error) {
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

// readCluster reads --cluster: a short form has a "=" and is no file.
func readCluster(spec string) (workload.Cluster, error) {
	file, err := os.Open(spec)
	if err != nil && strings.Contains(spec, "=") {
		c, err := workload.ParseCluster(spec)
		if err != nil {
			return c, misuse("--%w", err)
		}
		return c, nil
	}
	if err != nil {
		return workload.Cluster{}, misuse("--cluster: %w", err)
	}
	defer file.Close()
	c, err := workload.ReadCluster(spec, file)
	if err != nil {
		return c, misuse("--cluster: %w", err)
	}
	return c, nil
}

// splitPolicies takes lists of policies apart. What has a "=" belongs to the
// policy before it, except at the beginning of a list.
func splitPolicies(lists []string) ([]string, error) {
	var out []string
	for _, list := range lists {
		for i, item := range strings.Split(list, ",") {
			item = strings.TrimSpace(item)
			switch {
			case item == "":
				return nil, misuse("--policy %q: an empty name", list)
			case i > 0 && strings.Contains(item, "="):
				out[len(out)-1] += "," + item
			default:
				out = append(out, item)
			}
		}
	}
	for i, p := range out {
		if slices.Contains(out[:i], p) {
			return nil, misuse("--policy %s: named twice", p)
		}
	}
	return out, nil
}

// maker makes fresh policies of one spelling.
type maker struct {
	policies *sched.Registry
	spec     string
	set      map[string]string
	confs    []any // for those parts of it that take them
}

// make makes a policy.
func (m *maker) make(seed uint64) (sched.Policy, error) {
	p, err := m.policies.Build(m.spec, sched.Options{Seed: seed, Set: m.set})
	if err != nil {
		return nil, misuse("--policy %s: %w", m.spec, err)
	}
	for _, conf := range m.confs {
		if _, err := reconfigure(p, conf); err != nil {
			return nil, misuse("--policy %s: %w", m.spec, err)
		}
	}
	return p, nil
}

// reconfigure gives a policy a configuration and reports whether any of its parts
// understands it.
func reconfigure(p sched.Policy, conf any) (bool, error) {
	taken := false
	for _, r := range sched.HooksOf(p).Configs {
		ok, err := r.Reconfigure(conf)
		if err != nil {
			return true, err
		}
		taken = taken || ok
	}
	return taken, nil
}

// makers finds the settings and configurations of each policy. What fits none of
// the policies is misuse.
func (f *simFlags) makers(specs []string, warn func(string)) ([]*maker, error) {
	var list []*maker
	for _, spec := range specs {
		list = append(list, &maker{policies: f.setup.policies, spec: spec, set: map[string]string{}})
	}
	if err := f.useCapacity(list, warn); err != nil {
		return nil, err
	}
	set, err := parseAssignments("policy-set", f.policySet)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if err := give(list, "--policy-set "+name, map[string]string{name: set[name]}); err != nil {
			return nil, err
		}
	}
	if err := f.useFair(list, warn); err != nil {
		return nil, err
	}
	for _, m := range list {
		if _, err := m.make(f.seed); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// give gives settings to the policies that have them all.
func give(list []*maker, what string, set map[string]string) error {
	taken := false
	for _, m := range list {
		known, err := m.settings()
		if err != nil {
			return err
		}
		fits := true
		for name := range set {
			fits = fits && slices.Contains(known, name)
		}
		if fits {
			maps.Copy(m.set, set)
			taken = true
		}
	}
	if !taken {
		return misuse("%s: none of the policies has it", what)
	}
	return nil
}

// settings returns the names of the policy's parameters, and their aliases.
func (m *maker) settings() ([]string, error) {
	info, err := m.policies.Describe(m.spec)
	if err != nil {
		return nil, misuse("--policy: %w", err)
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

// useFair gives the pools of --fair-scheduler to the policies that have pools.
func (f *simFlags) useFair(list []*maker, warn func(string)) error {
	if f.fairScheduler == "" {
		return nil
	}
	b, err := os.ReadFile(f.fairScheduler)
	if err != nil {
		return misuse("--fair-scheduler: %w", err)
	}
	conf, warnings, err := hadoopconf.ReadAllocations(bytes.NewReader(b))
	if err != nil {
		return misuse("--fair-scheduler %s: %w", f.fairScheduler, err)
	}
	told(warn, f.fairScheduler, warnings)
	taken := false
	for _, m := range list {
		p, err := m.make(f.seed)
		if err != nil {
			return err
		}
		ok, err := reconfigure(p, conf)
		if err != nil {
			return misuse("--fair-scheduler %s: %w", f.fairScheduler, err)
		}
		if ok {
			m.confs = append(m.confs, conf)
			taken = true
		}
	}
	if !taken {
		return misuse("--fair-scheduler %s: none of the policies has such pools", f.fairScheduler)
	}
	return nil
}

// useCapacity gives the queues of --capacity-scheduler to the policies that have
// queues.
func (f *simFlags) useCapacity(list []*maker, warn func(string)) error {
	if f.capacityFile == "" {
		return nil
	}
	b, err := os.ReadFile(f.capacityFile)
	if err != nil {
		return misuse("--capacity-scheduler: %w", err)
	}
	props, warnings, err := hadoopconf.ReadProperties(bytes.NewReader(b))
	if err != nil {
		return misuse("--capacity-scheduler %s: %w", f.capacityFile, err)
	}
	set, more, err := hadoopconf.CapacitySettings(props, nil)
	if err != nil {
		return misuse("--capacity-scheduler %s: %w", f.capacityFile, err)
	}
	told(warn, f.capacityFile, append(warnings, more...))
	return give(list, "--capacity-scheduler "+f.capacityFile, set)
}

func told(warn func(string), file string, warnings []hadoopconf.Warning) {
	for _, w := range warnings {
		warn(fmt.Sprintf("%s: %v", file, w))
	}
}
