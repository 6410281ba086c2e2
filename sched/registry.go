package sched

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Part describes one implementation of Slots, Order, Place or Speculate. Users
// select it by name: --policy order=NAME.
type Part[T any] struct {
	// Name is the name that users write. It must not contain commas, equals signs or
	// spaces.
	Name    string
	Summary string // one line for lists
	Paper   string // the publication it follows; "" if there is none
	// Params are the parameters that users can set. New reads their values from
	// its Kit.
	Params []Param
	// New makes a new part. Parts keep state, so each policy calls New for each of its
	// parts.
	New func(k *Kit) (T, error)
}

// Row describes a policy that has a name. It either names four parts, or has a
// New for a policy that is not composed of parts.
type Row struct {
	Name    string // see Part.Name
	Summary string // one line for lists
	Paper   string // the publication it follows; "" if there is none

	// Slots, Order, Place and Speculate name parts of this table or of a table
	// before it. All four are required unless New is set.
	Slots, Order, Place, Speculate string
	// Set holds values of the parts' parameters that replace their defaults under this
	// name, such as values with which parts work well together. A policy that replaces a
	// part keeps the values of the remaining parameters.
	Set map[string]string

	// Params and New describe a policy without parts, as in Part.
	Params []Param
	New    func(k *Kit) (Policy, error)

	// Profiles are the values of the parameter "profile", besides "default".
	Profiles []Profile
}

// Profile is a named set of parameter values that belong together, such as those
// that make a policy decide as a certain version of Hadoop does. Values that the
// user sets explicitly take precedence.
type Profile struct {
	Name    string
	Summary string
	Set     map[string]string
}

// Table lists parts and policies. The built-in ones are a Table, and a program
// adds its own with another one. Rows may name parts of their own table and of
// tables before it.
type Table struct {
	Slots     []Part[Slots]
	Order     []Part[Order]
	Place     []Part[Place]
	Speculate []Part[Speculate]
	Policies  []Row
	// Utilities and Evaluators extend the learning scheduler.
	Utilities  []Utility
	Evaluators []Evaluator
}

// Options are the user's settings for a policy.
type Options struct {
	// Seed is the seed of the run; see Kit.Seed.
	Seed uint64
	// Set holds parameter values by name. A name that no part of the policy has
	// is an error. A name that several parts have sets the parameter of each.
	Set map[string]string
	// Live is set by callers that schedule a running cluster, where the sizes of jobs are
	// not known in advance. Build then refuses a policy with a SizeReader.
	Live bool
	// utilities and evaluators are the registry's, which Build fills in.
	utilities  map[string]Utility
	evaluators map[string]Evaluator
}

// Registry finds parts and policies by name. It does not change after it has
// been made, so goroutines can share it.
type Registry struct {
	slots     table[Part[Slots]]
	order     table[Part[Order]]
	place     table[Part[Place]]
	speculate table[Part[Speculate]]
	rows      table[Row]
	// utilities and evaluators come from programs; the learner has the built-in ones.
	utilities  table[Utility]
	evaluators table[Evaluator]
}

// NewRegistry returns a registry of the tables' entries. It fails if a name is
// invalid or used twice, or if a policy names a part that no table has. The first
// policy is special: compositions such as "order=fifo" take the parts that they
// do not name from it.
func NewRegistry(tables ...Table) (*Registry, error) { return new(Registry).With(tables...) }

