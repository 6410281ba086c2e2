package sched

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Build makes the policy that a name or composition stands for.
func (g *Registry) Build(spec string, opt Options) (Policy, error) {
	r, err := g.resolve(spec)
	if err != nil {
		return nil, err
	}
	info, err := g.Describe(spec)
	if err != nil {
		return nil, err
	}
	if err := checkSettings(info, opt.Set); err != nil {
		return nil, err
	}
	if r.New != nil {
		return r.New(newKit(r.Params, opt))
	}
	return g.compose(r, opt)
}

func (g *Registry) compose(r Row, opt Options) (Policy, error) {
	s, err1 := makePart(g.slots.byName[r.Slots], opt)
	o, err2 := makePart(g.order.byName[r.Order], opt)
	p, err3 := makePart(g.place.byName[r.Place], opt)
	c, err4 := makePart(g.speculate.byName[r.Speculate], opt)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	return Compose(s, o, p, c), nil
}

func makePart[T any](p Part[T], opt Options) (T, error) {
	v, err := p.New(newKit(p.Params, opt))
	if err != nil {
		return v, fmt.Errorf("%s: %w", p.Name, err)
	}
	return v, nil
}

func newKit(params []Param, opt Options) *Kit {
	k := &Kit{Seed: opt.Seed, values: make(map[string]string)}
	for _, p := range params {
		k.values[p.Name] = p.Default
		if v, ok := opt.Set[p.Name]; ok {
			k.values[p.Name] = v
		}
	}
	return k
}

// checkSettings refuses values for parameters that nobody has.
func checkSettings(info Info, set map[string]string) error {
	var known []string
	for _, p := range info.Parts {
		for _, param := range p.Params {
			known = append(known, param.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if !slices.Contains(known, name) {
			return unknown("parameter of "+info.Name, name, known)
		}
	}
	return nil
}

// unknown is the error for a name that does not exist; it names the nearest one
// that does, or else all of them.
func unknown(what, name string, known []string) error {
	best, distance := "", len(name)/2+1
	for _, k := range known {
		if d := editDistance(name, k); d < distance {
			best, distance = k, d
		}
	}
	switch {
	case best != "":
		return fmt.Errorf("unknown %s %q; did you mean %q?", what, name, best)
	case len(known) == 0:
		return fmt.Errorf("unknown %s %q: there are none", what, name)
	}
	return fmt.Errorf("unknown %s %q: must be one of %s", what, name, strings.Join(known, ", "))
}

// editDistance counts the insertions, deletions and replacements of bytes that
// turn a into b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for i := range row {
		row[i] = i
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
