// Package world reads the worlds of the simulator: what a virtual cluster does besides
// running tasks, such as heartbeats, failures, slow attempts and the overheads of
// daemons. A world is a sim.ModelConfig; docs/formats/world.md describes the file.
//
//	m, err := world.Read("world.yaml", file)
//	err = world.Set(&m, "failure-rate", "0.02")
//
// Every parameter is one Key. The table of keys is the only place that knows their names,
// so the file, the command line and the documentation cannot differ.
// A file is read in two passes: base first, wherever it is in the file, then the other keys in their order.
// So a key never depends on the keys around it, and a world equals its base with the named changes.
//
// To add a parameter: a field of sim.ModelConfig whose zero value means "as before", and a row of keys. Then
// add its line to docs/formats/world.md, which a test compares with the table. The zero value matters:
// records leave out empty members, so published digests of worlds stay the same (study.WorldOf).
package world

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/slotwise/slotwise/internal/base/suggest"
	"github.com/slotwise/slotwise/internal/virtual/sim"
)

// Named is a world that has a name.
type Named struct {
	Name, Help string
	Model      func() sim.ModelConfig
}

// Default is the name of the world of commands and files that name none.
const Default = "slotwise"

// slotwise returns the world of a slotwise cluster, whose workers report the end of an
// attempt at once. A reduce whose shuffle the workload does not state takes all its time
// after the maps, as the sleeping tasks of run do: a guessed overlap would make the
// simulator run less work than the file states.
func slotwise() sim.ModelConfig {
	return sim.ModelConfig{EndsByRule: true, AsRun: true, ShuffleShare: -1, Contention: true, Outliers: true, Distance: racks()}
}

// What a cluster costs beside the tasks: an attempt that sleeps, one that works, and an MB of map output.
// "go -C lab run ./papers -world" measures and prints them; lab/results/sim-vs-cluster.md has its output.
const (
	clusterStart   = 5100 * time.Microsecond
	clusterAttempt = 6600 * time.Microsecond
	clusterShuffle = 2800 * time.Microsecond
)

// slotwiseCluster returns the world of a cluster whose attempts are processes, warm ones after the first.
func slotwiseCluster() sim.ModelConfig {
	m := slotwise()
	m.Overheads.Start, m.Overheads.Attempt, m.Overheads.Shuffle = clusterStart, clusterAttempt, clusterShuffle
	return m
}

// racks returns the links of a cluster of the years of the public traces. Nodes have gigabit
// cards. Racks share a fifth of their nodes' bandwidth: VL2 (Greenberg et al., SIGCOMM 2009) found
// uplinks oversubscribed by 5 to 20 in Microsoft's data centres.
func racks() sim.Distance { return sim.Distance{NIC: 125e6, Oversubscription: 5} }

// Worlds returns the named worlds.
func Worlds() []Named {
	return []Named{
		{Default, "a cluster of slotwise: ends of tasks are reported at once, and new work is offered at once; nothing fails and daemons take no time", slotwise},
		{"slotwise-cluster", fmt.Sprintf("slotwise with the processor time that profiles, which are measured in one process, do not have: %v for an attempt that sleeps, %v for one that works, and %v for each MB of map output", clusterStart, clusterAttempt, clusterShuffle), slotwiseCluster},
		// ideal and the papers' worlds have no Outliers and no Distance: ideal has no luck, and the papers
		// measured one cluster each and describe no network.
		{"ideal", "also no heartbeat delays anything: nodes send one each 100 ms, however many there are", func() sim.ModelConfig {
			return sim.ModelConfig{Heartbeat: "fixed:100ms", EndsByRule: true, AsRun: true, ShuffleShare: -1, Contention: true}
		}},
		{"hadoop-1.2", "a cluster of Hadoop 1.2.1: its heartbeats, and the overheads of its daemons and processes", func() sim.ModelConfig {
			return sim.ModelConfig{Heartbeat: "hadoop-1.2", ProgressEvery: 3 * time.Second, Overheads: sim.Hadoop121(false), Contention: true, Outliers: true, Distance: racks()}
		}},
		{"hadoop-1.2-reuse", "hadoop-1.2 with processes that all tasks of a job reuse", func() sim.ModelConfig {
			return sim.ModelConfig{Heartbeat: "hadoop-1.2", ProgressEvery: 3 * time.Second, Overheads: sim.Hadoop121(true), Contention: true, Outliers: true, Distance: racks()}
		}},
		{"cloud-spot", "machines that are taken away: each after 8 hours on average, for 10 minutes; 2 % of attempts fail, 5 % are 3 times slower", func() sim.ModelConfig {
			return sim.ModelConfig{EndsByRule: true, AsRun: true, ShuffleShare: -1, Contention: true, MTBF: 8 * time.Hour, MTTR: 10 * time.Minute, NodeTimeout: time.Minute, FailureRate: 0.02,
				Straggler: sim.Straggler{Probability: 0.05, Factor: 3}, Distance: racks()}
		}},
		{"paper/tumm", "the world of TuMM's experiments: Hadoop 0.20.2, inputs on every node", func() sim.ModelConfig {
			return sim.ModelConfig{Heartbeat: "hadoop-0.20.2", Replicas: -1, Contention: true}
		}},
		{"paper/tyrex", "the world of Tyrex's experiments: Hadoop 1.0, progress every 3 s", func() sim.ModelConfig {
			return sim.ModelConfig{Heartbeat: "hadoop-1.0", ProgressEvery: 3 * time.Second, Contention: true}
		}},
		{"paper/modfair", "the world of Modified Fair's experiments: Hadoop 1.2, one copy of each block, progress every 3 s", func() sim.ModelConfig {
			return sim.ModelConfig{Heartbeat: "hadoop-1.2", Replicas: 1, ProgressEvery: 3 * time.Second, Contention: true}
		}},
	}
}

