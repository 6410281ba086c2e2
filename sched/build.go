package sched

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slotwise/slotwise/internal/base/suggest"
)

// Build makes a fresh policy. A spec is one of
//
//	fifo                          a policy by name
//	fifo,place=delay              a policy with some of its parts replaced
//	slots=static,order=fair       a composition; the registry's first policy
//	                              supplies the parts that it does not name
//
// Errors quote the unknown or invalid name and suggest the nearest valid one.
func (g *Registry) Build(spec string, opt Options) (Policy, error) { return g.make(spec, opt, false) }

// make is Build. A chosen policy is a candidate of a Chooser and has no candidates itself.
func (g *Registry) make(spec string, opt Options, chosen bool) (Policy, error) {
	// Describe resolves the spec once more: it also serves callers that build nothing, such as slotwise
	// policies.
	r, err := g.resolve(spec)
	if err != nil {
		return nil, err
	}
	info, err := g.Describe(spec)
	if err != nil {
		return nil, err
	}
	// Before the profile: a value that the user gave under an old name must count as given, or the
	// profile would override it.
	if opt.Set, err = unalias(info, opt.Set); err != nil {
		return nil, err
	}
	if opt.Set, err = withProfile(info, opt.Set); err != nil {
		return nil, err
	}
	if err := checkSettings(info, opt.Set); err != nil {
		return nil, err
	}
	// After the check, which must only see what the user has given: a row's values may be for parts
	// that he has replaced.
	opt.Set = withDefaults(info, r.Set, opt.Set)
	opt.utilities, opt.evaluators = g.utilities.byName, g.evaluators.byName
	var p Policy
	// A policy that is one piece gets the registry's Build, for its candidates. Parts do not: a part
	// that built policies would hide them from Describe.
	if r.New != nil {
		kit := NewKit(opt)
		// Without this a candidate could be a policy that chooses, and building one would never
		// end.
		if !chosen {
			kit.build = func(spec string) (Policy, error) {
				return g.make(spec, Options{Seed: opt.Seed, Live: opt.Live}, true)
			}
		}
		p, err = r.New(kit)
	} else {
		p, err = g.compose(r, opt)
	}
	if err != nil || !opt.Live {
		return p, err
	}
	hooks, why := HooksOf(p), ""
	// Outside a simulation these policies would run with sizes of 0, or wait for restarts that
	// never happen, and their results would mean nothing.
	switch {
	case len(hooks.Sizes) > 0:
		why = "needs the sizes of jobs in advance, which only a simulation knows"
	case len(hooks.Restarters) > 0:
		why = "starts jobs again from the beginning, which only a simulation can do"
	default:
		return p, nil
	}
	return nil, fmt.Errorf("policy %s %s: compare other policies with it by slotwise sim, and choose another one here", spec, why)
}

// compose makes the four parts of a row and checks that they fit together.
func (g *Registry) compose(r Row, opt Options) (Policy, error) {
	s, err1 := makePart(g.slots.byName[r.Slots], opt)
	o, err2 := makePart(g.order.byName[r.Order], opt)
	p, err3 := makePart(g.place.byName[r.Place], opt)
	c, err4 := makePart(g.speculate.byName[r.Speculate], opt)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	// Before fit: parts answer whether they fit by what Consult has shown them.
	policy := Compose(s, o, p, c)
	return policy, fit(policy)
}

// fit returns why the composition's parts do not work together, as the Fitters
// among them report it.
func fit(c *Composition) error {
	var errs []error
	for _, part := range flatten(c.Parts()) {
		if f, ok := part.(Fitter); ok {
			errs = append(errs, f.Fit(c.Parts()))
		}
	}
	return errors.Join(errs...)
}

// unalias replaces the aliases among the names in set by the parameters' names.
func unalias(info Info, set map[string]string) (map[string]string, error) {
	out := set
	for _, part := range info.Parts {
		for _, p := range part.Params {
			for _, alias := range p.Aliases {
				v, given := out[alias]
				if !given {
					continue
				}
				if _, twice := out[p.Name]; twice {
					return nil, fmt.Errorf("parameter %s is set twice: %s is another name for it", p.Name, alias)
				}
				// The map belongs to the caller.
				out = maps.Clone(out)
				delete(out, alias)
				out[p.Name] = v
			}
		}
	}
	return out, nil
}