// With returns a registry with g's entries and the entries of more tables. It fails under
// the same conditions as NewRegistry; g itself does not change.
func (g *Registry) With(tables ...Table) (*Registry, error) {
	all := &Registry{g.slots.clone(), g.order.clone(), g.place.clone(), g.speculate.clone(), g.rows.clone(), g.utilities.clone(), g.evaluators.clone()}
	var errs []error
	for _, t := range tables {
		errs = append(errs, all.add(t))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return all, nil
}

// add adds the parts of a table, then its policies, whose parts must be known by
// then.
func (g *Registry) add(t Table) error {
	errs := []error{
		addParts(&g.slots, "slots", t.Slots),
		addParts(&g.order, "order", t.Order),
		addParts(&g.place, "place", t.Place),
		addParts(&g.speculate, "speculate", t.Speculate),
		g.addLearned(t),
	}
	for _, r := range t.Policies {
		errs = append(errs, g.rows.add("policy", r.Name, r))
		// A policy that is one piece names no parts.
		if r.New == nil {
			parts, err := g.describeParts(r)
			if err == nil {
				err = checkSettings(Info{Name: r.Name, Parts: parts}, r.Set)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("policy %q: %w", r.Name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// addParts adds parts whose parameters accept their own defaults.
func addParts[T any](t *table[Part[T]], what string, parts []Part[T]) error {
	var errs []error
	for _, part := range parts {
		errs = append(errs, t.add(what, part.Name, part))
		for _, p := range part.Params {
			if _, err := p.Normalize(p.Default); err != nil {
				errs = append(errs, fmt.Errorf("%s %q: default: %w", what, part.Name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// table holds entries by name, and their names in the order in which they were
// added.
type table[T any] struct {
	byName map[string]T
	names  []string
}

func (t *table[T]) clone() table[T] { return table[T]{maps.Clone(t.byName), slices.Clone(t.names)} }

// add adds an entry. A name must be usable in a spec, where commas and equals signs separate.
func (t *table[T]) add(what, name string, entry T) error {
	if name == "" || strings.ContainsAny(name, ",= \t\n") {
		return fmt.Errorf("%s %q: a name must not be empty or contain commas, equals signs or spaces", what, name)
	}
	if _, dup := t.byName[name]; dup {
		return fmt.Errorf("%s %q exists already; choose another name", what, name)
	}
	if t.byName == nil {
		t.byName = make(map[string]T)
	}
	t.byName[name] = entry
	t.names = append(t.names, name)
	return nil
}

// get returns an entry, or an error that suggests the nearest name.
func (t *table[T]) get(what, name string) (T, error) {
	e, ok := t.byName[name]
	if !ok {
		return e, unknown(what, name, t.names)
	}
	return e, nil
}

// Names returns the names of all policies in the order of the tables.
func (g *Registry) Names() []string { return slices.Clone(g.rows.names) }

// PartNames returns the names of all implementations of a part, which is "slots",
// "order", "place" or "speculate". It returns nil for any other word.
func (g *Registry) PartNames(part string) []string {
	switch part {
	case "slots":
		return slices.Clone(g.slots.names)
	case "order":
		return slices.Clone(g.order.names)
	case "place":
		return slices.Clone(g.place.names)
	case "speculate":
		return slices.Clone(g.speculate.names)
	}
	return nil
}

// PartInfo describes one part of a policy.
type PartInfo struct {
	Part    string // "slots", "order", "place" or "speculate"; "policy" if not composed
	Name    string
	Summary string
	Paper   string
	Params  []Param
}

// Info describes a policy or a composition.
type Info struct {
	Name     string // the name, or the composition as the user wrote it
	Summary  string
	Paper    string
	Parts    []PartInfo
	Profiles []Profile
}

// Describe returns the parts and parameters of a policy. See Build for spec.
func (g *Registry) Describe(spec string) (Info, error) {
	r, err := g.resolve(spec)
	if err != nil {
		return Info{}, err
	}
	info := Info{Name: r.Name, Summary: r.Summary, Paper: r.Paper, Profiles: r.Profiles}
	if r.New != nil {
		info.Parts = []PartInfo{{"policy", r.Name, r.Summary, r.Paper, r.Params}}
		return info, nil
	}
	info.Parts, err = g.describeParts(r)
	return info, err
}

// describeParts returns the row's four parts. It fails on the first one that the
// registry does not have.
func (g *Registry) describeParts(r Row) ([]PartInfo, error) {
	s, err := g.slots.get("slots", r.Slots)
	if err != nil {
		return nil, err
	}
	o, err := g.order.get("order", r.Order)
	if err != nil {
		return nil, err
	}
	p, err := g.place.get("place", r.Place)
	if err != nil {
		return nil, err
	}
	c, err := g.speculate.get("speculate", r.Speculate)
	if err != nil {
		return nil, err
	}
	return []PartInfo{
		{"slots", s.Name, s.Summary, s.Paper, r.defaults(s.Params)},
		{"order", o.Name, o.Summary, o.Paper, r.defaults(o.Params)},
		{"place", p.Name, p.Summary, p.Paper, r.defaults(p.Params)},
		{"speculate", c.Name, c.Summary, c.Paper, r.defaults(c.Params)},
	}, nil
}

// defaults returns a part's parameters with the row's defaults.
func (r *Row) defaults(params []Param) []Param {
	if len(r.Set) == 0 {
		return params
	}
	params = slices.Clone(params)
	for i := range params {
		if v, own := r.Set[params[i].Name]; own {
			params[i].Default = v
		}
	}
	return params
}

// resolve parses a spec, which Build documents, into a row.
func (g *Registry) resolve(spec string) (Row, error) {
	if len(g.rows.names) == 0 {
		return Row{}, errors.New("the registry has no policies")
	}
	first, rest, _ := strings.Cut(spec, ",")
	// A spec of parts alone replaces parts of the first policy of the table. r is a copy of its row,
	// so the table stays.
	r := g.rows.byName[g.rows.names[0]]
	if strings.Contains(first, "=") {
		rest, r.Profiles, r.Set = spec, nil, nil
	} else {
		var err error
		if r, err = g.rows.get("policy", first); err != nil {
			return Row{}, err
		}
		if rest == "" {
			return r, nil
		}
	}
	if r.New != nil {
		return Row{}, fmt.Errorf("policy %s is not composed of parts, so none can be replaced", r.Name)
	}
	r.Name, r.Summary, r.Paper = spec, "a composition", ""
	for _, pair := range strings.Split(rest, ",") {
		part, name, _ := strings.Cut(pair, "=")
		if err := r.set(part, name); err != nil {
			return Row{}, err
		}
	}
	return r, nil
}

// set replaces the name of one of the four parts. Whether the registry has that
// implementation is checked later, by describeParts.
func (r *Row) set(part, name string) error {
	switch part {
	case "slots":
		r.Slots = name
	case "order":
		r.Order = name
	case "place":
		r.Place = name
	case "speculate":
		r.Speculate = name
	default:
		return unknown("part", part, []string{"slots", "order", "place", "speculate"})
	}
	return nil
}
