package sweep

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
)

// Sensitivity shows what a measure of the policies depends on besides them: the rules by which
// the trace became tasks, and the world. Neither is known exactly, so a conclusion should not
// hinge on one choice.
type Sensitivity struct {
	Cluster   string  `json:"cluster"`
	Autoscale string  `json:"autoscale"`
	Load      float64 `json:"load"`
	Measure   string  `json:"measure"`
	// Assumptions are the rules of import and worlds that are compared.
	Assumptions []string           `json:"assumptions"`
	Policies    []PolicyUnderRules `json:"policies"`
}

// PolicyUnderRules has the means of a policy over the seeds, and its ranks among the policies
// from 1, by assumption. Equal policies share the better rank. A policy without a run has neither.
type PolicyUnderRules struct {
	Policy string     `json:"policy"`
	Means  []*float64 `json:"means"`
	Ranks  []int      `json:"ranks"`
}

// steady reports whether the policy has the same rank under all assumptions, and runs.
func (p *PolicyUnderRules) steady() bool {
	return slices.Min(p.Ranks) == slices.Max(p.Ranks) && p.Ranks[0] > 0
}

// sensitivity makes the tables, or none if the study has one set of rules and one world.
func (r *Result) sensitivity() []Sensitivity {
	groups := make(map[point][]point) // by the other axes
	var order []point
	for _, at := range r.points() {
		key := at
		// What remains is the same place: points of one group differ in assumptions alone.
		key.world, key.imported = "", ""
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], at)
	}
	var all []Sensitivity
	for _, key := range order {
		// One assumption compares with nothing.
		if len(groups[key]) < 2 {
			continue
		}
		for k, name := range r.plan.Spec.Measures {
			m, err := collect.FindMeasure(name)
			if err != nil || m.Better == collect.Neither {
				continue // Read has checked the names
			}
			s := Sensitivity{Cluster: key.cluster, Autoscale: key.autoscale, Load: key.load, Measure: name}
			for i, at := range groups[key] {
				s.Assumptions = append(s.Assumptions, at.assumption(len(r.plan.worlds) > 1))
				s.add(i, k, m, r.means(at))
			}
			all = append(all, s)
		}
	}
	return all
}

// assumption names the rules of import and the world of a point.
func (p point) assumption(worlds bool) string {
	var words []string
	if p.imported != "" {
		words = append(words, p.imported)
	}
	if worlds {
		words = append(words, "world "+p.world)
	}
	return strings.Join(words, ", ")
}

// add adds the k-th measure of the policies under assumption i.
func (s *Sensitivity) add(i, k int, m collect.Measure, list []mean) {
	// A reference would take rank 1 everywhere.
	list = slices.DeleteFunc(list, func(x mean) bool { return x.reference })
	for j, x := range list {
		if i == 0 {
			s.Policies = append(s.Policies, PolicyUnderRules{Policy: x.label})
		}
		// Policies have the same positions at all points, since means lists a failed one, too.
		p := &s.Policies[j]
		v := x.values[k]
		if math.IsNaN(v) {
			p.Means, p.Ranks = append(p.Means, nil), append(p.Ranks, 0)
			continue
		}
		rank := 1
		for _, other := range list {
			// Strictly better ones only, so equal policies share the better rank.
			if o := other.values[k]; o < v && m.Better == collect.Smaller || o > v && m.Better == collect.Larger {
				rank++
			}
		}
		p.Means, p.Ranks = append(p.Means, &v), append(p.Ranks, rank)
	}
}

// title describes a table.
func (s *Sensitivity) title() string {
	return fmt.Sprintf("%s on %s, load %g: value (rank among the policies)", s.Measure, point{cluster: s.Cluster, autoscale: s.Autoscale}.place(), s.Load)
}

// place describes the cluster of a point.
func (p point) place() string {
	if p.autoscale == fixedSize {
		return p.cluster
	}
	return p.cluster + ", autoscale " + p.autoscale
}

// conclusion says which policies keep their ranks.
// Ranks and not values: values differ between worlds anyway, and a reader chooses by the order.
func (s *Sensitivity) conclusion() string {
	var steady []string
	for i := range s.Policies {
		if s.Policies[i].steady() {
			steady = append(steady, s.Policies[i].Policy)
		}
	}
	switch {
	case len(steady) == len(s.Policies):
		return "the order of the policies is the same under all assumptions"
	case len(steady) == 0:
		return "no policy has the same rank under all assumptions"
	}
	return "the same rank under all assumptions: " + strings.Join(steady, ", ")
}

// cells returns a row of the table.
func (p *PolicyUnderRules) cells() []string {
	var cells []string
	for i, v := range p.Means {
		if v == nil {
			cells = append(cells, "-")
		} else {
			cells = append(cells, fmt.Sprintf("%s (%d)", number(*v), p.Ranks[i]))
		}
	}
	return cells
}

// printSensitivity writes the tables for people.
func (r *Result) printSensitivity(w io.Writer) {
	for i := range r.Sensitivity {
		s := &r.Sensitivity[i]
		fmt.Fprintf(w, "\nsensitivity: %s\n", s.title())
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(t, "policy\t%s\t\n", strings.Join(s.Assumptions, "\t"))
		for k := range s.Policies {
			fmt.Fprintf(t, "%s\t%s\t\n", s.Policies[k].Policy, strings.Join(s.Policies[k].cells(), "\t"))
		}
		t.Flush()
		fmt.Fprintln(w, s.conclusion())
	}
}

// sensitivityHTML has the tables as a section of the report.
func (r *Result) sensitivityHTML() g.Node {
	if len(r.Sensitivity) == 0 {
		return nil
	}
	return g.Group{h.H2(g.Text("Sensitivity to the import and the world")), g.Map(r.Sensitivity, func(s Sensitivity) g.Node {
		return g.Group{h.P(g.Text(s.title())),
			h.Table(h.Tr(h.Th(g.Text("policy")), g.Map(s.Assumptions, func(a string) g.Node { return h.Th(g.Text(a)) })),
				g.Map(s.Policies, func(p PolicyUnderRules) g.Node {
					return h.Tr(h.Td(g.Text(p.Policy)), g.Map(p.cells(), func(c string) g.Node { return h.Td(g.Text(c)) }))
				})),
			h.P(g.Text(s.conclusion()))}
	})}
}
