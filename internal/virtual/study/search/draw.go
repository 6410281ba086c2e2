package search

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/slotwise/slotwise/sched"
)

// PartNames are the parts of a policy that a search can replace.
var PartNames = []string{"slots", "order", "place", "speculate"}

// Candidate is a policy with the values of parameters that differ from its defaults.
type Candidate struct {
	Policy string            `json:"policy"`
	Set    map[string]string `json:"set,omitempty"`
}

// String returns the policy and its parameters as name=value.
func (c Candidate) String() string { return strings.TrimSpace(c.Policy + " " + Describe(c.Set)) }

// Describe returns parameters as name=value, in the order of names.
func Describe(set map[string]string) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(set)) {
		words = append(words, name+"="+set[name])
	}
	return strings.Join(words, " ")
}

// baseline is the unchanged policy of the problem, with which every search compares.
func (p *Problem) baseline() Candidate { return Candidate{p.Policy, p.Set} }

// draw returns at most n different candidates. The first is the baseline. If parts are
// searched, the named policies follow that a running cluster can have, because each is a
// composition that somebody has thought about. The others draw parts and parameters.
func (p *Problem) draw(n int, parts []string) ([]Candidate, error) {
	// Separate from the simulator's draws: another number of candidates must not change the runs.
	g := rand.New(rand.NewPCG(p.Seed, 0x70e))
	base, err := p.Registry.Describe(p.Policy)
	if err != nil {
		return nil, err
	}
	all := []Candidate{p.baseline()}
	seen := map[string]bool{all[0].String(): true}
	add := func(c Candidate) {
		if key := c.String(); len(all) < n && !seen[key] {
			seen[key] = true
			all = append(all, c)
		}
	}
	if len(parts) > 0 {
		for _, name := range p.Registry.Names() {
			if c, ok := p.fits(name); ok && within(p.Registry, name, base, parts) {
				add(c)
			}
		}
	}
	// Small spaces have fewer candidates than n.
	// A bound, because a small space has fewer than n candidates, and draws repeat.
	for range 50 * n {
		if len(all) == n {
			break
		}
		spec := p.Policy
		if len(parts) > 0 {
			spec = p.drawParts(g, base, parts)
		}
		if c, ok := p.fits(spec); ok {
			add(p.drawParams(g, c))
		}
	}
	if len(all) == 1 {
		return nil, fmt.Errorf("%s has no parameters to tune, and no part that may be replaced", p.Policy)
	}
	return all, nil
}

// drawParts returns a composition. Half of the searched parts stay unchanged, so that single
// replacements are tried.
func (p *Problem) drawParts(g *rand.Rand, base sched.Info, parts []string) string {
	var words []string
	for _, own := range base.Parts {
		name := own.Name
		if names := p.Registry.PartNames(own.Part); slices.Contains(parts, own.Part) && g.IntN(2) == 0 {
			name = names[g.IntN(len(names))]
		}
		words = append(words, own.Part+"="+name)
	}
	return strings.Join(words, ",")
}

// drawParams returns a candidate with drawn values of the parameters that list values to try.
func (p *Problem) drawParams(g *rand.Rand, c Candidate) Candidate {
	c.Set = maps.Clone(c.Set)
	if c.Set == nil {
		c.Set = make(map[string]string)
	}
	info, err := p.Registry.Describe(c.Policy)
	if err != nil {
		return c // fits has described it
	}
	for _, part := range info.Parts {
		for _, x := range part.Params {
			// The user's own settings are not searched.
			if _, fixed := c.Set[x.Name]; len(x.Tune) < 2 || fixed {
				continue
			}
			// Half of the parameters keep their defaults, so that single changes are tried.
			if v := x.Tune[g.IntN(len(x.Tune))]; g.IntN(2) == 0 && v != x.Default {
				c.Set[x.Name] = v
			}
		}
	}
	return c
}

// fits returns a policy with those fixed parameters of the problem that it has. It reports
// false if its parts do not go together, or if a running cluster could not have it.
func (p *Problem) fits(spec string) (Candidate, bool) {
	info, err := p.Registry.Describe(spec)
	if err != nil {
		return Candidate{}, false
	}
	c := Candidate{Policy: spec, Set: make(map[string]string)}
	for _, part := range info.Parts {
		for _, x := range part.Params {
			for _, name := range append([]string{x.Name}, x.Aliases...) {
				if v, fixed := p.Set[name]; fixed {
					c.Set[x.Name] = v
				}
			}
		}
	}
	if spec == p.Policy {
		c = p.baseline() // with its profile
	}
	// The policy of the problem may be a reference.
	_, err = p.Registry.Build(spec, sched.Options{Set: c.Set, Live: spec != p.Policy})
	return c, err == nil
}

// within reports whether a named policy differs from the base in searched parts only.
func within(g *sched.Registry, name string, base sched.Info, parts []string) bool {
	info, err := g.Describe(name)
	if err != nil || len(info.Parts) != len(base.Parts) {
		return false
	}
	for i, x := range info.Parts {
		if x.Name != base.Parts[i].Name && !slices.Contains(parts, x.Part) {
			return false
		}
	}
	return true
}