// makePart makes a part. Its errors name the part.
func makePart[T any](p Part[T], opt Options) (T, error) {
	if p.New == nil {
		var none T
		return none, fmt.Errorf("%s: its table entry has no New function", p.Name)
	}
	v, err := p.New(NewKit(opt))
	if err != nil {
		return v, fmt.Errorf("%s: %w", p.Name, err)
	}
	return v, nil
}

// profileSetting is the parameter that selects a profile, for policies that have
// profiles.
const profileSetting = "profile"

// withProfile replaces the parameter "profile" by the values of that profile. It
// skips values of parameters that the policy lacks because a part was replaced.
func withProfile(info Info, set map[string]string) (map[string]string, error) {
	name, given := set[profileSetting]
	if len(info.Profiles) == 0 || !given {
		return set, nil
	}
	// The map belongs to the caller, who may build several policies from it.
	set = maps.Clone(set)
	delete(set, profileSetting)
	// The name is valid even without a profile of that name, so that a script can always state the
	// parameter.
	if name == "default" {
		return set, nil
	}
	known, names := paramNames(info), []string{"default"}
	for _, p := range info.Profiles {
		names = append(names, p.Name)
		if p.Name != name {
			continue
		}
		// The result does not depend on the order. Sorted all the same: the repository's own checks refuse
		// a walk over a map whose order could matter.
		for _, k := range slices.Sorted(maps.Keys(p.Set)) {
			// A value that the user has set beats the profile's.
			if _, own := set[k]; !own && slices.Contains(known, k) {
				set[k] = p.Set[k]
			}
		}
		return set, nil
	}
	return nil, unknown("profile of "+info.Name, name, names)
}

// withDefaults adds the row's values of the policy's parameters that the user has not set.
func withDefaults(info Info, row, set map[string]string) map[string]string {
	if len(row) == 0 {
		return set
	}
	all := maps.Clone(set)
	if all == nil {
		all = make(map[string]string)
	}
	for _, name := range paramNames(info) {
		v, own := row[name]
		if _, given := all[name]; own && !given {
			all[name] = v
		}
	}
	return all
}

// paramNames returns the names of a policy's parameters, without their aliases.
func paramNames(info Info) (names []string) {
	for _, p := range info.Parts {
		for _, param := range p.Params {
			names = append(names, param.Name)
		}
	}
	return names
}

// unknown returns the error for a name that does not exist. It suggests the nearest
// existing name, or lists all names if none is near.
func unknown(what, name string, known []string) error {
	// One name or all names: both together would hide the one that was meant.
	best := suggest.Nearest(name, known)
	switch {
	case best != "":
		return fmt.Errorf("unknown %s %q; did you mean %q?", what, name, best)
	case len(known) == 0:
		return fmt.Errorf("unknown %s %q: there are none", what, name)
	}
	return fmt.Errorf("unknown %s %q: must be one of %s", what, name, strings.Join(known, ", "))
}

// SplitSpecs splits lists of policies at commas. A part with "=" belongs to
// the policy before it, except at the beginning of a list: fifo,fair,place=greedy
// is two policies.
func SplitSpecs(lists ...string) ([]string, error) {
	var out []string
	for _, list := range lists {
		for i, item := range strings.Split(list, ",") {
			item = strings.TrimSpace(item)
			switch {
			case item == "":
				return nil, fmt.Errorf("%q has an empty name", list)
			case i > 0 && strings.Contains(item, "="):
				out[len(out)-1] += "," + item
			default:
				out = append(out, item)
			}
		}
	}
	for i, p := range out {
		if slices.Contains(out[:i], p) {
			return nil, fmt.Errorf("%s: named twice", p)
		}
	}
	return out, nil
}
