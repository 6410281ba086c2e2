// Package sweep runs studies: grids over policies, their parameters, clusters, worlds,
// loads and seeds. A study is a YAML file; docs/formats/study.md describes it.
//
//	spec, err := sweep.Read("study.yaml", file)
//	plan, err := sweep.NewPlan(ctx, spec, sweep.Options{Registry: registry, Dir: "."})
//	err = plan.Run(ctx, store, sweep.RunOptions{})
//	result, err := plan.Result(store)
//
//	spec.go         Spec: the file, strict, every key described
//	plan.go         Plan: the cells of the grid
//	cell.go         one cell: its inputs, their digest, its run
//	run.go          all cells in parallel, within a memory limit
//	store.go        results of cells on disk, keyed by digest
//	result.go       the table of runs and the comparisons
//	sensitivity.go  the ranks of policies under several rules of import and worlds
//	html.go         plots and the report
//
// A cell is one run. Its result is kept under the digest of everything that it depends on,
// so an interrupted study continues where it stopped, and a changed one runs only the new cells.
//
// To add an axis: a key of Spec, a point type in plan.go with a name, a loop in fill, a field of inputs that is
// empty for studies without the axis (omitempty keeps their digests), and a column of Row, Comparison and pairRow.
// Everything that can change a result must be in inputs; a cell with a forgotten input is never run again.
package sweep

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/slotwise/slotwise/internal/base/suggest"
	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
	"github.com/slotwise/slotwise/internal/virtual/report"
	"github.com/slotwise/slotwise/internal/virtual/study"
	"github.com/slotwise/slotwise/internal/virtual/workload"
)

// Spec is a study as its file describes it. The tag help is the documentation of a key.
type Spec struct {
	Workload  string         `yaml:"workload" help:"a workload as sim --workload spells it; file names are relative to the study file"`
	Limit     int            `yaml:"limit" help:"the first jobs of a trace; without it, all"`
	DataScale factors        `yaml:"data-scale" help:"factor for all bytes of a SWIM trace, or a list of factors to compare; default 1"`
	TraceSet  map[string]any `yaml:"trace-set" help:"rules by which a trace becomes tasks, as sim --trace-set: pools: hash:8; a list of values compares them"`
	Profiles  values         `yaml:"profiles" help:"files of cost profiles for a job mix"`

	Policies          []PolicyAxis `yaml:"policies" help:"policies; each is a name or composition, or a mapping with name and set (see below); the first is the baseline of comparisons"`
	FairScheduler     string       `yaml:"fair-scheduler" help:"Hadoop's allocation file, for policies with fair pools"`
	CapacityScheduler string       `yaml:"capacity-scheduler" help:"Hadoop's file of queues, for policies with queues"`

	Clusters  []ClusterAxis `yaml:"clusters" help:"clusters; each is a file or the short form nodes=20,maps=4,reduces=2, or a mapping (see below)"`
	Worlds    []WorldAxis   `yaml:"worlds" help:"worlds; each is a name or file, or a mapping with name and set (see below); default: slotwise"`
	Autoscale values        `yaml:"autoscale" help:"settings as sim --autoscale without max, such as min=5,start-up=30s, or none for all nodes all the time; max is the number of nodes of each cluster; default none"`
	Loads     []float64     `yaml:"loads" help:"factors of the arrival rate: 2 divides all times of submission by 2; default 1"`
	Seeds     Seeds         `yaml:"seeds" help:"number of seeds from 1 on, or a mapping with from and count; default 1"`

	Reference  string `yaml:"reference" help:"slowdowns are relative to each job run alone (alone, the default) or to its lower bound (ideal)"`
	WarmUp     string `yaml:"warm-up" help:"rule by which the first jobs are left out of numbers about jobs: auto (the default), none, mser, or a share of the time"`
	References values `yaml:"references" help:"references in tables and plots: bound, srpt, psjf, sita, classictags, static-split or none; default: bound, srpt and static-split"`
	Measures   values `yaml:"measures" help:"measures to plot; default makespan, response.mean, slowdown.mean, slowdown.p95, and machines.hours with autoscale"`
}

// PolicyAxis is a policy with values of its parameters.
type PolicyAxis struct {
	Name string         `yaml:"name" help:"a policy or composition"`
	Set  map[string]any `yaml:"set" help:"parameters of this policy; a list makes a variant for each value, several lists for each combination"`
}

// WorldAxis is a world with values of its parameters.
type WorldAxis struct {
	Name string         `yaml:"name" help:"a named world or a file; default: slotwise"`
	Set  map[string]any `yaml:"set" help:"parameters of the world; lists as above"`
}