// Lookup returns the named world. The error for an unknown name suggests a known one.
func Lookup(name string) (sim.ModelConfig, error) {
	var names []string
	for _, w := range Worlds() {
		if w.Name == name {
			return w.Model(), nil
		}
		names = append(names, w.Name)
	}
	return sim.ModelConfig{}, unknown("world", name, names)
}

// unknown returns the error for a name that is not among the known ones.
func unknown(what, name string, known []string) error {
	if best := suggest.Nearest(name, known); best != "" {
		return fmt.Errorf("%s: unknown %s; did you mean %q?", name, what, best)
	}
	return fmt.Errorf("%s: unknown %s; known: %s", name, what, strings.Join(known, ", "))
}

// Set gives the parameter of that name a value.
func Set(m *sim.ModelConfig, name, value string) error {
	k, err := find(name)
	if err != nil {
		return err
	}
	if err := k.set(m, value); err != nil {
		return fmt.Errorf("%s: %q %w", name, value, err)
	}
	return nil
}

// find returns the key of that name.
func find(name string) (*Key, error) {
	for i := range keys {
		if keys[i].Name == name {
			return &keys[i], nil
		}
	}
	// The command line and the axes of a study set single values. A name that does exist must not get the
	// answer "unknown".
	if name == "crashes" || name == "stops" || name == "slow" || name == "background" {
		return nil, fmt.Errorf("%s: is a list, which only a world file can have", name)
	}
	var names []string
	for _, k := range keys {
		names = append(names, k.Name)
	}
	return nil, unknown("parameter", name, names)
}

// maxErrors bounds the errors that are reported for one file.
const maxErrors = 20

// reader reads a world and collects the errors of its file.
type reader struct {
	file  string
	model sim.ModelConfig
	seen  map[string]bool
	errs  []error
}

// fail adds an error at a line, unless there are many already.
func (r *reader) fail(n *yaml.Node, format string, args ...any) {
	if len(r.errs) < maxErrors {
		r.errs = append(r.errs, fmt.Errorf("%s:%d: %s", r.file, n.Line, fmt.Sprintf(format, args...)))
	}
}

// maxFile bounds the bytes of a world file.
const maxFile = 1 << 20

// Read reads a world file. Errors name the file and line, one error a line.
func Read(file string, in io.Reader) (sim.ModelConfig, error) {
	r := &reader{file: file, model: slotwise(), seen: map[string]bool{}}
	b, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	switch {
	case err != nil:
		return r.model, fmt.Errorf("%s: %w", file, err)
	case len(b) > maxFile:
		return r.model, fmt.Errorf("%s: has more than %d bytes", file, maxFile)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return r.model, fmt.Errorf("%s: %w", file, err)
	}
	if len(doc.Content) == 0 {
		return r.model, fmt.Errorf("%s: is empty, it should hold a world: parameter: value", file)
	}
	root := doc.Content[0]
	r.base(root)
	r.mapping(root, "")
	return r.model, errors.Join(r.errs...)
}

// base starts from the world that the key base names.
func (r *reader) base(root *yaml.Node) {
	if root.Kind != yaml.MappingNode {
		return
	}
	// Content is key, value, key, value.
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == "base" {
			m, err := Lookup(root.Content[i+1].Value)
			if err != nil {
				r.fail(root.Content[i+1], "base: %s", err)
				return
			}
			// The model that is returned also after an error: callers check the error first.
			r.model = m
		}
	}
}

