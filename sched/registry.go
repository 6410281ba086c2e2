package sched

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Part describes an implementation of one of the four parts.
type Part[T any] struct {
	Name    string
	Summary string // a line
	Paper   string // where it comes from, "" if from no paper
	Params  []Param
	New     func(k *Kit) (T, error)
}

// Row describes a named policy: the names of its four parts, or New for a
// policy that is not composed. Seen from outside both are policies alike.
type Row struct {
	Name      string
	Summary   string
	Paper     string
	Slots     string
	Order     string
	Place     string
	Speculate string
	Params    []Param // with New only
	New       func(k *Kit) (Policy, error)
	// Profiles are what the setting "profile" may name, beside "default".
	Profiles []Profile
}

// Profile is a set of values of parameters that go together, such as those that
// make a policy decide as a certain version of Hadoop does. What a user sets by
// hand goes before it.
type Profile struct {
	Name    string
	Summary string
	Set     map[string]string
}

// Setting returns the value of one of the constructor's own parameters, read by
// parse (strconv.Atoi, time.ParseDuration, …). New code declares Bindings.
func Setting[T any](k *Kit, name string, parse func(string) (T, error)) (T, error) {
	v, err := parse(k.values[name])
	if err != nil {
		return v, fmt.Errorf("parameter %s: bad value %q: %w", name, k.values[name], err)
	}
	return v, nil
}

// Options are what a user adds to the name of a policy.
type Options struct {
	Seed uint64
	// Set holds values of parameters by name. A name that no part of the
	// policy has is an error; one that several have goes to all of them.
	Set map[string]string
}

// Registry knows the parts and policies by name. It is filled by explicit calls
// and then only read.
type Registry struct {
	slots     table[Part[Slots]]
	order     table[Part[Order]]
	place     table[Part[Place]]
	speculate table[Part[Speculate]]
	rows      table[Row]
}

// table keeps entries by name and the names in order of entry.
type table[T any] struct {
	byName map[string]T
	names  []string
}

func (t *table[T]) add(what, name string, entry T) error {
	if _, dup := t.byName[name]; dup || name == "" {
		return fmt.Errorf("%s %q is registered twice or has no name", what, name)
	}
	if t.byName == nil {
		t.byName = make(map[string]T)
	}
	t.byName[name] = entry
	t.names = append(t.names, name)
	return nil
}

func (t *table[T]) get(what, name string) (T, error) {
	e, ok := t.byName[name]
	if !ok {
		return e, unknown(what, name, t.names)
	}
	return e, nil
}

// AddSlots registers an implementation of Slots.
func (g *Registry) AddSlots(p Part[Slots]) error { return addPart(&g.slots, "slots", p) }

// AddOrder registers an implementation of Order.
func (g *Registry) AddOrder(p Part[Order]) error { return addPart(&g.order, "order", p) }

// AddPlace registers an implementation of Place.
func (g *Registry) AddPlace(p Part[Place]) error { return addPart(&g.place, "place", p) }

// AddSpeculate registers an implementation of Speculate.
func (g *Registry) AddSpeculate(p Part[Speculate]) error {
	return addPart(&g.speculate, "speculate", p)
}

// addPart adds a part whose defaults its own parameters accept.
func addPart[T any](t *table[Part[T]], what string, p Part[T]) error {
	for _, param := range p.Params {
		if _, err := param.Normalize(param.Default); err != nil {
			return fmt.Errorf("default of %s %q: %w", what, p.Name, err)
		}
	}
	return t.add(what, p.Name, p)
}

// Add registers a named policy. Its parts must be known already.
func (g *Registry) Add(r Row) error {
	if err := g.rows.add("policy", r.Name, r); err != nil || r.New != nil {
		return err
	}
	_, err := g.describeParts(r)
	return err
}

// Names returns the names of the policies in order of registration.
func (g *Registry) Names() []string { return slices.Clone(g.rows.names) }

// PartNames returns the names of the implementations of a part: "slots",
// "order", "place" or "speculate".
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

// PartInfo describes a part of a policy for people.
type PartInfo struct {
	Part    string // slots, order, place or speculate; "policy" if not composed
	Name    string
	Summary string
	Paper   string
	Params  []Param
}

// Info describes a policy for people.
type Info struct {
	Name     string // the name, or the composition as given
	Summary  string
	Paper    string
	Parts    []PartInfo
	Profiles []Profile
}

// Describe says what a name or a composition stands for.
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

// describeParts looks the four parts of a row up; the first unknown one is the
// error.
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
		{"slots", s.Name, s.Summary, s.Paper, s.Params},
		{"order", o.Name, o.Summary, o.Paper, o.Params},
		{"place", p.Name, p.Summary, p.Paper, p.Params},
		{"speculate", c.Name, c.Summary, c.Paper, c.Params},
	}, nil
}

// resolve reads a spec: a policy's name, or part=name pairs separated by commas,
// or a name and pairs that replace its parts. Parts not named are those of the
// first policy registered.
func (g *Registry) resolve(spec string) (Row, error) {
	if len(g.rows.names) == 0 {
		return Row{}, errors.New("no policy is registered")
	}
	first, rest, _ := strings.Cut(spec, ",")
	r := g.rows.byName[g.rows.names[0]]
	if strings.Contains(first, "=") {
		rest, r.Profiles = spec, nil
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
		return Row{}, fmt.Errorf("policy %s is not made of parts that could be replaced", r.Name)
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

// set replaces one of the four parts by name; whether there is such an
// implementation is found out later, by describeParts.
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