// ClusterAxis is a cluster, or one for each combination of nodes, slots and divisions.
type ClusterAxis struct {
	Spec     string `yaml:"spec" help:"a file or short form, from which the other keys change nodes and slots; default: one rack"`
	Nodes    values `yaml:"nodes" help:"numbers of nodes"`
	Slots    values `yaml:"slots" help:"numbers of slots of a node; needs division as a share"`
	Division values `yaml:"division" help:"map slots + reduce slots of a node (4+2), or the share of map slots (0.67)"`
	Racks    values `yaml:"racks" help:"numbers of racks"`
}

// Seeds are consecutive seeds.
type Seeds struct {
	From  uint64 `yaml:"from" help:"first seed; default 1"`
	Count int    `yaml:"count" help:"number of seeds"`
}

// values is a scalar or a list of scalars, as text.
type values []string

// UnmarshalYAML implements yaml.Unmarshaler.
func (v *values) UnmarshalYAML(n *yaml.Node) error {
	list, err := scalars(n)
	*v = list
	return err
}

// factors is a number or a list of numbers.
type factors []float64

// UnmarshalYAML implements yaml.Unmarshaler.
func (v *factors) UnmarshalYAML(n *yaml.Node) error {
	list, err := scalars(n)
	if err != nil {
		return err
	}
	for _, text := range list {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("line %d: %q is not a number", n.Line, text)
		}
		*v = append(*v, x)
	}
	return nil
}

// scalars returns the texts of a scalar or a list of scalars.
func scalars(n *yaml.Node) ([]string, error) {
	items := n.Content
	switch n.Kind {
	case yaml.ScalarNode:
		items = []*yaml.Node{n}
	case yaml.SequenceNode:
	default:
		return nil, fmt.Errorf("line %d: should be a value or a list of values", n.Line)
	}
	var list []string
	for _, item := range items {
		if item.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("line %d: should be a single value", item.Line)
		}
		list = append(list, item.Value)
	}
	return list, nil
}

// The axes accept a plain name in place of a mapping.

// UnmarshalYAML implements yaml.Unmarshaler.
func (a *PolicyAxis) UnmarshalYAML(n *yaml.Node) error {
	// Without methods: decoding into the type itself would call this method again.
	type plain PolicyAxis
	return nameOr(n, &a.Name, (*plain)(a))
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (a *WorldAxis) UnmarshalYAML(n *yaml.Node) error {
	type plain WorldAxis
	return nameOr(n, &a.Name, (*plain)(a))
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (a *ClusterAxis) UnmarshalYAML(n *yaml.Node) error {
	type plain ClusterAxis
	return nameOr(n, &a.Spec, (*plain)(a))
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (s *Seeds) UnmarshalYAML(n *yaml.Node) error {
	type plain Seeds
	s.From, s.Count = 1, 1
	if n.Kind == yaml.ScalarNode {
		count, err := strconv.Atoi(n.Value)
		if s.Count = count; err != nil {
			return fmt.Errorf("line %d: seeds: %q is not a whole number", n.Line, n.Value)
		}
	} else if err := strict(n, (*plain)(s)); err != nil {
		return err
	}
	if s.Count < 1 || s.Count > study.MaxSeeds {
		return fmt.Errorf("line %d: seeds: %d must be from 1 to %d", n.Line, s.Count, study.MaxSeeds)
	}
	return nil
}

// nameOr decodes a scalar into name and a mapping into all.
func nameOr(n *yaml.Node, name *string, all any) error {
	if n.Kind == yaml.ScalarNode {
		*name = n.Value
		return nil
	}
	return strict(n, all)
}

// strict decodes a mapping into a struct and rejects keys that it does not have. The
// option KnownFields of a decoder does not reach into UnmarshalYAML.
// Every mapping with fixed keys goes through here, so no key is ignored anywhere.
func strict(n *yaml.Node, into any) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: should be a name or a mapping", n.Line)
	}
	known := keysOf(reflect.TypeOf(into).Elem())
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		found := false
		var names []string
		for _, k := range known {
			found = found || k.Name == key.Value
			names = append(names, k.Name)
		}
		if found {
			continue
		}
		if best := suggest.Nearest(key.Value, names); best != "" {
			return fmt.Errorf("line %d: unknown key %q; did you mean %q?", key.Line, key.Value, best)
		}
		return fmt.Errorf("line %d: unknown key %q; known: %s", key.Line, key.Value, strings.Join(names, ", "))
	}
	return n.Decode(into)
}

// Key documents a key of the file.
type Key struct{ Name, Help string }