// mapping sets the parameters of a mapping. Nested mappings are parts of dotted names.
func (r *reader) mapping(n *yaml.Node, prefix string) {
	if n.Kind != yaml.MappingNode {
		r.fail(n, "%s: should be a mapping (parameter: value)", strings.TrimSuffix("world."+prefix, "."))
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		name := prefix + key.Value
		// A group may be written in two places, a value may not: one of the two would have no
		// effect.
		if r.seen[name] && value.Kind != yaml.MappingNode {
			r.fail(key, "%s: is here twice", name)
			continue
		}
		// By the full name: straggler.factor and a group straggler with factor are one parameter.
		r.seen[name] = true
		switch {
		// base has read it before all others, wherever it is in the file.
		case name == "base":
		case name == "crashes":
			r.list(value, name, r.crash)
		case name == "stops":
			r.list(value, name, r.stop)
		case name == "slow":
			r.list(value, name, r.slow)
		case name == "background":
			r.list(value, name, r.background)
		// One level of groups: no parameter has two dots.
		case value.Kind == yaml.MappingNode && strings.Count(prefix, ".") == 0 && isGroup(name):
			r.mapping(value, name+".")
		case value.Kind != yaml.ScalarNode:
			r.fail(value, "%s: should be a single value", name)
		default:
			if err := Set(&r.model, name, value.Value); err != nil {
				r.fail(key, "%s", err)
			}
		}
	}
}

// isGroup reports whether names of parameters begin with this name and a dot.
func isGroup(name string) bool {
	return slices.ContainsFunc(keys, func(k Key) bool { return strings.HasPrefix(k.Name, name+".") })
}

// list reads a list of mappings.
func (r *reader) list(n *yaml.Node, name string, read func(n *yaml.Node, fields map[string]string) error) {
	if n.Kind != yaml.SequenceNode {
		r.fail(n, "%s: should be a list", name)
		return
	}
	for _, item := range n.Content {
		fields := map[string]string{}
		if err := item.Decode(&fields); err != nil {
			r.fail(item, "%s: each entry should be a mapping of single values", name)
			continue
		}
		if err := read(item, fields); err != nil {
			r.fail(item, "%s: %s", name, err)
		}
	}
}

// take sets fields of a list's entry by their names. Fields that are not named are
// errors; a missing one keeps the zero value.
func take(fields map[string]string, set map[string]func(string) error) error {
	var errs []error
	// Sorted, so that the errors of an entry have one order.
	for _, name := range sorted(fields) {
		f, ok := set[name]
		if !ok {
			errs = append(errs, unknown("key", name, sorted(set)))
			continue
		}
		if err := f(fields[name]); err != nil {
			errs = append(errs, fmt.Errorf("%s: %q %w", name, fields[name], err))
		}
	}
	return errors.Join(errs...)
}

// crash reads an entry of crashes.
func (r *reader) crash(_ *yaml.Node, fields map[string]string) error {
	var c sim.Crash
	err := take(fields, map[string]func(string) error{"node": parseNode(&c.Node), "at": parseTime(&c.At), "return": parseTime(&c.Return)})
	r.model.Crashes = append(r.model.Crashes, c)
	return err
}

// stop reads an entry of stops.
func (r *reader) stop(_ *yaml.Node, fields map[string]string) error {
	var x sim.Stop
	err := take(fields, map[string]func(string) error{"node": parseNode(&x.Node), "at": parseTime(&x.At), "until": parseTime(&x.Until)})
	r.model.Stops = append(r.model.Stops, x)
	return err
}

// slow reads an entry of slow.
func (r *reader) slow(_ *yaml.Node, fields map[string]string) error {
	// An entry without a factor names a node and slows nothing.
	x := sim.Slow{Factor: 1}
	err := take(fields, map[string]func(string) error{"node": parseNode(&x.Node), "factor": parseNumber(&x.Factor, 1e-6, 1e6)})
	r.model.Slow = append(r.model.Slow, x)
	return err
}

// background reads an entry of background. One without a node is about all machines.
func (r *reader) background(_ *yaml.Node, fields map[string]string) error {
	x := sim.Background{Node: -1}
	err := take(fields, map[string]func(string) error{"node": parseNode(&x.Node), "at": parseTime(&x.At), "share": parseNumber(&x.Share, 0, 0.99)})
	r.model.Background = append(r.model.Background, x)
	return err
}