// keysOf lists the keys of a struct.
func keysOf(t reflect.Type) []Key {
	var keys []Key
	for i := range t.NumField() {
		keys = append(keys, Key{t.Field(i).Tag.Get("yaml"), t.Field(i).Tag.Get("help")})
	}
	return keys
}

// Keys lists the keys of the file and, by the key of their list, the keys of nested
// mappings.
func Keys() (top []Key, nested map[string][]Key) {
	return keysOf(reflect.TypeFor[Spec]()), map[string][]Key{
		"policies": keysOf(reflect.TypeFor[PolicyAxis]()), "clusters": keysOf(reflect.TypeFor[ClusterAxis]()),
		"worlds": keysOf(reflect.TypeFor[WorldAxis]()), "seeds": keysOf(reflect.TypeFor[Seeds]())}
}

// settings returns all keys with their values, defaults filled in, for a record.
// By reflection, so a new key is in the record without further code.
func (s *Spec) settings() []report.Setting {
	var list []report.Setting
	v := reflect.ValueOf(*s)
	for i, k := range keysOf(v.Type()) {
		b, err := json.Marshal(v.Field(i).Interface())
		if err != nil {
			panic(err) // the file has plain values only
		}
		if text := string(b); text != "null" && text != `""` {
			list = append(list, report.Setting{Name: k.Name, Value: text})
		}
	}
	return list
}

// fixedSize is the value of autoscale for a cluster whose nodes are all up all the time.
const fixedSize = "none"

// Bounds of a study. They keep a typing error from planning runs without end.
const (
	maxFile  = 1 << 20
	maxCells = 1_000_000
)

// Read reads a study file. Errors name the file.
func Read(file string, in io.Reader) (*Spec, error) {
	b, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("has more than %d bytes", maxFile)
	}
	var doc yaml.Node
	if err == nil {
		err = yaml.Unmarshal(b, &doc)
	}
	s := &Spec{}
	switch {
	case err != nil:
	case len(doc.Content) == 0:
		err = errors.New("is empty; it should hold at least workload, clusters and policies")
	default:
		type plain Spec
		err = strict(doc.Content[0], (*plain)(s))
	}
	if err == nil {
		err = s.fill()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return s, nil
}

// fill checks the values that need no other file and sets defaults.
func (s *Spec) fill() error {
	switch {
	case s.Workload == "":
		return errors.New("workload is missing")
	case len(s.Policies) == 0:
		return errors.New("policies is missing: a list such as [fifo, fair]")
	case len(s.Clusters) == 0:
		return errors.New("clusters is missing: a list such as [\"nodes=20,maps=4,reduces=2\"]")
	case s.Limit < 0:
		return fmt.Errorf("limit: %d is negative", s.Limit)
	case s.Reference != "" && s.Reference != "alone" && s.Reference != "ideal":
		return fmt.Errorf("reference: %q must be alone or ideal", s.Reference)
	}
	for _, x := range s.DataScale {
		if !(x > 0 && x < workload.MaxScale) {
			return fmt.Errorf("data-scale: %g must be above 0 and below %g", x, workload.MaxScale)
		}
	}
	// UnmarshalYAML of Seeds runs only if the key is there.
	if s.Seeds.Count == 0 {
		s.Seeds = Seeds{1, 1}
	}
	// An entry without a name, which readWorlds takes for the default world.
	if len(s.Worlds) == 0 {
		s.Worlds = []WorldAxis{{}}
	}
	if len(s.Loads) == 0 {
		s.Loads = []float64{1}
	}
	for _, l := range s.Loads {
		// In this form the condition refuses .nan too, which is a number of YAML.
		if !(l > 0 && l < workload.MaxScale) {
			return fmt.Errorf("loads: %g must be above 0 and below %g", l, workload.MaxScale)
		}
	}
	if len(s.References) == 0 {
		s.References = study.DefaultReferences()
	}
	if _, err := collect.ParseWarmUp(s.WarmUp); err != nil {
		return fmt.Errorf("warm-up: %w", err)
	}
	if s.WarmUp == "" {
		s.WarmUp = collect.WarmUpAuto
	}
	if err := study.CheckReferences(s.References); err != nil {
		return fmt.Errorf("references: %w", err)
	}
	if len(s.Measures) == 0 {
		s.Measures = slices.Clone(collect.Headline)
		if len(s.Autoscale) > 0 {
			// A clone, since Headline is shared by all studies of the process.
			s.Measures = append(s.Measures, collect.MachineHours)
		}
	}
	if len(s.Autoscale) == 0 {
		s.Autoscale = values{fixedSize}
	}
	for _, m := range s.Measures {
		if _, err := collect.FindMeasure(m); err != nil {
			return fmt.Errorf("measures: %w", err)
		}
	}
	return nil
}
